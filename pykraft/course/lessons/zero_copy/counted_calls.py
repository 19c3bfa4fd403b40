"""Which system calls a Python program makes with files and sockets, how many, and how many bytes each kind moves.

The kernel counts what a process reads and writes (`pykraft.course.kernel`), but not by which call: a `sendfile` counts
as one read and one write, just as a `pread` with a `write` does. So the program counts its own calls, by name::

    calls = count_calls()          # at the start of the program, before it opens anything
    ...
    calls["sendfile"]              # [calls, bytes]

`count_calls` puts a counting function in the place of each of these, for the whole process. What C code calls by itself
is not seen: over TLS it is OpenSSL that writes to the socket. There the kernel's counters tell the rest.
"""

import os
import socket
from collections.abc import Callable
from functools import wraps
from typing import Any

READS = ("preadv", "pread")
"""Calls that copy bytes of a file from the page cache into the program's memory."""
WRITES = ("write", "sendmsg", "send", "sendall")
"""Calls that copy bytes from the program's memory into a socket, or a file."""
LENDS = ("sendfile",)
"""Calls that move bytes of a file to a socket and never show them to the program."""
Counts = dict[str, list[int]]
"""By the name of the call: how many calls there were, and how many bytes they moved."""


def count_calls() -> Counts:
    """Count from now on; the dictionary that is returned goes up with each call."""
    counts: Counts = {}
    for owner, names in ((os, (*READS, "write", *LENDS)), (socket.socket, WRITES[1:])):
        for name in names:
            if hasattr(owner, name):
                counts[name] = [0, 0]
                setattr(owner, name, _counted(getattr(owner, name), counts[name]))
    return counts


def _counted(call: Callable[..., Any], count: list[int]) -> Callable[..., Any]:
    """The call, counted. It moved what it returns: a number, bytes, or None for all that it was given."""

    @wraps(call)
    def counting(*arguments: Any, **options: Any) -> Any:
        moved = call(*arguments, **options)
        count[0] += 1
        count[1] += moved if isinstance(moved, int) else len(arguments[1] if moved is None else moved)
        return moved

    return counting


def between(before: Counts, after: Counts) -> Counts:
    """What was counted from one moment to a later one."""
    return {name: [now - then for now, then in zip(after[name], before[name], strict=True)] for name in after}


def most_used(counts: Counts, names: tuple[str, ...]) -> tuple[str, int, int]:
    """Of calls of one kind: the name of the one that moved most bytes, the calls and the bytes of all of them."""
    some = {name: counts.get(name, [0, 0]) for name in names}
    name = max(some, key=lambda name: some[name][1])
    return name, sum(calls for calls, _ in some.values()), sum(moved for _, moved in some.values())
