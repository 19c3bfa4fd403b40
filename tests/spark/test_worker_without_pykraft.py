"""The same rows on a cluster of Spark whose workers have never heard of pykraft: the session brings the code along."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pykraft.spark
from pykraft.spark.java import QUICK_START
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess
from tests.spark.conftest import TOPIC
from tests.spark.reading.test_fetch import damaged, log
from tests.spark.reading.test_streaming import Sink, start
from tests.spark.scripted_broker import ScriptedBroker
from tests.spark.standalone import Standalone, bare_python

pytestmark = [pytest.mark.limit(300), pytest.mark.long]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return bare_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, python: str) -> Iterator[SparkSession]:
    """A session on a standalone cluster; the one that runs in this process is ended for it."""
    pykraft.spark.stop()
    conf = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": " ".join(QUICK_START)}
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield pykraft.spark.session(master=cluster.master, python=python, conf=conf)
        pykraft.spark.stop()


def test_the_workers_python_has_no_pykraft_of_its_own(python: str) -> None:
    command = [python, "-c", "import pyspark, numpy, pyarrow, pykraft"]
    elsewhere = pathlib.Path(python).parent
    found = subprocess.run(command, check=False, cwd=elsewhere, capture_output=True, text=True)
    assert "No module named 'pykraft'" in found.stderr


def test_the_executors_run_the_code_that_was_sent_to_them(spark: SparkSession) -> None:
    def where(_: int) -> tuple[str, str]:
        import os

        import pykraft

        return str(pykraft.__file__), os.environ.get("SPARK_EXECUTOR_DIRS", "")

    found = spark.sparkContext.parallelize(range(2), 2).map(where).collect()
    assert all("pykraft.zip" in pathlib.Path(path).parts and folders for path, folders in found), found


def test_every_row_is_what_an_unmodified_client_reads(spark: SparkSession, kafka: ClusterProcess) -> None:
    reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    frame = reader.option("subscribe", TOPIC).option("includeHeaders", "true").load()
    assert frame.rdd.getNumPartitions() == corpus.FILLED
    assert corpus.rows_of(frame) == corpus.read(kafka.bootstrap_servers, TOPIC)


def test_a_stream_is_planned_by_the_driver_and_read_by_the_executors(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    """The process that plans a stream is one more that has to find the code."""
    sink = Sink()
    start(spark, kafka, tmp_path, sink, subscribe=TOPIC).awaitTermination()
    expected = corpus.read(kafka.bootstrap_servers, TOPIC)
    assert sink.batches == {0: [(row.partition, row.offset) for row in expected]}


def test_executors_stage_what_the_driver_writes_in_a_transaction(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    """In files of a directory that both see: a task has more than 256 KiB."""
    said = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "from-executors"}
    corpus.create(kafka.bootstrap_servers, "from-executors")
    reader = spark.readStream.format("pykraft").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    rows = reader.options(subscribe=TOPIC, startingOffsets="earliest").load().select("key", "value", "partition")
    writer = rows.writeStream.format("pykraft").options(
        **said, exactlyOnce="true", stagingDirectory=str(tmp_path / "s")
    )
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    expected = corpus.read(kafka.bootstrap_servers, TOPIC)
    found = corpus.read(kafka.bootstrap_servers, "from-executors", isolation_level="read_committed")
    assert [(row.partition, row.key, row.value) for row in found] == [
        (row.partition, row.key, row.value) for row in expected
    ]


def test_what_an_executor_complains_of_arrives_as_one_sentence(spark: SparkSession) -> None:
    batches = log()
    batches[2] = damaged(batches[2])
    with ScriptedBroker(batches) as broker, pytest.raises(PySparkException) as failed:
        reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", broker.address)
        reader.option("subscribe", "t").load().count()
    assert "t-0: the batch at offset 4 fails its checksum" in str(failed.value)
    assert len(str(failed.value).splitlines()) == 2, str(failed.value)
