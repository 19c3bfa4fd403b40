"""The plan of a stream: up to which offset the next batch reads, what of that is new, and what was lost.

A stream is a series of batches. For each one, Spark asks how far the topics go (`latest_offset`), writes the answer to
its checkpoint, asks for the ranges between two answers (`ranges`), and lets tasks read them. If the query dies, Spark
repeats the last batch that it did not commit, from the offsets in the checkpoint. So this module remembers nothing that
matters: what it knows of the past is the offset that Spark hands back (`offsets`).

Each look at the cluster asks for the topics again, so new partitions, and new topics of a pattern, are found with the
next batch. They are read from their first offset, whatever ``startingOffsets`` says.

Records can be gone before they were read. `_losses` finds the signs: a partition disappeared, its topic has another id,
its log ends before the offset where the query goes on, or a new partition does not begin at 0. A broker that just
started may show old metadata, so each sign is looked at again (``fetchOffset.numRetries``). Then ``failOnDataLoss``
ends the query. Without it there is a warning, a topic that was created again is read from its first offset, and
partitions that are gone are forgotten. That the first records of a partition were deleted is found by the task which
asks for them (`fetch`).

Follows org.apache.spark.sql.kafka010.{KafkaMicroBatchStream,KafkaOffsetReaderAdmin}. Unlike them it notices that a
topic was deleted and created again when the new one is the longer one.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.spark.brokers import Brokers
from pykraft.spark.options import EARLIEST, LATEST, ReadOptions
from pykraft.spark.reading.fetch import OffsetRange
from pykraft.spark.reading.offsets import Offsets, StreamOffset
from pykraft.spark.reading.plan import assigned_partitions, cut, starting_offsets

_LISTS = 5
_logger = logging.getLogger(__name__)


class StreamPlanner:
    """Plans one query, from one thread; its connections stay open until `close`."""

    def __init__(self, options: ReadOptions, sleep: Callable[[float], object] = time.sleep) -> None:
        self._options = options
        self._brokers = Brokers(options.consumer, options.patience_ms)
        self._sleep = sleep
        self._initial: StreamOffset | None = None
        self._target: StreamOffset | None = None
        self._warned: set[str] = set()
        self.latest: StreamOffset | None = None
        """How far the topics went when the last batch was planned."""

    def close(self) -> None:
        self._brokers.close()

    def initial_offset(self) -> StreamOffset:
        """Where a new query begins. Spark asks twice, and must get the same answer."""
        if self._initial is None:
            partitions = assigned_partitions(self._options, self._brokers)
            topic_ids = self._topic_ids(partitions)
            offsets = starting_offsets(self._options, partitions, self._brokers)
            self._initial = StreamOffset(offsets, topic_ids, began=offsets)
            if self._target is not None:
                self._target = _raised(self._target, self._initial)
        return self._initial

    def fix_target(self) -> None:
        """Let the query end where the topics end now."""
        self._target = self._look()

    def latest_offset(self, start: StreamOffset, max_offsets: int | None) -> StreamOffset:
        """Where the batch that begins at `start` ends, having at most about `max_offsets`; `start` if there is nothing
        to read. KafkaError if records were lost, and that is an error."""
        latest, begins = self._checked_look(start)
        self.latest = latest
        offsets = latest.offsets
        if max_offsets is not None:
            offsets = rate_limited(max_offsets, begins, offsets)
        if offsets == start.offsets and latest.topic_ids == start.topic_ids:
            return start
        return replace(latest, offsets=offsets, began=start.began if start.is_beginning else None)

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
        """What the batch between the two offsets reads, cut into a range for each task."""
        if start.is_beginning and end.began is not None:
            start = replace(start, offsets=end.began)  # the first batch is planned again: see `offsets`
        begins = self._begins(start, end)
        self._complain(list(self._losses(start, end, begins)))
        ranges = [
            OffsetRange(partition, begins[partition], last, end.topic_ids.get(partition.topic))
            for partition, last in sorted(end.offsets.items())
            if partition in begins
        ]
        return cut(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    # --- looking at the cluster ---------------------------------------------------------------------------------------

    def _look(self) -> StreamOffset:
        """How far the topics go now. A topic of a pattern may be deleted after it was listed: the next list does not
        have it."""
        for lists_left in range(_LISTS - 1, -1, -1):
            partitions = assigned_partitions(self._options, self._brokers)
            topic_ids = self._topic_ids(partitions)
            try:
                return StreamOffset(self._brokers.offsets(dict.fromkeys(partitions, LATEST)), topic_ids)
            except KafkaError as error:
                is_gone = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._options.pattern
                if not (is_gone and lists_left):
                    raise
        raise AssertionError("the last list raises or returns")

    def _topic_ids(self, partitions: list[TopicPartition]) -> dict[str, Uuid]:
        found = {topic: self._brokers.topic_id(topic) for topic in sorted({each.topic for each in partitions})}
        return {topic: topic_id for topic, topic_id in found.items() if topic_id != ZERO_UUID}

    def _checked_look(self, start: StreamOffset) -> tuple[StreamOffset, Offsets]:
        """How far the topics go, and where in each of them the batch begins."""
        for attempts_left in range(self._options.loss_retries, -1, -1):
            latest = self._target or self._look()
            begins = self._begins(start, latest)
            losses = list(self._losses(start, latest, begins))
            if not (losses and attempts_left):
                break
            self._sleep(self._options.loss_retry_interval_ms / 1000)
            if self._target is not None:
                self.fix_target()
        self._complain(losses)
        return latest, begins

    def _begins(self, start: StreamOffset, end: StreamOffset) -> dict[TopicPartition, int]:
        """Where each partition of `end` is read from: at `start`, or, if it is new, at its first offset. A new one that
        is gone already is left out."""
        new = [one for one in end.offsets if one not in start.offsets or start.has_another_topic(one.topic, end)]
        known = {one: start.offsets[one] for one in end.offsets.keys() - set(new)}
        if not new:
            return known
        existing = set(self._brokers.existing_partitions({one.topic for one in new}))
        return known | self._brokers.offsets({one: EARLIEST for one in new if one in existing})

    # --- losses -------------------------------------------------------------------------------------------------------

    def _losses(self, start: StreamOffset, end: StreamOffset, begins: Offsets) -> Iterator[str]:
        """What was lost between the two offsets, in one sentence each."""
        for partition, offset in sorted(start.offsets.items()):
            if partition not in end.offsets:
                yield f"{partition} does not exist any more: this query had read it up to offset {offset}"
            elif start.has_another_topic(partition.topic, end):
                yield (
                    f"topic {partition.topic} was deleted and created again: of the deleted one, this query had read"
                    f" {partition} up to offset {offset}"
                )
            elif end.offsets[partition] < offset:
                yield (
                    f"{partition} ends at offset {end.offsets[partition]}, but this query had read it up to offset"
                    f" {offset}: its log was truncated, or its topic was created again"
                )
        for partition in sorted(end.offsets.keys() - start.offsets.keys()):
            if partition not in begins:
                yield f"{partition} was found by this query and does not exist any more: nothing of it was read"
            elif begins[partition] > 0:
                yield f"{partition} is new and begins at offset {begins[partition]}: the records before were deleted"

    def _complain(self, losses: list[str]) -> None:
        if losses and self._options.fail_on_data_loss:
            more = f"; and {len(losses) - 1} more partitions" if len(losses) > 1 else ""
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{losses[0]}{more} (failOnDataLoss=false goes on with the records that are there)",
            )
        for loss in losses:
            if loss not in self._warned:
                self._warned.add(loss)
                _logger.warning("%s", loss)


def _raised(target: StreamOffset, initial: StreamOffset) -> StreamOffset:
    """The target of a query that begins at `initial`: records, and partitions, may have come since it was fixed."""
    ends = {**target.offsets}
    for partition, offset in initial.offsets.items():
        ends[partition] = max(offset, ends.get(partition, 0))
    return StreamOffset(ends, {**target.topic_ids, **initial.topic_ids})


def rate_limited(limit: int, begins: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """Ends that leave about `limit` offsets in all, shared in proportion to what each partition has; each that has any
    gets one. The arithmetic is that of Spark's own source, in doubles, so that both make the same batches."""
    sizes = {partition: end - begins[partition] for partition, end in ends.items() if begins.get(partition, end) < end}
    total = float(sum(sizes.values()))
    limited = dict(ends)
    for partition, size in sizes.items():
        share = limit * (size / total)
        whole = math.ceil(share) if share < 1 else math.floor(share)
        limited[partition] = min(ends[partition], begins[partition] + whole)
    return limited
