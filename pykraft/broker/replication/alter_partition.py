"""Asking the controller to change ISRs: all changes that come up while one request is on its way go into the next.

An answer that a change was refused tells that nothing has changed. An answer that never came tells nothing: the change
may be made or not, so the same is asked again, until the controller answers or the metadata log shows another state.
Before it is asked again there is a pause: a controller that does not know this broker's registration yet answers at
once, and would be asked at once.

"The same" is meant to the letter: the proposal that was sent, with the broker epochs that it had. Suppose the leader
read the epochs again. A follower that was in sync loses its power, registers as a new process and fetches from offset
0. The retry would name that process; the controller would find its epoch right and take it into the ISR; if the leader
then stops, the follower is elected without the records.

A smaller ISR that the controller agrees to holds from the moment at which the metadata log tells it. The answer may be
faster than a larger ``min.insync.replicas`` that the controller knew when it agreed, and by which it keeps the replica
that leaves as an eligible leader (KIP-966). By the smaller one the leader would commit what that replica does not have.
(Kafka goes by the answer.)

Follows kafka.server.AlterPartitionManager (KIP-497).
"""

from collections.abc import Callable, Sequence
from itertools import groupby

from pykraft.broker.replication.partition import IsrChange, IsrProposal, Partition
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.errors import ErrorCode
from pykraft.common.timer import Timer
from pykraft.common.types import TopicIdPartition
from pykraft.protocol.messages.brokers import AlterPartitionRequest, AlterPartitionResponse

_REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""Errors after which the ISR is sure to be as it was. After others the metadata log will tell."""

_RETRY = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR)

RETRY_BACKOFF_MS = 50
MAX_PROPOSALS = 2000
"""This many changes go into one request: a controller reads no request of more than 20,000 elements."""


class AlterPartitionManager:
    """The ISR changes of this broker that are not decided."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        channel: ControllerChannel,
        on_high_watermark: Callable[[Partition], None],
        timer: Timer,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._on_high_watermark = on_high_watermark
        self._timer = timer
        self._pending: dict[TopicIdPartition, IsrProposal] = {}
        self._in_flight = False
        self._backoff_until = 0

    def submit(self, proposal: IsrProposal, now: int) -> None:
        """Ask for this change, soon."""
        self._pending[proposal.partition.key] = proposal
        self._send(now)

    def _send(self, now: int) -> None:
        if self._in_flight or not self._pending or now < self._backoff_until:
            return
        proposals = [self._pending.pop(key) for key in sorted(self._pending)[:MAX_PROPOSALS]]
        self._in_flight = True
        request = self._request(proposals)
        self._channel.send(request, lambda response, then: self._on_response(proposals, response, then), now)

    def _request(self, proposals: Sequence[IsrProposal]) -> AlterPartitionRequest:
        topic_type = AlterPartitionRequest.Topic
        topics = []
        for topic_id, group in groupby(proposals, key=lambda proposal: proposal.partition.key.topic_id):
            partitions = [
                topic_type.Partition(
                    partition_index=proposal.partition.key.partition,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    new_isr=[replica for replica, _ in proposal.isr],
                    new_isr_with_epochs=[
                        topic_type.Partition.BrokerState(broker_id=replica, broker_epoch=epoch)
                        for replica, epoch in proposal.isr
                    ],
                )
                for proposal in group
            ]
            topics.append(topic_type(topic_id=topic_id, partitions=partitions))
        return AlterPartitionRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=topics)

    def _on_response(self, proposals: Sequence[IsrProposal], response: AlterPartitionResponse | None, now: int) -> None:
        self._in_flight = False
        answers = {}
        if response is not None and not response.error_code:
            answers = {
                (topic.topic_id, answer.partition_index): answer
                for topic in response.topics
                for answer in topic.partitions
            }
        keys = [(proposal.partition.key.topic_id, proposal.partition.key.partition) for proposal in proposals]
        settled = [self._settle(proposal, answers.get(key), now) for proposal, key in zip(proposals, keys, strict=True)]
        if not all(settled):
            self._backoff_until = now + RETRY_BACKOFF_MS
            self._timer.at(self._backoff_until, self._send)
        self._send(now)

    def _settle(self, proposal: IsrProposal, answer: AlterPartitionResponse.Topic.Partition | None, now: int) -> bool:
        """Do what the answer says; False if the same must be asked again."""
        partition = proposal.partition
        is_current = (
            partition.is_leader  # a replica that was given up is not, and another one may have its key by now
            and partition.isr_state.is_in_flight
            and partition.leader_epoch == proposal.leader_epoch
            and partition.partition_epoch == proposal.partition_epoch
        )
        if not is_current:
            return True  # the metadata log was faster
        error = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else ErrorCode.of(answer.error_code)
        if error is ErrorCode.NONE and answer is not None:
            if answer.leader_epoch != proposal.leader_epoch:
                return True  # the same change began another leader epoch: the metadata log will tell all of it
            if partition.isr_state.change is IsrChange.SHRINKING:
                return True  # so it will of a smaller ISR, and before that of the settings that it was decided by
            if partition.accept_isr(frozenset(answer.isr), answer.partition_epoch, now):
                self._on_high_watermark(partition)
        elif error in _REFUSED:
            partition.reject_isr()
        elif error in _RETRY:
            self._pending[partition.key] = proposal
            return False
        return True
