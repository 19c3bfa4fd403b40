"""Spark's own Kafka source as the judge of ours: same topics, same options, same rows, batches and offsets. And its
sink of our sink: the same rows become the same records, and the same columns are refused.

Spark's source comes from Maven, in the release before ours (4.2.0 runs on Spark 4.3). Both sources read in one session,
from pykraft and from Apache Kafka.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import pykraft.spark
from pykraft.spark.reading.offsets import OURS
from tests.bench.spark_replay import sparks_own_jars
from tests.harness import apache_kafka
from tests.harness.apache_kafka import FETCH_S, QUICK_START, ApacheKafka
from tests.harness.waiting import wait_until
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess
from tests.spark.reading.test_streaming import delete_records, produce

pytestmark = pytest.mark.limit(FETCH_S + 300)

SOURCES = ("pykraft", "kafka")
TOPIC = "judged"
MIDDLE = 1_700_000_000_030
"""Some records are younger, in each partition but the empty one."""


only_apache = pytest.mark.parametrize("kafka", ["Apache Kafka"], indirect=True)
"""For tests of what pykraft's brokers do not do: add partitions to a topic."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    jars = sparks_own_jars()
    if not jars:
        pytest.skip("the jars of Spark's own Kafka source cannot be fetched with Maven")
    pykraft.spark.stop()
    yield pykraft.spark.session("judge", heap="1g", conf={"spark.jars": ",".join(map(str, jars))})
    pykraft.spark.stop()


@pytest.fixture(scope="module", params=["pykraft", "Apache Kafka"])
def kafka(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One node with the corpus."""
    if request.param == "pykraft":
        with ClusterProcess(nodes=1) as cluster:
            yield filled(cluster)
    else:
        if reason := apache_kafka.available():
            pytest.skip(reason)
        with ApacheKafka(nodes=1, java_options=QUICK_START) as apache:
            yield filled(apache)


def filled(kafka: Any) -> Any:
    corpus.create(kafka.bootstrap_servers, TOPIC)
    corpus.fill(kafka.bootstrap_servers, TOPIC, per_codec=60)
    return kafka


def said(kafka: Any, options: dict[str, str]) -> dict[str, str]:
    what = {} if {"assign", "subscribe", "subscribePattern"} & options.keys() else {"subscribe": TOPIC}
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "includeHeaders": "true", **what, **options}


class Batch(NamedTuple):
    """One batch of a stream, as its progress and its rows show it."""

    start: Any
    end: Any
    latest: Any
    rows: list[corpus.Row]


def stream(
    spark: SparkSession, source: str, kafka: Any, checkpoint: pathlib.Path, options: dict[str, str]
) -> list[Batch]:
    """The batches of a query that reads what is there now."""
    rows: dict[int, list[corpus.Row]] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        rows[batch] = corpus.rows_of(frame)

    reader = spark.readStream.format(source).options(**said(kafka, options))
    writer = reader.load().writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    found = []
    for progress in query.recentProgress:
        if progress.batchId in rows:
            (one,) = progress.sources
            ends = [without_ours(text) for text in (one.startOffset, one.endOffset, one.latestOffset)]
            found.append(Batch(*ends, rows[progress.batchId]))
    assert [batch.rows for batch in found] == [rows[number] for number in sorted(rows)]
    return found


def without_ours(text: str | None) -> Any:
    found = json.loads(text) if text else None
    return {topic: offsets for topic, offsets in found.items() if topic != OURS} if found else found


# --- batch queries ----------------------------------------------------------------------------------------------------

PER_PARTITION = json.dumps({TOPIC: {str(number): MIDDLE + number for number in range(4)}})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"startingTimestamp": str(MIDDLE), "startingOffsetsByTimestampStrategy": "latest"},
        {"endingTimestamp": str(MIDDLE)},
        {"startingOffsetsByTimestamp": PER_PARTITION, "startingOffsetsByTimestampStrategy": "latest"},
        {"endingOffsetsByTimestamp": PER_PARTITION},
        {
            "startingOffsets": json.dumps({TOPIC: {"0": 7, "1": -2, "2": 3, "3": 0}}),
            "endingOffsets": json.dumps({TOPIC: {"0": 90, "1": 50, "2": -1, "3": -1}}),
        },
    ],
    ids=", ".join,
)
def test_a_batch_query_has_the_same_rows(spark: SparkSession, kafka: Any, options: dict[str, str]) -> None:
    ours, theirs = (
        corpus.rows_of(spark.read.format(source).options(**said(kafka, options)).load()) for source in SOURCES
    )
    assert ours == theirs and ours


def test_filters_give_the_same_rows(spark: SparkSession, kafka: Any) -> None:
    """Ours are pushed down, with a start offset from the broker's time index; the corpus's timestamps run backwards."""
    where = "timestamp >= '2013-01-01' and timestamp < '2023-11-14 22:13:20.040' and partition <> 1 and offset > 20"
    ours, theirs = (
        corpus.rows_of(spark.read.format(source).options(**said(kafka, {})).load().where(where)) for source in SOURCES
    )
    assert ours == theirs and ours


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "earliest"},
        {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "131"},
        {"startingOffsets": "earliest", "subscribePattern": "^jud.ed$", "minPartitions": "7"},
        {"startingOffsets": json.dumps({TOPIC: {"0": 90, "2": -2}}), "assign": json.dumps({TOPIC: [2, 0]})},
        {"startingOffsets": json.dumps({TOPIC: {"0": -1, "1": -2, "2": 99, "3": 0}}), "maxOffsetsPerTrigger": "40"},
        {"startingTimestamp": str(MIDDLE), "startingOffsetsByTimestampStrategy": "latest"},
        {"startingOffsetsByTimestamp": PER_PARTITION, "startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=", ".join,
)
def test_a_stream_has_the_same_batches(
    spark: SparkSession, kafka: Any, tmp_path: pathlib.Path, options: dict[str, str]
) -> None:
    ours, theirs = (stream(spark, source, kafka, tmp_path / source, options) for source in SOURCES)
    assert ours == theirs and ours


def test_a_query_of_sparks_own_source_goes_on_with_ours(
    spark: SparkSession, kafka: Any, tmp_path: pathlib.Path
) -> None:
    topic = "handed-over"
    corpus.create(kafka.bootstrap_servers, topic, partitions=2)
    produce(kafka, topic, 10, 0)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    (before,) = stream(spark, "kafka", kafka, tmp_path, options)
    produce(kafka, topic, 5, 1)
    (after,) = stream(spark, "pykraft", kafka, tmp_path, options)
    assert [(row.partition, row.offset) for row in after.rows] == [(1, offset) for offset in range(5)]
    assert (after.start, after.end) == (before.end, {topic: {"0": 10, "1": 5}})


@only_apache
def test_new_partitions_are_read_alike(spark: SparkSession, kafka: Any, tmp_path: pathlib.Path) -> None:
    topic = "grown"
    corpus.create(kafka.bootstrap_servers, topic, partitions=1)
    produce(kafka, topic, 3)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    first = [stream(spark, source, kafka, tmp_path / source, options) for source in SOURCES]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(corpus.TIMEOUT_S)
    for partition in range(3):
        produce(kafka, topic, 5, partition)
    second = [stream(spark, source, kafka, tmp_path / source, options) for source in SOURCES]
    assert first[0] == first[1]
    assert second[0] == second[1]
    assert sum(len(batch.rows) for batch in second[0]) == 15


def test_deleted_records_are_an_error_or_left_out_alike(
    spark: SparkSession, kafka: Any, tmp_path: pathlib.Path
) -> None:
    topic = "shortened"
    corpus.create(kafka.bootstrap_servers, topic, partitions=1)
    produce(kafka, topic, 3)
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    for source in SOURCES:
        stream(spark, source, kafka, tmp_path / source, options)
    produce(kafka, topic, 7)
    delete_records(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), topic, before=6)
    for source in SOURCES:
        with pytest.raises(PySparkException):
            stream(spark, source, kafka, tmp_path / source, {**options, "failOnDataLoss": "true"})
    ours, theirs = (stream(spark, source, kafka, tmp_path / source, options) for source in SOURCES)
    assert ours == theirs
    assert [row.offset for row in ours[0].rows] == [6, 7, 8, 9]


def test_gaps_from_compaction_are_stepped_over_alike(spark: SparkSession, kafka: Any, tmp_path: pathlib.Path) -> None:
    """Four segments of forty records with seven keys; of all but the last segment one record a key is left."""
    topic = "compacted"
    policy = {"cleanup_policy": "compact", "segment_ms": "500", "min_cleanable_dirty_ratio": "0.0"}
    corpus.create(kafka.bootstrap_servers, topic, partitions=1, **policy)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "batch.num.messages": 10})
    began_ms = int(time.time() * 1000) - 60_000
    for segment in range(4):
        for number in range(40):
            producer.produce(topic, b"%d" % number, b"%d" % (number % 7), timestamp=began_ms + 1000 * segment)
        assert producer.flush(corpus.TIMEOUT_S) == 0
    wait_until(lambda: len(corpus.read(kafka.bootstrap_servers, topic, 1)) == 47, "the cleaned log", 90)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"}
    ours, theirs = (stream(spark, source, kafka, tmp_path / source, options) for source in SOURCES)
    assert ours == theirs
    assert [row for batch in ours for row in batch.rows] == corpus.read(kafka.bootstrap_servers, topic, 1)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_are_shown_alike_also_one_that_is_open(
    spark: SparkSession, kafka: Any, tmp_path: pathlib.Path, isolation: str
) -> None:
    """One is committed, one aborted and one still open when both sources read; then that is committed too."""
    topic = f"transactions-{isolation}"
    corpus.create(kafka.bootstrap_servers, topic, partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(corpus.TIMEOUT_S)
    for ends in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        for number in range(4):
            producer.produce(topic, value=b"%d" % number)
        producer.flush(corpus.TIMEOUT_S)
        if ends is not None:
            ends(corpus.TIMEOUT_S)
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.isolation.level": isolation}
    while_open = [stream(spark, source, kafka, tmp_path / source, options) for source in SOURCES]
    producer.commit_transaction(corpus.TIMEOUT_S)
    at_last = [stream(spark, source, kafka, tmp_path / source, options) for source in SOURCES]
    assert while_open[0] == while_open[1]
    assert at_last[0] == at_last[1]
    seen = [sum(len(batch.rows) for batch in batches) for batches in (while_open[0], at_last[0])]
    assert seen == ([4, 4] if isolation == "read_committed" else [12, 0])


# --- writing ----------------------------------------------------------------------------------------------------------


def write(frame: DataFrame, source: str, kafka: Any, **said: str) -> None:
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    frame.write.format(source).mode("append").options(**servers, **said).save()


def test_the_same_rows_become_the_same_records(spark: SparkSession, kafka: Any) -> None:
    """The whole corpus with its partitions; and keys whose hash chooses the partition, one task after the other."""
    copies: dict[str, list[Any]] = {}
    corpus_rows = spark.read.format("pykraft").options(**said(kafka, {})).load()
    hashed_rows = spark.range(0, 3000, 1, 1).selectExpr(
        "concat('schlüssel ', id % 500) key", "cast(id as string) value"
    )
    for source in SOURCES:
        topics = [f"{name}-by-{source}" for name in ("copied", "hashed")]
        for topic, frame in zip(topics, (corpus_rows, hashed_rows), strict=True):
            corpus.create(kafka.bootstrap_servers, topic)
            write(frame, source, kafka, topic=topic)
            found = corpus.read(kafka.bootstrap_servers, topic)
            rows = [(row.partition, row.offset, row.key, row.value, row.headers) for row in found]
            copies.setdefault(source, []).append(rows)
    assert copies["pykraft"] == copies["kafka"]
    assert [len(rows) for rows in copies["kafka"]] == [300, 3000]


@pytest.mark.parametrize(
    ("columns", "option"),
    [
        (["'v' value"], {}),
        (["'v' value", "1 topic"], {}),
        (["1 value"], {"topic": "refused"}),
        (["'k' key"], {"topic": "refused"}),
        (["'v' value", "1L key"], {"topic": "refused"}),
        (["'v' value", "1L partition"], {"topic": "refused"}),
        (["'v' value", "array('a') headers"], {"topic": "refused"}),
        (["'v' value", "array(named_struct('name', 'a', 'value', binary('b'))) headers"], {"topic": "refused"}),
        (["'v' value", "9 partition"], {"topic": "refused"}),
        (["'v' value", "-1 partition"], {"topic": "refused"}),
        (["'v' value", "if(id < 0, 't', null) topic"], {}),
        (
            ["'v' value", "array(named_struct('key', if(id < 0, 'a', null), 'value', binary('b'))) headers"],
            {"topic": "refused"},
        ),
        (["repeat('v', 2000000) value"], {"topic": "refused"}),
    ],
    ids=str,
)
def test_what_one_refuses_the_other_refuses(
    spark: SparkSession, kafka: Any, columns: list[str], option: dict[str, str]
) -> None:
    """Spark's own sink waits for partition 9 to be added, and says most of it in Java's words."""
    for source in SOURCES:
        with pytest.raises((PySparkException, Py4JJavaError)):
            write(spark.range(1).selectExpr(*columns), source, kafka, **option, **{"kafka.max.block.ms": "2000"})


@pytest.mark.parametrize(
    "columns",
    [
        ["'v' value", "7 topic"],
        ["binary('v') value", "'k' key", "cast(null as int) partition"],
        ["cast(null as string) value", "cast(null as binary) key", "timestamp '1999-01-01' timestamp"],
        ["'v' value", "array(named_struct('key', 'a', 'value', binary('b'), 'more', 1)) other"],
        ["'v' value", "cast(array() as array<struct<key: string, value: binary>>) headers"],
    ],
    ids=str,
)
def test_what_one_takes_the_other_takes(spark: SparkSession, kafka: Any, columns: list[str]) -> None:
    topic = "taken"
    for source in SOURCES:
        write(spark.range(2).selectExpr(*columns), source, kafka, topic=topic)
    rows = [(row.key, row.value, row.headers) for row in corpus.read(kafka.bootstrap_servers, topic, partitions=1)]
    assert len(rows) % 4 == 0 and len(set(rows[-4:])) == 1
