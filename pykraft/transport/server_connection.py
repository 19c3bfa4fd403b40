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

A connection takes its next request after the one before is answered, and only if the queue has room. What cannot be
taken yet stays in the stream, and backs up into the client.

Bursts
------
Each send of an answer is a system call, a sixth of a small request's time. A client that pipelines has its next request
in the buffer already. So a connection handles such requests in a *burst*, one after the other. It holds their answers,
and sends them together. A burst has at most `MAX_BURST_REQUESTS`. The next request then goes to the end of the queue,
so that other connections have their turn. Each of these sends the answers that are held, and ends the burst:

=================================================  =================================================================
no whole request is in the buffer                  a client that sends one at a time has bursts of one
the answers have `MAX_HELD_BYTES`                  a burst adds no more than this to the memory of a connection
the first has been held for `MAX_BURST_MS`         its client waits for it
the next answer is a promise                       an answer that is ready never waits for one that is not
the next answer carries records                    it may hold a region of a file, which the kernel sends
the client is throttled                            the answer that tells it leaves at once
the connection closes                              a request that cannot be read takes no answer along
=================================================  =================================================================

Kafka mutes a connection until the response has left (`KafkaChannel.mute`), so it sends each response by itself. The
order of the answers is the same here, and so is this: one request of a connection is handled at a time. On Kafka's
threads (`network.stages`) there are no bursts. In the simulator no time passes within a step, so the seed says how many
requests a burst has.

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

Kafka has only the second rule: its selector does not look at a muted connection, and finds the FIN after the answer.

A request for which there is not enough memory
-----------------------------------------------
A request that cannot be read, handled or answered for want of memory ends its connection, and nothing else.

An error that nothing expected
------------------------------
The same holds for any other exception between the bytes and the node: it ends the connection that it came upon. The
owner of the `RequestChannel` hears of it (`on_error`); in a simulation, which has no such owner, it is raised.

Follows org.apache.kafka.common.network.Selector and kafka.network.{Processor,RequestChannel}.
"""

import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from pykraft.common.core import Promise, Steps, finish
from pykraft.common.errors import ProtocolError
from pykraft.common.time_slice import TimeSlice, take_steps
from pykraft.common.timer import TimerTask
from pykraft.protocol.header import SIZE, response_frame
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.protocol.messages.quorum import FetchSnapshotResponse
from pykraft.protocol.schema import Response
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.transport.authentication import Authentication, AuthenticationFailed, channel_with
from pykraft.transport.byte_stream import ByteStream
from pykraft.transport.frame_recorder import FrameRecorder
from pykraft.transport.login_metrics import LoginMetrics
from pykraft.transport.pace import Pace
from pykraft.transport.request_metrics import RequestMetrics
from pykraft.transport.server_channel import ChannelState, InboundRequest, RequestContext, ServerChannel

MAX_BURST_MS = 2
"""After this time no further request joins a burst."""
MAX_HELD_BYTES = 64 * 1024
"""Answers of this many bytes, together, are sent before the burst is over."""
WITH_RECORDS = {FetchResponse, FetchSnapshotResponse}
"""What carries records, and so may hold regions of files."""


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


class RequestHandler(Protocol):
    """What answers the requests: the node."""

    def handle(self, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        """Answer a request, now or later."""
        ...


@dataclass(slots=True)
class QueuedRequest:
    """A request on its way, until its answer is with the socket. Times are nanoseconds on the stopwatch of the
    metrics."""

    connection: "ServerConnection"
    inbound: InboundRequest
    queued_at: int = 0
    begun_at: int = 0
    """When the handler was called."""
    handled_at: int = 0
    """When the handler has returned."""
    ready_at: int = 0
    """When the answer was there."""
    is_at_once: bool = False
    """The handler has answered it at once, so that the next one may follow in the same burst."""
    parts: Sequence[Any] = ()
    """The answer as bytes."""
    throttle_ms: int = 0
    carries_records: bool = False
    """The answer does, and may hold regions of files."""


class RequestChannel:
    """The bounded queue between the connections and the node."""

    def __init__(self, capacity: int, pace: Pace, metrics: RequestMetrics) -> None:
        self.pace = pace
        self.metrics = metrics
        self.logins = LoginMetrics(pace.clock)
        self.recorder: FrameRecorder | None = None
        """None: no frame is kept."""
        self.authentications: Mapping[str, Authentication] = {}
        """How clients prove who they are, by the names of the listeners on which they must."""
        self.on_error: Callable[[Exception], None] | None = None
        """Hears of an error that nothing expected, and that ends a connection; None: it is raised."""
        self.large: dict[ServerConnection, None] = {}
        """Connections that bring a large request, in the order in which they are read."""
        self.room = capacity
        """This many requests more may be put into the queue."""
        self.queue: deque[QueuedRequest] = deque()
        """The requests, the one that has waited longest first."""
        self.starved: dict[ServerConnection, None] = {}
        """Connections that found no room, in the order in which they did."""

    def channel(
        self, connection_id: str, listener: str, kind: ListenerKind, address: str, most_bytes: int, by: SecurityProtocol
    ) -> ServerChannel:
        """The channel of a connection that was accepted on this listener."""
        how = self.authentications[listener] if by.has_sasl else None
        channel = channel_with(how, connection_id, listener, kind, address, most_bytes, by)
        channel.count_login = partial(self.logins.count, listener)
        return channel

    def __len__(self) -> int:
        return len(self.queue)

    def put(self, request: QueuedRequest) -> None:
        self.room -= 1
        self.queue.append(request)

    def receive(self) -> QueuedRequest | None:
        """The request that has waited longest."""
        if not self.queue:
            return None
        self.room += 1
        return self.queue.popleft()

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
        time_slice = self.pace.time_slice
        if self.large and time_slice is not None:
            time_slice.begin()
            while self.large and next(iter(self.large)).read_on(time_slice):
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

    def deliver(self, request: QueuedRequest) -> QueuedRequest | None:
        """The node has an answer: send it. Returns the next request if it belongs to the same burst."""
        return request.connection.send_response(request, request.is_at_once)

    def hang_up(self, connection: "ServerConnection") -> None:
        """The node wants the connection closed."""
        connection.end()

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
        self._held: list[Any] = []
        """The answers of a burst that were not sent yet, as parts."""
        self._held_bytes = 0
        """Of the answers before the last one."""
        self._unrecorded: list[QueuedRequest] = []
        """The requests that they answer."""
        self._burst_left = self._burst_ends = 0
        """How many requests the burst may have from here on, and until when; 0 before its second request."""
        self._unmuting: TimerTask | None = None
        """Ends the time for which the client is throttled."""
        self._is_ending = False
        """It closes when its output has left."""
        limit_ms = channel.authentication_ms
        self._proof_is_due = requests.pace.pause(limit_ms, self._check_proof) if limit_ms else None
        """When the client must have proved who it is, if it must."""

    @property
    def is_busy(self) -> bool:
        """A request is in hand, the client is throttled, or an answer has not left yet: nothing is read meanwhile."""
        return self.channel.state is not ChannelState.NOT_MUTED or bool(self.stream.output)

    def go_on(self) -> None:
        """Take the next request, if one is there and may be taken; then wait for what the stream does next."""
        channel, stream, requests = self.channel, self.stream, self._requests
        if not self.is_open:
            return
        try:
            if stream.output:
                pass  # its client does not read: nothing is taken from it
            elif self._is_ending:
                self.close()
                return
            elif requests.room <= 0:
                requests.starved[self] = None
            elif stream.is_readable or not channel.wants_bytes:
                taken = self._take()
                if taken is not None:
                    requests.put(taken)
                if self._held:
                    self._send_held()
            if (stream.has_hung_up or stream.has_ended) and self._is_over:
                self.close()
            else:
                stream.watch()
        except (OSError, EOFError):
            self.close()
        except (ProtocolError, MemoryError) as error:
            self._end_after(error)
        except Exception as error:
            requests.note_error(error)
            self.end()

    def _take(self) -> QueuedRequest | None:
        """The next request, if one is there and may be taken. What the channel itself refuses is answered here, and a
        large request is read in steps. OSError, ProtocolError, MemoryError: close the connection."""
        channel, stream, requests = self.channel, self.stream, self._requests
        while not stream.output:
            if channel.wants_bytes:
                if not stream.is_readable:
                    break
                stream.receive()
            taken = channel.next_request(requests.recorder)
            if isinstance(taken, InboundRequest):
                return QueuedRequest(self, taken, requests.metrics.stopwatch())
            if taken is not None:
                self._add_refusal(channel.refuse(taken))
            elif channel.reading is not None:
                self._read_large(channel.reading)
                break
            elif not channel.wants_bytes:
                break
        return None

    def _add_refusal(self, parts: list[Any]) -> None:
        """The channel itself has answered a request."""
        if self._requests.recorder is not None:
            self._requests.recorder.sent(self.channel.connection_id, parts)
        self._held += parts
        self._held_bytes += sum(map(len, parts))
        if self._held_bytes >= MAX_HELD_BYTES:
            self._send_held()

    def _read_large(self, reading: Steps[InboundRequest]) -> None:
        """The request in hand is a large one: read it at once, or in slices."""
        if self._requests.pace.time_slice is None:
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
        requests.put(QueuedRequest(self, inbound, requests.metrics.stopwatch()))

    @property
    def _is_over(self) -> bool:
        """Whether there is nothing to wait for on a connection whose client has hung up."""
        waiting = self._waiting
        if waiting is not None and waiting[0].context.api_key == FetchRequest.api:
            return True
        return self.stream.has_ended and not self.is_busy

    def serve(self, request: QueuedRequest, handler: RequestHandler, now: int) -> None:
        """Let the handler answer a request that was taken, and those of its burst. Send each answer when it comes."""
        metrics = self._requests.metrics
        self._burst_ends = 0
        following: QueuedRequest | None = request
        while following is not None and self.is_open:
            request = following
            request.begun_at = metrics.stopwatch()
            try:
                answered = handler.handle(request.inbound, now)
            except OSError:  # a disk has failed: that is the node's affair
                raise
            except Exception as error:
                self._give_up(error)
                return
            request.handled_at = request.ready_at = metrics.stopwatch()
            if isinstance(answered, Promise):
                if not answered.kept:
                    self._wait_for(answered, request)
                    return
                answered = answered.value
            request.is_at_once = True
            following = self.respond(request, answered)

    def _wait_for(self, answered: Promise[Answer], request: QueuedRequest) -> None:
        """The answer comes later. What is ready does not wait for it."""
        if self._held:
            self._flush()
        self._waiting = request.inbound, answered
        answered.then(partial(self._respond_late, request), self._give_up)
        if not self.is_open:
            self.abandon()
        elif self.stream.has_hung_up:
            self._requests.look_again(self)

    def _flush(self) -> None:
        """Send the answers that are held, before something else happens to the connection."""
        try:
            self._send_held()
            if self.stream.output:
                self.stream.watch()
        except (OSError, EOFError, MemoryError):
            self.close()
        except Exception as error:
            self._requests.note_error(error)
            self.close()

    def _give_up(self, error: Exception) -> None:
        """There will be no answer."""
        self._waiting = None
        self._requests.note_error(error)
        self._requests.hang_up(self)

    def _respond_late(self, request: QueuedRequest, answer: Answer) -> None:
        """The node has kept its promise."""
        self._waiting = None
        request.ready_at = self._requests.metrics.stopwatch()
        self.respond(request, answer)

    def respond(self, request: QueuedRequest, answer: Answer) -> QueuedRequest | None:
        """The node's answer, which is encoded and handed to the network. Returns the next request of the burst."""
        if not self.is_open:
            return None
        requests, response = self._requests, answer.response
        if answer.hang_up:
            requests.hang_up(self)
            return None
        try:
            request.parts, request.throttle_ms = answer.encode(request.inbound.context)
            if response is not None:
                request.carries_records = type(response) in WITH_RECORDS
                requests.metrics.count_errors(request.inbound, response, answer.errors)
        except (struct.error, MemoryError):
            requests.hang_up(self)
            return None
        except Exception as error:
            self._give_up(error)
            return None
        return requests.deliver(request)

    def send_response(self, request: QueuedRequest, in_burst: bool = False) -> QueuedRequest | None:
        """Send what the node has answered, and take the next request; after the time for which the client is
        throttled. In a burst the answer may be held, and the next request is returned."""
        if not self.is_open:
            return None
        channel, requests, throttle_ms = self.channel, self._requests, request.throttle_ms
        try:
            channel.done(request.inbound.context, throttle_ms > 0)
            if requests.recorder is not None:
                requests.recorder.sent(channel.connection_id, request.parts)
            if request.carries_records and self._held:
                self._send_held()
            self._unrecorded.append(request)
            if throttle_ms == 0:
                channel.wants_bytes = channel.frames.start == channel.frames.end
            if in_burst and (self.stream.is_readable or not channel.wants_bytes) and self._may_hold(request):
                following = self._take()
                if following is not None:
                    return following
            else:
                self._held += request.parts
            self._send_held()
        except (OSError, EOFError):
            self.close()
            return None
        except (ProtocolError, MemoryError) as error:
            self._end_after(error)
            return None
        except Exception as error:
            requests.note_error(error)
            self.end()
            return None
        if throttle_ms > 0:
            self._unmuting = requests.pace.pause(throttle_ms, self._unthrottle)
        self.go_on()
        return None

    def _may_hold(self, request: QueuedRequest) -> bool:
        """Hold this answer, if the burst goes on after it."""
        pace = self._requests.pace
        if request.carries_records:
            return False
        if not self._burst_ends:
            self._burst_left, self._burst_ends = pace.burst_requests(), pace.clock() + MAX_BURST_MS
        elif pace.clock() >= self._burst_ends:
            return False
        self._burst_left -= 1
        size_bytes = self._held_bytes + sum(map(len, request.parts))
        if self._burst_left <= 0 or size_bytes >= MAX_HELD_BYTES:
            return False
        self._held.append(b"".join(request.parts))  # a copy: it may outlive the buffer that a part is a view of
        self._held_bytes = size_bytes
        return True

    def _send_held(self) -> None:
        """Send the answers that are held. OSError, EOFError, MemoryError: close the connection."""
        parts, answered, metrics = self._held, self._unrecorded, self._requests.metrics
        self._held, self._unrecorded, self._held_bytes = [], [], 0
        self.stream.send(parts)
        for request in answered:
            metrics.record(request, request is answered[-1])

    def _unthrottle(self, now: int) -> None:
        """The time for which the client was throttled is over."""
        self.channel.unthrottle()
        self.go_on()

    def _end_after(self, error: Exception) -> None:
        """End it for what the client has sent. A failed authentication is answered, and ends it, after a while."""
        if not isinstance(error, AuthenticationFailed):
            self.end()
            return
        if self._held:
            self._flush()

        def end(now: int) -> None:
            self._held += error.parts
            self.end()

        self._requests.pace.pause(error.delay_ms, end)

    def _check_proof(self, now: int) -> None:
        """The time in which the client must prove who it is, is over."""
        if not self.channel.is_authenticated:
            self.close()

    def end(self) -> None:
        """Close it after the answers that are held, if there are any."""
        if self._held and self.is_open:
            self._flush()
            self._is_ending = bool(self.stream.output)
        if not self._is_ending:
            self.close()

    def close(self, reset: bool = False) -> None:
        """Close the stream, and abandon what the client will not read any more."""
        if self.is_open:
            self.is_open = False
            for task in (self._proof_is_due, self._unmuting):
                if task is not None:
                    task.cancel()
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
