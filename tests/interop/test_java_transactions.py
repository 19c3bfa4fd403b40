"""Kafka's own transactional copier on three nodes: its client lets leaders add partitions (transaction.version 2)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import confluent_kafka
import pytest

from pykraft import Cluster
from pykraft.records.batch import batches
from tests.harness import apache_kafka
from tests.harness.apache_kafka import java_command
from tests.interop.test_others import make_topic
from tests.interop.test_transactions_of_others import PATIENCE_S, PROPERTIES, send, values

LIMIT_S = 100
COUNT = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with Cluster(nodes=3, properties=PROPERTIES) as cluster:
        yield cluster


def test_kafkas_copier_copies_each_record_once_though_it_aborts_at_random(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    source, target = make_topic(servers, "java-source"), make_topic(servers, "java-target")
    plain = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(COUNT):
        plain.produce(source, f"{number:03}", partition=0)
    send(plain, source)
    plain.flush(PATIENCE_S)
    arguments = {
        "broker-list": servers,
        "consumer-group": "copier",
        "input-topic": source,
        "input-partition": "0",
        "output-topic": target,
        "transactional-id": "java-copier",
        "transaction-size": "20",
        "max-messages": str(COUNT),
    }
    words = [word for name, value in arguments.items() for word in (f"--{name}", value)]
    done = subprocess.run(
        java_command(
            apache_kafka.VERSION,
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *words,
            "--enable-random-aborts",
            "--use-group-metadata",
        ),
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    last = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    assert int(last["consumed"]) >= COUNT, last
    assert values(servers, target, "read_committed") == [f"{number:03}" for number in range(COUNT)]
    log = cluster.partition_directory(1, target, 0) / f"{0:020}.log"
    epochs = [each.producer_epoch for each in batches(memoryview(log.read_bytes())) if each.is_control]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) >= COUNT // 20, "with transaction.version 2 the epoch rises with each transaction"
