"""What simulated producers compress with: the same data give the same bytes, whichever libraries are installed.

A format says how a stream is read. How well it is packed is up to the encoder, and changes from one version of a
library to the next. A history would change with it: a batch of another size fills another fetch and ends another
segment. So a producer takes its encoder from outside, and here it gets one that is written in Python. lz4, which the
histories draw, really compresses, as the library does (up to 64 KiB with the very bytes of version 1.9.4). gzip,
snappy and zstd are drawn by no seed: their streams hold the data as they are, which every reader accepts.

Only the encoders are replaced. Brokers and consumers read with the libraries: a stream has one right content.
"""

import struct
import zlib

from pykraft.protocol.primitives import encode_unsigned_varint
from pykraft.records.compression import GZIP_HEADER, XERIAL_BLOCK_BYTES, XERIAL_HEADER, Compression

_LZ4_HEADER = bytes.fromhex("04224d18604082")
"""Magic, version 1 with independent blocks, blocks of up to 64 KiB, and the header's checksum."""
_LZ4_BLOCK_BYTES = 64 << 10
_LZ4_STORED = 1 << 31
_LZ4_END = bytes(4)
_MIN_MATCH = 4
_LAST_LITERALS = 5
"""A block ends with at least this many literals."""
_MATCH_MARGIN = 12
"""No match begins in a block's last bytes, but for the one before them."""
_HASH_BITS = 13
_HASH_FACTOR = 2654435761
_SKIP_BITS = 6
"""After 64 positions without a match the search takes two bytes a step, after 128 three, and so on."""
_MOST_IN_TOKEN = 15
_STRIDE = 16
"""Bytes that are compared at once, for speed: the result is the same."""
_STORED_DEFLATE_BYTES = 0xFFFF
_SNAPPY_SHORT_LITERAL = 60
_SNAPPY_LONG_LITERAL = b"\xf4"
"""The length of the literal follows, less one, in two bytes."""
_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_ZSTD_SINGLE_SEGMENT = 0xA0
"""The frame's header says how long the data are, in four bytes."""
_ZSTD_BLOCK_BYTES = 128 << 10
_SIZE = struct.Struct("<I")


def encode(codec: Compression, data: bytes | bytearray) -> bytes:
    """The stream that holds `data`."""
    data = bytes(data)
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _gzip(data)
        case Compression.SNAPPY:
            return _snappy(data)
        case Compression.LZ4:
            return _lz4(data)
        case Compression.ZSTD:
            return _zstd(data)


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


# --- lz4 --------------------------------------------------------------------------------------------------------------


def _lz4(data: bytes) -> bytes:
    blocks = []
    for piece in _pieces(data, _LZ4_BLOCK_BYTES):
        block = _lz4_block(piece)
        is_smaller = len(block) < len(piece)
        blocks.append(_SIZE.pack(len(block)) + block if is_smaller else _SIZE.pack(len(piece) | _LZ4_STORED) + piece)
    return _LZ4_HEADER + b"".join(blocks) + _LZ4_END


def _lz4_block(data: bytes) -> bytes:
    """Sequences of literals and a match each. A match is the last place with the same hash of four bytes."""
    block = bytearray()
    last_start = len(data) - _MATCH_MARGIN
    anchor = 0
    """Where the literals begin that are not written yet."""
    seen = {_hash(data, 0): 0} if last_start > 0 else {}
    position = 1
    while position <= last_start and (found := _next_match(data, position, last_start, seen)) is not None:
        position, source = found
        while source > 0 and position > anchor and data[source - 1] == data[position - 1]:
            source, position = source - 1, position - 1
        while True:
            length = _match_length(data, source, position)
            _put_sequence(block, data[anchor:position], position - source, length)
            position = anchor = position + length
            if position > last_start:
                break
            seen[_hash(data, position - 2)] = position - 2
            key = _hash(data, position)
            source, seen[key] = seen.get(key, 0), position
            if data[source : source + _MIN_MATCH] != data[position : position + _MIN_MATCH]:
                break
        position += 1
    _put_literals(block, data[anchor:], 0)
    return bytes(block)


def _next_match(data: bytes, position: int, last_start: int, seen: dict[int, int]) -> tuple[int, int] | None:
    """From `position` on, the first place whose four bytes were there before, and where."""
    attempts = 1 << _SKIP_BITS
    step = 1
    while position + step <= last_start + 1:
        key = _hash(data, position)
        source, seen[key] = seen.get(key, 0), position
        if data[source : source + _MIN_MATCH] == data[position : position + _MIN_MATCH]:
            return position, source
        position += step
        step = attempts >> _SKIP_BITS
        attempts += 1
    return None


def _hash(data: bytes, position: int) -> int:
    four = int.from_bytes(data[position : position + _MIN_MATCH], "little")
    return (four * _HASH_FACTOR & 0xFFFFFFFF) >> 32 - _HASH_BITS


def _match_length(data: bytes, source: int, position: int) -> int:
    length = _MIN_MATCH
    limit = len(data) - _LAST_LITERALS - position
    while (
        length + _STRIDE <= limit
        and data[source + length : source + length + _STRIDE] == data[position + length : position + length + _STRIDE]
    ):
        length += _STRIDE
    while length < limit and data[source + length] == data[position + length]:
        length += 1
    return length


def _put_sequence(block: bytearray, literals: bytes, offset: int, length: int) -> None:
    more = length - _MIN_MATCH
    _put_literals(block, literals, min(more, _MOST_IN_TOKEN))
    block += offset.to_bytes(2, "little")
    if more >= _MOST_IN_TOKEN:
        _put_length(block, more - _MOST_IN_TOKEN)


def _put_literals(block: bytearray, literals: bytes, in_token: int) -> None:
    count = len(literals)
    block.append(min(count, _MOST_IN_TOKEN) << 4 | in_token)
    if count >= _MOST_IN_TOKEN:
        _put_length(block, count - _MOST_IN_TOKEN)
    block += literals


def _put_length(block: bytearray, rest: int) -> None:
    block += b"\xff" * (rest // 255)
    block.append(rest % 255)


# --- streams that hold the data as they are ---------------------------------------------------------------------------


def _gzip(data: bytes) -> bytes:
    pieces = _pieces(data, _STORED_DEFLATE_BYTES) or [b""]
    parts = [GZIP_HEADER]
    for number, piece in enumerate(pieces, start=1):
        parts += [struct.pack("<BHH", number == len(pieces), len(piece), len(piece) ^ 0xFFFF), piece]
    return b"".join((*parts, struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)))


def _snappy(data: bytes) -> bytes:
    parts = [XERIAL_HEADER]
    for piece in _pieces(data, XERIAL_BLOCK_BYTES):
        length = len(piece) - 1
        is_short = length < _SNAPPY_SHORT_LITERAL
        tag = bytes([length << 2]) if is_short else _SNAPPY_LONG_LITERAL + length.to_bytes(2, "little")
        head = encode_unsigned_varint(len(piece)) + tag
        parts += [struct.pack(">i", len(head) + len(piece)), head, piece]
    return b"".join(parts)


def _zstd(data: bytes) -> bytes:
    pieces = _pieces(data, _ZSTD_BLOCK_BYTES) or [b""]
    parts = [_ZSTD_MAGIC, bytes([_ZSTD_SINGLE_SEGMENT]), _SIZE.pack(len(data))]
    for number, piece in enumerate(pieces, start=1):
        parts += [(len(piece) << 3 | (number == len(pieces))).to_bytes(3, "little"), piece]
    return b"".join(parts)
