"""What parts of a broker would do, were an answer lost or a log truncated just now: supposed when a history has ended.

* *Directories.* A broker tells in which directory a replica is until the metadata say so, whatever it is answered. The
  copy of a log that moves is truncated with the log.
* *In-sync replicas.* A leader that is not answered, or with an error of the controller, does not know whether the ISR
  has changed: it goes on to wait for all that may be in it.
* *Fetch sessions.* A change of the high watermark or of the log start is news, also without a record.
* *Offsets.* A transaction that commits an offset late does not undo a commit that came after it.

Follows org.apache.kafka.server.{AssignmentsManager,FetchSession}, kafka.server.ReplicaAlterLogDirsThread,
kafka.cluster.Partition and org.apache.kafka.coordinator.group.OffsetMetadataManager.
"""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.broker.replication.directory_assignments import RETRY_BACKOFF_MS
from pykraft.broker.replication.directory_moves import Move
from pykraft.broker.replication.fetching import FetchPlace, FetchResult
from pykraft.broker.replication.partition import IsrChange, IsrProposal, IsrState, Partition
from pykraft.broker.requests.data.fetch_sessions import CachedPartition, Wanted
from pykraft.common.errors import ErrorCode
from pykraft.common.rooms import Room
from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.group.offsets import OffsetStore
from pykraft.protocol.messages.brokers import AlterPartitionResponse, AssignReplicasToDirsRequest
from pykraft.protocol.messages.coordinators import OffsetCommitKey, OffsetCommitValue
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.hosts import SimulatedNode

_PLACE = Uuid(b"a-log-directory!")
_PRODUCER = 1 << 40


def check_supposed_brokers(machines: Mapping[int, SimulatedNode]) -> None:
    """Suppose all of it, of every broker. They have settled."""
    for node_id, machine in machines.items():
        broker = None if machine.node is None else machine.node.broker
        if broker is None:
            continue
        name, now = f"node {node_id}", machine.scheduler.now
        led = [each for _, each in sorted(broker.replicas.partitions.items()) if each.is_leader]
        for partition in led[:1]:
            _check_told_again(name, broker, partition, now)
            _check_unanswered(name, broker, partition, now)
            _check_news(name, partition)
        for place, partition in sorted(broker.replicas.partitions.items())[:1]:
            _check_copy_truncated(name, broker, place, partition)
        for number in broker.groups.runtime.active_partitions():
            for group_id in broker.groups.runtime.active(number).offsets.groups()[:1]:
                _check_late_commit(f"{name}, group {group_id}", group_id)


class _Heard:
    """Stands in for the channel to the controller: notes what is sent, and answers when it is asked to."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.answer: Callable[[object, int], None] = lambda response, now: None

    def send(self, request: object, on_answer: Callable[[object, int], None], now: int) -> None:
        self.sent.append(request)
        self.answer = on_answer


def _check_told_again(name: str, broker: Broker, partition: Partition, now: int) -> None:
    twin, heard = copy(broker._directories), _Heard()
    twin.room, twin._channel = Room("supposed"), heard  # type: ignore[assignment]
    place = partition.key.topic_id, partition.key.partition
    twin._untold, twin._in_flight, twin._next = {place: _PLACE}, False, now
    for answer in (None, object(), None):
        before = len(heard.sent)
        twin.poll(now)
        told = [_told(request) for request in heard.sent[before:]]
        require(
            told == [[(*place, _PLACE)]],
            f"{name} has {partition} in {_PLACE}, and the metadata name another directory; after {before} answers it "
            f"tells the controller {told}",
        )
        heard.answer(answer, now)
        now += RETRY_BACKOFF_MS


def _told(request: AssignReplicasToDirsRequest) -> list[tuple[Uuid, int, Uuid]]:
    return [
        (topic.topic_id, part.partition_index, directory.id)
        for directory in request.directories
        for topic in directory.topics
        for part in topic.partitions
    ]


class _Copy:
    """Stands in for the copy of a log, and notes where it is truncated to."""

    is_closed = False

    def __init__(self, end_offset: int) -> None:
        self.log_end_offset = end_offset

    def truncate_to(self, offset: int) -> None:
        self.log_end_offset = offset

    truncate_fully = truncate_to


def _check_copy_truncated(name: str, broker: Broker, place: TopicPartition, partition: Partition) -> None:
    moves, log = broker.moves.moves, partition.log
    manager = broker.logs.manager_of(place)
    if manager is None or place in moves:
        return
    future: Any = _Copy(log.log_end_offset + 1)
    moves[place] = Move(partition.key, manager, future)
    try:
        manager.on_truncated(log)
    finally:
        del moves[place]
    require(
        future.log_end_offset == log.log_end_offset,
        f"{name}, {place}: were it truncated to {log.log_end_offset} while it moves, its copy would end at "
        f"{future.log_end_offset}",
    )


def _check_unanswered(name: str, broker: Broker, partition: Partition, now: int) -> None:
    manager = copy(broker.replicas._alter_partition)
    twin = copy(partition)
    wanted = frozenset({*partition.isr_state.isr, _PRODUCER})
    twin.isr_state = IsrState(partition.isr_state.isr, IsrChange.EXPANDING, wanted)
    proposal = IsrProposal(twin, twin.leader_epoch, twin.partition_epoch, ())
    for error in (None, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR):
        manager._pending = {}
        answer_type = AlterPartitionResponse.Topic.Partition
        answer = None if error is None else answer_type(partition_index=0, error_code=error, isr=[])
        manager._settle(proposal, answer, now)
        require(
            twin.isr_state.maximal == wanted,
            f"{name}, {partition}: were it to ask for an ISR with one more replica, and be answered {error}, it would "
            f"wait for {sorted(twin.isr_state.maximal)} only, and the controller may have changed it",
        )


def _check_news(name: str, partition: Partition) -> None:
    high_watermark, start = partition.log.high_watermark, partition.log.log_start_offset
    epoch, known = partition.leader_epoch, Wanted(partition=0, fetch_offset=0, partition_max_bytes=1)
    place = FetchPlace(partition.topic_partition, 0, 1, epoch, epoch)
    for what, at, begin in (("high watermark", high_watermark + 1, start), ("log start", high_watermark, start + 1)):
        result = FetchResult(place, high_watermark=at, log_start_offset=begin)
        is_news = CachedPartition(known, high_watermark, start).note(result)
        require(
            is_news, f"{name}, {partition}: were its {what} to rise, a follower with a session would not hear of it"
        )


def _check_late_commit(name: str, group_id: str) -> None:
    store, late = OffsetStore(), TopicPartition("supposed", 0)
    _commit(store, group_id, late, 5, _PRODUCER)
    _commit(store, group_id, late, 9, -1)
    store.replay_marker(_PRODUCER, is_commit=True)
    found = store.of(group_id)[late].offset
    require(
        found == 9,
        f"{name}: were 5 committed in a transaction, then 9 without one, and did the transaction end then, the offset "
        f"would be {found}",
    )


def _commit(store: OffsetStore, group_id: str, place: TopicPartition, offset: int, producer_id: int) -> None:
    key = OffsetCommitKey(group=group_id, topic=place.topic, partition=place.partition)
    store.replay(key, OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0), producer_id)
