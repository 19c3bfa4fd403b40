"""Whatever the tests of a module do to their clusters: afterwards no thread, socket or child process is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psutil
import pytest

from tests.harness.waiting import wait_until


def _sockets() -> set[tuple[int, str]]:
    return {(c.fd, str(c.laddr)) for c in psutil.Process().net_connections(kind="inet")}


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE}


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left() -> Iterator[None]:
    threads, sockets, children = set(threading.enumerate()), _sockets(), _children()
    yield
    wait_until(lambda: set(threading.enumerate()) <= threads, "all threads have ended")
    assert _sockets() <= sockets
    assert _children() <= children
