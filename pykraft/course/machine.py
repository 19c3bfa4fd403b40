"""The machine that a lesson runs on, and what the lesson takes of it.

Memory is the sum of the proportional set sizes (PSS) of the kernel and all its children: pages that several processes
share are counted once, divided among them. That is what a container's limit is about. Where the system does not tell
PSS, we take the resident set size, which counts shared pages more than once.
"""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

import psutil

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Machine:
    """What a measurement has to be read with."""

    pykraft: str
    python: str
    system: str
    cores: float
    memory_gigabytes: float

    @staticmethod
    def here() -> "Machine":
        return Machine(
            version("pykraft"),
            platform.python_version(),
            f"{platform.system()} {platform.machine()}",
            _cores(),
            round(psutil.virtual_memory().total / 1e9, 1),
        )

    def __repr__(self) -> str:
        return (
            f"pykraft {self.pykraft}, Python {self.python}, {self.system}, {self.cores:g} cores, "
            f"{self.memory_gigabytes:g} GB of memory"
        )


def _cores() -> float:
    """The cores that this process may use; a container says in CPU_LIMIT if it has less than the machine."""
    with suppress(KeyError, ValueError):
        return float(os.environ["CPU_LIMIT"])
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Measurement:
    """Time and memory at one moment; megabytes are 1,000,000 bytes."""

    seconds: float
    kernel_megabytes: int
    children_megabytes: int
    """Spark's JVM and Python workers, nodes that are processes."""

    @property
    def megabytes(self) -> int:
        return self.kernel_megabytes + self.children_megabytes

    def __repr__(self) -> str:
        return (
            f"{self.seconds:.1f} s since the first cell; memory {self.megabytes:,} MB "
            f"(kernel {self.kernel_megabytes:,} MB, its child processes {self.children_megabytes:,} MB)"
        )


def measure(seconds: float) -> Measurement:
    """Look at this process and its children."""
    process = psutil.Process()
    children = sum(_bytes(child) for child in process.children(recursive=True))
    return Measurement(seconds, _bytes(process) // MEGABYTE, children // MEGABYTE)


def _bytes(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.rss))
    return 0  # it has ended meanwhile
