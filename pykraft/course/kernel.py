"""What the operating system's kernel counts: the only witness for why something cannot be measured here.

A lesson about disks may run where there is no disk to speak of: in memory (tmpfs), in a container whose reads come
from somebody else's cache, on a system that does not let go of cached pages. Then a claim about hardware is neither
right nor wrong, it is NOT MEASURABLE HERE. That must not become an excuse, so it takes an `Obstacle`: a reason together
with the kernel's counters that show it.

The counters are those of this process in ``/proc/self/io``:

    rchar, wchar               bytes that read and write calls moved, from wherever
    syscr, syscw               how many such calls there were
    read_bytes, write_bytes    bytes that had to be fetched from, or sent towards, a storage device

and the kind of file system a folder lies on, from ``/proc/self/mountinfo``.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

IO_FILE = Path("/proc/self/io")
MOUNTS_FILE = Path("/proc/self/mountinfo")
PROBE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Obstacle:
    """Why something cannot be measured here: a sentence, and the counters that show it."""

    reason: str
    counters: Mapping[str, int]

    def __post_init__(self) -> None:
        if not self.reason or not self.counters:
            raise ValueError("an obstacle needs a reason, and the kernel's counters that show it")

    def __str__(self) -> str:
        counted = ", ".join(f"{name} {value:,}" for name, value in self.counters.items())
        return f"{self.reason} ({counted})"


def counters() -> dict[str, int]:
    """This process's counters of input and output; empty on a system that has none."""
    try:
        lines = IO_FILE.read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Yields a dict that holds, after the block, how far each counter went up in it."""
    before = counters()
    found: dict[str, int] = {}
    yield found
    found |= {name: value - before.get(name, 0) for name, value in counters().items()}


def file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on, such as ext4, overlay or tmpfs; "unknown" if nobody tells."""
    try:
        lines = MOUNTS_FILE.read_text().splitlines()
    except OSError:
        return "unknown"
    found = ("", "unknown")
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        if Path(point) in (folder.resolve(), *folder.resolve().parents) and len(point) >= len(found[0]):
            found = (point, after.split()[0])
    return found[1]


def evict(path: Path) -> None:
    """Ask the kernel to let go of a file's cached pages. What is dirty is written first, or it could not go."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def why_no_cold_reads(folder: Path) -> Obstacle | None:
    """None if a file in this folder, once evicted, is fetched from a device again; else what stands in the way."""
    with _probe(folder) as path:
        evict(path)
        with counted() as moved:
            path.read_bytes()
    if not moved:
        return Obstacle("this system does not count what a process reads from devices", {"counters": 0})
    if moved["read_bytes"] >= PROBE_BYTES // 2:
        return None
    reason = f"{PROBE_BYTES:,} bytes on {file_system(folder)} were read after eviction, but hardly from a device"
    return Obstacle(reason, {name: moved[name] for name in ("rchar", "read_bytes")})


def why_no_writes_to_a_device(folder: Path) -> Obstacle | None:
    """None if what is written and synced in this folder goes to a device; else what stands in the way."""
    with counted() as moved, _probe(folder):
        pass
    if not moved:
        return Obstacle("this system does not count what a process writes to devices", {"counters": 0})
    if moved["write_bytes"] >= PROBE_BYTES // 2:
        return None
    reason = f"{PROBE_BYTES:,} bytes on {file_system(folder)} were written and synced, but hardly to a device"
    return Obstacle(reason, {name: moved[name] for name in ("wchar", "write_bytes")})


@contextmanager
def _probe(folder: Path) -> Iterator[Path]:
    """A synced file of random bytes, gone after the block."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="probe-") as file:
        file.write(os.urandom(PROBE_BYTES))
        file.flush()
        os.fsync(file.fileno())
        yield Path(file.name)
