"""The plan of a query: which offsets of which partitions are read, cut into one range for each task.

This is all that the driver asks the brokers: which partitions there are, and where they begin and end. Both ends are
fixed here, when the query is planned, so all tasks see the same moment of the topic, however long they take and
whatever is produced meanwhile. (Spark's own source asks for the end in each task.) So are the ids of the topics: a task
reads nothing of a topic that was made under the same name after the plan.

``minPartitions`` cuts long ranges into pieces in proportion to their length, so that there are about as many pieces;
``maxRecordsPerPartition`` cuts them so that none is longer. Offsets are counted, not records: cleaning and transactions
leave gaps.

Follows org.apache.spark.sql.kafka010.{KafkaOffsetReaderAdmin,KafkaOffsetRangeCalculator,ConsumerStrategy}.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.spark.brokers import Brokers
from pykraft.spark.options import EARLIEST, LATEST, Bound, ReadOptions
from pykraft.spark.reading.fetch import OffsetRange
from pykraft.spark.reading.pushdown import NO_OFFSET, LooksUpOffsets, PushedFilters

Offsets = Mapping[TopicPartition, int]


class KnowsTopics(LooksUpOffsets, Protocol):
    """What is needed of `Brokers`: which partitions there are, the ids of their topics, and their offsets."""

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]: ...

    def existing_partitions(self, topics: Iterable[str] | None) -> list[TopicPartition]: ...

    def topic_id(self, topic: str) -> Uuid: ...


def plan(options: ReadOptions, pushed: PushedFilters | None = None) -> list[OffsetRange]:
    """The ranges to read, none of them empty: what the `pushed` filters leave of what was asked for. ConfigError or
    KafkaError, with one sentence, if it cannot be planned."""
    with Brokers(options.consumer, options.patience_ms) as brokers:
        return plan_on(brokers, options, pushed)


def plan_on(brokers: KnowsTopics, options: ReadOptions, pushed: PushedFilters | None = None) -> list[OffsetRange]:
    """The same, asked of these brokers."""
    partitions = assigned_partitions(options, brokers)
    topic_ids = {one.topic: brokers.topic_id(one.topic) for one in partitions}  # before the offsets are asked for
    starts = _resolve(options.starting, partitions, brokers, options.latest_if_none_as_young)
    ends = _resolve(options.ending, partitions, brokers, latest_if_none=True)
    ranges = [OffsetRange(one, starts[one], ends[one], _known(topic_ids[one.topic])) for one in partitions]
    if not isinstance(options.starting.marks, int) or not isinstance(options.ending.marks, int):
        ranges = _within_the_logs(ranges, options, brokers)
    if pushed is not None:
        ranges = pushed.clipped(ranges, brokers)
    return cut(ranges, options.min_partitions, options.max_records_per_partition)


def _known(topic_id: Uuid) -> Uuid | None:
    """None for brokers that have no ids."""
    return None if topic_id == ZERO_UUID else topic_id


def assigned_partitions(options: ReadOptions, brokers: KnowsTopics) -> list[TopicPartition]:
    """The partitions that were asked for, in order; KafkaError if one does not exist."""
    if options.pattern:
        return [one for one in brokers.existing_partitions(None) if re.search(options.pattern, one.topic)]
    existing = brokers.partitions(options.topics or {partition.topic for partition in options.assigned})
    if not options.assigned:
        return existing
    missing = sorted(set(options.assigned) - set(existing))
    if missing:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"assign names {missing[0]}, which does not exist")
    return list(options.assigned)


def starting_offsets(
    options: ReadOptions, partitions: Sequence[TopicPartition], brokers: KnowsTopics
) -> dict[TopicPartition, int]:
    """Where a stream begins, in each partition: within its log, or it is an error."""
    starts = _resolve(options.starting, partitions, brokers, options.latest_if_none_as_young)
    if isinstance(options.starting.marks, int):
        return starts
    empty = [OffsetRange(partition, offset, offset) for partition, offset in starts.items()]
    inside = _within_the_logs(empty, options, brokers)
    return {each.partition: each.start if each.start > starts[each.partition] else each.end for each in inside}


def _resolve(
    bound: Bound, partitions: Sequence[TopicPartition], brokers: KnowsTopics, latest_if_none: bool
) -> dict[TopicPartition, int]:
    """The offset of one end of what is read, in each partition."""
    marks = dict.fromkeys(partitions, bound.marks) if isinstance(bound.marks, int) else dict(bound.marks)
    if marks.keys() != set(partitions):
        odd = sorted(marks.keys() ^ set(partitions))[0]
        what = "names" if odd in marks else "does not name"
        raise ConfigError(
            f"{bound.option} {what} {odd}; it must name exactly the partitions that are read:"
            f" {', '.join(map(str, partitions))}"
        )
    asked = {partition: mark for partition, mark in marks.items() if bound.by_time or mark < 0}
    found = {**marks, **(brokers.offsets(asked) if asked else {})}
    too_old = [partition for partition in partitions if found[partition] == NO_OFFSET]
    if too_old and not latest_if_none:
        raise ConfigError(
            f"{bound.option}: {too_old[0]} has no record as young as {marks[too_old[0]]}"
            " (startingOffsetsByTimestampStrategy=latest reads nothing of it)"
        )
    if too_old:
        found |= brokers.offsets(dict.fromkeys(too_old, LATEST))
    return found


def _within_the_logs(ranges: Sequence[OffsetRange], options: ReadOptions, brokers: KnowsTopics) -> list[OffsetRange]:
    """The same ranges where the logs have them; otherwise an error, or what the logs have of them."""
    partitions = [offsets.partition for offsets in ranges]
    firsts = brokers.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = brokers.offsets(dict.fromkeys(partitions, LATEST))
    inside = []
    for offsets in ranges:
        partition, start, end = offsets.partition, offsets.start, offsets.end
        first, last = firsts[partition], ends[partition]
        if options.fail_on_data_loss:
            for bound, offset in ((options.starting, start), (options.ending, end)):
                if not first <= offset <= last:
                    raise KafkaError(
                        ErrorCode.OFFSET_OUT_OF_RANGE,
                        f"{bound.option} asks for offset {offset} of {partition}, which has the offsets from {first} to"
                        f" {last} (failOnDataLoss=false reads what is there)",
                    )
        inside.append(offsets._replace(start=max(start, first), end=min(end, last)))
    return inside


def cut(ranges: Sequence[OffsetRange], min_partitions: int = 0, max_records: int = 0) -> list[OffsetRange]:
    """The same offsets in about `min_partitions` ranges, none longer than `max_records`; 0 is no wish. Empty ranges are
    left out."""
    ranges = [offsets for offsets in ranges if offsets.size > 0]
    if max_records:
        ranges = [part for offsets in ranges for part in _parts(offsets, math.ceil(offsets.size / max_records))]
    if len(ranges) >= min_partitions:
        return ranges
    total = sum(offsets.size for offsets in ranges)
    small = [offsets for offsets in ranges if _share(offsets.size, total, min_partitions) == 1]
    rest = total - sum(offsets.size for offsets in small)
    wanted = max(1, min_partitions - len(small))
    return [
        part
        for offsets in ranges
        for part in _parts(offsets, 1 if offsets in small else _share(offsets.size, rest, wanted))
    ]


def _share(size: int, total: int, pieces: int) -> int:
    """How many of the pieces so large a part of the total gets: one at least, and halves are rounded up."""
    return max(1, (2 * size * pieces + total) // (2 * total))


def _parts(offsets: OffsetRange, count: int) -> list[OffsetRange]:
    """The range in `count` pieces whose lengths differ by one at most, or fewer if it is shorter."""
    found = []
    start = offsets.start
    for left in range(min(count, offsets.size), 0, -1):
        end = start + (offsets.end - start) // left
        found.append(offsets._replace(start=start, end=end))
        start = end
    return found
