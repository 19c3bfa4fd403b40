"""What a leader checks before it appends a producer's batch, and what it makes of the batch.

The checksum tells that the bytes are those the producer sent; the checks here, that they are a batch at all. They look
at the header, and walk over the records from length to length, through the decompressed stream if there is a codec,
without decoding them: that the records are as many as the header says, that none is shorter than a record can be, and
that they end where the batch ends. A stream is walked in pieces, so what a few bytes decompress to costs time, but no
memory (a block of snappy does: 22 times its size at most). The time is bounded, for all of a node waits for it: a batch
that decompresses to more than 256 MiB, or to more than 131,072 records, is answered MESSAGE_TOO_LARGE, at which Kafka's
producer sends it in pieces. (Of the shortest records as many fit into a batch of a megabyte that is not compressed.)
Kafka has no such bounds.

Most batches are appended as they came. The records themselves are looked at only where a setting of the topic asks:

=============================================  ========================================================================
``cleanup.policy`` with compact                each record must have a key
``message.timestamp.before.max.ms`` is set     no record may be older
``message.timestamp.after.max.ms``             if the header's largest timestamp lies beyond, the record is looked for
``compression.type`` is not the producer's     they are packed anew
=============================================  ========================================================================

Then they are unpacked, and decoded one by one. The answer names the records that are wrong, ten thousand at most, and
what the header says of the records (largest timestamp, numbering) is made true. With
``message.timestamp.type=LogAppendTime`` the batch is marked and gets the broker's time. If its producer has marked it,
the records are looked at, too: where the topic uses their timestamps and they have some, the mark is taken away; else
the batch is refused, as Kafka does.

A malformed batch is answered as Apache Kafka answers it: a wrong checksum or length CORRUPT_MESSAGE, a header
that contradicts itself INVALID_RECORD, compressed data that cannot be read UNKNOWN_SERVER_ERROR. Lz4 whose blocks refer
to one another cannot be read by Kafka's clients, so it is refused, too.

Follows org.apache.kafka.storage.internals.log.{LogValidator,UnifiedLog} and
org.apache.kafka.common.requests.ProduceRequest.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykraft.common.errors import CorruptRecordError, ErrorCode, InvalidRecordsError, KafkaError, RecordError
from pykraft.records.batch import (
    CODEC_MASK,
    CONTROL,
    CURRENT_MAGIC,
    HEADER_BYTES,
    LENGTH_OFFSET,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    RecordBatch,
    batches,
)
from pykraft.records.compression import Compression, decompress, decompress_chunks, has_linked_blocks
from pykraft.records.filtering import repacked
from pykraft.records.record import NO_TIMESTAMP, Record, decode_records, encode_record, wrapped
from pykraft.storage.append_rules import AppendRules

MAX_UNPACKED_BYTES = 256 << 20
"""No batch may decompress to more."""
MAX_RECORDS = 1 << 17
"""Nor to more records."""
_BLAMED = 3
"""As many records are named in the answer's sentence; the list has more."""
_LISTED = 10_000
_SHORTEST = 6 << 1
"""The length of the shortest record as a zigzag number: one byte each for attributes, timestamp delta, offset delta,
the lengths of key and value, and the number of headers."""
_LONGEST_VARINT = 5
_OLDEST_BATCH_BYTES = 14
"""The shortest length that a batch of any format could have."""


def only_batch(data: memoryview) -> RecordBatch:
    """The one batch that a produce request may hold for a partition. The beginning of another is passed over behind it,
    as in any piece of a log; CorruptRecordError if what is there can begin none."""
    if len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] in (0, 1):
        raise KafkaError(ErrorCode.INVALID_RECORD, "the records are in a message format older than 2")
    found = list(batches(data))
    if len(found) != 1:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a partition's records are {len(found)} batches instead of one")
    if found[0].size != len(data):
        _check_beginning(data[found[0].size :])
    return found[0]


def _check_beginning(rest: memoryview) -> None:
    """Judge what is too short for a batch by as much of a header as there is of it."""
    if len(rest) >= LOG_OVERHEAD:
        length = int.from_bytes(rest[LENGTH_OFFSET:LOG_OVERHEAD], "big", signed=True)
        if length < _OLDEST_BATCH_BYTES:
            raise CorruptRecordError(f"{len(rest)} bytes follow the batch, and claim a length of {length}")
    if len(rest) > MAGIC_OFFSET and rest[MAGIC_OFFSET] > CURRENT_MAGIC:
        raise CorruptRecordError(f"{len(rest)} bytes follow the batch, with magic {rest[MAGIC_OFFSET]}")


def validate(batch: RecordBatch, rules: AppendRules, now_ms: int) -> RecordBatch:
    """Check a producer's batch; KafkaError says what is wrong. Returns what is to be appended: the batch, changed where
    the topic's settings demand it, or another one."""
    if batch.base_offset != 0:
        raise _invalid(f"the base offset is {batch.base_offset} instead of 0")
    if batch.size > rules.max_message_bytes:
        raise _larger_than_allowed(batch, rules)
    if not batch.is_valid:
        raise CorruptRecordError("the batch fails its checksum")
    if batch.count < 1 or batch.last_offset_delta != batch.count - 1:
        raise _invalid(f"{batch.count} records, but the last has offset delta {batch.last_offset_delta}")
    attributes = batch.attributes
    if attributes & CONTROL:
        raise _invalid("clients may not write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise _invalid(f"producer {batch.producer_id} sent sequence {batch.base_sequence}")
    _walk_records(batch)
    is_marked = attributes & LOG_APPEND_TIME  # which is no reason to trust it
    has_other_codec = rules.codec is not None and rules.codec is not batch.compression
    is_ahead = batch.max_timestamp > now_ms + rules.after_max_ms
    if has_other_codec or is_marked or is_ahead or rules.looks_at_records:
        batch = _with_records_checked(batch, rules, now_ms)
        if batch.size > rules.max_message_bytes:
            raise _larger_than_allowed(batch, rules)
    if rules.uses_append_time:
        batch.stamp(now_ms)
    elif is_marked:
        batch.set_max_timestamp(batch.max_timestamp)
    return batch


def _larger_than_allowed(batch: RecordBatch, rules: AppendRules) -> KafkaError:
    return _too_large(f"a batch of {batch.size} bytes; {rules.max_message_bytes} are allowed")


def _too_large(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, detail)


# --- records ----------------------------------------------------------------------------------------------------------


def _with_records_checked(batch: RecordBatch, rules: AppendRules, now_ms: int) -> RecordBatch:
    """The batch with a header that tells the truth of its records, and in the codec that the log is to have;
    InvalidRecordsError if some of the records must not be appended."""
    try:
        data = decompress(batch.compression, batch.buffer[HEADER_BYTES:])
        found = _looked_over(_records(batch, data), batch, rules, now_ms)
    except CorruptRecordError as error:
        raise _invalid(error.detail) from error
    codec = batch.compression if rules.codec is None else rules.codec
    if codec is not batch.compression or (not found.is_numbered and codec is not Compression.NONE):
        if not found.is_numbered or found.first_timestamp != batch.base_timestamp:
            data = _encoded(_records(batch, data), found.first_timestamp)
        batch = RecordBatch(memoryview(repacked(batch, data, codec, rules.levels.get(codec), found.first_timestamp)))
    batch.set_max_timestamp(found.max_timestamp)
    return batch


def _records(batch: RecordBatch, data: memoryview) -> Iterator[Record]:
    """The records one by one, numbered from 0: to hold all of them takes thirty times their bytes."""
    records = decode_records(data, batch.count, 0, batch.base_timestamp)
    if not batch.uses_log_append_time:
        return records
    return (record._replace(timestamp=batch.max_timestamp) for record in records)


def _encoded(records: Iterable[Record], base_timestamp: int) -> memoryview:
    out = bytearray()
    for number, (_, timestamp, key, value, headers) in enumerate(records):
        encode_record(out, number, wrapped(timestamp - base_timestamp), key, value, headers)
    return memoryview(out)


class _Overview(NamedTuple):
    """What a header says of its records, and whether their offsets are 0, 1, 2 and so on."""

    first_timestamp: int
    max_timestamp: int
    is_numbered: bool


def _looked_over(records: Iterable[Record], batch: RecordBatch, rules: AppendRules, now_ms: int) -> _Overview:
    """Look at each record once; InvalidRecordsError if some must not be appended."""
    earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    is_marked = batch.uses_log_append_time
    wrong: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    first_timestamp = max_timestamp = NO_TIMESTAMP
    is_numbered = True
    for number, (offset, timestamp, key, _, _) in enumerate(records):
        if number == 0:
            first_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        is_numbered = is_numbered and offset == number
        if rules.wants_keys and key is None:
            wrong.append(RecordError(number, "it has no key, but the topic is compacted"))
        elif not rules.uses_append_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                code = ErrorCode.INVALID_TIMESTAMP
                wrong.append(RecordError(number, f"its timestamp {timestamp} is not between {earliest} and {latest}"))
        elif is_marked:
            code = ErrorCode.INVALID_TIMESTAMP
            wrong.append(RecordError(number, "only a broker says when a record was appended"))
        if len(wrong) == _LISTED:
            break
    if wrong:
        named = "; ".join(f"record {number}: {sentence}" for number, sentence in wrong[:_BLAMED])
        raise InvalidRecordsError(code, f"{len(wrong)} of {batch.count} records are refused: {named}", wrong)
    return _Overview(first_timestamp, max_timestamp, is_numbered)


# --- lengths ----------------------------------------------------------------------------------------------------------


def _walk_records(batch: RecordBatch) -> None:
    data = batch.buffer[HEADER_BYTES:]
    if not batch.attributes & CODEC_MASK:
        position, seen = _walk(data, 0, 0, batch.count)
        if position != len(data) or seen < batch.count:
            raise _wrong_end(len(data) - position, seen, batch.count)
        return
    if batch.count > MAX_RECORDS:
        raise _too_large(f"a batch of {batch.count} records; {MAX_RECORDS} are allowed")
    try:
        if batch.compression is Compression.LZ4 and has_linked_blocks(data):
            raise CorruptRecordError("the lz4 data of a batch is in blocks that depend on one another")
        count_records(decompress_chunks(batch.compression, data), batch.count)
    except CorruptRecordError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.detail) from error


def count_records(chunks: Iterable[bytes | memoryview], count: int) -> None:
    """Check that the stream holds just `count` records, one after the other; INVALID_RECORD if not."""
    seen = total = 0
    skip = 0  # bytes of the current record that are still to come
    rest: bytes | memoryview = b""  # what the end of a chunk left of a length
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_UNPACKED_BYTES:
            raise _too_large(f"the batch decompresses to more than {MAX_UNPACKED_BYTES} bytes")
        chunk = bytes(rest) + bytes(chunk) if rest else chunk
        position, seen = _walk(chunk, skip, seen, count)
        rest = chunk[position:]
        skip = max(0, position - len(chunk))
        if rest and seen == count:
            break  # whatever else may come
    if len(rest) != skip or seen < count:
        raise _wrong_end(len(rest) - skip, seen, count)


def _wrong_end(left_bytes: int, seen: int, count: int) -> KafkaError:
    """Something is left behind the last record, or something of the records is missing."""
    if seen == count and left_bytes > 0:
        return _invalid(f"{left_bytes} bytes follow the last of {count} records")
    return _invalid(f"the batch announces {count} records, {seen} begin in it")


def _walk(chunk: bytes | memoryview, position: int, seen: int, count: int) -> tuple[int, int]:
    """Go from record to record, beginning at `position`, until there were `count` or the chunk ends. Returns where the
    next one begins, which is behind the chunk if it ends within a record, and how many were seen by now.

    A length that the table does not know carries `position` so far away that the next look fails; one step back is the
    record whose length has to be read in full."""
    first_two, steps = _FIRST_TWO.unpack_from, _STEPS
    number = seen
    while number < count:
        try:
            for number in range(number, count):  # noqa: B007, B020 (it goes on behind what stopped it)
                position += steps[first_two(chunk, position)[0]]
            number = count
        except struct.error:  # two bytes are not left, or the table did not know the record before this one
            pass
        if position >= _FAR:  # so it was: back to that one
            position, number = position - _FAR, number - 1
        elif number == count:
            break
        step = _step_at(chunk, position, number)
        if not step:
            return position, number
        position, number = position + step, number + 1
    return position, count


def _step(zigzag: int, length_bytes: int) -> int:
    """How far it is from a record with this length to the next; 0 if no record can have it."""
    return 0 if zigzag & 1 or zigzag < _SHORTEST else length_bytes + (zigzag >> 1)


_FAR = 1 << 40
"""Where no record is."""


def _steps() -> list[int]:
    """How far it is from a record to the next, by its first two bytes, in which nearly all lengths are told: so a look
    into a table is all that most records cost. Far away where the bytes do not tell it, or tell what no record can
    have."""
    steps = []
    for first in range(128):
        steps += [_step(first, 1)] * 256
    for first in range(128, 256):
        steps += [_step(first & 127 | second << 7, 2) for second in range(128)]
        steps += [0] * 128
    return [step or _FAR for step in steps]


_STEPS = _steps()
_FIRST_TWO = struct.Struct(">H")


def _step_at(chunk: bytes | memoryview, position: int, number: int) -> int:
    """How far it is from record `number`, at `position`, to the next; 0 if the chunk ends within its length, or before.
    INVALID_RECORD if no record can have that length."""
    zigzag = 0
    length = chunk[position : position + _LONGEST_VARINT]
    for index, octet in enumerate(length):
        zigzag |= (octet & 127) << (7 * index)
        if octet < 128:
            step = _step(zigzag, index + 1)
            if not step:
                raise _invalid(f"record {number} claims a length of {(zigzag >> 1) ^ -(zigzag & 1)}")
            return step
    if len(length) == _LONGEST_VARINT:
        raise _invalid(f"a record's length has more than {_LONGEST_VARINT} bytes")
    return 0
