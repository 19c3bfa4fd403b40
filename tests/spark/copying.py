"""A query that copies a topic exactly once, and what is killed while it does.

    rig = Rig(servers, cluster, Copier(...), directory, seed)
    rig.strike("worker", "mark")
    rig.finish()

A `Copier` runs the query in the session of this process. `Drivers` run it in a process of its own with its own JVM,
which dies as a whole. `strike` lets the query come to a step of the sink, kills something with SIGKILL, and starts
again what does not go on by itself. `finish` is the law: a reader of committed records sees each record once, and in
each partition in the order of the source.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from pykraft import Admin
from pykraft.spark.writing.exactly_once import MARKER, sink_name
from tests.harness.tree import ROOT
from tests.harness.waiting import wait_until
from tests.spark import corpus
from tests.spark.killed_sink import OPTION, STEPS, KilledDataSource, Points

SOURCE, TARGET = "numbers", "copied"
PARTITIONS = 2
PER_STRIKE = 60
PER_BATCH = 40
PATIENCE_S = 90.0
STARTS = 100
"""Of the query in one driver."""
PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
BROKERS = {"leader": TARGET, "transactions": "__transaction_state", "offsets": "__consumer_offsets"}
"""By victim: the leader of the first partition of this topic dies."""
VICTIMS = ("worker", "driver", *BROKERS)
"""On a cluster an executor, too."""
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def start_query(spark: SparkSession, servers: str, directory: pathlib.Path) -> StreamingQuery:
    """The query, from its checkpoint in this directory if there is one."""
    at = {"kafka.bootstrap.servers": servers}
    spark.dataSource.register(KilledDataSource)
    reader = spark.readStream.format("pykraft").options(**at, subscribe=SOURCE, startingOffsets="earliest")
    rows = reader.option("maxOffsetsPerTrigger", PER_BATCH).load().select("key", "value", "partition")
    writer = rows.writeStream.format("pykraft_killed").options(**at, topic=TARGET, exactlyOnce="true")
    writer = writer.option(OPTION, str(directory / "points")).option(
        "checkpointLocation", str(directory / "checkpoint")
    )
    return writer.start()


class Copier:
    """Runs the query in the session of this process. Its driver cannot be killed."""

    def __init__(self, spark: SparkSession, servers: str, directory: pathlib.Path) -> None:
        self._start = lambda: start_query(spark, servers, directory)
        self._query: StreamingQuery | None = None

    @property
    def is_running(self) -> bool:
        return self._query is not None and self._query.isActive

    def start(self) -> None:
        self._query = self._start()

    def kill(self) -> None:
        raise AssertionError("this driver is the test's own process")

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()


class Drivers:
    """Runs the query in a process of its own, which starts it again when it fails, until it is killed."""

    def __init__(self, servers: str, directory: pathlib.Path) -> None:
        self._command = [sys.executable, "-m", "tests.spark.copying", servers, str(directory)]
        self._log = directory / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and all workers of Python."""
        if self._process is None:
            return
        if self._process.poll() is None:
            family = [*psutil.Process(self._process.pid).children(recursive=True), psutil.Process(self._process.pid)]
            for process in family:
                process.kill()
            psutil.wait_procs(family, PATIENCE_S)
        self._process.wait(PATIENCE_S)

    close = kill


class Rig:
    """One cluster, one query, and what was killed."""

    def __init__(
        self,
        servers: str,
        cluster: Any,
        copier: Any,
        directory: pathlib.Path,
        seed: int,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`cluster` kills and restarts its nodes by number. Each step may take `patience_s`."""
        self._patience_s = patience_s
        self._servers = servers
        self._cluster = cluster
        self._copier = copier
        self._checkpoint = directory / "checkpoint"
        (directory / "points").mkdir()
        self._points = Points(str(directory / "points"))
        self._chance = Random(seed)
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._fed = 0
        self.starts = 0
        self.told: list[str] = []
        """What was killed where."""
        for topic in (SOURCE, TARGET):
            corpus.create(servers, topic, partitions=PARTITIONS)

    def draw(self, victims: tuple[str, ...], steps: tuple[str, ...] = STEPS) -> tuple[str, str]:
        """A victim and a step, by the seed."""
        return self._chance.choice(victims), self._chance.choice(steps)

    def strike(self, victim: str, step: str) -> None:
        """Kill the victim when the query comes to the step, and let the query go on."""
        self._points.arm(step)
        self._feed()
        self._wait(lambda: self._points.reached_by is not None, f"the query comes to {step}")
        pid, marker = self._points.reached_by, self._marker()
        assert pid is not None
        self.told.append(f"{victim} at {step}")
        if victim in BROKERS:
            self._kill_broker(BROKERS[victim], is_over=lambda: step in ("clean_up", "done") or self._marker() != marker)
            return
        if victim == "driver":
            self._copier.kill()
        else:
            (executor_of(pid) if victim == "executor" else psutil.Process(pid)).kill()
        self._points.go_on()

    def _kill_broker(self, topic: str, is_over: Callable[[], bool]) -> None:
        node = self._leader(topic)
        self._cluster.kill(node)
        self._points.go_on()
        self._wait(lambda: is_over() or not self._copier.is_running, f"the query goes on without node {node}", False)
        self._cluster.restart(node)
        topics = (SOURCE, *BROKERS.values())
        wait_until(lambda: all(map(self._is_in_sync, topics)), f"node {node} is in sync again", self._patience_s)

    def finish(self) -> None:
        """Let the query copy what is left, and check all of it."""
        self._points.arm("none")
        rows = self._wait_for_rows()
        self._copier.close()
        expected = corpus.read(self._servers, SOURCE, PARTITIONS)
        assert len(expected) == self._fed
        found = [(row.partition, row.key, row.value) for row in rows]
        assert found == [(row.partition, row.key, row.value) for row in expected], self.told

    def _wait_for_rows(self) -> list[corpus.Row]:
        rows: list[corpus.Row] = []

        def are_there() -> bool:
            rows[:] = corpus.read(self._servers, TARGET, PARTITIONS, isolation_level="read_committed")
            return len(rows) >= self._fed

        self._wait(are_there, "all is copied")
        return rows

    def _wait(self, condition: Callable[[], bool], what: str, restarts: bool = True) -> None:
        """Wait for this, and start the query where it does not run."""

        def holds() -> bool:
            if condition():
                return True
            if restarts and not self._copier.is_running:
                self._copier.start()
                self.starts += 1
                assert self.starts < 3 * (len(self.told) + 2), f"the query fails again and again: {self.told}"
            return False

        wait_until(holds, f"{what}: {self.told}", self._patience_s)

    def _feed(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True})
        for number in range(self._fed, self._fed + PER_STRIKE):
            value = b"%d " % number * 2000  # so that tasks stage files
            producer.produce(SOURCE, key=b"%d" % number, value=value, partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        self._fed += PER_STRIKE

    def _marker(self) -> object:
        path = self._checkpoint / "metadata"
        if not path.exists():
            return None
        group = sink_name(json.loads(path.read_text())["id"])
        with Admin(bootstrap_servers=self._servers) as admin:
            return admin.list_consumer_group_offsets(group, [MARKER])[MARKER]

    def _leader(self, topic: str) -> int:
        return int(self._partition(topic).leader)

    def _is_in_sync(self, topic: str) -> bool:
        found = self._partition(topic)
        return found.leader > 0 and len(found.isrs) == len(found.replicas)

    def _partition(self, topic: str) -> Any:
        return self._admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions[0]


def executor_of(pid: int) -> psutil.Process:
    """The executor of a cluster that this worker of Python belongs to."""
    return next(parent for parent in psutil.Process(pid).parents() if _EXECUTOR in parent.cmdline())


def main() -> None:
    import pykraft.spark

    servers, directory = sys.argv[1:]
    spark = pykraft.spark.session("copying")
    for _ in range(STARTS):
        with suppress(StreamingQueryException):  # a worker was killed, or a broker for too long
            start_query(spark, servers, pathlib.Path(directory)).awaitTermination()


if __name__ == "__main__":
    main()
