"""Three nodes in a notebook's kernel: how soon they are ready, and how much memory they take.

Each run starts a kernel as Jupyter does, and looks at its memory (proportional set size where the system tells it)
before and after three nodes were made in it, and once more after records went through them. The peer is three nodes of
Apache Kafka, each in its own JVM. On both sides the time begins with nothing and includes formatting the directories.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
from confluent_kafka import Producer
from jupyter_client.manager import start_new_kernel

from pykraft.course.machine import MEGABYTE
from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, Side, fresh_topic, why_without_apache
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka

ROUNDS = 5
RECORDS = 100_000
VALUE = bytes(100)
TIMEOUT_S = 60.0
READY_S, MEMORY_MB = 1.5, 150.0

START = """
import json, time
began = time.perf_counter()
from pykraft import Cluster
imported = time.perf_counter()
cluster = Cluster(nodes=3)
ready = time.perf_counter()
print(json.dumps([imported - began, ready - imported, cluster.bootstrap_servers]))
"""


def measure() -> list[Row]:
    imported, ready, idle, loaded = (list(runs) for runs in zip(*(in_a_kernel() for _ in range(ROUNDS)), strict=True))
    kafka_ready, kafka_idle, kafka_loaded = apache()
    note = why_without_apache()
    memory = "three nodes in the kernel, memory above the bare kernel"
    return [
        beside("three nodes in the kernel, ready", "s", ready, APACHE, kafka_ready, note=note, at_most=READY_S),
        beside("the import of pykraft before that", "s", imported, "", ()),
        beside(memory, "MB", idle, APACHE, kafka_idle, note=note, at_most=MEMORY_MB),
        beside(
            f"{memory}, after {RECORDS:,} records", "MB", loaded, APACHE, kafka_loaded, note=note, at_most=MEMORY_MB
        ),
    ]


def in_a_kernel() -> tuple[float, float, float, float]:
    """Seconds of the import, seconds until three nodes are ready, megabytes above the bare kernel then and later."""
    with kernel() as (client, process):
        bare = megabytes(process)
        imported, ready, servers = json.loads(run(client, START))
        idle = megabytes(process) - bare
        stream(Side("", servers))
        loaded = megabytes(process) - bare
        run(client, "cluster.close()")
    progress(f"a kernel: ready in {ready:.2f} s, {idle:.0f} MB more, {loaded:.0f} MB more after the records")
    return imported, ready, idle, loaded


@contextmanager
def kernel() -> Iterator[tuple[Any, psutil.Process]]:
    """A kernel, and its process."""
    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=["--IPKernelApp.log_level=ERROR"])
    try:
        run(client, "1")
        yield client, psutil.Process(manager.provisioner.pid)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: Any, code: str) -> str:
    """What a cell printed; RuntimeError if it failed."""
    printed: list[str] = []

    def on_output(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
            printed.append(message["content"]["text"])

    answer = client.execute_interactive(code, timeout=TIMEOUT_S, output_hook=on_output)
    if answer["content"]["status"] != "ok":
        raise RuntimeError(f"the cell failed: {answer['content'].get('evalue')}")
    return "".join(printed)


def stream(side: Side) -> None:
    """Send records through the three nodes: three partitions, replication factor 3, acks=all."""
    with fresh_topic(side, 3, replicas=3) as topic:
        producer = Producer({"bootstrap.servers": side.bootstrap_servers, "linger.ms": 5})
        messages = [{"value": VALUE}] * 1000
        left = RECORDS
        while left:
            left -= producer.produce_batch(topic, messages[:left])
            producer.poll(0.001)
        assert producer.flush(TIMEOUT_S) == 0


def megabytes(process: psutil.Process) -> float:
    memory = process.memory_full_info()
    return float(getattr(memory, "pss", memory.rss)) / MEGABYTE


def apache() -> tuple[list[float], list[float], list[float]]:
    """The same of Apache Kafka, once: seconds, megabytes idle, megabytes after the records. Empty without it."""
    if apache_kafka.available():
        return [], [], []
    began = time.perf_counter()
    with ApacheKafka(nodes=3) as kafka:
        ready = time.perf_counter() - began
        processes = [psutil.Process(kafka.pid(node)) for node in kafka.nodes]
        idle = sum(map(megabytes, processes))
        stream(Side(APACHE, kafka.bootstrap_servers))
        loaded = sum(map(megabytes, processes))
    return [ready], [idle], [loaded]
