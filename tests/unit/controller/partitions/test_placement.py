"""Placement: the properties that Kafka's StripedReplicaPlacer promises, for random clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableSequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.partitions.placement import UsableBroker, place
from tests.harness.tree import ROOT

PLACEMENTS = (ROOT / "tests" / "golden" / "placements.txt").read_text().splitlines()
BROKERS = st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.booleans()), min_size=1, max_size=9).map(
    lambda drawn: [UsableBroker(number, rack, fenced) for number, (rack, fenced) in enumerate(drawn)]
)


def unfenced(count: int, racks: str = "") -> list[UsableBroker]:
    """Broker n in rack `racks[n]`."""
    return [UsableBroker(n, racks[n] if racks else "", fenced=False) for n in range(count)]


@given(BROKERS, st.integers(1, 12), st.integers(1, 9), st.integers(0, 99))
def test_a_placement_is_fit_for_use_or_refused(
    brokers: list[UsableBroker], partitions: int, factor: int, seed: int
) -> None:
    by_id = {broker.id: broker for broker in brokers}
    racks = {broker.rack for broker in brokers}
    usable = any(not broker.fenced for broker in brokers)
    if factor > len(brokers) or not usable:
        with pytest.raises(KafkaError) as refused:
            place(brokers, partitions, factor, Random(seed))
        assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        return
    placed = place(brokers, partitions, factor, Random(seed))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor, "no broker twice"
        assert not by_id[replicas[0]].fenced, "the first replica leads, so it is not fenced"
        held = Counter(by_id[replica].rack for replica in replicas)
        sizes = Counter(broker.rack for broker in brokers)
        with_room = [held[rack] for rack in sizes if held[rack] < sizes[rack]]
        assert len(held) == min(factor, len(racks)), "each rack gets a replica before any gets two"
        assert max(held.values()) <= min(with_room, default=factor) + 1, "no rack holds two more than one with room"


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(0, 99))
def test_over_full_rounds_leaders_and_replicas_are_spread_evenly(
    count: int, factor: int, rounds: int, seed: int
) -> None:
    """With one rack of unfenced brokers each round visits each of them once."""
    factor = min(factor, count)
    placed = place(unfenced(count), rounds * count, factor, Random(seed))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {rounds}
    assert set(Counter(replica for replicas in placed for replica in replicas).values()) == {rounds * factor}


def test_racks_take_turns() -> None:
    racks = "aaabbb"
    placed = place(unfenced(6, racks), 12, 2, Random(3))
    assert all({racks[n] for n in replicas} == {"a", "b"} for replicas in placed)
    assert [racks[replicas[0]] for replicas in placed] in (["a", "b"] * 6, ["b", "a"] * 6)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(0, 99))
def test_in_racks_of_one_size_every_broker_holds_the_same_share(racks: int, size: int, factor: int, seed: int) -> None:
    """A full round is as many partitions as there are brokers. Then racks and brokers are shuffled."""
    count, factor = racks * size, min(factor, racks)
    brokers = unfenced(count, "abcd"[:racks] * size)
    placed = place(brokers, count, factor, Random(seed))
    racks_of_leaders = Counter(brokers[replicas[0]].rack for replicas in placed)
    assert set(racks_of_leaders.values()) == {size}, "each rack leads as much as any other"
    if factor == racks:
        held = Counter(replica for replicas in placed for replica in replicas)
        assert set(held.values()) == {factor}


def test_racks_as_large_as_there_are_racks_do_not_leave_a_broker_without_a_leader() -> None:
    """Turns of equal length would meet the same broker of a rack each time it leads."""
    for factor in (1, 2, 3):
        placed = place(unfenced(9, "aaabbbccc"), 180, factor, Random(1))
        leads = Counter(replicas[0] for replicas in placed)
        assert len(leads) == 9, (factor, leads)


class Shared(Random):
    """Random numbers that Java can draw, too: those of tests/golden/Placements.java."""

    def __init__(self, seed: int) -> None:
        super().__init__(0)
        self._state = seed

    def randrange(self, bound: int, *_: object) -> int:  # type: ignore[override]
        if bound == 1:
            return 0
        self._state = (self._state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self._state >> 8) % bound

    def shuffle(self, x: MutableSequence[Any]) -> None:
        for last in reversed(range(1, len(x))):
            other = self.randrange(last + 1)
            x[last], x[other] = x[other], x[last]


@pytest.mark.parametrize("line", PLACEMENTS)
def test_from_the_same_random_numbers_kafka_places_the_same(line: str) -> None:
    asked, _, expected = line.partition(" = ")
    racks, partitions, factor, seed = asked.split(" ")
    brokers = [
        UsableBroker(number, text.removesuffix("!").removeprefix("-"), text.endswith("!"))
        for number, text in enumerate(racks.split(","))
    ]
    placed = place(brokers, int(partitions), int(factor), Shared(int(seed)))
    assert " ".join("-".join(map(str, replicas)) for replicas in placed) == expected


def test_a_fenced_broker_gets_replicas_only_after_all_others_of_its_rack() -> None:
    brokers = [*unfenced(3), UsableBroker(3, "", fenced=True)]
    assert all(3 not in replicas for replicas in place(brokers, 12, 3, Random(1)))
    assert all(replicas[-1] == 3 for replicas in place(brokers, 12, 4, Random(1)))


def test_a_rack_of_fenced_brokers_leads_nothing_but_takes_its_share() -> None:
    brokers = [*unfenced(2, "aa"), UsableBroker(2, "b", fenced=True)]
    placed = place(brokers, 8, 2, Random(1))
    assert all(2 in replicas and replicas[0] != 2 for replicas in placed)


def test_small_topics_do_not_all_begin_at_the_first_broker() -> None:
    leaders = {place(unfenced(5), 1, 1, Random(seed))[0][0] for seed in range(60)}
    assert leaders == {0, 1, 2, 3, 4}
