"""One partition's range of offsets, fetched from its leader: which batches come, and which of them a reader sees.

The fetching is the consumer's (`client.consuming.fetcher`), and so is the rule of what a reader sees
(`records.visibility`). But batches are handed out as they came, and where they came, for the decoder reads thousands of
records in step. The next fetch is sent before they are handed out, so that the broker reads and the network carries
while the executor decodes.

Not every offset has a record. So the way through the range is counted in batches, by the offset after the last one, and
never in records.

An offset that the log does not have (any more) is an error, or, with ``failOnDataLoss=false``, the reason to go on at
the log's start; and a log that ends before the range does, and goes on so as long as patience lasts, ends the range. So
does a topic that was deleted, even if another one has its name now: the range knows the id of the topic for which it
was planned.

Follows org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pykraft.client import config as keys
from pykraft.client.errors import ClientTimeoutError, LogTruncationError, NoOffsetError
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pykraft.records.batch import RecordBatch
from pykraft.spark import brokers as cluster
from pykraft.spark.brokers import Brokers
from pykraft.spark.options import ReadOptions
from pykraft.spark.worker import Shelf

_TOPIC_IS_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID)


class OffsetRange(NamedTuple):
    """What one task reads: the offsets [start, end) of one partition. With a `topic_id`, of no other topic of the same
    name."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: Uuid | None = None

    @property
    def size(self) -> int:
        return self.end - self.start


class PartitionFetch:
    """Reads one range. `batches` may be iterated once. The records from `start` on are to be seen. The client comes
    from `shelf`, and goes back there."""

    def __init__(self, options: ReadOptions, offsets: OffsetRange, shelf: Shelf | None = None) -> None:
        self._shelf = shelf or Shelf(keeps=False)
        self._options = options
        self._partition = offsets.partition
        self.start = offsets.start
        """The first offset that a reader should see: it moves on when records before it were deleted, for a broker
        still sends the whole batch in which its log begins."""
        self._position = offsets.start
        self._end = offsets.end
        self._topic_id = offsets.topic_id

    def batches(self) -> Iterator[list[RecordBatch]]:
        """The batches that a reader sees, some at a time, valid until the next are asked for. The first and the last
        ones may hold records outside of the range. CorruptRecordError if one cannot be what was written."""
        with self._shelf.lent(self._options, self._partition, self._topic_id) as brokers:
            brokers.reader.seek(self._partition, self._position)
            while self._position < self._end:
                yield self._next_batches(brokers)

    def _next_batches(self, brokers: Brokers) -> list[RecordBatch]:
        reader = brokers.reader
        what = f"reading {self._partition} from offset {self._position} on"
        try:
            brokers.wait_for_news(what, self._partition, lambda began: self._check_topic(brokers, began))
            reader.raise_error()
            found = reader.fetcher.take_batches()
        except KafkaError as error:
            self._go_on_after(error, brokers)
            return []
        if found is None:
            return []
        position = reader.state(self._partition).position
        assert position is not None
        self._position = position.offset
        if self._position < self._end:
            brokers.client.send()  # which fetches ahead
        return [batch for batch in found[1] if batch.base_offset < self._end]

    def _check_topic(self, brokers: Brokers, began: int) -> None:
        """KafkaError if the topic has had another id for so long that this cannot be old news."""
        is_another = brokers.reader.fetcher.is_another_topic(self._partition.topic)
        if is_another and brokers.client.now - began > cluster.UNKNOWN_TOPIC_S * 1000:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"topic {self._partition.topic} was deleted and created again after this query was planned: the records"
                f" of {self._partition} from offset {self._position} to {self._end} are gone (failOnDataLoss=false goes"
                " on without them)",
            )

    # --- what is not there --------------------------------------------------------------------------------------------

    def _go_on_after(self, error: KafkaError, brokers: Brokers) -> None:
        """Go on with what is there, if that is what the user wants; raise the error if not."""
        may_go_on = not self._options.fail_on_data_loss
        is_at_the_end = isinstance(error, ClientTimeoutError) and brokers.is_at_the_end(self._partition)
        if isinstance(error, NoOffsetError) or (isinstance(error, LogTruncationError) and may_go_on):
            self._go_on_after_loss(brokers)
        elif (error.code in _TOPIC_IS_GONE or is_at_the_end) and may_go_on:
            self._position = self._end
        elif error.code is ErrorCode.RECORD_LIST_TOO_LARGE:
            setting = keys.MAX_PARTITION_FETCH_BYTES.name
            raise KafkaError(error.code, error.detail.replace(setting, f"kafka.{setting}")) from None
        else:
            raise error

    def _go_on_after_loss(self, brokers: Brokers) -> None:
        """The log does not have the offset: say so, or go on at the first one that it has."""
        first = brokers.offsets({self._partition: EARLIEST_TIMESTAMP})[self._partition]
        end = brokers.offsets({self._partition: LATEST_TIMESTAMP})[self._partition]
        if self._options.fail_on_data_loss:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self._partition} has the offsets from {first} to {end}, and no longer offset {self._position}:"
                " records were deleted before they were read (failOnDataLoss=false goes on without them)",
            )
        if self._position >= end:
            self._position = self._end
        else:
            self.start = self._position = max(self._position, first)
            brokers.reader.seek(self._partition, self._position)
