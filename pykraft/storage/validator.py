"""What a leader checks before it appends a producer's batch, and what it makes of the batch.

The checksum tells that the bytes are those the producer sent; the checks here, that they are a batch at all. They look
at the header, and walk over the records from length to length, through the decompressed stream if there is a codec,
without decoding them: that the records are as many as the header says, and end where the batch ends. A stream is walked
in pieces, so a batch of a few bytes that decompresses to a gigabyte costs time, but no memory.

Most batches are appended as they came. The records themselves are looked at only where a setting of the topic asks:

=============================================  ========================================================================
``cleanup.policy`` with compact                each record must have a key
``message.timestamp.before.max.ms`` is set     no record may be older
``message.timestamp.after.max.ms``             if the header's largest timestamp lies beyond, the record is looked for
``compression.type`` is not the producer's     they are packed anew
=============================================  ========================================================================

Then the answer names the records that are wrong, and what the header says of the records (largest timestamp, numbering)
is made true. With ``message.timestamp.type=LogAppendTime`` the batch is marked and gets the broker's time; a mark of
the producer's own is taken away.

What comes in pieces wrong is answered as Apache Kafka answers it: a wrong checksum or length CORRUPT_MESSAGE, a header
that contradicts itself INVALID_RECORD, compressed data that cannot be read UNKNOWN_SERVER_ERROR.

Follows org.apache.kafka.storage.internals.log.{LogValidator,UnifiedLog} and
org.apache.kafka.common.requests.ProduceRequest.
"""

from collections.abc import Iterator, Sequence

from pykraft.common.errors import CorruptRecordError, ErrorCode, InvalidRecordsError, KafkaError, RecordError
from pykraft.common.topic_config import FOREVER_MS
from pykraft.records.batch import HEADER_BYTES, MAGIC_OFFSET, RecordBatch, batches
from pykraft.records.compression import MAX_BATCH_BYTES, Compression, decompress, decompress_chunks
from pykraft.records.filtering import repacked
from pykraft.records.record import NO_TIMESTAMP, Record, decode_records, encode_record
from pykraft.storage.append_rules import AppendRules

MAX_UNPACKED_BYTES = 256 << 20
"""A batch whose records are looked at may not decompress to more."""
_BLAMED = 3
"""As many records are named in the answer's sentence; the list has all."""
_LONGEST_VARINT = 5


def only_batch(data: memoryview) -> RecordBatch:
    """The one batch that a produce request may hold for a partition. What follows it, if it is no batch, is ignored."""
    if len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] in (0, 1):
        raise KafkaError(ErrorCode.INVALID_RECORD, "the records are in a message format older than 2")
    found = list(batches(data))
    if len(found) != 1:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a partition's records are {len(found)} batches instead of one")
    return found[0]


def validate(batch: RecordBatch, rules: AppendRules, now_ms: int) -> RecordBatch:
    """Check a producer's batch; KafkaError says what is wrong. Returns what is to be appended: the batch, changed where
    the topic's settings demand it, or another one."""
    if batch.base_offset != 0:
        raise _invalid(f"the base offset is {batch.base_offset} instead of 0")
    _check_size(batch, rules)
    if not batch.is_valid:
        raise CorruptRecordError("the batch fails its checksum")
    if batch.count < 1 or batch.last_offset_delta != batch.count - 1:
        raise _invalid(f"{batch.count} records, but the last has offset delta {batch.last_offset_delta}")
    if batch.is_control:
        raise _invalid("clients may not write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise _invalid(f"producer {batch.producer_id} sent sequence {batch.base_sequence}")
    _walk_records(batch)
    is_marked = batch.uses_log_append_time  # which is no reason to trust it
    if _asks_for_another_codec(batch, rules) or is_marked or _asks_for_records(batch, rules, now_ms):
        batch = _with_records_checked(batch, rules, now_ms)
        _check_size(batch, rules)
    if rules.uses_append_time:
        batch.stamp(now_ms)
    elif is_marked:
        batch.set_max_timestamp(batch.max_timestamp)
    return batch


def _check_size(batch: RecordBatch, rules: AppendRules) -> None:
    if batch.size > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {batch.size} bytes; {rules.max_message_bytes} are allowed"
        )


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, detail)


# --- records ----------------------------------------------------------------------------------------------------------


def _asks_for_another_codec(batch: RecordBatch, rules: AppendRules) -> bool:
    return rules.codec is not None and rules.codec is not batch.compression


def _asks_for_records(batch: RecordBatch, rules: AppendRules, now_ms: int) -> bool:
    """Whether it must be known of each record what it says."""
    if rules.wants_keys:
        return True
    if rules.uses_append_time:
        return False
    return rules.before_max_ms != FOREVER_MS or batch.max_timestamp > now_ms + rules.after_max_ms


def _with_records_checked(batch: RecordBatch, rules: AppendRules, now_ms: int) -> RecordBatch:
    """The batch with a header that tells the truth of its records, and in the codec that the log is to have;
    InvalidRecordsError if some of the records must not be appended."""
    try:
        data = decompress(batch.compression, batch.buffer[HEADER_BYTES:], MAX_UNPACKED_BYTES)
        records = list(decode_records(data, batch.count, 0, batch.base_timestamp))
    except CorruptRecordError as error:
        raise _invalid(error.detail) from error
    if batch.uses_log_append_time:
        records = [record._replace(timestamp=batch.max_timestamp) for record in records]
    _check_records(records, batch.uses_log_append_time, rules, now_ms)
    codec = batch.compression if rules.codec is None else rules.codec
    is_numbered = all(record.offset == number for number, record in enumerate(records))
    if codec is not batch.compression or (not is_numbered and codec is not Compression.NONE):
        if not is_numbered or records[0].timestamp != batch.base_timestamp:
            data = _encoded(records)
        batch = RecordBatch(memoryview(repacked(batch, data, codec, rules.levels.get(codec), records[0].timestamp)))
    batch.set_max_timestamp(max(record.timestamp for record in records))
    return batch


def _encoded(records: Sequence[Record]) -> memoryview:
    out = bytearray()
    for number, (_, timestamp, key, value, headers) in enumerate(records):
        encode_record(out, number, timestamp - records[0].timestamp, key, value, headers)
    return memoryview(out)


def _check_records(records: Sequence[Record], is_marked: bool, rules: AppendRules, now_ms: int) -> None:
    earliest = now_ms - rules.before_max_ms
    latest = now_ms + rules.after_max_ms
    wrong: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    for number, record in enumerate(records):
        if rules.wants_keys and record.key is None:
            wrong.append(RecordError(number, "it has no key, but the topic is compacted"))
        elif not rules.uses_append_time and record.timestamp != NO_TIMESTAMP:
            if not earliest <= record.timestamp <= latest:
                code = ErrorCode.INVALID_TIMESTAMP
                sentence = f"its timestamp {record.timestamp} is not between {earliest} and {latest}"
                wrong.append(RecordError(number, sentence))
        elif is_marked:
            code = ErrorCode.INVALID_TIMESTAMP
            wrong.append(RecordError(number, "only a broker says when a record was appended"))
    if wrong:
        named = "; ".join(f"record {number}: {sentence}" for number, sentence in wrong[:_BLAMED])
        raise InvalidRecordsError(code, f"{len(wrong)} of {len(records)} records are refused: {named}", wrong)


# --- lengths ----------------------------------------------------------------------------------------------------------


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
