"""A topic with everything in it that a record can have, and what an unmodified client reads of it.

Null, empty and long keys and values; no header, null ones, empty ones, several of one name, names beyond ASCII; times
from 1970 on; batches of every codec in every partition but the last one, which stays empty.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 4
FILLED = 3
TIMEOUT_S = 30.0
_CREATE_TIME = 1
_CHOICES: list[bytes | None] = [None, b"", b"\0", "schlüssel".encode(), b"x" * 63, b"y" * 64, bytes(range(256))]
_HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [("a", b"1")],
    [("a", None), ("a", b""), ("b", b"2" * 70)],
    [("größe", "schön".encode())],
    [("", b"no name")],
]


class Row(NamedTuple):
    """A record as any reader should see it; `timestamp` in milliseconds, `timestamp_type` as Spark has it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...] | None


def create(bootstrap_servers: str, topic: str, partitions: int = PARTITIONS, **config: str) -> None:
    """Make a topic, on three brokers if there are as many. What is from 1970 is kept all the same."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    brokers = len(admin.list_topics(timeout=TIMEOUT_S).brokers)
    wanted = {"retention.ms": "-1", **{name.replace("_", "."): value for name, value in config.items()}}
    new = NewTopic(topic, partitions, min(3, brokers), config=wanted)
    admin.create_topics([new])[topic].result(TIMEOUT_S)


def fill(bootstrap_servers: str, topic: str, per_codec: int = 300) -> None:
    """Produce `per_codec` records with each codec to the partitions in turn, but none to the last one."""
    chance = random.Random(topic)
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": codec,
                "batch.num.messages": 40,
                "enable.idempotence": True,
                "partitioner": "consistent",
            }
        )
        failures: list[KafkaError] = []
        for number in range(per_codec):
            producer.produce(
                topic,
                key=chance.choice(_CHOICES),
                value=chance.choice([*_CHOICES, b"%s value %d " % (codec.encode(), number) * 20]),
                headers=chance.choice(_HEADERS),
                partition=number % FILLED,
                timestamp=chance.choice([1, 1_000, 1_357_016_400_000, 1_700_000_000_000 + number]),
                on_delivery=lambda error, _, failures=failures: failures.append(error) if error else None,
            )
        assert producer.flush(TIMEOUT_S) == 0 and not failures, failures


def read(bootstrap_servers: str, topic: str, partitions: int = PARTITIONS, **settings: str) -> list[Row]:
    """All that librdkafka reads of the topic now, by partition and offset. `settings` are its own, with underscores."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "corpus",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        return sorted(_until_all_ended(consumer, partitions), key=lambda row: (row.partition, row.offset))
    finally:
        consumer.close()


def _until_all_ended(consumer: Consumer, partitions: int) -> Iterator[Row]:
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"only partitions {ended} were read to their end"
        error = message.error()
        if error is None:
            yield row_of(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())


def row_of(message: Message) -> Row:
    kind, timestamp = message.timestamp()
    headers = message.headers()
    return Row(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        timestamp,
        0 if kind == _CREATE_TIME else 1,
        tuple(headers) if headers else None,
    )


def rows_of(frame: Any) -> list[Row]:
    """The rows of a DataFrame that the source read with its headers, by partition and offset."""
    wanted = frame.selectExpr(
        *("topic", "partition", "offset", "key", "value", "unix_millis(timestamp)", "timestampType", "headers")
    )
    return sorted(_as_rows(wanted.collect()), key=lambda row: (row.topic, row.partition, row.offset))


def _as_rows(found: Iterable[Any]) -> Iterator[Row]:
    for topic, partition, offset, key, value, timestamp, timestamp_type, headers in found:
        yield Row(
            topic,
            partition,
            offset,
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            timestamp,
            timestamp_type,
            None if headers is None else tuple((name, _bytes(content)) for name, content in headers),
        )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
