"""What a cluster holds of this machine (threads or processes, ports, a directory), and how it is given back.

A cluster that was closed has given all of it back. One that was forgotten, as happens in an interactive session or in a
test that fails, gives it back when the garbage collector finds it, or at the latest when the process ends. The
collector may run in any thread and at any point, also in a node's own: so it only starts another thread, which then may
wait for the nodes.

A forked child has none of this, whatever it does with the copy of the cluster that it has: not even its end gives back
what its parent uses.
"""

import atexit
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pykraft.network.inherited import end_in_child
from pykraft.runtime.ports import PortReservation
from pykraft.runtime.temporary import TemporaryPlace


class Stoppable(Protocol):
    """A node, as a thread or as a process."""

    def begin_stop(self, hand_over: bool = True) -> None: ...

    def stop(self) -> None: ...


class Closable(Protocol):
    def close(self) -> None: ...


@dataclass(eq=False)
class Holdings:
    """`temporary` is a directory to remove afterwards; `others` are closed after the nodes have stopped."""

    nodes: dict[int, Any]
    reservation: PortReservation
    others: list[Closable] = field(default_factory=list)
    temporary: TemporaryPlace | None = None

    def leave_to_parent(self) -> None:
        """This process is a forked child: nothing of it is its own."""
        self.nodes.clear()
        self.others.clear()
        self.temporary = None

    def stop_nodes(self) -> None:
        """All at once, and without handing over: no node is left to take over."""
        stoppable: list[Stoppable] = list(self.nodes.values())
        for node in stoppable:
            node.begin_stop(hand_over=False)
        for node in stoppable:
            node.stop()

    def release(self) -> None:
        """Give everything back; a second time does nothing."""
        self.stop_nodes()
        while self.others:
            self.others.pop().close()
        self.reservation.close()
        if self.temporary is not None:
            self.temporary.remove()


def release_when_forgotten(owner: object, holdings: Holdings) -> Callable[[], object]:
    """Give back what `owner` held when it is garbage collected; the function that is returned ends this care, once it
    was released."""
    finalizer = weakref.finalize(owner, _release_elsewhere, holdings)
    finalizer.atexit = False
    atexit.register(holdings.release)
    end_in_child(holdings, Holdings.leave_to_parent)

    def released() -> None:
        finalizer.detach()
        atexit.unregister(holdings.release)

    return released


def _release_elsewhere(holdings: Holdings) -> None:
    threading.Thread(target=_release, args=(holdings,), name="pykraft-forgotten", daemon=True).start()


def _release(holdings: Holdings) -> None:
    holdings.release()
    atexit.unregister(holdings.release)
