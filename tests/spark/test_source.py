"""``spark.read.format("pykraft")`` in local mode, with the cluster in another process."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch
from pykraft.records.compression import Compression
from pykraft.spark import columns
from pykraft.spark.options import read_options
from pykraft.spark.reading.fetch import OffsetRange, PartitionFetch
from tests.harness.tree import ROOT
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess
from tests.spark.conftest import TOPIC
from tests.spark.reading.test_fetch import damaged, log
from tests.spark.scripted_broker import ScriptedBroker

pytestmark = pytest.mark.limit(180)


def frame(spark: SparkSession, kafka: Any, schema: str | None = None, **said: str) -> DataFrame:
    """The corpus, or what the options say in its place."""
    reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    if not {"subscribe", "assign", "subscribePattern"} & said.keys():
        reader = reader.option("subscribe", TOPIC)
    for name, value in said.items():
        reader = reader.option(name.replace("__", "."), value)
    return (reader if schema is None else reader.schema(schema)).load()


def test_every_row_is_what_an_unmodified_client_reads(spark: SparkSession, kafka: ClusterProcess) -> None:
    expected = corpus.read(kafka.bootstrap_servers, TOPIC)
    assert kafka._process.pid != os.getpid(), "the cluster must be in another process"
    assert len(expected) == 300 * len(corpus.CODECS)
    assert {row.partition for row in expected} == set(range(corpus.FILLED)), "and the last partition is empty"
    assert corpus.rows_of(frame(spark, kafka, includeHeaders="true")) == expected


def test_the_corpus_has_batches_of_every_codec_in_every_partition(kafka: ClusterProcess) -> None:
    for number in range(corpus.FILLED):
        assert {batch.compression for batch in batches_of(kafka, number)} == set(Compression)


def test_the_time_of_the_append_is_shown_as_such(spark: SparkSession, kafka: ClusterProcess) -> None:
    corpus.create(kafka.bootstrap_servers, "appended", message_timestamp_type="LogAppendTime")
    corpus.fill(kafka.bootstrap_servers, "appended", per_codec=30)
    expected = corpus.read(kafka.bootstrap_servers, "appended")
    assert {row.timestamp_type for row in expected} == {1}
    assert corpus.rows_of(frame(spark, kafka, subscribe="appended", includeHeaders="true")) == expected


@pytest.mark.parametrize("include_headers", ["false", "true"])
def test_the_schema_is_that_of_sparks_own_source(
    spark: SparkSession, kafka: ClusterProcess, include_headers: str
) -> None:
    schema = frame(spark, kafka, includeHeaders=include_headers).schema
    expected = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    expected += ", headers array<struct<key: string, value: binary>>" if include_headers == "true" else ""
    assert schema == StructType.fromDDL(expected)
    assert to_arrow_schema(schema, timezone="UTC").equals(columns.arrow_schema(schema.fieldNames()))


def test_the_timestamp_is_an_instant_whatever_spark_takes_the_word_for(
    spark: SparkSession, kafka: ClusterProcess
) -> None:
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        assert frame(spark, kafka).schema["timestamp"].dataType == TimestampType()
    finally:
        spark.conf.unset("spark.sql.timestampType")


def test_a_schema_may_ask_for_fewer_columns_in_another_order(spark: SparkSession, kafka: ClusterProcess) -> None:
    found = frame(spark, kafka, schema="offset long, key binary").where("key is null")
    nulls = [row for row in corpus.read(kafka.bootstrap_servers, TOPIC) if row.key is None]
    assert found.columns == ["offset", "key"]
    assert sorted(row.offset for row in found.collect()) == sorted(row.offset for row in nulls)


def test_offsets_of_each_partition_may_be_given(spark: SparkSession, kafka: ClusterProcess) -> None:
    starting = json.dumps({TOPIC: {"0": 10, "2": -2}})
    ending = json.dumps({TOPIC: {"0": 13, "2": 2}})
    said = {"assign": json.dumps({TOPIC: [0, 2]}), "startingOffsets": starting, "endingOffsets": ending}
    found = frame(spark, kafka, **said).select("partition", "offset").collect()
    assert sorted(map(tuple, found)) == [(0, 10), (0, 11), (0, 12), (2, 0), (2, 1)]


def batches_of(kafka: Any, number: int) -> list[RecordBatch]:
    """The record batches of one partition of the corpus; only their headers may be looked at."""
    said = read_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": TOPIC})
    whole = OffsetRange(TopicPartition(TOPIC, number), 0, 100 * len(corpus.CODECS))
    return [
        RecordBatch(memoryview(bytes(one.buffer))) for some in PartitionFetch(said, whole).batches() for one in some
    ]


def test_what_begins_and_ends_in_the_middle_of_a_batch_has_exactly_the_asked_rows(
    spark: SparkSession, kafka: ClusterProcess
) -> None:
    """The broker sends whole batches: what is before the beginning, and from the end on, comes too."""
    starting, ending = {"3": 0}, {"3": 0}
    for number in range(corpus.FILLED):
        batches = [batch for batch in batches_of(kafka, number) if batch.count > 2]
        assert len(batches) >= len(corpus.CODECS)
        starting[str(number)] = batches[0].base_offset + 1
        ending[str(number)] = batches[-1].last_offset
    said = {"startingOffsets": json.dumps({TOPIC: starting}), "endingOffsets": json.dumps({TOPIC: ending})}
    found = corpus.rows_of(frame(spark, kafka, includeHeaders="true", **said))
    expected = corpus.read(kafka.bootstrap_servers, TOPIC)
    assert found == [row for row in expected if starting[str(row.partition)] <= row.offset < ending[str(row.partition)]]


def test_there_are_as_many_tasks_as_partitions_or_as_were_asked_for(spark: SparkSession, kafka: ClusterProcess) -> None:
    assert frame(spark, kafka).rdd.getNumPartitions() == corpus.FILLED
    cut = frame(spark, kafka, minPartitions="7", includeHeaders="true")
    assert cut.rdd.getNumPartitions() in (6, 7, 8)
    assert corpus.rows_of(cut) == corpus.read(kafka.bootstrap_servers, TOPIC)


@pytest.mark.parametrize("pushes", ["true", "false"])
def test_filters_give_the_same_rows_whether_spark_pushes_them_down_or_not(
    spark: SparkSession, kafka: ClusterProcess, pushes: str
) -> None:
    """Pushed down they leave out tasks, which is how we see that they were. Of the corpus, every second timestamp is
    from 1970, after younger ones."""
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, pushes)
    try:
        some = frame(spark, kafka, includeHeaders="true", pushFilters="true")
        some = some.where("partition > 0 and offset between 40 and 160")
        young = some.where("timestamp >= '2001-01-01' and timestamp < '2023-11-14 22:13:20.150'")
        found = corpus.rows_of(young)
        tasks = some.where("partition != 2").rdd.getNumPartitions()
    finally:
        spark.conf.set(setting, "true")
    assert tasks == (1 if pushes == "true" else corpus.FILLED)
    assert found == [
        row
        for row in corpus.read(kafka.bootstrap_servers, TOPIC)
        if row.partition > 0 and 40 <= row.offset <= 160 and 978_307_200_000 <= row.timestamp < 1_700_000_000_150
    ]


def test_queries_of_one_dataframe_do_not_see_the_filters_of_each_other(
    spark: SparkSession, kafka: ClusterProcess
) -> None:
    """Spark 4.3 keeps the plan of a DataFrame's last query that pushed filters down, and reads by it in the others."""
    whole = frame(spark, kafka)
    sizes = dict(map(tuple, whole.groupBy("partition").count().collect()))
    one, other = (whole.where(f"partition = {number}") for number in (0, 1))
    assert (one.count(), whole.count(), other.count()) == (sizes[0], sum(sizes.values()), sizes[1])
    both = one.union(other).groupBy("partition").count().collect()
    assert dict(map(tuple, both)) == {0: sizes[0], 1: sizes[1]}


def test_several_topics_and_a_pattern(spark: SparkSession, kafka: ClusterProcess) -> None:
    for name in ("many-1", "many-2"):
        corpus.create(kafka.bootstrap_servers, name)
        corpus.fill(kafka.bootstrap_servers, name, per_codec=6)
    expected = [(name, 6 * len(corpus.CODECS)) for name in ("many-1", "many-2")]
    for said in ({"subscribe": "many-1, many-2"}, {"subscribePattern": "^many-[0-9]$"}):
        counts = frame(spark, kafka, **said).groupBy("topic").count().collect()
        assert sorted(map(tuple, counts)) == expected


def test_a_topic_without_records_has_no_rows(spark: SparkSession, kafka: ClusterProcess) -> None:
    corpus.create(kafka.bootstrap_servers, "empty")
    assert frame(spark, kafka, subscribe="empty").count() == 0
    assert frame(spark, kafka, subscribePattern="no such topic").count() == 0


def test_it_can_be_used_from_sql(spark: SparkSession, kafka: ClusterProcess) -> None:
    using = f"using pykraft options (`kafka.bootstrap.servers` '{kafka.bootstrap_servers}', subscribe '{TOPIC}')"
    spark.sql(f"create or replace temporary view seen {using}")
    (found,) = spark.sql("select count(*), count(key), max(partition) from seen").collect()
    expected = corpus.read(kafka.bootstrap_servers, TOPIC)
    assert tuple(found) == (len(expected), sum(row.key is not None for row in expected), 2)
    with pytest.raises(AnalysisException, match="a table forgets the options of this source: CREATE TEMPORARY VIEW"):
        spark.sql(f"create table kept {using}")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"startingOffset": "earliest"}, "startingoffset is no option of this source; it has kafka.bootstrap.servers"),
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere' on 127.0.0.1:"),
        (
            {"startingOffsets": '{"corpus": {"0": 9999999, "1": 0, "2": 0, "3": 0}}'},
            "startingOffsets asks for offset 9999999 of",
        ),
        ({"startingOffsets": "latest"}, "startingOffsets is latest, which leaves nothing to read for a batch query"),
        ({"endingOffsets": "{"}, "endingOffsets is '{', but must be latest, or like {"),
        ({"schema": "offset int"}, "the schema asks for offset as int, but it is bigint"),
    ],
)
def test_what_makes_no_sense_is_one_sentence_of_spark(
    spark: SparkSession, kafka: ClusterProcess, said: dict[str, str], sentence: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        frame(spark, kafka, **said).count()
    words = str(refused.value)
    assert sentence in words
    assert "Traceback" not in words
    assert len(words.strip().split("\n")) == 2, "Spark adds a line with its own state"


def test_what_a_task_complains_of_is_one_sentence_too(spark: SparkSession) -> None:
    """The plan is right, and the records are not: this is found in an executor, in the middle of the reading."""
    batches = log()
    batches[2] = damaged(batches[2])
    with ScriptedBroker(batches) as broker:
        reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", broker.address)
        with pytest.raises(PySparkException) as failed:
            reader.option("subscribe", "t").load().count()
    heading, sentence = str(failed.value).strip().split("\n")
    assert heading == "An exception was thrown from the Python worker:"
    assert sentence.endswith("CORRUPT_MESSAGE: t-0: the batch at offset 4 fails its checksum")


def test_a_topic_is_read_while_one_of_its_brokers_is_dead(spark: SparkSession, kafka: ClusterProcess) -> None:
    """The last test with this cluster: the first address of the list does not answer, and leaders have moved."""
    expected = corpus.read(kafka.bootstrap_servers, TOPIC)
    kafka.kill(1)
    assert corpus.rows_of(frame(spark, kafka, includeHeaders="true")) == expected
    kafka.restart(1)


def test_the_door_of_the_readme_leads_to_a_data_frame(
    spark: SparkSession, kafka: ClusterProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(from pykraft.spark.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code.count("localhost:9092") == code.count('"flights"') == 1
    here = code.replace("localhost:9092", kafka.bootstrap_servers).replace('"flights"', f'"{TOPIC}"')
    exec(compile(here, "README.md", "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    assert [word.strip() for word in shown[1].split("|")[1:-1]] == ["partition", "offset", "timestamp", "value"]
    assert shown[-1] == "only showing top 20 rows"
