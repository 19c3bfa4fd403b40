"""What brokers answer while settings change: an append is acknowledged when enough logs have it, and refused when not.

Each answer is looked at as it is sent. The laws are in the docstring of `setting_laws`: Enough Replicas, and for the
heartbeats of a consumer group Settings in Force. A request may wait for its answer while settings change. Then those
that held when it came count as well as those that hold when it is answered, and what held in between.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicIdPartition, TopicPartition
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.data import ProduceRequest, ProduceResponse
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from pykraft.records.batch import RecordBatch, batches
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.progress import Progress
from pykraft.sim.laws.setting_laws import demanded, heartbeat_interval
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from pykraft.transport.server_connection import Answer, QueuedRequest

ALL = -1
_READ_BYTES = 1 << 20
_REFUSED = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

Batch = tuple[int, int, int]
"""Producer id, producer epoch and first sequence number: no other batch of a log has the same."""


@dataclass
class Asked:
    """What is known of a request that was not answered yet."""

    image: MetadataImage
    """That of the node when the request came."""
    batch: Batch | None = None
    """The first one for the topic that is watched."""
    end: int = 0
    """Where the log ended when the request came."""
    last_offset: int = 0
    """How many offsets the request takes, less one."""
    images: list[MetadataImage] = field(default_factory=list)
    """Those that the node has had since."""


class AnswerLaws:
    """The laws of one run; `topic` is the one whose appends are watched. It has one partition, and its producers write
    to no other topic."""

    def __init__(
        self,
        topic: str,
        group_id: str,
        ends: Callable[[TopicIdPartition], Mapping[int, int]],
        progress: Progress,
    ) -> None:
        """`ends` gives where the logs of a partition end, also those of dead brokers. One that is starting, or has lost
        its power, has what it had: it is not among them."""
        self._place = TopicPartition(topic, 0)
        self._group_id = group_id
        self._ends = ends
        self._progress = progress
        self._asked: dict[tuple[int, int], dict[int, Asked]] = {}

    def watch(self, machine: SimulatedNode) -> None:
        """See the requests and the answers of this node."""
        laws, beside = self, machine.on_request

        def see(queued: QueuedRequest) -> None:
            laws.see_request(machine, queued)
            if beside is not None:
                beside(queued)

        class Watched(machine.connection_class):  # type: ignore[name-defined, misc]
            """A connection of this node whose answers the laws see as they are sent."""

            def respond(self, request: QueuedRequest, answer: Answer) -> QueuedRequest | None:
                if self.is_open and machine.node is not None:
                    laws.see_answer(machine, request, answer)
                return super().respond(request, answer)  # type: ignore[no-any-return]

        machine.on_request = see
        machine.connection_class = Watched

    def look(self, machine: SimulatedNode) -> None:
        """The node has another image, perhaps."""
        asked = self._asked.get((machine.node_id, machine.life))
        if asked and machine.node is not None:
            image = machine.node.loader.image
            for each in asked.values():
                if each.images[-1] is not image:
                    each.images.append(image)

    # --- requests -----------------------------------------------------------------------------------------------------

    def see_request(self, machine: SimulatedNode, queued: QueuedRequest) -> None:
        message: Any = queued.inbound.message
        if machine.node is None or machine.node.broker is None:
            return
        image = machine.node.loader.image
        if isinstance(message, ConsumerGroupHeartbeatRequest) and message.group_id == self._group_id:
            asked = Asked(image, images=[image])
        elif isinstance(message, ProduceRequest) and message.acks == ALL:
            found = self._batch_of(message, image)
            partition = machine.node.broker.replicas.partitions.get(self._place)
            if found is None or partition is None:
                return
            batch, count = found
            asked = Asked(image, batch, partition.log.log_end_offset, count - 1, [image])
        else:
            return
        self._asked.setdefault((machine.node_id, machine.life), {})[id(queued)] = asked

    def _batch_of(self, message: ProduceRequest, image: MetadataImage) -> tuple[Batch, int] | None:
        """The first batch for the watched topic, and how many records all have."""
        topic_id = image.topic_ids.get(self._place.topic)
        for topic in message.topic_data:
            if topic.topic_id == topic_id or topic.name == self._place.topic:
                data = topic.partition_data[0].records
                found = list(batches(memoryview(bytes(data)))) if data else []
                if found:
                    return _identity(found[0]), sum(batch.last_offset_delta + 1 for batch in found)
        return None

    # --- answers ------------------------------------------------------------------------------------------------------

    def see_answer(self, machine: SimulatedNode, queued: QueuedRequest, answer: Answer) -> None:
        asked = self._asked.get((machine.node_id, machine.life), {}).pop(id(queued), None)
        assert machine.node is not None
        if asked is None or machine.node.broker is None:
            return
        images, response = [*asked.images, machine.node.loader.image], answer.response
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            if not response.error_code and response.member_epoch >= 0:  # else the member has left
                self._check_heartbeat(machine, response, images)
        elif isinstance(response, ProduceResponse):
            self._check_append(machine, response, asked, images)

    def _check_heartbeat(
        self, machine: SimulatedNode, response: ConsumerGroupHeartbeatResponse, images: list[MetadataImage]
    ) -> None:
        held = {heartbeat_interval(machine, self._group_id, image) for image in images}
        require(
            response.heartbeat_interval_ms in held,
            f"node {machine.node_id} tells {response.member_id} to send a heartbeat every "
            f"{response.heartbeat_interval_ms} ms; the metadata say {sorted(held)}",
        )

    def _check_append(
        self, machine: SimulatedNode, response: ProduceResponse, asked: Asked, images: list[MetadataImage]
    ) -> None:
        assert machine.node is not None and machine.node.broker is not None
        partition = machine.node.broker.replicas.partitions.get(self._place)
        (answered,) = response.responses[0].partition_responses
        error = ErrorCode.of(answered.error_code)
        if partition is None:
            return
        key, log = partition.key, partition.log
        wanted = [demanded(machine, key, image) for image in images]
        where = f"{self._place}: node {machine.node_id} has answered {error.name}"
        if error is ErrorCode.NONE and answered.base_offset >= 0:
            self._check_copies(where, key, answered.base_offset + asked.last_offset + 1, min(wanted), images[-1])
        elif error in _REFUSED:
            self._progress.appends_refused += 1
            in_sync = len(partition.isr_state.isr)
            require(in_sync < max(wanted), f"{where}, and {in_sync} of {max(wanted)} replicas are in sync")
            is_there = asked.batch in _identities(log, asked.end)
            if error is ErrorCode.NOT_ENOUGH_REPLICAS:
                require(not is_there, f"{where}, and has appended the batch {asked.batch}")
            else:
                is_there = is_there or asked.batch in _identities(log, log.log_start_offset)
                require(is_there, f"{where}, and its log has no batch {asked.batch}")

    def _check_copies(self, where: str, key: TopicIdPartition, end: int, wanted: int, image: MetadataImage) -> None:
        registration, ends = image.partition(key.topic_id, key.partition), self._ends(key)
        replicas = () if registration is None else registration.replicas
        lacking = {replica: ends[replica] for replica in replicas if ends.get(replica, end) < end}
        require(
            len(replicas) - len(lacking) >= wanted,
            f"{where}, up to offset {end}; {wanted} of the replicas {replicas} are demanded, and the logs of some end "
            f"before: {lacking}",
        )


def _identity(batch: RecordBatch) -> Batch:
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


def _identities(log: UnifiedLog, first: int) -> set[Batch]:
    """The batches of a log from this offset on."""
    found = set()
    while first < log.log_end_offset:
        region = log.read(first, _READ_BYTES, Isolation.LOG_END, at_least_one=True).records
        data = region if isinstance(region, bytes) else region.read(0, len(region))
        for batch in batches(memoryview(data)):
            found.add(_identity(batch))
            first = batch.next_offset
    return found
