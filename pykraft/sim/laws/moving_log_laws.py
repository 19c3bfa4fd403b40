"""The laws of logs that are shortened from their beginning, and compacted, while everything else goes on.

*Of log starts* (a log start is the first offset that a replica serves):

* A log start is not above the replica's high watermark.
* It goes back only with a truncation, and no crash brings back a segment that was deleted, nor takes one.
  (DeleteRecords within a segment may be undone by a crash of all replicas, in Kafka as well: the mark is written from
  time to time.)
* It rises for a reason: an administrator asked for that offset; or the leader's log begins there; or what went was
  older than ``retention.ms``, or what is left is as large as ``retention.bytes``, where ``cleanup.policy`` has
  ``delete``.
* A follower may begin later than its leader, for each replica applies retention by its own clock and to its own
  segments; so Kafka promises nothing there. It does not begin earlier for long: once all is quiet, not at all.
* A replica whose log ends below its leader's start begins again there, and keeps nothing.
* A DeleteRecords that is acknowledged has reached every replica that was alive all the time.

*Of compaction*: what `moving_log.RecordsOfLog` says. Nothing that is not stable, in any replica, is touched. What the
index of aborted transactions tells a reader of committed data hides the records of aborted transactions, and no others.

*Of readers*: a reader sees the records of each partition in order. Those that it does not see are below a log start, or
may be gone; so it sees of each key the newest record. With ``read_committed`` it sees no record of a transaction that
was aborted, or is not decided.

*Of producers*: what a log knows of a producer is what all that was ever appended says. It may have forgotten one that
was silent for ``producer.id.expiration.ms``, or that wrote nothing after the log start.

*Of coordinators*: a shard that was loaded from a compacted log is the one that all that was ever committed gives.

The clocks of two nodes may differ, and a delete horizon that one of them has set holds for the other. So times are
compared with that much to spare.

Follows UnifiedLog.{maybeIncrementLogStartOffset,deletableSegments}, LogCleanerManager.cleanableOffsets and
ProducerStateManager.truncateAndReload.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.broker.replication.partition import Partition
from pykraft.common.settings.topic_config import CLEANUP_POLICY, DELETE_RETENTION_MS, RETENTION_BYTES, RETENTION_MS
from pykraft.common.types import TopicIdPartition, TopicPartition
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.metadata.image import MetadataImage
from pykraft.records.batch import RecordBatch
from pykraft.records.markers import read_marker
from pykraft.records.record import Record
from pykraft.sim.laws.invariants import PartitionHistory, ReplicaLog, Violation, require
from pykraft.sim.laws.moving_log import MovingReplicaLog, RecordsOfLog, batches_of, check_part, is_part_of
from pykraft.sim.laws.progress import Progress
from pykraft.sim.laws.replay_laws import COORDINATED, check_shard
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import ProducerEntry, ProducerStateManager

SHORTENED = "shortened"
"""The topic whose policy is ``delete`` at first."""
COMPACTED = "compacted"
MOVING_TOPICS = frozenset((SHORTENED, COMPACTED, GROUP_TOPIC, TRANSACTION_TOPIC))
_NEVER = 1 << 62
_TO_FOLLOW_MS = 1_500
"""Once all is quiet a follower begins where its leader does after this long, at the latest: retention goes on."""


class DeletionAsked:
    """A DeleteRecords that is under way: who was alive when it was asked for."""

    def __init__(self, alive: Mapping[int, int], image_offset: int) -> None:
        self.alive = alive
        """The brokers, and which life of each it was."""
        self.image_offset = image_offset


class _MovingLog:
    """What is known of one partition besides its history."""

    def __init__(self, name: str) -> None:
        self.records = RecordsOfLog(name)
        self.asked_up_to = 0
        """No DeleteRecords has named a higher offset."""
        self.asked_at_high_watermark = False
        """One that named the high watermark may still arrive."""
        self.start_of_leaders = 0
        """No leader's log has begun later."""
        self.leaders_starts: list[tuple[int, int]] = []
        """When that rose, and to what."""
        self.latest_start = 0
        """No replica's has."""
        self.stable = 0
        """No replica's last stable offset was higher."""
        self.was_compacted = self.was_shortened = False
        """Whether its policy was ever that."""


class MovingLogLaws:
    """Checks the laws as a run goes on."""

    def __init__(
        self,
        nodes: Mapping[int, SimulatedNode],
        skew_ms: int,
        now: Callable[[], int],
        progress: Progress,
        transaction_version: int,
    ) -> None:
        """`skew_ms` is how much the clocks of two nodes may differ."""
        self.transaction_version = transaction_version
        self._nodes = nodes
        self._skew_ms = skew_ms
        self._now = now
        self._progress = progress
        self._logs: dict[TopicIdPartition, _MovingLog] = {}
        self._starts: dict[tuple[int, TopicIdPartition], tuple[int, int]] = {}
        """Where the first segment of each replica began, and its log start."""
        self._fenced_at: dict[int, int] = {}
        """By broker: the newest image in which it was fenced."""

    @staticmethod
    def covers(topic: str) -> bool:
        return topic in MOVING_TOPICS

    def of(self, key: TopicIdPartition) -> _MovingLog:
        found = self._logs.get(key)
        if found is None:
            found = self._logs[key] = _MovingLog(str(key.topic_partition))
        return found

    def note_image(self, image: MetadataImage) -> None:
        for broker_id, broker in image.brokers.items():
            if broker.fenced:
                self._fenced_at[broker_id] = image.provenance.offset

    # --- after each event ---------------------------------------------------------------------------------------------

    def look(
        self, machine: SimulatedNode, partition: Partition, history: PartitionHistory, replica: ReplicaLog
    ) -> None:
        """A replica as it is now; what is committed is known by now."""
        assert isinstance(replica, MovingReplicaLog)
        log = partition.log
        moving = self.of(partition.key)
        start, high_watermark = log.log_start_offset, log.high_watermark
        policy = log.config[CLEANUP_POLICY]
        moving.was_compacted |= "compact" in policy
        moving.was_shortened |= "delete" in policy
        if moving.stable < high_watermark:
            moving.stable = max(moving.stable, log.last_stable_offset)
        if start > high_watermark:
            raise Violation(f"{replica.name} begins at {start}, above its high watermark {high_watermark}")
        is_same = replica.log_start is not None and replica.seen_truncations == log.truncations
        if not is_same and not log.segments:
            return  # the node ends in the middle of a truncation
        if not is_same or start != replica.log_start:
            self._check_start(machine, partition, replica, moving, is_same)
        moving.latest_start = max(moving.latest_start, start)
        if partition.is_leader and start > moving.start_of_leaders:
            moving.start_of_leaders = start
            moving.leaders_starts.append((self._now(), start))
        moving.records.take(history.log, self._now())
        assert machine.node is not None and machine.node.broker is not None
        passes = [cleaner.last for cleaner in machine.node.broker.logs.cleaners if cleaner.last is not None]
        last = next((each for each in passes if each.log is log), None)
        was_cleaned = last is not None and last is not replica.cleaned
        if was_cleaned or not is_same:
            replica.cleaned = last if was_cleaned else replica.cleaned
            self._progress.logs_cleaned += was_cleaned
            self.check_content(machine, log, replica, moving)

    def _check_start(
        self, machine: SimulatedNode, partition: Partition, replica: MovingReplicaLog, moving: _MovingLog, is_same: bool
    ) -> None:
        log, key = partition.log, (machine.node_id, partition.key)
        start = log.log_start_offset
        if is_same:
            assert replica.log_start is not None
            require(
                start > replica.log_start, f"{replica.name}: its log start goes back to {start}, without a truncation"
            )
            self._progress.partition_starts_moved += 1
            self._check_reason(machine, log, replica, moving)
        else:
            if replica.log_start is None and key in self._starts:
                base, replica.log_start = self._starts[key]
                is_back = log.base_offset < base and not log.is_empty
                require(not is_back, f"{replica.name} begins at {start}: what it had deleted up to {base} is back")
            if replica.log_start is not None and start > replica.log_start:
                self._check_reason(machine, log, replica, moving)
        replica.log_start, replica.seen_truncations = start, log.truncations
        self._starts[key] = log.base_offset, start

    def _check_reason(
        self, machine: SimulatedNode, log: UnifiedLog, replica: MovingReplicaLog, moving: _MovingLog
    ) -> None:
        """Why what was before the log start is gone."""
        start = log.log_start_offset
        if moving.asked_at_high_watermark or start <= max(moving.asked_up_to, moving.start_of_leaders):
            return
        assert replica.log_start is not None
        retention_ms, retention_bytes = log.config[RETENTION_MS], log.config[RETENTION_BYTES]
        is_large = retention_bytes >= 0 and (log.size >= retention_bytes or moving.was_compacted)
        youngest_ms = machine.time_ms() - retention_ms
        numbers = range(bisect_right(replica.ends, replica.log_start), bisect_right(replica.ends, start))
        young = [
            number for number in numbers if RecordBatch(memoryview(replica.data[number])).max_timestamp >= youngest_ms
        ]
        require(
            moving.was_shortened and (is_large or (retention_ms >= 0 and not young)),
            f"{replica.name} begins at {start} instead of {replica.log_start}, and neither retention nor DeleteRecords "
            f"is the reason: retention.ms={retention_ms}, retention.bytes={retention_bytes}, {log.size} bytes are left",
        )

    # --- what is in a log ---------------------------------------------------------------------------------------------

    def check_content(
        self, machine: SimulatedNode, log: UnifiedLog, replica: MovingReplicaLog, moving: _MovingLog
    ) -> None:
        """Read a replica's log: what is not there may be gone, and all else is as it was."""
        log_start, present = log.log_start_offset, set[int]()
        stable = max(moving.stable, log.last_stable_offset)
        retention_ms = log.config[DELETE_RETENTION_MS] - self._skew_ms
        markers: list[int] = []
        expected = bisect_right(replica.ends, log_start)
        for batch in batches_of(log, log_start):
            number = replica.at(batch.base_offset)
            require(number is not None, f"{replica.name} has {batch}, which was never appended there")
            assert number is not None
            for gone in range(expected, number):
                self._note_gone(
                    RecordBatch(memoryview(replica.data[gone])), None, log_start, replica, stable, moving, markers
                )
            expected = number + 1
            known = replica.data[number]
            if known == batch.buffer:
                if batch.is_transactional and not batch.is_control:
                    present.update(range(batch.base_offset, batch.next_offset))
                continue
            appended = RecordBatch(memoryview(known))
            require(is_part_of(batch, appended), f"{replica.name} has {batch} where {appended} was appended")
            check_part(replica.name, batch, appended)
            self._note_gone(appended, batch, log_start, replica, stable, moving, markers)
            if batch.is_transactional and not batch.is_control:
                present.update(record.offset for record in batch.records())
        if moving.was_compacted or expected == len(replica.data):
            for gone in range(expected, len(replica.data)):
                self._note_gone(
                    RecordBatch(memoryview(replica.data[gone])), None, log_start, replica, stable, moving, markers
                )
        for offset in markers:
            moving.records.check_marker_may_be_gone(replica.name, offset, present, log_start, retention_ms, self._now())
        self._check_aborted(log, replica.name, moving)

    def _note_gone(
        self,
        appended: RecordBatch,
        left: RecordBatch | None,
        log_start: int,
        replica: MovingReplicaLog,
        stable: int,
        moving: _MovingLog,
        markers: list[int],
    ) -> None:
        """Of this batch only so much is left."""
        if left is not None and left.count == appended.count:
            return  # it has got a delete horizon
        log = replica.source
        assert log is not None
        where = replica.name
        require(moving.was_compacted, f"{where}: {appended} is gone, or a part of it, from a log that is not compacted")
        require(
            appended.next_offset <= stable,
            f"{where}: compaction has changed {appended}, and only what is below {stable} is stable",
        )
        if appended.is_control:
            markers.append(appended.base_offset)
            return
        there = set() if left is None else {record.offset for record in left.records()}
        retention_ms = log.config[DELETE_RETENTION_MS] - self._skew_ms
        for offset in range(max(log_start, appended.base_offset), appended.next_offset):
            if offset not in there:
                moving.records.check_may_be_gone(where, offset, retention_ms, self._now())

    def _check_aborted(self, log: UnifiedLog, name: str, moving: _MovingLog) -> None:
        """What a reader of committed data makes of the log, with what the log tells it of aborted transactions."""
        end = log.last_stable_offset
        coming = sorted(log.aborted_transactions(log.log_start_offset, end), key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for batch in batches_of(log, log.log_start_offset):
            if batch.base_offset >= end:
                return
            while coming and coming[0].first_offset <= batch.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if batch.is_control:
                if batch.count and not read_marker(batch).committed:
                    aborted.discard(batch.producer_id)
            elif batch.is_transactional and batch.count:
                is_hidden = batch.producer_id in aborted
                offset = next(batch.records()).offset
                truth = moving.records.is_aborted(offset)
                require(
                    is_hidden == truth,
                    f"{name}: the transaction of the record at offset {offset} was "
                    f"{'aborted' if truth else 'committed'}; a reader is {'not ' * is_hidden}shown it",
                )

    # --- deletions ----------------------------------------------------------------------------------------------------

    def on_delete_asked(self, key: TopicIdPartition, offset: int) -> DeletionAsked:
        """An administrator asks for the deletion of what is before this offset; -1: before the high watermark."""
        moving = self.of(key)
        moving.asked_up_to = max(moving.asked_up_to, offset)
        moving.asked_at_high_watermark |= offset < 0
        alive = {node_id: machine.life for node_id, machine in self._nodes.items() if self._is_alive(machine)}
        return DeletionAsked(alive, self._newest_offset())

    def on_deleted(self, key: TopicIdPartition, asked: DeletionAsked, low_watermark: int, image: MetadataImage) -> None:
        """The answer: all replicas that are alive begin there, or later."""
        registration = image.partition(key.topic_id, key.partition)
        for node_id in registration.replicas if registration is not None else ():
            machine = self._nodes[node_id]
            was_alive = asked.alive.get(node_id) == machine.life and self._is_alive(machine)
            if not was_alive or self._fenced_at.get(node_id, -1) >= asked.image_offset:
                continue
            assert machine.node is not None and machine.node.broker is not None
            partition = machine.node.broker.replicas.partitions.get(key.topic_partition)
            start = 0 if partition is None else partition.log.log_start_offset
            require(
                start >= low_watermark,
                f"{key.topic_partition}: the records before {low_watermark} are deleted, so the answer says; the log "
                f"of node {node_id} begins at {start}",
            )

    def _is_alive(self, machine: SimulatedNode) -> bool:
        node = machine.node
        return node is not None and node.broker is not None and node.broker.lifecycle.is_running

    def _newest_offset(self) -> int:
        nodes = [machine.node for machine in self._nodes.values() if machine.node is not None]
        return min((node.loader.image.provenance.offset for node in nodes), default=0)

    # --- readers ------------------------------------------------------------------------------------------------------

    def check_skipped(self, key: TopicIdPartition, first: int, end: int, is_committed: bool, retention_ms: int) -> None:
        """A reader goes from the record before `first` to `end`, and is shown nothing between."""
        moving = self.of(key)
        where = f"{key.topic_partition}: a reader is not shown what is between {first} and {end}"
        for offset in range(max(first, moving.latest_start), end):
            is_record = offset < len(moving.records.records) and moving.records.records[offset] is not None
            if is_record and not (is_committed and moving.records.is_aborted(offset)):
                require(moving.was_compacted, f"{where}, and the log is not compacted")
                moving.records.check_may_be_gone(where, offset, retention_ms - self._skew_ms, self._now())

    def check_shown(self, key: TopicIdPartition, record: Record, is_committed: bool) -> None:
        """A reader is shown this record."""
        records = self.of(key).records
        where = f"{key.topic_partition}: a reader is shown {record.value!r} at offset {record.offset}"
        known = records.records[record.offset] if record.offset < len(records.records) else None
        require(known is not None, f"{where}, which is not committed")
        assert known is not None
        require((known.key, known.value) == (record.key, record.value), f"{where}; committed there is {known.value!r}")
        if is_committed:
            require(records.is_visible(record.offset), f"{where}, and its transaction was aborted, or is not decided")

    # --- producers ----------------------------------------------------------------------------------------------------

    def check_producers(self, machine: SimulatedNode, log: UnifiedLog, replica: ReplicaLog) -> None:
        """What a log knows of its producers."""
        replayed = ProducerStateManager(MemoryFileSystem(), "", _NEVER)
        last: dict[int, int] = {}
        for batch in replica.batches:
            replayed.replay(batch)
            if batch.has_producer_id:
                last[batch.producer_id] = batch.last_offset
        known, expiration_ms = log.producer_state.producers, log.producer_state.expiration_ms
        unknown = sorted(known.keys() - replayed.producers.keys())
        require(not unknown, f"{replica.name} knows the producers {unknown}, which never wrote there")
        for producer_id, expected in replayed.producers.items():
            name, entry = f"{replica.name}: producer {producer_id}", known.get(producer_id)
            if entry is not None:
                _check_entry(name, log.log_start_offset, entry, expected)
                continue
            age = machine.time_ms() + self._skew_ms - expected.last_timestamp
            is_open = (expected.transaction_first_offset or -1) >= log.log_start_offset
            may_be_unknown = last[producer_id] < log.log_start_offset or (age >= expiration_ms and not is_open)
            self._progress.producers_forgotten += 1
            require(may_be_unknown, f"{name} is forgotten after {age} ms; it wrote at offset {last[producer_id]}")

    # --- once all is quiet --------------------------------------------------------------------------------------------

    def check_replica(self, machine: SimulatedNode, partition: Partition, replica: ReplicaLog) -> None:
        """What is in its log, and what its coordinator knows."""
        if isinstance(replica, MovingReplicaLog):
            self.check_content(machine, partition.log, replica, self.of(partition.key))
        self.check_loaded(machine, partition.topic_partition, replica.batches)

    def check_end(self, brokers: Mapping[int, Broker]) -> None:
        """No replica begins before its leader."""
        for node_id, broker in brokers.items():
            for partition in broker.replicas.partitions.values():
                if partition.key not in self._logs or not partition.is_leader:
                    continue
                place, begun_by = partition.topic_partition, self._now() - _TO_FOLLOW_MS
                known = [start for at, start in self._logs[partition.key].leaders_starts if at <= begun_by]
                start = min(partition.log.log_start_offset, max(known, default=0))
                for other_id, other in brokers.items():
                    theirs = other.replicas.partitions.get(place)
                    require(
                        theirs is None or theirs.log.log_start_offset >= start,
                        f"{place} begins at {start} on its leader, node {node_id}, and earlier on node {other_id}",
                    )

    def check_loaded(self, machine: SimulatedNode, place: TopicPartition, appended: Iterable[RecordBatch]) -> None:
        """A coordinator knows what all that was ever appended says."""
        if place.topic in COORDINATED:
            check_shard(machine, place.topic, place.partition, appended)


def _check_entry(name: str, log_start: int, known: ProducerEntry, expected: ProducerEntry) -> None:
    """Of a log whose beginning is gone, or which was compacted, an entry may know less."""
    before = {(each.last_sequence, each.last_offset, each.offset_delta) for each in expected.batches}
    ours = [(each.last_sequence, each.last_offset, each.offset_delta) for each in known.batches]
    newest = expected.batches[-1] if expected.batches else None
    if newest is not None and newest.last_offset >= log_start:
        place = (newest.last_sequence, newest.last_offset, newest.offset_delta)
        require(bool(ours) and ours[-1] == place, f"{name} has the last batches {ours}; its last one is {place}")
    elif ours and before:
        require(ours[-1] in before, f"{name} has the last batches {ours}; there are {sorted(before)}")
    require(known.epoch <= expected.epoch, f"{name} has epoch {known.epoch}; the log had {expected.epoch}")
    began, begins = expected.transaction_first_offset, known.transaction_first_offset
    is_right = begins == began or (began is not None and began < log_start and (begins is None or begins >= began))
    require(is_right, f"{name} has an open transaction from {begins} on; the log has one from {began} on")


def check_begun_again(node_id: int, partition: Partition, start: int) -> None:
    """A replica whose log ended outside of its leader's begins again at its leader's start."""
    log = partition.log
    require(
        log.base_offset == log.log_start_offset == log.log_end_offset == start,
        f"{partition.topic_partition} of node {node_id} begins again at {start}, and keeps what it had: its first "
        f"segment begins at {log.base_offset}, the log at {log.log_start_offset}, and it ends at {log.log_end_offset}",
    )
