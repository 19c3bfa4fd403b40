"""The first picture of notebook 05: a file goes through a socket in two ways, and what that costs is measured now.

On the left is always the copy (`read_and_send`), on the right the way that the reader chooses. The file is as large as
the reader says, and lies where the reader says: the usual place for temporary files, or any other folder. *Cold* means
that its pages were evicted from memory before each transfer, so a disk has to fetch them again. Where that cannot be
(`kernel.why_no_cold_reads`), it is said, with the kernel's counters.
"""

import mmap
import os
import socket
from pathlib import Path

from pykraft.course.kernel import evict, folder_for_measurements, why_no_cold_reads
from pykraft.course.lessons.zero_copy.transfers import (
    SampleFile,
    Transfer,
    Way,
    best_of,
    read_and_send,
    sendfile,
    transfer,
)
from pykraft.viz import Figure, byte_paths

COPY, SENDFILE, MAPPED, TLS = "read_and_send", "sendfile", "mapped", "TLS"
WARM, COLD = "warm", "cold"
_ROUNDS = 2
_MB = 1 << 20


def mapped(file: int, out: socket.socket, size: int, piece: int) -> None:
    """Map the file into our memory, and write from there into the socket."""
    with mmap.mmap(file, size, prot=mmap.PROT_READ) as seen, memoryview(seen) as view:
        for position in range(0, size, piece):
            end, sent = min(position + piece, size), position
            while sent < end:
                sent += os.write(out.fileno(), view[sent:end])


def read_and_encrypt(file: int, out: socket.socket, size: int, piece: int) -> None:
    """Read each piece into our own memory; the connection encrypts it there before it leaves."""
    buffer = memoryview(bytearray(piece))
    position = 0
    while position < size:
        count = os.preadv(file, [buffer], position)
        out.sendall(buffer[:count])
        position += count


WAYS: dict[str, Way] = {SENDFILE: sendfile, MAPPED: mapped, TLS: read_and_encrypt}


def draw_transfer(way: str, megabytes: int, pages: str, folder: str) -> Figure:
    """The copy, and beside it another way. ValueError if the folder is none that we may write to, or if a file in it
    cannot be read cold."""
    copied, other = measured(way, megabytes, pages, _folder(folder, pages))
    paths = [copied.path(COPY), other.path(way, "encrypts every byte" if way == TLS else "")]
    share = other.sender_cpu / copied.sender_cpu
    title = f"{megabytes} MB, {pages}: {way} takes {share:.0%} of the processor's time that the copy takes"
    note = f"By the clock the copy took {1_000 * copied.seconds:,.0f} ms, {way} {1_000 * other.seconds:,.0f} ms."
    return byte_paths(paths, title=title, note=note)


def measured(way: str, megabytes: int, pages: str, folder: Path) -> tuple[Transfer, Transfer]:
    """The copy and the other way, in turn, each number the best of two rounds."""
    found: dict[str, list[Transfer]] = {COPY: [], way: []}
    with SampleFile(os.urandom(_MB), times=megabytes, folder=folder) as file:
        for _ in range(_ROUNDS):
            for name, transfers in found.items():
                if pages == COLD:
                    evict(file.path)
                function = read_and_send if name == COPY else WAYS[name]
                transfers.append(transfer(function, file.path, encrypts=name == TLS))
    return best_of(*found[COPY]), best_of(*found[way])


def _folder(named: str, pages: str) -> Path:
    folder = Path(named).expanduser() if named else folder_for_measurements()
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"{named} is no folder that we may write to: name another one, or none")
    if pages == COLD and (obstacle := why_no_cold_reads(folder)) is not None:
        raise ValueError(f"nothing is cold here: {obstacle}")
    return folder
