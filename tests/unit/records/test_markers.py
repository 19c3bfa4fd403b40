"""The markers that end transactions."""

from __future__ import annotations

import pytest

from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.markers import Marker, end_transaction_marker, read_marker


@pytest.mark.parametrize(("committed", "kind"), [(True, "01"), (False, "00")])
def test_a_marker_is_a_control_batch_of_one_record(committed: bool, kind: str) -> None:
    some = RecordBatch(memoryview(end_transaction_marker(7, 3, Marker(committed, 5), timestamp=9)))
    assert some.is_control and some.is_transactional and some.is_valid and some.count == 1
    assert (some.producer_id, some.producer_epoch, some.base_sequence, some.max_timestamp) == (7, 3, -1, 9)
    (record,) = some.records()
    assert (record.key or b"").hex() == "000000" + kind
    assert (record.value or b"").hex() == "000000000005"
    assert read_marker(some) == Marker(committed, 5)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00" * 6),
        (b"\x00\x00\x00", b"\x00" * 6),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00" * 5),
        (b"\x00\x00\x00\x02", b"\x00" * 6),
    ],
)
def test_what_is_no_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=0, control=True)
    builder.append(0, key, value)
    with pytest.raises(CorruptRecordError, match="of producer 7 is"):
        read_marker(RecordBatch(memoryview(builder.build())))


def test_a_newer_version_of_a_marker_is_read_as_far_as_it_is_known() -> None:
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=0, control=True)
    builder.append(0, b"\x00\x09\x00\x01more", b"\x00\x09\x00\x00\x00\x05more")
    assert read_marker(RecordBatch(memoryview(builder.build()))) == Marker(True, 5)
