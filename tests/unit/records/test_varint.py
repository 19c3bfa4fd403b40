"""Varints: the smallest part of every record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import CorruptRecordError
from pykraft.records.varint import decode_varint, decode_varlong, encode_varint, varint_size

TABLE = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (300, "d804"),
    ((1 << 31) - 1, "feffffff0f"),
    (-(1 << 31), "ffffffff0f"),
]
LONG = [((1 << 63) - 1, "feffffffffffffffff01"), (-(1 << 63), "ffffffffffffffffff01"), (1 << 31, "8080808010")]


@pytest.mark.parametrize(("value", "text"), TABLE)
def test_a_varint_is_these_bytes(value: int, text: str) -> None:
    encoded = bytes.fromhex(text)
    assert encode_varint(value) == encoded
    assert decode_varint(memoryview(encoded), 0) == (value, len(encoded))
    assert decode_varlong(memoryview(encoded), 0) == (value, len(encoded))
    assert varint_size(value) == len(encoded)


@pytest.mark.parametrize(("value", "text"), LONG)
def test_a_varlong_is_these_bytes(value: int, text: str) -> None:
    encoded = bytes.fromhex(text)
    assert encode_varint(value) == encoded
    assert decode_varlong(memoryview(encoded), 0) == (value, len(encoded))
    assert varint_size(value) == len(encoded)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=3))
def test_a_varlong_comes_back_from_the_middle_of_a_buffer(value: int, before: bytes) -> None:
    encoded = encode_varint(value)
    assert decode_varlong(memoryview(before + encoded + b"\xff"), len(before)) == (value, len(before) + len(encoded))
    assert varint_size(value) == len(encoded) <= 10


def test_a_longer_spelling_of_a_small_number_is_accepted_as_java_does() -> None:
    assert decode_varint(memoryview(b"\x80\x80\x00"), 0) == (0, 3)


@pytest.mark.parametrize(
    ("text", "value"), [("ffffffff10", -(1 << 27)), ("ffffffff7f", -(1 << 31)), ("8080808070", 0), ("8280808010", 1)]
)
def test_bits_beyond_32_are_dropped_as_java_drops_them(text: str, value: int) -> None:
    """Apache Kafka 4.2.1 takes such a length from a producer, and reads the record."""
    assert decode_varint(memoryview(bytes.fromhex(text)), 0) == (value, 5)


@pytest.mark.parametrize(
    ("text", "value"), [("ff" * 9 + "02", -(1 << 62)), ("ff" * 9 + "7f", -(1 << 63)), ("82" + "80" * 8 + "7e", 1)]
)
def test_bits_beyond_64_are_dropped_as_java_drops_them(text: str, value: int) -> None:
    assert decode_varlong(memoryview(bytes.fromhex(text)), 0) == (value, 10)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "past the end"),
        ("80", "past the end"),
        ("ffffffff", "past the end"),
        ("ffffffffff", "more than 5 bytes"),
        ("ffffffffff01", "more than 5 bytes"),
    ],
)
def test_what_is_no_varint_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(CorruptRecordError, match=complaint):
        decode_varint(memoryview(bytes.fromhex(text)), 0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("ff" * 9, "past the end"), ("ff" * 10, "more than 10 bytes")],
)
def test_what_is_no_varlong_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(CorruptRecordError, match=complaint):
        decode_varlong(memoryview(bytes.fromhex(text)), 0)
