"""The consumer that people use: ``poll`` returns what has come, a thread fetches ahead.

::

    with Consumer("flights", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            print(record.partition, record.offset, record.value)

With ``group_id``, the consumers of a group share the partitions of their topics, and go on where the group has
committed to be. Settings are Kafka's, with dots or underscores; the calls are those that a user of kafka-python knows.
The work is done by `pykraft.client.consuming.consumer`, which has no thread; this file gives it one. Only `poll()`, or
a loop, which polls, makes a rebalance proceed, calls a rebalance listener, and commits automatically: all that happens
on the user's thread, when the records of the poll before have been dealt with.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from typing import Any, Generic, Unpack

from pykraft.client import config as keys
from pykraft.client.arguments import (
    by_name,
    committed_offset,
    function,
    milliseconds,
    topic_name,
    topic_names,
    topic_partition,
    whole_number,
)
from pykraft.client.config import consumer_config, public_settings
from pykraft.client.consuming.commits import ConsumerGroupMetadata, OffsetAndMetadata, OnCommit
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.consumer_record import ConsumerRecord as ConsumerRecord
from pykraft.client.consuming.consumer_record import deserialized, raw_record
from pykraft.client.consuming.fetcher import READ_COMMITTED, FetchedRecord
from pykraft.client.consuming.group_part import ASSIGNED, GroupPart, ListenerCall
from pykraft.client.consuming.offsets import OffsetAndTimestamp
from pykraft.client.consuming.subscription import SubscriptionPattern
from pykraft.client.content_types import K, V
from pykraft.client.errors import ClientTimeoutError, RebalanceInProgressError
from pykraft.client.habits import OF_CONSUMER, with_habits
from pykraft.client.settings import ConsumerSettings
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pykraft.runtime.client_thread import ClientClosedError, ClosesOnExit, client_random, start_client
from pykraft.runtime.clock import SystemClock

_numbers = count(1)
_PATIENCE_MS = 1000
_CLOSE_S = 30
_logger = logging.getLogger(__name__)


class ConsumerRebalanceListener:
    """What you override to hear of rebalances. Each method gets a set of partitions, on your thread, in `poll()`."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """These are new. (After every rebalance, also if none is.)"""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """These will be taken away: here you can still commit."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """These are gone: the group has removed this member, and others may own them."""
        self.on_partitions_revoked(lost)


@with_habits(OF_CONSUMER)
class Consumer(ClosesOnExit, Generic[K, V]):
    """Reads records. Use it from one thread at a time. For type checkers, `K` and `V` are what its deserializers
    return; without deserializers, bytes or None."""

    def __init__(
        self,
        *topics: str,
        key_deserializer: Callable[[bytes | None], K] | None = None,
        value_deserializer: Callable[[bytes | None], V] | None = None,
        consumer_timeout_ms: float | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """Subscribes to `topics`; or call `subscribe` or `assign`. ConfigError names a setting that is not allowed, and
        what is. With `consumer_timeout_ms`, a ``for`` over the consumer ends when nothing has come for this long."""
        by_name("Consumer", [topic for topic in topics if not isinstance(topic, str) or ":" in topic])
        config = consumer_config(settings)
        self.config = public_settings(config)
        self._key_deserializer = function("a key_deserializer", key_deserializer)
        self._value_deserializer = function("a value_deserializer", value_deserializer)
        self._timeout_ms = (
            None if consumer_timeout_ms is None else milliseconds("consumer_timeout_ms", consumer_timeout_ms)
        )
        self._max_poll_records: int = config[keys.MAX_POLL_RECORDS]
        self._api_timeout_ms: int = config[keys.DEFAULT_API_TIMEOUT_MS]
        self._polled: deque[ConsumerRecord[K, V]] = deque()
        """What a loop has polled and not handed out yet."""
        self._listener: object | None = None
        self._is_listening = False
        """A call of the listener is under way."""
        random = client_random()
        self._core = ConsumerCore(config, random, SystemClock().time_ms)
        client_id = config[keys.CLIENT_ID] or f"pykraft-consumer-{next(_numbers)}"
        if topics:
            self._core.subscribe(topic_names(topics))
        self._thread = start_client(self._core, client_id, random)

    # --- what is read -------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions."""
        self._change(lambda: self._core.assign(sorted(map(topic_partition, partitions))))

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: object | None = None,
    ) -> None:
        """Read these topics (of none, nothing), or all topics, also future ones, whose whole name matches the regular
        expression `pattern`. (A SubscriptionPattern is matched by the group's coordinator.) `listener` hears of
        rebalances: it has the methods of ConsumerRebalanceListener, or some of them."""
        wanted = sorted(set(topic_names(topics)))
        if pattern is not None:
            if wanted:
                raise ValueError("subscribe() takes topics or a pattern, not both")
            if isinstance(pattern, SubscriptionPattern):
                self._change(lambda: self._core.subscribe_coordinator_pattern(pattern))
            else:
                compiled = re.compile(pattern)
                self._change(lambda: self._core.subscribe_pattern(compiled))
        elif wanted:
            self._change(lambda: self._core.subscribe(wanted))
        else:
            self.unsubscribe()
        self._listener = listener

    def unsubscribe(self) -> None:
        """Read nothing. A member of a group leaves it."""
        deadline = self._thread.now + self._api_timeout_ms
        try:
            self._depart("the consumer unsubscribed from all topics", deadline)
        finally:
            self._change(self._core.unsubscribe)

    def _depart(self, reason: str, deadline: int) -> None:
        """Leave the group, if this consumer is a member, after its listener was called."""
        with self._thread.lock:
            self._thread.check()
            self._give_back(self._polled)
            call = None if self._core.group is None else self._core.group.depart()
        try:
            if call is not None:
                self._listen(call)
        finally:
            if self._core.group is not None:
                with self._thread.lock:
                    self._thread.check()
                    left = self._core.group.leave(reason, deadline)
                self._wait_for(left, deadline)

    def _wait_for(self, promise: Promise[Any], deadline: int) -> Any:
        """What the promise was kept with; None if it was not until then."""
        is_kept = self._thread.wait_until(lambda: promise.kept, deadline - self._thread.now)
        return promise.value if is_kept else None

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

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record of this partition that `poll` returns."""
        key = topic_partition(partition)
        for record in self._polled:
            if record.topic_partition == key:
                return record.offset

        def known() -> bool:
            self._core.raise_error()
            return self._core.state(key).has_position

        limit_ms = self._limit_ms(timeout_ms)
        if not self._thread.wait_until(known, limit_ms):
            raise ClientTimeoutError(f"the position in {key} was not found in {limit_ms} ms")
        with self._thread.lock:
            position = self._core.state(key).position
        assert position is not None
        return position.offset

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark of the last fetch of this partition; None before the first."""
        with self._thread.lock:
            high_watermark = self._core.state(topic_partition(partition)).high_watermark
        return None if high_watermark < 0 else high_watermark

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end, as of the last fetch of this partition: the high watermark,
        or the last stable offset for a reader of committed data. None before the first fetch."""
        with self._thread.lock:
            return self._core.state(topic_partition(partition)).lag(self._core.isolation_level == READ_COMMITTED)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Where these logs begin."""
        found = self._find({topic_partition(partition): EARLIEST_TIMESTAMP for partition in partitions}, timeout_ms)
        return {key: place.offset for key, place in found.items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets after the last records that may be read."""
        found = self._find({topic_partition(partition): LATEST_TIMESTAMP for partition in partitions}, timeout_ms)
        return {key: place.offset for key, place in found.items()}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after a moment (milliseconds since 1970), None if there is none."""
        wanted = {topic_partition(key): whole_number("a timestamp", timestamp) for key, timestamp in timestamps.items()}
        found = self._find(wanted, timeout_ms)
        return {key: place if place.offset >= 0 else None for key, place in found.items()}

    def _limit_ms(self, timeout_ms: float | None) -> int:
        return self._api_timeout_ms if timeout_ms is None else int(milliseconds("timeout_ms", timeout_ms))

    def _find(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> Mapping[TopicPartition, OffsetAndTimestamp]:
        limit_ms = self._limit_ms(timeout_ms)

        def question(now: int) -> Any:
            return self._core.lookups.find(timestamps, self._core.isolation_level, now + limit_ms)

        found: Mapping[TopicPartition, OffsetAndTimestamp] = self._thread.ask(question)
        return found

    def topics(self) -> set[str]:
        """All topics of the cluster that this client may see, but for Kafka's own."""
        request = MetadataRequest(topics=None)

        def read(response: MetadataResponse) -> set[str]:
            return {topic.name or "" for topic in response.topics if not topic.is_internal and not topic.error_code}

        def question(now: int) -> Any:
            return self._core.driver.ask_any("the topics were not listed", request, read, now + self._api_timeout_ms)

        found: set[str] = self._thread.ask(question)
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

    # --- committed offsets --------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, Any] | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets (numbers, or OffsetAndMetadata), or how far everything was read; returns when the
        group's coordinator has them. CommitFailedError, RebalanceInProgressError, FencedInstanceIdError: it refused."""
        group = self._group("commit()")
        wanted = self._to_commit(offsets)
        self._call_back()
        limit_ms = self._limit_ms(timeout_ms)
        self._thread.ask(lambda now: group.commits.commit(wanted, now + limit_ms))
        self._call_back()

    def commit_async(
        self, offsets: Mapping[TopicPartition, Any] | None = None, callback: OnCommit | None = None
    ) -> None:
        """Send a commit and go on. ``callback(offsets, error)`` is called by a later `poll`, `commit` or `close`, on
        your thread; `error` is None if all went well. A commit that fails is not repeated."""
        group = self._group("commit_async()")
        wanted = self._to_commit(offsets)
        self._call_back()
        with self._thread.lock:
            self._thread.check()
            group.commits.commit_async(wanted, callback or _ignore, self._thread.now)
        self._thread.wake()

    def committed(
        self,
        partitions: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """What the group has committed. For one partition the offset, or with `metadata` the OffsetAndMetadata; None if
        there is none. For several partitions a dict, of OffsetAndMetadata or None by partition."""
        group = self._group("committed()")
        is_one = isinstance(partitions, tuple) and len(partitions) == 2 and isinstance(partitions[0], str)
        wanted = [topic_partition(key) for key in ([partitions] if is_one else partitions)]
        limit_ms = self._limit_ms(timeout_ms)
        answer = self._thread.ask(lambda now: group.commits.committed(wanted, now + limit_ms))
        found = answer.get(group.membership.group_id, {})
        if not is_one:
            return found
        committed = found[wanted[0]]
        return committed if committed is None or metadata else committed.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """As which member of its group this consumer has polled its records, for `send_offsets_to_transaction`."""
        with self._thread.lock:
            return self._group("group_metadata()").held_as

    def _group(self, what: str) -> GroupPart:
        if self._core.group is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"{what} needs a group: set group.id")
        return self._core.group

    def _to_commit(self, offsets: Mapping[TopicPartition, Any] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """What was asked for, or how far everything was read: what a loop has polled and not handed out was not."""
        if offsets is not None:
            return {topic_partition(key): OffsetAndMetadata(*committed_offset(o)) for key, o in offsets.items()}
        with self._thread.lock:
            wanted = self._group("commit()").commits.consumed()
        for record in reversed(self._polled):
            if record.topic_partition in wanted:
                wanted[record.topic_partition] = OffsetAndMetadata(record.offset, "", record.leader_epoch)
        return wanted

    def _call_back(self) -> None:
        """Make the calls of asynchronous commits that are due."""
        while (group := self._core.group) is not None:
            with self._thread.lock:
                completed = next(group.commits.take_completed(), None)
            if completed is None:
                return
            callback, offsets, error = completed
            # After a rebalance the next automatic commit makes up for one that fell into it.
            if error is not None and not isinstance(error, RebalanceInProgressError):
                _logger.warning("%s: an asynchronous commit failed: %s", group.membership.group_id, error)
            callback(offsets, error)

    # --- rebalances ---------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Let the rebalance proceed, and call the listener. Its first error is raised when the rest is done."""
        if self._is_listening:
            raise RuntimeError("a rebalance listener must not poll: it is called by poll()")
        failure: Exception | None = None
        while True:
            with self._thread.lock:
                self._thread.check()
                self._give_back(self._polled)
                call = self._core.advance(self._thread.now)
            if call is None:
                break
            try:
                self._listen(call)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _listen(self, call: ListenerCall) -> None:
        method = getattr(self._listener, call.method, None)
        if method is None and call.method != ASSIGNED:  # a listener without a method for lost partitions
            method = getattr(self._listener, "on_partitions_revoked", None)
        if method is None:
            return
        self._is_listening = True
        try:
            method(set(call.partitions))
        finally:
            self._is_listening = False

    # --- reading ------------------------------------------------------------------------------------------------------

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """What has come, by partition; waits at most this long for the first of it. KafkaError: what went wrong, and
        where. ValueError: nothing is to be read."""
        deadline = self._thread.now + milliseconds("timeout_ms", timeout_ms)
        limit = self._max_poll_records if max_records is None else whole_number("max_records", max_records)
        if limit < 1:
            raise ValueError(f"max_records is at least 1, not {limit}")
        while True:
            self._advance()
            self._call_back()
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

    def _by_partition(self, taken: Sequence[FetchedRecord]) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """What cannot be deserialized is not taken, and neither is what comes behind it."""
        found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        for number, fetched in enumerate(taken):
            key = fetched.topic_partition
            try:
                record = self._record(fetched)
            except Exception as error:
                with self._thread.lock:
                    self._give_back([raw_record(each) for each in taken[number:]])
                if not found:
                    error.add_note(f"{key}, offset {fetched.record.offset}: seek behind it to go on without it")
                    raise
                break  # those before it first; the next call comes here again
            found.setdefault(key, []).append(record)
        return found

    def _record(self, fetched: FetchedRecord) -> ConsumerRecord[K, V]:
        raw: ConsumerRecord[Any, Any] = raw_record(fetched)
        if self._key_deserializer is None and self._value_deserializer is None:
            return raw
        key = raw.key if self._key_deserializer is None else self._key_deserializer(raw.key)
        value = raw.value if self._value_deserializer is None else self._value_deserializer(raw.value)
        return deserialized(raw, key, value)

    def _give_back(self, records: Collection[ConsumerRecord[Any, Any]]) -> None:
        """Let these records be polled again: the application has not seen them."""
        first: dict[TopicPartition, ConsumerRecord[Any, Any]] = {}
        for record in records:
            first.setdefault(record.topic_partition, record)
        for key, record in first.items():
            self._core.go_back(key, record.offset, record.leader_epoch)
        self._polled.clear()

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Record by record, for ever, or until nothing has come for `consumer_timeout_ms`. After you leave the loop you
        may go on with another one, or with `poll`: a record counts as read when the loop has handed it out."""
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """The next record; StopIteration if none has come for `consumer_timeout_ms`."""
        while not self._polled:
            found = self.poll(_PATIENCE_MS if self._timeout_ms is None else self._timeout_ms)
            self._polled.extend(chain.from_iterable(found.values()))
            if not found and self._timeout_ms is not None:
                raise StopIteration
        return self._polled.popleft()

    def close(self, timeout: float = _CLOSE_S, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Stop reading. A member of a group first commits, if it does so automatically and `autocommit` is True, calls
        its listener, and leaves the group. `timeout` (in seconds, or `timeout_ms`) limits that."""
        if isinstance(timeout, bool):
            raise TypeError(f"close({timeout}) begins with a timeout in seconds: write close(autocommit={timeout})")
        limit_ms = milliseconds("timeout", timeout * 1000 if timeout_ms is None else timeout_ms)
        try:
            if self._core.group is not None and self._thread.is_running and not self._thread.is_own:
                with suppress(ClientClosedError):
                    self._end_membership(self._core.group, self._thread.now + int(limit_ms), autocommit)
        finally:
            self._thread.close()

    def kill(self) -> None:
        """End as a process that is killed: close all connections and send nothing. What was read since the last commit
        is not committed, and the group is not left: its coordinator waits for a heartbeat until the session timeout.
        Any thread may call this; a `poll` under way raises ClientClosedError. Apache Kafka has no such call: it is for
        lessons and tests."""
        self._thread.close()

    def _end_membership(self, group: GroupPart, deadline: int, autocommit: bool) -> None:
        if autocommit:
            with self._thread.lock:
                self._give_back(self._polled)
                committed = group.commit_at_end(deadline)
            error = self._wait_for(committed, deadline)
            if error is not None:
                _logger.warning("%s: the last commit failed: %s", group.membership.group_id, error)
        self._thread.wait_until(lambda: not group.commits.async_under_way, deadline - self._thread.now)
        self._call_back()
        self._depart("the consumer is being closed", deadline)


def _ignore(offsets: object, error: object) -> None:
    """The callback of a commit that was given none."""
