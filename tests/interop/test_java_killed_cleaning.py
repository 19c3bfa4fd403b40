"""Apache Kafka is killed while its cleaner compacts a log; what it left is opened by us, and by Kafka itself.

Its cleaner leaves gaps between segments, and a killed Kafka has no mark that vouches for those of the pass that was
under way: after a loss of power such a gap would be the trace of a lost tail. It also leaves ``.cleaned`` and ``.swap``
files. From one real kill, the log before it and what the cleaner made of it, the other moments are made by renaming
files in Kafka's order; each is a partition of the same topic, so one start of Kafka shows what it makes of them all.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import confluent_kafka
import confluent_kafka.admin
import pytest

from pykraft.common.types import METADATA_TOPIC, TopicPartition
from pykraft.storage.disk.checkpoint import CLEANER_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, read_offsets, write_offsets
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.upkeep.log_manager import LogManager
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.log_laws import all_batches, check
from tests.harness.storage import open_directory, settings
from tests.harness.waiting import wait_until
from tests.interop.test_java_directories import needs_java

__all__ = ["needs_java"]
pytestmark = pytest.mark.limit(300)

TOPIC = "latest"
KEY = TopicPartition(TOPIC, 0)
SEGMENT_BYTES, INDEX_BYTES = 64 << 10, 16 << 10
CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "segment.index.bytes": str(INDEX_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
}
OURS = settings(
    cleanup_policy=["compact"], internal_segment_bytes=SEGMENT_BYTES, segment_index_bytes=INDEX_BYTES, retention_ms=-1
)
HOT_KEYS = 7
A_LONG_TIME_MS, A_MOMENT_MS = 3_600_000, 20
SLOWLY, FREELY = 800_000, 1 << 40
"""Bytes per second that the cleaner may move."""
CLEANER_BEGINS = "[kafka-log-cleaner-thread-0]: Starting"
KILLS = 2
PATIENCE_S = 60.0

Rows = dict[int, list[tuple[int, bytes | None, bytes | None]]]
"""By partition: offset, key and value."""


def write(servers: str, chapter: str, count: int) -> None:
    """Stretches of records that stay, and stretches of which all but the last few are replaced: what the cleaner leaves
    of a segment may end long before the next one begins, or be nothing."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 2, "log_level": 0, "acks": "all"})
    for number in range(count):
        is_hot = number % 500 >= 150
        key = f"hot {number % HOT_KEYS}" if is_hot else f"{chapter} {number}"
        producer.produce(TOPIC, f"{chapter} {number} ".ljust(300, "."), key, 0)
        if number % 40 == 39:
            producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0


def let_it_clean(kafka: ApacheKafka, backoff_ms: int, bytes_per_second: int) -> None:
    """Settings of the cleaner that can be changed while the broker runs. They are acknowledged before its thread begins
    anew with them; and a thread that begins looks for work before it waits. If it looked late, it would find what is
    written meanwhile, and would leave nothing to do for the pass that is to be cut short."""
    begun = kafka.log(1).count(CLEANER_BEGINS)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    values = {"log.cleaner.backoff.ms": backoff_ms, "log.cleaner.io.max.bytes.per.second": float(bytes_per_second)}
    entries = [
        confluent_kafka.admin.ConfigEntry(
            name, str(value), incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET
        )
        for name, value in values.items()
    ]
    resource = confluent_kafka.admin.ConfigResource("broker", "1", incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)
    wait_until(lambda: kafka.log(1).count(CLEANER_BEGINS) > begun, "the cleaner begins again", PATIENCE_S)


def bases(folder: pathlib.Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def leftovers(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".cleaned", ".swap"))


class Kill(NamedTuple):
    """What a kill left of the log, and the two marks that were written down."""

    left: pathlib.Path
    clean: int | None
    recovery_point: int | None


def kill_while_cleaning(kafka: ApacheKafka, target: pathlib.Path, chance: random.Random) -> Kill:
    """Once it has brought a few segments into the log that were never clean before, at a moment that is drawn."""
    data = kafka.data(1)
    clean = mark(data, CLEANER_CHECKPOINT) or 0
    dirty = {path: path.stat().st_size for path in (data / str(KEY)).glob("*.log") if int(path.stem) >= clean}

    def is_replaced(path: pathlib.Path) -> bool:
        try:
            return path.stat().st_size < dirty[path]
        except FileNotFoundError:
            return True

    def is_in_mid_pass() -> bool:
        return sum(map(is_replaced, dirty)) >= 2 and bool(leftovers(data / str(KEY)))

    wait_until(is_in_mid_pass, "the cleaner is in mid-pass", PATIENCE_S)
    time.sleep(chance.random() * 0.2)
    kafka.kill(1)
    return Kill(copied(data / str(KEY), target), mark(data, CLEANER_CHECKPOINT), mark(data, RECOVERY_POINT_CHECKPOINT))


def mark(data: pathlib.Path, checkpoint: str) -> int | None:
    return read_offsets(OsFileSystem(), f"{data}/{checkpoint}").get(KEY)


def copied(folder: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    shutil.copytree(folder, target, copy_function=shutil.copy2)
    return target


# --- moments of a swap ------------------------------------------------------------------------------------------------


def files(folder: pathlib.Path, base: int) -> list[pathlib.Path]:
    """Of one segment, in the order in which Kafka gives them other names."""
    kinds = (".log", ".index", ".timeindex", ".txnindex")
    return [path for kind in kinds if (path := folder / f"{base:020d}{kind}").exists()]


class Swap:
    """A cleaned segment that came into the log before the kill, and the most segments that one was made of."""

    def __init__(self, before: pathlib.Path, killed: pathlib.Path) -> None:
        self._before, self._killed = before, killed
        after = bases(killed)
        groups = {
            new: [base for base in bases(before) if new <= base < following] for new, following in pairwise(after)
        }
        self.new, self.old = max(groups.items(), key=lambda group: len(group[1]))

    def at(self, target: pathlib.Path, moment: Callable[[list[pathlib.Path], list[list[pathlib.Path]]], None]) -> None:
        """The folder as it was at that moment. Before it the new segment is ``.cleaned``, and what it is made of is in
        place, as is all that the cleaner would have come to later."""
        copied(self._killed, target)
        for path in target.iterdir():
            is_later = path.name[0].isdigit() and int(path.stem.partition(".")[0]) > self.old[-1]
            if path.suffix in (".cleaned", ".swap", ".deleted") or (is_later and path.suffix != ".snapshot"):
                path.unlink()
        cleaned = [path.rename(f"{path}.cleaned") for path in files(target, self.new)]
        for base in [base for base in bases(self._before) if base >= self.new]:
            for path in files(self._before, base):
                shutil.copy2(path, target)
        moment(cleaned, [files(target, base) for base in self.old])


def named(paths: list[pathlib.Path], suffix: str) -> list[pathlib.Path]:
    """The same files under ``.swap`` instead of ``.cleaned``, or under no suffix."""
    return [path.rename(str(path).removesuffix(".cleaned").removesuffix(".swap") + suffix) for path in paths]


def deleted(paths: list[pathlib.Path]) -> None:
    for path in paths:
        path.rename(f"{path}.deleted")


def some_files_are_swap(new: list[pathlib.Path], old: list[list[pathlib.Path]]) -> None:
    named(new[:1], ".swap")


def all_files_are_swap(new: list[pathlib.Path], old: list[list[pathlib.Path]]) -> None:
    named(new, ".swap")


def the_first_old_log_is_deleted(new: list[pathlib.Path], old: list[list[pathlib.Path]]) -> None:
    named(new, ".swap")
    deleted(old[0][:1])


def all_old_segments_but_the_last_are_deleted(new: list[pathlib.Path], old: list[list[pathlib.Path]]) -> None:
    named(new, ".swap")
    for each in old[:-1]:
        deleted(each)


def all_old_segments_are_deleted(new: list[pathlib.Path], old: list[list[pathlib.Path]]) -> None:
    named(new, ".swap")
    for each in old:
        deleted(each)


def only_the_new_log_has_its_name(new: list[pathlib.Path], old: list[list[pathlib.Path]]) -> None:
    for each in old:
        deleted(each)
    first, *others = named(new, ".swap")
    named([first], "")
    assert others


MOMENTS = (
    some_files_are_swap,
    all_files_are_swap,
    the_first_old_log_is_deleted,
    all_old_segments_but_the_last_are_deleted,
    all_old_segments_are_deleted,
    only_the_new_log_has_its_name,
)
PARTITIONS = KILLS + len(MOMENTS)

# --- what both make of it ---------------------------------------------------------------------------------------------


def rows_of_kafka(servers: str) -> Rows:
    """All that a consumer gets."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "enable.partition.eof": True, "log_level": 0}
    )
    rows: Rows = {number: [] for number in range(PARTITIONS)}
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, number, 0) for number in rows])
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < len(rows):
            assert time.monotonic() < deadline, f"only {ended} of the partitions have ended"
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
                else:
                    rows[message.partition()].append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()
    return rows


def opened(home: pathlib.Path) -> LogManager:
    return open_directory(home, OURS, not_mine=frozenset({f"{METADATA_TOPIC}-0"}))


def rows_of_ours(manager: LogManager) -> Rows:
    return {
        key.partition: [(r.offset, r.key, r.value) for each in all_batches(log) for r in each.records()]
        for key, log in sorted(manager.logs.items())
    }


def gaps(manager: LogManager) -> int:
    logs = manager.logs.values()
    return sum(one.next_offset() != after.base_offset for log in logs for one, after in pairwise(log.segments))


@pytest.fixture
def kafka() -> Iterator[ApacheKafka]:
    waiting = {"log.cleaner.backoff.ms": str(A_LONG_TIME_MS)}
    with ApacheKafka(java_options=QUICK_START, properties=waiting) as kafka:
        yield kafka


@pytest.mark.long  # the states themselves are opened in unit/storage/upkeep/test_log_loader.py
def test_what_kafka_left_when_it_was_killed_while_cleaning_is_opened_as_kafka_opens_it(
    kafka: ApacheKafka, tmp_path: pathlib.Path
) -> None:
    chance = random.Random(20)
    data = kafka.data(1)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    new = confluent_kafka.admin.NewTopic(TOPIC, PARTITIONS, 1, config=CONFIG)
    admin.create_topics([new])[TOPIC].result(PATIENCE_S)
    write(kafka.bootstrap_servers, "first", 4000)
    let_it_clean(kafka, A_MOMENT_MS, FREELY)
    wait_until(lambda: bool(mark(data, CLEANER_CHECKPOINT)), "it is clean", PATIENCE_S)
    let_it_clean(kafka, A_LONG_TIME_MS, SLOWLY)
    write(kafka.bootstrap_servers, "second", 4000)
    before = copied(data / str(KEY), tmp_path / "before")
    let_it_clean(kafka, A_MOMENT_MS, SLOWLY)
    kills = [kill_while_cleaning(kafka, tmp_path / "kill 0", chance)]
    for number in range(1, KILLS):
        kafka.restart(1)  # it goes on with the pass at once
        write(kafka.bootstrap_servers, f"after kill {number}", 4000)
        kills.append(kill_while_cleaning(kafka, tmp_path / f"kill {number}", chance))
    swap = Swap(before, kills[0].left)
    assert len(swap.old) > 1
    for number, kill in enumerate(kills):
        replace(data, number, partial(copied, kill.left))
    for number, moment in enumerate(MOMENTS, start=KILLS):
        replace(data, number, partial(swap.at, moment=moment))
    write_marks(data, kills, below_all_gaps=bases(before)[1])
    home = copied(data, tmp_path / "home")
    without_cleaner(kafka)
    kafka.restart(1)
    compare(home, rows_of_kafka(kafka.bootstrap_servers), swap)


def replace(data: pathlib.Path, number: int, make: Callable[[pathlib.Path], object]) -> None:
    folder = data / f"{TOPIC}-{number}"
    shutil.rmtree(folder)
    make(folder)


def write_marks(data: pathlib.Path, kills: list[Kill], below_all_gaps: int) -> None:
    """Of the real kills those that were there; of the made ones only a recovery point."""
    clean = {TopicPartition(TOPIC, n): kill.clean for n, kill in enumerate(kills) if kill.clean is not None}
    points = {TopicPartition(TOPIC, n): kill.recovery_point for n, kill in enumerate(kills) if kill.recovery_point}
    points |= {TopicPartition(TOPIC, number): below_all_gaps for number in range(KILLS, PARTITIONS)}
    write_offsets(OsFileSystem(), f"{data}/{CLEANER_CHECKPOINT}", clean)
    write_offsets(OsFileSystem(), f"{data}/{RECOVERY_POINT_CHECKPOINT}", points)


def without_cleaner(kafka: ApacheKafka) -> None:
    with (kafka.folder(1) / "server.properties").open("a") as file:
        file.write("log.cleaner.enable=false\n")


def compare(home: pathlib.Path, expected: Rows, swap: Swap) -> None:
    manager = opened(home)
    assert not manager.lost_bytes
    found = rows_of_ours(manager)
    for number, rows in expected.items():
        assert found[number] == rows, f"partition {number}"
    assert gaps(manager) > PARTITIONS, "nothing was tried"
    for number in range(PARTITIONS):
        log = manager.logs[TopicPartition(TOPIC, number)]
        check(log)
        assert not leftovers(pathlib.Path(log.directory))
        is_new = number != KILLS + MOMENTS.index(some_files_are_swap)
        assert (swap.old[1] not in [segment.base_offset for segment in log.segments]) is is_new
    manager.abandon()
    again = opened(home)  # our process, too, may be killed
    assert rows_of_ours(again) == found
    again.close(broker_epoch=1)
