"""A topic replayed into Spark: pykraft's source beside Spark's own Kafka source, and beside parquet of the same rows.

    python -m tests.bench.spark_replay [RECORDS [ROUNDS]]

RECORDS records of 100 bytes (400,000; a quarter of them at 1,000 bytes) with one of a thousand keys, in four
partitions, not compressed, on one broker: that of pykraft in a process of its own, and Apache Kafka where it can be
started. Three questions: how many rows are there, how many rows and bytes has each key, and how many bytes have all
values. All sources are asked in one session of two threads, with both of Java's compilers (a lesson's session has only
the quick one, and most of Spark's own source is Java), in turn, after a first time that does not count; the best of
ROUNDS runs does. The answers must be equal.

Beside the rate stands the processor time of a query, in Java and in its Python workers. A busy machine spoils the rate,
and hardly the processor time.

A query takes about 0.3 s whatever it reads: fewer rows tell more of Spark and less of its sources. `python -m
tests.bench spark --spark-records 2000000` takes about ten minutes on two quiet cores.

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
from typing import NamedTuple

import psutil
import pyspark
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

import pykraft.spark
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka, Unavailable
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess


class Row(NamedTuple):
    """One question to ours and to a peer; the peer's figures are None where it is not at hand."""

    name: str
    unit: str
    ours: float
    peer: str
    theirs: float | None
    ratio: float | None
    cpu_s: float
    """Processor time of our query: Java and its Python workers, without the broker."""
    their_cpu_s: float | None

    @property
    def cpu_ratio(self) -> float | None:
        return None if self.their_cpu_s is None else self.their_cpu_s / self.cpu_s

    @property
    def cpu(self) -> str:
        """Both processor times."""
        if self.their_cpu_s is None:
            return f"CPU {self.cpu_s:.2f} s"
        return f"CPU {self.cpu_s:.2f} against {self.their_cpu_s:.2f} s, ratio {self.cpu_ratio:.2f}"


class Cost(NamedTuple):
    """What the cheapest run of a query took."""

    seconds: float
    cpu_s: float


RECORDS = 400_000
VALUE_BYTES = (100, 1000)
KEYS = 1000
PARTITIONS = 4
ROUNDS = 2
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


def measure(records: int = RECORDS, rounds: int = ROUNDS) -> list[Row]:
    """All rows of this benchmark: those with pykraft's broker, and those with Apache Kafka's if it is at hand."""
    jars = sparks_own_jars()
    pykraft.spark.stop()
    conf = {"spark.jars": ",".join(map(str, jars))} if jars else {}
    spark = pykraft.spark.session("replay", heap="1g", java_options=(), conf=conf)
    try:
        with ClusterProcess(nodes=1) as cluster:
            rows = measured(spark, "pykraft", cluster.bootstrap_servers, bool(jars), records, rounds)
        if not apache_kafka.available():
            with ApacheKafka(nodes=1) as kafka:
                rows += measured(spark, "Apache Kafka", kafka.bootstrap_servers, bool(jars), records, rounds)
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


def measured(
    spark: SparkSession, broker: str, bootstrap_servers: str, has_own: bool, records: int, rounds: int
) -> list[Row]:
    """The rows for one broker."""
    rows: list[Row] = []
    for value_bytes in VALUE_BYTES:
        topic, count_of_rows = f"replay-{value_bytes}", records if value_bytes == VALUE_BYTES[0] else records // 4
        corpus.create(bootstrap_servers, topic, partitions=PARTITIONS)
        fill(bootstrap_servers, topic, count_of_rows, value_bytes)
        with frames(spark, bootstrap_servers, topic, has_own) as asked:
            for name, question in QUESTIONS.items():
                costs = best_costs(asked, question, rounds)
                rows += compared(row_name(name, value_bytes, broker), count_of_rows, costs)
    return rows


def row_name(question: str, value_bytes: int, broker: str) -> str:
    return f"Spark {question} at {value_bytes} B, from {broker}"


def best_costs(asked: dict[str, DataFrame], question: Question, rounds: int) -> dict[str, Cost]:
    """What the question costs with each source."""
    answers = [question(frame) for frame in asked.values()]
    assert all(answer == answers[0] for answer in answers[1:]), "the sources do not agree"
    best = {source: Cost(float("inf"), float("inf")) for source in asked}
    for _ in range(rounds):
        for source, frame in asked.items():
            java = java_of(frame.sparkSession)
            began, cpu_before = time.monotonic(), cpu_seconds(java)
            question(frame)
            seconds, cpu_s = time.monotonic() - began, cpu_seconds(java) - cpu_before
            best[source] = Cost(min(best[source].seconds, seconds), min(best[source].cpu_s, cpu_s))
    return best


def java_of(spark: SparkSession) -> psutil.Process:
    return psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())


def cpu_seconds(java: psutil.Process) -> float:
    """What Java and its workers have used, also those that have ended."""
    return sum(sum(process.cpu_times()[:4]) for process in (java, *java.children(recursive=True)))


def compared(name: str, records: int, costs: dict[str, Cost]) -> list[Row]:
    ours = costs["pykraft"]
    found = []
    for peer in (SPARKS_OWN, PARQUET):
        theirs = costs.get(peer)
        rate = records / 1e6 / ours.seconds
        their_rate = None if theirs is None else records / 1e6 / theirs.seconds
        ratio = None if their_rate is None else rate / their_rate
        their_cpu_s = None if theirs is None else theirs.cpu_s
        found.append(Row(name, UNIT, rate, peer, their_rate, ratio, ours.cpu_s, their_cpu_s))
    return found


def show(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    lines = []
    for row in rows:
        beside = "not at hand" if row.theirs is None else f"{row.theirs:8.2f}   ratio {row.ratio:.2f}"
        lines.append(f"{row.name:<46} {row.ours:6.2f} {row.unit}   {row.peer:<22} {beside}   {row.cpu}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(show(measure(*map(int, sys.argv[1:]))) + "\n")
