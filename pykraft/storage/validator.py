"""What a leader checks before it appends a producer's batch.

The checksum tells that the bytes are those the producer sent; the checks here, that they are a batch at all. They look
at the header, and walk over the records from length to length, through the decompressed stream if there is a codec,
without decoding them: that the records are as many as the header says, and end where the batch ends. A stream is walked
in pieces, so a batch of a few bytes that decompresses to a gigabyte costs time, but no memory.

What comes in pieces wrong is answered as Apache Kafka answers it: a wrong checksum or length CORRUPT_MESSAGE, a header
that contradicts itself INVALID_RECORD, compressed data that cannot be read UNKNOWN_SERVER_ERROR.

Follows org.apache.kafka.storage.internals.log.{LogValidator,UnifiedLog} and
org.apache.kafka.common.requests.ProduceRequest.
"""

from collections.abc import Iterator

from pykraft.common.config import Config
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.topic_config import (
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_AFTER_MAX_MS,
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
    MESSAGE_TIMESTAMP_TYPE,
)
from pykraft.records.batch import HEADER_BYTES, MAGIC_OFFSET, RecordBatch, batches
from pykraft.records.compression import MAX_BATCH_BYTES, Compression, decompress_chunks

_LONGEST_VARINT = 5


def only_batch(data: memoryview) -> RecordBatch:
    """The one batch that a produce request may hold for a partition. What follows it, if it is no batch, is ignored."""
    if len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] in (0, 1):
        raise KafkaError(ErrorCode.INVALID_RECORD, "the records are in a message format older than 2")
    found = list(batches(data))
    if len(found) != 1:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a partition's records are {len(found)} batches instead of one")
    return found[0]


def validate(batch: RecordBatch, config: Config, now_ms: int) -> None:
    """Check a producer's batch; KafkaError says what is wrong. With log append time, the batch is stamped."""
    if batch.base_offset != 0:
        raise _invalid(f"the base offset is {batch.base_offset} instead of 0")
    if batch.size > config[MAX_MESSAGE_BYTES]:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {batch.size} bytes; {config[MAX_MESSAGE_BYTES]} are allowed"
        )
    if not batch.is_valid:
        raise CorruptRecordError("the batch fails its checksum")
    if batch.count < 1 or batch.last_offset_delta != batch.count - 1:
        raise _invalid(f"{batch.count} records, but the last has offset delta {batch.last_offset_delta}")
    if batch.is_control:
        raise _invalid("clients may not write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise _invalid(f"producer {batch.producer_id} sent sequence {batch.base_sequence}")
    if batch.uses_log_append_time:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "only a broker says when a batch was appended")
    _walk_records(batch)
    if config[MESSAGE_TIMESTAMP_TYPE] == "LogAppendTime":
        batch.stamp(now_ms)
    else:
        _check_timestamp(batch.max_timestamp, config, now_ms)


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, detail)


def _check_timestamp(timestamp: int, config: Config, now_ms: int) -> None:
    if timestamp < 0:  # -1 says that there is none
        return
    earliest = now_ms - config[MESSAGE_TIMESTAMP_BEFORE_MAX_MS]
    latest = now_ms + config[MESSAGE_TIMESTAMP_AFTER_MAX_MS]
    if not earliest <= timestamp <= latest:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp} is not between {earliest} and {latest}")


def _walk_records(batch: RecordBatch) -> None:
    data = batch.buffer[HEADER_BYTES:]
    if batch.attributes & 0x07 == Compression.NONE:
        count_records(iter([data]), batch.count)
        return
    try:
        count_records(decompress_chunks(batch.compression, data), batch.count)
    except CorruptRecordError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.detail) from error


def count_records(chunks: Iterator[bytes | memoryview], count: int) -> None:
    """Check that the stream holds just `count` records, one after the other; INVALID_RECORD if not."""
    seen = total = 0
    skip = 0  # bytes of the current record that are still to come
    rest: bytes | memoryview = b""  # a length that the end of a chunk cut in two
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_BATCH_BYTES:
            raise _invalid(f"the batch decompresses to more than {MAX_BATCH_BYTES} bytes")
        chunk = bytes(rest) + bytes(chunk) if rest else chunk
        rest = b""
        position = skip
        end = len(chunk)
        while position < end and seen < count:
            # Nearly all lengths have one or two bytes: those are read without a call.
            zigzag = chunk[position]
            after = position + 1
            if zigzag > 127:
                if after < end and chunk[after] < 128:
                    zigzag = zigzag & 127 | chunk[after] << 7
                    after += 1
                else:
                    zigzag, after = _length_at(chunk, position, end)
            if after < 0:
                rest = chunk[position:]
                break
            if zigzag & 1:
                raise _invalid(f"record {seen} claims a length of {-(zigzag >> 1) - 1}")
            position = after + (zigzag >> 1)
            seen += 1
        skip = max(0, position - end)
        if seen == count and position < end:
            raise _invalid(f"{end - position} bytes follow the last of {count} records")
    if seen < count or skip or rest:
        raise _invalid(f"the batch announces {count} records, {seen} begin in it")


def _length_at(chunk: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """(length as a zigzag number, position after it) of the record at `position`; (0, -1) if the chunk ends within."""
    value = chunk[position] & 127
    for number in range(1, _LONGEST_VARINT):
        if position + number >= end:
            return 0, -1
        octet = chunk[position + number]
        value |= (octet & 127) << (7 * number)
        if octet < 128:
            return value, position + number + 1
    raise _invalid(f"a record's length has more than {_LONGEST_VARINT} bytes")
