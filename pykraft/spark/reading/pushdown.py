"""Filters of a batch query that become ranges of offsets, so that what they leave out is never fetched.

Spark hands a source the parts of a WHERE that compare one column with literals, and are joined by AND. A part that is
not returned is ours alone: Spark does not look at it again.

- `topic` and `partition` leave out whole partitions, and `offset` cuts ranges. That is exact, so these parts are ours.
  Of an IN on offsets only the smallest and the largest become a range, and the part stays with Spark.
- Of `timestamp`, only a lower bound is of use, as the offset where reading starts. ListOffsets gives the first offset
  whose record is at least as young: all records before it are older. There is no such rule for an upper bound, because
  timestamps may run backwards: a producer sets them, and after the first record that is too young an old one can come.
  An end offset from the time index would lose rows. The part stays with Spark, for it holds for some records only.

The ends of the ranges are fixed before the time is looked up. So a partition without a record that young has none up to
its end.

Spark 4.3 keeps the plan of one query for the others of the same DataFrame, filters and all: after
``topic.where("partition = 2").count()`` a ``topic.count()`` would count one partition, and a union of two filters would
read one of them twice. So filters are pushed down only where the option ``pushFilters`` says that the DataFrame is for
one query, loaded for it; otherwise Spark filters what was fetched. (Spark's main branch keeps the plan with the scan.)
Spark asks for filters only if spark.sql.python.filterPushdown.enabled is true. `pykraft.spark.session` sets it.
"""

import datetime
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from pykraft.common.types import TopicPartition
from pykraft.spark.reading.fetch import OffsetRange

NO_OFFSET = -1
_NO_END = 1 << 63
_NEVER_NULL = ("topic", "partition", "offset", "timestamp")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_COMPARISONS: Mapping[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, literals: value in literals,
}


class LooksUpOffsets(Protocol):
    """What is needed of `Brokers`."""

    def offsets(self, marks: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]: ...


class PushedFilters:
    """What the filters of one query leave to be read. It travels to the executors with the reader."""

    def __init__(self) -> None:
        self._of_partitions: list[Filter] = []
        self._first = 0
        self._end = _NO_END
        self._oldest_ms: int | None = None

    def push(self, filters: Iterable[Filter]) -> list[Filter]:
        """Take in the filters; those that are returned stay with Spark."""
        return [each for each in filters if not self._take(each)]

    def clipped(self, ranges: Sequence[OffsetRange], brokers: LooksUpOffsets) -> list[OffsetRange]:
        """What the filters leave of the ranges."""
        left = [self._cut(offsets) for offsets in ranges if self._admits(offsets.partition)]
        left = [offsets for offsets in left if offsets.size > 0]
        if self._oldest_ms is None or not left:
            return left
        starts = brokers.offsets(dict.fromkeys((offsets.partition for offsets in left), self._oldest_ms))
        return [
            offsets._replace(start=max(offsets.start, starts[offsets.partition]))
            for offsets in left
            if starts[offsets.partition] != NO_OFFSET
        ]

    def _take(self, each: Filter) -> bool:
        """Whether the filter is fully taken care of here."""
        column = ".".join(getattr(each.child if isinstance(each, Not) else each, "attribute", ()))
        if isinstance(each, IsNotNull):
            return column in _NEVER_NULL
        if column in ("topic", "partition"):
            return self._take_of_partitions(each)
        if column == "offset":
            return self._take_offset(each)
        if column == "timestamp":
            self._note_oldest(each)
        return False

    def _take_of_partitions(self, each: Filter) -> bool:
        """NULL among the literals has rules of its own: such a filter stays with Spark."""
        compared: Any = each.child if isinstance(each, Not) else each
        if type(compared) not in _COMPARISONS:
            return False
        literals = compared.value if isinstance(compared, In) else [compared.value]
        is_known = all(isinstance(literal, (int, str)) for literal in literals)
        if is_known:
            self._of_partitions.append(each)
        return is_known

    def _take_offset(self, each: Filter) -> bool:
        match each:
            case EqualTo(_, int(value)):
                self._narrow(value, value + 1)
            case GreaterThan(_, int(value)):
                self._narrow(value + 1, _NO_END)
            case GreaterThanOrEqual(_, int(value)):
                self._narrow(value, _NO_END)
            case LessThan(_, int(value)):
                self._narrow(0, value)
            case LessThanOrEqual(_, int(value)):
                self._narrow(0, value + 1)
            case In(_, values) if values and all(isinstance(value, int) for value in values):
                self._narrow(min(values), max(values) + 1)
                return False
            case _:
                return False
        return True

    def _narrow(self, first: int, end: int) -> None:
        self._first = max(self._first, first)
        self._end = min(self._end, end)

    def _note_oldest(self, each: Filter) -> None:
        """Kafka counts milliseconds and Spark microseconds: rounded down, the bound leaves out nothing."""
        match each:
            case EqualTo(_, datetime.datetime() as time) | GreaterThan(_, time) | GreaterThanOrEqual(_, time):
                if isinstance(time, datetime.datetime) and time.tzinfo is not None:
                    oldest = max(0, (time - _EPOCH) // _MILLISECOND)
                    self._oldest_ms = max(oldest, self._oldest_ms or 0)

    def _admits(self, partition: TopicPartition) -> bool:
        return all(_holds(each, partition) for each in self._of_partitions)

    def _cut(self, offsets: OffsetRange) -> OffsetRange:
        return offsets._replace(start=max(offsets.start, self._first), end=min(offsets.end, self._end))


def _holds(each: Filter, partition: TopicPartition) -> bool:
    if isinstance(each, Not):
        return not _holds(each.child, partition)
    (column,) = each.attribute  # type: ignore[attr-defined]
    return _COMPARISONS[type(each)](getattr(partition, column), each.value)  # type: ignore[attr-defined]
