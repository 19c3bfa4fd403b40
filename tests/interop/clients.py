"""Three clients of other hands, as they are installed, behind one small face: librdkafka (confluent-kafka),
kafka-python and aiokafka. Each writes, reads and administers. Nothing of pykraft is in them; the fourth is our own.

What differs is how they are spoken to, not what they say: a `Row` in, a `Row` out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import confluent_kafka
import confluent_kafka.admin

import pykraft
from tests.harness.others import module

PATIENCE_S = 60.0
Headers = Sequence[tuple[str, bytes | None]]


class Row(NamedTuple):
    """A record, and where it is (or is to be)."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Client(Protocol):
    """What each of them can do."""

    name: str
    codecs: Sequence[str]
    null_headers: bool
    """Whether it can write a header without a value."""

    def write(self, servers: str, topic: str, rows: Iterator[Row], **settings: object) -> list[tuple[Row, int]]:
        """Send the rows, each to its partition; (row, offset) of those that were acknowledged. Idempotent, acks=all."""
        ...

    def read(self, servers: str, topic: str, starts: Mapping[int, int], count: int) -> list[Row]:
        """Assign these partitions, seek to these offsets, and read so many records."""
        ...

    def create(self, servers: str, topic: str, partitions: int, replicas: int) -> None: ...

    def delete(self, servers: str, topic: str) -> None: ...

    def topics(self, servers: str) -> set[str]: ...

    def offset_at(self, servers: str, topic: str, partition: int, timestamp: int) -> int | None:
        """The first offset that is at least as young."""
        ...

    def ends(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        """Where the log begins, and where it ends."""
        ...


class Confluent:
    """librdkafka, in C."""

    name = "confluent-kafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    null_headers = True

    def write(self, servers: str, topic: str, rows: Iterator[Row], **settings: object) -> list[tuple[Row, int]]:
        done: list[tuple[Row, int]] = []
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, **_dotted(settings)}
        )

        def on_delivery(row: Row) -> Callable[[Any, Any], None]:
            def told(error: Any, message: Any) -> None:
                assert error is None, error
                done.append((row, message.offset()))

            return told

        for row in rows:
            producer.produce(
                topic,
                row.value,
                row.key,
                row.partition,
                on_delivery=on_delivery(row),
                timestamp=row.timestamp,
                headers=list(row.headers),
            )
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        return done

    def _consumer(self, servers: str) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
        )

    def read(self, servers: str, topic: str, starts: Mapping[int, int], count: int) -> list[Row]:
        consumer = self._consumer(servers)
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, p, offset) for p, offset in starts.items()])
            found: list[Row] = []
            while len(found) < count:
                messages = consumer.consume(count - len(found), PATIENCE_S)
                assert messages, f"{len(found)} of {count} records have come"
                for message in messages:
                    assert message.error() is None, message.error()
                    found.append(
                        Row(
                            message.partition(),
                            message.offset(),
                            message.timestamp()[1],
                            message.key(),
                            message.value(),
                            message.headers() or [],
                        )
                    )
            return found
        finally:
            consumer.close()

    def create(
        self, servers: str, topic: str, partitions: int, replicas: int, configs: Mapping[str, str] | None = None
    ) -> None:
        new = confluent_kafka.admin.NewTopic(topic, partitions, replicas, config=dict(configs or {}))
        admin = self._admin(servers)
        admin.create_topics([new])[topic].result(PATIENCE_S)

    def delete(self, servers: str, topic: str) -> None:
        admin = self._admin(servers)
        admin.delete_topics([topic])[topic].result(PATIENCE_S)

    def topics(self, servers: str) -> set[str]:
        return set(self._admin(servers).list_topics(timeout=PATIENCE_S).topics)

    @staticmethod
    def _admin(servers: str) -> Any:
        return confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})

    def offset_at(self, servers: str, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = self._consumer(servers)
        try:
            asked = confluent_kafka.TopicPartition(topic, partition, timestamp)
            (found,) = consumer.offsets_for_times([asked], timeout=PATIENCE_S)
            return None if found.offset < 0 else int(found.offset)
        finally:
            consumer.close()

    def ends(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        consumer = self._consumer(servers)
        try:
            low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, partition), PATIENCE_S)
            return low, high
        finally:
            consumer.close()


class KafkaPython:
    """kafka-python. It brings no snappy of its own, and takes no header without a value."""

    name = "kafka-python"
    codecs = ("none", "gzip", "lz4", "zstd")
    null_headers = False

    @property
    def _kafka(self) -> Any:
        return module("kafka")

    def write(self, servers: str, topic: str, rows: Iterator[Row], **settings: object) -> list[tuple[Row, int]]:
        settings = {"linger_ms": 5, **settings}
        codec = settings.pop("compression_type", "none")
        producer = self._kafka.KafkaProducer(
            bootstrap_servers=servers.split(","),
            enable_idempotence=True,
            acks="all",
            compression_type=None if codec == "none" else codec,
            **settings,
        )
        try:
            futures = [
                (row, producer.send(topic, row.value, row.key, list(row.headers), row.partition, row.timestamp))
                for row in rows
            ]
            return [(row, future.get(PATIENCE_S).offset) for row, future in futures]
        finally:
            producer.close(PATIENCE_S)

    def _consumer(self, servers: str) -> Any:
        return self._kafka.KafkaConsumer(bootstrap_servers=servers.split(","), group_id=None)

    def read(self, servers: str, topic: str, starts: Mapping[int, int], count: int) -> list[Row]:
        consumer = self._consumer(servers)
        try:
            consumer.assign([self._kafka.TopicPartition(topic, partition) for partition in starts])
            for partition, offset in starts.items():
                consumer.seek(self._kafka.TopicPartition(topic, partition), offset)
            found: list[Row] = []
            while len(found) < count:
                polled = consumer.poll(PATIENCE_S * 1000)
                assert polled, f"{len(found)} of {count} records have come"
                found += [
                    Row(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)
                    for records in polled.values()
                    for r in records
                ]
            return found
        finally:
            consumer.close()

    def create(self, servers: str, topic: str, partitions: int, replicas: int) -> None:
        new = module("kafka.admin").NewTopic(topic, partitions, replicas)
        self._with_admin(servers, lambda admin: admin.create_topics([new]))

    def delete(self, servers: str, topic: str) -> None:
        self._with_admin(servers, lambda admin: admin.delete_topics([topic]))

    def topics(self, servers: str) -> set[str]:
        return set(self._with_admin(servers, lambda admin: admin.list_topics()))

    def _with_admin(self, servers: str, act: Callable[[Any], Any]) -> Any:
        admin = self._kafka.KafkaAdminClient(bootstrap_servers=servers.split(","))
        try:
            return act(admin)
        finally:
            admin.close()

    def offset_at(self, servers: str, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = self._consumer(servers)
        try:
            asked = self._kafka.TopicPartition(topic, partition)
            found = consumer.offsets_for_times({asked: timestamp})[asked]
            return None if found is None else int(found.offset)
        finally:
            consumer.close()

    def ends(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        consumer = self._consumer(servers)
        try:
            asked = self._kafka.TopicPartition(topic, partition)
            return consumer.beginning_offsets([asked])[asked], consumer.end_offsets([asked])[asked]
        finally:
            consumer.close()


class AioKafka:
    """aiokafka, each call in a loop of its own."""

    name = "aiokafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    null_headers = True

    @property
    def _aiokafka(self) -> Any:
        return module("aiokafka")

    def write(self, servers: str, topic: str, rows: Iterator[Row], **settings: object) -> list[tuple[Row, int]]:
        return asyncio.run(self._write(servers, topic, rows, {"linger_ms": 5, **settings}))

    async def _write(
        self, servers: str, topic: str, rows: Iterator[Row], settings: dict[str, Any]
    ) -> list[tuple[Row, int]]:
        codec = settings.pop("compression_type", "none")
        producer = self._aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            enable_idempotence=True,
            compression_type=None if codec == "none" else codec,
            **settings,
        )
        await producer.start()
        try:
            futures = []
            for row in rows:
                future = await producer.send(topic, row.value, row.key, row.partition, row.timestamp, list(row.headers))
                futures.append((row, future))
                await asyncio.sleep(0)
            return [(row, (await asyncio.wait_for(future, PATIENCE_S)).offset) for row, future in futures]
        finally:
            await producer.stop()

    def read(self, servers: str, topic: str, starts: Mapping[int, int], count: int) -> list[Row]:
        async def read(consumer: Any) -> list[Row]:
            consumer.assign([self._aiokafka.TopicPartition(topic, partition) for partition in starts])
            for partition, offset in starts.items():
                consumer.seek(self._aiokafka.TopicPartition(topic, partition), offset)
            found: list[Row] = []
            while len(found) < count:
                polled = await consumer.getmany(timeout_ms=int(PATIENCE_S * 1000))
                assert polled, f"{len(found)} of {count} records have come"
                found += [
                    Row(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)
                    for records in polled.values()
                    for r in records
                ]
            return found

        rows: list[Row] = asyncio.run(self._with_consumer(servers, read))
        return rows

    async def _with_consumer(self, servers: str, act: Callable[[Any], Any]) -> Any:
        consumer = self._aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, group_id=None)
        await consumer.start()
        try:
            return await act(consumer)
        finally:
            try:
                await consumer.stop()
            except asyncio.CancelledError:
                # It ends its fetches and waits for them; one that pauses after a failure to reach a dead node answers
                # with the cancellation, and the rest of stop() is left out (aiokafka 0.14.0).
                await consumer._client.close()

    async def _with_admin(self, servers: str, act: Callable[[Any], Any]) -> Any:
        admin = module("aiokafka.admin").AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            return await act(admin)
        finally:
            await admin.close()

    def create(self, servers: str, topic: str, partitions: int, replicas: int) -> None:
        new = module("aiokafka.admin").NewTopic(topic, partitions, replicas)
        response = asyncio.run(self._with_admin(servers, lambda admin: admin.create_topics([new])))
        (answer,) = response.topic_errors
        if answer[1]:
            raise module("aiokafka.errors").for_code(answer[1])(answer)

    def delete(self, servers: str, topic: str) -> None:
        asyncio.run(self._with_admin(servers, lambda admin: admin.delete_topics([topic])))

    def topics(self, servers: str) -> set[str]:
        return set(asyncio.run(self._with_admin(servers, lambda admin: admin.list_topics())))

    def offset_at(self, servers: str, topic: str, partition: int, timestamp: int) -> int | None:
        asked = self._aiokafka.TopicPartition(topic, partition)
        found = asyncio.run(self._with_consumer(servers, lambda c: c.offsets_for_times({asked: timestamp})))[asked]
        return None if found is None else int(found.offset)

    def ends(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        asked = self._aiokafka.TopicPartition(topic, partition)

        async def both(consumer: Any) -> tuple[int, int]:
            return (await consumer.beginning_offsets([asked]))[asked], (await consumer.end_offsets([asked]))[asked]

        found: tuple[int, int] = asyncio.run(self._with_consumer(servers, both))
        return found


class Ours:
    """pykraft's own clients, to write for the others and to read what they wrote."""

    name = "pykraft"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    null_headers = True

    def write(self, servers: str, topic: str, rows: Iterator[Row], **settings: object) -> list[tuple[Row, int]]:
        with pykraft.Producer(bootstrap_servers=servers, **{"linger_ms": 5, **settings}) as producer:
            futures = [
                (row, producer.send(topic, row.value, row.key, row.headers, row.partition, row.timestamp))
                for row in rows
            ]
            return [(row, future.result(PATIENCE_S).offset) for row, future in futures]

    def read(self, servers: str, topic: str, starts: Mapping[int, int], count: int) -> list[Row]:
        with pykraft.Consumer(bootstrap_servers=servers) as consumer:
            consumer.assign([pykraft.TopicPartition(topic, partition) for partition in starts])
            for partition, offset in starts.items():
                consumer.seek(pykraft.TopicPartition(topic, partition), offset)
            found: list[Row] = []
            while len(found) < count:
                polled = consumer.poll(PATIENCE_S * 1000)
                assert polled, f"{len(found)} of {count} records have come"
                found += [
                    Row(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)
                    for records in polled.values()
                    for r in records
                ]
            return found

    def create(self, servers: str, topic: str, partitions: int, replicas: int) -> None:
        with pykraft.Admin(bootstrap_servers=servers) as admin:
            admin.create_topic(topic, partitions, replicas)

    def delete(self, servers: str, topic: str) -> None:
        with pykraft.Admin(bootstrap_servers=servers) as admin:
            admin.delete_topics([topic])

    def topics(self, servers: str) -> set[str]:
        with pykraft.Admin(bootstrap_servers=servers) as admin:
            return set(admin.list_topics())

    def offset_at(self, servers: str, topic: str, partition: int, timestamp: int) -> int | None:
        asked = pykraft.TopicPartition(topic, partition)
        with pykraft.Consumer(bootstrap_servers=servers) as consumer:
            found = consumer.offsets_for_times({asked: timestamp})[asked]
        return None if found is None else found.offset

    def ends(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        asked = pykraft.TopicPartition(topic, partition)
        with pykraft.Consumer(bootstrap_servers=servers) as consumer:
            return consumer.beginning_offsets([asked])[asked], consumer.end_offsets([asked])[asked]


OTHERS: tuple[Client, ...] = (Confluent(), KafkaPython(), AioKafka())
ALL: tuple[Client, ...] = (*OTHERS, Ours())


def _dotted(settings: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}
