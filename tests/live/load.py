"""Load from a client that knows nothing of pykraft: librdkafka's idempotent producer, acks=all, in a thread.

Everything that is sent is to be acknowledged in the end, however often nodes die meanwhile: the producer has all the
time it wants, and never more than `MOST_UNDERWAY` records under way. The answers are kept, by place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

import confluent_kafka

PATIENCE_S = 60.0
MOST_UNDERWAY = 400
PAUSE_S = 0.005
"""After each turn: a load, and not all that the machine can do."""

PRODUCER = {
    "log_level": 0,  # it would tell of every connection that it lost
    "enable.idempotence": True,
    "linger.ms": 2,
    "message.timeout.ms": 600_000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
CONSUMER = {"log_level": 0, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}


class Row(NamedTuple):
    """A record, and the partition that it is for."""

    partition: int
    key: bytes | None
    value: bytes | None


Place = tuple[int, int]
"""(partition, offset)."""


class Load:
    """Sends `rows` until `end` is called. `turn` records are sent at once."""

    def __init__(self, servers: str, topic: str, rows: Iterator[Row], turn: int = 10) -> None:
        self._topic = topic
        self._rows = rows
        self._turn = turn
        self._producer = confluent_kafka.Producer({"bootstrap.servers": servers, **PRODUCER})
        self._thread = threading.Thread(target=self._run, name="load")
        self._ended = threading.Event()
        self.sent = 0
        self.acknowledged: list[tuple[Place, Row]] = []
        """In the order of the answers."""
        self.refused: list[str] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_S)
        if error is None:
            assert not self._thread.is_alive()
            assert self._producer.flush(PATIENCE_S) == 0, "not everything was acknowledged or refused"
        else:
            self._producer.purge()
            self._producer.flush(1)

    def _run(self) -> None:
        for row in self._rows:
            self._producer.produce(self._topic, row.value, row.key, row.partition, on_delivery=self._told(row))
            self.sent += 1
            while self.sent % self._turn == 0 and not self._ended.is_set():
                self._producer.poll(PAUSE_S)
                if self.sent - len(self.acknowledged) - len(self.refused) < MOST_UNDERWAY:
                    break
            if self._ended.is_set():
                return

    def _told(self, row: Row) -> Callable[[Any, Any], None]:
        def told(error: Any, message: Any) -> None:
            if error is None:
                self.acknowledged.append(((row.partition, message.offset()), row))
            else:
                self.refused.append(str(error))

        return told

    def places(self) -> dict[Place, Row]:
        """What is where, by the producer's answers."""
        assert not self.refused, f"{len(self.refused)} were refused: {self.refused[0]}"
        found = dict(self.acknowledged)
        assert len(found) == len(self.acknowledged), "two records were told the same place"
        return found


def read(servers: str, topic: str, starts: dict[int, int], most: int | None = None) -> list[tuple[Place, Row]]:
    """What librdkafka reads from these offsets on, by partition: to the end, or until there are `most`."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, **CONSUMER})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, p, offset) for p, offset in starts.items()])
        found: list[tuple[Place, Row]] = []
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < len(starts) and (most is None or len(found) < most):
            assert time.monotonic() < deadline, f"nothing came after {len(found)} records"
            for message in consumer.consume(1000, 0.1):
                deadline = time.monotonic() + PATIENCE_S
                if message.error() is not None:
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
                    continue
                row = Row(message.partition(), message.key(), message.value())
                found.append(((message.partition(), message.offset()), row))
        return found[:most]
    finally:
        consumer.close()
