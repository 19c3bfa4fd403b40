"""``df.write.format("pykraft")`` and ``writeStream``: what unmodified clients read of the rows."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pykraft import Admin, Consumer
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess
from tests.spark.conftest import TOPIC

pytestmark = pytest.mark.limit(180)

EVERYTHING = "key binary, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>"


def write(frame: DataFrame, kafka: Any, source: str = "pykraft", **said: str) -> None:
    writer = frame.write.format(source).mode("append").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    writer.options(**{name.replace("__", "."): value for name, value in said.items()}).save()


def refused(frame: DataFrame, kafka: Any, **said: str) -> str:
    """The words of a write that fails; there is no traceback in them."""
    with pytest.raises(PySparkException) as failed:
        write(frame, kafka, **said)
    assert "Traceback" not in str(failed.value)
    return str(failed.value)


def test_rows_are_read_by_another_client_as_they_were_written(spark: SparkSession, kafka: ClusterProcess) -> None:
    """The corpus, null and empty keys and values and headers of all kinds among it, in the partitions of the column."""
    corpus.create(kafka.bootstrap_servers, "copied")
    source = spark.read.format("pykraft").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    write(source.options(subscribe=TOPIC, includeHeaders="true").load(), kafka, topic="copied", kafka__linger__ms="1")
    expected, found = (corpus.read(kafka.bootstrap_servers, topic) for topic in (TOPIC, "copied"))
    assert len(found) == len(expected)
    places = [(row.partition, row.offset, row.key, row.value, row.headers) for row in found]
    assert places == [(row.partition, row.offset, row.key, row.value, row.headers) for row in expected]
    assert all(row.timestamp > 1_700_000_001_000 for row in found)


def test_keys_go_to_the_partitions_that_kafkas_own_producer_chooses(spark: SparkSession, kafka: ClusterProcess) -> None:
    """librdkafka's copy of Java's partitioner judges; our Consumer reads."""
    for topic in ("hashed", "hashed-by-another"):
        corpus.create(kafka.bootstrap_servers, topic, partitions=5)
    frame = spark.range(0, 2000, 1, 3).selectExpr("concat('schlüssel ', id) key", "cast(id as string) value")
    write(frame, kafka, topic="hashed")
    another = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    for number in range(2000):
        another.produce("hashed-by-another", key=f"schlüssel {number}".encode(), value=b"%d" % number)
    assert another.flush(corpus.TIMEOUT_S) == 0
    found: list[tuple[int, bytes, bytes]] = []
    said = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": "hashed", "auto_offset_reset": "earliest"}
    with Consumer("hashed", **said) as consumer:
        while len(found) < 2000:
            for records in consumer.poll(timeout_ms=10_000).values():
                found += [(record.partition, record.key, record.value) for record in records]
    expected = corpus.read(kafka.bootstrap_servers, "hashed-by-another", partitions=5)
    assert sorted(found) == sorted((row.partition, row.key, row.value) for row in expected)


def test_each_row_may_name_its_topic_and_one_without_a_key_goes_anywhere(
    spark: SparkSession, kafka: ClusterProcess
) -> None:
    for topic in ("left", "right"):
        corpus.create(kafka.bootstrap_servers, topic, partitions=2)
    rows = [(None, b"%d" % number, ("left", "right")[number % 2], None, None) for number in range(100)]
    write(spark.createDataFrame(rows, EVERYTHING), kafka)
    for parity, topic in enumerate(("left", "right")):
        found = corpus.read(kafka.bootstrap_servers, topic, partitions=2)
        assert sorted(int(row.value or b"") for row in found) == list(range(parity, 100, 2))


def test_a_frame_without_rows_writes_nothing_and_asks_no_broker(spark: SparkSession, kafka: ClusterProcess) -> None:
    nobody = "127.0.0.1:1"
    write(spark.range(0).selectExpr("cast(id as string) value"), kafka, topic="none", kafka__bootstrap__servers=nobody)


def test_rows_of_megabytes_need_a_producer_and_a_topic_that_allow_them(
    spark: SparkSession, kafka: ClusterProcess
) -> None:
    corpus.create(kafka.bootstrap_servers, "large", partitions=1, max_message_bytes="6000000")
    frame = spark.range(0, 6, 1, 2).selectExpr("repeat(cast(id as string), 5000000) value")
    assert "MESSAGE_TOO_LARGE: the record has 5000022 bytes, max.request.size allows 1048576" in refused(
        frame, kafka, topic="large"
    )
    write(frame, kafka, topic="large", kafka__max__request__size="6000000", kafka__buffer__memory="12000000")
    found = corpus.read(kafka.bootstrap_servers, "large", partitions=1, fetch_message_max_bytes="6000000")
    assert sorted((row.value or b"")[:1] * len(row.value or b"") == row.value for row in found) == [True] * 6
    assert sorted((row.value or b"")[:1] for row in found) == [b"%d" % number for number in range(6)]


def test_what_a_task_cannot_write_is_one_sentence(spark: SparkSession, kafka: ClusterProcess) -> None:
    corpus.create(kafka.bootstrap_servers, "narrow", partitions=2)
    frame = spark.range(1).selectExpr("'v' value", "2 partition", "'narrow' topic")
    assert "INVALID_PARTITIONS: a row cannot be written: narrow has partitions 0 to 1, not 2" in refused(frame, kafka)
    below = frame.selectExpr("value", "-1 partition", "topic")
    assert "a row cannot be written: narrow has partitions 0 to 1, not -1" in refused(below, kafka)
    unnamed = frame.selectExpr("value", "if(value = 'v', null, topic) topic")
    assert "INVALID_TOPIC_EXCEPTION: a row has null in the column topic: fill it, or name" in refused(unnamed, kafka)
    assert "INVALID_TOPIC_EXCEPTION: " in refused(frame.select("value"), kafka, topic="no topic!")
    words = refused(frame, kafka, kafka__bootstrap__servers="127.0.0.1:1", kafka__max__block__ms="300")
    assert "the partitions of narrow were waited for 300 ms: no broker has answered at 127.0.0.1:1" in words


def test_what_makes_no_sense_is_said_before_a_task_runs(spark: SparkSession, kafka: ClusterProcess) -> None:
    frame = spark.range(1)
    assert "ConfigError: the rows have no column value, which a record needs; they have id" in refused(
        frame, kafka, topic="t"
    )
    text = frame.selectExpr("'v' value")
    assert "ConfigError: the rows have no column topic: add one, or name a topic with" in refused(text, kafka)
    assert "ConfigError: tpoic is no option of this sink; it has " in refused(text, kafka, tpoic="t")
    with pytest.raises(PySparkException, match="a topic can only be appended to, not overwritten: "):
        said = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "t"}
        text.write.format("pykraft").mode("overwrite").options(**said).save()


# --- streams ----------------------------------------------------------------------------------------------------------


def run(
    spark: SparkSession, kafka: Any, checkpoint: pathlib.Path, source: str, mode: str = "append", **said: str
) -> Any:
    """Copy what is in a topic now; with mode complete, how often each value is there."""
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    frame = spark.readStream.format("pykraft").options(**servers, subscribe=source, startingOffsets="earliest").load()
    if mode != "append":
        frame = frame.groupBy("value").count().selectExpr("value key", "cast(count as string) value")
    said = {name.replace("__", "."): value for name, value in said.items()}
    writer = frame.writeStream.format("pykraft").outputMode(mode).queryName("copying").options(**servers, **said)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_a_stream_writes_each_of_its_batches(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    for topic in ("streamed-in", "streamed-out"):
        corpus.create(kafka.bootstrap_servers, topic, partitions=2)
    for batch in range(2):
        rows = spark.range(batch * 50, batch * 50 + 50).selectExpr("cast(id as string) value", "'streamed-in' topic")
        write(rows, kafka)
        run(spark, kafka, tmp_path, "streamed-in", topic="streamed-out")
    expected, found = (corpus.read(kafka.bootstrap_servers, f"streamed-{way}", partitions=2) for way in ("in", "out"))
    assert [(row.partition, row.value) for row in found] == [(row.partition, row.value) for row in expected]
    assert len(found) == 100


def test_output_mode_complete_appends_the_whole_result_and_update_is_refused_by_spark(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    for topic in ("words", "counts"):
        corpus.create(kafka.bootstrap_servers, topic, partitions=1)
    for _ in range(2):
        write(spark.range(6).selectExpr("cast(id % 2 as string) value"), kafka, topic="words")
        run(spark, kafka, tmp_path, "words", "complete", topic="counts")
    found = [(row.key, row.value) for row in corpus.read(kafka.bootstrap_servers, "counts", partitions=1)]
    assert sorted(found[:2]) == [(b"0", b"3"), (b"1", b"3")]
    assert sorted(found[2:]) == [(b"0", b"6"), (b"1", b"6")]
    with pytest.raises(PySparkException, match="pykraft does not support Update mode"):
        run(spark, kafka, tmp_path / "update", "words", "update", topic="counts")


def test_a_stream_that_makes_no_sense_is_one_sentence(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(PySparkException) as failed:
        run(spark, kafka, tmp_path, TOPIC, tpoic="t")
    assert "ConfigError: tpoic is no option of this sink; it has " in str(failed.value)
    assert "Traceback" not in str(failed.value)


# --- exactly once -----------------------------------------------------------------------------------------------------


def forget_commit(checkpoint: pathlib.Path, batch_id: int) -> None:
    """What the checkpoint is like if the driver dies after the sink has written a batch."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (checkpoint / "commits" / name).unlink()


def test_a_batch_that_spark_repeats_is_written_once(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    """Of 300 rows of 4 KiB each task stages a file, of 20 rows nothing but its message."""
    for topic in ("once-in", "once-out"):
        corpus.create(kafka.bootstrap_servers, topic, partitions=2)
    written = 0
    for batch_id, count in enumerate((300, 20, 300)):
        rows = spark.range(written, written + count, 1, 2).selectExpr(
            "repeat(cast(id as string), 2000) value", "id key"
        )
        write(rows.selectExpr("value", "cast(key as string) key"), kafka, topic="once-in")
        written += count
        run_once(spark, kafka, tmp_path)
        forget_commit(tmp_path, batch_id)
        query = run_once(spark, kafka, tmp_path)
        assert [progress.batchId for progress in query.recentProgress] == [batch_id]
        note = json.loads((tmp_path / "pykraft-sink" / query.id / "written.json").read_text())
        assert note == {"runId": query.runId, "batchId": batch_id}
        assert len(list((tmp_path / "pykraft-sink" / query.id).iterdir())) == 1, "and no file of a task"
    rows = corpus.read(kafka.bootstrap_servers, "once-out", 2, isolation_level="read_committed")
    assert sorted(int(row.key or b"") for row in rows) == list(range(written))
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        (offset,) = admin.list_consumer_group_offsets(f"spark-sink-{query.id}").values()
    assert offset is not None and offset.offset == 3


def run_once(spark: SparkSession, kafka: Any, checkpoint: pathlib.Path, **said: str) -> Any:
    return run(spark, kafka, checkpoint, "once-in", **{"topic": "once-out", "exactlyOnce": "true", **said})


def test_a_checkpoint_that_was_written_from_without_exactly_once_is_refused(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    for topic in ("later-in", "later-out"):
        corpus.create(kafka.bootstrap_servers, topic, partitions=1)
    said = {"topic": "later-out"}
    for number in range(3):
        write(spark.range(1).selectExpr(f"'{number}' value"), kafka, topic="later-in")
        if number == 0:
            run(spark, kafka, tmp_path, "later-in", **said)
        said = {**said, "exactlyOnce": "true"}
        if number == 1:
            with pytest.raises(PySparkException) as refused:
                run(spark, kafka, tmp_path, "later-in", **said)
            words = (
                "batch 1 of query [0-9a-f-]+ may have been written before: group spark-sink-.* acceptDuplicates=true"
            )
            assert re.search(words, str(refused.value)) and "Traceback" not in str(refused.value)
            run(spark, kafka, tmp_path, "later-in", **said, acceptDuplicates="true")
    run(spark, kafka, tmp_path, "later-in", **said)
    found = corpus.read(kafka.bootstrap_servers, "later-out", 1, isolation_level="read_committed")
    assert [row.value for row in found] == [b"0", b"1", b"2"]


def test_a_task_that_fails_leaves_the_topic_as_it_was(
    spark: SparkSession, kafka: ClusterProcess, tmp_path: pathlib.Path
) -> None:
    for topic in ("failed-in", "failed-out"):
        corpus.create(kafka.bootstrap_servers, topic, partitions=2)
    rows = spark.range(2).selectExpr("repeat('v', 900000) value", "cast(id as int) partition")
    write(rows, kafka, topic="failed-in")
    with pytest.raises(PySparkException) as failed:
        run(spark, kafka, tmp_path, "failed-in", topic="failed-out", exactlyOnce="true", kafka__max__request__size="9")
    assert "MESSAGE_TOO_LARGE: the record has 900022 bytes, max.request.size allows 9" in str(failed.value)
    assert corpus.read(kafka.bootstrap_servers, "failed-out", 2) == []


def test_exactly_once_is_for_streams(spark: SparkSession, kafka: ClusterProcess) -> None:
    words = refused(spark.range(1).selectExpr("'v' value"), kafka, topic="t", exactlyOnce="true")
    assert (
        "ConfigError: exactlyOnce is for streams: a batch query has no checkpoint that says what was written" in words
    )
