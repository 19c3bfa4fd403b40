"""The codecs of record batches. A compressed batch has its header in the clear; everything after the record count is
one compressed stream.

===  ======  =========================================================================================================
id   name    stream
===  ======  =========================================================================================================
0    none
1    gzip    RFC 1952
2    snappy  xerial framing: 82 "SNAPPY" 00, version int32, compatible int32, then (int32 size, raw block) until the
             end. librdkafka writes one raw block without framing; every reader must accept both.
3    lz4     LZ4 frame. Kafka's Java reader wants independent blocks.
4    zstd    RFC 8878
===  ======  =========================================================================================================

A few bytes can decompress to gigabytes, so `decompress_chunks` hands out pieces of about a megabyte and stops when the
caller wants no more; `decompress` gives up at a limit. Only a block of snappy comes as a whole: it holds at most 22
times its own size, so a batch of a megabyte at most 22 MB.

A stream may be several, one behind the other: members of gzip, frames of zstd, snappy that begins again. What follows
the last member of gzip, or the first frame of lz4, is passed over, as Kafka passes over it. But a stream that ends too
soon is refused: the readers of others stop there.

Follows org.apache.kafka.common.compress.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum

import cramjam
import lz4.frame
import zstandard

from pykraft.common.core import Steps
from pykraft.common.errors import CorruptRecordError

CHUNK_BYTES = 1 << 20
STEP_BYTES = 64 << 10
"""Of data that is compressed in steps: a block of lz4, so that the blocks are the same."""
MAX_BATCH_BYTES = 1 << 30
"""No batch may decompress to more than this."""


class Compression(IntEnum):
    """The codec id in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> "Compression":
        """The codec called `name` in configurations: none (or uncompressed), gzip, snappy, lz4, zstd."""
        return cls["NONE" if name == "uncompressed" else name.upper()]


Encoder = Callable[[Compression, bytes | bytearray], bytes]
"""What a producer compresses with: `compress`, or one whose bytes depend on no library."""

GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
"""No time, no name, and an unknown system, as Java writes it: the same data gives the same bytes everywhere."""
_LZ4_DEFAULT_LEVEL = 9
_ZSTD_DEFAULT_LEVEL = 3
_ZSTD_SLOW_LEVEL = 13
_ZSTD_SLOW_STEP_BYTES = 8 * 1024
"""From that level on a block of 64 KiB takes up to a tenth of a second. A block of 8 KiB takes seven milliseconds at
the highest level, and the stream is one part in a hundred larger."""

_GZIP_MAGIC = GZIP_HEADER[:2]
_GZIP_PIECE_BYTES = 16 * 1024
"""So much is handed to zlib at once: it gives back what follows the end of a member, as a copy."""

_LZ4_FLAGS_OFFSET = 4
_LZ4_INDEPENDENT = 0x20

_ZSTD_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_ZSTD_FLAGS_OFFSET = 4
_ZSTD_CHECKSUM = 0x04
_ZSTD_RLE = 1
"""The type of a block that is one byte, to be repeated."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")

# The densest thing that raw snappy can say is "copy 64 bytes" in 3 bytes: a header that claims more expansion is wrong.
_SNAPPY_MAX_EXPANSION = 22


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """The stream that holds `data`; `level` is how hard to try, as in ``compression.gzip.level`` and so on."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            compressor = zlib.compressobj(-1 if level is None else level, wbits=-zlib.MAX_WBITS)
            trailer = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
            return GZIP_HEADER + compressor.compress(data) + compressor.flush() + trailer
        case Compression.SNAPPY:
            return b"".join(_xerial_parts(data))
        case Compression.LZ4:
            # What Kafka calls level 9, its default, is lz4's fast way.
            effort = 0 if level in (None, _LZ4_DEFAULT_LEVEL) else level
            return bytes(lz4.frame.compress(data, compression_level=effort, block_linked=False, store_size=False))
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(level=_ZSTD_DEFAULT_LEVEL if level is None else level).compress(data)


def compress_in_steps(
    codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None
) -> Steps[bytes]:
    """What `compress` returns, with a pause after each `STEP_BYTES`, or after fewer at the slow levels of zstd. (zstd
    cuts large data into other blocks then.) A step takes a few milliseconds."""
    if len(data) <= (_zstd_step_bytes(level) if codec is Compression.ZSTD else STEP_BYTES):
        return compress(codec, data, level)
    parts = []
    for part in _PARTS[codec](memoryview(data), level):
        parts.append(part)
        yield
    return b"".join(parts)


def _pieces(data: memoryview, size: int = STEP_BYTES) -> Iterator[memoryview]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _gzip_parts(data: memoryview, level: int | None) -> Iterator[bytes]:
    compressor = zlib.compressobj(-1 if level is None else level, wbits=-zlib.MAX_WBITS)
    yield GZIP_HEADER
    check = 0
    for piece in _pieces(data):
        check = zlib.crc32(piece, check)
        yield compressor.compress(piece)
    yield compressor.flush() + struct.pack("<II", check, len(data) & 0xFFFFFFFF)


def _lz4_parts(data: memoryview, level: int | None) -> Iterator[bytes]:
    effort = 0 if level in (None, _LZ4_DEFAULT_LEVEL) else level
    context = lz4.frame.create_compression_context()
    yield bytes(lz4.frame.compress_begin(context, compression_level=effort, block_linked=False))
    for piece in _pieces(data):
        yield bytes(lz4.frame.compress_chunk(context, piece))
    yield bytes(lz4.frame.compress_flush(context))


def _zstd_parts(data: memoryview, level: int | None) -> Iterator[bytes]:
    compressor = zstandard.ZstdCompressor(level=_ZSTD_DEFAULT_LEVEL if level is None else level)
    stream = compressor.compressobj(size=len(data))
    step_bytes = _zstd_step_bytes(level)
    for piece in _pieces(data, step_bytes):
        done = stream.compress(piece)
        if step_bytes < STEP_BYTES:
            done += stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)  # else it gathers a large block first
        yield done
    yield stream.flush()


def _zstd_step_bytes(level: int | None) -> int:
    return STEP_BYTES if level is None or level < _ZSTD_SLOW_LEVEL else _ZSTD_SLOW_STEP_BYTES


_PARTS: dict[Compression, Callable[[memoryview, int | None], Iterator[bytes]]] = {
    Compression.NONE: lambda data, _: map(bytes, _pieces(data)),
    Compression.GZIP: _gzip_parts,
    Compression.SNAPPY: lambda data, _: _xerial_parts(data),
    Compression.LZ4: _lz4_parts,
    Compression.ZSTD: _zstd_parts,
}


def _xerial_parts(data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    yield XERIAL_HEADER
    view = memoryview(data)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        yield _BLOCK_SIZE.pack(len(block))
        yield block


def decompress(codec: Compression, data: memoryview, limit: int = MAX_BATCH_BYTES) -> memoryview:
    """Everything that the stream holds; CorruptRecordError if it cannot be read or holds more than `limit` bytes."""
    if codec is Compression.NONE:
        return data
    chunks = []
    size = 0
    for chunk in decompress_chunks(codec, data):
        size += len(chunk)
        if size > limit:
            raise CorruptRecordError(f"a batch decompresses to more than {limit} bytes")
        chunks.append(chunk)
    return memoryview(chunks[0] if len(chunks) == 1 else b"".join(chunks))


def decompress_chunks(codec: Compression, data: memoryview) -> Iterator[bytes | memoryview]:
    """What the stream holds, in pieces of up to CHUNK_BYTES (of snappy: its blocks); CorruptRecordError where it cannot
    be read."""
    try:
        yield from _DECOMPRESSORS[codec](data)
    except (zlib.error, RuntimeError, cramjam.DecompressionError, zstandard.ZstdError, struct.error, EOFError) as error:
        raise CorruptRecordError(f"the {codec.name.lower()} data of a batch cannot be read: {error}") from error


def _none_chunks(data: memoryview) -> Iterator[memoryview]:
    yield data


def _gzip_chunks(data: memoryview) -> Iterator[bytes]:
    position = 0
    while position == 0 or data[position : position + len(_GZIP_MAGIC)] == _GZIP_MAGIC:
        decompressor = zlib.decompressobj(wbits=31)
        while not decompressor.eof:
            piece: bytes | memoryview = decompressor.unconsumed_tail
            if not piece:
                piece = data[position : position + _GZIP_PIECE_BYTES]
                position += len(piece)
            chunk = decompressor.decompress(piece, CHUNK_BYTES)
            if not chunk and not piece and not decompressor.eof:
                raise EOFError("it ends too soon")
            yield chunk
        position -= len(decompressor.unused_data)


def _snappy_chunks(data: memoryview) -> Iterator[bytes]:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _snappy_block(data)
        return
    position = 0
    while position < len(data):
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise EOFError(f"a block claims {size} bytes, {len(data) - position} are left")
        yield _snappy_block(data[position : position + size])
        position += size


def _snappy_block(block: memoryview) -> bytes:
    claimed = cramjam.snappy.decompress_raw_len(block)
    if claimed > _SNAPPY_MAX_EXPANSION * len(block):
        raise EOFError(f"a block of {len(block)} bytes claims to hold {claimed}")
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4_chunks(data: memoryview) -> Iterator[bytes]:
    decompressor = lz4.frame.LZ4FrameDecompressor()
    rest: bytes | memoryview = data
    while not decompressor.eof:
        chunk = decompressor.decompress(rest, CHUNK_BYTES)
        if not chunk and decompressor.needs_input and not decompressor.eof:
            raise EOFError("it ends too soon")
        rest = b""  # the decompressor keeps what it has not used
        yield chunk


def has_linked_blocks(frame: memoryview) -> bool:
    """Whether the blocks of this lz4 frame refer to those before them. They can be read here, but not by Kafka."""
    return len(frame) > _LZ4_FLAGS_OFFSET and not frame[_LZ4_FLAGS_OFFSET] & _LZ4_INDEPENDENT


def _zstd_chunks(data: memoryview) -> Iterator[bytes]:
    _check_zstd_frames(data)
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        while chunk := reader.read(CHUNK_BYTES):
            yield chunk


def _check_zstd_frames(data: memoryview) -> None:
    """EOFError unless the data ends where a frame ends: the library takes a stream that is cut off for one that is
    over. A frame is a header, then blocks of up to 128 KB with 3 bytes before each, then perhaps a checksum."""
    position = 0
    while position < len(data):
        if int.from_bytes(data[position : position + 4], "little") in _ZSTD_SKIPPABLE:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        header_size = zstandard.frame_header_size(data[position:])
        has_checksum = data[position + _ZSTD_FLAGS_OFFSET] & _ZSTD_CHECKSUM
        position += header_size
        is_last = False
        while not is_last:
            block = int.from_bytes(data[position : position + 3], "little")
            is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
            position += 3 + (1 if kind == _ZSTD_RLE else size)
            if position > len(data):
                raise EOFError("it ends too soon")
        position += 4 if has_checksum else 0
    if position > len(data):
        raise EOFError("it ends too soon")


_DECOMPRESSORS: dict[Compression, Callable[[memoryview], Iterator[bytes | memoryview]]] = {
    Compression.NONE: _none_chunks,
    Compression.GZIP: _gzip_chunks,
    Compression.SNAPPY: _snappy_chunks,
    Compression.LZ4: _lz4_chunks,
    Compression.ZSTD: _zstd_chunks,
}
