"""What simulated producers send is read by the libraries, and has the bytes that it always had."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.records.compression import Compression, decompress
from pykraft.sim.world.encoders import encode

RECORDS = b"".join(f"producer-{n % 3} {n % 2} {n}".encode().ljust(40, b".") for n in range(60))


def samples() -> list[bytes]:
    random = Random(1)
    sizes = [*range(20), 60, 61, 255, 256, 257, 270, 1000, 5000, 70_000]
    dull = [bytes(random.randrange(kinds) for _ in range(size)) for size in sizes for kinds in (1, 2, 256)]
    return [*dull, RECORDS, RECORDS + random.randbytes(300) + RECORDS, random.randbytes(140_000)]


@pytest.mark.costly
@pytest.mark.parametrize("codec", Compression)
def test_the_library_reads_what_was_encoded(codec: Compression) -> None:
    for data in samples():
        assert bytes(decompress(codec, memoryview(encode(codec, data)))) == data, len(data)


def test_lz4_makes_records_smaller_and_random_bytes_hardly_larger() -> None:
    assert len(encode(Compression.LZ4, RECORDS)) < len(RECORDS) / 2
    noise = Random(2).randbytes(1000)
    assert len(encode(Compression.LZ4, noise)) == 7 + 4 + 1000 + 4


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        (b"", "00000000"),
        (b"abc", "03000080 616263 00000000"),
        (b"a" * 20, "0a000000 1a 61 0100 50 6161616161 00000000"),
        (b"abcdefgh" * 3, "11000000 87 6162636465666768 0800 50 6465666768 00000000"),
    ],
)
def test_lz4_has_these_bytes(data: bytes, frame: str) -> None:
    assert encode(Compression.LZ4, data).hex() == "04224d18604082" + frame.replace(" ", "")
