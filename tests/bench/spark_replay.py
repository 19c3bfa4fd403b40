"""A topic replayed into Spark: pykraft's source beside Spark's own Kafka source, and beside parquet of the same rows.

    python -m tests.bench.spark_replay

Two million records of 100 bytes (200,000 of 1,000) with one of a thousand keys, in four partitions, not compressed, on
one broker: that of pykraft in a process of its own, and Apache Kafka where it can be started. Three questions: how many
rows are there, how many rows and bytes has each key, and how many bytes have all values. All sources are asked in one
session of two threads, with both of Java's compilers (a lesson's session has only the quick one, and most of Spark's
own source is Java), in turn, after a first time that does not count; the best of the runs does. The answers must be
equal.

Parquet is no replay: it is what a topic may be written to once, if many questions follow. A count of it reads only the
files' ends.

Spark's own source comes from Maven. Where it has not been published for this version of Spark (or has not arrived at
the mirror) the one of the release before will do; without Maven those rows have no peer.
"""

from __future__ import annotations

import contextlib
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import pyspark
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (everybody calls it so)

import pykraft.spark
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka, Unavailable
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess

Row = tuple[str, str, float, str, float | None, float | None]
"""Name, unit, ours, the peer's name, the peer's figure, ratio; None where the peer is not at hand."""

RECORDS = 2_000_000
VALUE_BYTES = (100, 1000)
KEYS = 1000
PARTITIONS = 4
ROUNDS = 4
UNIT = "million rows/s"
SPARKS_OWN = "Spark's Kafka source"
PARQUET = "parquet"

_SOURCES = ((pyspark.__version__, pyspark.__version__), ("4.2.0", "4.0.0"))
"""Releases of the source and of the token provider that it needs, the best first."""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_DEPENDENCIES = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13"),
    ("org.apache.kafka", "kafka-clients"),
    ("org.apache.commons", "commons-pool2"),
)

Question = Callable[[DataFrame], object]


def count(frame: DataFrame) -> object:
    return frame.count()


def group_by(frame: DataFrame) -> object:
    """Rows and bytes of each key."""
    found = frame.groupBy("key").agg(F.count("*"), F.sum(F.length("value"))).collect()
    return sorted((bytes(key), rows, size) for key, rows, size in found)


def sum_of_lengths(frame: DataFrame) -> object:
    """The bytes of all values."""
    return frame.agg(F.sum(F.length("value"))).first()


QUESTIONS: dict[str, Question] = {"count": count, "group by": group_by, "sum(length)": sum_of_lengths}


def measure() -> list[Row]:
    """All rows of this benchmark: those with pykraft's broker, and those with Apache Kafka's if it is at hand."""
    jars = sparks_own_jars()
    pykraft.spark.stop()
    conf = {"spark.jars": ",".join(map(str, jars))} if jars else {}
    spark = pykraft.spark.session("replay", heap="1g", java_options=(), conf=conf)
    try:
        with ClusterProcess(nodes=1) as cluster:
            rows = measured(spark, "pykraft", cluster.bootstrap_servers, bool(jars))
        if not apache_kafka.available():
            with ApacheKafka(nodes=1) as kafka:
                rows += measured(spark, "Apache Kafka", kafka.bootstrap_servers, bool(jars))
        return rows
    finally:
        pykraft.spark.stop()


def sparks_own_jars() -> list[pathlib.Path]:
    """The jars of Spark's own Kafka source; none if they cannot be had."""
    for source, tokens in _SOURCES:
        versions = (source, tokens, "3.9.2", "2.13.1")
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{_ALONE}</dependency>"
            for (group, artifact), version in zip(_DEPENDENCIES, versions, strict=True)
        )
        pom = (
            "<project><modelVersion>4.0.0</modelVersion><groupId>reference</groupId><artifactId>spark-kafka</artifactId>"
            f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
        )
        with contextlib.suppress(Unavailable):
            home = apache_kafka.fetched_jars(f"spark-kafka-{source}-{tokens}", pom, f"{SPARKS_OWN} {source}")
            return sorted((home / "libs").glob("*.jar"))
    return []


def fill(bootstrap_servers: str, topic: str, records: int = RECORDS, value_bytes: int = VALUE_BYTES[0]) -> None:
    """Produce the records, a quarter to each partition."""
    chance = random.Random(topic)
    keys = [b"key-%06d" % number for number in range(KEYS)]
    values = [chance.randbytes(value_bytes) for _ in range(KEYS)]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "batch.size": 128 << 10,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "acks": 1,
        }
    )
    for number in range(records):
        which = number * 7919 % KEYS
        while True:
            try:
                producer.produce(topic, values[which], keys[which], number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(corpus.TIMEOUT_S) == 0


@contextlib.contextmanager
def frames(spark: SparkSession, bootstrap_servers: str, topic: str, has_own: bool) -> Iterator[dict[str, DataFrame]]:
    """The same rows in each way, ours first."""
    said = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
    found = {"pykraft": spark.read.format("pykraft").options(**said).load()}
    if has_own:
        found[SPARKS_OWN] = spark.read.format("kafka").options(**said).load()
    with tempfile.TemporaryDirectory() as directory:
        found["pykraft"].write.mode("overwrite").parquet(directory)
        found[PARQUET] = spark.read.parquet(directory)
        yield found


def measured(spark: SparkSession, broker: str, bootstrap_servers: str, has_own: bool) -> list[Row]:
    """The rows for one broker."""
    rows: list[Row] = []
    for value_bytes in VALUE_BYTES:
        topic, records = f"replay-{value_bytes}", records_of(value_bytes)
        corpus.create(bootstrap_servers, topic, partitions=PARTITIONS)
        fill(bootstrap_servers, topic, records, value_bytes)
        with frames(spark, bootstrap_servers, topic, has_own) as asked:
            for name, question in QUESTIONS.items():
                rates = best_rates(asked, question, records)
                rows += compared(row_name(name, value_bytes, broker), rates)
    return rows


def records_of(value_bytes: int) -> int:
    """Fewer of the larger ones: about as many bytes."""
    return RECORDS * VALUE_BYTES[0] // value_bytes


def row_name(question: str, value_bytes: int, broker: str) -> str:
    return f"Spark {question} at {value_bytes} B, from {broker}"


def best_rates(asked: dict[str, DataFrame], question: Question, records: int) -> dict[str, float]:
    """Million rows a second of each source."""
    answers = [question(frame) for frame in asked.values()]
    assert all(answer == answers[0] for answer in answers[1:]), "the sources do not agree"
    best = dict.fromkeys(asked, float("inf"))
    for _ in range(ROUNDS):
        for source, frame in asked.items():
            began = time.monotonic()
            question(frame)
            best[source] = min(best[source], time.monotonic() - began)
    return {source: records / 1e6 / seconds for source, seconds in best.items()}


def compared(name: str, rates: dict[str, float]) -> list[Row]:
    ours = rates["pykraft"]
    return [
        (name, UNIT, ours, peer, rates.get(peer), ours / rates[peer] if peer in rates else None)
        for peer in (SPARKS_OWN, PARQUET)
    ]


def show(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    lines = []
    for name, unit, ours, peer, theirs, ratio in rows:
        beside = "not at hand" if theirs is None or ratio is None else f"{theirs:8.2f}   ratio {ratio:.2f}"
        lines.append(f"{name:<36} {ours:6.2f} {unit}   {peer:<22} {beside}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(show(measure()) + "\n")
