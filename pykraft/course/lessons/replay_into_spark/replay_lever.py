"""The first picture of notebook 23: which records come if you ask a topic for some days, and in how many tasks.

At each move logs of pykraft's own (`UnifiedLog`) are written on a disk in memory: every tenth flight of January 2013,
keyed by carrier. The options are those that a user of Spark types. Spark's driver plans a query with `plan`; here the
same code plans it, and asks these logs in place of brokers.

Some flights come late: a week after their own time, among younger ones. So a partition's timestamps run backwards.
"""

import datetime
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pyspark.sql.datasource import GreaterThanOrEqual, LessThan

from pykraft.client.producing.partitioner import partition_of_key
from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.course.rigs.memory_log import empty_log
from pykraft.datasets import flights_table
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.spark.options import EARLIEST, LATEST, read_options
from pykraft.spark.reading.fetch import OffsetRange
from pykraft.spark.reading.plan import plan_on
from pykraft.spark.reading.pushdown import PushedFilters
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from pykraft.viz import Figure, read_by_tasks

TOPIC = "flights"
OPTIONS = "startingTimestamp, endingTimestamp"
PUSHED = "WHERE timestamp, with pushFilters"
WHERE = "WHERE timestamp"
DAYS = 31
_EVERY, _BATCH = 10, 20
"""Of the flights, and how many records a batch has."""
_DAY = datetime.timedelta(days=1)
BEGIN = datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC)
"""Midnight in New York."""
_LATE = 7 * _DAY
_MS_PER_MINUTE = 60_000


class Flight(NamedTuple):
    timestamp_ms: int
    carrier: bytes


class Logs:
    """The partitions of the topic, as `plan_on` asks for them."""

    def __init__(self, partitions: int, late_percent: int) -> None:
        self.timestamps: list[list[int]] = [[] for _ in range(partitions)]
        """By partition, of each record in the order of the offsets."""
        for flight in _in_order_of_arrival(late_percent):
            self.timestamps[partition_of_key(flight.carrier, partitions)].append(flight.timestamp_ms)
        self._logs = {
            TopicPartition(TOPIC, number): _written(number, some) for number, some in enumerate(self.timestamps)
        }

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        return sorted(self._logs)

    def existing_partitions(self, topics: Iterable[str] | None) -> list[TopicPartition]:
        return sorted(self._logs)

    def topic_id(self, topic: str) -> Uuid:
        return ZERO_UUID

    def offsets(self, marks: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """What a broker answers to ListOffsets."""
        return {partition: self._offset(self._logs[partition], mark) for partition, mark in marks.items()}

    def _offset(self, log: UnifiedLog, mark: int) -> int:
        if mark in (EARLIEST, LATEST):
            return log.log_start_offset if mark == EARLIEST else log.log_end_offset
        found = log.offset_for_timestamp(mark)
        return -1 if found is None else found.offset


def draw_replay(
    from_day: int, to_day: int, ask_by: str, late_percent: int, partitions: int, min_partitions: int
) -> Figure:
    """The tasks of a query for these days of January, what they fetch, and what of it you want. ValueError if the last
    day comes before the first."""
    if to_day < from_day:
        raise ValueError(f"to day is {to_day}: choose a day from {from_day} on")
    logs = _logs(partitions, late_percent)
    first_ms, end_ms = _midnight_ms(from_day), _midnight_ms(to_day + 1)
    tasks = planned(logs, ask_by, (first_ms, end_ms), min_partitions)
    wanted = {
        f"{TOPIC}-{number}": [offset for offset, ms in enumerate(some) if first_ms <= ms < end_ms]
        for number, some in enumerate(logs.timestamps)
    }
    fetched, all_wanted = sum(task.size for task in tasks), sum(map(len, wanted.values()))
    rows = sum(
        bisect_left(wanted[str(task.partition)], task.end) - bisect_left(wanted[str(task.partition)], task.start)
        for task in tasks
    )
    title = f"{_fetching(len(tasks))} {fetched:,} records, {rows:,} of them of these days"
    if rows < all_wanted:
        title += f"; late flights that are missing: {all_wanted - rows:,}"
    pieces = {name: _pieces(name, tasks, len(logs.timestamps[number])) for number, name in enumerate(wanted)}
    return read_by_tasks(pieces, title=title, note=_note(ask_by, from_day, to_day), wanted=wanted)


def planned(logs: Logs, ask_by: str, milliseconds: tuple[int, int], min_partitions: int) -> list[OffsetRange]:
    """One range for each task, as Spark's driver is given them."""
    first_ms, end_ms = milliseconds
    said = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": TOPIC}
    if min_partitions:
        said["minPartitions"] = str(min_partitions)
    if ask_by == OPTIONS:
        said |= {"startingTimestamp": str(first_ms), "endingTimestamp": str(end_ms)}
        said["startingOffsetsByTimestampStrategy"] = "latest"
    pushed = PushedFilters()
    if ask_by == PUSHED:
        column = ("timestamp",)
        pushed.push([GreaterThanOrEqual(column, _instant(first_ms)), LessThan(column, _instant(end_ms))])
    return plan_on(logs, read_options(said), pushed)


def _pieces(name: str, tasks: Sequence[OffsetRange], end: int) -> list[tuple[int, int, int | None]]:
    """A log from its first record to its last: what each task reads, and what none does."""
    found: list[tuple[int, int, int | None]] = []
    reached = 0
    for number, task in enumerate(tasks):
        if str(task.partition) == name:
            if task.start > reached:
                found.append((reached, task.start, None))
            found.append((task.start, task.end, number))
            reached = task.end
    return [*found, (reached, end, None)] if reached < end else found


def _note(ask_by: str, from_day: int, to_day: int) -> str:
    days = f"{from_day} January" if from_day == to_day else f"{from_day} to {to_day} January"
    said = {
        OPTIONS: "the driver turns both times into offsets",
        PUSHED: "the driver turns the lower bound into offsets, and Spark filters the rest",
        WHERE: "the source does not see the filter: Spark filters what was fetched",
    }
    return f"{days}, by {ask_by}: {said[ask_by]}."


def _fetching(tasks: int) -> str:
    return "1 task fetches" if tasks == 1 else f"{tasks:,} tasks fetch"


def _midnight_ms(day: int) -> int:
    return int((BEGIN + (day - 1) * _DAY).timestamp()) * 1000


def _instant(milliseconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)


# --- the flights and their logs ---------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _logs(partitions: int, late_percent: int) -> Logs:
    return Logs(partitions, late_percent)


@lru_cache(maxsize=1)
def _flights() -> list[Flight]:
    """Every tenth flight of January, in the order of the plan."""
    table = flights_table(["month", "carrier", "time_hour", "minute"]).slice(0, 30_000).to_pylist()
    return [
        Flight(int(row["time_hour"].timestamp()) * 1000 + row["minute"] * _MS_PER_MINUTE, row["carrier"].encode())
        for row in table[::_EVERY]
        if row["month"] == 1
    ]


def _in_order_of_arrival(late_percent: int) -> list[Flight]:
    """The late flights are spread evenly, and come a week after their time, or at the end of the month."""
    late_ms = int(_LATE.total_seconds() * 1000)

    def arrival(number: int) -> int:
        is_late = math.floor((number + 1) * late_percent / 100) > math.floor(number * late_percent / 100)
        return flights[number].timestamp_ms + is_late * late_ms

    flights = _flights()
    return [flights[number] for number in sorted(range(len(flights)), key=arrival)]


def _written(number: int, timestamps: Sequence[int]) -> UnifiedLog:
    """A log of these records in batches."""
    log = empty_log(TopicPartition(TOPIC, number), LOG_CONFIG.resolve().with_values(retention_ms=-1))
    for start in range(0, len(timestamps), _BATCH):
        builder = RecordBatchBuilder()
        for timestamp in timestamps[start : start + _BATCH]:
            builder.append(timestamp, None, b"flight")
        log.append_as_leader(RecordBatch(memoryview(builder.build())), 0, AppendOrigin.CLIENT)
    log.update_high_watermark(log.log_end_offset)
    return log
