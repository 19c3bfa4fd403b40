"""What a notebook may take when nbval runs it: seconds, and memory with all processes that it starts.

The plugin watches from the first cell to the last one, and adds one test to the notebook's cells that
compares what was taken with what is allowed. Time in which others had the cores (processes, or the neighbours of a
virtual machine: what Linux counts as stolen) is taken off: the limits are those of a quiet machine. Who yields, as some
suites do beside the notebooks, takes nothing off. Memory is the sum of the proportional shares (PSS), so that what
processes share counts once. To sum the shares of one process the kernel goes through all its pages, which takes several
milliseconds. So it is asked when more pages than ever before are resident, and otherwise once a second.
"""

from __future__ import annotations

import os
import pathlib
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any

import psutil
import pytest

from pykraft.course.syllabus import SYLLABUS

DEFAULT = (120.0, 1300.0)
"""Seconds and megabytes of a notebook that the syllabus does not know."""
LOOK_EVERY_S = 0.2
LOOKS_PER_SUM = 5
"""At the latest after this many looks the shares are summed again."""


class Watch:
    """From its start on: the seconds that a notebook took, and the megabytes at the most."""

    def __init__(self) -> None:
        self.megabytes = 0.0
        self._most_resident = 0
        self._looks_left = 0
        self._over = threading.Event()
        self._started = time.monotonic()
        self._own, self._busy = _own_cpu_seconds(), _busy_cpu_seconds()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self._look_once(psutil.Process().children(recursive=True))

    def _look_once(self, children: Sequence[psutil.Process]) -> None:
        self._looks_left -= 1
        resident = sum(map(_rss, children))
        if resident > self._most_resident or self._looks_left <= 0:
            self._most_resident = max(self._most_resident, resident)
            self._looks_left = LOOKS_PER_SUM
            self.megabytes = max(self.megabytes, sum(map(_pss, children)) / 1e6)

    def stop(self) -> float:
        """End the watch; returns the seconds."""
        self._over.set()
        self._thread.join()
        cores = os.cpu_count() or 1
        own = _own_cpu_seconds() - self._own
        others = max(0.0, _busy_cpu_seconds() - self._busy - own)
        return max(time.monotonic() - self._started - others / cores, own / cores)


def _rss(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def _pss(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.rss))
    return 0


def _own_cpu_seconds() -> float:
    """Of this process, its children, and theirs, whether they have ended or not."""
    seconds = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.Error):
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _busy_cpu_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "steal", 0.0))


def budget_of(path: pathlib.Path) -> tuple[float, float]:
    """The seconds and the megabytes that a notebook may take."""
    known = SYLLABUS.get(path.name[:2])
    return DEFAULT if known is None else (known.limit_s, known.limit_megabytes)


class BudgetItem(pytest.Item):
    """The last test of a notebook."""

    def runtest(self) -> None:
        watch = _watches.pop(str(self.path), None)
        if watch is None:
            pytest.skip("not a cell of this notebook was run")
        taken = (watch.stop(), watch.megabytes)
        allowed = budget_of(self.path)
        words = "%.1f s and %.0f MB taken, {:.0f} s and {:.0f} MB allowed".format(*allowed) % taken
        self.add_report_section("call", "taken", words)
        if any(figure > limit for figure, limit in zip(taken, allowed, strict=True)):
            pytest.fail(f"{self.path.name}: {words}", pytrace=False)
        reporter, capture = map(self.config.pluginmanager.get_plugin, ("terminalreporter", "capturemanager"))
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(f"\n{self.path.name}: {words}")

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"{self.path.name}::{self.name}"


_watches: dict[str, Watch] = {}


def _is_cell(item: pytest.Item) -> bool:
    return hasattr(item, "cell") and hasattr(item.parent, "kernel")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    last = {str(item.path): position for position, item in enumerate(items) if _is_cell(item)}
    for position in sorted(last.values(), reverse=True):
        notebook = items[position].parent
        assert notebook is not None
        items.insert(position + 1, BudgetItem.from_parent(notebook, name="time and memory"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    if _is_cell(item) and str(item.path) not in _watches:
        _watches[str(item.path)] = Watch()
    yield
