"""librdkafka and kafkajs survive each fault that `Cluster.fault` puts into the way of their requests, as they survive
the same errors of Apache Kafka: every record is written once, and read once, in order.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from pykraft import Cluster
from tests.harness.apache_kafka import Unavailable
from tests.interop.members import kafkajs

pytestmark = pytest.mark.limit(300)

COUNT = 5
LIMIT_S = 90
SCRIPT = pathlib.Path(__file__).with_name("faulted.js")
VALUES = [str(number) for number in range(COUNT)]

FAULTS: list[dict[str, Any]] = [
    *(
        {"api": "Produce", "error": error}
        for error in (
            "NOT_LEADER_OR_FOLLOWER",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "NOT_ENOUGH_REPLICAS",
            "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
            "REQUEST_TIMED_OUT",
        )
    ),
    *({"api": "Fetch", "error": error} for error in ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION")),
    *({"api": "Metadata", "error": error} for error in ("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION")),
    {"api": "InitProducerId", "error": "COORDINATOR_LOAD_IN_PROGRESS"},
    *(
        {"api": "FindCoordinator", "error": error}
        for error in ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
    ),
    {"api": "JoinGroup", "error": "COORDINATOR_LOAD_IN_PROGRESS"},
    {"api": "SyncGroup", "error": "REBALANCE_IN_PROGRESS"},
    {"api": "OffsetFetch", "error": "COORDINATOR_LOAD_IN_PROGRESS"},
    *({"api": api, "drop": what} for api in ("Produce", "Fetch") for what in ("request", "answer")),
    *({"api": api, "delay_ms": 500} for api in ("Produce", "Fetch", "Metadata", "JoinGroup")),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def librdkafka(servers: str, topic: str, after_the_first: Callable[[], object] = lambda: None) -> list[str]:
    """Write records and read them; `after_the_first` is called when one is written."""
    common = {"bootstrap.servers": servers, "socket.timeout.ms": 3000}
    failures: list[object] = []
    producer = confluent_kafka.Producer({**common, "enable.idempotence": True, "linger.ms": 0})
    for value in VALUES:
        producer.produce(topic, value.encode(), on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(LIMIT_S) == 0
        if value == VALUES[0]:
            after_the_first()
    assert failures == [None] * COUNT
    consumer = confluent_kafka.Consumer(
        {**common, "group.id": f"group-of-{topic}", "auto.offset.reset": "earliest", "session.timeout.ms": 10_000}
    )
    found: list[str] = []
    try:
        consumer.subscribe([topic])
        while len(found) < COUNT:
            message = consumer.poll(LIMIT_S)
            assert message is not None
            if message.error() is None:
                found.append(message.value().decode())
            else:
                assert message.error().retriable() or message.error().code() > 0, message.error()
    finally:
        consumer.close()
    return found


def node(servers: str, topic: str, after_the_first: Callable[[], object] = lambda: None) -> list[str]:
    """The same with kafkajs."""
    try:
        modules = kafkajs()
    except Unavailable as reason:
        pytest.skip(str(reason))
    environment = {**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    command = ["node", str(SCRIPT), servers, topic, str(COUNT)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            assert running.stdout is not None
            if running.stdout.readline() == "one record is written\n":
                after_the_first()
            out, complaints = running.communicate("go on\n", timeout=LIMIT_S)
        finally:
            running.kill()
    assert running.returncode == 0, complaints
    found: list[str] = json.loads(out)
    return found


def described(fault: Any) -> str:
    return " ".join(map(str, fault.values())) if isinstance(fault, dict) else fault.__name__


@pytest.mark.parametrize("client", [librdkafka, node], ids=described)
@pytest.mark.parametrize("fault", FAULTS, ids=described)
def test_every_record_is_written_and_read_once_in_spite_of_a_fault(
    cluster: Cluster, fault: dict[str, Any], client: Callable[[str, str], list[str]]
) -> None:
    topic = "-".join([described(fault), client.__name__]).replace(" ", "-")
    cluster.create_topic(topic, partitions=1)
    about = {"topic": topic} if fault["api"] == "Metadata" else {}  # an answer about no topic can have no error
    with cluster.fault(**fault, **about, count=2) as met:
        assert client(cluster.bootstrap_servers, topic) == VALUES
    assert met.caught, "the fault met no request"
