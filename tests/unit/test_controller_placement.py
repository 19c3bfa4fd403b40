"""Placement: the properties that Kafka's StripedReplicaPlacer promises, for random clusters."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.placement import UsableBroker, place

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
