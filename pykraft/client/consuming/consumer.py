"""A consumer without a thread: what a reader has (`client.consuming.reader`), topics that are subscribed to, and the
group.

`poll` sends; `advance` does what a rebalance needs of the user; `take` hands out records. The `Consumer` façade drives
it with a thread and sockets, the simulator with its own clock and network.

With ``group.id`` the group's members share the partitions of the subscribed topics, and begin at the offsets that the
group has committed. Without it, a consumer reads all partitions of its topics, and commits nothing.

Follows org.apache.kafka.clients.consumer.KafkaConsumer.
"""

import re
from collections.abc import Callable
from random import Random

from pykraft.client import config as keys
from pykraft.client.consuming.coordinator import ConsumerCoordinator
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.client.consuming.group_part import GroupPart, ListenerCall
from pykraft.client.consuming.reader import ReaderCore
from pykraft.client.consuming.reconciliation import Reconciliation
from pykraft.client.consuming.subscription import (
    FetchPosition,
    Mode,
    State,
    SubscriptionPattern,
)
from pykraft.common.core import Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition, Uuid


class ConsumerCore(ReaderCore):
    """One consumer. It is a RequestManager."""

    def __init__(self, config: Config, random: Random, time_ms: Callable[[], int] | None = None) -> None:
        """`time_ms` tells the time of day, for ``auto.offset.reset=by_duration``."""
        super().__init__(config, random, time_ms)
        self.group: GroupPart | None = None
        """None without ``group.id``."""
        if config[keys.GROUP_ID] and config[keys.GROUP_PROTOCOL] == "consumer":
            self.group = Reconciliation(config, self.subscription, self.driver, random)
        elif config[keys.GROUP_ID]:
            self.group = ConsumerCoordinator(config, self.subscription, self.driver)
        self._topic_ids: dict[str, Uuid] = {}
        self._matched_version = -1

    def poll(self, now: int) -> Poll:
        self._match_pattern()
        if self.group is None and self.subscription.mode.is_automatic:
            self._take_all_partitions()
        return super().poll(now) if self.group is None else merge([self.group.poll(now), super().poll(now)])

    def _match_pattern(self) -> None:
        """Subscribe to the topics that match the pattern, when newer metadata may have others."""
        if self.subscription.mode is not Mode.PATTERN or not self.metadata.knows_all_topics:
            return
        if self._matched_version != self.metadata.version:
            self._matched_version = self.metadata.version
            skips_internal = self.config[keys.EXCLUDE_INTERNAL_TOPICS]
            topics = self.metadata.topics.items()
            self.subscription.match(name for name, topic in topics if not (skips_internal and topic.is_internal))

    def _take_all_partitions(self) -> None:
        """A topic that the last broker did not know keeps what is read of it: it may be the broker that lags, and a
        position that is given up is lost. One that has another id was made again: nothing of it has been read."""
        found = []
        for topic in sorted(self.subscription.topics):
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

    def advance(self, now: int) -> ListenerCall | None:
        """The user polls: go on with the rebalance. Returns a call of the user's listener; after it, `advance` is
        called again. None if there is none, for now."""
        return None if self.group is None else self.group.advance(now)

    @property
    def has_news(self) -> bool:
        """There are records to take (or perhaps only batches without any that a reader sees), an error, or something
        to do for `advance`."""
        return super().has_news or (self.group is not None and self.group.has_news)

    def take(self, limit: int) -> list[FetchedRecord]:
        """At most `limit` records. KafkaError: what the user must know; ValueError: nothing is read."""
        if self.subscription.mode is Mode.NONE:
            raise ValueError("this consumer reads nothing yet: assign() partitions or subscribe() to topics")
        self.raise_error()
        return self.fetcher.take(limit)

    def raise_error(self) -> None:
        if self.group is not None:
            self.group.raise_error()
        super().raise_error()

    def subscribe(self, topics: list[str]) -> None:
        self.subscription.subscribe(topics)
        for topic in topics:
            self.metadata.add_topic(topic)
        if self.group is None:
            self._take_all_partitions()

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Subscribe to all topics, present and future, whose whole name matches."""
        self.subscription.subscribe_pattern(pattern)
        self.metadata.want_all_topics(True)
        self._matched_version = -1

    def subscribe_coordinator_pattern(self, pattern: SubscriptionPattern) -> None:
        """Subscribe to all topics that the group's coordinator finds to match. ValueError: it matches none in
        this kind of group."""
        if not isinstance(self.group, Reconciliation):
            raise ValueError("a SubscriptionPattern takes group.id and group.protocol=consumer")
        self.subscription.subscribe_coordinator_pattern(pattern)
        self.metadata.want_all_topics(True)  # they tell the names of the topic ids that it assigns

    def unsubscribe(self) -> None:
        """Read nothing. A member of a group leaves it separately."""
        self.subscription.unsubscribe()
        self.metadata.want_all_topics(False)

    def go_back(self, topic_partition: TopicPartition, offset: int, leader_epoch: int) -> None:
        """The application has not seen the records from this one on, though they were taken: take them again, unless
        the partition is read from elsewhere by now."""
        state = self.subscription.partitions.get(topic_partition)
        if state is not None and state.state not in (State.INITIALIZING, State.AWAITING_RESET):
            state.seek(FetchPosition(offset, leader_epoch), state.checked_epoch)

    def seek_to(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Read from the start (-2), the end (-1), or the first record at or after a moment."""
        self.state(topic_partition).reset(timestamp)
        self.positions.forget(topic_partition)

    def unreachable(self) -> KafkaError | None:
        """Why a topic that is to be read cannot be. It is asked again: who polls on may be allowed by then."""
        for topic in sorted(self.subscription.topics | {key.topic for key in self.subscription.partitions}):
            known = self.metadata.topics.get(topic)
            if known is not None and known.error and not known.error.retriable:
                self.metadata.request_update()
                return KafkaError(known.error, f"{topic}: {known.error.text}")
        return None
