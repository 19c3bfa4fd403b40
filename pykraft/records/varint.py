"""Variable-length integers inside records: zigzag, then 7 bits a byte, least significant first.

Zigzag folds the sign into the lowest bit (0, -1, 1, -2 become 0, 1, 2, 3), so that small numbers of either sign take
one byte. A varint holds 32 bits in at most 5 bytes, a varlong 64 bits in at most 10. Those have room for 35 and 70
bits: the bits beyond 32 and 64 are dropped, as Java drops them, so that every reader finds the same number.

Follows org.apache.kafka.common.utils.ByteUtils.
"""

from pykraft.common.errors import CorruptRecordError

_32_BITS = (1 << 32) - 1
_64_BITS = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """The bytes of a signed number of up to 64 bits."""
    if -64 <= value < 64:
        return _ONE_BYTE[value]
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


# Index -64..63: Python counts negative indices from the end, which is just where they belong.
_ONE_BYTE = [bytes([(value << 1) ^ (value >> 63)]) for value in [*range(64), *range(-64, 0)]]


def decode_varint(buffer: memoryview | bytes, position: int, max_bytes: int = 5) -> tuple[int, int]:
    """(value, position after it); CorruptRecordError past the end, or after too many bytes."""
    try:
        octet = buffer[position]
        position += 1
        if octet < 128:
            return (octet >> 1) ^ -(octet & 1), position
        value = octet & 127
        shift = 7
        while True:
            octet = buffer[position]
            position += 1
            value |= (octet & 127) << shift
            if octet < 128:
                value &= _32_BITS if max_bytes == 5 else _64_BITS
                return (value >> 1) ^ -(value & 1), position
            shift += 7
            if shift >= 7 * max_bytes:
                raise CorruptRecordError(f"a varint has more than {max_bytes} bytes")
    except IndexError:
        raise CorruptRecordError("a varint goes past the end of its batch") from None


def decode_varlong(buffer: memoryview | bytes, position: int) -> tuple[int, int]:
    """(value, position after it) of a number of up to 64 bits."""
    return decode_varint(buffer, position, max_bytes=10)


def varint_size(value: int) -> int:
    """How many bytes `value` takes."""
    zigzag = (value << 1) ^ (value >> 63)
    return max(1, (zigzag.bit_length() + 6) // 7)
