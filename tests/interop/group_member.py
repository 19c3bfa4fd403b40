"""A member of a group in a process of its own, so that it can be killed.

It is started with LIBRARY SERVERS GROUP TOPIC. LIBRARY is kafka-python, confluent-kafka or aiokafka, as installed. It
subscribes to the topic (a name that begins with ``^`` is a pattern), commits by itself every 100 ms, and prints a line
for each assignment and each record::

    assigned t-0 t-1
    t-0 17

Its range assignor is the one that all three libraries have.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

SESSION_MS = 2000
HEARTBEAT_MS = 200


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def assigned(partitions: Any) -> None:
    say("assigned", *sorted(f"{each.topic}-{each.partition}" for each in partitions))


def kafka_python(servers: str, group: str, topic: str) -> None:
    from kafka import KafkaConsumer
    from kafka.consumer.subscription_state import ConsumerRebalanceListener
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, partitions: Any) -> None:
            assigned(partitions)

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


def confluent(servers: str, group: str, topic: str) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": 1000,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned(partitions))
    while True:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            say(f"{message.topic()}-{message.partition()}", message.offset())


def aio(servers: str, group: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.abc import ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, partitions: Any) -> None:
            assigned(partitions)

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


LIBRARIES = {"kafka-python": kafka_python, "confluent-kafka": confluent, "aiokafka": aio}

if __name__ == "__main__":
    LIBRARIES[sys.argv[1]](*sys.argv[2:])
