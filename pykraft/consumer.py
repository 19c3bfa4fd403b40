"""The consumer that people use: ``poll`` returns what has come, a thread fetches ahead.

::

    with Consumer("flights", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            print(record.partition, record.offset, record.value)

Settings are Kafka's, with dots or underscores; the calls are those that a user of kafka-python knows. The work is done
by `pykraft.client.consumer`, which has no thread; this file gives it one.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from random import Random
from typing import Any, NamedTuple

from pykraft.client import config as keys
from pykraft.client.arguments import milliseconds, topic_name, topic_names, topic_partition, whole_number
from pykraft.client.config import CONSUMER_CONFIG, client_config
from pykraft.client.consumer import ConsumerCore
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.fetcher import FetchedRecord
from pykraft.client.offsets import OffsetAndTimestamp
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pykraft.records.record import Header
from pykraft.runtime.client_thread import ClientThread, ClosesOnExit

_numbers = count(1)
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

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


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
        self._timeout_ms = (
            None if consumer_timeout_ms is None else milliseconds("consumer_timeout_ms", consumer_timeout_ms)
        )
        self._max_poll_records: int = config[keys.MAX_POLL_RECORDS]
        self._api_timeout_ms: int = config[keys.DEFAULT_API_TIMEOUT_MS]
        self._polled: deque[ConsumerRecord] = deque()
        """What a loop has polled and not handed out yet."""
        random = Random()
        self._core = ConsumerCore(config, random)
        client_id = config[keys.CLIENT_ID] or f"pykraft-consumer-{next(_numbers)}"
        if topics:
            self._core.subscribe(topic_names(topics))
        self._thread = ClientThread(self._core, client_id, random)

    # --- what is read -------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions."""
        self._change(lambda: self._core.assign(sorted(map(topic_partition, partitions))))

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics; of none, nothing."""
        wanted = sorted(set(topic_names(topics)))
        if wanted:
            self._change(lambda: self._core.subscribe(wanted))
        else:
            self.unsubscribe()

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
                self._core.state(topic_partition(partition)).is_paused = is_paused

        self._change(change)

    def _change(self, change: Callable[[], None]) -> None:
        with self._thread.lock:
            self._thread.check()
            self._give_back(self._polled)
            change()
        self._thread.wake()

    # --- from where on ------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read this partition from `offset` on."""
        self._change(lambda: self._core.seek(topic_partition(partition), offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read these partitions (or all that are assigned) from their start."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read of these partitions (or all that are assigned) only what is yet to come."""
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        def change() -> None:
            for partition in list(partitions) or list(self._core.subscription.partitions):
                self._core.seek_to(topic_partition(partition), timestamp)

        self._change(change)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record of this partition that `poll` returns."""
        key = topic_partition(partition)
        for record in self._polled:
            if record.topic_partition == key:
                return record.offset

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
            high_watermark = self._core.state(topic_partition(partition)).high_watermark
        return None if high_watermark < 0 else high_watermark

    # --- offsets ------------------------------------------------------------------------------------------------------

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these logs begin."""
        found = self._find({topic_partition(partition): EARLIEST_TIMESTAMP for partition in partitions})
        return {key: place.offset for key, place in found.items()}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last records that may be read."""
        found = self._find({topic_partition(partition): LATEST_TIMESTAMP for partition in partitions})
        return {key: place.offset for key, place in found.items()}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after a moment (milliseconds since 1970), None if there is none."""
        wanted = {topic_partition(key): whole_number("a timestamp", timestamp) for key, timestamp in timestamps.items()}
        found = self._find(wanted)
        return {key: place if place.offset >= 0 else None for key, place in found.items()}

    def _find(self, timestamps: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, OffsetAndTimestamp]:
        def question(now: int) -> Any:
            return self._core.lookups.find(timestamps, self._core.isolation_level, now + self._api_timeout_ms)

        found: Mapping[TopicPartition, OffsetAndTimestamp] = self._thread.ask(question)
        return found

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partitions; None if there is no such topic."""
        topic_name(topic)

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
        where. ValueError: nothing is to be read."""
        deadline = self._thread.now + milliseconds("timeout_ms", timeout_ms)
        limit = self._max_poll_records if max_records is None else whole_number("max_records", max_records)
        if limit < 1:
            raise ValueError(f"max_records is at least 1, not {limit}")
        while True:
            with self._thread.lock:
                self._thread.check()
                self._give_back(self._polled)
                taken = self._core.take(limit)
                if not taken and (error := self._core.unreachable()) is not None:
                    raise error
            self._thread.wake()
            remaining = deadline - self._thread.now
            if taken or remaining <= 0:
                return self._by_partition(taken)
            self._thread.wait_until(lambda: self._core.has_news, min(remaining, _PATIENCE_MS))

    def _by_partition(self, taken: Sequence[FetchedRecord]) -> dict[TopicPartition, list[ConsumerRecord]]:
        """What cannot be deserialized is not taken, and neither is what comes behind it."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for number, fetched in enumerate(taken):
            key = fetched.topic_partition
            try:
                record = self._record(fetched)
            except Exception as error:
                with self._thread.lock:
                    self._give_back([_raw(each) for each in taken[number:]])
                if not found:
                    error.add_note(f"{key}, offset {fetched.record.offset}: seek behind it to go on without it")
                    raise
                break  # those before it first; the next call comes here again
            found.setdefault(key, []).append(record)
        return found

    def _record(self, fetched: FetchedRecord) -> ConsumerRecord:
        raw = _raw(fetched)
        if self._key_deserializer is None and self._value_deserializer is None:
            return raw
        key = raw.key if self._key_deserializer is None else self._key_deserializer(raw.key)
        value = raw.value if self._value_deserializer is None else self._value_deserializer(raw.value)
        return raw._replace(key=key, value=value)

    def _give_back(self, records: Collection[ConsumerRecord]) -> None:
        """Let these records be polled again: nobody has seen them."""
        first: dict[TopicPartition, ConsumerRecord] = {}
        for record in records:
            first.setdefault(record.topic_partition, record)
        for key, record in first.items():
            self._core.go_back(key, record.offset, record.leader_epoch)
        self._polled.clear()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record by record, for ever, or until nothing has come for `consumer_timeout_ms`. Whoever leaves the loop may
        go on with another one, or with `poll`: a record counts as read when the loop has handed it out."""
        while True:
            while self._polled:
                yield self._polled.popleft()
            found = self.poll(_PATIENCE_MS if self._timeout_ms is None else self._timeout_ms)
            self._polled.extend(chain.from_iterable(found.values()))
            if not found and self._timeout_ms is not None:
                return

    def close(self) -> None:
        """Stop reading."""
        self._thread.close()


def _raw(fetched: FetchedRecord) -> ConsumerRecord:
    """A record with key and value as they came."""
    record = fetched.record
    return ConsumerRecord(
        *fetched.topic_partition,
        record.offset,
        record.timestamp,
        fetched.timestamp_type,
        record.key,
        record.value,
        record.headers,
        fetched.leader_epoch,
    )
