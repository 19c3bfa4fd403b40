"""What a leader accepts of a producer, and what it answers to the rest: the hostile batches, one by one.

The codes are those of Apache Kafka 4.2.1, measured with the same bytes.
"""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import lz4.frame
import pytest

from pykraft.common.core import finish
from pykraft.common.errors import CorruptRecordError, ErrorCode, InvalidRecordsError, KafkaError
from pykraft.common.settings.topic_config import FOREVER_MS
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import STEP_BYTES, Compression, compress
from pykraft.records.crc32c import crc32c
from pykraft.records.record import encode_record, wrapped
from pykraft.records.varint import encode_varint
from pykraft.storage import validator
from pykraft.storage.append_rules import AppendRules
from pykraft.storage.validator import UnpackBudget, only_batch, validate, validation
from tests.harness.storage import NOW_MS, batch, marker, produced, settings

CORRUPT, INVALID, UNKNOWN = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
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
    return validate(only_batch(memoryview(data)), AppendRules.of(settings(**config)), NOW_MS)


def refusal(data: bytearray, **config: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        check(data, **config)
    return refused.value.code


TWO = bytes(batch(2).buffer[HEADER_BYTES:])
ONE = TWO[: len(TWO) // 2]
LARGE = bytes(batch(1, size=300_000).buffer[HEADER_BYTES:])
SHORTEST = b"\x0c\x00\x00\x00\x01\x01\x00"


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
        (with_records(b"\xff" * len(TWO)), UNKNOWN),
        (with_records(b"\xff" * 4), INVALID),
        (with_records(b"\x00", 1), INVALID),  # shorter than a record can be
        (with_records(b"\x00" * 70, 70), INVALID),
        (with_records(b"\x0a" + bytes(5), 1), INVALID),
        (with_records(b"\x80\x00", 1), INVALID),
        # what follows the batch
        (bytearray(batch(2).buffer) + bytes(12), CORRUPT),
        (bytearray(batch(2).buffer) + bytes(60), CORRUPT),
        (bytearray(batch(2).buffer) + bytes(61), CORRUPT),
        (bytearray(batch(2).buffer) + batch(2).buffer[:16] + b"\x03", CORRUPT),
        (bytearray(batch(2).buffer) + batch(2).buffer[:16] + b"\xff", CORRUPT),
        # checksum and lengths
        (changed(batch(2), 17, ">I", 0, seal=False), CORRUPT),
        (changed(batch(2), 70, ">B", 255, seal=False), CORRUPT),
        (changed(batch(2), 8, ">i", batch(2).size - 13), CORRUPT),
        (changed(batch(2), 8, ">i", 48), CORRUPT),
        (changed(batch(2), 8, ">i", 0), CORRUPT),
        (changed(batch(2), 8, ">i", -1), CORRUPT),
        (changed(batch(2), 8, ">i", batch(2).size), INVALID),
        (changed(batch(2), 16, ">b", 3), CORRUPT),
        (changed(batch(2), 8, ">i", (1 << 31) - 13), INVALID),
        (changed(batch(2), 8, ">i", (1 << 31) - 12), UNKNOWN),
        (changed(batch(2), 8, ">i", (1 << 31) - 1), UNKNOWN),
        (changed(batch(2), 8, ">i", (1 << 31) - 1)[:17], UNKNOWN),
        (bytearray(batch(2).buffer) + changed(batch(2), 8, ">i", (1 << 31) - 12)[:17], UNKNOWN),
        (changed(RecordBatch(memoryview(changed(batch(2), 16, ">b", 1))), 8, ">i", (1 << 31) - 1), UNKNOWN),
        (changed(RecordBatch(memoryview(changed(batch(2), 16, ">b", 1))), 8, ">i", 13), CORRUPT),
        # compressed data
        *[(with_records(b"\xde\xad\xbe\xef" * 9, 2, codec), UNKNOWN) for codec in Compression if codec],
        (with_records(compress(Compression.GZIP, TWO)[:-9], 2, Compression.GZIP), UNKNOWN),
        (with_records(compress(Compression.LZ4, TWO)[:-9], 2, Compression.LZ4), UNKNOWN),
        *[(with_records(compress(Compression.ZSTD, TWO)[:-n], 2, Compression.ZSTD), UNKNOWN) for n in (1, 8)],
        (with_records(lz4.frame.compress(LARGE, block_linked=True), 1, Compression.LZ4), UNKNOWN),
        (with_records(b"", 2, Compression.GZIP), UNKNOWN),
        (with_records(b"", 2, Compression.ZSTD), INVALID),
        (changed(batch(2), 21, ">h", 5), UNKNOWN),
        (changed(batch(2), 21, ">h", 7), UNKNOWN),
        *[(with_records(compress(codec, ONE), 2, codec), INVALID) for codec in Compression if codec],
        *[(with_records(compress(codec, TWO + ONE), 2, codec), INVALID) for codec in Compression if codec],
        # timestamps
        (bytearray(batch(1, timestamp=NOW_MS + HOUR_MS + 1).buffer), ErrorCode.INVALID_TIMESTAMP),
        (changed(batch(1, timestamp=-1), 21, ">h", 0x08), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_a_hostile_batch_is_answered_as_apache_kafka_answers_it(data: bytearray, code: ErrorCode) -> None:
    assert refusal(data) is code


@pytest.mark.parametrize(
    "data",
    [
        with_records(ONE + ONE),  # both records say that they are the first
        bytearray(batch(2).buffer) + bytes(11),
        bytearray(batch(2).buffer) + batch(2).buffer[:17],
        bytearray(batch(2).buffer) + changed(batch(2), 8, ">i", (1 << 31) - 13),
        bytearray(batch(2).buffer) + changed(batch(2), 8, ">i", (1 << 31) - 1)[:16],
        with_records(lz4.frame.compress(LARGE, block_linked=False), 1, Compression.LZ4),
        with_records(SHORTEST * 2),
        changed(batch(2), 12, ">i", 77),
        changed(batch(2), 12, ">i", -77),
        bytearray(batch(2, timestamp=-1).buffer),
        bytearray(batch(1, timestamp=-2).buffer),
        changed(batch(2), 35, ">q", -2),
        bytearray(batch(1, timestamp=0).buffer),
        bytearray(batch(1, timestamp=NOW_MS + HOUR_MS).buffer),
        bytearray(produced(0, 0, epoch=-5).buffer),
        changed(batch(2), 21, ">h", 0x40),
        changed(batch(2), 21, ">h", 0x08),
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


@pytest.mark.parametrize("timestamp", [-(1 << 63), NOW_MS - 1 - (1 << 63), NOW_MS + 1 - (1 << 63), -2, (1 << 63) - 1])
def test_no_timestamp_is_too_far_where_there_are_no_limits(timestamp: int) -> None:
    """An age that does not fit into 64 bits wraps, and passes for the future."""
    before, after = "message_timestamp_before_max_ms", "message_timestamp_after_max_ms"
    data = changed(batch(1), 27, ">q", timestamp)
    check(bytearray(data), **{before: FOREVER_MS, after: FOREVER_MS})
    assert refusal(bytearray(data), **{before: HOUR_MS, after: HOUR_MS}) is ErrorCode.INVALID_TIMESTAMP
    if timestamp < NOW_MS - (1 << 63):
        assert refusal(bytearray(data), **{before: FOREVER_MS, after: HOUR_MS}) is ErrorCode.INVALID_TIMESTAMP


def test_with_log_append_time_the_broker_stamps_and_no_timestamp_is_wrong() -> None:
    some = check(bytearray(batch(3, timestamp=NOW_MS + 9 * HOUR_MS).buffer), message_timestamp_type="LogAppendTime")
    assert some.is_valid and some.uses_log_append_time
    assert [record.timestamp for record in some.records()] == [NOW_MS] * 3


# --- what the topic's settings ask for --------------------------------------------------------------------------------


def blamed(data: bytearray, **config: Any) -> tuple[ErrorCode, list[int]]:
    """The code of a refusal, and the records that are named in it."""
    with pytest.raises(InvalidRecordsError) as refused:
        check(data, **config)
    assert all(error.message for error in refused.value.records)
    return refused.value.code, [error.batch_index for error in refused.value.records]


def mixed(*records: tuple[int, bytes | None], codec: Compression = Compression.NONE) -> bytearray:
    """A batch of records with these timestamps and keys."""
    builder = RecordBatchBuilder(compression=codec)
    for timestamp, key in records:
        builder.append(timestamp, key, b"value", [("header", None)])
    return builder.build()


def seen(some: RecordBatch) -> list[tuple[int, int, bytes | None, bytes | None, list[Any]]]:
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in some.records()]


COMPACTED = {"cleanup_policy": ("compact", "delete")}


@pytest.mark.parametrize("codec", Compression)
def test_records_without_a_key_are_named_where_the_topic_is_compacted(codec: Compression) -> None:
    data = mixed((NOW_MS, b"a"), (NOW_MS, None), (NOW_MS, b""), (NOW_MS, None), codec=codec)
    assert blamed(bytearray(data), **COMPACTED) == (INVALID, [1, 3])
    check(data)


def test_single_records_may_be_too_old_or_too_young() -> None:
    limits = {"message_timestamp_before_max_ms": 10, "message_timestamp_after_max_ms": 20}
    data = mixed((NOW_MS, b"a"), (NOW_MS - 11, b"b"), (-1, b"c"), (NOW_MS + 21, None))
    assert blamed(bytearray(data), **limits) == (ErrorCode.INVALID_TIMESTAMP, [1, 3])
    # Of a record that is wrong in two ways the error names the key, but the timestamps of others decide the code.
    assert blamed(bytearray(data), **limits, **COMPACTED) == (ErrorCode.INVALID_TIMESTAMP, [1, 3])


def test_the_sentence_names_three_records_at_most() -> None:
    with pytest.raises(
        InvalidRecordsError, match=r"5 of 5 records are refused: record 0: .*; record 1: .*; record 2: "
    ) as e:
        check(mixed(*[(NOW_MS, None)] * 5), **COMPACTED)
    assert "record 3" not in e.value.detail and len(e.value.records) == 5


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("config", [{}, COMPACTED, {"compression_type": "gzip"}])
@pytest.mark.parametrize("claimed", [NOW_MS - 5, NOW_MS + 2 * HOUR_MS, 1 << 62, -1, -2])
def test_the_largest_timestamp_is_that_of_the_records(claimed: int, config: dict[str, Any], codec: Compression) -> None:
    sent = RecordBatch(memoryview(mixed((NOW_MS, b"a"), (NOW_MS + 7, b"b"), (NOW_MS + 3, b"c"), codec=codec)))
    some = check(changed(sent, 35, ">q", claimed), **config)
    assert (some.max_timestamp, some.is_valid) == (NOW_MS + 7, True)
    if not config:
        assert some.buffer == sent.buffer, "nothing else is changed"


@pytest.mark.parametrize(
    ("timestamps", "largest"),
    [((-1, -1), -1), ((-2, -3), -1), ((-2, 5), 5), ((5, -1), 5), ((0, 0), 0), ((-(1 << 62), -(1 << 61)), -1)],
)
def test_the_largest_timestamp_is_not_below_that_of_none(timestamps: tuple[int, int], largest: int) -> None:
    data = mixed(*[(timestamp, b"a") for timestamp in timestamps])
    some = check(changed(RecordBatch(memoryview(data)), 35, ">q", 77))
    assert (some.max_timestamp, [each.timestamp for each in some.records()]) == (largest, list(timestamps))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("attributes", [0x00, 0x40, 0x80, 0x100, 0x7F80, 0xC0, -0x8000])
def test_attributes_that_mean_nothing_go_where_the_header_is_changed(attributes: int, codec: Compression) -> None:
    data = changed(batch(2, compression=codec), 21, ">h", attributes | codec)
    assert check(bytearray(data)).buffer == data
    some = check(changed(RecordBatch(memoryview(data)), 35, ">q", NOW_MS + 9))
    assert (some.attributes, some.is_valid) == (attributes & 0x40 | codec, True)


def test_a_producer_does_not_say_when_its_records_were_appended() -> None:
    marked = changed(batch(2), 21, ">h", 0x08)
    some = check(bytearray(marked))
    assert (some.uses_log_append_time, some.is_valid, some.max_timestamp) == (False, True, NOW_MS + 1)
    assert blamed(bytearray(marked), message_timestamp_type="LogAppendTime") == (ErrorCode.INVALID_TIMESTAMP, [0, 1])


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("wanted", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_may_have_its_own_codec(codec: Compression, wanted: str) -> None:
    builder = RecordBatchBuilder(compression=codec, producer_id=7, producer_epoch=2, base_sequence=5)
    for number in range(30):
        builder.append(NOW_MS + number % 7, b"key", b"value" * number, [("header", b"h")])
    data = builder.build()
    before = RecordBatch(memoryview(bytes(data)))
    after = check(data, compression_type=wanted)
    assert after.is_valid and after.compression is (codec if wanted == "producer" else Compression.named(wanted))
    assert seen(after) == seen(before)
    same = ("producer_id", "producer_epoch", "base_sequence", "count", "last_offset_delta", "max_timestamp")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    if after.compression is codec:
        assert after.buffer == before.buffer


def test_a_batch_that_is_packed_anew_is_what_its_producer_would_have_sent() -> None:
    for codec in Compression:
        packed = check(bytearray(batch(9).buffer), compression_type="uncompressed" if not codec else codec.name.lower())
        assert packed.buffer == batch(9, compression=codec).buffer


@pytest.mark.parametrize("second", [0, 2, -1])
def test_records_that_are_numbered_wrongly_are_numbered_anew_when_they_are_packed(second: int) -> None:
    """In the codec that they came in Kafka cannot number them: it has passed over their keys and values."""
    out = bytearray(ONE)
    encode_record(out, second, 0, b"k", b"v")
    data = with_records(compress(Compression.LZ4, out), 2, Compression.LZ4)
    assert [record.offset for record in check(bytearray(data), compression_type="zstd").records()] == [0, 1]
    for config in ({}, {"message_timestamp_before_max_ms": 9 * HOUR_MS}, {"compression_type": "lz4"}):
        assert refusal(bytearray(data), **config) is UNKNOWN
    assert [each.offset for each in check(with_records(bytes(out))).records()] == [0, second], (
        "not compressed: as it is"
    )


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_negative_timestamps_are_not_packed_again(codec: Compression) -> None:
    for timestamps in ((-2,), (-2, NOW_MS), (NOW_MS, -2)):
        data = mixed(*[(timestamp, b"a") for timestamp in timestamps], codec=codec)
        check(bytearray(data))
        assert refusal(bytearray(data), compression_type="gzip") is UNKNOWN
    none = check(mixed((-1, b"a"), (NOW_MS, b"b"), codec=codec), compression_type="gzip")
    assert [each.timestamp for each in none.records()] == [-1, NOW_MS]


@pytest.mark.parametrize(
    "some",
    [
        b"\x10\x01\x00\x00\x02k\x02v\x00",  # attributes
        b"\x90\x00\x00\x00\x00\x02k\x02v\x00",  # a length of two bytes
        b"\x12\x00\x80\x00\x00\x02k\x02v\x00",
        b"\x12\x00\x00\x80\x00\x02k\x02v\x00",
        b"\x12\x00\x00\x00\x82\x00k\x02v\x00",
        b"\x10\x00\x00\x06\x02k\x02v\x00",  # offset delta 3
    ],
)
def test_records_are_packed_again_as_kafkas_producer_writes_them(some: bytes) -> None:
    usual = b"\x10\x00\x00\x00\x02k\x02v\x00"
    packed = check(with_records(some, 1), compression_type="lz4")
    assert packed.buffer == check(with_records(usual, 1), compression_type="lz4").buffer


def test_records_are_packed_again_from_the_timestamp_of_the_first() -> None:
    for base in (NOW_MS, 77, -5, -(1 << 63)):
        out = bytearray()
        encode_record(out, 0, wrapped(NOW_MS - base), b"k", b"v")
        data = with_records(bytes(out), 1)
        struct.pack_into(">q", data, 27, base)
        packed = check(sealed(data), compression_type="lz4")
        assert (packed.base_timestamp, [each.timestamp for each in packed.records()]) == (NOW_MS, [NOW_MS])


def test_the_size_counts_as_it_comes_and_as_it_is_packed() -> None:
    loose, dense = batch(20, size=50), batch(20, size=50, compression=Compression.GZIP)
    limit = {"max_message_bytes": dense.size}
    assert check(bytearray(dense.buffer), **limit, compression_type="gzip").size == dense.size
    assert refusal(bytearray(loose.buffer), **limit, compression_type="gzip") is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(bytearray(dense.buffer), **limit, compression_type="uncompressed") is ErrorCode.MESSAGE_TOO_LARGE


def test_the_level_of_a_codec_may_be_chosen() -> None:
    data = bytearray(batch(200, size=50).buffer)
    sizes = [check(bytearray(data), compression_type="gzip", compression_gzip_level=level).size for level in (1, 9)]
    assert sizes[0] > sizes[1]
    for level in (1, 9, 17):
        assert seen(check(bytearray(data), compression_type="lz4", compression_lz4_level=level))
    for level in (-5, 3, 22):
        assert seen(check(bytearray(data), compression_type="zstd", compression_zstd_level=level))


def test_a_mark_of_the_broker_is_made_after_the_records_are_packed() -> None:
    some = check(bytearray(batch(3).buffer), compression_type="lz4", message_timestamp_type="LogAppendTime")
    assert some.is_valid and [record.timestamp for record in some.records()] == [NOW_MS] * 3


@pytest.mark.parametrize("config", [{}, {"compression_type": "gzip"}, COMPACTED])
def test_the_fields_of_a_record_must_be_in_order(config: dict[str, Any]) -> None:
    torn = bytearray(TWO)
    torn[torn.index(b"\x14")] = 0x7E  # the first value claims 63 bytes
    for codec in (Compression.NONE, Compression.LZ4):
        assert refusal(with_records(compress(codec, torn), 2, codec), **config) is INVALID


def test_the_length_of_a_record_is_not_compared_with_its_fields_where_kafka_does_not() -> None:
    """A compressed batch that stays as it is: Kafka appends it, too, and no consumer can read it."""
    for length in (0, 9, 11):
        data = encode_varint(length) + SHORTEST[1:]
        check(with_records(compress(Compression.LZ4, data), 1, Compression.LZ4))
        assert refusal(with_records(data, 1)) is INVALID
        packed = with_records(compress(Compression.LZ4, data), 1, Compression.LZ4)
        assert refusal(packed, compression_type="gzip") is INVALID
    data = compress(Compression.LZ4, encode_varint(-1) + SHORTEST[1:])
    assert refusal(with_records(data, 1, Compression.LZ4)) is INVALID, "Kafka 4.2 took this, too"


def test_a_long_record_of_a_compressed_batch_is_refused_with_its_batch() -> None:
    """max.decompressed.message.bytes bounds what a batch may hide: one as it is has max.message.bytes."""
    packed, longest = compress(Compression.LZ4, TWO), len(ONE) - 1  # its length does not count itself
    check(with_records(packed, 2, Compression.LZ4), max_decompressed_message_bytes=longest)
    assert refusal(with_records(packed, 2, Compression.LZ4), max_decompressed_message_bytes=longest - 1) is INVALID
    check(with_records(TWO), max_decompressed_message_bytes=1)


def tiny_records(count: int, max_timestamp: int, *, is_numbered: bool = True) -> bytearray:
    """A batch of this many records of 7 to 9 bytes, with this timestamp in its header."""
    out = bytearray(b"" if is_numbered else SHORTEST * count)
    for number in range(count if is_numbered else 0):
        encode_record(out, number, 0, None, None)
    data = with_records(compress(Compression.ZSTD, out), 1, Compression.ZSTD)
    for offset, layout, value in ((23, ">i", count - 1), (35, ">q", max_timestamp), (57, ">i", count)):
        struct.pack_into(layout, data, offset, value)
    return sealed(data)


@pytest.mark.parametrize("config", [{}, {"compression_type": "lz4"}])
def test_to_look_at_records_takes_little_more_memory_than_they_unpack_to(config: dict[str, Any]) -> None:
    """The header's largest timestamp is in the future, and the records are gone over."""
    data = tiny_records(20_000, 1 << 60)
    tracemalloc.start()
    try:
        check(data, **config)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20, "a piece of the stream is a megabyte"
    finally:
        tracemalloc.stop()


def test_ten_thousand_wrong_records_are_listed_and_no_more() -> None:
    assert blamed(tiny_records(10_500, NOW_MS), **COMPACTED) == (INVALID, list(range(10_000)))


def test_a_timestamp_that_leaves_64_bits_wraps_also_where_records_are_packed_anew() -> None:
    body = b"\x00" + encode_varint(NOW_MS - (1 << 63)) + b"\x00\x02k\x02v\x00"
    data = with_records(encode_varint(len(body)) + body, 1)
    struct.pack_into(">q", data, 27, -(1 << 63))
    for config in ({}, {"compression_type": "zstd"}, COMPACTED):
        some = check(sealed(bytearray(data)), **config)
        assert list(some.places()) == [(0, NOW_MS)] and [each.timestamp for each in some.records()] == [NOW_MS]


def test_a_sum_that_leaves_64_bits_is_not_the_largest_timestamp() -> None:
    """The first record's timestamp wraps, and is old; the second's is of today."""
    out = bytearray()
    encode_record(out, 0, (1 << 62) + 5, b"k", b"v")
    encode_record(out, 1, NOW_MS - (1 << 62), b"k", b"v")
    data = with_records(bytes(out))
    struct.pack_into(">q", data, 27, 1 << 62)
    forever = {"message_timestamp_after_max_ms": FOREVER_MS}
    some = check(sealed(data), **forever)
    assert (some.max_timestamp, some.is_valid) == (NOW_MS, True)
    assert [each.timestamp for each in some.records()] == [
        5 - (1 << 63),
        NOW_MS,
    ]


# --- what a stream may hold -------------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(("codec", "size"), [(Compression.GZIP, 30), (Compression.LZ4, 31), (Compression.ZSTD, 31)])
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


@pytest.mark.parametrize("config", [{}, COMPACTED])
def test_a_batch_that_unpacks_to_too_much_is_to_be_sent_in_pieces(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(batch(2, size=1 << 20, key=b"k", compression=Compression.ZSTD).buffer)
    check(bytearray(data), **config)
    monkeypatch.setattr(validator, "MAX_BATCH_BYTES", 1 << 20)
    assert refusal(data, **config) is TOO_LARGE


def test_the_batches_of_a_request_share_one_budget_and_the_work_on_them_pauses() -> None:
    data = bytearray(batch(2, size=1 << 20, key=b"k", compression=Compression.ZSTD).buffer)
    rules, budget = AppendRules.of(settings()), UnpackBudget()
    most = validator.MAX_UNPACKED_BYTES // (2 << 20) - 1
    for number in range(1, most + 2):
        steps = validation(only_batch(memoryview(bytearray(data))), rules, NOW_MS, budget)
        if number > most:
            with pytest.raises(KafkaError) as refused:
                finish(steps)
            assert refused.value.code is TOO_LARGE
        else:
            finish(steps)


def test_a_batch_that_is_packed_again_pauses_between_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validator, "RECORDS_PER_TURN", 10)
    rules = AppendRules.of(settings(compression_type="gzip"))
    data = batch(100, headers=[("a", b"b")]).buffer
    steps = validation(only_batch(data), rules, NOW_MS, UnpackBudget())
    pauses = 0
    with pytest.raises(StopIteration):
        next(steps)
        while True:
            pauses += 1
            steps.send(0)
    assert pauses == 10


@pytest.mark.costly
def test_a_batch_of_too_many_records_is_to_be_sent_in_pieces() -> None:
    """A few kilobytes could hold a hundred million of them, and each takes a moment of the node's time."""
    assert len(tiny_records(1 << 17, NOW_MS, is_numbered=False)) < 1000 and len(SHORTEST) << 17 < 1 << 20
    check(tiny_records(1 << 17, NOW_MS))
    for is_numbered in (True, False):
        assert refusal(tiny_records((1 << 17) + 1, NOW_MS, is_numbered=is_numbered)) is TOO_LARGE


@pytest.mark.parametrize("config", [{}, {"cleanup_policy": ("compact",)}, {"compression_type": "gzip"}])
def test_whatever_a_bit_flip_does_the_answer_is_an_error_code(config: dict[str, Any]) -> None:
    """With a right checksum over wrong bytes: nothing but KafkaError comes out."""
    for codec in Compression:
        original = bytearray(batch(3, compression=codec).buffer)
        for position in range(len(original)):
            data = bytearray(original)
            data[position] ^= 0x41
            try:
                check(sealed(data) if position >= 21 else data, **config)
            except KafkaError:
                continue


def test_corrupt_record_is_an_answer() -> None:
    assert issubclass(CorruptRecordError, KafkaError)


@pytest.mark.parametrize("source", [Compression.LZ4, Compression.ZSTD])
def test_a_batch_of_megabytes_is_packed_again_in_steps_of_some_kilobytes(source: Compression) -> None:
    """A megabyte of zstd may be thirty megabytes of text, and gzip takes a second and a half for these."""
    data = batch(20, size=200_000, compression=source).buffer
    steps = validation(only_batch(data), AppendRules.of(settings(compression_type="gzip")), NOW_MS, UnpackBudget())
    pauses = 0
    try:
        next(steps)
        while True:
            pauses += 1
            steps.send(0)
    except StopIteration as end:
        assert end.value.compression is Compression.GZIP
    assert pauses >= 20 * 200_000 // STEP_BYTES
