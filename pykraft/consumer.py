"""The consumer that people use: ``poll`` returns what has come, a thread fetches ahead.

::

    with Consumer("flights", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            print(record.partition, record.offset, record.value)

Settings are Kafka's, with dots or underscores; the calls are those that a user of kafka-python knows. The work is done
by `pykraft.client.consumer`, which has no thread; this file gives it one.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from pykraft.client import config as keys
from pykraft.client.config import CONSUMER_CONFIG, client_config
from pykraft.client.consumer import ConsumerCore
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.fetcher import FetchedRecord
from pykraft.client.offsets import OffsetAndTimestamp
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pykraft.records.record import Header
from pykraft.runtime.client_thread import ClientThread, ClosesOnExit

_numbers = itertools.count(1)
_PATIENCE_MS = 1000
Deserializer = Callable[[bytes | None], Any]


class ConsumerRecord(NamedTuple):
    """A record as its reader sees it. `timestamp` is in milliseconds since 1970; `timestamp_type` 0 is the producer's,
    1 the time of the append."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Sequence[Header]
    leader_epoch: int


class Consumer(ClosesOnExit):
    """Reads records. Use it from one thread at a time."""

    def __init__(
        self,
        *topics: str,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        consumer_timeout_ms: float | None = None,
        **settings: Any,
    ) -> None:
        """Reads all partitions of `topics`; or call `assign`. ConfigError names a setting that is not allowed, and what
        is. With `consumer_timeout_ms`, a ``for`` over the consumer ends when nothing has come for so long."""
        config = client_config(CONSUMER_CONFIG, settings)
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._timeout_ms = consumer_timeout_ms
        self._max_poll_records: int = config[keys.MAX_POLL_RECORDS]
        self._api_timeout_ms: int = config[keys.DEFAULT_API_TIMEOUT_MS]
        random = Random()
        self._core = ConsumerCore(config, random)
        client_id = config[keys.CLIENT_ID] or f"pykraft-consumer-{next(_numbers)}"
        self._thread = ClientThread(self._core, client_id, random)
        if topics:
            self.subscribe(topics)

    # --- what is read -------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions."""
        self._change(lambda: self._core.assign(sorted(TopicPartition(*partition) for partition in partitions)))

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics."""
        wanted = sorted(set(topics))
        self._change(lambda: self._core.subscribe(wanted))

    def unsubscribe(self) -> None:
        """Read nothing."""
        self._change(self._core.subscription.unsubscribe)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        with self._thread.lock:
            return set(self._core.subscription.partitions)

    def subscription(self) -> set[str]:
        """The topics that are subscribed to."""
        with self._thread.lock:
            return set(self._core.subscription.topics)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these."""
        self._set_paused(partitions, False)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        with self._thread.lock:
            return {key for key, state in self._core.subscription.partitions.items() if state.is_paused}

    def _set_paused(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        def change() -> None:
            for partition in partitions:
                self._core.state(TopicPartition(*partition)).is_paused = is_paused

        self._change(change)

    def _change(self, change: Callable[[], None]) -> None:
        with self._thread.lock:
            self._thread.check()
            change()
        self._thread.wake()

    # --- from where on ------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read this partition from `offset` on."""
        self._change(lambda: self._core.seek(TopicPartition(*partition), offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read these partitions (or all that are assigned) from their start."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read of these partitions (or all that are assigned) only what is yet to come."""
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        def change() -> None:
            for partition in list(partitions) or list(self._core.subscription.partitions):
                self._core.seek_to(TopicPartition(*partition), timestamp)

        self._change(change)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record of this partition that `poll` returns."""
        key = TopicPartition(*partition)

        def known() -> bool:
            self._core.raise_error()
            return self._core.state(key).has_position

        if not self._thread.wait_until(known, self._api_timeout_ms):
            raise ClientTimeoutError(f"the position in {key} was not found in {self._api_timeout_ms} ms")
        with self._thread.lock:
            position = self._core.state(key).position
        assert position is not None
        return position.offset

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark that the last fetch of this partition told; None before the first."""
        with self._thread.lock:
            high_watermark = self._core.state(TopicPartition(*partition)).high_watermark
        return None if high_watermark < 0 else high_watermark

    # --- offsets ------------------------------------------------------------------------------------------------------

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these logs begin."""
        found = self._find({TopicPartition(*partition): EARLIEST_TIMESTAMP for partition in partitions})
        return {key: place.offset for key, place in found.items()}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last records that may be read."""
        found = self._find({TopicPartition(*partition): LATEST_TIMESTAMP for partition in partitions})
        return {key: place.offset for key, place in found.items()}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after a moment (milliseconds since 1970), None if there is none."""
        negative = [f"{key}: {timestamp}" for key, timestamp in timestamps.items() if timestamp < 0]
        if negative:
            raise ValueError(f"a timestamp is 0 or more, not {negative[0]}")
        found = self._find({TopicPartition(*key): timestamp for key, timestamp in timestamps.items()})
        return {key: place if place.offset >= 0 else None for key, place in found.items()}

    def _find(self, timestamps: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, OffsetAndTimestamp]:
        def question(now: int) -> Any:
            return self._core.lookups.find(timestamps, self._core.isolation_level, now + self._api_timeout_ms)

        found: Mapping[TopicPartition, OffsetAndTimestamp] = self._thread.ask(question)
        return found

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partitions; None if there is no such topic."""

        def known() -> bool:
            self._core.metadata.add_topic(topic)
            return topic in self._core.metadata.topics

        if not self._thread.wait_until(known, self._api_timeout_ms):
            raise ClientTimeoutError(f"the partitions of {topic} were not known in {self._api_timeout_ms} ms")
        with self._thread.lock:
            partitions = self._core.metadata.partitions_of(topic)
        return None if partitions is None else set(partitions)

    # --- reading ------------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """What has come, by partition; waits at most so long for the first of it. KafkaError: what went wrong, and
        where."""
        deadline = self._thread.now + timeout_ms
        limit = self._max_poll_records if max_records is None else max_records
        while True:
            with self._thread.lock:
                self._thread.check()
                taken = self._core.take(limit)
                if not taken and (error := self._core.unreachable()) is not None:
                    raise error
            self._thread.wake()
            remaining = deadline - self._thread.now
            if taken or remaining <= 0:
                return self._by_partition(taken)
            self._thread.wait_until(lambda: self._core.has_news, min(remaining, _PATIENCE_MS))

    def _by_partition(self, taken: Iterable[FetchedRecord]) -> dict[TopicPartition, list[ConsumerRecord]]:
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for fetched in taken:
            found.setdefault(fetched.topic_partition, []).append(self._record(fetched))
        return found

    def _record(self, fetched: FetchedRecord) -> ConsumerRecord:
        record = fetched.record
        key = record.key if self._key_deserializer is None else self._key_deserializer(record.key)
        value = record.value if self._value_deserializer is None else self._value_deserializer(record.value)
        return ConsumerRecord(
            *fetched.topic_partition,
            record.offset,
            record.timestamp,
            fetched.timestamp_type,
            key,
            value,
            record.headers,
            fetched.leader_epoch,
        )

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record by record, for ever, or until nothing has come for `consumer_timeout_ms`."""
        while True:
            wait_ms = _PATIENCE_MS if self._timeout_ms is None else self._timeout_ms
            found = self.poll(wait_ms)
            for records in found.values():
                yield from records
            if not found and self._timeout_ms is not None:
                return

    def close(self) -> None:
        """Stop reading."""
        self._thread.close()
