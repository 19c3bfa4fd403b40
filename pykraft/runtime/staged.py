"""The network's stages on threads of their own, as in Kafka (`network="staged"`).

::

    clients --> acceptor --> network threads --> request queue --> handlers ---+
                one per      num.network.threads  queued.max.       num.io.    | one at a time
                listener     per listener         requests          threads    v
                               ^                                             the node <--- the node's thread:
                               +-------- a response queue for each ----------+             heartbeats, raft, fetchers

What is as in Kafka
-------------------
* An acceptor accepts, and gives connections to the network threads of its listener in turn. Twenty of them may wait for
  each network thread; if all have twenty the acceptor waits.
* A network thread reads, takes requests apart, and puts them into the queue. If that is full it waits, and serves none
  of its connections meanwhile. It sends the responses that handlers have put into its own queue.
* A handler takes a request, has it handled and encodes the response. A request that must wait (for followers, for
  records) does not keep its handler: it is in purgatory, and the thread that completes it encodes the response.
* The broker's listeners and the controller's have a queue and handlers each. So clients of a broker, however many, are
  not in the way of other nodes' heartbeats and votes, which go to the controller.
* The metrics: RequestQueueSize, ResponseQueueSize, RequestHandlerAvgIdlePercent (of both pools, and of each),
  NetworkProcessorAvgIdlePercent and IdlePercent of each processor.

What is not
-----------
* In Kafka handlers work at the same time, and locks are all over partitions, logs and purgatories. Here a node's state
  has one lock, `Ownership`, and no other: **one thread at a time owns the node**. Python runs one of them at a time
  anyway. A second handler helps only where the first waits for a disk.
* The wait for that lock is part of RequestQueueTimeMs, and of a handler's busy time.
* The node's own thread (raft, controller, fetchers, heartbeats: a dozen threads in Kafka) has precedence: when it wants
  the node, each handler finishes at most one request before it. So no flood keeps a node from its own work.
* A response with a piece of a log is sent while others may truncate that log. The piece is checked before it is read
  and after. What sendfile has sent by then is gone, but the connection is closed. Kafka checks the size only.
* The numbers of threads cannot be changed while the node runs.

Every hand-over between threads costs a request 10 to 100 microseconds, which is more than most requests take in all:
notebook 07 measures it. That is why the stages of a node are fused by default.

Follows kafka.network.{SocketServer,Acceptor,Processor} and kafka.server.{KafkaRequestHandler,KafkaRequestHandlerPool}.
"""

import queue
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TypeVar

from pykraft.broker.node import Node
from pykraft.broker.settings.listener_config import Listener
from pykraft.common.core import FOREVER
from pykraft.common.metrics import NETWORK, SERVER, Series
from pykraft.common.timer import Timer
from pykraft.network.connection_quotas import ConnectionQuotas
from pykraft.network.selector import Selector
from pykraft.network.socket_server import Acceptor, Processor, SocketOptions
from pykraft.network.stages import ProcessorChannel, RequestQueue, SharedRecorder, SharedRequestMetrics, WaitingTime
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.transport.frame_recorder import FrameRecorder
from pykraft.transport.login_metrics import LoginMetrics, tell_logins
from pykraft.transport.pace import Pace
from pykraft.transport.request_metrics import RequestMetrics
from pykraft.transport.server_connection import QueuedRequest

T = TypeVar("T")

_CONNECTIONS_THAT_WAIT = 20
"""For each network thread."""
_MAX_WAIT_MS = 1000
_OWN_WORK_MS = 5
"""While requests come without end, handlers let the node see to what follows from them this often."""
_SNAPSHOT_NS = 5_000_000_000
_SNAPSHOTS = 13
"""The oldest is a minute old."""


class Ownership:
    """The lock of a node's state, with a turnstile in front.

    The node's thread waits inside the turnstile, so no handler comes through after it. Those that were through already
    have one request each: after these the node's thread has its turn.
    """

    def __init__(self) -> None:
        self._turnstile = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """A handler takes the node."""
        with self._turnstile:
            pass
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class FirstOwnership:
    """The same lock, for the node's own thread."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def __enter__(self) -> None:
        with self._ownership._turnstile:
            self._ownership._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ownership._lock.release()


class NetworkThread:
    """A processor: the connections that are its own, on a thread that reads and writes them."""

    def __init__(self, name: str, stages: "StagedStages", queue_: RequestQueue, quotas: ConnectionQuotas) -> None:
        self._stages = stages
        self._quotas = quotas
        self._selector = Selector()
        self._timer = Timer()
        self.waiting = WaitingTime(stages.stopwatch)
        pace = Pace(self._timer, stages.clock)
        metrics = SharedRequestMetrics(stages.request_metrics, stages.lock)
        self.channel = ProcessorChannel(queue_, pace, metrics, self._wakeup, stages.to_the_node)
        self.channel.on_error = self._selector.on_error = self._timer.on_error = stages.note_fault
        self.channel.authentications = stages.authentications
        self.processor = Processor(self._selector, self.channel, stages.options)
        self._calls: queue.Queue[Callable[[], object]] = queue.Queue(_CONNECTIONS_THAT_WAIT)
        self._reset = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def submit(self, call: Callable[[], object], timeout_s: float = 0) -> bool:
        """Let this thread do something, mostly serve a new connection; False if too much waits already."""
        try:
            self._calls.put(call, timeout_s > 0, timeout_s)
        except queue.Full:
            return False
        self._wakeup()
        return True

    def _wakeup(self) -> None:
        if self.waiting.is_waiting:
            self._selector.wakeup()

    def end(self, reset: bool) -> None:
        """Close the connections, and end."""
        self._reset = reset
        self._selector.wakeup()

    def _run(self) -> None:
        try:
            deadline = 0
            while self._stages.is_running:
                deadline = self._turn(deadline)
            self.channel.send_responses()
        except BaseException as error:  # the node's thread raises it, and stops
            self._stages.fail(error)
        finally:
            self._close()

    def _turn(self, deadline: int) -> int:
        """Wait for sockets, responses or a deadline, and do what there is; returns the next deadline."""
        waiting, channel, processor = self.waiting, self.channel, self.processor
        waiting.begin()
        # Looked at after `begin`: what comes from now on wakes the selector.
        has_work = channel.has_news or not self._calls.empty() or not self._stages.is_running
        wait_ms = 0 if has_work else min(deadline - self._stages.clock(), _MAX_WAIT_MS)
        ready = self._selector.wait(wait_ms / 1000)
        waiting.end()
        now = processor.now = self._stages.clock()
        while not self._calls.empty():
            self._stages.attempt(self._calls.get_nowait(), otherwise=None)
        channel.send_responses()
        self._selector.tell(ready)
        self._timer.expire(now)
        close_idle = partial(processor.close_idle, now)
        idle_check = self._stages.attempt(close_idle, otherwise=now + _MAX_WAIT_MS) if now >= deadline else deadline
        if self._quotas.has_excess:
            self._stages.attempt(partial(processor.close_excess, self._quotas), otherwise=None)
        return min(idle_check, self._timer.deadline)

    def _close(self) -> None:
        while not self._calls.empty():
            self._calls.get_nowait()()
        self.processor.close(self._reset)
        self._selector.close()


class AcceptorThread:
    """Accepts the connections of one listener, and gives them to its network threads in turn."""

    def __init__(self, name: str, stages: "StagedStages", listener: Listener, threads: list[NetworkThread]) -> None:
        self._stages = stages
        self._threads = threads
        self._next = 0
        self._selector = Selector()
        self._selector.on_error = stages.note_fault
        quotas = stages.quotas[listener.kind]
        quotas.when_released.append(self.wakeup)
        self.acceptor = Acceptor(
            self._selector, self, listener.name, listener.kind, quotas, stages.clock, listener.protocol
        )
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def wakeup(self) -> None:
        self._selector.wakeup()

    def add(
        self,
        sock: socket.socket,
        address: str,
        listener: str,
        kind: ListenerKind,
        when_closed: Callable[[], object],
        protocol: SecurityProtocol,
    ) -> None:
        """Give a connection to the next network thread; to another if too many wait for that one."""
        while self._stages.is_accepting:
            for attempt in range(len(self._threads)):
                thread = self._threads[self._next]
                self._next = (self._next + 1) % len(self._threads)
                is_last = attempt == len(self._threads) - 1

                def serve(processor: Processor = thread.processor) -> None:
                    processor.add(sock, address, listener, kind, when_closed, protocol)

                if thread.submit(serve, _MAX_WAIT_MS / 1000 if is_last else 0):
                    return
        sock.close()
        when_closed()

    def make_room(self) -> bool:
        """The system has no files left: let each network thread close what was silent for the longest."""
        asked = [thread.submit(thread.processor.make_room) for thread in self._threads]
        return any(asked)

    def _run(self) -> None:
        try:
            deadline = 0
            while self._stages.is_accepting:
                wait_ms = min(deadline - self._stages.clock(), _MAX_WAIT_MS)
                self._selector.tell(self._selector.wait(wait_ms / 1000))
                now = self._stages.clock()
                deadline = self._stages.attempt(partial(self.acceptor.go_on, now), otherwise=now + _MAX_WAIT_MS)
        except BaseException as error:
            self._stages.fail(error)
        finally:
            self.close()

    def close(self) -> None:
        self.acceptor.close()
        self._selector.close()


class HandlerThread:
    """Takes requests out of a queue, and has the node handle them."""

    def __init__(self, name: str, stages: "StagedStages", queue_: RequestQueue) -> None:
        self._stages = stages
        self._queue = queue_
        self.waiting = WaitingTime(stages.stopwatch)
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            while (request := self._queue.take(self.waiting)) is not None:
                self._stages.serve(request, self._queue)
        except BaseException as error:
            self._stages.fail(error)


class StagedStages:
    """All threads of a node but its own, and what is between them."""

    def __init__(
        self,
        node: Node,
        name: str,
        clock: Callable[[], int],
        stopwatch: Callable[[], int],
        options: SocketOptions,
        quotas: dict[ListenerKind, ConnectionQuotas],
        poll: Callable[[int], None],
        wakeup: Callable[[], None],
        network_threads: int,
        handlers: int,
    ) -> None:
        """`poll` lets the node do what follows from a request; `wakeup` ends the wait of the node's thread."""
        self._node = node
        self._name = name
        self.clock = clock
        self.stopwatch = stopwatch
        self.options = options
        self.quotas = quotas
        self._poll = poll
        self._wakeup = wakeup
        self._network_threads = network_threads
        self.is_accepting = self.is_running = True
        self._is_handling = True
        self._failure: BaseException | None = None
        self._ownership = Ownership()
        self.ownership: AbstractContextManager[object] = FirstOwnership(self._ownership)
        self._for_the_node: deque[Callable[[], None]] = deque()
        self._polled_at = 0
        self.lock = threading.Lock()
        roles = [kind for kind in ListenerKind if any(each.kind is kind for each in node.config.listeners)]
        self._queues = {kind: RequestQueue(options.queued_max_requests) for kind in roles}
        self._handlers = {
            kind: [
                HandlerThread(f"{name}-{kind.value}-handler-{number}", self, self._queues[kind])
                for number in range(handlers)
            ]
            for kind in roles
        }
        self._acceptors: list[AcceptorThread] = []
        self._processors: list[tuple[str, NetworkThread]] = []
        """With their listeners, in the order of their numbers."""
        self.request_metrics = RequestMetrics(node.metrics, stopwatch)
        self.authentications = node.authentications
        self._measure()

    # --- metrics ------------------------------------------------------------------------------------------------------

    def _measure(self) -> None:
        metrics = self._node.metrics
        metrics.gauge("RequestChannel", "RequestQueueSize", lambda: sum(map(len, self._queues.values())), NETWORK)
        metrics.series("RequestChannel", "ResponseQueueSize", self._response_queues, NETWORK)
        metrics.series("socket-server-metrics", "connection-count", self._connections)
        tell_logins(metrics, self._logins)
        pool = "KafkaRequestHandlerPool"
        everyone = [handler.waiting for handlers in self._handlers.values() for handler in handlers]
        self._pools = {"RequestHandlerAvgIdlePercent": everyone} | {
            f"{kind.value.capitalize()}RequestHandlerAvgIdlePercent": [handler.waiting for handler in handlers]
            for kind, handlers in self._handlers.items()
        }
        for name in self._pools:
            metrics.gauge(pool, name, lambda name=name: self._idle(self._pools[name]), SERVER)  # type: ignore[misc]
        metrics.gauge("SocketServer", "NetworkProcessorAvgIdlePercent", lambda: self._idle(self._network()), NETWORK)
        metrics.series("Processor", "IdlePercent", self._idle_processors, NETWORK)
        self._snapshots: deque[tuple[int, dict[WaitingTime, int]]] = deque([(self.stopwatch(), {})], _SNAPSHOTS)

    def _network(self) -> list[WaitingTime]:
        return [thread.waiting for _, thread in self._processors]

    def _idle(self, threads: list[WaitingTime]) -> float:
        """The share of the last minute in which these threads waited, on average."""
        then, before = self._snapshots[0]
        now = self.stopwatch()
        waited = sum(thread.total(now) - before.get(thread, 0) for thread in threads)
        return min(1.0, waited / ((now - then) * len(threads))) if now > then and threads else 1.0

    def _idle_processors(self) -> Series:
        return [
            ({"networkProcessor": str(n)}, self._idle([thread.waiting]))
            for n, (_, thread) in enumerate(self._processors)
        ]

    def _response_queues(self) -> Series:
        sizes = [len(thread.channel.responses) for _, thread in self._processors]
        return [({}, sum(sizes)), *(({"processor": str(number)}, size) for number, size in enumerate(sizes))]

    def _connections(self) -> Series:
        return [
            ({"listener": listener, "networkProcessor": str(number)}, len(thread.processor))
            for number, (listener, thread) in enumerate(self._processors)
        ]

    def _logins(self) -> list[tuple[str, str, LoginMetrics]]:
        return [
            (listener, str(number), thread.channel.logins) for number, (listener, thread) in enumerate(self._processors)
        ]

    def spent(self, began: int, ready: int, read: int, ended: int) -> None:
        """The node's thread has had a turn: from time to time it notes how much all others have waited."""
        if ended - self._snapshots[-1][0] >= _SNAPSHOT_NS:
            threads = [*self._pools["RequestHandlerAvgIdlePercent"], *self._network()]
            self._snapshots.append((ended, {thread: thread.total(ended) for thread in threads}))

    # --- on the node's thread -----------------------------------------------------------------------------------------

    def bind(self, listener: Listener) -> int:
        """Listen there; returns the port. OSError if it is taken."""
        threads = []
        queue_, quotas = self._queues[listener.kind], self.quotas[listener.kind]
        for number in range(self._network_threads):
            thread = NetworkThread(f"{self._name}-{listener.name}-network-{number}", self, queue_, quotas)
            threads.append(thread)
            self._processors.append((listener.name, thread))
        accepting = AcceptorThread(f"{self._name}-{listener.name}-acceptor", self, listener, threads)
        self._acceptors.append(accepting)
        return accepting.acceptor.bind(listener.bind.host, listener.bind.port, self.options)

    def start(self) -> None:
        """The node has started: begin to serve."""
        self._snapshots[0] = self.stopwatch(), {}
        for handlers in self._handlers.values():
            for handler in handlers:
                handler.thread.start()
        for _, network in self._processors:
            network.thread.start()
        for accepting in self._acceptors:
            accepting.thread.start()

    @property
    def has_work(self) -> bool:
        """Whether the node's thread must not wait."""
        return bool(self._for_the_node) or self._failure is not None

    def begin(self, now: int) -> None:
        """A turn begins."""

    def handle(self, now: int) -> None:
        """Do what other threads want done with the node; raises what has ended one of them."""
        if self._failure is not None:
            raise self._failure
        while self._for_the_node:
            self._node.fault_handler.attempt("network", self._for_the_node.popleft(), otherwise=None)
        self._polled_at = now

    def look_after(self, now: int) -> int:
        return FOREVER

    def record(self, recorder: FrameRecorder | None) -> None:
        """Keep the frames that are received and sent from now on, or no more."""
        for _, thread in self._processors:
            thread.channel.recorder = None if recorder is None else SharedRecorder(recorder, self.lock)

    def stop(self) -> None:
        """No request is handled any more: wait until handlers have finished those in hand."""
        self._is_handling = False
        for queue_ in self._queues.values():
            queue_.close()
        for handlers in self._handlers.values():
            for handler in handlers:
                _join(handler.thread)

    def close(self, reset: bool) -> None:
        """End all threads and close all sockets; with `reset` as the end of a process does."""
        self.stop()
        self.is_accepting = False
        for accepting in self._acceptors:
            accepting.wakeup()
        for accepting in self._acceptors:
            if not _join(accepting.thread):
                accepting.close()
        self.is_running = False  # only now: what was accepted has come to its network thread
        for _, network in self._processors:
            network.end(reset)
        for _, network in self._processors:
            if not _join(network.thread):
                network._close()

    # --- on the other threads -----------------------------------------------------------------------------------------

    def serve(self, request: QueuedRequest, queue_: RequestQueue) -> None:
        """A handler: have the node handle this request, and do what follows from it when no other waits."""
        with self._ownership:
            if not self._is_handling:
                return
            now = self.clock()
            request.connection.serve(request, self._node, now)
            if not len(queue_) or now - self._polled_at >= _OWN_WORK_MS:
                self._polled_at = now
                self._poll(now)

    def to_the_node(self, call: Callable[[], None]) -> None:
        """Have the node's thread do something with the node."""
        self._for_the_node.append(call)
        self._wakeup()

    def note_fault(self, error: Exception) -> None:
        """A connection has met an exception that nothing expected: let the node take note of it. (On these threads an
        OSError is that of a socket: the system has refused something.)"""
        if not isinstance(error, OSError):
            self.to_the_node(partial(self._node.fault_handler.handle_fault, "network", error))

    def attempt(self, call: Callable[[], T], otherwise: T) -> T:
        """What `call` returns, or `otherwise` if it raises."""
        try:
            return call()
        except Exception as error:
            self.note_fault(error)
            return otherwise

    def fail(self, error: BaseException) -> None:
        """A thread has ended by an error: so does the node."""
        self._failure = self._failure or error
        self._wakeup()


def _join(thread: threading.Thread) -> bool:
    """Wait until it has ended; False if it never began."""
    if thread.ident is None:
        return False
    thread.join()
    return True
