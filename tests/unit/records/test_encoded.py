"""A finished batch under another producer's numbers: what that producer would have encoded itself."""

from __future__ import annotations

import pytest

from pykraft.common.errors import CorruptRecordError
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.encoded import EncodedRecordBatch


def built(compression: Compression, transactional: bool = False, **numbers: int) -> bytes:
    builder = RecordBatchBuilder(compression=compression, transactional=transactional, **numbers)
    for number in range(20):
        builder.append(1_700_000_000_000 - number, b"key", b"value %d" % number, [("h", None)])
    return bytes(builder.build())


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("compression", Compression)
def test_its_bytes_are_those_of_a_batch_that_was_built_under_these_numbers(
    compression: Compression, transactional: bool
) -> None:
    encoded = EncodedRecordBatch(built(compression), transactional)
    assert (encoded.count, encoded.size, encoded.compression) == (20, len(built(compression)), compression)
    for numbers in ((7, 3, 0), ((1 << 62) + 1, 32_767, 0x7FFFFFFF)):
        names = ("producer_id", "producer_epoch", "base_sequence")
        for name, number in zip(names, numbers, strict=True):
            setattr(encoded, name, number)
        expected = built(compression, transactional, **dict(zip(names, numbers, strict=True)))
        assert bytes(encoded.build()) == expected


def test_what_is_not_one_whole_batch_is_refused() -> None:
    whole = built(Compression.NONE)
    damaged = whole[:-1] + b"\0"
    for data in (b"", whole[:60], whole[:-1], whole + b"\0", whole + whole, damaged):
        with pytest.raises(CorruptRecordError, match=f"{len(data)} bytes are not one whole record batch"):
            EncodedRecordBatch(data, transactional=True)
