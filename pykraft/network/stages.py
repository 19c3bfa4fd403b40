"""The queues between Kafka's threads: a bounded queue of requests, and for each network thread a queue of responses.

::

    network thread 0 --+                                +-- handler 0
    network thread 1 --+--> RequestQueue (bounded) ---->+-- handler 1
    network thread 2 --+                                +-- ...
           ^                                                 |
           +---- ProcessorChannel.responses (one each) <-----+

**The order of a connection.** A connection belongs to one network thread, and its channel is *muted* from the moment a
request is taken until the response has been handed to the socket. So at most one request of it is anywhere in the
picture. Handlers may finish in any order; each connection still gets its responses in the order of its requests.

**The bound.** A network thread that finds the request queue full waits in `RequestQueue.put`, and meanwhile reads and
writes nothing: the flood backs up into the clients' sockets. The responses' queues need no bound, since a connection
has at most one response in them.

**No circle.** Handlers never wait for a network thread, so a full request queue always drains.

A `ProcessorChannel` is the `RequestChannel` of the connections of one network thread: the code of a connection is the
same in both modes, and only what passes between its two sides (`server_connection`) goes through queues here.

Follows kafka.network.RequestChannel (its ArrayBlockingQueue), and Processor's responseQueue.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pykraft.protocol.schema import Response
from pykraft.transport.frame_recorder import FrameRecorder
from pykraft.transport.pace import Pace
from pykraft.transport.request_metrics import AnsweredRequest, RequestMetrics
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import QueuedRequest, RequestChannel, ServerConnection


class WaitingTime:
    """How long one thread has waited for work, in nanoseconds. Other threads may read it."""

    def __init__(self, stopwatch: Callable[[], int]) -> None:
        self._stopwatch = stopwatch
        self._waited = 0
        self._since = 0
        """When the wait began; 0 while the thread works."""

    @property
    def is_waiting(self) -> bool:
        return self._since > 0

    def begin(self) -> None:
        self._since = self._stopwatch()

    def end(self) -> None:
        self._waited, self._since = self._waited + self._stopwatch() - self._since, 0

    def total(self, now: int) -> int:
        """So far, the wait that goes on included."""
        since = self._since
        return self._waited + (now - since if since else 0)


class RequestQueue:
    """Requests on their way from the network threads to the handlers, oldest first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._requests: deque[QueuedRequest] = deque()
        lock = threading.Lock()
        self._has_room = threading.Condition(lock)
        self._has_requests = threading.Condition(lock)
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, request: QueuedRequest) -> None:
        """Add a request; if the queue is full, wait until it is not. A closed queue drops it."""
        with self._has_room:
            while len(self._requests) >= self.capacity and not self._is_closed:
                self._has_room.wait()
            if not self._is_closed:
                self._requests.append(request)
                self._has_requests.notify()

    def take(self, waiting: WaitingTime) -> QueuedRequest | None:
        """The request that has waited longest, as soon as there is one; None once the queue is closed."""
        waiting.begin()
        with self._has_requests:
            while not self._requests and not self._is_closed:
                self._has_requests.wait()
            request = None if self._is_closed else self._requests.popleft()
            self._has_room.notify()
        waiting.end()
        return request

    def close(self) -> None:
        """Let all threads go that wait here. What is still in the queue is not handled."""
        with self._has_room:
            self._is_closed = True
            self._has_room.notify_all()
            self._has_requests.notify_all()


class ProcessorChannel(RequestChannel):
    """What the connections of one network thread share. `put` and what follows from `feed` run on that thread; what the
    node's side of a connection calls runs on the thread that owns the node."""

    def __init__(
        self,
        queue: RequestQueue,
        pace: Pace,
        metrics: RequestMetrics,
        wakeup: Callable[[], None],
        to_the_node: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(1, pace, metrics)  # room is always there: `put` waits for it
        self._requests = queue
        self._wakeup = wakeup
        self._to_the_node = to_the_node
        self.responses: deque[QueuedRequest] = deque()
        self._notes: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, request: QueuedRequest) -> None:
        self._requests.put(request)

    def deliver(self, request: QueuedRequest) -> None:
        """Without bursts: the network thread takes the next request when it has sent this answer."""
        self.metrics.prepare(request.inbound)
        self.responses.append(request)
        self._wakeup()

    def hang_up(self, connection: ServerConnection) -> None:
        self._note(connection.close)

    def look_again(self, connection: ServerConnection) -> None:
        self._note(connection.go_on)

    def _note(self, call: Callable[[], None]) -> None:
        self._notes.append(call)
        self._wakeup()

    def abandon(self, connection: ServerConnection) -> None:
        self._to_the_node(connection.abandon)

    @property
    def has_news(self) -> bool:
        """The node's side has left something for `send_responses`."""
        return bool(self.responses or self._notes)

    def send_responses(self) -> None:
        """On the network thread: send what the handlers have answered."""
        while self.responses:
            response = self.responses.popleft()
            if isinstance(self.metrics, SharedRequestMetrics):
                self.metrics.taken()
            self._do(partial(response.connection.send_response, response))
        while self._notes:
            self._do(self._notes.popleft())

    def _do(self, call: Callable[[], object]) -> None:
        """What one connection raises must not keep the others from their answers."""
        try:
            call()
        except Exception as error:
            self.note_error(error)


class SharedRequestMetrics(RequestMetrics):
    """Request metrics that several network threads write. They also have ResponseQueueTimeMs: how long a response
    waited until its network thread took it."""

    def __init__(self, shared: RequestMetrics, lock: threading.Lock) -> None:
        self.stopwatch = shared.stopwatch
        self._shared = shared
        self._lock = lock
        self._taken_at = 0

    def taken(self) -> None:
        """The thread has taken a response out of its queue."""
        self._taken_at = self.stopwatch()

    def prepare(self, inbound: InboundRequest) -> None:
        self._shared.prepare(inbound)

    def count_errors(
        self, inbound: InboundRequest, response: Response, counted: Mapping[int, int] | None = None
    ) -> None:
        self._shared.count_errors(inbound, response, counted)

    def record(self, request: AnsweredRequest, is_last: bool = True, taken_at: int | None = None) -> None:
        with self._lock:
            self._shared.record(request, is_last, self._taken_at if taken_at is None else taken_at)


class SharedRecorder(FrameRecorder):
    """A recorder that several network threads write."""

    def __init__(self, shared: FrameRecorder, lock: threading.Lock) -> None:
        self._shared = shared
        self._lock = lock

    def took(self, connection_id: str, listener: str, frame: memoryview) -> None:
        with self._lock:
            self._shared.took(connection_id, listener, frame)

    def sent(self, connection_id: str, parts: Sequence[Any]) -> None:
        with self._lock:
            self._shared.sent(connection_id, parts)

    def closed(self, connection_id: str) -> None:
        with self._lock:
            self._shared.closed(connection_id)
