"""What a flood does to a node, seen from outside: the longest wait of another client, memory, and CPU time.

`Watch` asks DescribeCluster once a millisecond on a connection of its own, while a request is under way on another. It
keeps the longest wait for an answer, by the clock, and the most memory that the node's process had.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

from pykraft.protocol.messages.cluster import DescribeClusterRequest
from tests.harness.connection import Closed, Connection

PERIOD_S = 0.001
_MEMORY_PERIOD_S = 0.005
_PATIENCE_S = 300.0
_REQUEST = DescribeClusterRequest()
_VERSION = 2


class Watch:
    """Asks from `with` to its end. `longest_ms` and `peak_bytes` are what it has seen until then."""

    def __init__(self, address: str, pid: int | None = None) -> None:
        self._connection = Connection(address, _PATIENCE_S)
        self._process = None if pid is None else psutil.Process(pid)
        self.longest_ms = 0.0
        self.answers = 0
        self.has_ended = False
        """The node has closed the connection."""
        self.rest_bytes = self.peak_bytes = self._memory()
        self._stop = threading.Event()
        self._is_given_up = False
        self._asked: float | None = None
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._ask, self._weigh)]

    def _memory(self) -> int:
        if self._process is None:
            return 0
        try:
            return int(self._process.memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def _weigh(self) -> None:
        while not self._stop.wait(_MEMORY_PERIOD_S):
            self.peak_bytes = max(self.peak_bytes, self._memory())

    def _ask(self) -> None:
        while not self._stop.is_set():
            began = self._asked = time.perf_counter()
            try:
                self._connection.ask(_REQUEST, _VERSION)
            except (Closed, OSError):
                self.has_ended = True
                return
            took, self._asked = time.perf_counter() - began, None
            self.longest_ms = max(self.longest_ms, 1000 * took)
            self.answers += 1
            if took < PERIOD_S:
                time.sleep(PERIOD_S - took)

    def answered(self, more: int, timeout_s: float = _PATIENCE_S) -> None:
        """Wait until this many more answers have come, or the connection has ended."""
        wanted, deadline = self.answers + more, time.monotonic() + timeout_s
        while self.answers < wanted and not self.has_ended and time.monotonic() < deadline:
            time.sleep(PERIOD_S)

    def rest_now(self) -> int:
        """Take what the process has now for its memory at rest."""
        self.rest_bytes = self._memory()
        return self.rest_bytes

    def stop(self) -> None:
        """End without waiting for an answer. An answer that is missing has a wait until now."""
        if self._asked is not None:
            self.longest_ms = max(self.longest_ms, 1000 * (time.perf_counter() - self._asked))
        self._stop.set()
        self._is_given_up = True

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._threads[1].join()
        if self._is_given_up or kind:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._connection.close()
