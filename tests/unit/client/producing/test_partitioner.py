"""The partition of a record: clients of every language must agree on it."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.client.producing.partitioner import StickyPartitioner, murmur2, partition_of_key
from tests.harness.others import module

# The hashes that Apache Kafka's own tests expect, as signed numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    assert signed(murmur2(key)) == expected


@pytest.mark.parametrize("other", ["kafka.partitioner.default", "aiokafka.partitioner"])
@given(key=st.binary(max_size=70))
def test_the_hash_is_that_of_other_clients(other: str, key: bytes) -> None:
    assert murmur2(key) == module(other).murmur2(key) & 0xFFFFFFFF


class OneTopic:
    """What kafka-python's partitioner wants to know of a cluster."""

    def __init__(self, count: int) -> None:
        self._partitions = set(range(count))

    def topics(self) -> set[str]:
        return {"t"}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self._partitions

    available_partitions_for_topic = partitions_for_topic


@given(key=st.binary(max_size=70), count=st.integers(1, 1000))
def test_the_partition_is_that_of_other_clients(key: bytes, count: int) -> None:
    ours = partition_of_key(key, count)
    partitions = list(range(count))
    assert ours == module("aiokafka.partitioner").DefaultPartitioner()(key, partitions, partitions)
    theirs = module("kafka.partitioner.default").DefaultPartitioner()
    assert ours == theirs.partition("t", key, key, None, None, OneTopic(count))


def test_a_negative_hash_loses_its_sign_and_not_its_value() -> None:
    assert signed(murmur2(b"21")) == -973932308
    assert partition_of_key(b"21", 1000) == ((1 << 31) - 973932308) % 1000


# --- without a key ----------------------------------------------------------------------------------------------------


def test_a_partition_is_kept_until_a_batch_is_full() -> None:
    partitioner = StickyPartitioner(Random(1), batch_bytes=1000)
    chosen = [partitioner.partition("t", [0, 1, 2], 100) for _ in range(60)]
    runs = [chosen[start : start + 10] for start in range(0, 60, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in itertools.pairwise(runs)), "each run elsewhere"


def test_topics_are_filled_side_by_side() -> None:
    partitioner = StickyPartitioner(Random(1), batch_bytes=1000)
    first = partitioner.partition("a", [0, 1, 2], 100)
    for _ in range(20):
        partitioner.partition("b", [0, 1, 2], 900)
    assert partitioner.partition("a", [0, 1, 2], 100) == first


def test_a_partition_without_a_leader_is_left() -> None:
    partitioner = StickyPartitioner(Random(1), batch_bytes=1000)
    first = partitioner.partition("t", [0, 1, 2], 10)
    others = [number for number in (0, 1, 2) if number != first]
    assert partitioner.partition("t", others, 10) in others


def test_one_partition_is_enough() -> None:
    partitioner = StickyPartitioner(Random(1), batch_bytes=10)
    assert {partitioner.partition("t", [4], 100) for _ in range(10)} == {4}


def test_in_the_long_run_all_get_the_same() -> None:
    partitioner = StickyPartitioner(Random(7), batch_bytes=100)
    counts = Counter(partitioner.partition("t", range(4), 50) for _ in range(40_000))
    assert all(9_000 < counts[number] < 11_000 for number in range(4)), counts
