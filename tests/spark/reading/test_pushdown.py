"""Filters that become ranges of offsets: never a row too few, and a filter that Spark does not see again is exact."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pykraft.common.types import TopicPartition
from pykraft.spark.reading.fetch import OffsetRange
from pykraft.spark.reading.pushdown import NO_OFFSET, PushedFilters

OFFSET, PARTITION, TOPIC, TIME, KEY = ("offset",), ("partition",), ("topic",), ("timestamp",), ("key",)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def at(milliseconds: float) -> datetime.datetime:
    return EPOCH + datetime.timedelta(milliseconds=milliseconds)


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: datetime.datetime


class Log:
    """Partitions whose records have these timestamps, in milliseconds; it answers like ListOffsets."""

    def __init__(self, timestamps: Mapping[TopicPartition, Sequence[int]]) -> None:
        self.timestamps = timestamps
        self.asked: list[Mapping[TopicPartition, int]] = []

    @property
    def ranges(self) -> list[OffsetRange]:
        return [OffsetRange(partition, 0, len(times)) for partition, times in self.timestamps.items()]

    def offsets(self, marks: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked.append(marks)
        return {
            partition: next((n for n, time in enumerate(self.timestamps[partition]) if time >= mark), NO_OFFSET)
            for partition, mark in marks.items()
        }

    def rows(self, ranges: Sequence[OffsetRange]) -> list[Row]:
        return [
            Row(*offsets.partition, offset, at(self.timestamps[offsets.partition][offset]))
            for offsets in ranges
            for offset in range(offsets.start, offsets.end)
        ]


def holds(each: Any, row: Row) -> bool:
    """What Spark makes of the filter."""
    if isinstance(each, Not):
        return not holds(each.child, row)
    value: Any = getattr(row, each.attribute[0])
    match each:
        case EqualTo() | EqualNullSafe():
            return bool(value == each.value)
        case GreaterThan():
            return bool(value > each.value)
        case GreaterThanOrEqual():
            return bool(value >= each.value)
        case LessThan():
            return bool(value < each.value)
        case LessThanOrEqual():
            return bool(value <= each.value)
        case In():
            return value in each.value
    return isinstance(each, IsNotNull)


def check(log: Log, filters: Sequence[Filter], kind: Callable[[], PushedFilters] = PushedFilters) -> None:
    """The rows of the ranges that the stayed filters let pass are those that all filters let pass of all rows."""
    pushed = kind()
    stayed = pushed.push(filters)
    read = log.rows(pickle.loads(pickle.dumps(pushed)).clipped(log.ranges, log))
    expected = [row for row in log.rows(log.ranges) if all(holds(each, row) for each in filters)]
    assert [row for row in read if all(holds(each, row) for each in stayed)] == expected


BACKWARDS = Log({TopicPartition("t", 0): [5, 9, 3, 8, 1], TopicPartition("t", 1): [1, 2], TopicPartition("u", 0): []})


@pytest.mark.parametrize(
    ("filters", "stayed", "ranges"),
    [
        ([], 0, ["t-0 0 5", "t-1 0 2"]),
        ([EqualTo(PARTITION, 1)], 0, ["t-1 0 2"]),
        ([IsNotNull(PARTITION), Not(EqualTo(PARTITION, 1))], 0, ["t-0 0 5"]),
        ([In(PARTITION, (1, 7))], 0, ["t-1 0 2"]),
        ([In(PARTITION, (1, None))], 1, ["t-0 0 5", "t-1 0 2"]),
        ([Not(In(PARTITION, (1, None)))], 1, ["t-0 0 5", "t-1 0 2"]),
        ([EqualTo(TOPIC, "u")], 0, []),
        ([LessThan(TOPIC, "u")], 0, ["t-0 0 5", "t-1 0 2"]),
        ([StringStartsWith(TOPIC, "t")], 1, ["t-0 0 5", "t-1 0 2"]),
        ([GreaterThan(OFFSET, 0), LessThanOrEqual(OFFSET, 3)], 0, ["t-0 1 4", "t-1 1 2"]),
        ([GreaterThanOrEqual(OFFSET, 2), LessThan(OFFSET, 4)], 0, ["t-0 2 4"]),
        ([EqualTo(OFFSET, 4)], 0, ["t-0 4 5"]),
        ([EqualTo(OFFSET, -1)], 0, []),
        ([In(OFFSET, (3, 1))], 1, ["t-0 1 4", "t-1 1 2"]),
        ([Not(EqualTo(OFFSET, 3))], 1, ["t-0 0 5", "t-1 0 2"]),
        ([IsNull(OFFSET)], 1, ["t-0 0 5", "t-1 0 2"]),
        ([GreaterThanOrEqual(TIME, at(6))], 1, ["t-0 1 5"]),
        ([GreaterThan(TIME, at(2)), GreaterThan(TIME, at(1))], 2, ["t-0 0 5", "t-1 1 2"]),
        ([GreaterThan(TIME, at(8.7))], 1, ["t-0 1 5"]),
        ([EqualTo(TIME, at(8))], 1, ["t-0 1 5"]),
        ([LessThan(TIME, at(4))], 1, ["t-0 0 5", "t-1 0 2"]),
        ([GreaterThan(TIME, at(-9))], 1, ["t-0 0 5", "t-1 0 2"]),
        ([IsNotNull(KEY), EqualTo(KEY, b"x")], 2, ["t-0 0 5", "t-1 0 2"]),
    ],
)
def test_a_filter_becomes_a_range_or_stays(filters: list[Filter], stayed: int, ranges: list[str]) -> None:
    pushed = PushedFilters()
    assert len(pushed.push(filters)) == stayed
    left = pushed.clipped(BACKWARDS.ranges, BACKWARDS)
    assert [f"{each.partition} {each.start} {each.end}" for each in left] == ranges


def test_a_time_is_looked_up_once_and_only_where_something_is_left() -> None:
    log = Log(BACKWARDS.timestamps)
    pushed = PushedFilters()
    pushed.push([GreaterThan(TIME, at(2)), EqualTo(PARTITION, 1)])
    pushed.clipped(log.ranges, log)
    assert log.asked == [{TopicPartition("t", 1): 2}]


COMPARISON = st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])


def compared(column: tuple[str], literal: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.builds(lambda kind, value: kind(column, value), COMPARISON, literal)
    one_of = st.builds(lambda values: In(column, tuple(values)), st.lists(literal, min_size=1, max_size=3))
    return plain | one_of | st.builds(Not, plain) | st.builds(Not, one_of) | st.just(IsNotNull(column))


TIMES = st.integers(0, 9)
FILTERS = st.lists(
    compared(OFFSET, st.integers(-1, 7))
    | compared(PARTITION, st.integers(0, 2))
    | compared(TOPIC, st.sampled_from(["a", "b"]))
    | compared(TIME, st.one_of(TIMES, st.floats(0, 9)).map(at)),
    max_size=4,
)
LOGS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 2)), st.lists(TIMES, max_size=6), max_size=4
).map(Log)


@given(LOGS, FILTERS)
def test_pushed_filters_change_no_answer(log: Log, filters: list[Filter]) -> None:
    check(log, filters)


class EndsByTime(PushedFilters):
    """The planted bug: reading ends at the first record that is too young."""

    def __init__(self) -> None:
        super().__init__()
        self._youngest_ms: int | None = None

    def push(self, filters: Any) -> list[Filter]:
        for each in filters:
            if isinstance(each, LessThan) and each.attribute == TIME:
                self._youngest_ms = (each.value - EPOCH) // datetime.timedelta(milliseconds=1)
        return super().push(filters)

    def clipped(self, ranges: Sequence[OffsetRange], brokers: Any) -> list[OffsetRange]:
        left = super().clipped(ranges, brokers)
        if self._youngest_ms is None:
            return left
        ends = brokers.offsets({each.partition: self._youngest_ms for each in left})
        known = {partition: end for partition, end in ends.items() if end != NO_OFFSET}
        return [each._replace(end=min(each.end, known.get(each.partition, each.end))) for each in left]


def test_an_end_offset_from_the_time_index_is_caught() -> None:
    """With timestamps in order it gives the right rows; here an old record comes after a young one."""
    check(Log({TopicPartition("t", 0): [1, 2, 3, 4]}), [LessThan(TIME, at(3))], EndsByTime)
    check(BACKWARDS, [LessThan(TIME, at(4))])
    with pytest.raises(AssertionError):
        check(BACKWARDS, [LessThan(TIME, at(4))], EndsByTime)
