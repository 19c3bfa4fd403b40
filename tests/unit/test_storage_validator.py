"""What a leader accepts of a producer, and what it answers to the rest: the hostile batches, one by one.

The codes are those of Apache Kafka 4.2.1, measured with the same bytes.
"""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest

from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression, compress
from pykraft.records.crc32c import crc32c
from pykraft.records.record import encode_record
from pykraft.records.varint import encode_varint
from pykraft.storage import validator
from pykraft.storage.validator import count_records, only_batch, validate
from tests.harness.storage import NOW_MS, batch, marker, produced, settings

CORRUPT, INVALID, UNKNOWN = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR
HOUR_MS = 3_600_000


def changed(some: RecordBatch, offset: int, layout: str, value: int, *, seal: bool = True) -> bytearray:
    """The batch with another value in one field, and a right checksum if it is `seal`ed."""
    data = bytearray(some.buffer)
    struct.pack_into(layout, data, offset, value)
    return sealed(data) if seal else data


def sealed(data: bytearray) -> bytearray:
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return data


def with_records(records: bytes, count: int = 2, codec: Compression = Compression.NONE) -> bytearray:
    """A batch whose record section is these bytes, as they are."""
    data = bytearray(batch(count).buffer[:HEADER_BYTES])
    data += records
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, codec)
    return sealed(data)


def check(data: bytearray, **config: Any) -> RecordBatch:
    """What a leader does with a partition's records."""
    some = only_batch(memoryview(data))
    validate(some, settings(**config), NOW_MS)
    return some


def refusal(data: bytearray, **config: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        check(data, **config)
    return refused.value.code


TWO = bytes(batch(2).buffer[HEADER_BYTES:])
ONE = TWO[: len(TWO) // 2]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        # structural faults
        (changed(batch(2), 57, ">i", 1), INVALID),
        (changed(batch(2), 57, ">i", 3), INVALID),
        (changed(batch(2), 57, ">i", 0), INVALID),
        (changed(batch(2), 57, ">i", -1), INVALID),
        (changed(batch(2), 23, ">i", 0), INVALID),
        (changed(batch(2), 23, ">i", 2), INVALID),
        (changed(batch(2), 23, ">i", -1), INVALID),
        (changed(batch(2), 0, ">q", 5), INVALID),
        (changed(batch(2), 16, ">b", 0), INVALID),
        (changed(batch(2), 16, ">b", 1), INVALID),
        (bytearray(), INVALID),
        (bytearray(batch(2).buffer) + batch(2).buffer, INVALID),
        (bytearray(marker(1, True).buffer), INVALID),
        (bytearray(produced(1, -1).buffer), INVALID),
        (bytearray(produced(1, -2).buffer), INVALID),
        (with_records(TWO + b"\x00"), INVALID),
        (with_records(TWO[:-1]), INVALID),
        (with_records(ONE), INVALID),
        (with_records(b"\x01" + TWO), INVALID),
        (with_records(b"\xff" * len(TWO)), INVALID),
        # checksum and lengths
        (changed(batch(2), 17, ">I", 0, seal=False), CORRUPT),
        (changed(batch(2), 70, ">B", 255, seal=False), CORRUPT),
        (changed(batch(2), 8, ">i", batch(2).size - 13), CORRUPT),
        (changed(batch(2), 8, ">i", 48), CORRUPT),
        (changed(batch(2), 8, ">i", 0), CORRUPT),
        (changed(batch(2), 8, ">i", -1), CORRUPT),
        (changed(batch(2), 8, ">i", batch(2).size), INVALID),
        (changed(batch(2), 16, ">b", 3), CORRUPT),
        # compressed data
        *[(with_records(b"\xde\xad\xbe\xef" * 9, 2, codec), UNKNOWN) for codec in Compression if codec],
        (with_records(compress(Compression.GZIP, TWO)[:-9], 2, Compression.GZIP), UNKNOWN),
        (with_records(compress(Compression.LZ4, TWO)[:-9], 2, Compression.LZ4), UNKNOWN),
        (changed(batch(2), 21, ">h", 5), UNKNOWN),
        (changed(batch(2), 21, ">h", 7), UNKNOWN),
        *[(with_records(compress(codec, ONE), 2, codec), INVALID) for codec in Compression if codec],
        *[(with_records(compress(codec, TWO + ONE), 2, codec), INVALID) for codec in Compression if codec],
        # timestamps
        (bytearray(batch(1, timestamp=NOW_MS + HOUR_MS + 1).buffer), ErrorCode.INVALID_TIMESTAMP),
        (changed(batch(2), 21, ">h", 0x08), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_a_hostile_batch_is_answered_as_apache_kafka_answers_it(data: bytearray, code: ErrorCode) -> None:
    assert refusal(data) is code


@pytest.mark.parametrize(
    "data",
    [
        with_records(ONE + ONE),  # both records say that they are the first
        bytearray(batch(2).buffer) + b"\x00" * 40,
        changed(batch(2), 12, ">i", 77),
        changed(batch(2), 12, ">i", -77),
        bytearray(batch(2, timestamp=-1).buffer),
        bytearray(batch(1, timestamp=-2).buffer),
        changed(batch(2), 35, ">q", -2),
        bytearray(batch(1, timestamp=0).buffer),
        bytearray(batch(1, timestamp=NOW_MS + HOUR_MS).buffer),
        bytearray(produced(0, 0, epoch=-5).buffer),
        changed(batch(2), 21, ">h", 0x40),
        *[bytearray(batch(30, compression=codec).buffer) for codec in Compression],
    ],
)
def test_what_apache_kafka_accepts_is_accepted(data: bytearray) -> None:
    check(data)


def test_a_batch_may_have_just_max_message_bytes() -> None:
    data = bytearray(batch(2).buffer)
    check(data, max_message_bytes=len(data))
    assert refusal(data, max_message_bytes=len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("timestamp", "accepted"),
    [(NOW_MS - 10, True), (NOW_MS - 11, False), (NOW_MS + 20, True), (NOW_MS + 21, False), (-1, True)],
)
def test_timestamps_are_held_to_the_topics_limits(timestamp: int, accepted: bool) -> None:
    data = bytearray(batch(1, timestamp=timestamp).buffer)
    limits = {"message_timestamp_before_max_ms": 10, "message_timestamp_after_max_ms": 20}
    if accepted:
        check(data, **limits)
    else:
        assert refusal(data, **limits) is ErrorCode.INVALID_TIMESTAMP


def test_with_log_append_time_the_broker_stamps_and_no_timestamp_is_wrong() -> None:
    some = check(bytearray(batch(3, timestamp=NOW_MS + 9 * HOUR_MS).buffer), message_timestamp_type="LogAppendTime")
    assert some.is_valid and some.uses_log_append_time
    assert [record.timestamp for record in some.records()] == [NOW_MS] * 3


# --- walking over the records -----------------------------------------------------------------------------------------


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 1000])
def test_records_are_counted_however_the_stream_is_cut(size: int) -> None:
    builder = RecordBatchBuilder()
    for number in range(40):
        builder.append(0, None, b"x" * (number * number % 200))
    data = bytes(builder.build()[HEADER_BYTES:])
    count_records(iter(pieces(data, size)), 40)
    for stream, count in ((data, 39), (data, 41), (data[:-1], 40), (data + b"\x00", 40), (data + b"\x80", 40)):
        with pytest.raises(KafkaError) as refused:
            count_records(iter(pieces(stream, size)), count)
        assert refused.value.code is INVALID


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (encode_varint(-1), "claims a length of -1"),
        (b"\xff" * 5, "more than 5 bytes"),
        (b"\xff" * 4, "announces 1 records, 0 begin"),
        (encode_varint(100) + b"x", "announces 1 records, 1 begin"),
    ],
)
def test_a_length_that_no_record_has_is_refused(stream: bytes, complaint: str) -> None:
    for size in (1, 100):
        with pytest.raises(KafkaError, match=complaint):
            count_records(iter(pieces(stream, size)), 1)


@pytest.mark.parametrize(("codec", "size"), [(Compression.GZIP, 40), (Compression.LZ4, 200), (Compression.ZSTD, 200)])
def test_a_batch_of_many_megabytes_of_zeros_is_accepted_and_costs_no_memory(codec: Compression, size: int) -> None:
    one = bytearray()
    encode_record(one, 0, 0, None, bytes(size << 20))
    data = with_records(compress(codec, one), 1, codec)
    del one
    tracemalloc.start()
    try:
        check(data)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_bomb_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validator, "MAX_BATCH_BYTES", 10 << 20)
    one = encode_varint(11 << 20) + bytes(11 << 20)
    assert refusal(with_records(compress(Compression.GZIP, one), 1, Compression.GZIP)) is INVALID


def test_whatever_a_bit_flip_does_the_answer_is_an_error_code() -> None:
    """With a right checksum over wrong bytes: nothing but KafkaError comes out."""
    for codec in Compression:
        original = bytearray(batch(3, compression=codec).buffer)
        for position in range(len(original)):
            data = bytearray(original)
            data[position] ^= 0x41
            try:
                check(sealed(data) if position >= 21 else data)
            except KafkaError:
                continue


def test_corrupt_record_is_an_answer() -> None:
    assert issubclass(CorruptRecordError, KafkaError)
