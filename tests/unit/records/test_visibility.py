"""Which batches of a log a reader sees."""

from __future__ import annotations

from collections.abc import Iterable

from pykraft.records.batch import CONTROL, TRANSACTIONAL, RecordBatch
from pykraft.records.filtering import emptied
from pykraft.records.markers import Marker, end_transaction_marker
from pykraft.records.visibility import Visibility
from tests.spark.batches import encoded, raw_batch


def written(producer_id: int, base: int, count: int = 2) -> RecordBatch:
    """A batch of a transaction."""
    records = encoded((n, 0, None, b"%d" % (base + n), ()) for n in range(count))
    return raw_batch(records, count, base, attributes=TRANSACTIONAL, producer_id=producer_id)


def ended(producer_id: int, base: int, committed: bool) -> RecordBatch:
    """The marker of its end."""
    marker = RecordBatch(memoryview(end_transaction_marker(producer_id, 0, Marker(committed, 0), 0)))
    marker.assign(base, 0)
    return marker


def shown(batches: Iterable[RecordBatch], aborted: Iterable[tuple[int, int]]) -> list[int]:
    """The base offsets of what a reader of committed data sees; `aborted` as (producer id, first offset)."""
    visibility = Visibility(True, ((first, producer) for producer, first in aborted))
    return [batch.base_offset for batch in batches if visibility.shows(batch)]


def test_only_transactional_batches_of_an_aborting_producer_are_hidden() -> None:
    plain = raw_batch(encoded([(0, 0, None, b"", ())]), 1, 3, producer_id=2)
    assert shown([written(2, 0), plain, written(1, 4), ended(2, 6, False), written(2, 7)], [(2, 0)]) == [3, 4, 7]


def test_a_marker_that_compaction_has_emptied_is_hidden() -> None:
    spent = RecordBatch(memoryview(emptied(ended(2, 0, False))))
    assert shown([spent, written(2, 1)], []) == [1]


def test_other_control_batches_are_hidden() -> None:
    leader_change = raw_batch(encoded([(0, 0, b"\0\0\0\2", b"", ())]), 1, attributes=CONTROL)
    assert shown([leader_change], []) == []


def test_a_reader_of_everything_sees_aborted_batches_and_no_marker() -> None:
    rule = Visibility(False, [(0, 2)])
    batches = [written(2, 0), ended(2, 2, False), written(2, 3)]
    assert [batch.base_offset for batch in batches if rule.shows(batch)] == [0, 3]


def test_two_transactions_of_one_producer_are_told_apart_by_their_first_offsets() -> None:
    batches = [written(2, 0), ended(2, 2, False), written(2, 3), ended(2, 5, True), written(2, 6), ended(2, 8, False)]
    assert shown(batches, [(2, 6), (2, 0)]) == [3]
