"""A background with a thread of its own that gets on while the node's thread is within an operation of the disk.

On a real machine the two run side by side. In the simulator, and with `ByHand`, a job runs between two steps of the
node; so no seed would ever show what a job does to an append whose bytes are not there yet, or to a log of which half
the segments are closed. Here two real threads take turns at every operation of the disk in memory, as the dice fall:
only one of them runs at a time, so what a seed shows it shows again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pykraft.sim.world.disk import MemoryFile, MemoryFileSystem

_FILE = ("append", "close", "read", "sync", "truncate")
_FILE_SYSTEM = (
    *("exists", "list", "make_directory", "open", "read", "remove", "rename", "sync_directory", "write"),
    "sync_everything",
)
_GOES_ON, _PAUSES = 0.3, 0.4
"""How often the background goes on at an operation of the node's thread, and pauses at one of its own."""


class Racing:
    """Jobs run one after the other, in pieces. Their results wait for `deliver`, on the node's thread."""

    def __init__(self, random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self._random = random
        self._jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self._results: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._its_turn, self._our_turn = threading.Semaphore(0), threading.Semaphore(0)
        self.switches = 0
        for owner, names in ((MemoryFile, _FILE), (MemoryFileSystem, _FILE_SYSTEM)):
            for name in names:
                monkeypatch.setattr(owner, name, self._with_turns(getattr(owner, name)))

    def submit(self, job: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        self._jobs.append((job, on_done))

    def deliver(self) -> None:
        """Bring the results that are there to the node's thread; an error is raised here."""
        while self._results:
            self._results.pop(0)()

    def finish(self) -> None:
        """Do all that waits, and what comes of it."""
        while self._go_on() or self._results:
            self.deliver()

    def _with_turns(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **fields: Any) -> Any:
            self._turn()
            done = operation(*arguments, **fields)
            self._turn()
            return done

        return operate

    def _turn(self) -> None:
        if threading.current_thread() is not self._thread:
            while self._random.random() < _GOES_ON and self._go_on():
                pass
        elif self._random.random() < _PAUSES:
            self._our_turn.release()
            self._its_turn.acquire()

    def _go_on(self) -> bool:
        """Let the job go on to where it pauses or ends; False if there is none."""
        if self._thread is None:
            if not self._jobs:
                return False
            self._thread = threading.Thread(target=self._run, args=self._jobs.pop(0), daemon=True)
            self._thread.start()
        self.switches += 1
        thread = self._thread
        self._its_turn.release()
        self._our_turn.acquire()
        if self._thread is None:
            thread.join()
        return True

    def _run(self, job: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        self._its_turn.acquire()
        try:
            result = job()
            self._results.append(lambda: on_done(result))
        except Exception as error:  # whatever it is belongs to the node's thread
            self._results.append(lambda failure=error: _raise(failure))  # type: ignore[misc]
        self._thread = None
        self._our_turn.release()


def _raise(error: Exception) -> None:
    raise error
