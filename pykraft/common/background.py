"""Long work off the node's thread: the Background port.

A node's thread must never be held for long, or its heartbeats stop. Cleaning a log, rebuilding indexes or writing a
snapshot is therefore submitted as a job. The job runs elsewhere (a thread, or the simulator's event queue), touches
only files that nothing else writes, and its result comes back as a call on the node's own thread, where files are
swapped and state is changed.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Background(Protocol):
    def submit(self, job: Callable[[], T], on_done: Callable[[T], None]) -> None:
        """Run `job` some time later; then call ``on_done(result)`` on the node's own thread."""
        ...
