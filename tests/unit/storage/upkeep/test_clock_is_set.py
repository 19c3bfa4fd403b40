"""The wall clock of a machine is set by hours, in either direction: what waits for a time waits as long as it says."""

from __future__ import annotations

import pytest

from pykraft.storage.disk.trash import Trash
from tests.harness.storage import DIRECTORY, Inline, ManualClock, disk, fill, open_log, settings
from tests.unit.storage.upkeep.test_cleaner_limits import Timed

HOUR_MS = 3_600_000


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_what_was_deleted_goes_after_its_delay_though_the_clock_is_set(by_ms: int) -> None:
    filesystem, clock = disk(), ManualClock()
    filesystem.write(f"{DIRECTORY}.deleted", b"x")
    trash = Trash(filesystem, clock, Inline())
    trash.add([f"{DIRECTORY}.deleted"], delay_ms=60_000)
    clock.set_by(by_ms)
    clock.now_ms += 59_999
    trash.empty()
    assert filesystem.exists(f"{DIRECTORY}.deleted"), "a response may still read from it"
    clock.now_ms += 1
    trash.empty()
    assert not filesystem.exists(f"{DIRECTORY}.deleted")


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_the_cleaner_rests_for_what_it_has_moved_though_the_clock_is_set(by_ms: int) -> None:
    rests_ms = []
    for is_set in (False, True):
        some = Timed(io_bytes_per_second=50_000)
        submit = some.cleaner._background.submit

        def set_within(job, on_done, some=some, submit=submit, is_set=is_set):  # type: ignore[no-untyped-def]
            if is_set:
                some.clock.set_by(by_ms)
            submit(job, on_done)

        some.cleaner._background.submit = set_within  # type: ignore[method-assign]
        some.cleaner.clean()
        rests_ms.append(some.rests_ms)
    assert rests_ms[0] == rests_ms[1] and max(rests_ms[0]) > 0


def test_a_log_is_flushed_after_its_time_though_the_clock_goes_back() -> None:
    clock = ManualClock()
    log = open_log(config=settings(flush_ms=1_000), clock=clock)
    fill(log, 2)
    log.flush()
    clock.set_by(-HOUR_MS)
    clock.now_ms += 999
    assert log.flushes.age_ms < 1_000
    clock.now_ms += 1
    assert log.flushes.age_ms == 1_000
