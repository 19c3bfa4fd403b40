"""What the operating system's kernel counts: the only witness for why something cannot be measured here.

A lesson about disks may run where there is no disk to speak of: in memory (tmpfs), in a container whose reads come from
its host's cache, on a system that does not let go of cached pages. Then a claim about hardware is neither right nor
wrong, it is NOT MEASURABLE HERE. That must not become an excuse, so it takes an `Obstacle`: a reason together with the
kernel's counters that show it.

The counters are those of this process in ``/proc/self/io``:

    rchar, wchar               bytes that read and write calls moved, from wherever
    syscr, syscw               how many such calls there were
    read_bytes, write_bytes    bytes that had to be fetched from, or sent towards, a storage device

and the kind of file system that holds a folder, from ``/proc/self/mountinfo``. Another process has such counters, too.
The system call ``mincore`` tells which pages of a file are in memory.
"""

import ctypes
import mmap
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

IO_FILE = Path("/proc/self/io")
PROCESSES = Path("/proc")
MOUNTS_FILE = Path("/proc/self/mountinfo")
PROBE_BYTES = 8 * 1024 * 1024
EVICTIONS, PAUSE_S = 20, 0.025
"""How often an eviction asks at most, and how long it waits in between: together longer than TCP may hold back a
confirmation, which is 0.2 s."""
LOCALHOST = ("127.0.0.1", 0)


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


def counters(process_id: int | None = None) -> dict[str, int]:
    """This process's counters of input and output, or those of another one; empty on a system that has none."""
    try:
        file = IO_FILE if process_id is None else PROCESSES / str(process_id) / "io"
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def counted(process_id: int | None = None) -> Iterator[dict[str, int]]:
    """Yields a dict that holds, after the block, how far each counter went up in it."""
    before = counters(process_id)
    found: dict[str, int] = {}
    yield found
    found |= {name: value - before.get(name, 0) for name, value in counters(process_id).items()}


def file_system(folder: Path) -> str:
    """The kind of file system that holds a folder, such as ext4, overlay or tmpfs; "unknown" if the kernel does not
    say."""
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
    """Ask the kernel to let go of a file's cached pages, again and again for half a second if some stay.

    What is dirty is written first, or it could not go. Pages that are on their way to a reader do not go either: what
    was sent by ``sendfile`` is lent to the socket until the other side has confirmed it (see `_return_sent_pages`).
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        for _ in range(EVICTIONS):
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            if not any(pages_in_memory(path)):
                break
            _return_sent_pages()
            time.sleep(PAUSE_S)
    finally:
        os.close(descriptor)


def _return_sent_pages() -> None:
    """Let each CPU handle the network once.

    Between two sockets of one machine pages are lent until they were read, and if that happens on another CPU than the
    sending did, until the sender's has to do with the network again (Linux saves itself the trouble before). On a
    machine without other traffic that may be never.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    allowed = os.sched_getaffinity(0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own, suppress(OSError):
        own.bind(LOCALHOST)
        own.settimeout(PAUSE_S)
        try:
            for cpu in allowed:
                os.sched_setaffinity(0, {cpu})
                own.sendto(b"anything", own.getsockname())
                own.recv(8)
        finally:
            os.sched_setaffinity(0, allowed)


def pages_in_memory(path: Path) -> bytes:
    """One byte for each page of a file: 1 if the page is in memory, 0 if it is not. Nothing is read for it. Empty for
    an empty file, for one that we may not write, and on a system that does not tell."""
    if not os.access(path, os.W_OK):
        return b""
    try:
        mincore = ctypes.CDLL(None, use_errno=True).mincore
    except (OSError, AttributeError, TypeError):
        return b""
    size = path.stat().st_size
    if not size:
        return b""
    in_memory = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), in_memory)
        del start  # or the mapping could not be closed
    return b"" if failed else bytes(page & 1 for page in in_memory)


def folder_for_measurements() -> Path:
    """Where temporary files lie; if that is in memory, and the system has such a folder on a device, that one."""
    usual, on_device = Path(tempfile.gettempdir()), Path("/var/tmp")
    if why_no_cold_reads(usual) is None or not os.access(on_device, os.W_OK):
        return usual
    return usual if why_no_cold_reads(on_device) is not None else on_device


def why_no_cold_reads(folder: Path) -> Obstacle | None:
    """None if a file in this folder, once evicted, is fetched from a device again; else the reason why not."""
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
    """None if what is written and synced in this folder goes to a device; else the reason why not."""
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
