"""``spark.readStream.format("pykraft")`` in local mode: rows, restarts from a checkpoint, growth, and lost records."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.harness.waiting import wait_until
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess
from tests.spark.conftest import TOPIC

pytestmark = pytest.mark.limit(180)

PLACES = "partition int, offset long"
Place = tuple[int, int]


class Sink:
    """What the batches of a query brought: `batches` has the sorted places (partition, offset) of each."""

    def __init__(self, fails_at: int = -1) -> None:
        self.batches: dict[int, list[Place]] = {}
        self.fails_at = fails_at

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = sorted(map(tuple, frame.select("partition", "offset").collect()))
        if batch == self.fails_at:
            raise RuntimeError("this sink has failed")

    @property
    def places(self) -> list[Place]:
        return [place for _, places in sorted(self.batches.items()) for place in places]


def start(
    spark: SparkSession,
    kafka: Any,
    checkpoint: pathlib.Path,
    sink: Callable[[DataFrame, int], None] | None,
    **said: Any,
) -> StreamingQuery:
    """Start a query. Without `sink` its rows go nowhere. With `trigger` it runs until it is stopped; without, until it
    has read what was there at its start."""
    trigger = said.pop("trigger", {"availableNow": True})
    said = {"startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "10", **said}
    reader = spark.readStream.format("pykraft").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    if "includeHeaders" not in said:
        reader = reader.schema(PLACES)
    writer = reader.options(**said).load().writeStream
    writer = writer.foreachBatch(sink) if sink else writer.format("noop")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


def run(
    spark: SparkSession, kafka: Any, checkpoint: pathlib.Path, sink: Sink | None = None, **said: str
) -> dict[int, list[Place]]:
    """What the batches of a query brought, until it had read what was there at its start."""
    sink = sink or Sink()
    start(spark, kafka, checkpoint, sink, **said).awaitTermination()
    return sink.batches


def refused(spark: SparkSession, kafka: Any, checkpoint: pathlib.Path, **said: str) -> str:
    """The words with which a query fails."""
    with pytest.raises(PySparkException) as failed:
        start(spark, kafka, checkpoint, None, **said).awaitTermination()
    words = str(failed.value)
    assert "Traceback" not in words
    return words


def produce(kafka: Any, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, value=b"%d" % number, partition=partition)
    assert producer.flush(corpus.TIMEOUT_S) == 0


def places(partition: int, first: int, end: int) -> list[Place]:
    return [(partition, offset) for offset in range(first, end)]


@pytest.fixture
def admin(kafka: ClusterProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def delete_records(admin: AdminClient, topic: str, before: int) -> None:
    asked = TopicPartition(topic, 0, before)
    admin.delete_records([asked])[asked].result(corpus.TIMEOUT_S)


def create_again(admin: AdminClient, kafka: ClusterProcess, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(corpus.TIMEOUT_S)
    corpus.create(kafka.bootstrap_servers, topic, partitions=1)


# --- rows -------------------------------------------------------------------------------------------------------------


def test_of_transactions_batches_and_streams_show_what_is_committed_and_stop_at_an_open_one(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    """Offsets 0 to 3 are committed, 5 to 8 aborted, and 10 to 13 still open; 4, 9 and 14 are markers."""
    topic = "transactions"
    corpus.create(kafka.bootstrap_servers, topic, partitions=1)
    patient = {"transaction.timeout.ms": 600_000, "linger.ms": 5}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, **patient})
    producer.init_transactions(corpus.TIMEOUT_S)
    for ends in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        for number in range(4):
            producer.produce(topic, value=b"%d" % number, partition=0)
        assert producer.flush(corpus.TIMEOUT_S) == 0
        if ends is not None:
            ends(corpus.TIMEOUT_S)

    def batch(isolation_level: str) -> list[Place]:
        reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        frame = reader.schema(PLACES).options(subscribe=topic, isolationLevel=isolation_level).load()
        return sorted(map(tuple, frame.collect()))

    committed = {"subscribe": topic, "isolationLevel": "read_committed"}
    assert batch("read_committed") == places(0, 0, 4)
    assert batch("read_uncommitted") == places(0, 0, 4) + places(0, 5, 9) + places(0, 10, 14)
    assert run(spark, kafka, tmp_path, **committed) == {0: places(0, 0, 4)}
    producer.commit_transaction(corpus.TIMEOUT_S)
    assert batch("read_committed") == places(0, 0, 4) + places(0, 10, 14)
    assert run(spark, kafka, tmp_path, **committed) == {1: places(0, 10, 14)}


def test_a_stream_has_every_row_that_an_unmodified_client_reads(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    found: list[corpus.Row] = []

    def keep(frame: DataFrame, batch: int) -> None:
        found.extend(corpus.rows_of(frame))

    said = {"subscribe": TOPIC, "includeHeaders": "true", "minPartitions": "6"}
    start(spark, kafka, tmp_path, keep, **said).awaitTermination()
    assert found == corpus.read(kafka.bootstrap_servers, TOPIC)


def test_a_query_that_is_restarted_reads_every_row_once(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    """The second batch fails, and more is produced: it has the same rows when it is read again."""
    corpus.create(kafka.bootstrap_servers, "restarted", partitions=2)
    for partition in (0, 1):
        produce(kafka, "restarted", 10, partition)
    failing = Sink(fails_at=1)
    said = {"subscribe": "restarted", "maxOffsetsPerTrigger": "8"}
    with pytest.raises(PySparkException, match="this sink has failed"):
        run(spark, kafka, tmp_path, failing, **said)
    produce(kafka, "restarted", 6, 0)
    after = run(spark, kafka, tmp_path, **said)
    assert failing.batches.pop(1) == after[1]
    assert sorted(failing.places + [each for some in after.values() for each in some]) == [
        *places(0, 0, 16),
        *places(1, 0, 10),
    ]


def test_a_limit_is_shared_by_the_partitions_and_the_progress_shows_the_lag(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    corpus.create(kafka.bootstrap_servers, "limited", partitions=2)
    produce(kafka, "limited", 30, 0)
    produce(kafka, "limited", 10, 1)
    sink = Sink()
    query = start(spark, kafka, tmp_path, sink, subscribe="limited", maxOffsetsPerTrigger="20")
    query.awaitTermination()
    assert sink.batches == {0: [*places(0, 0, 15), *places(1, 0, 5)], 1: [*places(0, 15, 30), *places(1, 5, 10)]}
    (source,) = query.recentProgress[0].sources
    assert json.loads(source.latestOffset) == {"limited": {"0": 30, "1": 10}}
    assert json.loads(source.endOffset)["limited"] == {"0": 15, "1": 5}


def test_available_now_does_not_read_what_comes_while_it_runs(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    corpus.create(kafka.bootstrap_servers, "now", partitions=1)
    produce(kafka, "now", 5)
    sink = Sink()

    def keep_and_produce(frame: DataFrame, batch: int) -> None:
        sink(frame, batch)
        produce(kafka, "now", 5)

    start(spark, kafka, tmp_path, keep_and_produce, subscribe="now", maxOffsetsPerTrigger="3").awaitTermination()
    assert sink.batches == {0: places(0, 0, 3), 1: places(0, 3, 5)}


def test_new_topics_of_a_pattern_are_found_on_the_way(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    """New partitions of a topic, which pykraft's brokers cannot add, are in the tests of the plan, and of the judge."""
    corpus.create(kafka.bootstrap_servers, "grow-1", partitions=1)
    produce(kafka, "grow-1", 3)
    sink = Sink()
    always = {"processingTime": "0 seconds"}
    query = start(spark, kafka, tmp_path, sink, subscribePattern="^grow-", trigger=always)
    try:
        wait_until(lambda: sink.places == places(0, 0, 3), "the records of the first topic", 60)
        corpus.create(kafka.bootstrap_servers, "grow-2", partitions=3)
        produce(kafka, "grow-2", 4, partition=2)
        wait_until(lambda: sink.places[3:] == places(2, 0, 4), "the records of a new topic", 60)
        produce(kafka, "grow-1", 1)
        wait_until(lambda: sink.places[7:] == places(0, 3, 4), "the next record of the first topic", 60)
        assert query.exception() is None
    finally:
        query.stop()


# --- lost records -----------------------------------------------------------------------------------------------------


def test_records_that_were_deleted_before_they_were_read_are_a_loss(
    spark: SparkSession, kafka: ClusterProcess, admin: AdminClient, tmp_path: pathlib.Path
) -> None:
    corpus.create(kafka.bootstrap_servers, "shortened", partitions=1)
    produce(kafka, "shortened", 3)
    assert run(spark, kafka, tmp_path, subscribe="shortened") == {0: places(0, 0, 3)}
    produce(kafka, "shortened", 7)
    delete_records(admin, "shortened", before=6)
    words = refused(spark, kafka, tmp_path, subscribe="shortened")
    assert "shortened-0 has the offsets from 6 to 10, and no longer offset 3" in words
    found = run(spark, kafka, tmp_path, subscribe="shortened", failOnDataLoss="false")
    assert found == {1: places(0, 6, 10)}


def test_a_topic_that_was_deleted_and_created_again_is_a_loss(
    spark: SparkSession, kafka: ClusterProcess, admin: AdminClient, tmp_path: pathlib.Path
) -> None:
    """The new topic is the longer one, so only its id tells."""
    corpus.create(kafka.bootstrap_servers, "again", partitions=1)
    produce(kafka, "again", 3)
    assert run(spark, kafka, tmp_path, subscribe="again") == {0: places(0, 0, 3)}
    create_again(admin, kafka, "again")
    produce(kafka, "again", 5)
    assert "topic again was deleted and created again: of the deleted one, this query had read again-0 up to" in (
        refused(spark, kafka, tmp_path, subscribe="again")
    )
    assert run(spark, kafka, tmp_path, subscribe="again", failOnDataLoss="false") == {1: places(0, 0, 5)}


# --- what makes no sense ----------------------------------------------------------------------------------------------


def test_a_stream_that_makes_no_sense_is_one_sentence(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    words = refused(spark, kafka, tmp_path, subscribe=TOPIC, endingOffsets="latest")
    assert "endingOffsets cannot be set: a stream has no end" in words
