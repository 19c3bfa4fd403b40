"""The same rows from Apache Kafka itself, where that can be started.

A long run asks, as `make judges` does: in a short one our clients meet Apache Kafka in tests/conformance/test_clients.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tests.harness import apache_kafka
from tests.harness.apache_kafka import FETCH_S, QUICK_START, ApacheKafka
from tests.spark import corpus

pytestmark = [pytest.mark.long, pytest.mark.limit(FETCH_S + 120)]


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheKafka]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with ApacheKafka(nodes=1, java_options=QUICK_START) as kafka:
        yield kafka


def frame(spark: SparkSession, kafka: ApacheKafka, **said: str) -> DataFrame:
    reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    said = {"includeHeaders": "true", **said}
    return reader.options(**{name.replace("__", "."): value for name, value in said.items()}).load()


def test_every_row_is_what_an_unmodified_client_reads(apache: ApacheKafka, spark: SparkSession) -> None:
    corpus.create(apache.bootstrap_servers, "corpus")
    corpus.fill(apache.bootstrap_servers, "corpus")
    expected = corpus.read(apache.bootstrap_servers, "corpus")
    assert len(expected) == 300 * len(corpus.CODECS)
    assert corpus.rows_of(frame(spark, apache, subscribe="corpus", minPartitions="6")) == expected


def transact(bootstrap_servers: str, topic: str) -> None:
    """Two transactions in turn are committed, and every third one is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "spark", "linger.ms": 0})
    producer.init_transactions(corpus.TIMEOUT_S)
    for number in range(9):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, value=b"%d" % number, partition=number % 2)
        producer.flush(corpus.TIMEOUT_S)
        if number % 3 == 2:
            producer.abort_transaction(corpus.TIMEOUT_S)
        else:
            producer.commit_transaction(corpus.TIMEOUT_S)


@pytest.mark.parametrize(("isolation", "count"), [("read_committed", 30), ("read_uncommitted", 45)])
def test_of_transactions_as_much_is_seen_as_an_unmodified_client_sees(
    apache: ApacheKafka, spark: SparkSession, isolation: str, count: int
) -> None:
    topic = f"transactions-{isolation}"
    corpus.create(apache.bootstrap_servers, topic, partitions=2)
    transact(apache.bootstrap_servers, topic)
    expected = corpus.read(apache.bootstrap_servers, topic, partitions=2, isolation_level=isolation)
    assert len(expected) == count
    assert corpus.rows_of(frame(spark, apache, subscribe=topic, kafka__isolation__level=isolation)) == expected


def test_rows_that_are_written_are_read_by_an_unmodified_client(apache: ApacheKafka, spark: SparkSession) -> None:
    for topic in ("source", "copied"):
        corpus.create(apache.bootstrap_servers, topic)
    corpus.fill(apache.bootstrap_servers, "source", per_codec=60)
    writer = frame(spark, apache, subscribe="source").write.format("pykraft").mode("append")
    writer.options(**{"kafka.bootstrap.servers": apache.bootstrap_servers, "topic": "copied"}).save()
    expected, found = (corpus.read(apache.bootstrap_servers, topic) for topic in ("source", "copied"))
    assert [row[1:5] + row[7:] for row in found] == [row[1:5] + row[7:] for row in expected]
    assert len(found) == 300


def test_a_stream_is_written_exactly_once(apache: ApacheKafka, spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """The marker is an offset of Kafka's own topic, and the batch that Spark repeats is not written again."""
    for topic in ("stream", "once"):
        corpus.create(apache.bootstrap_servers, topic)
    corpus.fill(apache.bootstrap_servers, "stream", per_codec=60)
    servers = {"kafka.bootstrap.servers": apache.bootstrap_servers}
    for _ in range(2):
        rows = spark.readStream.format("pykraft").options(**servers, subscribe="stream", startingOffsets="earliest")
        writer = rows.load().select("key", "value", "partition").writeStream.format("pykraft").options(**servers)
        writer = writer.options(topic="once", exactlyOnce="true", checkpointLocation=str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()
        for name in ("0", ".0.crc"):
            (tmp_path / "commits" / name).unlink()
    expected = corpus.read(apache.bootstrap_servers, "stream")
    found = corpus.read(apache.bootstrap_servers, "once", isolation_level="read_committed")
    assert [(row.partition, row.key, row.value) for row in found] == [
        (row.partition, row.key, row.value) for row in expected
    ]
