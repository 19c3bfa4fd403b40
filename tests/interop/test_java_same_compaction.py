"""What Apache Kafka's cleaner leaves of a log, ours leaves of a copy of it.

librdkafka writes into a compacted topic of Apache Kafka: values and tombstones, transactions that are committed and
aborted, producers that fall silent. Its cleaner is kept waiting meanwhile, by a setting that can be changed while the
broker runs. The log is copied; then Kafka compacts its own, and we the copy. That is done three times: a pass marks
tombstones, and markers whose transactions are gone, with the time from which a later one may remove them.
"""

from __future__ import annotations

import pathlib
import shutil
import time
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import confluent_kafka
import confluent_kafka.admin
import pytest

from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.markers import read_marker
from pykraft.storage.disk.checkpoint import CLEANER_CHECKPOINT, read_offsets
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.storage import open_directory, settings
from tests.harness.waiting import wait_until

TOPIC = "latest"
KEY = TopicPartition(TOPIC, 0)
KEYS = 60
RETENTION_MS = 500
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(RETENTION_MS),
}
OURS = settings(
    cleanup_policy=["compact"],
    segment_bytes=1 << 20,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=RETENTION_MS,
)
A_LONG_TIME_MS, A_MOMENT_MS = 3_600_000, 50
PATIENCE_S = 60.0


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


class Writer:
    """Writes with librdkafka's producers: one after the other, each with an id of its own."""

    def __init__(self, servers: str, seed: int) -> None:
        self._servers = servers
        self._random = Random(seed)
        self._written = 0

    def _producer(self, **more: Any) -> confluent_kafka.Producer:
        settings = {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        return confluent_kafka.Producer({**settings, **more})

    def records(self, producer: confluent_kafka.Producer, count: int, keys: int = KEYS) -> None:
        for _ in range(count):
            self._written += 1
            key = f"key {self._random.randrange(keys)}"
            value = None if self._random.random() < 0.1 else f"value {self._written} ".ljust(2000, ".")
            producer.produce(TOPIC, value, key, 0, headers=[("n", str(self._written))])
            if self._random.random() < 0.1:
                producer.flush(PATIENCE_S)  # so that batches have several sizes
        assert producer.flush(PATIENCE_S) == 0

    def idempotent(self, count: int) -> None:
        self.records(self._producer(), count)

    def transactions(self, name: str, count: int) -> None:
        producer = self._producer(**{"transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        for number in range(count):
            producer.begin_transaction()
            self.records(producer, 1 + number * 3, keys=KEYS // 2)
            (producer.commit_transaction if number % 3 else producer.abort_transaction)(PATIENCE_S)

    def chapter(self, name: str) -> None:
        self.idempotent(400)
        self.transactions(f"{name} early", 7)
        self.idempotent(5)
        self.idempotent(600)
        self.transactions(f"{name} late", 5)
        self.idempotent(1200)  # the last of these are in the active segment, and stay as they are


def admin_of(kafka: ApacheKafka) -> confluent_kafka.admin.AdminClient:
    return confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})


class Cleaners:
    """Apache Kafka's cleaner and ours, side by side."""

    def __init__(self, kafka: ApacheKafka, folder: pathlib.Path) -> None:
        self._kafka = kafka
        self._data = kafka.folder(1) / "data"
        self._folder = folder

    def set_backoff(self, backoff_ms: int) -> None:
        admin = admin_of(self._kafka)
        entry = confluent_kafka.admin.ConfigEntry(
            "log.cleaner.backoff.ms",
            str(backoff_ms),
            incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET,
        )
        resource = confluent_kafka.admin.ConfigResource("broker", "1", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(PATIENCE_S)

    def copy(self, name: str) -> pathlib.Path:
        """The log as it is, and up to where it is clean."""
        target = self._folder / name
        shutil.copytree(self._data / str(KEY), target / str(KEY))
        shutil.copy(self._data / CLEANER_CHECKPOINT, target)
        return target

    def clean_there(self) -> None:
        """Let Kafka make one pass over all that it can clean."""
        active = max(int(path.stem) for path in (self._data / str(KEY)).glob("*.log"))
        self.set_backoff(A_MOMENT_MS)
        checkpoint = str(self._data / CLEANER_CHECKPOINT)
        wait_until(
            lambda: read_offsets(OsFileSystem(), checkpoint).get(KEY, 0) >= active, "Kafka has compacted the log", 60
        )
        self.set_backoff(A_LONG_TIME_MS)

    @staticmethod
    def clean_here(home: pathlib.Path) -> None:
        """Let our cleaner make a pass over a copy, which looks as after a crash."""
        logs = open_directory(home, OURS)
        log = logs.logs[KEY]
        log.update_high_watermark(log.log_end_offset)
        logs.cleaner.clean()
        assert logs.cleaner.first_dirty[KEY] == log.active_segment.base_offset and not logs.cleaner.uncleanable
        logs.close(broker_epoch=1)


class Left(NamedTuple):
    """What is left of a log."""

    records: list[tuple[int, bytes | None, bytes | None, int, tuple[Any, ...], int]]
    """(offset, key, value, timestamp, headers, producer)"""
    markers: list[tuple[int, int, bool]]
    """(offset, producer, whether it commits)"""
    marked: set[int]
    """The offsets whose batches have a delete horizon."""
    last_sequences: dict[int, tuple[int, int, int]]
    """By producer: epoch, last sequence number, last offset."""
    empty: list[RecordBatch]


def left_of(home: pathlib.Path) -> Left:
    left = Left([], [], set(), {}, [])
    for each in batches_of(home / str(KEY)):
        assert each.is_valid
        if each.is_control and each.count:
            left.markers.append((each.base_offset, each.producer_id, read_marker(each).committed))
        elif not each.is_control:
            left.records.extend(
                (r.offset, r.key, r.value, r.timestamp, tuple(r.headers), each.producer_id) for r in each.records()
            )
            left.last_sequences[each.producer_id] = (each.producer_epoch, each.last_sequence, each.last_offset)
        if each.delete_horizon_ms is not None:
            left.marked.update(record.offset for record in each.records())
        if not each.count:
            left.empty.append(each)
    return left


def batches_of(folder: pathlib.Path) -> Iterator[RecordBatch]:
    for path in sorted(folder.glob("*.log")):
        yield from batches(memoryview(path.read_bytes()))


def same(ours: Left, theirs: Left) -> None:
    assert [row[0] for row in ours.records] == [row[0] for row in theirs.records], "the surviving offsets"
    assert ours.records == theirs.records
    assert ours.markers == theirs.markers
    assert ours.marked == theirs.marked
    assert ours.last_sequences == theirs.last_sequences
    # Ours keeps the header of each segment's last batch, too.
    assert {each.last_offset for each in theirs.empty} <= {each.last_offset for each in ours.empty}


@pytest.mark.long
def test_both_cleaners_leave_the_same_records(tmp_path: pathlib.Path) -> None:
    waiting = {"log.cleaner.backoff.ms": str(A_LONG_TIME_MS)}
    with ApacheKafka(java_options=QUICK_START, properties=waiting) as kafka:
        admin = admin_of(kafka)
        new = confluent_kafka.admin.NewTopic(TOPIC, 1, 1, config=CONFIG)
        admin.create_topics([new])[TOPIC].result(PATIENCE_S)
        writer, cleaners = Writer(kafka.bootstrap_servers, seed=1), Cleaners(kafka, tmp_path)
        marked: set[int] = set()
        for name in ("first", "second", "third"):
            left = one_pass(writer, cleaners, name)
            tombstones = {offset for offset, _, value, *_ in left.records if value is None}
            markers = {offset for offset, *_ in left.markers}
            assert not marked & (tombstones | markers), "what a pass before has marked is gone"
            assert left.marked & tombstones, name
            assert len(left.records) < 2000
            marked = left.marked
            time.sleep(RETENTION_MS / 1000)  # their horizon passes
        assert marked & markers, "markers, too, whose transactions are gone"


def one_pass(writer: Writer, cleaners: Cleaners, name: str) -> Left:
    """More records, and both cleaners over the same log; what they both leave."""
    writer.chapter(name)
    ours = cleaners.copy(f"ours {name}")
    cleaners.clean_there()
    theirs = cleaners.copy(f"theirs {name}")
    cleaners.clean_here(ours)
    left = left_of(ours)
    same(left, left_of(theirs))
    return left
