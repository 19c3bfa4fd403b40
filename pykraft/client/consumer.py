"""A consumer without a thread: subscription, positions, fetcher and metadata put together.

`poll` sends; `take` hands out what has come. Whoever has a clock and a network drives it: the `Consumer` façade with a
thread and sockets, the simulator with its own.

Consumer groups are not built yet. A consumer that subscribes to topics reads all their partitions, as one that is alone
in its group does; it commits nothing.

Follows org.apache.kafka.clients.consumer.KafkaConsumer.
"""

from random import Random

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver
from pykraft.client.arguments import whole_number
from pykraft.client.config import bootstrap_endpoints
from pykraft.client.fetcher import READ_COMMITTED, FetchedRecord, Fetcher
from pykraft.client.metadata import ClusterMetadata
from pykraft.client.offsets import OffsetLookups
from pykraft.client.positions import Positions
from pykraft.client.subscription import FetchPosition, Mode, PartitionState, State, SubscriptionState
from pykraft.common.config import Config
from pykraft.common.core import Poll, merge
from pykraft.common.errors import ConfigError, KafkaError
from pykraft.common.types import TopicPartition, Uuid


class ConsumerCore:
    """One consumer. It is a RequestManager."""

    def __init__(self, config: Config, random: Random) -> None:
        """ConfigError if a setting asks for what is not built."""
        if config[keys.GROUP_ID]:
            raise ConfigError(
                f"group.id={config[keys.GROUP_ID]}: consumer groups are not built yet. Leave group.id out; assign() "
                "partitions, or subscribe() to read all of a topic's"
            )
        self.config = config
        self.metadata = ClusterMetadata(config, bootstrap_endpoints(config), random)
        self.subscription = SubscriptionState(config[keys.AUTO_OFFSET_RESET])
        self._driver = ApiDriver(config, self.metadata, random)
        self.lookups = OffsetLookups(config, self._driver)
        self.isolation_level = READ_COMMITTED if config[keys.ISOLATION_LEVEL] == "read_committed" else 0
        self._positions = Positions(config, self.subscription, self._driver, self.lookups, self.isolation_level)
        self._fetcher = Fetcher(config, self.metadata, self.subscription)
        self._topic_ids: dict[str, Uuid] = {}

    def poll(self, now: int) -> Poll:
        if self.subscription.mode is Mode.SUBSCRIBE:
            self._take_all_partitions()
        parts = [self._positions.poll(now), self._driver.poll(now), self._fetcher.poll(now), self.metadata.poll(now)]
        return merge(parts)

    def _take_all_partitions(self) -> None:
        """A topic that the last broker did not know keeps what is read of it: it may be the broker that lags, and a
        position that is given up is lost. One that has another id was made again: nothing of it has been read."""
        found = []
        for topic in self.subscription.topics:
            partitions = self.metadata.partitions_of(topic)
            if partitions is None:
                found += [key for key in self.subscription.partitions if key.topic == topic]
                continue
            topic_id = self.metadata.topic_id(topic)
            if self._topic_ids.setdefault(topic, topic_id) != topic_id:
                self._topic_ids[topic] = topic_id
                self.subscription.forget(topic)
            found += [TopicPartition(topic, partition) for partition in partitions]
        self.subscription.assign_from_subscription(found)

    @property
    def has_news(self) -> bool:
        """There are records to take (or perhaps only batches without any that a reader sees), or an error."""
        return self._fetcher.has_news or self._positions.has_error

    def take(self, limit: int) -> list[FetchedRecord]:
        """At most `limit` records. KafkaError: what the user must know; ValueError: nothing is read."""
        if self.subscription.mode is Mode.NONE:
            raise ValueError("this consumer reads nothing yet: assign() partitions or subscribe() to topics")
        self.raise_error()
        return self._fetcher.take(limit)

    def raise_error(self) -> None:
        """KafkaError: what the user must know, once; NoOffsetError for as long as nobody says where to read."""
        self._positions.raise_error()
        self._fetcher.raise_error()

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

    def subscribe(self, topics: list[str]) -> None:
        self.subscription.subscribe(topics)
        for topic in topics:
            self.metadata.add_topic(topic)
        self._take_all_partitions()

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read from this offset on; whether it is in the log will be seen."""
        self.state(topic_partition).seek(FetchPosition(whole_number("an offset", offset)))
        self._positions.forget(topic_partition)

    def go_back(self, topic_partition: TopicPartition, offset: int, leader_epoch: int) -> None:
        """The records from this one on were taken, and nobody has seen them: take them again, unless the partition is
        read from elsewhere by now."""
        state = self.subscription.partitions.get(topic_partition)
        if state is not None and state.state is not State.AWAITING_RESET:
            state.seek(FetchPosition(offset, leader_epoch), state.checked_epoch)

    def seek_to(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Read from the start (-2), the end (-1), or the first record at or after a moment."""
        self.state(topic_partition).reset(timestamp)
        self._positions.forget(topic_partition)

    def unreachable(self) -> KafkaError | None:
        """Why a topic that is to be read cannot be."""
        for topic in sorted(self.subscription.topics | {key.topic for key in self.subscription.partitions}):
            known = self.metadata.topics.get(topic)
            if known is not None and known.error and not known.error.retriable:
                return KafkaError(known.error, f"{topic}: {known.error.text}")
        return None
