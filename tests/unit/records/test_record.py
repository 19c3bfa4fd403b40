"""One record: its bytes, field by field, and what is refused."""

from __future__ import annotations

import pytest

from pykraft.common.errors import CorruptRecordError
from pykraft.records.record import Record, decode_places, decode_records, encode_record, wrapped
from pykraft.records.varint import encode_varint

TABLE = [
    # timestamp delta, offset delta, key, value, headers, bytes
    (0, 0, None, None, [], "0c 00 00 00 01 01 00"),
    (0, 0, b"", b"", [], "0c 00 00 00 00 00 00"),
    (1, 2, b"k", b"va", [], "12 00 02 04 02 6b 04 7661 00"),
    (-1, 0, None, b"v", [], "0e 00 01 00 01 02 76 00"),
    (300, 64, None, None, [("h", b"x"), ("n", None)], "1e 00 d804 8001 01 01 04 02 68 02 78 02 6e 01"),
    (0, 0, None, None, [("é", b""), ("é", b"")], "1c 00 00 00 01 01 04 04 c3a9 00 04 c3a9 00"),
]


@pytest.mark.parametrize(("timestamp", "offset", "key", "value", "headers", "text"), TABLE)
def test_a_record_is_these_bytes(
    timestamp: int, offset: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]], text: str
) -> None:
    out = bytearray()
    encode_record(out, offset, timestamp, key, value, headers)
    assert out.hex() == text.replace(" ", "")
    (record,) = decode_records(memoryview(out), 1, base_offset=1000, base_timestamp=5000)
    assert record == Record(1000 + offset, 5000 + timestamp, key, value, headers)


def body(*parts: bytes) -> memoryview:
    """A record with this body."""
    inside = b"\x00" + b"".join(parts)
    return memoryview(encode_varint(len(inside)) + inside)


ZERO, NULL = b"\x00", b"\x01"


@pytest.mark.parametrize(
    ("data", "count", "complaint"),
    [
        (b"", 1, "past the end"),
        (b"\x01", 1, "claims -1 bytes"),
        (b"\x10\x00", 1, "claims 8 bytes, 1 are left"),
        (b"\x00", 1, "past the end"),
        (body(ZERO, ZERO, NULL, NULL, ZERO), 0, "7 bytes follow the last of 0 records"),
        (body(ZERO, ZERO, NULL, NULL, ZERO), 2, "past the end"),
        (body(ZERO, ZERO, b"\x10", NULL, ZERO), 1, "a field claims 8 bytes, 2 are left"),
        (body(ZERO, ZERO, NULL, b"\x04x", ZERO), 1, "past the end"),
        (body(ZERO, ZERO, NULL, NULL, NULL), 1, "claims -1 headers"),
        (body(ZERO, ZERO, NULL, NULL, encode_varint(1 << 30)), 1, "claims 1073741824 headers"),
        (body(ZERO, ZERO, NULL, NULL, b"\x02", NULL, NULL), 1, "null key"),
        (body(ZERO, ZERO, NULL, NULL, b"\x02", b"\x02h", b"\x04x"), 1, "a field claims 2 bytes, 1 are left"),
        (body(ZERO, ZERO, NULL, NULL, ZERO, b"more"), 1, "fields take 6 of its 10 bytes"),
        (body(b"\xff" * 10 + b"\x02", ZERO, NULL, NULL, ZERO), 1, "more than 10 bytes"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes, count: int, complaint: str) -> None:
    with pytest.raises(CorruptRecordError, match=complaint):
        list(decode_records(memoryview(data), count, base_offset=0, base_timestamp=1))


def test_a_timestamp_delta_with_too_many_bits_is_read_without_them() -> None:
    data = body(b"\xff" * 9 + b"\x02", ZERO, NULL, NULL, ZERO)
    assert [record.timestamp for record in decode_records(data, 1, 0, 1)] == [1 - (1 << 62)]
    assert list(decode_places([data], 1, 0, 1)) == [(0, 1 - (1 << 62))]


def test_a_timestamp_that_leaves_64_bits_wraps() -> None:
    most = (1 << 63) - 1
    data = body(encode_varint(100), ZERO, NULL, NULL, ZERO)
    assert [record.timestamp for record in decode_records(data, 1, 0, most)] == [-9223372036854775709]
    assert list(decode_places([data], 1, 0, most)) == [(0, -9223372036854775709)]
    data = body(encode_varint(-most - 1), ZERO, NULL, NULL, ZERO)
    assert [record.timestamp for record in decode_records(data, 1, 0, -1)] == [most]
    assert [wrapped(number) for number in (5, -5, most, -most - 1)] == [5, -5, most, -most - 1]


def test_a_header_name_that_is_no_utf8_does_not_stop_a_reader() -> None:
    data = body(ZERO, ZERO, NULL, NULL, b"\x02", b"\x04\xff\xfe", NULL)
    (record,) = decode_records(data, 1, 0, 0)
    assert record.headers == [("\ufffd\ufffd", None)]


def test_keys_and_values_are_bytes_of_their_own() -> None:
    """A reader may keep them: they do not hold the whole batch in memory."""
    out = bytearray()
    encode_record(out, 0, 0, b"key", b"value")
    (record,) = decode_records(memoryview(out), 1, 0, 0)
    out[:] = bytes(len(out))
    assert (record.key, record.value) == (b"key", b"value")
