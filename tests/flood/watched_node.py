"""A node that measures its turns: ``python -m tests.flood.watched_node FILE --stop-with-parent``, in place of ``python
-m pykraft server FILE --stop-with-parent``.

A turn is what the node's thread does between two waits for its sockets. The longest one, in CPU time of that thread, is
in a file of shared memory, where the judge reads it and sets it back to 0. CPU time does not grow because another
process has the processor, so this figure can be judged on a busy machine.

A client with one of the names in `PLANTED` gets a node that makes a mistake: so that the judge is seen to find each.

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
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from pykraft.broker.requests.dispatch import Dispatcher, Handlers
from pykraft.cli import main
from pykraft.network.selector import Selector
from pykraft.protocol.listeners import ListenerKind
from pykraft.runtime.process import NodeProcess
from pykraft.transport.server_channel import RequestContext

FOLDER = "PYKRAFT_TURNS"
"""The environment's variable that says where the files of shared memory are: one for each process, by its id."""
_LONGEST = struct.Struct("qqq")
_SIZE = 4096


class WatchedProcess(NodeProcess):
    """A node in a process of its own that measures its turns."""

    command: ClassVar[tuple[str, ...]] = ("-m", "tests.flood.watched_node")


class LongestTurn:
    """The longest turn of a node's thread since `begin`, in CPU time. A turn that goes on is not in it."""

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


# --- mistakes ---------------------------------------------------------------------------------------------------------


def _long_turn() -> None:
    end = time.thread_time_ns() + 300_000_000
    while time.thread_time_ns() < end:
        continue


def _large_answer() -> None:
    bytearray(os.urandom(1 << 20) * 300)


def _raise() -> None:
    raise RuntimeError("planted")


def _wait_for_ever() -> None:
    threading.Event().wait()


def _die() -> None:
    os._exit(1)


PLANTED: dict[str, Callable[[], None]] = {
    "a turn of 300 ms": _long_turn,
    "300 MiB more": _large_answer,
    "an exception in a handler": _raise,
    "no answer": _wait_for_ever,
    "the end": _die,
}
"""What the node does before it answers a client of this name."""


def _plant() -> None:
    serve: Callable[..., None] = Dispatcher.serve

    def serve_with_mistakes(self: Dispatcher, kind: ListenerKind, apis: object, handlers: Handlers) -> None:
        serve(self, kind, apis, {request: _with_mistakes(handler) for request, handler in handlers.items()})

    Dispatcher.serve = serve_with_mistakes  # type: ignore[method-assign]


def _with_mistakes(handler: Callable[..., Any]) -> Callable[..., Any]:
    def handle(apis: object, request: Any, context: RequestContext, now: int) -> Any:
        mistake = PLANTED.get(context.client_id or "")
        if mistake is not None:
            mistake()
        return handler(apis, request, context, now)

    return handle


if __name__ == "__main__":
    path = Path(os.environ[FOLDER]) / str(os.getpid())
    path.write_bytes(bytes(_SIZE))
    with path.open("r+b") as file:
        _measure(mmap.mmap(file.fileno(), _SIZE))
    _plant()
    signal.signal(signal.SIGUSR1, give_back_memory)
    sys.exit(main(["server", *sys.argv[1:]]))
