"""One accepted connection without its socket: it takes requests, has them handled, and sends the answers.

The socket server and the simulator supply the *byte stream* below a connection. Everything between the bytes and the
node is here, once for both::

    ByteStream        bytes of one connection: a socket, or a piece of the simulated network
    ServerChannel     frames, headers, whether it is muted
    ServerConnection  takes the next request, throttles, hangs up, closes
    RequestChannel    the bounded queue in front of the node
    RequestHandler    the node

A connection has two sides. The *network's* reads and writes the stream and closes it (`go_on`, `send_response`,
`close`); the *node's* has requests handled (`serve`, `respond`). In one thread they call each other; on Kafka's threads
(`network.stages`) what passes between them goes through queues, and the same code runs.

A connection takes its next request after it has sent the answer to the one before, and only if the queue has room. What
cannot be taken yet stays in the stream, and backs up into the client.

A throttled client gets its answer at once, with the time in it. Its connection is not read until that time is over
(KIP-219).

A request of very many elements
-------------------------------
Such a request is read in steps. `RequestChannel.read_large` takes them, a slice of time in each turn of the loop for
all such requests together, so that other clients wait for none of them. A channel without slices, as on a thread of
the network's own, takes all steps at once.

When a client hangs up
----------------------
A connection that closes *abandons* the promise of its unanswered request, so that the operation that would keep it
stops waiting. It closes when the stream breaks or is reset, when the client sends what no client sends, when it is idle
for too long, when the node asks for it, and when the client has closed its half.

The last case needs a rule, because TCP sends the same FIN for "I am gone" and for "I have sent everything":

* While a *fetch* waits for records, a FIN closes the connection at once, whatever else has come. The fetch may wait for
  minutes, no Kafka client closes only one half, and every parked fetch costs each append on its partitions.
* Any other request is carried out and answered as usual: a client that closes its half after a Produce still gets the
  acknowledgement. Those requests end by themselves: when the write is committed, or at their timeout.

Kafka has only the second rule. Its selector does not look at a muted connection at all, so it finds the FIN when the
fetch has been answered (`max.wait.ms`, or data), or closes the connection as idle.

A request for which there is not enough memory
-----------------------------------------------
A request that cannot be read, handled or answered for want of memory ends its connection, and nothing else: the node
goes on with what it has.

An error that nothing expected
------------------------------
The same holds for any other exception between the bytes and the node: it ends the connection that it came upon. The
owner of the `RequestChannel` hears of it (`on_error`); in a simulation, which has no such owner, it is raised.

Follows org.apache.kafka.common.network.Selector and kafka.network.{Processor,RequestChannel}.
"""

import struct
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from pykraft.common.core import Promise, Steps, finish
from pykraft.common.errors import ProtocolError
from pykraft.common.time_slice import TimeSlice, take_steps
from pykraft.common.timer import Timer
from pykraft.protocol.header import SIZE, response_frame
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.schema import Response
from pykraft.transport.frame_recorder import FrameRecorder
from pykraft.transport.request_metrics import Marks, RequestMetrics
from pykraft.transport.server_channel import ChannelState, InboundRequest, RequestContext, ServerChannel


class Answer(NamedTuple):
    """What goes back: the response, or None if the client wants none."""

    response: Response | None
    charge: Callable[[int], int] | None = None
    """On a node with quotas: counts the bytes of the response, and returns for how many milliseconds the client is
    throttled."""
    hang_up: bool = False
    """There is no way to tell this client what went wrong but to close its connection."""
    body: list[Any] | None = None
    """The bytes of the response, if it was encoded before, in steps."""
    errors: Mapping[int, int] | None = None
    """How often each error is in it, if they were counted before."""

    def encode(self, context: RequestContext) -> tuple[list[Any], int]:
        """The frame of the response as parts, and for how many milliseconds the client is throttled. The response tells
        this time if it has a field for it. Only then is it encoded again: the quotas need its size first."""
        response, version = self.response, context.api_version
        if response is None:
            return [], 0 if self.charge is None else self.charge(0)
        body, throttle_ms = response.encode(version) if self.body is None else self.body, 0
        if self.charge is not None:
            throttle_ms = self.charge(SIZE.size + sum(map(len, body)))
            if type(response).tells_throttling:
                throttled: Any = response
                if throttle_ms > throttled.throttle_time_ms:
                    throttled.throttle_time_ms = throttle_ms
                    body = response.encode(version)
                # What the controller has throttled, the broker that forwarded it throttles for as long at least.
                throttle_ms = throttled.throttle_time_ms
        return response_frame(type(response), version, context.correlation_id, body), throttle_ms


class ByteStream(Protocol):
    """The bytes of one connection, in both directions."""

    @property
    def output(self) -> Collection[Any]:
        """What was sent, and has not left yet."""
        ...

    is_readable: bool
    """`receive` may find something: bytes, the end, or an error."""
    has_hung_up: bool
    """The client has closed its half, or all of it. Bytes that it sent before may still be there. A stream that cannot
    know this without reading leaves it False."""
    has_ended: bool
    """`receive` has come to the end."""

    def receive(self) -> bool:
        """Move bytes that have come into the channel's frame reader; False at the end. OSError, ProtocolError: close
        it."""
        ...

    def send(self, parts: Sequence[Any]) -> None:
        """Send these parts, in order, sooner or later. OSError, EOFError: close it."""
        ...

    def watch(self) -> None:
        """Call the connection's `go_on` when the stream is readable, has room for its output, or breaks."""
        ...

    def close(self, reset: bool) -> None:
        """Close it; with `reset` the client sees an error instead of an end, as when a process dies."""
        ...


class RequestHandler(Protocol):
    """What answers the requests: the node."""

    def handle(self, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        """Answer a request, now or later."""
        ...


class QueuedRequest(NamedTuple):
    """A request that waits to be handled, and where its answer goes."""

    connection: "ServerConnection"
    inbound: InboundRequest
    queued_at: int = 0
    """When that was, on the stopwatch of the metrics."""


class ReadyResponse(NamedTuple):
    """A response as bytes, on its way to the socket."""

    connection: "ServerConnection"
    inbound: InboundRequest
    parts: list[Any]
    throttle_ms: int
    marks: Marks | None
    ready_at: int
    """When the answer was there, on the stopwatch of the metrics."""


class RequestChannel:
    """The bounded queue between the connections and the node, and what the connections share: clock, timer, metrics."""

    def __init__(self, capacity: int, timer: Timer, clock: Callable[[], int]) -> None:
        self.timer = timer
        self.clock = clock
        self.metrics: RequestMetrics | None = None
        """None: nothing is measured."""
        self.recorder: FrameRecorder | None = None
        """None: no frame is kept."""
        self.on_error: Callable[[Exception], None] | None = None
        """Hears of an error that nothing expected, and that ends a connection; None: it is raised."""
        self.time_slice: TimeSlice | None = None
        """For how long large requests are read in a turn; None: until they are read."""
        self.large: dict[ServerConnection, None] = {}
        """Connections that bring a large request, in the order in which they are read."""
        self.room = capacity
        """This many requests more may be put into the queue."""
        self._queue: deque[QueuedRequest] = deque()
        self.starved: dict[ServerConnection, None] = {}
        """Connections that found no room, in the order in which they did."""

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, request: QueuedRequest) -> None:
        self.room -= 1
        self._queue.append(request)

    def receive(self) -> QueuedRequest | None:
        """The request that has waited longest."""
        if not self._queue:
            return None
        self.room += 1
        return self._queue.popleft()

    def add_large(self, connection: "ServerConnection") -> None:
        """Read the request of this connection in steps; its place in the queue is kept."""
        if connection not in self.large:
            self.room -= 1
            self.large[connection] = None

    def drop_large(self, connection: "ServerConnection") -> None:
        """It is read, or nothing wants it any more."""
        if connection in self.large:
            self.room += 1
            del self.large[connection]

    def read_large(self) -> None:
        """Go on with large requests, for a slice."""
        if self.large and self.time_slice is not None:
            self.time_slice.begin()
            while self.large and next(iter(self.large)).read_on(self.time_slice):
                continue

    def feed(self) -> None:
        """The queue has room again: let the connections that found none go on."""
        if self.starved:
            starved, self.starved = self.starved, {}
            for connection in starved:
                connection.go_on()

    def note_error(self, error: Exception) -> None:
        """Give an error that nothing expected to the owner, or raise it."""
        if self.on_error is None:
            raise error
        self.on_error(error)

    # What passes from the node's side of a connection to the network's, and back. Here both are the same thread.

    def deliver(self, response: "ReadyResponse") -> None:
        """The node has an answer: send it."""
        response.connection.send_response(response)

    def hang_up(self, connection: "ServerConnection") -> None:
        """The node wants the connection closed."""
        connection.close()

    def look_again(self, connection: "ServerConnection") -> None:
        """A request waits in the node, and its client has hung up: is it over?"""
        connection.go_on()

    def abandon(self, connection: "ServerConnection") -> None:
        """The connection is closed: its answer is not awaited any more."""
        connection.abandon()


class ServerConnection:
    """One accepted connection."""

    def __init__(self, channel: ServerChannel, stream: ByteStream, requests: RequestChannel) -> None:
        self.channel = channel
        self.stream = stream
        self.is_open = True
        self._requests = requests
        self._waiting: tuple[InboundRequest, Promise[Answer]] | None = None
        """The request that was handled, and whose answer comes later."""

    @property
    def is_busy(self) -> bool:
        """A request is in hand, the client is throttled, or an answer has not left yet: nothing is read meanwhile."""
        return self.channel.state is not ChannelState.NOT_MUTED or bool(self.stream.output)

    def go_on(self) -> None:
        """Take the next request, if one is there and may be taken; then wait for what the stream does next."""
        channel, stream, requests = self.channel, self.stream, self._requests
        try:
            while self.is_open and not stream.output:
                if not requests.room:
                    requests.starved[self] = None
                    break
                if channel.wants_bytes:
                    if not stream.is_readable:
                        break
                    stream.receive()
                taken = channel.next_request(requests.recorder)
                if isinstance(taken, InboundRequest):
                    queued_at = 0 if requests.metrics is None else requests.metrics.stopwatch()
                    requests.put(QueuedRequest(self, taken, queued_at))
                    break
                if taken is not None:
                    self._send(channel.refuse(taken))
                elif channel.reading is not None:
                    self._read_large(channel.reading)
                    break
                elif not channel.wants_bytes:
                    break
            if (stream.has_hung_up or stream.has_ended) and self._is_over:
                self.close()
            elif self.is_open:
                stream.watch()
        except (OSError, EOFError, ProtocolError, MemoryError):
            self.close()
        except Exception as error:
            self._requests.note_error(error)
            self.close()

    def _read_large(self, reading: Steps[InboundRequest]) -> None:
        """The request in hand is a large one: read it at once, or in slices."""
        if self._requests.time_slice is None:
            self._has_read(finish(reading))
        else:
            self._requests.add_large(self)

    def read_on(self, time_slice: TimeSlice) -> bool:
        """Go on with reading a large request until the slice is over; whether it is read, or given up."""
        reading = self.channel.reading
        assert reading is not None
        try:
            is_read, found = take_steps(reading, None, time_slice, 0)
        except (ProtocolError, MemoryError):
            self.close()
            return True
        except Exception as error:
            self._requests.note_error(error)
            self.close()
            return True
        if is_read:
            self._requests.drop_large(self)
            self._has_read(found)
        return is_read

    def _has_read(self, inbound: InboundRequest) -> None:
        """A large request is read: let it be handled."""
        requests = self._requests
        self.channel.has_read()
        requests.put(QueuedRequest(self, inbound, 0 if requests.metrics is None else requests.metrics.stopwatch()))

    @property
    def _is_over(self) -> bool:
        """Whether there is nothing to wait for on a connection whose client has hung up."""
        waiting = self._waiting
        if waiting is not None and waiting[0].context.api_key == FetchRequest.api:
            return True
        return self.stream.has_ended and not self.is_busy

    def serve(self, inbound: InboundRequest, handler: RequestHandler, now: int, queued_at: int = 0) -> None:
        """Let the handler answer a request that was taken, and send the answer when it comes. `queued_at` is when it
        was taken."""
        if not self.is_open:
            return
        metrics = self._requests.metrics
        begun = 0 if metrics is None else metrics.stopwatch()
        try:
            answered = handler.handle(inbound, now)
        except OSError:  # a disk has failed: that is the node's affair
            raise
        except Exception as error:
            self._give_up(error)
            return
        marks = None if metrics is None else Marks(queued_at, begun, metrics.stopwatch())
        if not isinstance(answered, Promise):
            self.respond(inbound, answered, marks)
            return
        if answered.kept:
            self.respond(inbound, answered.value, marks)
            return
        self._waiting = inbound, answered
        answered.then(partial(self.respond, inbound, marks=marks, has_waited=True), self._give_up)
        if not self.is_open:
            self.abandon()
        elif self.stream.has_hung_up:
            self._requests.look_again(self)

    def _give_up(self, error: Exception) -> None:
        """There will be no answer."""
        self._waiting = None
        self._requests.note_error(error)
        self._requests.hang_up(self)

    def respond(
        self, inbound: InboundRequest, answer: Answer, marks: Marks | None = None, has_waited: bool = False
    ) -> None:
        """The node's answer, which is encoded and handed to the network."""
        self._waiting = None
        if not self.is_open:
            return
        requests = self._requests
        ready = 0
        if marks is not None and requests.metrics is not None:
            ready = requests.metrics.stopwatch() if has_waited else marks.handled
        if answer.hang_up:
            requests.hang_up(self)
            return
        try:
            parts, throttle_ms = answer.encode(inbound.context)
            if requests.metrics is not None and answer.response is not None:
                requests.metrics.count_errors(inbound, answer.response, answer.errors)
        except (struct.error, MemoryError):
            requests.hang_up(self)
            return
        except Exception as error:
            self._give_up(error)
            return
        requests.deliver(ReadyResponse(self, inbound, parts, throttle_ms, marks, ready))

    def send_response(self, response: ReadyResponse) -> None:
        """Send what the node has answered, and take the next request; after the time for which the client is
        throttled."""
        if not self.is_open:
            return
        requests, (_, inbound, parts, throttle_ms, marks, ready_at) = self._requests, response
        try:
            self.channel.done(inbound.context, throttle_ms > 0)
            self._send(parts)
            if marks is not None and requests.metrics is not None:
                requests.metrics.record(inbound, marks, ready_at, throttle_ms)
        except (OSError, EOFError, MemoryError):
            self.close()
            return
        except Exception as error:
            requests.note_error(error)
            self.close()
            return
        if throttle_ms > 0:
            requests.timer.at(requests.clock() + throttle_ms, self._unthrottle)
        self.go_on()

    def _send(self, parts: list[Any]) -> None:
        if self._requests.recorder is not None:
            self._requests.recorder.sent(self.channel.connection_id, parts)
        self.stream.send(parts)

    def _unthrottle(self, now: int) -> None:
        """The time for which the client was throttled is over."""
        self.channel.unthrottle()
        self.go_on()

    def close(self, reset: bool = False) -> None:
        """Close the stream, and abandon what the client will not read any more."""
        if self.is_open:
            self.is_open = False
            if self._requests.recorder is not None:  # before the client can know
                self._requests.recorder.closed(self.channel.connection_id)
            self.stream.close(reset)
            self._requests.starved.pop(self, None)
            self._requests.drop_large(self)
            self.channel.has_read()
            if self._waiting is not None:
                self._requests.abandon(self)

    def abandon(self) -> None:
        """Let the node know that its answer is not awaited any more."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        try:
            waiting[1].abandon()
        except Exception as error:
            self._requests.note_error(error)
