"""A node that measures its turns: ``python -m tests.flood.watched_node FILE --stop-with-parent``, in place of ``python
-m pykraft server FILE --stop-with-parent``.

A turn is what the node's thread does between two waits for its sockets. The longest one, in CPU time of that thread, is
in a file of shared memory, where the judge reads it and sets it back to 0. CPU time does not grow because another
process has the processor, so this figure can be judged on a busy machine.

With SIGUSR1 the node gives back the memory that it does not need any more: what the next request adds can be measured.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from pykraft.cli import main
from pykraft.network.selector import Selector
from pykraft.runtime.process import NodeProcess

FOLDER = "PYKRAFT_TURNS"
"""The environment's variable that says where the files of shared memory are: one for each process, by its id."""
_LONGEST = struct.Struct("qqq")
_SIZE = 4096


class WatchedProcess(NodeProcess):
    """A node in a process of its own that measures its turns."""

    command: ClassVar[tuple[str, ...]] = ("-m", "tests.flood.watched_node")


class LongestTurn:
    """The longest turn of a node's thread since `begin`, in CPU time."""

    def __init__(self, folder: Path, pid: int) -> None:
        with (folder / str(pid)).open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _SIZE)

    def begin(self) -> None:
        _LONGEST.pack_into(self._shared, 0, 0, 0, 0)

    @property
    def milliseconds(self) -> float:
        """Of the longest turn, CPU time."""
        return float(_LONGEST.unpack_from(self._shared)[0]) / 1_000_000

    def close(self) -> None:
        self._shared.close()


def give_back_memory(*_: Any) -> None:
    """Free what nothing refers to, and give free pages to the system."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return  # only glibc has it


def _measure(shared: mmap.mmap) -> None:
    """Note how long each turn takes: from the end of one wait to the beginning of the next."""
    wait: Callable[[Selector, float], list[Any]] = Selector.wait
    began = time.thread_time_ns()

    def measured_wait(self: Selector, timeout_s: float) -> list[Any]:
        nonlocal began
        took = time.thread_time_ns() - began
        longest, turns, total = _LONGEST.unpack_from(shared)
        _LONGEST.pack_into(shared, 0, max(longest, took), turns + 1, total + took)
        ready = wait(self, timeout_s)
        began = time.thread_time_ns()
        return ready

    Selector.wait = measured_wait  # type: ignore[method-assign]


if __name__ == "__main__":
    path = Path(os.environ[FOLDER]) / str(os.getpid())
    path.write_bytes(bytes(_SIZE))
    with path.open("r+b") as file:
        _measure(mmap.mmap(file.fileno(), _SIZE))
    signal.signal(signal.SIGUSR1, give_back_memory)
    sys.exit(main(["server", *sys.argv[1:]]))
