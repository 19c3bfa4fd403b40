"""Record batches to Arrow columns, without a step of Python for each record.

A record is a chain of variable-length integers and bytes: where a field begins is known only when the one before it is
read. So a record cannot be read at a glance; but a thousand records can be read in step. With numpy one reads first
the timestamp delta of all of them, then the offset delta of all of them, and so on, with an array of positions, one for
each record, that moves on field by field.

1. The batches are decompressed and laid end to end.
2. *Where does each record begin?* This alone is a chain through the whole batch: record after record. It is followed
   in step over many batches where there are many, and by a plain loop where a few batches hold many records.
3. The fields of all records are read in step. Each record must end where the next one begins, and the last one where
   its batch ends, and the fields must take exactly the record's bytes: whatever the data were, they are then what they
   seemed to be, or `CorruptRecordError` is raised.
4. Keys and values are copied once, by Arrow, into its own columns: no result refers to the bytes that were read.

`np.take(..., mode="clip")` reads the nearest byte in place of one beyond the end, so that garbage cannot lead outside;
positions only grow, so a record that led there does not end where it must.

What is too odd for columns (a header name that is no UTF-8, a record with thousands of headers) goes the plain way,
through `RecordBatch.records`, with the same result.

Follows org.apache.kafka.common.record.DefaultRecord in what it accepts.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.records.batch import CODEC_MASK, HEADER_BYTES, RecordBatch
from pykraft.records.compression import decompress
from pykraft.records.varint import decode_varint
from pykraft.spark.columns import HEADERS, TYPES, arrow_schema

Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

CHUNK_BYTES = 4 << 20
"""Decompressed bytes that are decoded together: enough to make a numpy call cheap, and few enough for the cache."""
_LANES = 40
"""Going in step pays from about this many records a step on."""
_ONE_BYTE = np.array([(octet >> 1) ^ -(octet & 1) for octet in range(256)], np.int64)
"""The values of varints of one byte."""
_MIN_RECORD_BYTES = 7
"""Length, attributes, two deltas, two lengths, header count."""
_MAX_OFFSET = (1 << 63) - (1 << 31) - 1
_MAX_MILLISECONDS = ((1 << 63) - 1) // 1000
_MANY_HEADERS = 1000


class _Odd(Exception):  # noqa: N818 (it is no fault of the data)
    """These records are better read one by one."""


class TimestampTooFarError(CorruptRecordError):
    """A record's timestamp does not fit into Spark's, which counts microseconds: mostly the producer counted
    nanoseconds."""

    def __init__(self, topic: str, partition: int, offset: int, timestamp: int) -> None:
        KafkaError.__init__(
            self,
            ErrorCode.INVALID_TIMESTAMP,
            f"{topic}-{partition}, offset {offset}: the timestamp {timestamp} is nothing that Spark can show;"
            " has the producer written nanoseconds? Let it write milliseconds, and begin the query after this record:"
            f' startingOffsets={{"{topic}": {{"{partition}": {offset + 1}}}}}',
        )


class _Chunk(NamedTuple):
    """Batches whose records lie end to end in `octets`; batch i takes [begins[i], ends[i])."""

    batches: Sequence[RecordBatch]
    octets: Octets
    begins: Numbers
    ends: Numbers


class _Records(NamedTuple):
    """The fields of n records: positions in the octets and lengths. A length of -1 is null."""

    batch: Numbers
    offset: Numbers
    timestamp: Numbers
    key: Numbers
    key_length: Numbers
    value: Numbers
    value_length: Numbers
    header_count: Numbers
    headers: Numbers
    end: Numbers


class Decoder:
    """Makes rows of one partition's record batches: these columns of it, in this order."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str]) -> None:
        self._topic = topic
        self._partition = partition
        self._columns = columns
        self._schema = arrow_schema(columns)

    def rows(self, batches: Iterable[RecordBatch], first: int, end: int) -> Iterator[pa.RecordBatch]:
        """The records with offsets in [first, end). CorruptRecordError if a batch cannot be read."""
        try:
            for chunk in _chunks(batches):
                try:
                    rows = self._in_step(chunk, first, end)
                except _Odd:
                    rows = self._one_by_one(chunk, first, end)
                if rows.num_rows:
                    yield rows
        except TimestampTooFarError:
            raise
        except CorruptRecordError as error:
            raise CorruptRecordError(f"{self._topic}-{self._partition}: {error.detail}") from None

    def _in_step(self, chunk: _Chunk, first: int, end: int) -> pa.RecordBatch:
        records = _read_fields(chunk)
        is_wanted = (records.offset >= first) & (records.offset < end)
        if not is_wanted.all():
            records = _Records(*(field[is_wanted] for field in records))
        columns = [self._column(name, chunk, records) for name in self._columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, chunk: _Chunk, records: _Records) -> pa.Array:
        count = len(records.offset)
        match name:
            case "key":
                return _bytes(chunk.octets, records.key, records.key_length)
            case "value":
                return _bytes(chunk.octets, records.value, records.value_length)
            case "topic":
                return pa.repeat(pa.scalar(self._topic), count)
            case "partition":
                return pa.repeat(pa.scalar(self._partition, pa.int32()), count)
            case "offset":
                return pa.array(records.offset)
            case "timestamp":
                self._check_timestamps(records.timestamp, records.offset)
                return _timestamps(records.timestamp)
            case "timestampType":
                kinds = np.array([batch.uses_log_append_time for batch in chunk.batches], np.int32)
                return pa.array(kinds[records.batch])
            case _:
                return _headers(chunk.octets, records)

    def _check_timestamps(self, milliseconds: Numbers, offset: Numbers) -> None:
        """TimestampTooFarError names the first record whose time Spark cannot hold."""
        if not milliseconds.size or max(-int(milliseconds.min()), int(milliseconds.max())) <= _MAX_MILLISECONDS:
            return
        wrong = int(np.flatnonzero((milliseconds > _MAX_MILLISECONDS) | (milliseconds < -_MAX_MILLISECONDS))[0])
        raise TimestampTooFarError(self._topic, self._partition, int(offset[wrong]), int(milliseconds[wrong]))

    def _one_by_one(self, chunk: _Chunk, first: int, end: int) -> pa.RecordBatch:
        wanted = [
            {
                "key": record.key,
                "value": record.value,
                "topic": self._topic,
                "partition": self._partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "timestampType": int(batch.uses_log_append_time),
                "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
            }
            for batch in chunk.batches
            for record in batch.records()
            if first <= record.offset < end
        ]
        arrays = []
        for name in self._columns:
            values = [row[name] for row in wanted]
            is_time = name == "timestamp"
            if is_time:
                offsets = np.array([row["offset"] for row in wanted], np.int64)
                self._check_timestamps(np.array(values, np.int64), offsets)
            arrays.append(_timestamps(np.array(values, np.int64)) if is_time else pa.array(values, TYPES[name][1]))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


# --- 1. the batches ---------------------------------------------------------------------------------------------------


def _chunks(batches: Iterable[RecordBatch]) -> Iterator[_Chunk]:
    """Decompress batches, and put them together until there is enough to decode."""
    waiting: list[RecordBatch] = []
    parts: list[memoryview] = []
    size = 0
    for batch in batches:
        if not batch.count:
            continue  # cleaning leaves such batches, to remember a producer's last number
        part = batch.buffer[HEADER_BYTES:]
        if batch.attributes & CODEC_MASK:
            part = decompress(batch.compression, part)
        _check_header(batch, len(part))
        waiting.append(batch)
        parts.append(part)
        size += len(part)
        if size >= CHUNK_BYTES:
            yield _chunk(waiting, parts)
            waiting, parts, size = [], [], 0
    if waiting:
        yield _chunk(waiting, parts)


def _check_header(batch: RecordBatch, size: int) -> None:
    """CorruptRecordError if the batch cannot have as many records as it says, or not where it says."""
    if not 0 < batch.count <= size // _MIN_RECORD_BYTES:
        raise CorruptRecordError(f"{batch} claims {batch.count} records in {size} bytes")
    if not 0 <= batch.base_offset <= _MAX_OFFSET:
        raise CorruptRecordError(f"{batch} is at an impossible offset")


def _chunk(batches: Sequence[RecordBatch], parts: Sequence[memoryview]) -> _Chunk:
    octets = np.frombuffer(b"".join(parts), np.uint8)
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return _Chunk(batches, octets, np.concatenate(([0], ends[:-1])), ends)


# --- 2. where records begin -------------------------------------------------------------------------------------------


def _record_begins(chunk: _Chunk, counts: Numbers) -> Numbers:
    """Where each record's length seems to stand. A claim: `_read_fields` proves it or raises."""
    if counts.sum() >= _LANES * counts.max():
        return _begins_in_step(chunk, counts)
    return _begins_by_loop(chunk, counts)


def _begins_in_step(chunk: _Chunk, counts: Numbers) -> Numbers:
    """Step j finds record j of every batch that has one. The batches go by descending count, so that those which are
    done are the last ones."""
    order = np.argsort(-counts, kind="stable")
    live = np.searchsorted(-counts[order], -np.arange(int(counts.max())))  # batches with a record j
    position = chunk.begins[order]
    steps = []
    for lanes in live.tolist():
        position = position[:lanes]
        steps.append(position)
        position = _skip(chunk.octets, position)
    lane = np.empty_like(order)
    lane[order] = np.arange(len(order))
    step = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    found_before_step = np.cumsum(live) - live
    found: Numbers = np.concatenate(steps).take(found_before_step[step] + np.repeat(lane, counts))
    return found


def _skip(octets: Octets, position: Numbers) -> Numbers:
    """The positions after what begins with its length at these positions."""
    first = octets.take(position, mode="clip")
    following = position + 1
    if first.max() < 128:
        following += first >> 1
        return following
    second = octets.take(following, mode="clip")
    if first.min() > 127 and second.max() < 128:  # most are longer than 63 bytes, and shorter than 8 KB
        following += 1 + ((first & 127) >> 1)
        following += second.astype(np.int64) << 6
        return following
    length, body = _varints(octets, position)
    body += length
    return body


def _begins_by_loop(chunk: _Chunk, counts: Numbers) -> Numbers:
    data = chunk.octets.data
    begins: list[int] = []
    append = begins.append
    try:
        for position, count in zip(chunk.begins.tolist(), counts.tolist(), strict=True):
            for _ in range(count):
                append(position)
                first = data[position]
                if first < 128:
                    position += 1 + (first >> 1)
                    continue
                second = data[position + 1]
                if second < 128:
                    position += 2 + ((first & 127) >> 1) + (second << 6)
                    continue
                length, body = decode_varint(data, position)
                position = body + max(length, 0)
    except IndexError:
        raise CorruptRecordError("a record goes past the end of its batch") from None
    return np.array(begins, np.int64)


# --- 3. fields --------------------------------------------------------------------------------------------------------


def _read_fields(chunk: _Chunk) -> _Records:
    octets = chunk.octets
    counts = np.array([batch.count for batch in chunk.batches], np.int64)
    begins = _record_begins(chunk, counts)
    length, position = _varints(octets, begins)
    end = position + length
    expected = np.append(begins[1:], 0)
    expected[np.cumsum(counts) - 1] = chunk.ends
    if (length < 0).any() or (end != expected).any():
        raise CorruptRecordError("the records of a batch do not fill it")
    position += 1  # attributes, unused
    timestamp_delta, position = _varints(octets, position, 10)
    offset_delta, position = _varints(octets, position)
    key_length, key = _varints(octets, position)
    value_length, value = _varints(octets, key + np.maximum(key_length, 0))
    header_count, headers = _varints(octets, value + np.maximum(value_length, 0))
    if ((headers > end) | (header_count < 0) | (header_count > end - begins)).any():
        raise CorruptRecordError("a field goes past the end of its record")
    if (headers[header_count == 0] != end[header_count == 0]).any():
        raise CorruptRecordError("a record is longer than its fields")
    batch = np.repeat(np.arange(len(counts)), counts)
    offset = np.array([batch.base_offset for batch in chunk.batches], np.int64)[batch] + offset_delta
    timestamp = _add_timestamps(chunk, batch, timestamp_delta)
    return _Records(batch, offset, timestamp, key, key_length, value, value_length, header_count, headers, end)


def _varints(octets: Octets, position: Numbers, max_bytes: int = 5) -> tuple[Numbers, Numbers]:
    """(values, positions after them) of the zigzag varints at these positions."""
    first = octets.take(position, mode="clip")
    value = _ONE_BYTE.take(first)
    following = position + 1
    if first.size and first.max() > 127:
        more = np.flatnonzero(first > 127)
        value[more], following[more] = _long_varints(octets, first[more], following[more], max_bytes)
    return value, following


def _long_varints(octets: Octets, first: Octets, position: Numbers, max_bytes: int) -> tuple[Numbers, Numbers]:
    """(values, positions after them) of varints that go on after their first octets."""
    zigzag = (first & 127).astype(np.uint64)
    going = np.arange(len(first))
    for shift in range(7, 7 * max_bytes, 7):
        octet = octets.take(position[going], mode="clip")
        if shift == 7 * (max_bytes - 1) and (octet > 127).any():
            raise CorruptRecordError(f"a varint has more than {max_bytes} bytes")
        zigzag[going] |= (octet & 127).astype(np.uint64) << np.uint64(shift)
        position[going] += 1
        going = going[octet > 127]
        if not going.size:
            break
    if max_bytes == 5:
        zigzag &= np.uint64(0xFFFFFFFF)  # a fifth byte has three bits too many
    value = (zigzag >> np.uint64(1)) ^ (np.uint64(0) - (zigzag & np.uint64(1)))
    return value.view(np.int64), position


def _add_timestamps(chunk: _Chunk, batch: Numbers, delta: Numbers) -> Numbers:
    """The records' timestamps in milliseconds: the batch's base and the record's delta, or the time of the append."""
    base = np.array([batch.base_timestamp for batch in chunk.batches], np.int64)[batch]
    created = base + delta  # which wraps at 64 bits, as `records.record` has it
    is_appended = np.array([batch.uses_log_append_time for batch in chunk.batches], np.bool_)
    if not is_appended.any():
        return created
    appended = np.array([batch.max_timestamp for batch in chunk.batches], np.int64)
    return np.where(is_appended[batch], appended[batch], created)


# --- 4. Arrow's columns -----------------------------------------------------------------------------------------------


def _timestamps(milliseconds: Numbers) -> pa.Array:
    """Kafka counts milliseconds, Spark microseconds."""
    kind = TYPES["timestamp"][1]
    return pa.Array.from_buffers(kind, len(milliseconds), [None, pa.py_buffer(milliseconds * 1000)])


def _bytes(octets: Octets, position: Numbers, length: Numbers) -> pa.Array:
    """Copies of these pieces, which stand in the order of their positions; null where the length is negative.

    Seen as one array over the octets, every other element is what is wanted, and between them is what is not.
    """
    count = len(position)
    offsets = np.zeros(2 * count + 1, np.int32)
    offsets[0:-1:2] = position
    offsets[1::2] = position + np.maximum(length, 0)
    offsets[-1] = offsets[-2] if count else 0
    all_pieces = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])
    is_null = length < 0
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=is_null if is_null.any() else None)
    return all_pieces.take(wanted)


def _headers(octets: Octets, records: _Records) -> pa.Array:
    """Read in step the first header of all records that have one, then the second ones, and so on."""
    count = len(records.offset)
    total = int(records.header_count.sum())
    if not total:
        return pa.nulls(count, HEADERS)
    if int(records.header_count.max()) > _MANY_HEADERS:
        raise _Odd
    first = np.cumsum(records.header_count) - records.header_count  # of each record's headers among all headers
    fields = np.empty((4, total), np.int64)
    having = np.flatnonzero(records.header_count)
    position = records.headers[having]
    for j in range(int(records.header_count.max())):
        name_length, name = _varints(octets, position)
        value_length, value = _varints(octets, name + np.maximum(name_length, 0))
        position = value + np.maximum(value_length, 0)
        if ((name_length < 0) | (position > records.end[having])).any():
            raise CorruptRecordError("a record header has a null key, or goes past the end of its record")
        fields[:, first[having] + j] = name, name_length, value, value_length
        is_last = records.header_count[having] == j + 1
        if (position[is_last] != records.end[having[is_last]]).any():
            raise CorruptRecordError("a record is longer than its fields")
        having, position = having[~is_last], position[~is_last]
    names = _bytes(octets, fields[0], fields[1]).view(pa.string())
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raise _Odd from None
    pairs = pa.StructArray.from_arrays([names, _bytes(octets, fields[2], fields[3])], fields=list(HEADERS.value_type))
    offsets = pa.array(np.append(first, total).astype(np.int32))
    is_null = pa.array(records.header_count == 0)
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS, mask=is_null)
