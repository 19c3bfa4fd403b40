"""What a forked process inherits, and must give up at once.

`os.fork` copies a process with all its open sockets, but of its threads only the one that called it. (multiprocessing
forks on Linux, unless told otherwise, before Python 3.14.) So the child has the nodes and clients of its parent as
objects that nothing drives, and their sockets as descriptors that are as good as the parent's own:

* a connection is closed when the last descriptor is. If a node of the parent is killed, its clients hear nothing of it
  until the child ends;
* a port is free when the last socket that is bound to it is closed. A node that is started again would find its own
  port taken;
* an epoll object is shared. What the child took out of it would be out of it for the parent.

So a child closes its copies before it does anything else. That takes nothing from the parent. What is not a socket is
told in the same way that it lives on in the parent alone.
"""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_inherited: WeakKeyDictionary[Any, Callable[[Any], object]] = WeakKeyDictionary()


def end_in_child(owner: T, end: Callable[[T], object]) -> None:
    """Call ``end(owner)`` in each forked child. It may not take a lock: another thread may have held it."""
    _inherited[owner] = end


def closed_in_child(sock: socket.socket) -> socket.socket:
    """The same socket, which a forked child closes."""
    end_in_child(sock, socket.socket.close)
    return sock


def _end_all() -> None:
    for owner, end in list(_inherited.items()):
        with suppress(OSError):
            end(owner)
    _inherited.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_all)
