"""Reading partitions that are named, from offsets that are named: metadata, positions and fetcher put together.

This is what a consumer is without subscribed topics and without a group. `ConsumerCore` adds those; a task of Spark
needs no more than this.

Follows org.apache.kafka.clients.consumer.internals.ClassicKafkaConsumer.
"""

from collections.abc import Callable
from random import Random

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver
from pykraft.client.arguments import whole_number
from pykraft.client.config import bootstrap_endpoints
from pykraft.client.consuming.fetcher import READ_COMMITTED, Fetcher
from pykraft.client.consuming.offsets import OffsetLookups
from pykraft.client.consuming.positions import Positions
from pykraft.client.consuming.subscription import FetchPosition, PartitionState, SubscriptionState
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import Poll, merge
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition


class ReaderCore:
    """One reader. It is a RequestManager."""

    def __init__(self, config: Config, random: Random, time_ms: Callable[[], int] | None = None) -> None:
        """`time_ms` tells the time of day, for ``auto.offset.reset=by_duration``."""
        self.config = config
        self.metadata = ClusterMetadata(config, bootstrap_endpoints(config), random)
        self.metadata.may_create_topics = config[keys.ALLOW_AUTO_CREATE_TOPICS]
        self.subscription = SubscriptionState(config[keys.AUTO_OFFSET_RESET], time_ms, bool(config[keys.GROUP_ID]))
        self.driver = ApiDriver(config, self.metadata, random)
        self.lookups = OffsetLookups(config, self.driver)
        self.isolation_level = READ_COMMITTED if config[keys.ISOLATION_LEVEL] == "read_committed" else 0
        self.positions = Positions(config, self.subscription, self.driver, self.lookups, self.isolation_level)
        self.fetcher = Fetcher(config, self.metadata, self.subscription)

    def poll(self, now: int) -> Poll:
        return merge([self.positions.poll(now), self.driver.poll(now), self.fetcher.poll(now), self.metadata.poll(now)])

    @property
    def has_news(self) -> bool:
        """There is something to take (or perhaps only batches without a record that a reader sees), or an error."""
        return self.fetcher.has_news or self.positions.has_error

    def raise_error(self) -> None:
        """KafkaError: what the application must know, once; NoOffsetError until it says where to read."""
        self.positions.raise_error()
        self.fetcher.raise_error()

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        """ValueError if the partition is not read."""
        state = self.subscription.partitions.get(topic_partition)
        if state is None:
            raise ValueError(f"{topic_partition} is not assigned to this consumer")
        return state

    def assign(self, topic_partitions: list[TopicPartition]) -> None:
        self.subscription.assign(topic_partitions)
        for topic_partition in topic_partitions:
            self.metadata.add_topic(topic_partition.topic)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read from this offset on; whether it is in the log will be seen."""
        self.state(topic_partition).seek(FetchPosition(whole_number("an offset", offset)))
        self.positions.forget(topic_partition)
