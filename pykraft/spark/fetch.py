"""One partition's range of offsets, fetched from its leader: which batches come, and which of them a reader sees.

The next fetch is sent before the batches of the last one are handed out, so that the broker reads and the network
carries while the executor decodes. A fetch brings whole batches: the first one in any case, however large (Kafka sees
to that since 0.10.1), and a torn one at its end that is fetched again with the next.

Not every offset has a record, and not every record is seen. Control batches are for the log; cleaning leaves gaps; and
a reader of committed data is shown nothing of aborted transactions: the leader sends along which producers aborted,
each with the first offset of that transaction, and from there on the producer's batches are left out until its abort
marker. So the way through the range is counted in batches, by the offset after the last one, and never in records.

A leader that has gone, or moved, is looked up again. An offset that the log does not have (any more) is an error, or,
with ``failOnDataLoss=false``, the reason to go on at the log's start; and a log that ends before the range does, and
goes on so as long as patience lasts, ends the range. So does a topic that was deleted, even if another one has its name
now: the range knows the id of the topic for which it was planned.

Follows org.apache.kafka.clients.consumer.internals.{AbstractFetch,FetchCollector,CompletedFetch} and
org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

from pykraft.client import config as keys
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError, ProtocolError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, FetchRequest, FetchResponse
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.visibility import Visibility
from pykraft.spark.options import ReadOptions
from pykraft.spark.wire import BROKEN, Brokers, Connection, Leader

READ_COMMITTED = 1
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
    """Reads one range. `batches` may be iterated once. The records from `start` on are to be seen."""

    def __init__(self, options: ReadOptions, offsets: OffsetRange) -> None:
        self._options = options
        self._config = options.consumer
        self._partition = offsets.partition
        self.start = offsets.start
        """The first offset that a reader should see: it moves on when records before it were deleted, for a broker
        still sends the whole batch in which its log begins."""
        self._position = offsets.start
        self._end = offsets.end
        self._topic_id = offsets.topic_id
        self._read_committed = self._config[keys.ISOLATION_LEVEL] == "read_committed"
        self._connection: Connection | None = None
        self._leader: Leader
        self._is_under_way = False
        self._is_at_the_end = False
        """Whether the last answer was that there is nothing from the position on."""

    def batches(self) -> Iterator[list[RecordBatch]]:
        """The batches that a reader sees, some at a time, valid until the next are asked for. The first and the last
        ones may hold records outside of the range. CorruptRecordError if one cannot be what was written."""
        with Brokers(self._config, self._options.patience_ms) as brokers:
            try:
                while self._position < self._end:
                    yield self._next_batches(brokers)
            finally:
                self._disconnect()

    def _next_batches(self, brokers: Brokers) -> list[RecordBatch]:
        what = f"reading {self._partition} from offset {self._position} on"
        try:
            seen = brokers.retried(what, lambda: self._attempt(brokers))
        except KafkaError as error:
            self._go_on_after(error, brokers)
            return []
        self._fetch_ahead()
        return seen

    # --- fetching -----------------------------------------------------------------------------------------------------

    def _attempt(self, brokers: Brokers) -> list[RecordBatch]:
        self._is_at_the_end = False
        try:
            return self._read(self._fetch(brokers))
        except (KafkaError, *BROKEN) as error:
            if not (isinstance(error, KafkaError) and error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED):
                self._disconnect()
            raise

    def _fetch(self, brokers: Brokers) -> FetchResponse.Topic.Partition:
        """The answer to a fetch at the position; KafkaError if it is an error, or brings nothing."""
        if self._connection is None:
            self._leader = self._found_leader(brokers)
            self._connection = brokers.connect(self._leader.node.endpoint, self._config[keys.FETCH_MAX_WAIT_MS])
        if not self._is_under_way:
            self._connection.send(self._request(self._leader))
        self._is_under_way = False
        response = cast(FetchResponse, self._connection.receive())
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        if response.throttle_time_ms and not response.responses:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the quota of this client is used up for now")
        answers = [answer for topic in response.responses for answer in topic.partitions]
        if [answer.partition_index for answer in answers] != [self._partition.partition]:
            raise ProtocolError(f"a fetch of {self._partition} was answered with something else")
        answer = answers[0]
        if answer.error_code:
            error = ErrorCode.of(answer.error_code)
            raise KafkaError(error, f"{self._partition}: {error.text}")
        if not answer.records:
            seen = answer.last_stable_offset if self._read_committed else answer.high_watermark
            self._is_at_the_end = seen <= self._position
            detail = f"the leader of {self._partition} shows the offsets before {seen} only"
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, detail)
        return answer

    def _found_leader(self, brokers: Brokers) -> Leader:
        leader = brokers.leader(self._partition)
        if self._topic_id is not None and leader.topic_id not in (self._topic_id, ZERO_UUID):
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"topic {self._partition.topic} was deleted and created again after this query was planned: the records"
                f" of {self._partition} from offset {self._position} to {self._end} are gone (failOnDataLoss=false goes"
                " on without them)",
            )
        return leader

    def _request(self, leader: Leader) -> FetchRequest:
        partition = FetchRequest.Topic.Partition(
            partition=self._partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self._position,
            partition_max_bytes=self._config[keys.MAX_PARTITION_FETCH_BYTES],
        )
        topic = FetchRequest.Topic(topic=self._partition.topic, topic_id=leader.topic_id, partitions=[partition])
        return FetchRequest(
            max_wait_ms=self._config[keys.FETCH_MAX_WAIT_MS],
            min_bytes=self._config[keys.FETCH_MIN_BYTES],
            max_bytes=self._config[keys.FETCH_MAX_BYTES],
            isolation_level=READ_COMMITTED if self._read_committed else 0,
            topics=[topic],
        )

    def _fetch_ahead(self) -> None:
        if self._connection is None or self._connection.pause_s or self._position >= self._end:
            return
        try:
            self._connection.send(self._request(self._leader))
            self._is_under_way = True
        except BROKEN:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._is_under_way = False

    # --- what came ----------------------------------------------------------------------------------------------------

    def _read(self, answer: FetchResponse.Topic.Partition) -> list[RecordBatch]:
        """The batches of an answer that a reader sees; the position moves behind all that came."""
        aborted = answer.aborted_transactions or ()
        visibility = Visibility(self._read_committed, ((each.first_offset, each.producer_id) for each in aborted))
        check_crcs = self._config[keys.CHECK_CRCS]
        seen = []
        position = self._position
        records = memoryview(answer.records or b"")
        for batch in batches(records):
            if position >= self._end:
                break
            if check_crcs and not batch.is_valid:
                raise CorruptRecordError(f"{self._partition}: {batch} fails its checksum")
            is_shown = visibility.shows(batch)
            if batch.next_offset <= position:
                continue  # a leader may begin a little early
            if is_shown:
                seen.append(batch)
            position = batch.next_offset
        if position == self._position:
            self._complain_of(len(records))
        self._position = position
        return seen

    def _complain_of(self, size: int) -> None:
        """Bytes came, and yet not one batch that goes on from here."""
        where = f"{self._partition} at offset {self._position}"
        if size >= self._config[keys.MAX_PARTITION_FETCH_BYTES]:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{where}: a batch is larger than kafka.max.partition.fetch.bytes"
                f" ({self._config[keys.MAX_PARTITION_FETCH_BYTES]}), and its broker sends only so much",
            )
        raise CorruptRecordError(f"{where}: what the broker sent does not go on from there")

    def _go_on_after(self, error: KafkaError, brokers: Brokers) -> None:
        """Go on with what is there, if that is what the user wants; raise the error if not."""
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._go_on_after_loss(brokers)
        elif (self._is_at_the_end or error.code in _TOPIC_IS_GONE) and not self._options.fail_on_data_loss:
            self._position = self._end
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
