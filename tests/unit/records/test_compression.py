"""The codecs: any reader can read what they write, what they read is bounded."""

from __future__ import annotations

import gzip
import struct
import time
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from pykraft.common.core import finish
from pykraft.common.errors import CorruptRecordError
from pykraft.records import compression
from pykraft.records.compression import (
    CHUNK_BYTES,
    STEP_BYTES,
    Compression,
    compress,
    compress_in_steps,
    decompress,
    decompress_chunks,
    has_linked_blocks,
)

LEVELS = {Compression.GZIP: (None, 1, 9), Compression.LZ4: (None, 1, 12), Compression.ZSTD: (None, 1, 9)}
CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"".join(b"flight %d from EWR to ORD, " % number for number in range(20_000))  # half a megabyte


@pytest.mark.costly
@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", [0, 1, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES, len(TEXT)])
def test_what_is_compressed_in_steps_is_what_is_compressed_at_once(codec: Compression, size: int) -> None:
    """The same bytes; of zstd nearly as few."""
    for data in (TEXT[:size], bytes(size)):
        for level in LEVELS.get(codec, (None,)):
            stream, whole = finish(compress_in_steps(codec, memoryview(data), level)), compress(codec, data, level)
            assert stream == whole or (codec is Compression.ZSTD and len(stream) < 1.05 * len(whole))
            assert decompress(codec, memoryview(stream)) == data


@pytest.mark.parametrize("codec", Compression)
def test_no_step_of_compression_takes_more_than_a_piece_of_the_data(codec: Compression) -> None:
    steps = sum(1 for _ in compress_in_steps(codec, TEXT))
    assert steps >= len(TEXT) // STEP_BYTES


@pytest.mark.parametrize("level", [13, 19, 22])
def test_a_step_at_a_slow_level_of_zstd_compresses_an_eighth_of_what_others_do(level: int) -> None:
    data = memoryview(TEXT)[: STEP_BYTES // 2]
    steps = list(compression._zstd_parts(data, level))
    assert decompress(Compression.ZSTD, memoryview(b"".join(steps))) == data
    assert len(steps) == 5 and all(steps[:4]), "what a step is given is compressed in that step"
    assert [sum(1 for _ in compress_in_steps(Compression.ZSTD, data, each)) for each in (level, 12)] == [5, 0]


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT[:100], TEXT, bytes(3 << 20)], ids=["empty", "x", "100", "text", "zeros"]
)
def test_what_is_compressed_comes_back(codec: Compression, data: bytes) -> None:
    stream = compress(codec, data)
    assert bytes(decompress(codec, memoryview(stream))) == data
    assert b"".join(decompress_chunks(codec, memoryview(stream))) == data
    assert bytes(decompress(codec, memoryview(compress(codec, bytearray(data))))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_chunks_are_bounded(codec: Compression) -> None:
    sizes = [len(chunk) for chunk in decompress_chunks(codec, memoryview(compress(codec, bytes(5 << 20))))]
    assert sum(sizes) == 5 << 20 and max(sizes) <= CHUNK_BYTES


def test_the_codecs_have_kafkas_numbers_and_names() -> None:
    assert {codec.name.lower(): codec.value for codec in Compression} == {
        "none": 0,
        "gzip": 1,
        "snappy": 2,
        "lz4": 3,
        "zstd": 4,
    }
    assert Compression.named("uncompressed") is Compression.NONE
    assert [Compression.named(name) for name in ("none", "gzip", "zstd")] == [0, 1, 4]
    with pytest.raises(KeyError):
        Compression.named("brotli")


# --- what other writers make ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD])
def test_a_stream_may_be_several_in_a_row(codec: Compression) -> None:
    stream = b"".join(compress(codec, data) for data in (b"first ", b"", TEXT, b"last"))
    assert bytes(decompress(codec, memoryview(stream))) == b"first " + TEXT + b"last"


def test_what_follows_gzip_or_lz4_is_passed_over() -> None:
    for codec in (Compression.GZIP, Compression.LZ4):
        assert bytes(decompress(codec, memoryview(compress(codec, TEXT) + b"rubbish"))) == TEXT


def test_gzip_of_the_python_library_is_read() -> None:
    assert bytes(decompress(Compression.GZIP, memoryview(gzip.compress(TEXT)))) == TEXT


def test_a_frame_of_zstd_that_holds_no_data_is_passed_over() -> None:
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"note"
    stream = skippable + compress(Compression.ZSTD, b"first ") + skippable + compress(Compression.ZSTD, b"second")
    assert bytes(decompress(Compression.ZSTD, memoryview(stream))) == b"first second"


def test_raw_snappy_is_read_as_librdkafka_writes_it() -> None:
    assert bytes(decompress(Compression.SNAPPY, memoryview(bytes(cramjam.snappy.compress_raw(TEXT))))) == TEXT


def test_our_snappy_is_in_javas_framing() -> None:
    stream = compress(Compression.SNAPPY, TEXT)
    assert stream[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (size,) = struct.unpack_from(">i", stream, 16)
    assert bytes(cramjam.snappy.decompress_raw(stream[20 : 20 + size])) == TEXT[: 32 * 1024]


def test_our_lz4_frame_has_independent_blocks_and_no_content_size() -> None:
    frame = lz4.frame.get_frame_info(compress(Compression.LZ4, TEXT))
    assert not frame["block_linked"] and frame["content_size"] == 0


def test_lz4_of_linked_blocks_and_zstd_with_content_size_are_read() -> None:
    linked = lz4.frame.compress(TEXT, block_linked=True, store_size=True, content_checksum=True)
    assert bytes(decompress(Compression.LZ4, memoryview(linked))) == TEXT
    assert has_linked_blocks(memoryview(linked))
    assert not has_linked_blocks(memoryview(compress(Compression.LZ4, TEXT)))
    assert not has_linked_blocks(memoryview(b"\x04"))
    sized = zstandard.ZstdCompressor(write_content_size=True, write_checksum=True).compress(TEXT)
    assert bytes(decompress(Compression.ZSTD, memoryview(sized))) == TEXT


# --- hostile streams --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_noise_is_refused(codec: Compression) -> None:
    with pytest.raises(CorruptRecordError, match=f"the {codec.name.lower()} data of a batch cannot be read"):
        decompress(codec, memoryview(b"\xde\xad\xbe\xef" * 20))


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_cut_at_any_byte_never_comes_back_whole(codec: Compression) -> None:
    stream = compress(codec, TEXT[:300])
    for size in range(1, len(stream)):
        try:
            assert bytes(decompress(codec, memoryview(stream)[:size])) != TEXT[:300]
        except CorruptRecordError:
            continue


@pytest.mark.parametrize("has_checksum", [False, True])
@pytest.mark.parametrize("data", [b"x", TEXT, bytes(1 << 20)], ids=["x", "text", "zeros"])
def test_zstd_that_ends_too_soon_is_refused_at_every_byte(data: bytes, has_checksum: bool) -> None:
    stream = memoryview(zstandard.ZstdCompressor(write_checksum=has_checksum).compress(data))
    assert bytes(decompress(Compression.ZSTD, stream)) == data
    for size in range(1, len(stream), max(1, len(stream) // 100)):
        with pytest.raises(CorruptRecordError):
            decompress(Compression.ZSTD, stream[:-size])


def test_zstd_that_is_flushed_and_never_ended_is_refused() -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    stream = compressor.compress(TEXT) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    with pytest.raises(CorruptRecordError, match="it ends too soon"):
        decompress(Compression.ZSTD, memoryview(stream))


def test_many_members_of_gzip_cost_no_more_each_than_few() -> None:
    def seconds(count: int) -> float:
        stream = memoryview(compress(Compression.GZIP, b"") * count + compress(Compression.GZIP, b"x"))
        began = time.process_time()
        assert bytes(decompress(Compression.GZIP, stream)) == b"x"
        return time.process_time() - began

    assert seconds(40_000) < 8 * min(seconds(10_000) for _ in range(3)), "four times as many"


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_byte_raises_nothing_but_corrupt_record(codec: Compression) -> None:
    stream = compress(codec, TEXT[:300])
    raised: set[type[Exception]] = set()
    for position in range(len(stream)):
        damaged = bytearray(stream)
        damaged[position] ^= 0x55
        try:
            decompress(codec, memoryview(damaged), limit=1 << 24)
        except Exception as error:
            raised.add(type(error))
    assert raised == {CorruptRecordError}


@pytest.mark.parametrize("codec", CODECS)
def test_a_limit_ends_the_reading(codec: Compression) -> None:
    stream = memoryview(compress(codec, bytes(4 << 20)))
    assert len(decompress(codec, stream, limit=4 << 20)) == 4 << 20
    with pytest.raises(CorruptRecordError, match=f"more than {(4 << 20) - 1} bytes"):
        decompress(codec, stream, limit=(4 << 20) - 1)


@pytest.mark.costly
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_bomb_costs_no_memory_while_it_is_streamed(codec: Compression) -> None:
    bomb = memoryview(compress(codec, bytes(100 << 20)))
    tracemalloc.start()
    try:
        assert sum(len(chunk) for chunk in decompress_chunks(codec, bomb)) == 100 << 20
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_block_of_snappy_is_not_much_larger_than_its_bytes() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(20 << 20)))
    sizes = [len(chunk) for chunk in decompress_chunks(Compression.SNAPPY, memoryview(block))]
    assert sizes == [20 << 20] and sizes[0] < 22 * len(block)


def test_a_snappy_block_that_claims_too_much_is_not_even_allocated() -> None:
    claims_a_gigabyte = b"\x80\x80\x80\x80\x04" + b"\x00" * 20
    with pytest.raises(CorruptRecordError, match="claims to hold 1073741824"):
        decompress(Compression.SNAPPY, memoryview(claims_a_gigabyte))


@pytest.mark.parametrize("size", [-1, 1000])
def test_a_snappy_frame_with_an_impossible_block_size_is_refused(size: int) -> None:
    stream = compress(Compression.SNAPPY, b"")[:16] + struct.pack(">i", size) + b"\x00"
    with pytest.raises(CorruptRecordError, match="a block claims"):
        decompress(Compression.SNAPPY, memoryview(stream))


def test_gzip_with_a_wrong_checksum_is_refused() -> None:
    stream = bytearray(compress(Compression.GZIP, b"flights"))
    stream[-8:-4] = zlib.crc32(b"planes").to_bytes(4, "little")
    with pytest.raises(CorruptRecordError):
        decompress(Compression.GZIP, memoryview(stream))
