"""What a partition costs: one node with 10 to 10,000 of them, each with two segments, and 1,024 descriptors.

Measured are the making of the partitions, an orderly stop with something in every partition that is not on the disk
yet, the start after it and after a kill, until every partition is led, and the memory of the node's process after that.
What a partition costs is the slope: what it is more than at the smallest count, by partitions.

A node that was killed is let in again when the session of the process before is over, after about 5 s. So a start
after a kill has two rows: less 5 s, but never less than 0; and as it was measured, with the wait. Where the first is 0,
or nearly, all was served as soon as the node was let in, and only the second says something.

Apache Kafka is asked beside ours at the largest count, with one segment in each partition: it keeps each segment open,
and more than 20,000 descriptors are seldom to be had. It takes minutes.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.bench.rows import Row, progress
from tests.bench.sides import APACHE, why_without_apache
from tests.harness.many_partitions import SESSION_MS, ManyPartitions, one_apache_kafka, one_node

COUNTS = (10, 100, 1000, 10_000)
CLEAN_START_S, MEMORY_MB = 10.0, 500.0


class Figures(NamedTuple):
    """Of one count: seconds, and megabytes (PSS)."""

    partitions: int
    made_s: float
    stop_s: float
    clean_s: float
    clean_cpu_s: float
    killed_s: float
    """With the wait for the end of the session."""
    killed_cpu_s: float
    memory_mb: float
    idle_cpu_percent: float
    """Of one CPU."""

    @property
    def killed_less_session_s(self) -> float:
        return max(0.0, self.killed_s - SESSION_MS / 1000)


def measure() -> list[Row]:
    found = [our_figures(count) for count in COUNTS]
    smallest, largest = found[0], found[-1]
    rows = []
    for each in found:
        name = f"{each.partitions:,} partitions"
        is_largest = each is largest
        rows += [
            row(f"{name}, made", "s", each.made_s),
            row(f"{name}, orderly stop", "s", each.stop_s),
            row(f"{name}, start after an orderly stop", "s", each.clean_s, CLEAN_START_S if is_largest else None),
            row(f"{name}, CPU of that start", "s", each.clean_cpu_s),
            row(f"{name}, start after a kill", "s", each.killed_less_session_s),
            row(f"{name}, the same with the wait for the session's end", "s", each.killed_s),
            row(f"{name}, CPU of that start", "s", each.killed_cpu_s),
            row(
                f"{name}, memory after all were read and written",
                "MB",
                each.memory_mb,
                MEMORY_MB if is_largest else None,
            ),
        ]
    more = largest.partitions - smallest.partitions
    return [
        *rows,
        row("a partition more: orderly stop", "ms", 1000 * (largest.stop_s - smallest.stop_s) / more),
        row("a partition more: start", "ms", 1000 * (largest.clean_s - smallest.clean_s) / more),
        row(
            "a partition more: start after a kill",
            "ms",
            1000 * (largest.killed_less_session_s - smallest.killed_less_session_s) / more,
        ),
        row("a partition more: memory", "KB", 1000 * (largest.memory_mb - smallest.memory_mb) / more),
        *beside_apache_kafka(largest),
    ]


def beside_apache_kafka(ours: Figures) -> list[Row]:
    """The largest count again, with Apache Kafka's figures."""
    missing = why_without_apache()
    theirs = None
    if not missing:
        with one_apache_kafka() as many:
            theirs = figures(many, ours.partitions, segments=1)
    named = {
        "CPU of a start after an orderly stop": ("s", "clean_cpu_s"),
        "CPU of a start after a kill": ("s", "killed_cpu_s"),
        "memory after all were read and written": ("MB", "memory_mb"),
        "idle, of one CPU": ("%", "idle_cpu_percent"),
    }
    return [
        Row(
            f"{ours.partitions:,} partitions beside: {name}",
            unit,
            getattr(ours, field),
            APACHE,
            None if theirs is None else getattr(theirs, field),
            "once",
            note=missing,
        )
        for name, (unit, field) in named.items()
    ]


def row(name: str, unit: str, figure: float, at_most: float | None = None) -> Row:
    if at_most is None:
        return Row(name, unit, figure, "", None, "once")
    return Row(name, unit, figure, "", None, "once", f"< {at_most:g} {unit}", figure < at_most)


def our_figures(count: int) -> Figures:
    with one_node() as many:
        return figures(many, count, segments=2)


def figures(many: ManyPartitions, count: int, segments: int) -> Figures:
    made_s = many.create(count)
    for number in range(2):
        many.produce(new_segment=number == segments - 1 > 0)
    stop_s = many.stop()
    clean_s = many.restart()
    clean_cpu_s = many.cpu_s()
    many.fetch()
    many.produce(new_segment=False)
    many.kill()
    killed_s = many.restart()
    killed_cpu_s = many.cpu_s()
    idle = many.idle_cpu_percent()
    many.fetch()
    many.produce(new_segment=False)
    memory = many.megabytes()
    found = Figures(count, made_s, stop_s, clean_s, clean_cpu_s, killed_s, killed_cpu_s, memory, idle)
    progress(
        f"{count:,}: made in {made_s:.1f} s, stop {stop_s:.1f} s, start {clean_s:.1f} s ({clean_cpu_s:.1f} s of CPU), "
        f"after a kill {killed_s:.1f} s with the wait for the session's end ({killed_cpu_s:.1f} s of CPU), "
        f"{found.memory_mb:.0f} MB"
    )
    return found
