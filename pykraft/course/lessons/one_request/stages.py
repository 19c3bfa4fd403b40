"""Scenarios of notebook 07: a staged broker whose node the lesson holds, and the same load on brokers that differ.

`Broker` is a cluster of one node with Kafka's threads, of which the notebook asks where its requests are::

    with broker.held():             no handler gets the node meanwhile
        callers = broker.call(12)   twelve connections, each with one request
        broker.counts()             where they are, once nothing moves any more

`Crowd` is a load of small requests on several connections, pipelined: `measure` gives its microseconds a request.
`hand_overs` counts how often the threads of a node had to wait for each request. Not in Kafka.
"""

import fcntl
import selectors
import socket
import struct
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pykraft.broker.node import Node
from pykraft.cluster import Cluster
from pykraft.course.experiment import Experiment, Outcome
from pykraft.course.rigs.by_hand import Wire, waiting_fetch
from pykraft.protocol.header import SIZE, encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.runtime.staged import StagedStages
from pykraft.runtime.threaded import NodeThread
from pykraft.storage.disk.open_files import OPEN_FILES
from pykraft.transport.server_channel import ChannelState
from pykraft.viz.wire.stage_drawing import StageCounts

_HELLO = ApiVersionsRequest(client_software_name="lesson", client_software_version="1")
_LIMIT_S = 20.0
_STILL_S = 0.03
_TURNS_S = 2.0
"""How long the network threads get for their turns, if they do not read what they could."""
_KIND = "broker"


def small_request(correlation_id: int = 1, padding: int = 0) -> bytes:
    """A request that takes next to no work: ApiVersions; with this many bytes more in a field that no broker knows."""
    frame = b"".join(encode_request(_HELLO, 3, correlation_id, "lesson"))
    if not padding:
        return frame
    body = frame[SIZE.size : -1] + b"\x01\x64" + _varint(padding) + bytes(padding)
    return SIZE.pack(len(body)) + body


def _varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


class Broker:
    """One staged broker."""

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        self.cluster = Cluster(nodes=1, network="staged", timeouts="kafka", properties=properties)
        thread = self.cluster._nodes[1]
        assert isinstance(thread, NodeThread)
        assert isinstance(thread.stages, StagedStages)
        self._thread, self._stages = thread, thread.stages
        self._wires: list[Wire] = []

    def call(self, connections: int, octets: bytes | None = None) -> list[Wire]:
        """So many new connections, each with this request or a small one. The broker reads what it can of each before
        the next one is sent: its network threads come to their turn on a busy machine, too."""
        wires = [Wire(self.cluster) for _ in range(connections)]
        self._wires += wires
        deadline = time.monotonic() + _LIMIT_S
        while not self._callers() >= {wire.port for wire in wires} and time.monotonic() < deadline:
            time.sleep(0.001)
        deadline = time.monotonic() + _TURNS_S
        for wire in wires:
            wire.send(small_request() if octets is None else octets)
            while self._can_go_on() and time.monotonic() < deadline:
                time.sleep(0.001)
        return wires

    def park(self, topic: str, count: int) -> list[Wire]:
        """So many connections whose fetch waits for a record of this topic."""
        return self.call(count, waiting_fetch(topic, wait_ms=60_000, correlation_id=1))

    @contextmanager
    def held(self) -> Iterator[None]:
        """The node belongs to the lesson: handlers wait for it."""
        begun, is_over = threading.Event(), threading.Event()

        def hold(_: Node) -> None:
            begun.set()
            is_over.wait(_LIMIT_S)

        done = self._thread.call(hold)
        begun.wait(_LIMIT_S)
        try:
            yield
        finally:
            is_over.set()
            done.result(_LIMIT_S)

    def counts(self) -> StageCounts:
        """Where the requests are, as soon as they stay there."""
        deadline = time.monotonic() + _LIMIT_S
        before, since = self._look(), time.monotonic()
        while time.monotonic() - since < _STILL_S * 5 and time.monotonic() < deadline:
            time.sleep(_STILL_S)
            if (now := self._look()) != before or self._can_go_on():
                before, since = now, time.monotonic()
        return before

    def _can_go_on(self) -> bool:
        """A thread has work, and has not come to it yet: the machine is busy."""
        for _, thread in self._stages._processors:
            streams = list(thread.processor._sockets)
            heard = [each for each in streams if each.connection.channel.state is ChannelState.NOT_MUTED]
            if thread.waiting.is_waiting and any(_has_unread(each.sock) for each in heard):
                return True
        return any(
            len(self._stages._queues[kind]) and any(handler.waiting.is_waiting for handler in handlers)
            for kind, handlers in self._stages._handlers.items()
        )

    def _look(self) -> StageCounts:
        stages = self._stages
        kind = next(kind for kind in stages._queues if kind.value == _KIND)
        queue, handlers = stages._queues[kind], stages._handlers[kind]
        threads = [thread for listener, thread in stages._processors if listener == "PLAINTEXT"]
        unread = sum(_has_unread(stream.sock) for thread in threads for stream in list(thread.processor._sockets))
        return StageCounts(
            sockets=unread,
            network=sum(not thread.waiting.is_waiting for thread in threads),
            network_threads=len(threads),
            queue=len(queue),
            capacity=queue.capacity,
            handlers=sum(not handler.waiting.is_waiting for handler in handlers),
            handler_threads=len(handlers),
            purgatory=self._parked(),
        )

    def idle(self, seconds: float = 0.1) -> dict[str, float]:
        """What shares of this time handlers and network threads wait for work, on average."""
        stages = self._stages
        pools = {
            "handlers": stages._pools["BrokerRequestHandlerAvgIdlePercent"],
            "network threads": [thread.waiting for name, thread in stages._processors if name == "PLAINTEXT"],
        }
        began = time.monotonic_ns()
        before = {name: sum(each.total(began) for each in waits) for name, waits in pools.items()}
        time.sleep(seconds)
        ended = time.monotonic_ns()
        waited = {name: sum(each.total(ended) for each in waits) - before[name] for name, waits in pools.items()}
        return {name: round(waited[name] / (ended - began) / len(pools[name]), 2) for name in pools}

    def _callers(self) -> set[int]:
        """The ports from which the connections come that network threads have."""
        threads = [thread for listener, thread in self._stages._processors if listener == "PLAINTEXT"]
        return {_port_of_caller(stream.sock) for thread in threads for stream in list(thread.processor._sockets)}

    def _parked(self) -> int:
        broker = self._thread.node.broker
        assert broker is not None
        return round(self._thread.node.metrics.value("DelayedOperationPurgatory", "PurgatorySize"))

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
        self.cluster.close()


def _has_unread(sock: socket.socket) -> bool:
    """Whether bytes have come to this socket that the broker has not read."""
    try:
        return bool(struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, b"\0\0\0\0"))[0])
    except OSError:
        return False  # it was closed meanwhile


def _port_of_caller(sock: socket.socket) -> int:
    """From which port a connection comes; -1 if it was closed meanwhile."""
    try:
        return int(sock.getpeername()[1])
    except OSError:
        return -1


class Advice(NamedTuple):
    """What a guide says, and the experiment that decides."""

    text: str
    experiment: Experiment
    settings: dict[str, object]
    others: dict[str, object] = {}  # noqa: RUF012 (it is never changed)
    padding: int = 0


class Crowd:
    """Pipelined small requests on several connections to the first broker of a cluster."""

    def __init__(self, cluster: Cluster, connections: int = 6, each: int = 20, padding: int = 0) -> None:
        host, _, port = cluster.bootstrap_servers.split(",")[0].rpartition(":")
        self._each = each
        self._octets = b"".join(small_request(number, padding) for number in range(each))
        self._sockets = [socket.create_connection((host, int(port)), _LIMIT_S) for _ in range(connections)]

    def measure(self) -> float:
        """Send all requests at once, and read all responses: microseconds a request."""
        began = time.perf_counter()
        with selectors.DefaultSelector() as selector:
            for sock in self._sockets:
                sock.sendall(self._octets)
                selector.register(sock, selectors.EVENT_READ, [b"", self._each])
            while selector.get_map():
                for key, _ in selector.select(_LIMIT_S):
                    data, left = key.data
                    data, left = _without_frames(data + key.fileobj.recv(1 << 16), left)  # type: ignore[union-attr]
                    if left:
                        selector.modify(key.fileobj, selectors.EVENT_READ, [data, left])
                    else:
                        selector.unregister(key.fileobj)
        return (time.perf_counter() - began) * 1e6 / self._each / len(self._sockets)

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


def _without_frames(data: bytes, left: int) -> tuple[bytes, int]:
    """What is left when the whole frames are taken off, and how many frames are still to come."""
    while len(data) >= SIZE.size and len(data) >= (end := SIZE.size + SIZE.unpack_from(data)[0]):
        data, left = data[end:], left - 1
    return data, left


def hand_overs(cluster: Cluster, requests: int) -> float:
    """How often the threads of its node had to wait for each of this many requests, one after the other. A thread
    without work gives the processor back, which the system counts (voluntary context switches)."""
    wire = Wire(cluster)
    wire.ask(small_request())
    before = _waits()
    for number in range(requests):
        wire.ask(small_request(number))
    waited = _waits() - before
    wire.close()
    return waited / requests


def _waits() -> int:
    """The voluntary context switches of all threads of nodes in this process."""
    total = 0
    for thread in threading.enumerate():
        if thread.name.startswith("node-"):
            text = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
            total += int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return total


_takes_longer = partial(Experiment, holds_if="at least 1.5 times", prediction=1, unit="µs")
"""Guides promise a gain. We predict none: a factor of 1."""

ADVICE = (
    Advice(
        "Raise num.io.threads.",
        _takes_longer(
            claim="With 1 request handler a small request takes at least 1.5 times as long as with 8.",
            compared=("1 handler", "8 handlers"),
            because="the node has one owner at a time, so seven handlers wait while one works on a request",
        ),
        {"num.io.threads": 1},
    ),
    Advice(
        "Raise num.network.threads for many clients.",
        _takes_longer(
            claim="With 1 network thread a small request takes at least 1.5 times as long as with 3.",
            compared=("1 thread", "3 threads"),
            because="the interpreter runs one thread at a time, whether it reads sockets or handles requests",
        ),
        {"num.network.threads": 1},
    ),
    Advice(
        "Raise queued.max.requests for bursts.",
        _takes_longer(
            claim="With room for 5 requests a small request takes at least 1.5 times as long as with 500.",
            compared=("5 places", "500 places"),
            because="a longer queue moves the wait from the socket into the broker, and makes no handler faster",
        ),
        {"queued.max.requests": 5},
    ),
    Advice(
        "Give sockets buffers of a megabyte.",
        _takes_longer(
            claim="With buffers of 100 KB a large request takes at least 1.5 times as long as with 1 MB.",
            compared=("100 KB", "1 MB"),
            because="a buffer must hold what is on its way, and on one machine nothing is on its way for long",
        ),
        {},
        {"socket.send.buffer.bytes": 1 << 20, "socket.receive.buffer.bytes": 1 << 20},
        padding=200_000,
    ),
)
"""What guides say, each as an experiment: the first arm is a broker with these settings, the second Kafka's defaults or
the `other` settings."""


def put_to_the_test(advice: Advice, seed: int) -> Outcome:
    """Two staged brokers that differ in what the advice is about, and the same load on both."""
    first, second = advice.experiment.compared
    each = 20 if not advice.padding else 2
    with (
        Cluster(nodes=1, network="staged", timeouts="kafka", properties=advice.settings) as one,
        Cluster(nodes=1, network="staged", timeouts="kafka", properties=advice.others) as other,
    ):
        crowds = {first: Crowd(one, each=each, padding=advice.padding)}
        crowds[second] = Crowd(other, each=each, padding=advice.padding)
        try:
            return advice.experiment.run(lambda arm: crowds[arm].measure(), seed)
        finally:
            for crowd in crowds.values():
                crowd.close()


def descriptors(cluster: Cluster) -> dict[str, int]:
    """How many files the partitions of its first node have, and for how many of them this process has a descriptor."""
    directory = cluster.node_directory(1)
    files = [file for file in directory.glob("*/*") if file.suffix in (".log", ".index", ".timeindex")]
    opened = [link for link in Path("/proc/self/fd").iterdir() if _target(link).startswith(str(directory))]
    return {"files": len(files), "open": sum(_target(link).endswith((".log", "index")) for link in opened)}


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""  # it was closed meanwhile


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    """The files of all logs of this process share this many descriptors meanwhile."""
    before, OPEN_FILES.limit = OPEN_FILES.limit, count
    try:
        yield
    finally:
        OPEN_FILES.limit = before
