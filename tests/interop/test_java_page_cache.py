"""Apache Kafka's memory is the operating system's: what notebook 04 tells of it, asked of Apache Kafka itself.

The witnesses are the kernel's, those of the notebook: what a process had to fetch from a device, and which files it has
mapped. And Kafka writes down itself, for each partition, up to where its log is on the disk: the recovery point.

No code of pykraft takes part in the answers, so a long run asks; what pykraft does, the notebook asks itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from pykraft import Admin, NewTopic
from pykraft.course import kernel
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.interop.test_others import wait_until

pytestmark = pytest.mark.long

RECORDS, RECORD_BYTES = 1000, 8000
FLUSHES = {"as-usual": {}, "synced": {"flush.messages": "1"}}
"""Topics, with what they say about syncs; by default nothing."""
ATTEMPTS = 3
"""A machine may take cached pages for something else at any time, but hardly each time."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    often = {"log.flush.offset.checkpoint.interval.ms": "200", "log.initial.task.delay.ms": "200"}
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(ApacheKafka(nodes=1, properties=often, java_options=QUICK_START))
        with Admin(bootstrap_servers=node.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, 1, 1, topic_configs=settings) for name, settings in FLUSHES.items()])
        for name in FLUSHES:
            write(node.bootstrap_servers, name)
        yield node


def write(servers: str, topic: str) -> None:
    """Write the topic's records; each of them is acknowledged."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})
    refused: list[object] = []
    for _ in range(RECORDS):
        producer.produce(
            topic, os.urandom(RECORD_BYTES), on_delivery=lambda error, _: refused.append(error) if error else None
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    assert refused == []


def fetched_by(kafka: ApacheKafka, topic: str) -> float:
    """Let a consumer read the topic; what the broker had to fetch from a device meanwhile, as a part of the topic."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "none", "log_level": 0}
    consumer = confluent_kafka.Consumer(settings | {"enable.auto.commit": False, "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []

    def has_come() -> bool:
        found.extend(message.value() for message in consumer.consume(500, timeout=0.5) if not message.error())
        return len(found) >= RECORDS

    try:
        with kernel.counted(kafka.pid(1)) as moved:
            wait_until(has_come)
    finally:
        consumer.close()
    assert [len(value) for value in found] == [RECORD_BYTES] * RECORDS
    return moved["read_bytes"] / (RECORDS * RECORD_BYTES)


def recovery_points(kafka: ApacheKafka) -> dict[str, int]:
    lines = (kafka.folder(1) / "data" / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    return {topic: int(offset) for topic, _, offset in (line.split() for line in lines)}


def test_a_record_is_acknowledged_before_it_is_on_the_disk_unless_the_topic_says_so(kafka: ApacheKafka) -> None:
    wait_until(lambda: recovery_points(kafka).get("synced") == RECORDS)
    assert recovery_points(kafka)["as-usual"] < RECORDS


def test_the_indexes_are_mapped_into_its_memory(kafka: ApacheKafka) -> None:
    mapped = Path(f"/proc/{kafka.pid(1)}/maps").read_text()
    assert "/as-usual-0/00000000000000000000.index" in mapped
    assert "/as-usual-0/00000000000000000000.log" not in mapped


def test_what_was_evicted_comes_from_the_device_and_after_a_kill_nothing_does(kafka: ApacheKafka) -> None:
    (log,) = (kafka.folder(1) / "data" / "as-usual-0").glob("*.log")
    obstacle = kernel.why_no_cold_reads(log.parent)
    assert obstacle is None, f"this test needs a disk: {obstacle}"
    assert any(fetched_by(kafka, "as-usual") < 0.05 for _ in range(ATTEMPTS))
    kernel.evict(log)
    assert fetched_by(kafka, "as-usual") > 0.95

    def fetched_after_a_kill() -> float:
        kafka.kill(1)
        kafka.restart(1)
        return fetched_by(kafka, "as-usual")

    assert any(fetched_after_a_kill() < 0.05 for _ in range(ATTEMPTS))
