"""How long requests take, and where the time goes: Kafka's RequestMetrics.

::

    taken from      handled          the handler        the answer        handed to
    the socket      from here        has returned       is there          the socket
        |  queue        |    local        |    remote        |   response      |
        +---------------+-----------------+------------------+-----------------+
        |                             total                                    |

*Remote* is what a request waits for after its handler: followers, new records, another coordinator. The *throttle* time
is what a quota makes the client wait after the answer, so it is not part of the total. What the client's socket does
not take at once leaves later, and is not in the response time. The time for which a burst holds an answer is in it
(`transport.server_connection`). On one thread there is no ResponseQueueTimeMs, as an answer waits in no queue there. On
Kafka's threads (`network.stages`) it comes between remote and response.

ErrorsPerSec counts every error code of each response, no error included. A response with three partitions counts three
times (`protocol.error_counts`).

A fetch counts as FetchConsumer or FetchFollower, its errors as Fetch. Kafka counts it as Fetch, too. A request that a
broker forwards counts as Envelope on the controller.

Idle percentages on one thread
------------------------------
In Kafka network threads and request handlers each say what share of their time they wait for work; near 0 the stage is
the bottleneck. On Kafka's threads it is so here, too (`runtime.staged`). Otherwise one thread does the work of both, so
the time divides in three: *waiting* in the selector, *network* (read and write sockets, parse requests), and *handling*
(requests, and whatever the node does by itself).

    NetworkProcessorAvgIdlePercent    waiting / (waiting + network)
    RequestHandlerAvgIdlePercent      waiting / (waiting + handling)

If the thread never waits, both are 0, as Kafka's alarms expect. If one is lower than the other, its stage takes more of
the thread. Both are of the last minute. Time in which the thread waits for the interpreter's lock counts for the stage
that it was in.

Follows org.apache.kafka.network.metrics.RequestMetrics and kafka.network.RequestChannel.Request#updateRequestMetrics.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from pykraft.common.errors import ErrorCode
from pykraft.common.metrics import NETWORK, SERVER, Histogram, Meter, Metrics
from pykraft.protocol.error_counts import CountErrors, error_counter
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.schema import Request, Response
from pykraft.transport.server_channel import InboundRequest

_NS_PER_MS = 1_000_000
_SNAPSHOT_NS = 5_000_000_000
_SNAPSHOTS = 13
"""The oldest is a minute old."""


class AnsweredRequest(Protocol):
    """A request, and when things happened to it, in nanoseconds on the stopwatch."""

    inbound: InboundRequest
    queued_at: int
    begun_at: int
    handled_at: int
    ready_at: int
    throttle_ms: int


class _Api:
    """The metrics of one kind of request."""

    __slots__ = ("name", "remote", "response_queue", "throttle", "times")

    def __init__(self, metrics: Metrics, name: str) -> None:
        self.name = name
        self.response_queue: Histogram | None = None

        def times(part: str) -> Histogram:
            return metrics.histogram("RequestMetrics", part, NETWORK, _NS_PER_MS, request=name)

        self.remote, self.throttle = times("RemoteTimeMs"), times("ThrottleTimeMs")
        names = "RequestQueueTimeMs", "LocalTimeMs", "ResponseSendTimeMs", "TotalTimeMs"
        self.times = tuple(times(part) for part in names)


class _Errors(dict[int, Meter]):
    """The meters of one API by error code, each made when its error comes for the first time."""

    def __init__(self, metrics: Metrics, request: str) -> None:
        super().__init__()
        self._metrics = metrics
        self._request = request

    def __missing__(self, code: int) -> Meter:
        tags = {"request": self._request, "error": ErrorCode.of(code).name}
        found = self[code] = self._metrics.meter("RequestMetrics", "ErrorsPerSec", NETWORK, **tags)
        return found


class RequestMetrics:
    """Measures the requests of one node. One thread at a time may call it."""

    def __init__(self, metrics: Metrics, stopwatch: Callable[[], int]) -> None:
        """`stopwatch` gives nanoseconds."""
        self.stopwatch = stopwatch
        self.sending_ns = 0
        """All response times together; of a burst, that of the last response."""
        self._metrics = metrics
        self._apis: dict[str, _Api] = {}
        self._found: dict[tuple[int, int, bool], tuple[_Api, Meter]] = {}
        """By API, version, and whether it is a follower's fetch."""
        self._errors: dict[int, tuple[CountErrors, _Errors]] = {}
        """By API."""

    def prepare(self, inbound: InboundRequest) -> None:
        """Make the metrics of this kind of request, if it is the first. (Metrics are made on the node's side of a
        connection only: that is where they are read.)"""
        context, message = inbound
        is_follower = type(message) is FetchRequest and _is_of_follower(message)
        key = context.api_key, context.api_version, is_follower
        api, _ = self._found.get(key) or self._find(key, message)
        if api.response_queue is None:
            api.response_queue = self._metrics.histogram(
                "RequestMetrics", "ResponseQueueTimeMs", NETWORK, _NS_PER_MS, request=api.name
            )

    def count_errors(
        self, inbound: InboundRequest, response: Response, counted: Mapping[int, int] | None = None
    ) -> None:
        """A request is answered with this. The node's side of a connection counts it, if it was not counted before."""
        api_key = inbound.context.api_key
        count, meters = self._errors.get(api_key) or self._find_errors(api_key, response)
        if counted is None:
            count(response, meters)
            return
        for code, times in counted.items():
            meters[code].count += times

    def _find_errors(self, api_key: int, response: Response) -> tuple[CountErrors, "_Errors"]:
        """What counts the errors of an API that is asked for the first time."""
        name = type(response).__name__.removesuffix("Response")
        found = self._errors[api_key] = error_counter(type(response)), _Errors(self._metrics, name)
        return found

    def record(self, request: AnsweredRequest, is_last: bool = True, taken_at: int | None = None) -> None:
        """The answer to a request is with the socket now; it left a queue at `taken_at` if there is one. Of a burst
        only the last answer has kept the thread busy since it was ready. This runs for each request. So it does what
        `Histogram.record` does without calling it, and passes over what is 0."""
        sent = self.stopwatch()
        context, message = request.inbound
        is_follower = type(message) is FetchRequest and _is_of_follower(message)
        key = context.api_key, context.api_version, is_follower
        api, requests = self._found.get(key) or self._find(key, message)
        requests.count += 1
        queued, begun, handled, ready = request.queued_at, request.begun_at, request.handled_at, request.ready_at
        if taken_at is None:
            taken_at = ready
        elif api.response_queue is not None:
            api.response_queue.record(taken_at - ready)
        sending = sent - taken_at
        if is_last:
            self.sending_ns += sending
        for times, value in zip(api.times, (begun - queued, handled - begun, sending, sent - queued), strict=True):
            if not value:
                times.buckets[0] += 1
                continue
            times.total += value
            length = value.bit_length()
            times.buckets[length << 2 | (value >> (length - 3 if length > 3 else 0) & 3)] += 1
        if ready == handled:
            api.remote.buckets[0] += 1
        else:
            api.remote.record(ready - handled)
        if request.throttle_ms:
            api.throttle.record(request.throttle_ms * _NS_PER_MS)
        else:
            api.throttle.buckets[0] += 1

    def _find(self, key: tuple[int, int, bool], message: Request) -> tuple[_Api, Meter]:
        """The metrics of a request that is the first of its version."""
        _, version, is_follower = key
        name = type(message).__name__.removesuffix("Request")
        if type(message) is FetchRequest:
            name = "FetchFollower" if is_follower else "FetchConsumer"
        api = self._apis[name] = self._apis.get(name) or _Api(self._metrics, name)
        tags = {"request": name, "version": str(version)}
        found = self._found[key] = api, self._metrics.meter("RequestMetrics", "RequestsPerSec", NETWORK, **tags)
        return found


class ThreadTimes:
    """What the thread of a node does with its time, in nanoseconds."""

    def __init__(self, metrics: Metrics, requests: RequestMetrics) -> None:
        self._requests = requests
        self._waiting = self._reading = self._others = 0
        self._snapshots = deque([(0, 0, 0)], _SNAPSHOTS)
        self._snapshot_at = 0
        metrics.gauge("SocketServer", "NetworkProcessorAvgIdlePercent", lambda: self._idle(1), NETWORK)
        metrics.gauge("KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", lambda: self._idle(2), SERVER)

    def add(self, began: int, ready: int, read: int, ended: int) -> None:
        """A turn of the loop is over. It waited until `ready`, read sockets until `read`, and did the rest until
        `ended`; writing the responses was part of that."""
        self._waiting += ready - began
        self._reading += read - ready
        self._others += ended - read
        if ended >= self._snapshot_at:
            self._snapshot_at = ended + _SNAPSHOT_NS
            self._snapshots.append(self._spent())

    def _spent(self) -> tuple[int, int, int]:
        sending = self._requests.sending_ns
        return self._waiting, self._reading + sending, self._others - sending

    def _idle(self, stage: int) -> float:
        """The share of its time that a stage did not need: 1 is the network, 2 the handling."""
        then, now = self._snapshots[0], self._spent()
        waiting, busy = now[0] - then[0], now[stage] - then[stage]
        return waiting / (waiting + busy) if waiting + busy else 1.0


def _is_of_follower(request: FetchRequest) -> bool:
    state = request.replica_state
    return (request.replica_id if state is None else max(request.replica_id, state.replica_id)) >= 0
