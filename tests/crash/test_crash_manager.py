"""A log directory after a crash: its logs, and what its checkpoints claim of them.

The stories are those of a broker: it creates logs, appends, truncates, deletes a log and makes another of the same
name, writes its checkpoints from time to time, stops in order and starts again. The disk is stopped before each
operation in turn; then the process is ended or the power fails, and the next start is judged:

* each log is a prefix of what was appended and holds what must be there;
* a high watermark is never above what it was, so no reader sees what may yet be lost;
* the stop counts as orderly only if it was.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random

import pytest

from pykraft.common.types import TopicPartition, Uuid
from pykraft.sim.world.disk import Crash
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep import log_manager
from pykraft.storage.upkeep.log_manager import LogManager, lock_directory
from tests.harness.log_laws import all_batches, check
from tests.harness.storage import LOGS, NEVER_MS, ByHand, ManualClock, at, batch, copied, disk, durable_end, tiny
from tests.harness.story import Journal, Step

FLIGHTS = TopicPartition("flights", 0)
PLANES = TopicPartition("planes", 0)
BROKER_EPOCH = 77


class Broker:
    """A log manager, and a journal for each of its logs."""

    def __init__(self, cleanup_policy: str = "delete") -> None:
        self.config = tiny(retention_ms=-1, cleanup_policy=cleanup_policy)
        self.filesystem = disk()
        self.background = ByHand()
        self.random = Random(5)
        self.journals: dict[TopicPartition, Journal] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.incarnation = 0
        self.epoch = 0
        self.closing = False
        self.manager: LogManager | None = None

    def start(self) -> None:
        self.background = ByHand()
        self.lock = lock_directory(self.filesystem, LOGS)
        self.manager = LogManager(
            filesystem=self.filesystem,
            directory=LOGS,
            config_for=lambda _: self.config,
            clock=ManualClock(),
            background=self.background,
            random=self.random,
            producer_id_expiration_ms=NEVER_MS,
        )
        self.manager.start()
        self.closing = False

    @property
    def now(self) -> LogManager:
        assert self.manager is not None
        return self.manager

    def log(self, partition: TopicPartition) -> UnifiedLog:
        return self.now.logs[partition]

    # --- steps --------------------------------------------------------------------------------------------------------

    def create(self, partition: TopicPartition) -> None:
        self.incarnation += 1
        self.journals.setdefault(partition, Journal())
        self.high_watermarks.setdefault(partition, 0)
        self.now.get_or_create(partition, self.topic_id)

    @property
    def topic_id(self) -> Uuid:
        return Uuid(bytes([self.incarnation] * 16))

    def append(self, partition: TopicPartition, times: int = 1) -> None:
        log, journal = self.log(partition), self.journals[partition]
        for _ in range(times):
            some = batch(2, timestamp=log.log_end_offset * 10, key=b"k")
            journal.begin_append([at(log.log_end_offset, copied(some), self.epoch)])
            log.append_as_leader(some, self.epoch)
            journal.end_append()

    def skip(self, partition: TopicPartition, gap: int) -> None:
        """As a follower whose leader's log was compacted."""
        log, journal = self.log(partition), self.journals[partition]
        some = at(log.log_end_offset + gap, batch(2), self.epoch)
        journal.begin_append([some])
        log.append_as_follower(memoryview(some.buffer))
        journal.end_append()

    def truncate(self, partition: TopicPartition, back: int) -> None:
        log, journal = self.log(partition), self.journals[partition]
        offset = log.log_end_offset - back
        journal.begin_truncation(offset)
        log.truncate_to(offset)
        journal.end_truncation()
        self.high_watermarks[partition] = min(self.high_watermarks[partition], log.log_end_offset)
        self.epoch += 1

    def replicate(self, partition: TopicPartition, back: int) -> None:
        offset = self.log(partition).log_end_offset - back
        self.high_watermarks[partition] = max(self.high_watermarks[partition], offset)
        self.log(partition).update_high_watermark(offset)

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        """As a broker does before it answers."""
        journal = self.journals[partition]
        journal.begin_deletion(offset)
        self.log(partition).increase_log_start(offset)
        self.now.write_log_starts()
        journal.end_deletion()

    def shorten(self) -> None:
        self.now.delete_old_segments()
        self.now.empty_trash()

    def work(self) -> None:
        self.background.run()

    def write_checkpoints(self) -> None:
        self.now.write_checkpoints()

    def delete(self, partition: TopicPartition) -> None:
        journal = self.journals[partition]
        journal.begin_truncation(0)
        self.now.delete(partition)
        self.journals[partition], self.high_watermarks[partition] = Journal(), 0
        self.epoch += 1

    def stop(self) -> None:
        self.closing = True
        self.now.close(BROKER_EPOCH)
        self.lock.release()
        for partition, log in self.now.logs.items():
            self.journals[partition].synced_offset = log.log_end_offset

    # --- playing ------------------------------------------------------------------------------------------------------

    def play(self, story: Sequence[Step]) -> bool:
        try:
            for name, arguments in (("start", ()), *story):
                getattr(self, name)(*arguments)
        except Crash:
            return False
        return True

    def fork(self) -> Broker:
        """The same broker with a disk of its own, after a crash."""
        twin = copy.copy(self)
        twin.filesystem, twin.journals = copy.deepcopy(self.filesystem), copy.deepcopy(self.journals)
        twin.random = copy.deepcopy(self.random)
        return twin

    def recover(self, power: Random | None, has_started: bool = True) -> None:
        synced = self.manager.logs if self.manager is not None and has_started else {}
        for partition, log in synced.items():
            journal = self.journals[partition]
            on_disk = durable_end(self.filesystem, f"{LOGS}/{partition}")
            journal.synced_offset = max(journal.synced_offset, log.recovery_point, on_disk)
        if power is None:
            self.filesystem.crash_process()
        else:
            self.filesystem.crash_power(power)
        was_closing = self.closing
        self.start()
        if self.now.previous_broker_epoch != -1:
            assert was_closing and self.now.previous_broker_epoch == BROKER_EPOCH
        for partition, journal in self.journals.items():
            log = self.now.logs.get(partition)
            found = all_batches(log) if log else []
            journal.judge([bytes(each.buffer) for each in found], power is not None)
            if log:
                check(log)
                assert journal.start_offset <= log.log_start_offset <= journal.coming_start
                assert log.high_watermark <= self.high_watermarks[partition]


STORIES: dict[str, list[Step]] = {
    "checkpoints are written, a log is truncated below them and goes on": [
        ("create", (FLIGHTS,)),
        ("create", (PLANES,)),
        ("append", (FLIGHTS, 9)),
        ("append", (PLANES, 1)),
        ("work", ()),
        ("replicate", (FLIGHTS, 2)),
        ("write_checkpoints", ()),
        ("truncate", (FLIGHTS, 12)),
        ("append", (FLIGHTS, 9)),
    ],
    "a log is deleted, and another one of its name begins": [
        ("create", (FLIGHTS,)),
        ("append", (FLIGHTS, 9)),
        ("work", ()),
        ("replicate", (FLIGHTS, 0)),
        ("write_checkpoints", ()),
        ("delete", (FLIGHTS,)),
        ("create", (FLIGHTS,)),
        ("append", (FLIGHTS, 8)),
        ("work", ()),
        ("append", (FLIGHTS, 2)),
    ],
    "records are deleted, and segments after them": [
        ("create", (FLIGHTS,)),
        ("append", (FLIGHTS, 9)),
        ("work", ()),
        ("replicate", (FLIGHTS, 2)),
        ("delete_records", (FLIGHTS, 5)),
        ("write_checkpoints", ()),
        ("delete_records", (FLIGHTS, 12)),
        ("shorten", ()),
        ("append", (FLIGHTS, 5)),
        ("replicate", (FLIGHTS, 0)),
        ("truncate", (FLIGHTS, 3)),
        ("delete_records", (FLIGHTS, 20)),
        ("stop", ()),
        ("start", ()),
        ("shorten", ()),
        ("append", (FLIGHTS, 2)),
    ],
    "batches come behind gaps that no index can express": [
        ("create", (FLIGHTS,)),
        ("skip", (FLIGHTS, (1 << 31) - 1)),
        ("append", (FLIGHTS, 4)),
        ("work", ()),
        ("skip", (FLIGHTS, (1 << 31) - 2)),
        ("create", (PLANES,)),
        ("append", (PLANES, 1)),
        ("skip", (FLIGHTS, 1 << 31)),
        ("truncate", (FLIGHTS, 3)),
        ("append", (FLIGHTS, 2)),
    ],
    "stopped in order and started again": [
        ("create", (FLIGHTS,)),
        ("append", (FLIGHTS, 7)),
        ("replicate", (FLIGHTS, 3)),
        ("stop", ()),
        ("start", ()),
        ("append", (FLIGHTS, 5)),
        ("truncate", (FLIGHTS, 11)),
        ("append", (FLIGHTS, 2)),
        ("stop", ()),
        ("start", ()),
    ],
}


@pytest.mark.parametrize("name", STORIES)
def test_a_directory_survives_the_end_of_its_process_at_any_moment(name: str) -> None:
    for broker in stopped(STORIES[name]):
        broker.recover(power=None)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STORIES)
def test_a_directory_survives_a_loss_of_power_at_any_moment(name: str, seed: int) -> None:
    for number, broker in enumerate(stopped(STORIES[name])):
        broker.recover(Random(1000 * seed + number))


@pytest.mark.parametrize("seed", range(3))
def test_a_new_compacted_log_survives_a_loss_of_power_before_its_marks_are_written_down(seed: int) -> None:
    """Where nothing is known of a compacted log, a gap in it is taken for one that Kafka's cleaner left."""
    story: list[Step] = [("create", (FLIGHTS,)), ("append", (FLIGHTS, 12))]
    for number, broker in enumerate(stopped(story, "compact")):
        broker.recover(Random(1000 * seed + number))


@pytest.mark.parametrize("seed", range(3))
def test_so_does_one_that_is_to_be_compacted_since_a_moment_ago(seed: int) -> None:
    """It was created without."""
    story: list[Step] = [("create", (FLIGHTS,)), ("append", (FLIGHTS, 12))]
    for number, broker in enumerate(stopped(story)):
        broker.config = tiny(retention_ms=-1, cleanup_policy="compact")
        broker.recover(Random(1000 * seed + number))


@pytest.mark.parametrize("seed", range(4))
def test_a_directory_whose_logs_are_synced_at_once_survives_a_loss_of_power(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of very many are, at a stop and at the start after a crash."""
    monkeypatch.setattr(log_manager, "_SYNCED_ONE_BY_ONE", 0)
    for number, broker in enumerate(stopped(STORIES["stopped in order and started again"])):
        broker.recover(Random(1000 * seed + number))


@pytest.mark.parametrize("name", STORIES)
def test_a_crash_while_a_directory_is_opened_changes_nothing(name: str) -> None:
    """The start after a crash is stopped at each of its operations, and begun again."""
    random = Random(7)
    for broker in random.sample(stopped(STORIES[name]), 6):
        broker.filesystem.crash_process()
        for count in range(10_000):
            twin = broker.fork()
            twin.filesystem.crash_after(count, torn_bytes=7 * count % 97)
            try:
                twin.start()
            except Crash:
                twin.recover(random.choice((None, random)), has_started=False)
                continue
            break


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", STORIES)
def test_a_second_loss_of_power_soon_after_a_crash_finds_no_stale_claims(name: str, seed: int) -> None:
    """What a start trusts was written by the run before it, or by itself: crash, go on for a while, crash again."""
    random = Random(seed)
    for broker in random.sample(list(stopped(STORIES[name])), 25):
        broker.recover(random.choice((None, random)))
        go_on(broker, random)
        broker.recover(random)


def go_on(broker: Broker, random: Random) -> None:
    """The broker learns what it has, and appends until the disk stops again."""
    broker.journals = {partition: Journal() for partition in broker.now.logs}
    for partition, journal in broker.journals.items():
        journal.batches = [bytes(each.buffer) for each in all_batches(broker.log(partition))]
        journal.at_least = len(journal.batches)
        journal.start_offset = journal.coming_start = broker.log(partition).log_start_offset
    broker.high_watermarks = {partition: log.high_watermark for partition, log in broker.now.logs.items()}
    broker.epoch += 1
    broker.filesystem.crash_after(random.randint(1, 60))
    try:
        if FLIGHTS not in broker.now.logs:
            broker.create(FLIGHTS)
        broker.append(FLIGHTS, 20)
    except Crash:
        return


def stopped(story: Sequence[Step], cleanup_policy: str = "delete") -> list[Broker]:
    """The story's broker, stopped before its first operation, its second, and so on to the end."""
    brokers: list[Broker] = []
    while True:
        broker = Broker(cleanup_policy)
        broker.filesystem.crash_after(len(brokers), torn_bytes=7 * len(brokers) % 97)
        finished = broker.play(story)
        brokers.append(broker)
        if finished:
            return brokers
