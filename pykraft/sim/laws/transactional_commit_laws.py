"""The law of offsets that a transaction commits for a member of a consumer group: the member is in the epoch it names.

A copier reads as a member, and its producer commits the offsets with the member's id and epoch (KIP-447). If the group
has taken a partition away meanwhile, the member's epoch is another one, and the commit must be refused: the next owner
has begun to copy the same records.

Each request and each answer is looked at on the coordinator. A request may wait there, for the transaction's
coordinator to say that the partition is in the transaction, and its member may change its epoch while it waits. So a
commit that is not refused must have been right at one moment between the two: when it came, when another request came,
or at the end of a turn.
"""

from collections.abc import Iterable
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.progress import Progress
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.transport.server_connection import Answer, QueuedRequest


class _Asked:
    """A commit that was not answered yet."""

    def __init__(self, request: TxnOffsetCommitRequest) -> None:
        self.request = request
        self.epochs: set[int] = set()
        """Those that its member has had on this coordinator since it came."""
        self.is_of_member = False
        """The group is a consumer group, and the request names a member."""

    def look(self, broker: Broker) -> None:
        request = self.request
        for group in groups_named(broker, request.group_id):
            if request.member_id and isinstance(group, ConsumerGroup):
                self.is_of_member = True
                member = group.members.get(request.member_id)
                if member is not None and not member.uses_classic_protocol:
                    self.epochs.add(member.member_epoch)


def groups_named(broker: Broker, group_id: str) -> Iterable[Any]:
    """The group, if this broker coordinates it."""
    runtime = broker.groups.runtime
    shards = (runtime.active(number).groups for number in runtime.active_partitions())
    return [groups[group_id] for groups in shards if group_id in groups]


class TransactionalCommitLaws:
    """The law of one run."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._asked: dict[tuple[int, int], dict[int, _Asked]] = {}

    def watch(self, machine: SimulatedNode) -> None:
        """See the requests and the answers of this node."""
        laws, beside = self, machine.on_request

        def see(queued: QueuedRequest) -> None:
            laws._see_request(machine, queued)
            if beside is not None:
                beside(queued)

        class Watched(machine.connection_class):  # type: ignore[name-defined, misc]
            """A connection of this node whose answers the law sees as they are sent."""

            def respond(self, request: QueuedRequest, answer: Answer) -> QueuedRequest | None:
                laws._see_answer(machine, request, answer)
                return super().respond(request, answer)  # type: ignore[no-any-return]

        machine.on_request = see
        machine.connection_class = Watched

    def look(self, machine: SimulatedNode) -> None:
        """A turn of this node is over, or a request is about to be handled."""
        asked = self._asked.get((machine.node_id, machine.life))
        if asked and machine.node is not None and machine.node.broker is not None:
            for each in asked.values():
                each.look(machine.node.broker)

    def _see_request(self, machine: SimulatedNode, queued: QueuedRequest) -> None:
        message: Any = queued.inbound.message
        if isinstance(message, TxnOffsetCommitRequest):
            self._asked.setdefault((machine.node_id, machine.life), {})[id(queued)] = _Asked(message)
        self.look(machine)

    def _see_answer(self, machine: SimulatedNode, queued: QueuedRequest, answer: Answer) -> None:
        asked = self._asked.get((machine.node_id, machine.life), {}).pop(id(queued), None)
        response: Any = answer.response
        if asked is None or not isinstance(response, TxnOffsetCommitResponse) or machine.node is None:
            return
        if asked.is_of_member:
            errors = {part.error_code for topic in response.topics for part in topic.partitions}
            self._check(machine.node_id, asked, errors)

    def _check(self, node_id: int, asked: _Asked, errors: set[int]) -> None:
        request, epochs = asked.request, asked.epochs
        if 0 in errors:
            self._progress.member_commits += 1
            require(
                request.generation_id_or_member_epoch in epochs,
                f"node {node_id} takes offsets of {request.member_id} in {request.group_id} in epoch "
                f"{request.generation_id_or_member_epoch}, which was in {sorted(epochs)}",
            )
        elif errors:
            self._progress.member_commits_refused += 1
