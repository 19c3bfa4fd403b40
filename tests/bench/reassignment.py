"""A partition of 1 GB moves from one broker to another, and to a third: reassignments without a throttle.

Three nodes in three processes, one partition with one replica, full of batches of 128 KB. The time runs from
AlterPartitionReassignments until ListPartitionReassignments names the partition no more: then the new replica is in
sync, and the old one may go. Nothing is written meanwhile. The pages of the log are in memory on both sides.
"""

from __future__ import annotations

import time

from pykraft import Admin, TopicPartition
from tests.bench.load_generator import NO_COMPILER, LoadGenerator, load_generator
from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, OURS, Side, fresh_topic, leaders, sides, why_without_apache
from tests.harness.waiting import wait_until

GIGABYTE = 1_000_000_000
RECORD_BYTES = 1024
BATCH_BYTES = 128 << 10
NAME = "a partition of 1 GB moves to another broker"
_PATIENCE_S = 600


def measure(size_bytes: int = GIGABYTE) -> list[Row]:
    with load_generator() as generator:
        if generator is None:
            return [Row(NAME, "MB/s", None, APACHE, None, note=NO_COMPILER)]
        runs: list[dict[str, list[float]]] = [{}, {}]
        with sides(nodes=3) as both:
            for side in both:
                _measure_side(generator, side, size_bytes, runs)
    note = why_without_apache()
    (our_speeds, their_speeds), (our_cpu, their_cpu) = ((run.get(OURS, ()), run.get(APACHE, ())) for run in runs)
    return [
        beside(NAME, "MB/s", our_speeds, APACHE, their_speeds, note=note),
        beside("the same, processor time of the three nodes", "CPU s/GB", our_cpu, APACHE, their_cpu, note=note),
    ]


def _measure_side(generator: LoadGenerator, side: Side, size_bytes: int, runs: list[dict[str, list[float]]]) -> None:
    with fresh_topic(side) as topic, Admin(bootstrap_servers=side.bootstrap_servers) as admin:
        size = _fill(generator, side, topic, size_bytes)
        brokers = sorted(broker.id for broker in admin.describe_cluster().brokers)
        for target in brokers[1:]:
            cpu, began = side.cpu_seconds(), time.monotonic()
            admin.alter_partition_reassignments({TopicPartition(topic, 0): [target]})
            wait_until(lambda: not admin.list_partition_reassignments(), "the partition has moved", _PATIENCE_S)
            seconds, cpu = time.monotonic() - began, side.cpu_seconds() - cpu
            for run, figure in zip(runs, (size / 1e6 / seconds, cpu / (size / 1e9)), strict=True):
                run.setdefault(side.name, []).append(figure)
            progress(f"{NAME}: {side.name}, {size / 1e9:.2f} GB to broker {target} in {seconds:.1f} s")


def _fill(generator: LoadGenerator, side: Side, topic: str, size_bytes: int) -> int:
    """Write until the partition has this many bytes; how many it has."""
    targets, size = leaders(side, topic), 0
    while size < size_bytes:
        answered = generator.produce(
            1.0, 4, topic, targets, acks=1, records=BATCH_BYTES // RECORD_BYTES, record_bytes=RECORD_BYTES
        )
        size += answered.bytes
    return size
