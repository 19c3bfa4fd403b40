"""Clients of a cluster whose listeners have TLS or logins: ours, librdkafka, one of Kafka's tools, and an administrator
that waits until its rules hold."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Any

import confluent_kafka
import pytest

from pykraft import Admin, Cluster, Consumer, Producer
from pykraft.client.administration.acls import AclBindingFilter
from pykraft.client.administration.admin import UnknownTopicError
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import parse_properties
from pykraft.runtime.secure_files import SecureFiles
from pykraft.runtime.threaded import NodeThread
from tests.harness.apache_kafka import VERSION, java_command
from tests.harness.rules import rule
from tests.harness.waiting import wait_until

LIMIT_S = 60


def allow(admin: Admin, *texts: str) -> None:
    """Create rules of access, and wait until the broker that is asked lists them."""
    rules = list(map(rule, texts))
    admin.create_acls(rules)
    wait_until(lambda: set(rules) <= set(admin.describe_acls(AclBindingFilter())), "the rules are known")


def node_threads(cluster: Cluster) -> list[NodeThread]:
    return [node for node in cluster._nodes.values() if isinstance(node, NodeThread)]


def check_that_records_come_back(cluster: Cluster, topic: str) -> None:
    """50 of 10,000 bytes and more, in two partitions, as the administrator."""
    values = [b"%d" % number * 10_000 for number in range(50)]
    with Producer(**cluster.client_settings()) as producer:
        sent = [producer.send(topic, value=value, partition=number % 2) for number, value in enumerate(values)]
        assert {future.result(10).partition for future in sent} == {0, 1}
    reading: dict[str, Any] = {**cluster.client_settings(), "group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer(topic, consumer_timeout_ms=10_000, **reading) as consumer:
        assert sorted(next(consumer).value or b"" for _ in values) == sorted(values)


def check_that_a_rule_lets_it_write(cluster: Cluster, name: str, topic: str) -> None:
    """The user may not write before there is a rule, and then may."""
    settings = cluster.client_settings(name)

    def send() -> int:
        with Producer(**settings) as producer:
            return producer.send(topic, value=b"x").result(10).offset

    with pytest.raises(KafkaError) as refused:
        send()
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with cluster.admin() as admin:
        admin.create_acls([rule(f"allow {name} WRITE TOPIC {topic}")])

    def is_allowed() -> bool:
        with suppress(KafkaError):
            return send() >= 0
        return False

    wait_until(is_allowed, "the brokers have the rule")


def of_librdkafka(files: SecureFiles, servers: str, name: str) -> dict[str, Any]:
    """Settings with which librdkafka is the user `name`."""
    _, file = files.write_client_files(name)
    return {"bootstrap.servers": servers, **parse_properties(file.read_text())}


def write_with_librdkafka(settings: dict[str, Any], topic: str, values: list[bytes], partitions: int = 1) -> None:
    """Write these values to the partitions in turn; each must be acknowledged by all replicas in sync."""
    producer = confluent_kafka.Producer(settings | {"acks": "all"})
    errors: list[Any] = []
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(LIMIT_S) == 0 and errors == [None] * len(values)


def read_with_librdkafka(settings: dict[str, Any], topic: str, group: str, count: int) -> list[bytes]:
    """The first values of a topic, read as a member of this group."""
    consumer = confluent_kafka.Consumer(settings | {"group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Any] = []

    def has_all() -> bool:
        found.extend(consumer.consume(count, 0.2))
        return len(found) >= count

    wait_until(has_all, "all came back", LIMIT_S)
    consumer.close()
    return [message.value() for message in found[:count]]


def end_offsets(settings: dict[str, Any], topic: str, partitions: int) -> list[int]:
    """As librdkafka asks for them."""
    consumer = confluent_kafka.Consumer(settings | {"group.id": "looks-only"})
    parts = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
    offsets = [consumer.get_watermark_offsets(part, timeout=LIMIT_S)[1] for part in parts]
    consumer.close()
    return offsets


def leaders(admin: Admin, topic: str) -> set[tuple[int, int, frozenset[int]]]:
    """(number, leader, in-sync replicas) of each partition. Empty while the broker that is asked does not know the
    topic."""
    try:
        parts = admin.describe_topics([topic])[topic].partitions
    except UnknownTopicError:
        return set()
    return {(each.partition, each.leader, frozenset(each.isr)) for each in parts}


def tool(cluster: Cluster, name: str, main: str, *arguments: str, words: str = "") -> str:
    """What one of Kafka's tools prints, whose client is the user `name`."""
    cluster.client_settings(name)  # makes the user
    assert cluster.secure_files is not None
    file, _ = cluster.secure_files.write_client_files(name)
    common = ("--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(file))
    done = subprocess.run(
        java_command(VERSION, main, *common, *arguments),
        check=False,
        input=words,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
