"""The producer that people use: ``send`` returns a future, a thread does the rest.

::

    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=20, compression_type="lz4") as producer:
        future = producer.send("flights", key=b"JFK-LAX", value=b"...")
        print(future.result().offset)

With a ``transactional_id`` all that is sent between two calls is visible as a whole, or not at all, to a consumer with
``isolation_level="read_committed"``::

    with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="transfers-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("debits", b"...")
        producer.send("credits", b"...")
        producer.commit_transaction()

Settings are Kafka's, with dots or underscores; the calls are those that a user of kafka-python knows. The work is done
by `pykraft.client.producing.producer`, which has no thread; this file gives it one.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from time import time_ns
from typing import Any, Generic, Unpack

from pykraft.client import config as keys
from pykraft.client.arguments import (
    LARGEST_INT32,
    by_name,
    committed_offset,
    function,
    record_headers,
    topic_name,
    topic_partition,
    whole_number,
)
from pykraft.client.config import producer_config, public_settings
from pykraft.client.consuming.commits import ConsumerGroupMetadata, OffsetAndMetadata
from pykraft.client.content_types import K, V
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.habits import OF_PRODUCER, with_habits
from pykraft.client.producing.accumulator import OnDelivery, RecordMetadata
from pykraft.client.producing.producer import Obstacle, Outgoing, ProducerCore
from pykraft.client.producing.transactions import TransactionManager
from pykraft.client.settings import ProducerSettings
from pykraft.common.core import Promise
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition
from pykraft.records.record import Header
from pykraft.runtime.client_thread import ClientClosedError, ClosesOnExit, client_random, start_client

_numbers = itertools.count(1)
Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""From a key as bytes, all partitions of the topic, and those that have a leader, to the partition of the record."""


class SentRecordMetadata(RecordMetadata):
    """Where a record is, and how many bytes its key and its value have; -1 for None."""

    sizes: tuple[int, int]

    @property
    def serialized_key_size(self) -> int:
        return self.sizes[0]

    @property
    def serialized_value_size(self) -> int:
        return self.sizes[1]

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RecordFuture(Future[SentRecordMetadata]):
    """Where a record went, once it is acknowledged. It is a `concurrent.futures.Future`, with more names that users of
    kafka-python know. (Its `exception` and `done` are calls, as they are in Python.)"""

    def __init__(self, key: bytes | None = None, value: bytes | None = None) -> None:
        super().__init__()
        self._sizes = (-1 if key is None else len(key), -1 if value is None else len(value))

    @property
    def is_done(self) -> bool:
        """Whether it is known what became of the record."""
        return self.done()

    @property
    def value(self) -> SentRecordMetadata | None:
        """Where the record is; None as long as that is not known, and if it failed."""
        return self.result() if self.succeeded() else None

    def succeeded(self) -> bool:
        """Whether the record is acknowledged."""
        return self.done() and self.exception() is None

    def failed(self) -> bool:
        """Whether the record will never be acknowledged."""
        return self.done() and self.exception() is not None

    def retriable(self) -> bool:
        """Whether the record failed with an error that may pass."""
        return self.done() and bool(getattr(self.exception(), "retriable", False))

    def get(self, timeout: float | None = None) -> SentRecordMetadata:
        """Wait until the record is acknowledged, at most this many seconds: where it is. TimeoutError after that; the
        error that it failed with."""
        return self.result(timeout)

    def add_callback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> "RecordFuture":
        """Call back with the record's place, if it gets one; after these arguments, if there are some."""
        call = partial(callback, *args, **kwargs)
        self.add_done_callback(lambda done: call(done.result()) if done.exception() is None else None)
        return self

    def add_errback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> "RecordFuture":
        """Call back with the exception, if there is one; after these arguments, if there are some."""
        call = partial(callback, *args, **kwargs)
        self.add_done_callback(lambda done: call(error) if (error := done.exception()) is not None else None)
        return self

    def add_both(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> "RecordFuture":
        """Call back with the record's place, or with the exception."""
        return self.add_callback(callback, *args, **kwargs).add_errback(callback, *args, **kwargs)

    def cancel(self) -> bool:
        """A record that was handed over cannot be taken back."""
        return False

    def settle(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Keep what was promised."""
        if error is not None:
            self.set_exception(error)
        else:
            assert metadata is not None
            place = tuple.__new__(SentRecordMetadata, metadata)
            place.sizes = self._sizes
            self.set_result(place)


@with_habits(OF_PRODUCER)
class Producer(ClosesOnExit, Generic[K, V]):
    """Sends records. It may be used by several threads. For type checkers, `K` and `V` are what its serializers take;
    without serializers, bytes or None."""

    def __init__(
        self,
        *misplaced: object,
        key_serializer: Callable[[K], bytes | None] | None = None,
        value_serializer: Callable[[V], bytes | None] | None = None,
        partitioner: Partitioner | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """ConfigError names a setting that is not allowed, and what is. Nothing is connected yet. A `partitioner` is
        asked for the partition of each record that is sent without one."""
        by_name("Producer", misplaced)
        config = producer_config(settings)
        self.config = public_settings(config)
        self._key_serializer = function("a key_serializer", key_serializer)
        self._value_serializer = function("a value_serializer", value_serializer)
        self._partitioner: Partitioner | None = function("a partitioner", partitioner)
        self._max_block_ms: int = config[keys.MAX_BLOCK_MS]
        random = client_random()
        self._core = ProducerCore(config, random)
        self._unfinished: tuple[str, Promise[KafkaError | None]] | None = None
        """The step of a transaction whose end the user has not waited for."""
        client_id = config[keys.CLIENT_ID] or f"pykraft-producer-{next(_numbers)}"
        self._thread = start_client(self._core, client_id, random, self._abandon)

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        headers: Iterable[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Queue a record. Waits at most max.block.ms for the topic's metadata or for room; ClientTimeoutError after
        that. The future says what becomes of the record. TypeError, ValueError or KafkaError: it can never be sent;
        RuntimeError: it needs a transaction."""
        record = Outgoing(
            topic_name(topic),
            _serialized("key", key, self._key_serializer),
            _serialized("value", value, self._value_serializer),
            record_headers(headers),
            None if partition is None else whole_number("a partition", partition, LARGEST_INT32),
            time_ns() // 1_000_000 if timestamp_ms is None else whole_number("a timestamp", timestamp_ms),
        )
        if partition is None and self._partitioner is not None:
            record = record._replace(partition=self._choose(self._partitioner, topic, record.key))
        future = RecordFuture(record.key, record.value)
        with self._thread.lock:
            self._thread.check()
            self._check_finished("send()")
            obstacle = self._core.try_append(record, future.settle, self._thread.now)
            if obstacle is not None:
                self._wait_and_append(record, future.settle, obstacle)
            wants_poll = self._core.wants_poll
        if wants_poll:
            self._thread.wake()
        return future

    def _choose(self, partitioner: Partitioner, topic: str, key: bytes | None) -> int:
        """The partition that the user's function chooses."""
        partitions = self.partitions_for(topic)
        with self._thread.lock:
            available = [each for each in partitions if self._core.metadata.leader_of(TopicPartition(topic, each))]
        chosen = whole_number("a partition", partitioner(key, partitions, available), LARGEST_INT32)
        if chosen not in partitions:
            raise ValueError(f"the partitioner chose partition {chosen} of {topic}, which has {len(partitions)}")
        return chosen

    def _wait_and_append(self, record: Outgoing, on_delivery: OnDelivery, obstacle: Obstacle) -> None:
        self._wait_for_room(
            record.topic, obstacle, lambda: self._core.try_append(record, on_delivery, self._thread.now)
        )

    def _wait_for_room(self, topic: str, obstacle: Obstacle, append: Callable[[], Obstacle | None]) -> None:
        """Wait, with the lock held, until `append` meets no obstacle."""
        deadline = self._thread.now + self._max_block_ms
        found: Obstacle | None = obstacle
        reported: Obstacle | None = None
        while found is not None:
            if found is not reported:  # each step of the thread ends a wait: to wake it every time would be a circle
                self._thread.wake()
                reported = found
            remaining = deadline - self._thread.now
            if remaining <= 0:
                reason = self._thread.silence() or self._core.reason(topic, found)
                raise ClientTimeoutError(f"a record for {topic} waited {self._max_block_ms} ms: {reason}")
            self._thread.wait(remaining)
            found = append()

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now, and wait until all that was handed over so far is acknowledged or has failed;
        ClientTimeoutError after `timeout` seconds. RuntimeError in a callback, which it would wait for."""
        with self._thread.lock:
            self._thread.check()
            flush = self._core.begin_flush()
        try:
            limit_ms = float("inf") if timeout is None else timeout * 1000
            if not self._thread.wait_until(lambda: self._core.is_flushed(flush), limit_ms):
                raise ClientTimeoutError(f"flush: not everything was acknowledged in {timeout} s")
        finally:
            with self._thread.lock:
                self._core.end_flush()

    # --- transactions -------------------------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Get ready for transactions, once: an older producer with the same transactional.id is fenced, and a
        transaction that it left open is aborted. This and the calls below wait at most max.block.ms; after a
        ClientTimeoutError the same call goes on waiting. TransactionAbortableError: abort the transaction.
        TransactionFatalError: close the producer. RuntimeError: the call is not possible now, and says what is."""
        self._finish("init_transactions()", lambda transactions: transactions.initialize())

    def begin_transaction(self) -> None:
        """Begin a transaction: all that is sent from now on is part of it."""
        with self._thread.lock:
            self._thread.check()
            transactions = self._transactions("begin_transaction()")
            self._check_finished("begin_transaction()")
            transactions.begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit these offsets of a group when the transaction commits. `group_metadata` is what the consumer's
        `group_metadata()` says; a bare group id is for a consumer that assigns its partitions itself. The consumer
        needs enable_auto_commit=False."""
        group = group_metadata if isinstance(group_metadata, tuple) else ConsumerGroupMetadata(group_metadata)
        if group.generation_id > 0 and not group.member_id:
            raise ValueError(f"group metadata with generation {group.generation_id} has no member id")
        wanted = {topic_partition(key): OffsetAndMetadata(*committed_offset(o)) for key, o in offsets.items()}
        self._finish("send_offsets_to_transaction()", lambda transactions: transactions.send_offsets(wanted, group))

    def commit_transaction(self) -> None:
        """Send what waits, and make the transaction visible as a whole."""
        self._finish("commit_transaction()", lambda transactions: transactions.commit())

    def abort_transaction(self) -> None:
        """Undo the transaction. Records that were not sent yet fail; those that were are never seen by a consumer that
        reads committed data."""
        self._finish("abort_transaction()", lambda transactions: transactions.abort())

    def _transactions(self, what: str) -> TransactionManager:
        if self._core.transactions is None:
            raise RuntimeError(f"{what} needs a transactional producer: set transactional.id")
        return self._core.transactions

    def _check_finished(self, what: str) -> None:
        if self._unfinished is not None and self._unfinished[0] != what:
            raise RuntimeError(f"{what} is not possible now: {self._unfinished[0]} timed out, and must be called again")

    def _finish(self, what: str, step: Callable[[TransactionManager], Promise[KafkaError | None]]) -> None:
        """Take a step, or wait for it again if the last call timed out."""
        with self._thread.lock:
            self._thread.check()
            transactions = self._transactions(what)
            self._check_finished(what)
            if self._unfinished is None:
                self._unfinished = what, step(transactions)
            promise = self._unfinished[1]
        if not self._thread.wait_until(lambda: promise.kept, self._max_block_ms):
            obstacle = self._thread.silence() or self._core.obstacle
            raise ClientTimeoutError(f"{what} was not done in {self._max_block_ms} ms: {obstacle}. Call it again")
        self._unfinished = None
        if promise.value is not None:
            raise promise.value

    def partitions_for(self, topic: str) -> Sequence[int]:
        """The topic's partitions."""
        topic_name(topic)
        if not self._thread.wait_until(lambda: self._core.knows(topic), self._max_block_ms):
            reason = self._thread.silence() or self._core.reason(topic, Obstacle.METADATA)
            raise ClientTimeoutError(f"the partitions of {topic} were waited for {self._max_block_ms} ms: {reason}")
        with self._thread.lock:
            return self._core.metadata.partitions_of(topic) or ()

    def _abandon(self, failure: BaseException | None) -> None:
        error = ClientClosedError("the producer was closed before the record was acknowledged")
        error.__cause__ = failure
        self._core.abandon(error)

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, wait for it (at most this many seconds), and stop. What is not acknowledged then has
        failed. In a callback, nothing is waited for."""
        try:
            if self._thread.is_running and not self._thread.is_own:
                with suppress(ClientTimeoutError, ClientClosedError):
                    self._abort_open_transaction(timeout)
                    self.flush(timeout)
        finally:
            self._thread.close()

    def kill(self) -> None:
        """End as a process that is killed: close all connections and send nothing. A transaction that is open stays
        open until its coordinator aborts it. Any thread may call this. Apache Kafka has no such call: it is for lessons
        and tests."""
        self._thread.close()

    def _abort_open_transaction(self, timeout: float | None) -> None:
        """A transaction that only this producer can end: nothing of it may be seen, and others wait for its end."""
        transactions = self._core.transactions
        with self._thread.lock:
            if transactions is None or not transactions.is_open:
                return
            promise = transactions.abort()
        limit_ms = self._max_block_ms if timeout is None else timeout * 1000
        self._thread.wait_until(lambda: promise.kept, limit_ms)


def _serialized(what: str, value: Any, serializer: Callable[[Any], bytes | None] | None) -> bytes | None:
    if serializer is not None:
        value = serializer(value)
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a record's {what} is bytes or None, not {type(value).__name__}: give a {what}_serializer")
