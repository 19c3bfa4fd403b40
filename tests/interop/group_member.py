"""A member of a group in a process of its own, so that it can be killed; or one that commits and reads offsets.

    python -m tests.interop.group_member LIBRARY SERVERS GROUP TOPIC
    python -m tests.interop.group_member LIBRARY SERVERS

LIBRARY is kafka-python, confluent-kafka or aiokafka, as installed; confluent-kafka-848 is the same library in the newer
protocol (KIP-848). The programs beside this one, group_member.js, GroupMember.java and franz/, take the same arguments
and speak alike. The variable GROUP_SESSION_MS is the session timeout of the older protocol. For kafkajs and franz-go
GROUP_LOGIN may have the file of an authority, a user and a password: then they log in by SCRAM-SHA-512 over TLS.

With a group it subscribes to the topic (a name that begins with ``^`` is a pattern), commits by itself every 100 ms,
and prints a line for each record, and one with all that it owns for each change of that::

    assigned t-0 t-1
    t-0 17

Its range assignor is the one that all libraries but kafkajs have. Without a group it answers the lines that it reads::

    commit GROUP TOPIC PARTITION OFFSET METADATA    done
    committed GROUP TOPIC PARTITION                 OFFSET METADATA, or none
    write - TOPIC PARTITION VALUE                   OFFSET (kafkajs and franz-go)
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import Any, NamedTuple

SESSION_MS = int(os.environ.get("GROUP_SESSION_MS", "2000"))
"""In the newer protocol the brokers' settings count."""
HEARTBEAT_MS = 200
PATIENCE_S = 30.0


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Owned(set[str]):
    """What the member owns; each change is a line."""

    def gain(self, partitions: Any) -> None:
        self.update(f"{each.topic}-{each.partition}" for each in partitions)
        say("assigned", *sorted(self))

    def lose(self, partitions: Any) -> None:
        self.difference_update(f"{each.topic}-{each.partition}" for each in partitions)
        say("assigned", *sorted(self))


class Place(NamedTuple):
    """Where a group's offset is kept."""

    group: str
    topic: str
    partition: int


# --- kafka-python -----------------------------------------------------------------------------------------------------


def kafka_python_member(servers: str, group: str, topic: str) -> None:
    from kafka import KafkaConsumer
    from kafka.consumer.subscription_state import ConsumerRebalanceListener
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    owned = Owned()

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            owned.lose(revoked)

        def on_partitions_assigned(self, partitions: Any) -> None:
            owned.gain(partitions)

    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=1000,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    if topic.startswith("^"):
        consumer.subscribe(pattern=topic, listener=Listener())
    else:
        consumer.subscribe([topic], listener=Listener())
    for record in consumer:
        say(f"{record.topic}-{record.partition}", record.offset)


def kafka_python_offset(servers: str, place: Place, offset: int | None, metadata: str) -> Any:
    from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

    partition = TopicPartition(place.topic, place.partition)
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=place.group, enable_auto_commit=False)
    try:
        if offset is not None:
            consumer.assign([partition])
            consumer.commit({partition: OffsetAndMetadata(offset, metadata, -1)})
            return None
        return consumer.committed(partition, metadata=True)
    finally:
        consumer.close()


# --- confluent-kafka --------------------------------------------------------------------------------------------------


def confluent_member(servers: str, group: str, topic: str, protocol: str = "classic") -> None:
    from confluent_kafka import Consumer

    owned = Owned()
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 100,
        "topic.metadata.refresh.interval.ms": 1000,
    }
    if protocol == "classic":
        settings |= {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "range",
        }
    consumer = Consumer(settings)
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: owned.gain(partitions),
        on_revoke=lambda _, partitions: owned.lose(partitions),
        on_lost=lambda _, partitions: owned.lose(partitions),
    )
    while True:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            say(f"{message.topic()}-{message.partition()}", message.offset())


def confluent_member_848(servers: str, group: str, topic: str) -> None:
    confluent_member(servers, group, topic, "consumer")


def confluent_offset(servers: str, place: Place, offset: int | None, metadata: str) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": place.group, "enable.auto.commit": False})
    try:
        if offset is not None:
            partition = TopicPartition(place.topic, place.partition, offset, metadata)
            consumer.commit(offsets=[partition], asynchronous=False)
            return None
        (found,) = consumer.committed([TopicPartition(place.topic, place.partition)], PATIENCE_S)
        return None if found.offset < 0 else (found.offset, found.metadata or "")
    finally:
        consumer.close()


# --- aiokafka ---------------------------------------------------------------------------------------------------------


def aio_member(servers: str, group: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.abc import ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    owned = Owned()

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            owned.lose(revoked)

        def on_partitions_assigned(self, partitions: Any) -> None:
            owned.gain(partitions)

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=1000,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        if topic.startswith("^"):
            consumer.subscribe(pattern=re.compile(topic).pattern, listener=Listener())
        else:
            consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        async for record in consumer:
            say(f"{record.topic}-{record.partition}", record.offset)

    asyncio.run(run())


def aio_offset(servers: str, place: Place, offset: int | None, metadata: str) -> Any:
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.structs import OffsetAndMetadata

    partition = TopicPartition(place.topic, place.partition)

    async def commit() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=place.group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([partition])
            await consumer.commit({partition: (offset, metadata)})
        finally:
            await consumer.stop()

    async def fetch() -> OffsetAndMetadata:
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            return (await admin.list_consumer_group_offsets(place.group, partitions=[partition]))[partition]
        finally:
            await admin.close()

    if offset is not None:
        return asyncio.run(commit())
    found = asyncio.run(fetch())
    return None if found.offset < 0 else found


MEMBERS = {
    "kafka-python": kafka_python_member,
    "confluent-kafka": confluent_member,
    "confluent-kafka-848": confluent_member_848,
    "aiokafka": aio_member,
}
OFFSETS = {"kafka-python": kafka_python_offset, "confluent-kafka": confluent_offset, "aiokafka": aio_offset}


def answer(library: str, servers: str) -> None:
    for line in sys.stdin:
        what, group, topic, partition, *rest = line.split()
        place = Place(group, topic, int(partition))
        if what == "commit":
            OFFSETS[library](servers, place, int(rest[0]), rest[1])
            say("done")
        else:
            found = OFFSETS[library](servers, place, None, "")
            say(*("none",) if found is None else found[:2])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        answer(*sys.argv[1:])
    else:
        MEMBERS[sys.argv[1]](*sys.argv[2:])
