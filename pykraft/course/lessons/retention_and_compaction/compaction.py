"""Scenarios of notebook 20: a log so small that each of its records is seen, readers that build a table, and segments.

`SmallLog` is a compacted topic of one partition. A record is written as a letter and a number, its key and its value;
a letter and a minus is a tombstone. Each text that `append` gets becomes a segment of its own: its records are an hour
younger than the ones before, and ``segment.ms`` is a minute. The cleaner waits until `clean` lets it work::

    log = SmallLog(cluster, "states")
    log.append("A1 B1 A2", "B-")  offsets 0 to 2 are one segment, offset 3 is the active one
    log.clean()                   what the log is after the pass, as `pykraft.viz.log_strips` draws it

`strip` reads the segments' files and the broker's ``cleaner-offset-checkpoint``, so what is drawn is what is on disk.
A pass waits for a reason, which is a dirty segment. So a tombstone goes only with a pass after its horizon:
`wait_for_horizon` waits until then.

`TableReader` reads on from where it was, and keeps the last value of each key, as a program with a cache does.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import confluent_kafka

from pykraft.client.administration.admin import NewTopic
from pykraft.client.administration.configs import ConfigResource, ConfigResourceType
from pykraft.common.types import TopicPartition
from pykraft.course.lesson import Lesson
from pykraft.course.rigs.reading import read_to_end
from pykraft.records.batch import RecordBatch, batches
from pykraft.storage.disk.checkpoint import CLEANER_CHECKPOINT, read_offsets
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.viz.logs.log_strip import Cell, LogStrip

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

HOUSEKEEPING = {
    "log.initial.task.delay.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
}
"""For the node: look for work several times a second. Kafka's defaults are 30 s, 5 minutes and 15 s."""
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_PATIENCE_S, _LOOK_S = 40.0, 0.05


class Record(NamedTuple):
    """What is written: a key, a value (None for a tombstone), and the producer's timestamp."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


def write(cluster: "Cluster", topic: str, records: Iterable[Record]) -> None:
    """Write into partition 0 with librdkafka."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, "log_level": 0}
    )
    for key, value, timestamp in records:
        producer.produce(topic, value, key, timestamp=timestamp, partition=0)
        producer.poll(0)
    producer.flush()


def alter(cluster: "Cluster", topic: str, **settings: object) -> None:
    """Change settings of a topic, such as `min_compaction_lag_ms=0`."""
    changes = {name.replace("_", "."): str(value) for name, value in settings.items()}
    with cluster.admin() as admin:
        admin.incremental_alter_configs({ConfigResource(ConfigResourceType.TOPIC, topic): changes})


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether it has become so within 40 seconds."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return condition()


def segments(cluster: "Cluster", topic: str) -> dict[int, int]:
    """The segments of partition 0: base offset -> bytes of the log file."""
    return {base: len(data) for base, data in _files(cluster, topic).items()}


def _files(cluster: "Cluster", topic: str) -> dict[int, bytes]:
    found = {}
    for path in sorted(cluster.partition_directory(cluster.broker_ids[0], topic, 0).glob("*.log")):
        with suppress(FileNotFoundError):  # it goes while we look
            found[int(path.stem)] = path.read_bytes()
    return found


def first_dirty(cluster: "Cluster", topic: str) -> int:
    """Where the dirty part of partition 0 begins: 0 before the first pass."""
    path = cluster.node_directory(cluster.broker_ids[0]) / CLEANER_CHECKPOINT
    return read_offsets(OsFileSystem(), str(path)).get(TopicPartition(topic, 0), 0)


def wait_until_clean(cluster: "Cluster", topic: str) -> bool:
    """Whether the cleaner has been through all but the active segment."""
    return wait_until(lambda: first_dirty(cluster, topic) >= max(segments(cluster, topic)))


class SmallLog:
    """A compacted topic whose records are few enough to be drawn one by one."""

    def __init__(self, cluster: "Cluster", topic: str, delete_retention_ms: int = 4000) -> None:
        self.cluster = cluster
        self.topic = topic
        self.horizon_ms = 0
        """The latest time before which a tombstone must stay, of all that the passes have met."""
        self._now_ms = int(time.time() * 1000) - _DAY_MS // 2
        settings = {**COMPACTED, "segment.ms": "60000", "file.delete.delay.ms": "0"}
        settings |= {"delete.retention.ms": str(delete_retention_ms), "min.compaction.lag.ms": str(_DAY_MS)}
        Lesson.fresh_topic(cluster, NewTopic(topic, 1, 1, topic_configs=settings))

    def append(self, *segments: str) -> None:
        """Write records, each text as a new segment: "A1 B-" is value 1 of key A, and a tombstone of key B."""
        for text in segments:
            self._now_ms += _HOUR_MS
            words = [(word[:1].encode(), None if word[1:] == "-" else word[1:].encode()) for word in text.split()]
            write(self.cluster, self.topic, [Record(key, value, self._now_ms) for key, value in words])

    def clean(self) -> LogStrip:
        """Let the cleaner work until all but the active segment is clean; what the log is then."""
        alter(self.cluster, self.topic, min_compaction_lag_ms=0)
        wait_until_clean(self.cluster, self.topic)
        alter(self.cluster, self.topic, min_compaction_lag_ms=_DAY_MS)
        self.horizon_ms = max([self.horizon_ms, *(batch.delete_horizon_ms or 0 for batch in self._batches)])
        return self.strip()

    def strip(self) -> LogStrip:
        """The log as it is on disk."""
        files = _files(self.cluster, self.topic)
        cells = [
            Cell(record.offset, _text(record.key), _text(record.key) + _text(record.value), record.value is None)
            for data in files.values()
            for batch in batches(memoryview(data))
            for record in batch.records()
        ]
        end = self._batches[-1].last_offset + 1
        return LogStrip(cells, sorted(files), first_dirty(self.cluster, self.topic), end)

    @property
    def _batches(self) -> list[RecordBatch]:
        return [batch for data in _files(self.cluster, self.topic).values() for batch in batches(memoryview(data))]

    def wait_for_horizon(self) -> None:
        """Wait until each of these tombstones may go."""
        wait_until(lambda: time.time() * 1000 > self.horizon_ms)


def _text(data: bytes | None) -> str:
    return (data or b"").decode()


class TableReader:
    """A reader of partition 0 that keeps a table: the last value of each key."""

    def __init__(self, cluster: "Cluster", topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self.position = 0
        self.table: dict[bytes | None, bytes] = {}
        self.records = 0
        """How many records it has read."""

    def read(self, until: int | None = None) -> "TableReader":
        """Read on to the end, or to this offset."""
        (records,) = read_to_end(self._cluster, self._topic, start=self.position)
        for record in records:
            if until is not None and record.offset >= until:
                break
            self.position, self.records = record.offset + 1, self.records + 1
            if record.value is None:
                self.table.pop(record.key, None)
            else:
                self.table[record.key] = record.value
        return self
