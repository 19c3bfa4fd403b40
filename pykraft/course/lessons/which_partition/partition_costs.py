"""What partitions cost: files, open files, memory, and bytes for the same records.

One node runs in a process of its own, so what it takes is not mixed with the kernel's. For each count of partitions it
gets a topic, and the node is looked at before and after: that is the price of empty partitions. Then librdkafka writes
the same records to each topic, compressed, in bursts of `BURST`. Each burst ends with a flush, as if `linger.ms` were
over, so a partition gets one batch for all its records of a burst. More partitions mean more and smaller batches. Each
has a header of 61 bytes, and what is compressed together gets smaller.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from confluent_kafka import Producer

from pykraft.cluster import Cluster
from pykraft.records.batch import batches

NODE = 1
BURST = 250
CODEC = "gzip"


class Cost(NamedTuple):
    """A topic of this many partitions: what it takes while it is empty, and how the records are stored."""

    partitions: int
    files: int
    open_files: int
    memory_kb: int
    batches: int
    log_kb: int


def costs_of_partitions(counts: Iterable[int], records: Sequence[tuple[bytes, bytes]]) -> list[Cost]:
    """A row for each count; `records` are keys and values."""
    others = psutil.Process().children()
    with Cluster(nodes=1, mode="processes") as cluster:
        (node,) = (child for child in psutil.Process().children() if child not in others)
        cluster.create_topic("first")  # what a node loads for its first topic is not the price of a partition
        return [_cost(cluster, node, f"of-{count}", count, records) for count in counts]


def _cost(
    cluster: Cluster, node: psutil.Process, topic: str, count: int, records: Sequence[tuple[bytes, bytes]]
) -> Cost:
    folder = cluster.node_directory(NODE)
    before = _taken(node, folder)
    cluster.create_topic(topic, count)
    files, open_files, memory = (after - was for after, was in zip(_taken(node, folder), before, strict=True))
    write_in_bursts(cluster, topic, records)
    logs = [path.read_bytes() for path in folder.glob(f"{topic}-*/*.log")]
    written = sum(1 for log in logs for _ in batches(memoryview(log)))
    return Cost(count, files, open_files, memory // 1000, written, sum(map(len, logs)) // 1000)


def _taken(node: psutil.Process, folder: Path) -> tuple[int, int, int]:
    """The node's files, the files that it has open, and the bytes of memory that it shares with no other process."""
    return sum(path.is_file() for path in folder.rglob("*")), node.num_fds(), node.memory_full_info().uss


def write_in_bursts(cluster: Cluster, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Write with librdkafka, and let each burst become one batch in each partition that it reaches."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "partitioner": "murmur2_random",
            "compression.type": CODEC,
            "linger.ms": 60_000,  # the flush ends the waiting
            "log_level": 0,
        }
    )
    for start in range(0, len(records), BURST):
        for key, value in records[start : start + BURST]:
            producer.produce(topic, value, key)
        producer.flush()
