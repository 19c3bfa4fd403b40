"""A file on a disk, and what the kernel says about it: which of its pages are in memory, and what a reading fetched.

::

    file = nb.watch(DiskFile(megabytes=96))
    warm = file.read()             # its pages are in the page cache: it was written a moment ago
    file.evict()
    cold = file.read()
    cold.fetched_share             # 1.0: all of it came from the disk

The witnesses are the kernel's (`pykraft.course.kernel`): ``mincore`` for the pages, ``read_bytes`` in /proc/self/io for
what a process had fetched. A run of `read_speeds` counts as cold only if the kernel has counted its bytes.
"""

import math
import mmap
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from pykraft.course import kernel

PAGE_BYTES = mmap.PAGESIZE
MEGABYTE = 1 << 20
RUN_S = 0.08
"""A run of `read_speed` ends after this time, so that a slow disk takes no longer than a fast one."""
_PATIENCE_S = 0.5
ORDERS = ("in order", "at random")


class Reading(NamedTuple):
    """What one reading moved."""

    before: bytes
    """For each page of the file, 1 if it was in memory before the reading. Empty where the system does not tell."""
    after: bytes
    asked_bytes: int
    fetched_bytes: float
    """What came from the disk meanwhile; NaN where the system does not count."""
    seconds: float

    @property
    def fetched_share(self) -> float:
        return self.fetched_bytes / self.asked_bytes

    def __str__(self) -> str:
        asked, fetched = self.asked_bytes / 1e6, self.fetched_bytes / 1e6
        if asked < 1:
            return f"asked for {1000 * asked:,.0f} KB, fetched {1000 * fetched:,.0f} KB from the disk"
        return f"then read: {fetched:,.0f} of {asked:,.0f} MB came from the disk, in {1000 * self.seconds:,.0f} ms"


class DiskFile:
    """A file of random bytes, every one of them written and synced, until `close`."""

    def __init__(self, megabytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="disk-", dir=kernel.folder_for_measurements())
        self.folder = Path(self._folder.name)
        self.path = self.folder / "data"
        self.pages_in_all = megabytes * MEGABYTE // PAGE_BYTES
        self.never_cold = kernel.why_no_cold_reads(self.folder)
        """Why nothing can be read from a disk here; None if it can."""
        self.never_synced = kernel.why_no_writes_to_a_device(self.folder)
        with self.path.open("wb", buffering=0) as file:
            for _ in range(megabytes):
                file.write(os.urandom(MEGABYTE))
            os.fsync(file.fileno())

    def pages(self) -> bytes:
        """For each page, 1 if it is in memory."""
        return kernel.pages_in_memory(self.path)

    def evict(self) -> None:
        """Ask the kernel to let go of the file's pages."""
        kernel.evict(self.path)

    def read(self, pages: Iterable[int] | None = None) -> Reading:
        """Read the whole file in pieces of a megabyte, or these pages one by one."""
        places = range(self.pages_in_all) if pages is None else list(pages)
        before, asked, started = self.pages(), PAGE_BYTES * len(places), time.perf_counter()
        with kernel.counted() as moved, self.path.open("rb", buffering=0) as file:
            if pages is None:
                while file.read(MEGABYTE):
                    pass
            for page in () if pages is None else places:
                os.pread(file.fileno(), PAGE_BYTES, page * PAGE_BYTES)
        seconds, fetched = time.perf_counter() - started, moved.get("read_bytes", math.nan)
        return Reading(before, self._pages_after(fetched), asked, fetched, seconds)

    def _pages_after(self, fetched_bytes: float) -> bytes:
        """The pages in memory, when what was asked for ahead of the reader has come."""
        deadline = time.monotonic() + _PATIENCE_S
        while sum(found := self.pages()) * PAGE_BYTES < fetched_bytes and time.monotonic() < deadline:
            time.sleep(0.005)
        return found

    def close(self) -> None:
        self._folder.cleanup()


def read_speed(file: DiskFile, order: str, is_cold: bool, block_bytes: int, random: Random) -> float:
    """MB/s of reading blocks of the file, in order or at random. NaN if the kernel counted something else than cold or
    warm reads."""
    places = list(range(file.path.stat().st_size // block_bytes))
    if order == "at random":
        random.shuffle(places)
    file.evict() if is_cold else file.read()
    done, started = 0, time.perf_counter()
    with file.path.open("rb", buffering=0) as opened, kernel.counted() as moved:
        while done < len(places) and time.perf_counter() - started < RUN_S:
            os.pread(opened.fileno(), block_bytes, places[done] * block_bytes)
            done += 1
        seconds = time.perf_counter() - started
    share = moved.get("read_bytes", 0) / (done * block_bytes)
    return done * block_bytes / seconds / 1e6 if (share > 0.95 if is_cold else share < 0.05) else math.nan


def read_speeds(
    file: DiskFile, blocks_kb: Sequence[int], random: Random, rounds: int = 3
) -> dict[str, list[tuple[float, float]]]:
    """The speed of each order, warm and cold, by the size of a block: KB and MB/s, the median of some rounds. The runs
    take turns, so that a busy moment of the machine hits all alike. Where nothing can be cold there are warm ones
    only."""
    kinds = [(is_cold, order) for is_cold in (False, True) for order in ORDERS if not (is_cold and file.never_cold)]
    found: dict[tuple[bool, str, int], list[float]] = {}
    for _ in range(rounds):
        for is_cold, order in kinds:
            for block_kb in blocks_kb:
                speed = read_speed(file, order, is_cold, block_kb * 1024, random)
                if not math.isnan(speed):
                    found.setdefault((is_cold, order, block_kb), []).append(speed)
    return {
        f"{'cold' if is_cold else 'warm'}, {order}": [
            (block_kb, median(found[key])) for block_kb in blocks_kb if (key := (is_cold, order, block_kb)) in found
        ]
        for is_cold, order in kinds
    }
