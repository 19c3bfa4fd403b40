"""What compaction makes of timestamps, and of those at the ends of what a number can be."""

from __future__ import annotations

import struct

import pytest

from pykraft.common.settings.topic_config import FOREVER_MS
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.records.crc32c import crc32c
from pykraft.records.record import encode_record
from tests.harness.compaction import records
from tests.harness.log_laws import all_batches
from tests.harness.storage import NOW_MS, at
from tests.unit.storage.upkeep.test_log_cleaner import Compacted, producer


@pytest.mark.parametrize("delete_retention_ms", [FOREVER_MS, FOREVER_MS - NOW_MS])
def test_a_tombstone_may_be_kept_for_ever(delete_retention_ms: int) -> None:
    some = Compacted(delete_retention_ms=delete_retention_ms)
    some.put(("a", "1"))
    some.put(("a", None))
    some.clean()
    some.clean_again(after_ms=1 << 60)
    assert some.offsets == [1, 2] and all_batches(some.log)[0].delete_horizon_ms == FOREVER_MS


def test_a_batch_without_records_is_not_the_youngest() -> None:
    """The end of a segment is kept without its records; their timestamp says nothing of what is left."""
    some = Compacted(segment_bytes=300)
    some.put(("b", "1"))
    some.put(("a", "1"), timestamp=NOW_MS + 5000)
    some.close_segment()
    some.put(("a", "2"), ("c", "x" * 150))
    some.clean()
    assert some.offsets == [0, 2, 3] and all_batches(some.log)[1].count == 0
    assert some.log.offset_of_max_timestamp() == (NOW_MS + 1, 3, 0)
    assert some.log.segments[0].youngest_ms() == NOW_MS, "retention goes by what is left"


def test_a_segment_of_which_nothing_is_left_is_as_old_as_it_was() -> None:
    some = Compacted(segment_bytes=300)
    some.put(("a", "1"), timestamp=NOW_MS + 5000)
    some.close_segment()
    some.put(("a", "2"), ("c", "x" * 150))
    some.clean()
    assert all_batches(some.log)[0].count == 0 and some.log.segments[0].youngest_ms() == NOW_MS + 5000
    assert some.log.offset_of_max_timestamp() == (NOW_MS + 1, 2, 0)


def test_where_a_producer_is_remembered_the_next_largest_timestamp_is_told() -> None:
    some = Compacted(segment_bytes=300)
    some.put(("b", "1"), timestamp=NOW_MS + 20)
    some.put(("a", "1"), timestamp=NOW_MS + 5000, **producer(7, 0))
    some.close_segment()
    some.put(("a", "2"), ("c", "x" * 150))
    some.clean()
    remembered = all_batches(some.log)[1]
    assert (remembered.count, remembered.max_timestamp) == (0, NOW_MS + 5000), "as Kafka writes it"
    assert some.log.offset_of_max_timestamp() == (NOW_MS + 20, 0, 0)


def test_timestamps_that_leave_64_bits_are_compacted() -> None:
    some = Compacted()
    for value in (b"1", b"2"):
        out = bytearray()
        for number, key in enumerate((b"a", b"b" + value)):
            encode_record(out, number, 100, key, value)
        data = bytearray(records(("a", "1"), ("b", "1")).buffer[:HEADER_BYTES]) + out
        struct.pack_into(">i", data, 8, len(data) - 12)
        struct.pack_into(">q", data, 27, FOREVER_MS)
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
        some.log.append_as_follower(memoryview(at(some.log.log_end_offset, RecordBatch(memoryview(data))).buffer))
    some.log.update_high_watermark(some.log.log_end_offset)
    some.clean()
    assert some.offsets == [1, 2, 3] and not some.cleaner.uncleanable
    wrapped_ms = FOREVER_MS + 100 - (1 << 64)
    assert {record.timestamp for each in all_batches(some.log) for record in each.records()} == {wrapped_ms}
    assert some.log.offset_for_timestamp(wrapped_ms) == (wrapped_ms, 1, 0)
