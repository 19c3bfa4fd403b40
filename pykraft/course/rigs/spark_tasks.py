"""What Spark's tasks did: when each one ran, for how long, and how many records the source handed to it.

`tasks_of` runs a query and asks the driver's own record of it, which is there whether Spark's web page is on or not
(org.apache.spark.status.AppStatusStore). The tasks that read the topic are those of the first stage; what follows
sums up their results. `pieces_of` asks the topic which offsets each of these tasks reads.

``records`` is what the source handed to Spark. Spark's own filter runs after that, so it may leave fewer rows.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyspark.sql.functions as sf
from pyspark.sql import DataFrame, SparkSession

from pykraft.spark.reading.progress import Progress, progress
from pykraft.viz import Figure, read_by_tasks

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_PATIENCE_S = 10.0


class Piece(NamedTuple):
    """What one task reads: offsets of one partition, both ends included."""

    task: int
    partition: int
    first: int
    last: int


class Task(NamedTuple):
    """One task that read the topic: its number, the second in which it began, how long it ran, what it was given."""

    number: int
    start_s: float
    seconds: float
    records: int


@dataclass(frozen=True)
class Tasks:
    """What the tasks of one query did."""

    result: Any
    seconds: float
    tasks: tuple[Task, ...]
    looks: Progress

    @property
    def records(self) -> int:
        """How many records the source handed to Spark."""
        return sum(task.records for task in self.tasks)

    @property
    def longest(self) -> Task:
        return max(self.tasks, key=lambda task: task.seconds)

    @property
    def shortest(self) -> Task:
        return min(self.tasks, key=lambda task: task.seconds)

    @property
    def imbalance(self) -> float:
        """How many times as long as the shortest task the longest one took."""
        return self.longest.seconds / max(self.shortest.seconds, 0.001)


def tasks_of(spark: SparkSession, action: Callable[[], Any], description: str = "") -> Tasks:
    """Run a query, show its progress, and tell what the tasks of its first stage did."""
    started = time.monotonic()
    with progress(spark, description, quiet=not description) as seen:
        result = action()
    seconds = time.monotonic() - started
    first = min(seen.stage_ids)
    return Tasks(result, seconds, _tasks_of_stage(spark, first), seen)


def _tasks_of_stage(spark: SparkSession, stage: int) -> tuple[Task, ...]:
    """The last task's end reaches the driver's record a moment after the query's."""
    store = spark.sparkContext._jsc.sc().statusStore()
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        listed = store.taskList(stage, 0, 10_000)
        found = [listed.apply(index) for index in range(listed.size())]
        if all(task.taskMetrics().isDefined() and task.duration().isDefined() for task in found):
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"Spark has no times of all tasks of stage {stage} after {_PATIENCE_S:g} s")
        time.sleep(0.05)
    began_ms = min(task.launchTime().getTime() for task in found)
    tasks = [
        Task(
            task.index(),
            (task.launchTime().getTime() - began_ms) / 1000,
            task.duration().get() / 1000,
            task.taskMetrics().get().inputMetrics().recordsRead(),
        )
        for task in found
    ]
    return tuple(sorted(tasks))


def pieces_of(topic: DataFrame) -> list[Piece]:
    """Which offsets each task reads, if the whole topic is read: asked of the records themselves."""
    by_task = topic.groupBy(sf.spark_partition_id().alias("task"), "partition")
    rows = by_task.agg(sf.min("offset").alias("first"), sf.max("offset").alias("last")).collect()
    return sorted(Piece(row["task"], row["partition"], row["first"], row["last"]) for row in rows)


def log_ends(cluster: "Cluster", topic: str) -> dict[int, int]:
    """The log end offset of each partition, as its leader knows it."""
    view = cluster.describe()
    partitions = [one.partition for one in view.topic_partitions if one.topic == topic]
    return {p: max(replica.log_end_offset for replica in view.replicas(topic, p).values()) for p in partitions}


def drawn(
    topic: str, ends: Mapping[int, int], pieces: Sequence[Piece] = (), tasks: Tasks | None = None, *, title: str
) -> Figure:
    """The logs of a topic; with `pieces` and `tasks` also which task read what, and when."""
    read: dict[int, list[tuple[int, int, int | None]]] = {p: [] for p in ends}
    for piece in pieces:
        read[piece.partition].append((piece.first, piece.last + 1, piece.task))
    for p, end in ends.items():
        if not pieces and end:
            read[p].append((0, end, None))
    ran = [(task.number, task.start_s, task.seconds) for task in tasks.tasks] if tasks else []
    note = "A task has the same number and colour on both sides." if tasks else f"{sum(ends.values()):,} records."
    return read_by_tasks({f"{topic}-{p}": read[p] for p in ends}, ran, title=title, note=note)
