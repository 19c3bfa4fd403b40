"""Days in few events: histories in which all machines sleep again and again break no law; and after days what has
expired is gone, what has not is there, and an idle node has written nothing but its own heartbeat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.client.administration.group_offsets import GroupOffsetCalls
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.common.core import FOREVER
from pykraft.common.types import TopicPartition
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.coordinator.transaction.state import TransactionMetadata, record_of
from pykraft.protocol.messages.coordinators import encode_coordinator_record
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.laws.transaction_laws import BANK, Outcome
from pykraft.sim.trouble.long_times import LONG_TIME_SEEDS
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler
from tests.sim.floors import Floors, hold_floors
from tests.sim.test_throttle import Asking
from tests.sim.test_transactions import World

FLOORS = Floors(
    short=LONG_TIME_SEEDS[:1],
    long=LONG_TIME_SEEDS[:40],
    short_floors={"minutes_slept": 1_000, "acknowledged": 100},
    long_floors={"minutes_slept": 100_000, "acknowledged": 5_000, "elections": 40, "committed": 200},
)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MOST_BYTES_A_DAY = 25_000_000
"""Of the metadata log, with a record that says nothing every half second. Snapshots let the beginning of it go."""


@pytest.mark.long
@pytest.mark.limit(3600)
def test_no_law_is_broken_though_all_machines_sleep_for_days(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


class Days(World):
    """A node that has a producer with a transactional id, which has written, and a group with an offset."""

    def __init__(self) -> None:
        super().__init__(7)
        self.writer = self.teller("first", "bank")
        self.run(lambda: self.writer.written >= 10)
        self.writer.is_pausing = True
        self.run(lambda: self.writer.is_idle)
        asking = Asking()
        self.start("asking", asking)
        offsets = {TopicPartition(BANK, 0): OffsetAndMetadata(3)}
        done = GroupOffsetCalls(asking.driver).alter_consumer_group_offsets("g", offsets, FOREVER)
        self.run(lambda: done.kept)
        self.began = self.scheduler.now

    def sleep_until(self, since_ms: int) -> None:
        """Sleep until so long after all was written; then be awake for a minute."""
        self.scheduler.skip((self.began + since_ms - self.scheduler.now) * US_PER_MS)
        awake_until = self.scheduler.now + 60_000
        self.run(lambda: self.scheduler.now >= awake_until)

    @property
    def known(self) -> tuple[bool, bool, bool, int]:
        """Whether a log knows its producer, the transactional id is there, and the offset; how many records are."""
        assert self.node.node is not None and self.node.node.broker is not None
        broker = self.node.node.broker
        logs = [broker.replicas.partitions[TopicPartition(BANK, number)].log for number in range(3)]
        ids = [
            each
            for shard in broker.transactions.runtime.active_partitions()
            for each in broker.transactions.runtime.active(shard).transactions
        ]
        groups = broker.groups.runtime
        kept = [groups.active(number).offsets.of("g") for number in groups.active_partitions()]
        return (
            any(log.producer_state.producers for log in logs),
            "bank" in ids,
            any(kept),
            sum(log.log_end_offset - log.log_start_offset for log in logs),
        )

    def written(self) -> dict[str, int]:
        """Where each log ends."""
        node = self.node.node
        assert node is not None and node.broker is not None
        return {str(key): each.log.log_end_offset for key, each in node.broker.replicas.partitions.items()}


def test_what_has_expired_after_days_is_gone_and_nothing_else() -> None:
    days = Days()
    producers, is_id_known, is_offset_kept, count = days.known
    assert producers and is_id_known and is_offset_kept and count > 20
    days.sleep_until(DAY_MS // 2)
    assert days.known == (True, True, True, count)
    days.sleep_until(DAY_MS + HOUR_MS)
    assert days.known == (False, True, True, count), "a log forgets a producer after a day"
    days.sleep_until(6 * DAY_MS)
    assert days.known == (False, True, True, count)
    days.sleep_until(7 * DAY_MS + HOUR_MS)
    assert days.known == (False, False, False, 0), "all else is kept for a week"


def test_an_idle_node_writes_to_no_partition_and_little_to_the_metadata_log() -> None:
    days = Days()
    before = days.written()
    assert {GROUP_TOPIC, TRANSACTION_TOPIC, BANK} == {key.rpartition("-")[0] for key in before}
    node = days.node.node
    assert node is not None
    log, began, steps = node.raft.replica.log.unified, days.scheduler.now, days.scheduler.steps
    size = log.size
    days.sleep_until(12 * HOUR_MS)
    assert days.written() == before
    awake_ms = 60_000
    assert (log.size - size) * DAY_MS / awake_ms < MOST_BYTES_A_DAY
    assert days.scheduler.now - began > 11 * HOUR_MS and days.scheduler.steps - steps < 10_000


@pytest.mark.parametrize(
    "epoch", [pytest.param(32_763, marks=pytest.mark.long), 32_765, pytest.param(32_766, marks=pytest.mark.long)]
)
def test_a_producer_whose_epochs_run_out_goes_on_under_another_id_and_loses_no_transfer(epoch: int) -> None:
    world = World(3)
    first = world.teller("first", "bank")
    world.reader()
    world.run(lambda: first.written >= 5)
    first.is_pausing = True
    world.run(lambda: first.is_idle)
    before = write_epoch(world, epoch)
    world.node.crash()
    world.node.start()
    second = world.teller("second", "bank")
    world.run(lambda: second.written >= 25)
    second.is_pausing = True
    world.run(lambda: second.is_idle)
    after = bank_of(world)
    assert after.producer_id != before and after.producer_epoch < 100, "its id ends with its epochs"
    assert second.error is None and not world.ledger.count(Outcome.UNKNOWN)
    world.run(lambda: world.ledger.unread() is None)
    world.ledger.check_total()


def bank_of(world: World) -> TransactionMetadata:
    """What the coordinator knows of the producer."""
    assert world.node.node is not None and world.node.node.broker is not None
    runtime = world.node.node.broker.transactions.runtime
    shards = [runtime.active(number).transactions for number in runtime.active_partitions()]
    return next(shard["bank"] for shard in shards if "bank" in shard)


def write_epoch(world: World, epoch: int) -> int:
    """The coordinator's log says that the producer has come to this epoch; its id."""
    assert world.node.node is not None and world.node.node.broker is not None
    known = bank_of(world)
    record, builder = record_of(replace(known, producer_epoch=epoch), 2), RecordBatchBuilder()
    builder.append(world.node.time_ms(), *encode_coordinator_record(record))
    for partition in world.node.node.broker.replicas.partitions.values():
        is_place = partition.topic_partition.topic == TRANSACTION_TOPIC and partition.log.log_end_offset > 0
        if is_place:
            partition.append_as_leader(RecordBatch(memoryview(builder.build())), world.scheduler.now)
    return known.producer_id


def test_what_was_due_while_the_clock_jumped_happens_at_once_in_order_and_time_never_goes_back() -> None:
    scheduler, happened = Scheduler(), list[tuple[str, int]]()
    for name, at_us in (("late", 9_000_000), ("second", 2_000), ("first", 1_000)):
        scheduler.at(at_us, lambda name=name: happened.append((name, scheduler.now)))  # type: ignore[misc]
    scheduler.skip(5_000_000)
    while scheduler.run_next():
        pass
    assert happened == [("first", 5_000), ("second", 5_000), ("late", 9_000)]
