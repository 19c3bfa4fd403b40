"""The course's data pipeline: flights go into a topic at a chosen speed, and Spark makes a table and alerts of them.

::

    FlightFeed  -->  topic flights  -->  delays_by_carrier  -->  Parquet: a row for each carrier and window
                                    -->  alerts             -->  topic: a record for each flight that is very late

`FlightFeed` sends flights from a thread. The two streams are plain Spark: `delays_by_carrier` groups by windows of the
scheduled departure, with a watermark that says how late a record may come; both join the weather, which is a table.

The notebook shows these functions; ``datasets/pipeline.py`` runs them from the command line.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import pyspark.sql.functions as sf
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykraft.client.administration.admin import NewTopic
from pykraft.datasets import FOLDER, flights, row_count
from pykraft.producer import Producer
from pykraft.viz import Figure, tally

TOPIC = "flights"
FOR_EVER = {"retention.ms": "-1"}
"""Flights of 2013 are older than every default."""
_STEP_S = 0.05
_COLUMNS = "carrier string, flight int, origin string, dep_delay int, time_hour timestamp"


class FlightFeed:
    """Sends flights, oldest first, this many each second, until all of `limit` are sent or it is closed. The `first`
    ones are left out: they were sent before."""

    def __init__(self, servers: str, per_second: int, limit: int | None = None, first: int = 0) -> None:
        self.sent = first
        self.limit = row_count() if limit is None else limit
        self._per_second = per_second
        self._flights = islice(flights(limit), first, None)
        self._producer = Producer(bootstrap_servers=servers, linger_ms=5)
        self._is_over = Event()
        self._thread = Thread(target=self._run, name="flight feed")
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(_STEP_S):
            some = list(islice(self._flights, max(1, int(self._per_second * _STEP_S))))
            if not some:
                return
            for flight in some:
                self._producer.send(TOPIC, flight.value, flight.key, timestamp_ms=flight.timestamp_ms)
            self.sent += len(some)

    def wait(self, count: int) -> None:
        """Wait until this many flights were sent."""
        while self.sent < count and self._thread.is_alive():
            self._is_over.wait(_STEP_S)

    @property
    def is_running(self) -> bool:
        """Whether there are flights left to send."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Send no more; what was sent is acknowledged."""
        self._is_over.set()
        self._thread.join()
        self._producer.close()


class Folder:
    """A temporary folder, which is gone when it is closed."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="pykraft-pipeline-")
        self.path = Path(self._directory.name)

    def __truediv__(self, name: str) -> str:
        """A path in it, as Spark takes paths."""
        return str(self.path / name)

    def close(self) -> None:
        self._directory.cleanup()


def new_topic(name: str, partitions: int = 3) -> NewTopic:
    """A topic that keeps flights of 2013."""
    return NewTopic(name, partitions, 1, topic_configs=FOR_EVER)


# --- what Spark computes ----------------------------------------------------------------------------------------------


def flights_stream(spark: SparkSession, servers: str, **options: object) -> DataFrame:
    """The topic as a stream of flights, each with the weather at its airport in that hour."""
    said = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "startingOffsets": "earliest", **options}
    records = spark.readStream.format("pykraft").options(**said).load()  # type: ignore[arg-type]
    flight = sf.from_json(sf.col("value").cast("string"), _COLUMNS).alias("flight")
    place = ("partition", "offset", "timestamp")
    rows = records.select(*place, flight).select(*place, "flight.*")
    weather = spark.read.parquet(str(FOLDER / "weather.parquet")).select("origin", "time_hour", "wind_speed", "visib")
    return rows.join(sf.broadcast(weather), ["origin", "time_hour"], "left")


def delays_by_carrier(flights: DataFrame) -> DataFrame:
    """A row for each carrier and six hours: how many flights, how late, in how much wind."""
    timely = flights.withWatermark("timestamp", "3 hours")
    return timely.groupBy(sf.window("timestamp", "6 hours"), "carrier").agg(
        sf.count("*").alias("flights"), sf.avg("dep_delay").alias("late"), sf.avg("wind_speed").alias("wind")
    )


def alerts(flights: DataFrame, minutes: int = 60) -> DataFrame:
    """A record for each flight that left so late: where it was in the topic, and the weather."""
    late = flights.where(sf.col("dep_delay") >= minutes)
    fields = ("partition", "offset", "carrier", "flight", "origin", "dep_delay", "wind_speed", "visib")
    return late.select(sf.col("carrier").alias("key"), sf.to_json(sf.struct(*fields)).alias("value"))


def start_table(flights: DataFrame, folder: Path) -> StreamingQuery:
    """The table as Parquet files in ``folder/delays``, a batch each second."""
    written = delays_by_carrier(flights).writeStream.format("parquet").option("path", str(folder / "delays"))
    return written.option("checkpointLocation", str(folder / "table")).trigger(processingTime="1 second").start()


def start_alerts(
    flights: DataFrame, servers: str, topic: str, checkpoint: Path | str, *, ends: bool = False, **options: str
) -> StreamingQuery:
    """The alerts in a topic, a batch each second; if it `ends`, those that there are now. `options` are the sink's."""
    sink = alerts(flights).writeStream.format("pykraft").option("kafka.bootstrap.servers", servers)
    sink = sink.option("topic", topic).option("checkpointLocation", str(checkpoint)).options(**options)
    trigger = sink.trigger(availableNow=True) if ends else sink.trigger(processingTime="1 second")
    return trigger.start()


def write_alerts(
    flights: DataFrame, servers: str, topic: str, checkpoint: Path | str, **options: str
) -> StreamingQuery:
    """Write the alerts that there are now, batch by batch. The query, which has ended."""
    query = start_alerts(flights, servers, topic, checkpoint, ends=True, **options)
    query.awaitTermination()
    return query


# --- what a checkpoint and a topic have -------------------------------------------------------------------------------


def batches_in(checkpoint: Path | str) -> list[dict[str, dict[str, int]]]:
    """The end offsets of all batches that Spark has planned, by topic and partition, as the checkpoint has them."""
    folder = Path(checkpoint) / "offsets"
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    return [_offsets_of(json.loads((folder / f"{number}").read_text().splitlines()[-1])) for number in numbers]


def _offsets_of(found: Any) -> dict[str, dict[str, int]]:
    """Without the keys that are no topics."""
    return {
        topic: {number: end for number, end in ends.items() if isinstance(end, int)}
        for topic, ends in found.items()
        if isinstance(ends, dict) and all(number.isdigit() for number in ends)
    }


def pieces_of_batches(checkpoint: Path | str, topic: str = TOPIC) -> dict[str, list[tuple[int, int, int | None]]]:
    """By partition, which offsets each batch reads: the first one, the end, the number of the batch."""
    found: dict[str, list[tuple[int, int, int | None]]] = {}
    reached: Counter[str] = Counter()
    for batch, ends in enumerate(batches_in(checkpoint)):
        for number, end in sorted(ends.get(topic, {}).items(), key=lambda item: int(item[0])):
            if end > reached[number]:
                found.setdefault(f"{topic}-{number}", []).append((reached[number], end, batch))
            reached[number] = end
    return found


def places_in_batch(checkpoint: Path | str, batch: int) -> set[tuple[int, int]]:
    """Partition and offset of each flight that this batch reads."""
    pieces = pieces_of_batches(checkpoint).items()
    ranges = [(name, first, end) for name, some in pieces for first, end, number in some if number == batch]
    return {(int(name.rpartition("-")[2]), offset) for name, first, end in ranges for offset in range(first, end)}


def deliveries(spark: SparkSession, servers: str, topic: str) -> Counter[tuple[int, int]]:
    """How often each alert is in a topic, by the place of its flight; as a reader of committed data sees it."""
    said = {"kafka.bootstrap.servers": servers, "subscribe": topic, "isolationLevel": "read_committed"}
    rows = spark.read.format("pykraft").options(**said).load().select(sf.col("value").cast("string")).collect()
    return Counter(_places(row[0] for row in rows))


def compared(default: Mapping[tuple[int, int], int], once: Mapping[tuple[int, int], int]) -> Figure:
    """A few of the alerts in two topics: how often a reader sees each, first those that are there most often."""
    some = sorted(default, key=lambda place: -default[place])[:8] + sorted(default)[:6]
    return tally(
        {"default": [default[place] for place in some], "exactlyOnce=true": [once.get(place, 0) for place in some]},
        title=f"After the crash {sum(n > 1 for n in default.values())} alerts are there twice; "
        f"with exactlyOnce {sum(n > 1 for n in once.values()) or 'none'}",
        note=f"{len(some)} of {len(default)} alerts: how often a reader of committed data sees them.",
    )


def _places(values: Iterator[str]) -> Iterator[tuple[int, int]]:
    for value in values:
        alert = json.loads(value)
        yield alert["partition"], alert["offset"]
