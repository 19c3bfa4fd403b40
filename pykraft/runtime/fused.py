"""The network's stages on the node's own thread: the loop runs them in turn (`network="fused"`, the default).

Follows kafka.network.SocketServer, whose threads it does without; `runtime.staged` has them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from pykraft.broker.node import Node
from pykraft.broker.settings.listener_config import Listener
from pykraft.common.metrics import NETWORK, Series
from pykraft.common.timer import Timer
from pykraft.network.connection_quotas import ConnectionQuotas
from pykraft.network.selector import Selector
from pykraft.network.socket_server import Acceptor, Processor, SocketOptions
from pykraft.protocol.api import ListenerKind
from pykraft.transport.frame_recorder import FrameRecorder
from pykraft.transport.login_metrics import tell_logins
from pykraft.transport.pace import Pace
from pykraft.transport.request_metrics import RequestMetrics, ThreadTimes
from pykraft.transport.server_connection import RequestChannel

MAX_HANDLING_MS = 20
"""After this long of handling requests a node looks after itself. A flood of them must not be what its heartbeats, or
the fetches that show it to be alive, have to wait for."""


class FusedStages:
    """Acceptors, one processor and one queue, all in the hands of the node's thread."""

    def __init__(
        self,
        node: Node,
        selector: Selector,
        timer: Timer,
        clock: Callable[[], int],
        stopwatch: Callable[[], int],
        options: SocketOptions,
        quotas: dict[ListenerKind, ConnectionQuotas],
    ) -> None:
        self._node = node
        self._selector = selector
        self._clock = clock
        self._options = options
        self._quotas = quotas
        metrics = RequestMetrics(node.metrics, stopwatch)
        pace = Pace(timer, clock, node.dispatcher.time_slice)
        self._requests = RequestChannel(options.queued_max_requests, pace, metrics)
        self._requests.authentications = node.authentications
        self._processor = Processor(selector, self._requests, options)
        self._acceptors: list[Acceptor] = []
        self._idle_check = 0
        self._requests.on_error = partial(node.fault_handler.handle_fault, "network")
        node.rooms.more_waits = lambda: len(self._requests) > 0
        self._times = ThreadTimes(node.metrics, metrics)
        node.metrics.gauge("RequestChannel", "RequestQueueSize", lambda: len(self._requests), NETWORK)
        node.metrics.series("socket-server-metrics", "connection-count", self._connections)
        tell_logins(node.metrics, lambda: [(each.listener, "0", self._requests.logins) for each in self._acceptors])

    def _connections(self) -> Series:
        names = [acceptor.listener for acceptor in self._acceptors]
        counts = self._processor.count_by_listener()
        return [({"listener": name, "networkProcessor": "0"}, counts[name]) for name in names]

    def bind(self, listener: Listener) -> int:
        """Listen there; returns the port. OSError if it is taken."""
        acceptor = Acceptor(
            self._selector,
            self._processor,
            listener.name,
            listener.kind,
            self._quotas[listener.kind],
            self._clock,
            listener.protocol,
        )
        self._acceptors.append(acceptor)
        return acceptor.bind(listener.bind.host, listener.bind.port, self._options)

    def start(self) -> None:
        """The node has started."""

    @property
    def ownership(self) -> AbstractContextManager[object]:
        """What a turn of the node's thread holds: here it shares the node with no other thread."""
        return nullcontext()

    @property
    def has_work(self) -> bool:
        """Whether the node's thread must not wait."""
        return len(self._requests) > 0 or bool(self._requests.large)

    def begin(self, now: int) -> None:
        """A turn begins: sockets are looked at next."""
        self._processor.now = now

    def handle(self, now: int) -> None:
        """Handle what is in the queue, and what takes its place meanwhile, but not for ever."""
        enough = now + MAX_HANDLING_MS
        requests = self._requests
        if requests.large:
            requests.read_large()
        while (request := requests.receive()) is not None:
            request.connection.serve(request, self._node, now)
            if self._clock() >= enough:
                break
        if requests.starved:
            requests.feed()

    def look_after(self, now: int) -> int:
        """Close connections that are idle or too many, and accept what had to wait; returns when to look again."""
        if now >= self._idle_check:
            self._idle_check = self._processor.close_idle(now)
        for quotas in self._quotas.values():
            if quotas.has_excess:
                self._processor.close_excess(quotas)
        return min(self._idle_check, *(acceptor.go_on(now) for acceptor in self._acceptors))

    def spent(self, began: int, ready: int, read: int, ended: int) -> None:
        """A turn is over: what the thread did with its time, see `ThreadTimes`."""
        self._times.add(began, ready, read, ended)

    def record(self, recorder: FrameRecorder | None) -> None:
        """Keep the frames that are received and sent from now on, or no more."""
        self._requests.recorder = recorder

    def stop(self) -> None:
        """No request is handled any more."""

    def close(self, reset: bool) -> None:
        """Close all sockets; with `reset` as the end of a process does."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._processor.close(reset)
