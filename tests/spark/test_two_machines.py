"""Spark on a standalone cluster of a master and two workers: source, sink and the dataset jobs, and what is killed.

The executors find what the session sends there, and no pykraft of their own (`standalone`). Everything here is long:
each session starts three JVMs. Every day's check on a cluster is `test_worker_without_pykraft`.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import pykraft.spark
from tests.harness.tree import ROOT
from tests.spark import corpus, on_cluster
from tests.spark.cluster_process import ClusterProcess
from tests.spark.conftest import TOPIC
from tests.spark.copying import PROPERTIES, Copier, Rig
from tests.spark.reading.test_streaming import Sink, produce, run
from tests.spark.standalone import Standalone, bare_python

pytestmark = [pytest.mark.long, pytest.mark.limit(600)]

PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return bare_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone"), workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark(cluster: Standalone, python: str, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The session on the cluster; one that runs elsewhere is ended for it. The last tests end this one."""
    pykraft.spark.stop()
    return on_cluster.session(cluster.master, python, tmp_path_factory.mktemp("sent"))


@pytest.fixture(scope="module", autouse=True)
def _stopped_in_the_end() -> Iterator[None]:
    yield
    pykraft.spark.stop()


def test_a_batch_query_reads_what_was_written_on_both_workers(spark: SparkSession, kafka: ClusterProcess) -> None:
    reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    frame = reader.option("subscribe", TOPIC).option("includeHeaders", "true").load()
    assert corpus.rows_of(frame) == corpus.read(kafka.bootstrap_servers, TOPIC)

    def machine(_: object) -> list[str]:
        import os
        import pathlib
        import time

        time.sleep(0.5)  # so that the other worker takes the other task
        return [part for part in pathlib.Path(os.environ["SPARK_EXECUTOR_DIRS"]).parts if part.startswith("spark-")]

    assert len({tuple(found) for found in spark.sparkContext.parallelize(range(2), 2).map(machine).collect()}) == 2


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    corpus.create(kafka.bootstrap_servers, "grows", partitions=2)
    produce(kafka, "grows", 30)
    first = Sink()
    run(spark, kafka, tmp_path, first, subscribe="grows", maxOffsetsPerTrigger="20")
    assert first.batches == {0: [(0, n) for n in range(20)], 1: [(0, n) for n in range(20, 30)]}
    produce(kafka, "grows", 5)
    produce(kafka, "grows", 5, partition=1)
    second = Sink()
    run(spark, kafka, tmp_path, second, subscribe="grows")
    assert second.batches == {2: [(0, n) for n in range(30, 35)] + [(1, n) for n in range(5)]}


def test_an_executor_that_is_killed_with_a_task_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    """It dies when it has read its range and staged the rows, and before Spark knows. A new one gets the task."""
    with ClusterProcess(1, **PROPERTIES) as kafka:
        servers = kafka.bootstrap_servers
        rig = Rig(servers, kafka, Copier(spark, servers, tmp_path), tmp_path, seed=0, patience_s=PATIENCE_S)
        rig.strike("executor", "stage")
        rig.strike("executor", "stage")
        rig.finish()
        assert rig.starts == 1, "the query has failed, where Spark should have given the tasks to another executor"


def test_a_driver_goes_on_from_its_checkpoint_on_the_cluster(
    cluster: Standalone, python: str, tmp_path: pathlib.Path
) -> None:
    """It is killed with its JVM when executors have staged a batch, and when it is about to commit one."""
    pykraft.spark.stop()
    with ClusterProcess(1, **PROPERTIES) as kafka:
        servers = kafka.bootstrap_servers
        drivers = on_cluster.ClusterDrivers(servers, tmp_path, cluster.master, python)
        rig = Rig(servers, kafka, drivers, tmp_path, seed=0, patience_s=PATIENCE_S)
        try:
            rig.strike("driver", "stage")
            rig.strike("driver", "done")
            rig.finish()
        finally:
            drivers.kill()


def test_the_derived_sets_are_computed_on_the_cluster(cluster: Standalone, python: str) -> None:
    told = run_job("derive.py", cluster, python, "--check")
    assert told.count("as computed\n") == 2, told


def test_the_pipeline_runs_on_the_cluster(cluster: Standalone, python: str, tmp_path: pathlib.Path) -> None:
    told = run_job("pipeline.py", cluster, python, "--flights", "3000", "--folder", str(tmp_path)).splitlines()
    rows = [(line.split()[0], int(line.split()[3].replace(",", ""))) for line in told if "rows" in line]
    read = {name: sum(count for which, count in rows if which == name) for name in ("table", "alerts")}
    assert read == {"table": 3000, "alerts": 3000}, told


def run_job(job: str, cluster: Standalone, python: str, *arguments: str) -> str:
    """What a dataset job prints that runs on the cluster; the session of this process is ended, because it has all
    cores."""
    pykraft.spark.stop()
    settings = [word for name, value in on_cluster.CONF.items() for word in ("--conf", f"{name}={value}")]
    where = ("--master", cluster.master, "--python", python, *settings)
    command = [sys.executable, f"datasets/{job}", *where, *arguments]
    found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout
