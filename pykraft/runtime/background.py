"""A thread for long work: the live half of the Background port.

Jobs run one after the other on this thread; their results come back as calls on the node's own thread, which drains
them between two steps of its loop. A job whose disk fails stops the node: what it was to do (a sync, a removal) cannot
be taken as done. Another error of a job is a fault: `on_error` hears of it, and nothing is taken as done.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_STOP = None


class BackgroundThread:
    """Runs jobs for one node."""

    def __init__(self, name: str, wakeup: Callable[[], None]) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None] = queue.SimpleQueue()
        self._done: deque[tuple[Callable[[Any], None], Any, BaseException | None]] = deque()
        self._wakeup = wakeup
        self.on_error: Callable[[Exception], None] | None = None
        """Hears of what a job, or what follows from its result, has raised; None: `drain` raises it."""
        self._thread = threading.Thread(target=self._run, name=f"{name}-background", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T], on_done: Callable[[T], None]) -> None:
        self._jobs.put((job, on_done))

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not _STOP:
            job, on_done = entry
            try:
                result, error = job(), None
            except BaseException as caught:  # handed to the node's thread, which stops
                result, error = None, caught
            self._done.append((on_done, result, error))
            self._wakeup()

    def drain(self) -> None:
        """Hand over what is done, on the caller's thread; raises what a job raised, unless `on_error` is set."""
        while self._done:
            on_done, result, error = self._done.popleft()
            try:
                if error is not None:
                    raise error
                on_done(result)
            except Exception as fault:
                if self.on_error is None:
                    raise
                self.on_error(fault)

    def finish(self) -> None:
        """Before an orderly stop: wait for the job that is being done, and hand over what is done, as `drain` does.
        Jobs that were not begun are dropped: what they would have synced the stop syncs, what they would have removed
        the next start removes."""
        with suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        self.close()
        self.drain()

    def close(self) -> None:
        """Finish the jobs that were submitted."""
        self._jobs.put(_STOP)
        self._thread.join()
