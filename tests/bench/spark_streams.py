"""Streams and sinks of Spark: pykraft's beside Spark's own, in one session, from one broker.

    python -m tests.bench.spark_streams [RECORDS]

- *availableNow*: RECORDS rows of 100 bytes in four partitions (400,000; the aim is stated for 4,000,000) into Spark's
  sink `noop`, from the start of the query to its end.
- *an empty trigger*: how long a query needs to find out that there is nothing new; the median of many.
- *latency*: 1,000 rows a second for some seconds, from the call of `produce` until the row is in a list of the driver.
- *sinks*: the same rows of a topic into another topic. `exactlyOnce` has no peer: Spark's own sink does not have it, so
  it is beside Spark's own at least once.
- *two workers*: a count on a standalone cluster whose two workers have one core each.

Each figure is the best of the rounds, taken in turn, after a first time that does not count. Brokers: pykraft, and
Apache Kafka where it can be started.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import pykraft.spark
from tests.bench import spark_replay
from tests.bench.rows import Row
from tests.bench.spark_replay import SPARKS_OWN, sparks_own_jars
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess
from tests.spark.standalone import Standalone

RECORDS = 400_000
ROUNDS = 2
RATE = 1000
LATENCY_S = 5.0
TRIGGERS = 30
TOPIC = "streams"
TWICE, AS_FAST, NO_SLOWER = "ratio >= 2", "ratio >= 1", "ratio <= 1"
OURS = "pykraft"
_IDLE = {"spark.sql.streaming.noDataProgressEventInterval": "0"}

Options = Mapping[str, str]


class Streams:
    """One broker, as one session reads and writes it."""

    def __init__(self, spark: SparkSession, servers: str, directory: pathlib.Path) -> None:
        self._spark = spark
        self._servers = servers
        self._directory = directory

    def source(self, kind: str, topic: str = TOPIC, begin: str = "earliest") -> DataFrame:
        reader = self._spark.readStream.format(kind).option("kafka.bootstrap.servers", self._servers)
        return reader.option("subscribe", topic).option("startingOffsets", begin).load()

    def _folder(self) -> str:
        return str(self._directory / uuid.uuid4().hex)

    def rows_per_second(self, rows: int, frame: DataFrame, sink: str, options: Options) -> float:
        """Of a query that reads all that is there."""
        began = time.monotonic()
        writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", self._folder())
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.monotonic() - began
        assert sum(progress.numInputRows for progress in query.recentProgress) == rows
        return rows / seconds

    def drained(self, kind: str, rows: int) -> float:
        return self.rows_per_second(rows, self.source(kind), "noop", {})

    def copied(self, kind: str, rows: int, exactly_once: bool) -> float:
        """Read with our source, written with the sink of this kind."""
        options = {"kafka.bootstrap.servers": self._servers, "topic": f"{TOPIC}-copy"}
        more = {"exactlyOnce": "true"} if exactly_once else {}
        return self.rows_per_second(rows, self.source(OURS).select("key", "value"), kind, {**options, **more})

    def empty_trigger_ms(self, kind: str) -> float:
        query = self._started(self.source(kind, begin="latest").writeStream.format("noop"))
        deadline = time.monotonic() + corpus.TIMEOUT_S
        while len(query.recentProgress) < TRIGGERS and time.monotonic() < deadline:
            time.sleep(0.05)
        durations = [progress.durationMs["triggerExecution"] for progress in query.recentProgress[TRIGGERS // 3 :]]
        query.stop()
        return float(statistics.median(durations))

    def latency_ms(self, kind: str) -> float:
        """The median."""
        topic = f"{TOPIC}-{uuid.uuid4().hex}"
        corpus.create(self._servers, topic, partitions=2)
        found: list[float] = []

        def note(batch: DataFrame, number: int) -> None:
            rows = batch.select("value").collect()
            now = time.time()
            found.extend(now - float(bytes(row.value)) for row in rows)

        query = self._started(self.source(kind, topic).writeStream.foreachBatch(note))
        self._produce(topic, int(RATE * LATENCY_S))
        query.processAllAvailable()
        query.stop()
        return 1000 * statistics.median(found[len(found) // 3 :])  # the first batches start the workers

    def _started(self, writer: object) -> StreamingQuery:
        query: StreamingQuery = writer.option("checkpointLocation", self._folder()).start()  # type: ignore[attr-defined]
        query.processAllAvailable()
        return query

    def _produce(self, topic: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 0})
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            producer.produce(topic, b"%.6f" % time.time(), partition=number % 2)
            producer.poll(0)
        assert producer.flush(corpus.TIMEOUT_S) == 0


def measure(records: int = RECORDS) -> list[Row]:
    """All rows of this benchmark."""
    jars = sparks_own_jars()
    conf = {**_IDLE, **({"spark.jars": ",".join(map(str, jars))} if jars else {})}
    pykraft.spark.stop()
    with tempfile.TemporaryDirectory() as folder, ClusterProcess(nodes=1) as cluster:
        directory = pathlib.Path(folder)
        filled(cluster.bootstrap_servers, records)
        spark = pykraft.spark.session("streams", heap="1g", java_options=(), conf=conf)
        try:
            rows = measured(Streams(spark, cluster.bootstrap_servers, directory), OURS, records, bool(jars))
            if not apache_kafka.available():
                with ApacheKafka(nodes=1) as kafka:
                    filled(kafka.bootstrap_servers, records)
                    streams = Streams(spark, kafka.bootstrap_servers, directory)
                    rows += measured(streams, "Apache Kafka", records, bool(jars))
        finally:
            pykraft.spark.stop()
        rows.append(on_two_workers(cluster.bootstrap_servers, directory, records, conf, bool(jars)))
        return rows


def filled(servers: str, records: int) -> None:
    """The topic to read, and the one to write."""
    corpus.create(servers, TOPIC, partitions=spark_replay.PARTITIONS)
    corpus.create(servers, f"{TOPIC}-copy", partitions=spark_replay.PARTITIONS)
    spark_replay.fill(servers, TOPIC, records)


def measured(streams: Streams, broker: str, records: int, has_own: bool) -> list[Row]:
    """The rows for one broker."""
    kinds = {OURS: OURS, **({SPARKS_OWN: "kafka"} if has_own else {})}

    def row(name: str, unit: str, target: str, ask: Callable[[str], float], is_time: bool = False) -> Row:
        found = best({who: lambda kind=kind: ask(kind) for who, kind in kinds.items()}, is_time)  # type: ignore[misc]
        return compared(f"{name}, {broker}", unit, target, found)

    sinks = {OURS: lambda: streams.copied(OURS, records, exactly_once=True)}
    if has_own:
        sinks[SPARKS_OWN] = lambda: streams.copied("kafka", records, exactly_once=False)
    return [
        row("Spark stream, availableNow", "rows/s", TWICE, lambda kind: streams.drained(kind, records)),
        row("Spark stream, an empty trigger", "ms", NO_SLOWER, streams.empty_trigger_ms, is_time=True),
        row(f"Spark stream, latency at {RATE} rows/s", "ms", NO_SLOWER, streams.latency_ms, is_time=True),
        row("Spark sink, at least once", "rows/s", AS_FAST, lambda kind: streams.copied(kind, records, False)),
        compared(f"Spark sink, exactly once, {broker}", "rows/s", AS_FAST, best(sinks)),
    ]


def on_two_workers(servers: str, directory: pathlib.Path, records: int, conf: Options, has_own: bool) -> Row:
    """A count on a standalone cluster."""
    memory = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with Standalone(directory / "standalone", workers=2) as cluster:
        spark = pykraft.spark.session(master=cluster.master, heap="1g", conf={**conf, **memory})
        try:
            said = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
            frames = {OURS: spark.read.format(OURS).options(**said).load()}
            if has_own:
                frames[SPARKS_OWN] = spark.read.format("kafka").options(**said).load()

            def rate(frame: DataFrame) -> float:
                began = time.monotonic()
                assert frame.count() == records
                return records / (time.monotonic() - began)

            asked = {who: lambda frame=frame: rate(frame) for who, frame in frames.items()}  # type: ignore[misc]
            return compared("Spark count on two workers, pykraft", "rows/s", TWICE, best(asked))
        finally:
            pykraft.spark.stop()


def best(asked: Mapping[str, Callable[[], float]], is_time: bool = False) -> dict[str, float]:
    """The best figure of each, asked in turn."""
    found: dict[str, list[float]] = {who: [] for who in asked}
    for number in range(ROUNDS + 1):
        for who, ask in asked.items():
            figure = ask()
            if number:
                found[who].append(figure)
    choose = min if is_time else max
    return {who: choose(figures) for who, figures in found.items()}


def compared(name: str, unit: str, target: str, found: Mapping[str, float]) -> Row:
    """The row of ours beside Spark's own."""
    ours, theirs = found[OURS], found.get(SPARKS_OWN)
    is_met = None
    if theirs is not None:
        words = target.split()
        bound = float(words[-1])
        is_met = ours / theirs >= bound if words[1] == ">=" else ours / theirs <= bound
    return Row(name, unit, ours, SPARKS_OWN, theirs, how=f"best of {ROUNDS}", target=target, is_met=is_met)


def main(arguments: Sequence[str]) -> None:
    from tests.bench.rows import load_average, table

    sys.stdout.write(f"load average {load_average()} before\n")
    sys.stdout.write(table(measure(*map(int, arguments))) + f"\nload average {load_average()} after\n")


if __name__ == "__main__":
    main(sys.argv[1:])
