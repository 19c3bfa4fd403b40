"""The judge: sends floods to a prepared node, and says which of them broke a law.

The laws, for each request:

* another client waits for no answer longer than 100 ms. On a busy machine the clock says nothing: there the longest
  turn of the node's thread is judged, in CPU time;
* the node's memory grows by no more than 256 MiB while it is answered;
* the request is answered, or its connection is closed, in `PATIENCE_S`;
* the node lives, and its journal has no traceback.

A node that does not answer, or has died, is started again: the floods that follow are judged for themselves.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pykraft import Cluster
from pykraft.common.errors import ErrorCode
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.header import decode_response
from pykraft.protocol.messages.cluster import DescribeClusterRequest
from pykraft.protocol.schema import Request, Struct
from pykraft.runtime.process import NodeProcess
from tests.flood.generator import Flood, entries_of, fill
from tests.flood.prepared import NODE, PROPERTIES, SESSION_MS, Preparation, Sizes
from tests.flood.vocabulary import State
from tests.flood.watched_node import FOLDER, LongestTurn, WatchedProcess
from tests.flood.watching import Watch
from tests.harness.asking import create, list_offsets, new_topic
from tests.harness.connection import Closed, Connection
from tests.harness.waiting import wait_until

LONGEST_WAIT_MS = 100.0
LONGEST_TURN_MS = 150.0
"""CPU time: a core whose other half is busy, or whose caches others use, takes half as long again for the same work."""
LARGEST_GROWTH_BYTES = 256 << 20
PATIENCE_S = 60.0
_START_S = 600.0
NEVER = 1 << 60
MEBIBYTE = 1 << 20
_READ_BYTES = 16 << 20
"""Answers up to this size are read for their error codes."""
_MUCH_BYTES = 32 << 20
_LONG_SESSION, _SHORT_SESSION = (f"broker.session.timeout.ms={ms}" for ms in (SESSION_MS, 15_000))
_FAULT = re.compile(r"  fault  .*|Traceback .*")
_AFTERWARDS = 3
"""Answers that the other client waits for after the flood's: what the node does late counts, too."""


class Row(NamedTuple):
    """What one request did."""

    name: str
    entries: int
    request_bytes: int
    answered_s: float
    longest_wait_ms: float
    longest_turn_ms: float
    """CPU time."""
    growth_bytes: int
    answer_bytes: int
    said: str
    """The error codes of the answer, the commonest first; or what came instead of one."""
    is_bad: bool = False
    """There was neither an answer nor an end of the connection, or the node died or wrote a traceback."""

    def broken(self, by_clock: bool) -> list[str]:
        """The laws that it broke."""
        found = []
        if by_clock and self.longest_wait_ms > LONGEST_WAIT_MS:
            found.append(f"wait of {self.longest_wait_ms:.0f} ms")
        if not by_clock and self.longest_turn_ms > LONGEST_TURN_MS:
            found.append(f"turn of {self.longest_turn_ms:.0f} ms")
        if self.growth_bytes > LARGEST_GROWTH_BYTES:
            found.append(f"growth of {self.growth_bytes / MEBIBYTE:.0f} MiB")
        if self.is_bad:
            found.append(self.said)
        return found

    def __str__(self) -> str:
        return (
            f"{self.longest_wait_ms:>9.0f} {self.longest_turn_ms:>9.0f} {self.growth_bytes / MEBIBYTE:>7.0f} "
            f"{self.answered_s:>7.2f} {self.request_bytes:>11,} {self.answer_bytes:>12,} {self.entries:>7,}  "
            f"{self.name}  [{self.said}]"
        )


TITLE = (
    f"{'wait ms':>9} {'turn ms':>9} {'MiB':>7} {'seconds':>7} {'request B':>11} {'answer B':>12} {'entries':>7}  "
    "flood  [what the answer says]"
)


class Bench:
    """A prepared node, and the measuring of requests to it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self.state = State()
        self._read_of_journal = 0
        self._turn: LongestTurn | None = None
        self._much = True
        self.patience_s = PATIENCE_S

    def prepare(self, sizes: Sizes) -> None:
        self._preparation = Preparation(self.cluster, sizes)
        self.state = self._preparation.make()

    # --- the node -----------------------------------------------------------------------------------------------------

    @property
    def node(self) -> NodeProcess:
        node = self.cluster._nodes[NODE]
        assert isinstance(node, NodeProcess)
        return node

    def address(self, listener: ListenerKind) -> str:
        listeners = dict(text.split("://") for text in self.cluster.properties(NODE)["listeners"].split(","))
        return listeners["PLAINTEXT" if listener is ListenerKind.BROKER else "CONTROLLER"]

    def restart(self) -> None:
        """End the node, if it lives, and start it again with what it had. One that does not end in order is killed, and
        lives a moment with short sessions: it is let in again when the session before is over."""
        if self._turn is not None:
            self._turn.close()
        self._turn, self._much = None, True
        is_killed = not self.node.is_running
        if not is_killed:
            self.node.begin_stop()
            deadline = time.monotonic() + self.patience_s
            while self.node.is_running and time.monotonic() < deadline:
                time.sleep(0.05)
            is_killed = self.node.is_running
            self.node.kill()
        if is_killed:
            file = self.cluster.properties_file(NODE)
            text = file.read_text()
            file.write_text(text.replace(_LONG_SESSION, _SHORT_SESSION))
            self._start()
            self.node.stop()
            file.write_text(text)
        self._start()
        self.state.broker_epoch = self._preparation.broker_epoch()
        self._preparation.await_all()

    def _start(self) -> None:
        self.cluster.restart(NODE, wait=False)
        wait_until(lambda: self.node.is_ready or not self.node.is_running, "the node is ready", _START_S)

    @property
    def turn(self) -> LongestTurn:
        if self._turn is None:
            self._turn = LongestTurn(self._folder, self.node.pid)
        return self._turn

    def fault(self) -> str:
        """The first fault or traceback that the node has written down since this was asked last; nothing if there is
        none."""
        journal = (self.cluster.directory / f"node-{NODE}.out").read_text(errors="replace")
        news, self._read_of_journal = journal[self._read_of_journal :], len(journal)
        found = _FAULT.search(news)
        return "" if found is None else found.group().strip()

    # --- without measuring --------------------------------------------------------------------------------------------

    def ask(self, request: Request, version: int) -> Any:
        with Connection(self.address(ListenerKind.BROKER), self.patience_s) as connection:
            return connection.ask(request, version)

    def make_topic(self, name: str, partitions: int, *configs: tuple[str, str]) -> str:
        """A topic that was not there, and is served now; its name."""
        self.state.salt += 1
        name = f"{name}-{self.state.salt}"
        answer = self.ask(create(new_topic(name, partitions, 1, configs=configs)), 7)
        assert not answer.topics[0].error_code, answer
        asked = list_offsets(name, -1, partition=partitions - 1)
        wait_until(lambda: not self.ask(asked, 6).topics[0].partitions[0].error_code, f"{name} is served", _START_S)
        return name

    def settle(self) -> None:
        """Wait until the node answers at once."""
        for _ in range(20):
            self.ask(DescribeClusterRequest(), 2)

    # --- measuring ----------------------------------------------------------------------------------------------------

    def flood(self, flood: Flood) -> Row:
        """Send one, made by the generator."""
        self.state.salt += 1
        request = fill(flood, self.state)
        target = flood.target
        return self.measure(str(flood), request, target.version, len(entries_of(request, target)), target.listener)

    def measure(
        self,
        name: str,
        request: Request,
        version: int,
        entries: int,
        listener: ListenerKind = ListenerKind.BROKER,
        afterwards_s: float = 0.0,
        client_id: str | None = None,
    ) -> Row:
        """Send a request and wait for its answer, while another client asks the same node small questions; and for
        this long afterwards."""
        frame = Connection.frame(request, version, client_id=client_id)
        if self._much:
            os.kill(self.node.pid, signal.SIGUSR1)
        with (
            Connection(self.address(listener), self.patience_s) as connection,
            Watch(self.address(ListenerKind.BROKER), self.node.pid) as watch,
        ):
            watch.answered(_AFTERWARDS)  # the memory is given back by now
            watch.longest_ms, watch.peak_bytes = 0.0, watch.rest_now()
            self.turn.begin()
            began = time.monotonic()
            answer, said = self._exchange(connection, frame)
            answered_s = time.monotonic() - began
            is_lost = said.startswith("no answer")
            if not is_lost:
                watch.answered(_AFTERWARDS, self.patience_s)
                watch.answered(NEVER, afterwards_s)
            else:
                watch.stop()
            growth = watch.peak_bytes - watch.rest_bytes
        row = Row(
            name,
            entries,
            len(frame),
            answered_s,
            watch.longest_ms,
            self.turn.milliseconds,
            growth,
            len(answer),
            said or errors_of(request, version, answer),
        )
        self._much = growth > _MUCH_BYTES
        return self._after(row, is_lost)

    @staticmethod
    def _exchange(connection: Connection, frame: bytes) -> tuple[bytes, str]:
        try:
            connection.send_bytes(frame)
            return connection.receive_frame(), ""
        except Closed:
            return b"", "connection closed"
        except OSError as error:
            return b"", f"no answer: {error}"

    def _after(self, row: Row, is_lost: bool) -> Row:
        """The row, with what became of the node; one that is not well is started again."""
        if fault := self.fault():
            row = row._replace(said=f"{row.said}; {fault}", is_bad=True)
        if not self.node.is_running:
            row = row._replace(said=f"{row.said}; the node has died: {self.node.failure}", is_bad=True)
        elif is_lost:
            row = row._replace(is_bad=True)
        if is_lost or not self.node.is_running:
            self.restart()
        return row


def errors_of(request: Request, version: int, answer: bytes) -> str:
    """The error codes in an answer, counted."""
    if len(answer) > _READ_BYTES:
        return "not read"
    _, response = decode_response(type(request).response, version, memoryview(answer))
    counts: Counter[int] = Counter()
    _count(response, counts)
    named = [f"{ErrorCode.of(code).name} {count:,}" for code, count in counts.most_common(3)]
    return ", ".join(named) or "no code"


def _count(value: Struct, counts: Counter[int]) -> None:
    for field in value.fields:
        inner = getattr(value, field.name)
        if field.name.endswith("error_code") and not field.wire.array:
            counts[inner] += 1
        elif isinstance(inner, Struct):
            _count(inner, counts)
        elif field.wire.array and isinstance(field.wire.element, type):
            for each in inner or ():
                _count(each, counts)


@contextmanager
def bench(sizes: Sizes, **properties: object) -> Iterator[Bench]:
    """A prepared node in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="pykraft-turns-") as folder:
        before, os.environ[FOLDER] = os.environ.get(FOLDER), folder
        command, NodeProcess.command = NodeProcess.command, WatchedProcess.command
        try:
            with Cluster(nodes=1, mode="processes", timeouts="kafka", properties=PROPERTIES | properties) as cluster:
                one = Bench(cluster, Path(folder))
                one.prepare(sizes)
                yield one
                one.node.kill()  # its files need not be synced
        finally:
            NodeProcess.command = command
            os.environ.pop(FOLDER)
            if before is not None:
                os.environ[FOLDER] = before


def sizes_of(most: int, sizes: Sequence[int]) -> list[int]:
    """The numbers of entries to try, up to this one."""
    return [size for size in sizes if size < most] + [most]
