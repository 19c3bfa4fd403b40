"""Three nodes with Kafka's threads under a flood of librdkafka's: none misses a heartbeat, and memory stays bounded."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pykraft import Cluster, TopicPartition
from pykraft.runtime.process import NodeProcess

confluent_kafka = pytest.importorskip("confluent_kafka")
pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

SECONDS = 20
FLOODING, READING = 4, 3
MOST_BYTES = 160 << 20
"""Of a node at its peak. One that let requests pile up would have the flood in its memory: hundreds of megabytes."""


def test_a_flood_keeps_no_node_from_its_heartbeats_and_fills_no_memory() -> None:
    with Cluster(3, network="staged", mode="processes", properties={"queued.max.requests": 20}) as cluster:
        cluster.create_topic("flood", partitions=6)
        before = cluster.describe()
        told = {node: len(words(cluster, node)) for node in cluster.node_ids}
        end = time.monotonic() + SECONDS
        with ThreadPoolExecutor(FLOODING + READING) as pool:
            floods = [pool.submit(flood, cluster.bootstrap_servers, end) for _ in range(FLOODING)]
            readers = [pool.submit(read, cluster.bootstrap_servers, end) for _ in range(READING)]
            sent = sum(each.result() for each in floods)
            assert all(each.result() > 0 for each in readers)
        after = cluster.describe()
        assert sent > 2_000
        assert after.active_controller == before.active_controller
        for node in cluster.node_ids:
            said = "\n".join(words(cluster, node)[told[node] :])
            assert not {"lifecycle", "broker_change", "role"} & set(said.split()), said[-3000:]
            assert peak_bytes(cluster, node) < MOST_BYTES
        assert sent == kept(cluster)


def flood(servers: str, end: float) -> int:
    """Small batches, as many at a time as the library lets through; how many records were acknowledged."""
    acknowledged = 0

    def count(error: Any, _: Any) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1

    settings = {"bootstrap.servers": servers, "acks": "all", "linger.ms": 0, "batch.num.messages": 2}
    producer = confluent_kafka.Producer(settings | {"queue.buffering.max.messages": 2000, "log_level": 0})
    while time.monotonic() < end:
        try:
            producer.produce("flood", b"x" * 500, callback=count)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(120) == 0
    return acknowledged


def read(servers: str, end: float) -> int:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 1}
    )
    consumer.subscribe(["flood"])
    found = 0
    while time.monotonic() < end:
        found += len(consumer.consume(1000, 0.5))
    consumer.close()
    return found


def words(cluster: Cluster, node: int) -> list[str]:
    """What a node has told so far."""
    return Path(cluster.directory / f"node-{node}.out").read_text().splitlines()


def peak_bytes(cluster: Cluster, node: int) -> int:
    process = cluster._nodes[node]
    assert isinstance(process, NodeProcess)
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def kept(cluster: Cluster) -> int:
    """How many records are in the logs."""
    with cluster.admin() as admin:
        found = admin.list_offsets({TopicPartition("flood", number): -1 for number in range(6)})
    return sum(end.offset for end in found.values())
