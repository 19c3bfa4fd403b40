"""A stream that is watched: what its progress says, batch by batch, and what a checkpoint says of its batches."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykraft.course.lessons.structured_streaming.driver_death import notes
from pykraft.course.lessons.structured_streaming.flight_stream import batches_in, pieces_of_batches, places_in_batch
from pykraft.spark.stream_watch import LOOK_S, _batch, watch

PROGRESS = {
    "batchId": 7,
    "numInputRows": 30,
    "processedRowsPerSecond": 60.0,
    "stateOperators": [{"numRowsTotal": 5, "numRowsDroppedByWatermark": 2}],
    "sources": [
        {
            "endOffset": '{"t":{"0":10,"1":20},"topicIds":{"t":"abc"}}',
            "latestOffset": '{"t":{"0":15,"1":20},"u":{"0":3}}',
        }
    ],
}


def test_the_lag_is_what_the_topics_are_ahead_of_the_end_of_the_batch() -> None:
    batch = _batch(PROGRESS, 1.5)
    assert (batch.number, batch.rows, batch.lag, batch.state_rows, batch.dropped) == (7, 30, 8, 5, 2)
    assert _batch({**PROGRESS, "sources": [{"endOffset": None, "latestOffset": None}]}, 0.0).lag == 0
    assert _batch({**PROGRESS, "sources": [{"endOffset": "7", "latestOffset": None}]}, 0.0).lag == 0


def test_all_batches_of_a_query_are_seen_and_closing_stops_it(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    watched = watch(query, "a rate")
    watched.wait(rows=60)
    watched.close()
    assert not query.isActive
    assert watched.rows >= 60
    assert [batch.number for batch in watched.batches] == sorted({batch.number for batch in watched.batches})
    assert watched.figure().title == "a rate"


def test_who_waits_too_long_is_told_how_many_rows_came(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    watched = watch(rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start())
    try:
        with pytest.raises(TimeoutError, match=r"the query has read \d of 1,000 rows, and none for 0\.1 s"):
            watched.wait(rows=1_000, patience_s=0.1)
    finally:
        watched.close()


class SlowQuery:
    """Spark's side of a query that ends a batch of 30 rows at each look."""

    id = "slow"
    isActive = True  # noqa: N815 (Spark's name)

    def __init__(self) -> None:
        self.looks = 0

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 (Spark's name)
        self.looks += 1
        return [{**PROGRESS, "batchId": number} for number in range(self.looks)]

    def stop(self) -> None:
        self.isActive = False


def test_a_query_that_goes_on_may_take_longer_than_the_patience() -> None:
    watched = watch(cast(StreamingQuery, SlowQuery()))
    try:
        began = time.monotonic()
        watched.wait(rows=30 * 40, patience_s=20 * LOOK_S)
        assert time.monotonic() - began > 20 * LOOK_S
    finally:
        watched.close()


class GoneQuery(SlowQuery):
    """A query whose JVM was killed: each call finds no server."""

    @property
    def isActive(self) -> bool:  # type: ignore[override]  # noqa: N802 (Spark's name)
        raise ConnectionRefusedError(111, "Connection refused")

    def stop(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


def test_the_watch_of_a_query_whose_jvm_was_killed_ends_and_can_be_closed() -> None:
    watched = watch(cast(StreamingQuery, GoneQuery()))
    watched._thread.join(60)
    assert not watched._thread.is_alive()
    watched.close()


def test_a_checkpoint_says_which_offsets_each_batch_reads(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for number, line in enumerate(('{"flights":{"0":5}}', '{"flights":{"0":9,"1":2},"topicIds":{"flights":"x"}}')):
        (tmp_path / "offsets" / f"{number}").write_text(f"v1\n{{}}\n{line}")
    assert batches_in(tmp_path) == [{"flights": {"0": 5}}, {"flights": {"0": 9, "1": 2}}]
    assert pieces_of_batches(tmp_path) == {"flights-0": [(0, 5, 0), (5, 9, 1)], "flights-1": [(0, 2, 1)]}
    assert places_in_batch(tmp_path, 1) == {(0, 5), (0, 6), (0, 7), (0, 8), (1, 0), (1, 1)}


def test_a_checkpoint_says_which_batches_are_planned_and_which_are_noted_as_done(tmp_path: Path) -> None:
    for name, files in {"offsets": ("0", "1", ".1.crc"), "commits": ("0", ".0.crc")}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    assert notes(str(tmp_path)) == {"offsets": [0, 1], "commits": [0]}
