"""The producer that people use: ``send`` returns a future, a thread does the rest.

::

    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=20, compression_type="lz4") as producer:
        future = producer.send("flights", key=b"JFK-LAX", value=b"...")
        print(future.result().offset)

Settings are Kafka's, with dots or underscores; the calls are those that a user of kafka-python knows. The work is done
by `pykraft.client.producer`, which has no thread; this file gives it one.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from random import Random
from time import time_ns
from typing import Any

from pykraft.client import config as keys
from pykraft.client.accumulator import RecordMetadata
from pykraft.client.arguments import record_headers, topic_name, whole_number
from pykraft.client.config import producer_config
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.producer import Obstacle, Outgoing, ProducerCore
from pykraft.records.record import Header
from pykraft.runtime.client_thread import ClientClosedError, ClientThread, ClosesOnExit

_numbers = itertools.count(1)
Serializer = Callable[[Any], bytes | None]


class RecordFuture(Future[RecordMetadata]):
    """Where a record went, once it is acknowledged. It is a `concurrent.futures.Future`, with three names more that
    users of kafka-python know."""

    get = Future.result

    def add_callback(self, callback: Callable[[RecordMetadata], object]) -> "RecordFuture":
        """Call back with the record's place, if it gets one."""
        self.add_done_callback(lambda done: callback(done.result()) if done.exception() is None else None)
        return self

    def add_errback(self, callback: Callable[[BaseException], object]) -> "RecordFuture":
        """Call back with the exception, if there is one."""
        self.add_done_callback(lambda done: callback(error) if (error := done.exception()) is not None else None)
        return self

    def cancel(self) -> bool:
        """A record that was handed over cannot be taken back."""
        return False

    def settle(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Keep what was promised."""
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(metadata)  # type: ignore[arg-type]


class Producer(ClosesOnExit):
    """Sends records. It may be used by several threads."""

    def __init__(
        self, *, key_serializer: Serializer | None = None, value_serializer: Serializer | None = None, **settings: Any
    ) -> None:
        """ConfigError names a setting that is not allowed, and what is. Nothing is connected yet."""
        config = producer_config(settings)
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._max_block_ms: int = config[keys.MAX_BLOCK_MS]
        random = Random()
        self._core = ProducerCore(config, random)
        client_id = config[keys.CLIENT_ID] or f"pykraft-producer-{next(_numbers)}"
        self._thread = ClientThread(self._core, client_id, random, self._abandon)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Iterable[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Queue a record. Waits at most max.block.ms for the topic's metadata or for room; ClientTimeoutError after
        that. What becomes of the record is told by the future. TypeError, ValueError or KafkaError: it can never be
        sent."""
        record = Outgoing(
            topic_name(topic),
            _serialized("key", key, self._key_serializer),
            _serialized("value", value, self._value_serializer),
            record_headers(headers),
            partition,
            time_ns() // 1_000_000 if timestamp_ms is None else whole_number("a timestamp", timestamp_ms),
        )
        future = RecordFuture()
        with self._thread.lock:
            self._thread.check()
            obstacle = self._core.try_append(record, future.settle, self._thread.now)
            if obstacle is not None:
                self._wait_and_append(record, future, obstacle)
            wants_poll = self._core.wants_poll
        if wants_poll:
            self._thread.wake()
        return future

    def _wait_and_append(self, record: Outgoing, future: RecordFuture, obstacle: Obstacle) -> None:
        deadline = self._thread.now + self._max_block_ms
        found: Obstacle | None = obstacle
        while found is not None:
            self._thread.wake()
            remaining = deadline - self._thread.now
            if remaining <= 0:
                reason = self._core.reason(record.topic, found)
                raise ClientTimeoutError(f"a record for {record.topic} waited {self._max_block_ms} ms: {reason}")
            self._thread.wait(remaining)
            found = self._core.try_append(record, future.settle, self._thread.now)

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

    def partitions_for(self, topic: str) -> Sequence[int]:
        """The topic's partitions."""
        topic_name(topic)
        if not self._thread.wait_until(lambda: self._core.knows(topic), self._max_block_ms):
            reason = self._core.reason(topic, Obstacle.METADATA)
            raise ClientTimeoutError(f"the partitions of {topic} were waited for {self._max_block_ms} ms: {reason}")
        with self._thread.lock:
            return self._core.metadata.partitions_of(topic) or ()

    def _abandon(self, failure: BaseException | None) -> None:
        error = ClientClosedError("the producer was closed before the record was acknowledged")
        error.__cause__ = failure
        self._core.abandon(error)

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, wait for it (at most so many seconds), and stop. What is not acknowledged then has failed.
        In a callback, nothing is waited for."""
        try:
            if self._thread.is_running and not self._thread.is_own:
                with suppress(ClientTimeoutError, ClientClosedError):
                    self.flush(timeout)
        finally:
            self._thread.close()


def _serialized(what: str, value: Any, serializer: Serializer | None) -> bytes | None:
    if serializer is not None:
        value = serializer(value)
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a record's {what} is bytes or None, not {type(value).__name__}: give a {what}_serializer")
