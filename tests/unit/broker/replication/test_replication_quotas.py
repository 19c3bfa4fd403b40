"""The throttle of replication (KIP-73): its average, what it is about, and whom it holds back."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.broker.replication.replication_quotas import ReplicationQuota, SampledRate, partitions_on
from pykraft.common.errors import ConfigError
from pykraft.common.settings.topic_config import LEADER_REPLICATION_THROTTLED_REPLICAS, LOG_CONFIG
from pykraft.common.types import TopicPartition

LEADER_LIST = LEADER_REPLICATION_THROTTLED_REPLICAS.name


class Throttled:
    """A quota of broker 1 on a clock that a test turns."""

    def __init__(self, limit: int, replicas: str = "*") -> None:
        self.now = 1000
        self.limit = limit
        self.quota = ReplicationQuota(1, LEADER_REPLICATION_THROTTLED_REPLICAS, lambda: self.limit, lambda: self.now)
        self.set_topic(replicas)

    def set_topic(self, replicas: str) -> None:
        self.quota.set_topic("t", LOG_CONFIG.resolve({LEADER_LIST: replicas}))

    def records(self, partition: int = 0, size: int = 5000) -> bool:
        """Whether bytes of the partition exceed the limit."""
        self.quota.record(TopicPartition("t", partition), size)
        return self.quota.is_exceeded


@pytest.mark.parametrize(
    ("recorded", "at", "expected"),
    [
        ({}, 5000, 0),
        ({0: 100}, 0, 100),  # as if of a whole second
        ({0: 100}, 999, 100),
        ({0: 100}, 4000, 25),
        ({0: 100, 500: 100}, 1000, 200),
        ({0: 1000, 10_999: 1000}, 10_999, 2000 * 1000 / 10_999),
        ({0: 1000, 10_999: 1000}, 11_000, 1000),  # the first sample is eleven seconds old
        ({0: 1000}, 11_000, 0),
    ],
)
def test_the_average_is_of_eleven_seconds_at_most_and_of_one_at_least(
    recorded: dict[int, int], at: int, expected: float
) -> None:
    rate = SampledRate()
    for now, size in recorded.items():
        rate.record(size, now)
    assert rate.per_second(at) == pytest.approx(expected)


def test_a_replica_that_fetches_whenever_it_may_gets_the_limit_on_average() -> None:
    random, limit, largest = Random(1), 50_000, 60_000
    throttled = Throttled(limit)
    end, size = throttled.now + 120_000, 0
    while throttled.now < end:
        if not throttled.quota.is_exceeded:
            chunk = random.randint(1, largest)
            throttled.records(size=chunk)
            size += chunk
        throttled.now += random.randint(1, 40)
    assert limit * 0.95 < size / 120 < limit + largest / 10


def test_only_the_replicas_count_that_the_topic_names_on_this_broker() -> None:
    throttled = Throttled(1, "0:1,2:1,1:2")
    assert [throttled.quota.is_throttled(TopicPartition("t", number)) for number in range(4)] == [
        True,
        False,
        True,
        False,
    ]
    assert not throttled.records(partition=1) and throttled.records(partition=0)
    assert not throttled.quota.is_throttled(TopicPartition("other", 0))


def test_a_throttle_ends_with_its_setting_or_with_its_topic() -> None:
    throttled = Throttled(1)
    for end in (lambda: throttled.set_topic(""), lambda: throttled.quota.forget("t")):
        assert throttled.quota.is_throttled(TopicPartition("t", 9))
        end()
        assert not throttled.quota.is_throttled(TopicPartition("t", 9))
        throttled.set_topic("*")


def test_a_limit_holds_from_the_moment_it_is_changed() -> None:
    throttled = Throttled(1)
    assert throttled.records(size=1000)
    throttled.limit = 1000
    assert not throttled.quota.is_exceeded


@pytest.mark.parametrize("text", ["*", "*,", "0:1", " 0:1 , 1:2", "0:1,,1:1", "", " "])
def test_a_list_of_replicas_is_read_as_kafka_reads_it(text: str) -> None:
    found = LEADER_REPLICATION_THROTTLED_REPLICAS.read(text)
    assert partitions_on(1, found) == (None if "*" in text else frozenset({0, 1} & _partitions_of_1(text)))


def _partitions_of_1(text: str) -> set[int]:
    return {int(part.split(":")[0]) for part in text.split(",") if part.strip().endswith(":1")}


@pytest.mark.parametrize("text", ["x", "0", "0:1,*", ":", "0:-1", "*,*", "0:1:2", "0:1_0", "1" * 99 + ":1"])
def test_another_list_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"must be \* for all replicas, or a comma-separated list of partition:broker"
    ):
        LEADER_REPLICATION_THROTTLED_REPLICAS.read(text)
