"""A cluster, as one task or the planning of one query sees it.

A task of Spark does one thing after the other, so it needs no thread: the cores of pykraft's own clients ask for
metadata and offsets, and fetch, and their sockets are looked at while the task waits (`runtime.client_loop`). Answers
that say "not now" or "not here" are followed by fresh metadata, a pause and another attempt: that is in those cores.

What this adds is when to stop. Patience ends with one sentence, which says what the last obstacle was. Two things are
not waited for that long: brokers none of which can be reached at all, and a topic that no broker knows are most likely
a wrong name.

Follows org.apache.spark.sql.kafka010.KafkaOffsetReaderAdmin.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Self, TypeVar

from pykraft.client import config as keys
from pykraft.client.consuming.reader import ReaderCore
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import CHANNEL
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.runtime.client_loop import BlockingClient

FIRST_CONTACT_S = 5.0
"""Brokers may still be starting; a wrong address stays one."""
UNKNOWN_TOPIC_S = 2.0
"""The news of a fresh topic may take a moment to reach the broker that is asked."""

T = TypeVar("T")


class Brokers:
    """The cluster. To be used from one thread, and closed."""

    def __init__(self, config: Config, patience_ms: int) -> None:
        random = Random()
        self._config = config
        self.patience_ms = patience_ms
        self.reader = ReaderCore(config, random)
        self.metadata = self.reader.metadata
        self.metadata.may_create_topics = False
        self.metadata.rest()
        self.client = BlockingClient(self.reader, config[keys.CLIENT_ID] or "pykraft-spark", random)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    # --- what there is ------------------------------------------------------------------------------------------------

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of these topics, in order. KafkaError if there is no such topic."""
        wanted = sorted(set(topics))
        began = self.client.now
        while True:
            found = self.existing_partitions(wanted)
            missing = sorted(set(wanted) - {partition.topic for partition in found})
            if not missing:
                return found
            if self._have_passed(UNKNOWN_TOPIC_S, began):
                raise self._no_such_topic(missing[0])
            self.client.wait_until(lambda: False, self.client.now + self._config[keys.RETRY_BACKOFF_MS])

    def existing_partitions(self, topics: Iterable[str] | None) -> list[TopicPartition]:
        """The partitions, in order, of those of the topics that exist; of None, of all topics but Kafka's own."""
        asked = None if topics is None else [MetadataRequest.Topic(name=topic) for topic in sorted(set(topics))]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)

        def read(response: MetadataResponse) -> list[MetadataResponse.Topic]:
            self.metadata.learn(response)
            for topic in response.topics:
                error = ErrorCode.of(topic.error_code)
                if error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise KafkaError(error, f"topic {topic.name!r}: {error.text}")
            named = {topic.name for topic in response.topics}
            if asked is not None and (left_out := [each.name for each in asked if each.name not in named]):
                raise ProtocolError(f"an answer about {left_out[0]!r} does not name it")
            return [topic for topic in response.topics if asked is not None or not topic.is_internal]

        def question(now: int) -> "Promise[list[MetadataResponse.Topic] | KafkaError]":
            what = "the cluster's metadata were not read"
            return self.reader.driver.ask_any(what, request, read, now + self.patience_ms, CHANNEL)

        return sorted(
            TopicPartition(topic.name or "", partition.partition_index)
            for topic in self._ask(question, ())
            for partition in topic.partitions
        )

    def topic_id(self, topic: str) -> Uuid:
        """The id of a topic whose partitions were asked for; `ZERO_UUID` if its brokers have no ids."""
        return self.metadata.topic_id(topic)

    def offsets(self, marks: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offsets at these marks: at a timestamp in milliseconds, or one of the negative marks of ListOffsets. -1
        where no record is as young."""
        found = self._ask(
            lambda now: self.reader.lookups.find(marks, self.reader.isolation_level, now + self.patience_ms), marks
        )
        return {partition: place.offset for partition, place in found.items()}

    def _ask(self, question: "Callable[[int], Promise[T | KafkaError]]", partitions: Iterable[TopicPartition]) -> T:
        began = self.client.now
        return self.client.ask(question, lambda: self.check(partitions, began))

    # --- what there is no hope for ------------------------------------------------------------------------------------

    def check(self, partitions: Iterable[TopicPartition], began: int) -> None:
        """KafkaError if what has been waited for since `began` is most likely not there at all: brokers, or one of
        these partitions."""
        if not self.metadata.version:
            if self._have_passed(FIRST_CONTACT_S, began):
                raise self._no_broker()
        elif self._have_passed(UNKNOWN_TOPIC_S, began):
            for partition in partitions:
                self._check_partition(partition)

    def _have_passed(self, seconds: float, began: int) -> bool:
        return self.client.now - began > seconds * 1000

    def _check_partition(self, partition: TopicPartition) -> None:
        topic = self.metadata.topics.get(partition.topic)
        if topic is None:
            return
        if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise self._no_such_topic(partition.topic)
        if topic.error is ErrorCode.NONE and partition.partition not in topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {partition.topic} has {len(topic.partitions)} partitions, and none has number"
                f" {partition.partition}",
            )

    def _no_such_topic(self, topic: str) -> KafkaError:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r} on {self._known_as()}")

    def _no_broker(self) -> KafkaError:
        refusals = [self.client.refusal(endpoint) for endpoint in self.metadata.bootstrap]
        why = next(filter(None, refusals), "they accept connections and say nothing")
        return KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"no broker answers on {self._known_as()} ({why}): does it run, and is kafka.bootstrap.servers right?",
        )

    def _known_as(self) -> str:
        return ", ".join(map(str, self.metadata.bootstrap))

    # --- fetching -----------------------------------------------------------------------------------------------------

    def wait_for_news(self, what: str, partition: TopicPartition, check: Callable[[int], object]) -> None:
        """Wait until something of this partition was fetched, or an error; `check` may raise, given since when this
        waits. ClientTimeoutError at the end of patience: `what` failed."""
        began = self.client.now

        def check_all() -> None:
            self.check([partition], began)
            check(began)

        if not self.client.wait_until(lambda: self.reader.has_news, began + self.patience_ms, check_all):
            waited_s = (self.client.now - began) / 1000
            raise ClientTimeoutError(f"{what} failed for {waited_s:.0f} s, at last because {self._obstacle(partition)}")

    def is_at_the_end(self, partition: TopicPartition) -> bool:
        """Whether the last answer was that there is nothing from the position on."""
        lag = self.reader.state(partition).lag(bool(self.reader.isolation_level))
        return not self.reader.fetcher.obstacle and lag == 0 and self.metadata.leader_of(partition) is not None

    def _obstacle(self, partition: TopicPartition) -> str:
        leader = self.metadata.leader_of(partition)
        if leader is None:
            return f"{partition} has no leader at the moment"
        refusal = self.client.refusal(leader.endpoint)
        if refusal is not None:
            return f"broker {leader.endpoint} cannot be reached ({refusal})"
        state = self.reader.state(partition)
        seen = state.last_stable_offset if self.reader.isolation_level else state.high_watermark
        return self.reader.fetcher.obstacle or f"the leader of {partition} shows the offsets before {seen} only"
