"""CRC-32C: the wheel and the table are one function."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.records.crc32c import POLYNOMIAL, crc32c, crc32c_by_table


@pytest.mark.parametrize(
    ("data", "checksum"),
    [  # RFC 3720, B.4, and the usual check value
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_checksums(data: bytes, checksum: int) -> None:
    assert crc32c(data) == crc32c_by_table(data) == checksum


@given(st.binary(max_size=300), st.binary(max_size=50))
def test_the_table_is_the_wheel_also_in_pieces(first: bytes, second: bytes) -> None:
    whole = crc32c(first + second)
    assert crc32c_by_table(first + second) == whole
    assert crc32c_by_table(memoryview(second), crc32c_by_table(first)) == whole
    assert crc32c(second, crc32c(first)) == whole


def test_the_polynomial_is_castagnolis() -> None:
    assert int(f"{POLYNOMIAL:032b}"[::-1], 2) == 0x1EDC6F41


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_flipped_bit_is_seen(data: bytes, choice: st.DataObject) -> None:
    bit = choice.draw(st.integers(0, 8 * len(data) - 1))
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    assert crc32c(flipped) != crc32c(data)
