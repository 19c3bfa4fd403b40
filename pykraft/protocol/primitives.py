"""The bytes of the primitive types.

==================  ==========================================================================================
type                on the wire
==================  ==========================================================================================
int8 ... int64      big endian, two's complement
boolean             one byte, 0 or 1 (anything but 0 reads as true)
float64             IEEE 754, big endian
uuid                16 bytes
unsigned varint     7 bits a byte, least significant first, the top bit says that more follows; at most 5 bytes
string              int16 length, UTF-8; length -1 is null
bytes, records      int32 length, octets; length -1 is null
array               int32 count, elements; count -1 is null
compact_ forms      the same with an unsigned varint of length + 1, so that 0 is null (KIP-482)
tagged fields       unsigned varint count, then for each: tag, size (both unsigned varints), that many octets
==================  ==========================================================================================

Reading trusts no peer: a length that goes past the end raises `ProtocolError`, and a count is checked against the bytes
that are left before anything is allocated, so that eight bytes cannot ask for a gigabyte. An element of an array may be
two bytes on the wire and a hundred times as much in memory. So a message also has a *budget* of elements: all its
arrays together, and its tagged fields, may have no more. Apache Kafka 4.4 limits each array instead.

Follows org.apache.kafka.common.protocol.types.Type and org.apache.kafka.common.utils.ByteUtils.
"""

from pykraft.common.errors import ProtocolError

Buffer = memoryview

LONGEST_STRING = 0x7FFF
"""Bytes of UTF-8."""


MOST_TAGGED_FIELDS = 10_000
"""Of one structure, as in Apache Kafka 4.4."""
UNLIMITED = 1 << 62


def encode_unsigned_varint(value: int) -> bytes:
    """At most five bytes, for 0 <= value < 2**32."""
    return UNSIGNED_VARINTS[value]


def _encode_unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class _UnsignedVarints(dict[int, bytes]):
    """The unsigned varint of each number. Small ones are in the table, so that most lengths cost an encoder no call."""

    def __missing__(self, value: int) -> bytes:
        return _encode_unsigned_varint(value)


UNSIGNED_VARINTS = _UnsignedVarints({value: _encode_unsigned_varint(value) for value in range(4096)})


def decode_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value at `position`, and the position after it."""
    value = shift = 0
    while True:
        octet = buffer[position]
        position += 1
        value |= (octet & 127) << shift
        if octet < 128:
            return value, position
        shift += 7
        if shift > 28:
            raise ProtocolError("an unsigned varint has more than five bytes")


def too_short(name: str, wanted: int, left: int) -> ProtocolError:
    """What a decoder raises when a length or count goes past the end."""
    return ProtocolError(f"{name} claims {wanted} bytes or elements, {left} bytes are left")


def too_long(name: str, limit: int) -> ProtocolError:
    """What a decoder raises when a string is longer than any may be, or a tagged value longer than its size says."""
    return ProtocolError(f"{name} is longer than {limit} bytes")


class TooManyElementsError(ProtocolError):
    """A message has more elements than its decoder was allowed to read."""


def too_many(name: str, count: int) -> TooManyElementsError:
    """What a decoder raises when a message has more elements, or a structure more tagged fields, than are allowed."""
    return TooManyElementsError(f"{name} has {count} elements, more than are allowed here or in the message as a whole")


def unexpected_null(name: str) -> ProtocolError:
    """What a decoder raises when a field that cannot be null is."""
    return ProtocolError(f"{name} is null, which this version does not allow")
