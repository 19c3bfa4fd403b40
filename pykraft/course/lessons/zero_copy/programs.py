"""A small program in a process of its own, so that its costs are counted apart from the notebook's.

The notebook writes lines to it and reads lines from it. The system counts for each process, under its number PID:

    clock_getcpuclockid(PID)     the processor's time of all its threads, in nanoseconds
    /proc/PID/io                 calls that read or wrote a file number, and the bytes that they moved (`kernel`)

Both are Linux's. Elsewhere the time comes in ticks, and the counts are 0. Linux also tells the program's part of the
time from the kernel's, but only by what it sees at each tick, too rarely for transfers of less than a second.
"""

import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import psutil

from pykraft.course.kernel import counters

_PATIENCE_S = 30


class ProgramFailed(Exception):  # noqa: N818 (it tells what happened)
    """A program ended with an error; the text is the last line of its standard error."""


class Usage(NamedTuple):
    """What a process used since its start, or between two moments."""

    cpu_s: float
    read_calls: int
    """System calls that read from a file number. `sendfile` counts among these and among the next."""
    write_calls: int
    """System calls that wrote to a file number; `send`, which takes sockets alone, is not counted by the kernel."""
    bytes_read: int
    bytes_written: int
    fetched_bytes: int = 0
    """Bytes that the kernel had to fetch from a storage device for it."""

    def since(self, before: "Usage") -> "Usage":
        cpu_s, *counts = (now - then for now, then in zip(self, before, strict=True))
        return Usage(cpu_s, *map(int, counts))


class Program:
    """A Python program that runs beside the notebook, until `close`."""

    def __init__(self, text: str, *arguments: object) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`; a pipe would fill up)
        self._process = subprocess.Popen(
            [sys.executable, "-c", text, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, line: object) -> None:
        """Write a line to its standard input. BrokenPipeError if it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """The next line of its standard output. ProgramFailed if it has ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ProgramFailed(self._last_words())
        return line.strip()

    def usage(self) -> Usage:
        """What it has used so far."""
        return usage_of(self.pid)

    def close(self) -> None:
        """End its input, and wait until the program ends; kill it if it does not."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def _last_words(self) -> str:
        code = self._process.wait(_PATIENCE_S)
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else f"it ended with code {code}"


def usage_of(pid: int) -> Usage:
    """What a process of this number has used."""
    counted = counters(pid)
    names = ("syscr", "syscw", "rchar", "wchar", "read_bytes")
    return Usage(_cpu_s(pid), *(counted.get(name, 0) for name in names))


def _cpu_s(pid: int) -> float:
    if sys.platform == "linux":
        return time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid(3) makes of a process's number
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
