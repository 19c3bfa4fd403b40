"""How fast replicas may catch up: the throttle of a reassignment (KIP-73).

A replica that a reassignment adds fetches its partition from the first record on, as fast as it can, and takes network
and disk from clients. Two limits slow it down, each in bytes per second and for one broker::

    leader.replication.throttled.rate      what this broker sends to followers
    follower.replication.throttled.rate    what this broker fetches from leaders

They hold for the replicas that a topic names: ``leader.replication.throttled.replicas`` are those whose leader is slow,
``follower.replication.throttled.replicas`` those that fetch slowly. Both are lists of ``partition:broker``, or ``*``.

Only a replica that is out of sync is held back: otherwise the throttle itself would push followers out of the ISR. But
all bytes of the named partitions count, those of in-sync followers too. No answer is cut short for the limit's sake: it
may exceed the limit, and then the throttled replicas get nothing until the average is back below it. So over a time
much longer than one answer takes, the average is the limit.

The average is taken over eleven samples of one second each, the youngest unfinished. It counts from the oldest of them
on, and as at least one second.

Kafka's leader counts whole answers, here it is their records. Follows kafka.server.ReplicationQuotaManager,
kafka.server.ReplicaManager.shouldLeaderThrottle and org.apache.kafka.common.metrics.stats.SimpleRate.
"""

from collections import deque
from collections.abc import Callable, Sequence

from pykraft.broker.replication.partition import Partition
from pykraft.broker.settings.live_settings import LiveSettings
from pykraft.common.settings.broker_config import FOLLOWER_REPLICATION_THROTTLED_RATE, LEADER_REPLICATION_THROTTLED_RATE
from pykraft.common.settings.config import Config, Key
from pykraft.common.settings.topic_config import (
    ALL_REPLICAS,
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
    LEADER_REPLICATION_THROTTLED_REPLICAS,
)
from pykraft.common.types import TopicPartition

DEFAULT_SAMPLES = 11
DEFAULT_SAMPLE_MS = 1000


class SampledRate:
    """How many bytes a second there were, on average over the last samples."""

    def __init__(self, samples: int = DEFAULT_SAMPLES, sample_ms: int = DEFAULT_SAMPLE_MS) -> None:
        self._kept_ms = samples * sample_ms
        self._sample_ms = sample_ms
        self._samples: deque[list[int]] = deque()
        """When each began, when it was last added to, and its bytes."""

    def record(self, size: int, now: int) -> None:
        if not self._samples or now - self._samples[-1][0] >= self._sample_ms:
            self._samples.append([now, now, 0])
        self._samples[-1][1] = now
        self._samples[-1][2] += size

    def per_second(self, now: int) -> float:
        while self._samples and now - self._samples[0][1] >= self._kept_ms:
            self._samples.popleft()
        if not self._samples:
            return 0.0
        window_ms = max(now - self._samples[0][0], self._sample_ms)
        return sum(size for _, _, size in self._samples) * 1000 / window_ms


class ReplicationQuota:
    """The limit of one direction: what this broker sends as a leader, or fetches as a follower."""

    def __init__(
        self, broker_id: int, replicas: Key[tuple[str, ...]], limit: Callable[[], int], now: Callable[[], int]
    ) -> None:
        """`replicas` is the setting in which a topic names its throttled replicas."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._limit = limit
        self._now = now
        self._rate = SampledRate()
        self._throttled: dict[str, frozenset[int] | None] = {}
        """The partitions of each topic that are throttled on this broker; None: all of them."""

    def set_topic(self, topic: str, config: Config) -> None:
        """These are the topic's settings from now on."""
        named = config[self._replicas]
        if named:
            self._throttled[topic] = partitions_on(self._broker_id, named)
        else:
            self._throttled.pop(topic, None)

    def forget(self, topic: str) -> None:
        """No partition of this topic is here any more."""
        self._throttled.pop(topic, None)

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Whether the bytes of this partition count."""
        if topic_partition.topic not in self._throttled:
            return False
        partitions = self._throttled[topic_partition.topic]
        return partitions is None or topic_partition.partition in partitions

    def record(self, topic_partition: TopicPartition, size: int) -> None:
        """So many bytes of this partition were sent, or fetched."""
        if self.is_throttled(topic_partition):
            self._rate.record(size, self._now())

    @property
    def is_exceeded(self) -> bool:
        """Whether the average is above the limit."""
        return self._rate.per_second(self._now()) > self._limit()


class ReplicationQuotas:
    """Both directions of a broker."""

    def __init__(self, broker_id: int, live: LiveSettings, now: Callable[[], int]) -> None:
        self.leader = ReplicationQuota(
            broker_id,
            LEADER_REPLICATION_THROTTLED_REPLICAS,
            lambda: live[LEADER_REPLICATION_THROTTLED_RATE],
            now,
        )
        self.follower = ReplicationQuota(
            broker_id,
            FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
            lambda: live[FOLLOWER_REPLICATION_THROTTLED_RATE],
            now,
        )

    def set_topic(self, topic: str, config: Config) -> None:
        self.leader.set_topic(topic, config)
        self.follower.set_topic(topic, config)

    def forget(self, topic: str) -> None:
        self.leader.forget(topic)
        self.follower.forget(topic)

    def holds_back(self, partition: Partition, replica: int) -> bool:
        """Whether this follower gets no records now from the partition that is led here."""
        if replica in partition.isr_state.isr:
            return False
        return self.leader.is_throttled(partition.topic_partition) and self.leader.is_exceeded

    def holds_off(self, topic_partition: TopicPartition, lag: int | None) -> bool:
        """Whether this broker does not fetch the partition now, of which it lacks this many committed records; None: it
        does not know yet."""
        if lag == 0:
            return False
        return self.follower.is_throttled(topic_partition) and self.follower.is_exceeded


def partitions_on(broker_id: int, named: Sequence[str]) -> frozenset[int] | None:
    """The partitions of which this list names the replica on that broker; None: all."""
    if tuple(named) == ALL_REPLICAS:
        return None
    pairs = (text.split(":") for text in named)
    return frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id)
