"""A node on real sockets and disks: one thread that owns it, and a loop that reads as Kafka's picture.

::

    while running:
        selector.poll            sockets -> complete requests -> request channel
        node.handle              each request: answered now, or later by a promise
        node.poll                raft, fetchers, heartbeats, timers
        network_client.send      what the node wants sent

Everything of the node happens on this thread. Other threads reach it by `call`, which runs a function between two steps
of the loop and hands back its result.

Sockets are drained before deadlines are checked. A thread that was held up for a while therefore first hears what came
meanwhile, and only then judges who has been silent for too long.

An exception that nobody below has answered is a bug, or a disk that fails: the node stops at once, as a crashed process
would, and the error is kept in `failure`. It is never swallowed.
"""

import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

from pykraft.common.errors import ConfigError
from pykraft.common.metrics import NETWORK, Series
from pykraft.common.prometheus import exposition
from pykraft.common.trace import TraceSink
from pykraft.common.types import Endpoint
from pykraft.network.client import NetworkClient
from pykraft.network.connection_quotas import ConnectionLimits, ConnectionQuotas
from pykraft.network.metrics_server import MetricsServer
from pykraft.network.selector import Selector
from pykraft.network.socket_server import Acceptor, Processor, SocketOptions
from pykraft.protocol.api import ListenerKind
from pykraft.runtime.background import BackgroundThread
from pykraft.runtime.clock import SystemClock
from pykraft.server import config as node_keys
from pykraft.server import socket_config as keys
from pykraft.server.config import NodeConfig
from pykraft.server.describe import TAIL, NodeView, describe
from pykraft.server.node import Node
from pykraft.server.quotas import Quotas
from pykraft.storage.filesystem import FileSystem, OsFileSystem
from pykraft.storage.log_manager import LogDirectoryFailedError
from pykraft.storage.open_files import most_open_files
from pykraft.transport.frame_recorder import FrameRecorder
from pykraft.transport.request_metrics import RequestMetrics, ThreadTimes
from pykraft.transport.server_connection import RequestChannel

T = TypeVar("T")

SWITCH_INTERVAL_S = 0.0005
"""How long a Python thread may keep the interpreter from the others: the default of 5 ms adds up over several hops."""

MAX_WAIT_MS = 1000
MAX_HANDLING_MS = 20
"""After so long of handling requests a node looks after itself. A flood of them must not be what its heartbeats, or the
fetches that show it to be alive, have to wait for."""


class MillisecondClock(Protocol):
    def now(self) -> int: ...


class NodeStopped(Exception):  # noqa: N818 (it tells a state)
    """The node does not run any more."""


class NodeThread:
    """One node, its sockets, and the thread that owns both."""

    def __init__(
        self,
        config: NodeConfig,
        clock: MillisecondClock,
        random: Random,
        trace_sink: TraceSink,
        name: str = "node",
        filesystem: FileSystem | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        """Open the node's directories and listeners, by default on the disk of this machine and without quotas.
        ConfigError, DirectoryInUseError or OSError say why not."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.name = f"{name}-{config.node_id}"
        self._clock = clock
        self._selector = Selector()
        self._background = BackgroundThread(self.name, self._selector.wakeup)
        self._calls: deque[tuple[Callable[[Node], Any], Future[Any]]] = deque()
        self._options = _socket_options(config)
        self._client = NetworkClient(self._selector, f"{self.name}-client", random, is_of_node=True)
        self._requests = RequestChannel(self._options.queued_max_requests, self._client.timer, clock.now)
        self._processor = Processor(self._selector, self._requests, self._options)
        self._acceptors: list[Acceptor] = []
        self._quotas: list[ConnectionQuotas] = []
        self._metrics_server: MetricsServer | None = None
        self.failure: BaseException | None = None
        self._kill = threading.Event()
        self._running = True
        self._stopwatch = SystemClock.elapsed_ns
        node: Node | None = None
        try:
            node = self.node = Node(
                config=config,
                filesystem=filesystem or OsFileSystem(),
                clock=SystemClock(),
                random=random,
                background=self._background,
                trace_sink=trace_sink,
                quotas=quotas,
            )
            self._measure()
            self._bind()
        except BaseException:
            if node is not None:
                node.abandon()
            self._release(reset=False)
            raise
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def _measure(self) -> None:
        """Let the stages count what they do."""
        metrics = self.node.metrics
        self._requests.metrics = RequestMetrics(metrics, self._stopwatch)
        self._times = ThreadTimes(metrics, self._requests.metrics)
        metrics.gauge("RequestChannel", "RequestQueueSize", lambda: len(self._requests), NETWORK)
        metrics.series("socket-server-metrics", "connection-count", self._connections)

    def _connections(self) -> Series:
        names = [listener.name for listener in self.node.config.listeners]
        counts = self._processor.count_by_listener()
        return [({"listener": name, "networkProcessor": "0"}, counts[name]) for name in names]

    def _bind(self) -> None:
        ports = {}
        quotas = connection_quotas(self.node.config)
        self._quotas = list(quotas.values())
        for listener in self.node.config.listeners:
            acceptor = Acceptor(
                self._selector, self._processor, listener.name, listener.kind, quotas[listener.kind], self._clock.now
            )
            self._acceptors.append(acceptor)
            try:
                ports[listener.name] = acceptor.bind(listener.bind.host, listener.bind.port, self._options)
            except OSError as error:
                raise ConfigError(
                    f"listener {listener.name} cannot listen on {listener.bind}: {error.strerror}"
                ) from None
        self.node.bind(ports)
        endpoint = self.node.config.metrics_listener
        if endpoint is not None:
            try:
                self._metrics_server = MetricsServer(self._selector, endpoint, lambda: exposition(self.node.metrics))
            except OSError as error:
                raise ConfigError(
                    f"{node_keys.METRICS_LISTENER.name} cannot listen on {endpoint}: {error.strerror}"
                ) from None

    @property
    def metrics_endpoint(self) -> Endpoint | None:
        """Where its metrics are read, if anywhere."""
        return None if self._metrics_server is None else self._metrics_server.endpoint

    def start(self) -> None:
        self._thread.start()

    # --- from other threads -------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def call(self, function: Callable[[Node], T]) -> "Future[T]":
        """Run ``function(node)`` on the node's own thread; NodeStopped if it does not run any more."""
        future: Future[T] = Future()
        self._calls.append((function, future))
        self._selector.wakeup()
        if not self._running:
            self._refuse_calls()
        return future

    def describe(self, tail_records: int = TAIL) -> NodeView:
        """What the node knows; NodeStopped if it does not run any more."""
        return self.call(partial(describe, tail_records=tail_records)).result()

    def begin_stop(self, hand_over: bool = True) -> None:
        """Ask it to stop in order; without handing over what it leads, it does not wait for anybody."""
        if self.is_running:
            self.call(lambda node: node.begin_shutdown(self._clock.now(), hand_over))

    def stop(self, timeout_s: float = 30) -> None:
        """Stop in order: leaderships handed over, files closed."""
        self.begin_stop()
        self._thread.join(timeout_s)
        if self.is_running:
            self.kill()

    def kill(self) -> None:
        """Stop between two steps of the loop, and reset all connections, as the end of a process does. Nothing is
        flushed, nobody is told."""
        self._kill.set()
        self._selector.wakeup()
        self._thread.join()

    def record_from_the_start(self, recorder: FrameRecorder) -> None:
        """The same for a node that has not started yet."""
        self._requests.recorder = recorder

    def record(self, recorder: FrameRecorder | None) -> None:
        """Keep the frames that are received and sent from now on, or no more; NodeStopped if it does not run any
        more."""
        self.call(lambda _: setattr(self._requests, "recorder", recorder)).result()

    # --- on the node's thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self.node.start(self._clock.now())
            self._loop()
            if self._kill.is_set():
                self.node.abandon()
            else:
                self._background.finish()  # what it syncs must be on the disk before the node says that all is
                self.node.close()
        except BaseException as error:  # kept, and reported by whoever closes the cluster
            is_of_file = isinstance(error, OSError) and error.filename is not None
            self.failure = self.node.disk_failure(error) if is_of_file else error  # type: ignore[arg-type]
            self.node.abandon()
        finally:
            self._running = False
            is_told = self.failure is None or isinstance(self.failure, LogDirectoryFailedError)
            self._release(reset=self._kill.is_set() or not is_told)

    def _loop(self) -> None:
        deadline = 0
        idle_check = 0
        stopwatch = self._stopwatch
        began = stopwatch()
        while not self._kill.is_set():
            now = self._clock.now()
            ready = self._selector.wait(0 if self._has_work else min(deadline - now, MAX_WAIT_MS) / 1000)
            ready_at = stopwatch()
            now = self._processor.now = self._client.now = self._clock.now()
            self._selector.tell(ready)
            network_deadline = self._client.poll(now)
            read_at = stopwatch()
            self._client.dispatch()
            self._handle_requests(now)
            self._requests.feed()
            self._background.drain()
            self._answer_calls()
            poll = self.node.poll(now)
            for outbound in poll.requests:
                self._client.send(outbound, now)
            deadline = min(poll.deadline, network_deadline, self._client.timer.deadline)
            if now >= idle_check:
                idle_check = self._processor.close_idle(now)
            deadline = min(deadline, idle_check, self._look_after_connections(now))
            if self.node.is_shut_down(now):
                return
            ended = stopwatch()
            self._times.add(began, ready_at, read_at, ended)
            began = ended

    def _look_after_connections(self, now: int) -> int:
        """Close what is too many, and accept what had to wait; returns when to look again."""
        for quotas in self._quotas:
            if quotas.has_excess:
                self._processor.close_excess(quotas)
        return min(acceptor.go_on(now) for acceptor in self._acceptors)

    @property
    def _has_work(self) -> bool:
        return bool(len(self._requests) or self._calls or self._client.has_news)

    def _handle_requests(self, now: int) -> None:
        """Handle what is in the queue, and what takes its place meanwhile, but not for ever."""
        enough = now + MAX_HANDLING_MS
        while (queued := self._requests.receive()) is not None:
            connection, inbound, queued_at = queued
            connection.serve(inbound, self.node, now, queued_at)
            if self._clock.now() >= enough:
                return

    def _answer_calls(self) -> None:
        while self._calls:
            function, future = self._calls.popleft()
            try:
                future.set_result(function(self.node))
            except Exception as error:  # the caller's, not the node's
                future.set_exception(error)

    def _release(self, reset: bool) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        if self._metrics_server is not None:
            self._metrics_server.close()
        self._processor.close(reset)
        self._client.close()
        self._background.close()
        self._selector.close()
        self._refuse_calls()

    def _refuse_calls(self) -> None:
        with suppress(IndexError):  # two threads may do this at once
            while True:
                _, future = self._calls.popleft()
                future.set_exception(NodeStopped(f"{self.name} does not run"))

    # --- the network between nodes ------------------------------------------------------------------------------------

    def cut(self, other: "NodeThread") -> None:
        """Let nothing through to the other node, until `mend`."""
        for listener in other.node.config.listeners:
            self.call(partial(self._freeze, listener.advertised)).result()

    def mend(self, other: "NodeThread") -> None:
        """Let everything through again."""
        for listener in other.node.config.listeners:
            self.call(partial(self._thaw, listener.advertised)).result()

    def is_cut(self, other: "NodeThread") -> bool:
        """Whether nothing gets through from this node to the other."""
        return any(self._client.is_frozen(listener.advertised) for listener in other.node.config.listeners)

    def _freeze(self, endpoint: Endpoint, _: Node) -> None:
        self._client.freeze(endpoint)

    def _thaw(self, endpoint: Endpoint, _: Node) -> None:
        self._client.thaw(endpoint)


def _socket_options(config: NodeConfig) -> SocketOptions:
    values = config.values
    return SocketOptions(
        max_request_bytes=values[keys.SOCKET_REQUEST_MAX_BYTES],
        send_buffer_bytes=values[keys.SOCKET_SEND_BUFFER_BYTES],
        receive_buffer_bytes=values[keys.SOCKET_RECEIVE_BUFFER_BYTES],
        backlog=values[keys.SOCKET_LISTEN_BACKLOG_SIZE],
        max_idle_ms=values[keys.CONNECTIONS_MAX_IDLE_MS],
        queued_max_requests=values[keys.QUEUED_MAX_REQUESTS],
        max_file_number=most_open_files() * 7 // 8,
    )


def connection_quotas(config: NodeConfig) -> dict[ListenerKind, ConnectionQuotas]:
    """How many connections there may be to the broker's listeners, and to the controller's."""
    values = config.values
    limits = ConnectionLimits(
        connections=values[keys.MAX_CONNECTIONS],
        per_ip=values[keys.MAX_CONNECTIONS_PER_IP],
        per_ip_overrides=_limits_of_addresses(keys.limits_of_hosts(values)),
        creation_rate=values[keys.MAX_CONNECTION_CREATION_RATE],
    )
    names = {kind: [each.name for each in config.listeners if each.kind is kind] for kind in ListenerKind}
    return {kind: ConnectionQuotas(limits, names[kind], config.inter_broker_listener) for kind in ListenerKind}


def _limits_of_addresses(limits: dict[str, int]) -> dict[str, int]:
    """The same with the addresses of the hosts; ConfigError if a host has none."""
    found = {}
    for host, limit in limits.items():
        try:
            infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            name = keys.MAX_CONNECTIONS_PER_IP_OVERRIDES.name
            raise ConfigError(f"{name} has the host {host}, whose name cannot be resolved: write its address") from None
        found.update({str(info[4][0]): limit for info in infos})
    return found
