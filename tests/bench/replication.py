"""Three nodes in three processes, replication factor 3, acks=all: what arrives in all three logs.

The same settings on both sides (min.insync.replicas 2, Kafka's timeouts), the same load from C: one connection to each
leader, four batches of 1 KB records under way on each. With one partition one node leads and two follow; with three
each leads one and follows two. Nothing of it is synced to the disk, as Kafka has it: what is acknowledged is in the
memory of three processes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.load_generator import NO_COMPILER, LoadGenerator, load_generator
from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, OURS, Side, fresh_topic, leaders, sides, warm_up, why_without_apache

SECONDS = 1.5
ROUNDS = 4
WARM_UP_S = 15.0
DEPTH = 4
RECORD_BYTES = 1024


@dataclass(frozen=True)
class Case:
    partitions: int
    batch_bytes: int
    ratio_at_least: float | None = None

    @property
    def name(self) -> str:
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"replication factor 3, acks=all, batches of {self.batch_bytes >> 10} KB, {partitions}"


CASES = (Case(1, 128 << 10, 2.0), Case(3, 128 << 10, 2.0), Case(3, 16 << 10))


def measure() -> list[Row]:
    with load_generator() as generator:
        if generator is None:
            return [Row(case.name, "MB/s", None, APACHE, None, note=NO_COMPILER) for case in CASES]
        with sides(nodes=3) as both:
            for side in both:
                warm_up(side, lambda side: produce(generator, side, CASES[1]), WARM_UP_S)
            return [row for case in CASES for row in _measured(generator, both, case)]


def _measured(generator: LoadGenerator, both: list[Side], case: Case) -> list[Row]:
    runs: list[dict[str, list[float]]] = [{side.name: [] for side in both} for _ in range(3)]
    for number in range(1, ROUNDS + 1):
        for side in both:
            for figures, figure in zip(runs, produce(generator, side, case), strict=True):
                figures[side.name].append(figure)
        said = ", ".join(f"{name} {figures[-1]:.0f} MB/s" for name, figures in runs[0].items())
        progress(f"{case.name}, round {number} of {ROUNDS}: {said}")
    note = why_without_apache()
    speeds, waits, cpu = ((figures[OURS], APACHE, figures.get(APACHE, ())) for figures in runs)
    return [
        beside(case.name, "MB/s", *speeds, note=note, ratio_at_least=case.ratio_at_least),
        beside("the same, median time of a batch", "ms", *waits, note=note),
        beside("the same, processor time of the three nodes", "CPU s/GB", *cpu, note=note),
    ]


def produce(generator: LoadGenerator, side: Side, case: Case) -> tuple[float, float, float]:
    """MB/s of records acknowledged, the median milliseconds from a batch to its acknowledgement, and the processor
    seconds that the nodes needed for a GB."""
    with fresh_topic(side, case.partitions, replicas=3, min_insync_replicas="2") as topic:
        targets = leaders(side, topic)
        before = side.cpu_seconds()
        answered = generator.produce(
            SECONDS,
            DEPTH,
            topic,
            targets,
            acks=-1,
            records=case.batch_bytes // RECORD_BYTES,
            record_bytes=RECORD_BYTES,
        )
        cpu = side.cpu_seconds() - before
    if answered.errors:  # a busy machine, on which followers fall out of the ISR
        progress(f"{side.name}: {answered.errors} of {answered.requests} batches refused, error {answered.first_error}")
    return answered.megabytes_per_second, answered.p50_us / 1000, cpu / (answered.bytes / 1e9)
