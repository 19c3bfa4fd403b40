"""A search by time pauses within a batch of many records, and whatever happens to the log meanwhile does not mislead
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.common.core import Steps
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.storage import log_segment
from pykraft.storage.log import UnifiedLog
from pykraft.storage.time_lookup import offset_for_timestamp, offset_of_max_timestamp
from tests.harness.storage import NOW_MS, at, batch, open_log, tiny

MANY = 5_500


def many(count: int = MANY, codec: Compression = Compression.GZIP, last_ms: int = 5) -> RecordBatch:
    """Records of one time, but for the last one, which is `last_ms` younger."""
    builder = RecordBatchBuilder(compression=codec)
    for number in range(count):
        builder.append(NOW_MS + (last_ms if number == count - 1 else 0), None, b"v")
    return RecordBatch(memoryview(builder.build()))


def pauses(steps: Steps[Any]) -> tuple[int, Any]:
    """How often these steps pause, and what they return."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


@pytest.mark.parametrize("search", [lambda log: offset_for_timestamp(log, NOW_MS + 1), offset_of_max_timestamp])
def test_a_search_pauses_after_every_thousand_records(search: Callable[[UnifiedLog], Steps[Any]]) -> None:
    log = open_log()
    log.append_as_leader(many(), 3)
    assert pauses(search(log)) == (MANY // log_segment._PLACES_PER_TURN, (NOW_MS + 5, MANY - 1, 3))


def test_a_time_that_no_header_claims_unpacks_nothing() -> None:
    log = open_log()
    log.append_as_leader(many(), 3)
    assert pauses(offset_for_timestamp(log, NOW_MS + 6)) == (0, None)


def test_a_batch_whose_header_claims_no_such_time_is_not_unpacked() -> None:
    log = open_log()
    log.append_as_leader(many(last_ms=0), 3)
    log.append_as_leader(batch(1, timestamp=NOW_MS + 5), 3)
    assert pauses(offset_for_timestamp(log, NOW_MS + 1)) == (0, (NOW_MS + 5, MANY, 3))


def _lying(log: UnifiedLog) -> UnifiedLog:
    """Two segments. The header of the first claims a time that none of its records has; the second has it."""
    for claimed, truth in ((9, 0), (9, 9)):
        some = at(log.log_end_offset, many(1500, last_ms=truth))
        some.set_max_timestamp(NOW_MS + claimed)
        log.append_as_follower(memoryview(some.buffer))
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) == 2
    return log


SEARCHES = [lambda log: offset_for_timestamp(log, NOW_MS + 8), offset_of_max_timestamp]
Search = Callable[[UnifiedLog], Steps[Any]]


@pytest.mark.parametrize("search", SEARCHES)
def test_a_header_that_claims_too_much_misleads_no_search(search: Search) -> None:
    log = _lying(open_log(config=tiny(segment_bytes=3000)))
    assert pauses(search(log))[1] == (NOW_MS + 9, 2999, 0)


@pytest.mark.parametrize("search", SEARCHES)
def test_segments_that_are_deleted_in_a_pause_make_the_search_begin_again(search: Search) -> None:
    log = _lying(open_log(config=tiny(segment_bytes=3000)))
    steps = search(log)
    next(steps)
    log.delete_segments(2)
    log.append_as_leader(batch(1, timestamp=NOW_MS + 9), 0)
    assert pauses(steps)[1] == (NOW_MS + 9, 3000, 0)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_log_that_is_closed_in_a_pause_is_not_read_any_more(search: Search) -> None:
    log = _lying(open_log(config=tiny(segment_bytes=3000)))
    steps = search(log)
    next(steps)
    log.close()
    assert pauses(steps)[1] is None
