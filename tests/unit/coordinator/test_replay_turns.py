"""Shards that are loaded and their committed views share a turn of the node's loop, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from pykraft.coordinator import committed_view, replay_turn
from pykraft.coordinator import runtime as module
from pykraft.coordinator.committed_view import CommittedView
from pykraft.coordinator.replay import changes
from pykraft.coordinator.replay_turn import RECORDS_PER_TURN, ReplayTurn
from pykraft.coordinator.result import CoordinatorResult
from pykraft.protocol.messages.cluster import FindCoordinatorRequest
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    OffsetCommitValue,
    encode_coordinator_record,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from tests.harness.asking import create, new_topic
from tests.harness.lone_node import LoneNode
from tests.unit.coordinator.sums import Coordinator, Log, P, Sum, record

GROUPS, OFFSETS = 24, 250
RECORDS = GROUPS * OFFSETS


@pytest.fixture(scope="module")
def lone() -> LoneNode:
    """A node with offsets of many groups, in many partitions."""
    node = LoneNode(offsets_topic_num_partitions="8", offsets_topic_replication_factor="1")
    node.handle(create(new_topic("t", OFFSETS, 1)))
    node.handle(FindCoordinatorRequest(key_type=0, coordinator_keys=["group-0"]), version=4)
    node.run(3000)
    topic = OffsetCommitRequest.Topic
    offsets = [topic.Partition(partition_index=number, committed_offset=1) for number in range(OFFSETS)]
    for number in range(GROUPS):
        request = OffsetCommitRequest(group_id=f"group-{number}", topics=[topic(name="t", partitions=offsets)])
        assert {p.error_code for p in node.ask(request, version=9).topics[0].partitions} == {0}
    return node


def replayed_by_turn(lone: LoneNode, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Load all shards again: how many records each turn replays."""
    count, changes = 0, module.changes

    def counted(*args: Any) -> Iterator[Any]:
        nonlocal count
        for change in changes(*args):
            count += 1
            yield change

    monkeypatch.setattr(module, "changes", counted)
    runtime = lone.broker.groups.runtime
    for partition in runtime.partitions:
        epoch = runtime.epoch(partition)
        runtime.resign(partition)
        runtime.lead(partition, epoch, lone.now)
    turns = []
    while runtime.is_loading:
        before = count
        runtime.poll(lone.now)
        turns.append(count - before)
    return turns


@pytest.mark.costly
def test_all_shards_together_replay_no_more_than_a_few_thousand_records_in_a_turn(
    lone: LoneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = replayed_by_turn(lone, monkeypatch)
    assert sum(turns) >= RECORDS and max(turns) <= RECORDS_PER_TURN
    assert len(turns) <= RECORDS // RECORDS_PER_TURN + 2, "none is idle"
    assert lone.broker.groups.runtime.active_partitions() == lone.broker.groups.runtime.partitions


# --- committed views --------------------------------------------------------------------------------------------------

PER_TURN, MOST_PENDING = 10, 60
BATCH = 25
"""Larger than a turn."""


class Replays:
    """How many records the shards and the views of a coordinator replay in each turn of its node."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(replay_turn, "RECORDS_PER_TURN", PER_TURN)
        patch.setattr(committed_view, "MOST_PENDING", MOST_PENDING)
        self.coordinator = Coordinator()
        for _ in range(4):
            self.write()
        replay = Sum.replay

        def counted(shard: Sum, taken: CoordinatorRecord, producer_id: int) -> None:
            self.count += 1
            replay(shard, taken, producer_id)

        patch.setattr(Sum, "replay", counted)
        self.count = 0

    def write(self) -> None:
        self.coordinator.write(
            lambda shard: CoordinatorResult(None, [record(shard.value + n + 1) for n in range(BATCH)])
        )
        self.coordinator.turn()

    def load(self) -> None:
        """Begin to load the shard again."""
        self.coordinator.runtime.resign(P)
        self.coordinator.runtime.lead(P, 1, self.coordinator.now)

    def turns(self, is_over: Callable[[], bool]) -> list[int]:
        """What each turn replays until it is over. What was asked before belongs to the first."""
        found = []
        while not is_over():
            self.coordinator.rooms.turn(self.coordinator.now)
            found.append(self.count)
            self.count = 0
        return found


def test_what_a_view_replays_while_its_shard_is_loaded_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    replays = Replays(monkeypatch)
    replays.load()
    turns = replays.turns(lambda: not replays.coordinator.runtime.is_loading)
    view = replays.coordinator.runtime.view(P)
    assert sum(turns) == 2 * 4 * BATCH and view.shard.value == 4 * BATCH
    assert max(turns) == PER_TURN and len(turns) <= sum(turns) // PER_TURN + 1, "none is idle"


@pytest.mark.parametrize("are_kept", [True, False])
def test_the_first_read_after_a_load_replays_no_more_in_a_turn(monkeypatch: pytest.MonkeyPatch, are_kept: bool) -> None:
    """The high watermark of a new leader is old, and then it rises to the end."""
    replays = Replays(monkeypatch)
    replays.coordinator.log.committed = 0 if not are_kept else 2 * BATCH
    replays.load()
    replays.turns(lambda: not replays.coordinator.runtime.is_loading)
    view = replays.coordinator.runtime.view(P)
    assert (view.pending > 0, view.is_behind) == (are_kept, not are_kept)
    replays.coordinator.log.committed = 4 * BATCH
    answer = replays.coordinator.runtime.read(P, lambda committed, live: committed.value, replays.coordinator.now)
    turns = replays.turns(lambda: answer.kept)
    assert answer.value == 4 * BATCH
    assert sum(turns) == (2 if are_kept else 4) * BATCH and max(turns) == PER_TURN


def test_a_view_without_readers_follows_the_commits_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    replays = Replays(monkeypatch)
    replays.coordinator.log.committed = 4 * BATCH
    replays.write()
    replays.write()
    replays.count = 0
    replays.coordinator.log.committed = 6 * BATCH
    replays.coordinator.runtime.note_high_watermark(P)
    turns = replays.turns(lambda: not replays.coordinator.runtime.has_work)
    assert sum(turns) == 2 * BATCH and max(turns) == PER_TURN
    assert replays.coordinator.runtime.view(P).pending == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_view_replays_each_committed_record_once_and_in_order(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever the sizes of batches, and whenever a turn ends, the high watermark moves or the view forgets."""
    monkeypatch.setattr(replay_turn, "RECORDS_PER_TURN", 7)
    monkeypatch.setattr(committed_view, "MOST_PENDING", 12)
    random, turn, log, taken = Random(seed), ReplayTurn(), Log(), Taken()
    view, reading = CommittedView(taken, GROUP_RECORDS, log, P, turn), None
    log.committed, forgotten = 0, 0
    for _ in range(300):
        chance = random.random()
        if chance < 0.3:
            first, count = log.ends[-1], random.randint(1, 9)
            end = log.append(P, [encode_coordinator_record(record(first + n)) for n in range(count)], 0)
            (batch,) = log.batches(P, first)
            view.note(end, list(changes(GROUP_RECORDS, batch)))
        elif chance < 0.5:
            log.committed = random.choice([each for each in log.ends if each >= log.committed])
        elif reading is None and not view.catch_up(log.committed):
            reading = view.follow()
        if reading is not None and next(reading, "over") == "over":
            reading = None
        if random.random() < 0.6:
            turn.begin()
        forgotten += view.is_behind
        assert taken.numbers == list(range(len(taken.numbers))) and len(taken.numbers) <= log.committed
    view.catch_up(log.committed, in_turn=False)
    while not view.catch_up(log.committed):
        turn.begin()
        reading = reading or view.follow()
        if next(reading, "over") == "over":
            reading = None
    assert taken.numbers == list(range(log.committed)) and forgotten > 0


class Taken(Sum):
    """The numbers that were replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        assert isinstance(record.value, OffsetCommitValue)
        self.numbers.append(record.value.offset)
