"""What must be true after every event, whatever has happened: the laws of Raft, and those of the data plane.

*Of every log* (the metadata log and each partition's), with "committed" for everything below some replica's high
watermark:

* Log Matching: where two logs hold the same offset with the same epoch, they are equal up to there, byte for byte.
* State Machine Safety: what is committed at an offset is the same for every replica, for ever.
* Leader Completeness: the leader of an epoch has everything that was committed in earlier epochs.
* Epochs do not go down along a log.
* What is committed stays: no replica truncates it, nor lacks it when its process starts again. Only a loss of power may
  take it, and of the metadata log no more than was not synced.

*Of the quorum*: Election Safety (an epoch has one leader), and what it rests on: a voter votes once in an epoch, also
if it ends in between. A node's epoch never goes back. What is committed is on the disks of a majority of the voters,
synced. The high watermark of a life of a node never goes back.

*Of a partition*: a leader's high watermark never goes back, and is not above the log of any replica that is in sync, as
the leader sees it or as the controller has decided it: any of them may lead in a moment. Each producer's batches come
once and in order. An acknowledged record is committed, at the acknowledged offset. A consumer sees what is committed,
each record once and in order.

*Of the metadata*: a leader is in its ISR, the ISR is among the replicas, a fenced broker leads nothing, and is in no
ISR but as its last member.

The laws are checked on the files themselves. For each replica a chain of hashes is kept, one for each batch, each
depending on the one before it: so two equal hashes at the same offset mean two equal logs up to there, and each check
costs only what is new.

Follows the Raft paper's figure 3, Kafka's RaftEventSimulationTest, and the properties that KIP-101, KIP-98, KIP-497 and
KIP-966 promise.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from pykraft.broker.replication.partition import Partition
from pykraft.common.types import ReplicaKey, TopicIdPartition, TopicPartition, Uuid
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.records.batch import NO_SEQUENCE, RecordBatch, batches
from pykraft.records.record import Record
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog

_SEQUENCE_MASK = 0x7FFFFFFF
_NOTHING = b""


class Violation(AssertionError):  # noqa: N818 (it is the name of what was found)
    """A law was broken."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Violation(message)


class ReplicaLog:
    """What is known of one replica's log: where its batches end, and the chain of their hashes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ends: list[int] = []
        self.epochs: list[int] = []
        self.hashes: list[bytes] = []
        self.data: list[bytes] = []
        self.source: UnifiedLog | None = None
        """The log as the node holds it."""
        self.truncations = 0
        """How often the log had been truncated when it was last looked at."""
        self.high_watermark = 0
        """As it was last seen."""
        self.led_epoch: int | None = None
        """In which epoch the replica led its partition then."""
        self.agreed = 0
        """The number of batches that are known to equal the committed ones."""

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def batches(self) -> Iterator[RecordBatch]:
        """All of them, as they were read."""
        return (RecordBatch(memoryview(data)) for data in self.data)

    def follow(self, log: UnifiedLog, committed: "CommittedLog | None" = None) -> range:
        """Take in what was appended since; the indexes of the new batches. A log that was truncated, perhaps to go on
        elsewhere at once, is read again. If it begins with a snapshot, that replaces what is `committed` before."""
        self.source = log
        if log.truncations != self.truncations or log.log_end_offset < self.end:
            self.truncations, self.agreed = log.truncations, 0
            for column in (self.ends, self.epochs, self.hashes, self.data):
                column.clear()
        if not self.ends and log.log_start_offset and committed is not None:
            self._begin_with(committed, log.log_start_offset)
        first = len(self.ends)
        while self.end < log.log_end_offset:
            region = log.read(self.end, 1 << 20, Isolation.LOG_END, at_least_one=True).records
            data = region if isinstance(region, bytes) else region.read(0, len(region))
            for batch in batches(memoryview(data)):
                self._add(batch)
        return range(first, len(self.ends))

    def _begin_with(self, committed: "CommittedLog", start_offset: int) -> None:
        count = bisect_right(committed.ends, start_offset)
        if not count or committed.ends[count - 1] != start_offset:
            raise Violation(f"{self.name}: it begins at {start_offset}, where nothing committed ends")
        for batch in committed.batches(0, count):
            self._add(batch)

    def _add(self, batch: RecordBatch) -> None:
        if batch.base_offset != self.end:
            raise Violation(f"{self.name}: {batch} follows offset {self.end}")
        epoch = batch.partition_leader_epoch
        if self.epochs and epoch < self.epochs[-1]:
            raise Violation(f"{self.name}: {batch} follows epoch {self.epochs[-1]}")
        before = self.hashes[-1] if self.hashes else _NOTHING
        data = bytes(batch.buffer)
        self.ends.append(batch.next_offset)
        self.epochs.append(epoch)
        self.hashes.append(blake2b(before + data, digest_size=16).digest())
        self.data.append(data)


class CommittedLog:
    """What is committed in one log, as the first who knew it had it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ends: list[int] = []
        self.hashes: list[bytes] = []
        self.since: list[int] = []
        """In which epoch each batch was seen to be committed."""
        self._data: list[bytes] = []
        self._seen: dict[tuple[int, int], bytes] = {}

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else 0

    def batches(self, first: int, end: int) -> Iterator[RecordBatch]:
        """Those of these numbers."""
        return (RecordBatch(memoryview(data)) for data in self._data[first:end])

    def all_batches(self) -> Iterator[RecordBatch]:
        return self.batches(0, len(self.ends))

    def check_matching(self, replica: ReplicaLog, added: range) -> None:
        """Log Matching."""
        for index in added:
            key = (replica.ends[index], replica.epochs[index])
            if self._seen.setdefault(key, replica.hashes[index]) != replica.hashes[index]:
                raise Violation(
                    f"Log Matching: {replica.name} differs from another log below offset {key[0]}, epoch {key[1]}"
                )

    def shared(self, replica: ReplicaLog) -> int:
        """So many of what is committed, in batches, the replica has."""
        count = min(len(self.ends), len(replica.ends))
        while count and replica.hashes[count - 1] != self.hashes[count - 1]:
            count -= 1
        return count

    def check_kept(self, replica: ReplicaLog, before: int) -> None:
        """What is committed stays: the replica has at least as many batches of it as `before`."""
        count = self.shared(replica)
        if count < before:
            raise Violation(
                f"{replica.name} ends at {replica.end} and has lost what is committed up to {self.ends[before - 1]}, "
                f"from {self.ends[count - 1] if count else 0} on"
            )

    def commit(self, replica: ReplicaLog, high_watermark: int, epoch: int) -> list[bytes]:
        """State Machine Safety: the replica says that everything below its high watermark is committed. Returns the
        batches that no replica had said so of before."""
        count = bisect_right(replica.ends, high_watermark)
        if count <= replica.agreed:
            return []
        common = min(count, len(self.ends))
        if common and replica.hashes[common - 1] != self.hashes[common - 1]:
            raise Violation(
                f"State Machine Safety: {replica.name} has committed something else below {self.ends[common - 1]}"
            )
        new = range(len(self.ends), count)
        for index in new:
            self.ends.append(replica.ends[index])
            self.hashes.append(replica.hashes[index])
            self.since.append(max(epoch, self.since[-1]) if self.since else epoch)
            self._data.append(replica.data[index])
        replica.agreed = count
        return [replica.data[index] for index in new]

    def check_leader(self, replica: ReplicaLog, epoch: int) -> None:
        """Leader Completeness."""
        needed = bisect_right(self.since, epoch - 1)
        if needed:
            require(
                len(replica.ends) >= needed and replica.hashes[needed - 1] == self.hashes[needed - 1],
                f"Leader Completeness: {replica.name} leads epoch {epoch} and lacks what was committed up to offset "
                f"{self.ends[needed - 1]}; its log ends at {replica.end}",
            )


class Election:
    """Election Safety, that a voter votes once in an epoch, and that epochs only grow."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._votes: dict[tuple[int, int, Uuid], int] = {}
        """By epoch and voter: the candidate."""

    def observe_votes(self, epoch: int, candidate: int, voters: Iterable[int | ReplicaKey]) -> None:
        """The candidate has been given these votes. A voter is a node, or one disk of a node."""
        for key in sorted(each if isinstance(each, ReplicaKey) else ReplicaKey(each) for each in voters):
            known = self._votes.setdefault((epoch, *key), candidate)
            require(known == candidate, f"node {key.id} has voted for {known} and for {candidate} in epoch {epoch}")

    def forget(self, node_id: int) -> int:
        """A node begins again, with an empty disk; returns the last epoch that it knew."""
        return self._epochs.pop(node_id, 0)

    def observe(self, node_id: int, epoch: int, leads: bool) -> None:
        known = self._epochs.get(node_id, 0)
        require(epoch >= known, f"node {node_id} went back from epoch {known} to {epoch}")
        self._epochs[node_id] = epoch
        if leads:
            leader = self.leaders.setdefault(epoch, node_id)
            require(leader == node_id, f"Election Safety: nodes {leader} and {node_id} both lead epoch {epoch}")


class ProducerOrder:
    """Each producer's batches are in a log once, and in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next: dict[tuple[int, int], int] = {}

    def observe(self, batch: RecordBatch) -> None:
        if not batch.has_producer_id or batch.is_control or batch.base_sequence == NO_SEQUENCE:
            return
        key = (batch.producer_id, batch.producer_epoch)
        expected = self._next.get(key, 0)
        require(
            batch.base_sequence == expected,
            f"{self._name}: producer {key[0]} has sequence {batch.base_sequence} at offset {batch.base_offset} where "
            f"{expected} is next",
        )
        self._next[key] = (batch.last_sequence + 1) & _SEQUENCE_MASK


RECREATED = "again"
"""The topic that is deleted and made again under this name."""
RECREATED_GROUP = "group again"
"""The group that is. Its coordinator may know it before any record does, so it has laws of its own."""
PLAIN = b"plain"
"""So the records begin that a producer without idempotence has sent, which may be there twice."""


class PartitionHistory:
    """What was committed in one partition, record by record, and the answers that clients got about it."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.name = str(topic_partition)
        self.log = CommittedLog(self.name)
        self._order = ProducerOrder(self.name)
        self.values: list[bytes | None] = []
        self.acknowledged = 0
        self.is_lost = False
        """An unclean election was held: the laws say no more what is in this partition (`election_laws`)."""
        self.is_deleted = False
        """Its topic was deleted. A node that has not read so yet may still have a replica, with anything in it."""
        self._seen: set[bytes] = set()

    def commit(self, replica: ReplicaLog, high_watermark: int, epoch: int) -> None:
        if self.is_lost:
            return
        for data in self.log.commit(replica, high_watermark, epoch):
            batch = RecordBatch(memoryview(data))
            self.observe(batch)
            for record in batch.records():
                if record.offset != len(self.values):
                    raise Violation(f"{self.name}: offset {record.offset} has no predecessor")
                self.take(record)

    def observe(self, batch: RecordBatch) -> None:
        """The next committed batch."""
        self._order.observe(batch)

    def take(self, record: Record) -> None:
        """The next committed record."""
        self.values.append(record.value)
        if record.value is not None:
            if record.value in self._seen and not record.value.startswith(PLAIN):
                raise Violation(f"{self.name}: {record.value[:40]!r} is there twice")
            self._seen.add(record.value)

    def acknowledge(self, offset: int, value: bytes | None) -> None:
        """A producer that waits for all in-sync replicas got this offset for its record."""
        self.acknowledged += 1
        if self.is_lost:
            return
        require(
            offset < len(self.values),
            f"{self.name}: offset {offset} was acknowledged, but only {len(self.values)} records are committed",
        )
        require(
            self.values[offset] == value,
            f"{self.name}: acknowledged {(value or b'')[:40]!r} at offset {offset}; "
            f"committed there is {(self.values[offset] or b'')[:40]!r}",
        )

    def consume(self, offset: int, value: bytes | None) -> None:
        """A consumer was given this record."""
        if self.is_lost:
            return
        if offset >= len(self.values):
            raise Violation(f"{self.name}: a consumer saw offset {offset}, which is not committed")
        if self.values[offset] != value:
            raise Violation(
                f"{self.name}: a consumer saw {(value or b'')[:40]!r} at offset {offset}; "
                f"committed there is {(self.values[offset] or b'')[:40]!r}"
            )


class IncarnationHistory(PartitionHistory):
    """That of a partition of the topic that is deleted and made again: what is written there begins with the id of the
    topic that it was meant for. The producer is a plain one: the network may bring its request twice."""

    def __init__(self, key: TopicIdPartition) -> None:
        super().__init__(key.topic_partition)
        self.log = _IncarnationLog(self.name, str(key.topic_id).encode())

    def take(self, record: Record) -> None:
        self.values.append(record.value)


class _IncarnationLog(CommittedLog):
    """Also what is not committed, in any of its replicas, was meant for this topic."""

    def __init__(self, name: str, topic_id: bytes) -> None:
        super().__init__(name)
        self._topic_id = topic_id

    def check_matching(self, replica: ReplicaLog, added: range) -> None:
        for index in added:
            for record in RecordBatch(memoryview(replica.data[index])).records():
                value = record.value or b""
                if not value.startswith(self._topic_id):
                    raise Violation(
                        f"{replica.name}, of topic id {self._topic_id!r}, has {value[:40]!r}, of another topic"
                    )
        super().check_matching(replica, added)


def check_high_watermark(
    leader_id: int, partition: Partition, decided: PartitionRegistration | None, ends: dict[int, int]
) -> None:
    """A leader's high watermark is not above the log of a replica that may succeed it: one that it counts as in sync,
    or that the newest metadata have in the ISR. `ends` are the real log ends of those whose disk has lost nothing."""
    high_watermark = partition.log.high_watermark
    in_sync = set(partition.isr_state.maximal)
    if decided is not None and (decided.leader, decided.leader_epoch) == (leader_id, partition.leader_epoch):
        in_sync |= set(decided.isr)
    for replica in sorted(in_sync):
        if ends.get(replica, high_watermark) < high_watermark:
            raise Violation(
                f"{partition.key.topic_partition}: node {leader_id} (epoch {partition.leader_epoch}) has high "
                f"watermark {high_watermark}, but the log of node {replica}, which is in sync, ends at {ends[replica]}"
            )


def check_isr(leader_id: int, change: Mapping[str, Any], ends: Mapping[int, int]) -> None:
    """A replica that joins the ISR has everything that is committed: it may be the leader in a moment. `change` is what
    the leader reports of it, `ends` as in `check_high_watermark`."""
    high_watermark = change["high_watermark"]
    for replica in change["isr"]:
        require(
            ends.get(replica, high_watermark) >= high_watermark,
            f"{change['partition']}: node {leader_id} takes node {replica} into its ISR, whose log ends at "
            f"{ends.get(replica)}, below the high watermark {high_watermark}",
        )


def check_image(node_id: int, image: MetadataImage) -> None:
    """What the metadata say of partitions fits together."""
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            name = f"node {node_id} at offset {image.provenance.offset}: {topic.name}-{number}"
            require(set(partition.isr) <= set(partition.replicas), f"{name}: ISR {partition.isr} is no subset")
            require(bool(partition.isr) or image.keeps_elr, f"{name}: its ISR is empty")
            fenced = [member for member in partition.isr if member in image.brokers and image.brokers[member].fenced]
            is_last = len(partition.isr) == 1 and not image.keeps_elr
            require(not fenced or is_last, f"{name}: {fenced} of its ISR {partition.isr} are fenced")
            elr = set(partition.eligible_leader_replicas)
            require(elr <= set(partition.replicas), f"{name}: ELR {elr} is no subset of the replicas")
            require(not elr or image.keeps_elr, f"{name}: it has the ELR {elr}, and the cluster keeps none")
            require(elr.isdisjoint(partition.isr), f"{name}: {elr} are eligible, and the ISR is {partition.isr}")
            if partition.leader >= 0:
                require(partition.leader in partition.isr, f"{name}: leader {partition.leader} is not in its ISR")
                broker = image.brokers.get(partition.leader)
                require(broker is not None and not broker.fenced, f"{name}: its leader {partition.leader} is fenced")
