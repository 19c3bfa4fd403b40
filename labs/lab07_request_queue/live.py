"""Lab 07 in a live broker: your queue is between its network threads and its handlers, and your channels keep its
connections in order.

A broker with two network threads, two handlers and a queue for four requests starts. Then your code takes over: its
threads wait in your `put` and your `take`. Fourteen clients send a request each while no handler may work: your queue
decides how many are inside. Another client sends a request that waits for 0.2 s, and right after it one that does not:
your channel decides which response comes first. A third client is over its quota, and is throttled for 0.4 s: your
channel decides when its next request is taken. Your idle time says how much the broker's threads have waited, beside
the broker's own count. And at the end your `close` lets them go.

A mistake of yours must not stop the broker: what your code raises is noted, and the broker's own code goes on.
"""

import threading
import time

from pykraft.course.labs.plug import Outcome, at_least, at_most, plugged
from pykraft.course.lessons.one_request.stages import Broker, small_request
from pykraft.course.rigs.by_hand import correlation_id_of, waiting_fetch
from pykraft.network.stages import RequestQueue, WaitingTime
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import Answer
from pykraft.viz import broker_stages

PLACES = 4
FLOOD = 14
"""Seven for each network thread: more than the handlers and the queue take, so that both of them wait in `put`."""
INSIDE = 2 + PLACES + 2
PATIENCE_S = 3
ROUNDING = 0.01
OVER_QUOTA, THROTTLE_MS = 20, 400
"""The correlation id of the request whose client is over its quota, and for how long it is throttled."""
CLOCK_MS = 5
"""The broker's clock counts milliseconds."""
SETTINGS = {"num.network.threads": 2, "num.io.threads": 2, "queued.max.requests": PLACES}
STAGES = "pykraft.network.stages"
CHANNEL = "pykraft.transport.server_channel.ServerChannel"
ANSWER = "pykraft.transport.server_connection.Answer.encode"
FAILED = object()
"""What a call of your code gives that has raised."""


def run(work):
    """Start a broker and let it run on `work`; it agrees if no response is lost, early or out of order."""
    yours = Yours(work)
    with plugged(yours.places()) as plugs:
        broker = Broker(SETTINGS)
        try:
            yours.activate(broker)
            broker.cluster.create_topic("empty")
            with broker.held():
                callers = broker.call(FLOOD)
                counts = broker.counts()
                idle = yours.idle()
            deadline = time.monotonic() + PATIENCE_S
            answered = sum(receive(caller, deadline) is not None for caller in callers)
            order = answers_in_order(broker)
            throttled = answers_of_throttled(broker)
        finally:
            broker.close()
            yours.let_all_go()
    paused_ms = yours.paused_ms
    compared = {
        "requests inside the broker": (counts.inside, INSIDE),
        "requests in your queue": (counts.queue, PLACES),
        "clients that got their response": (answered, FLOOD),
        "responses in order": (order, [8, 9]),
        "responses of the throttled client": (throttled, [OVER_QUOTA, OVER_QUOTA + 1]),
        "ms until a throttled client was heard again": (
            0 if paused_ms is None else paused_ms,
            at_least(THROTTLE_MS - CLOCK_MS),
        ),
        "share of idle time away from the broker's own count": (round(abs(idle[0] - idle[1]), 2), at_most(ROUNDING)),
        "threads that your close left waiting": (yours.left, 0),
        "errors that your code raised": (len(yours.errors), 0),
    }
    lines = [
        f"{counts.inside} of {FLOOD} requests were inside the broker, {counts.queue} in your queue of {PLACES}.",
        f"{answered} of {FLOOD} clients got their response.",
        f"The response to the waiting request came {'first' if order == [8, 9] else 'late: ' + str(order)}.",
        f"A client was throttled for {THROTTLE_MS} ms; its next request was "
        + ("never taken." if paused_ms is None else f"taken after {paused_ms} ms."),
        f"By your count the threads were idle for {idle[0]:.0%} of their time; the broker's own says {idle[1]:.0%}.",
        *(f"Your code raised {error}; the broker's own went on." for error in dict.fromkeys(yours.errors)),
    ]
    figure = broker_stages(counts, title=f"Your queue let {counts.inside} of {FLOOD} requests in")
    facts = {"inside": counts.inside, "answered": answered, "order": order, "idle": idle, "paused_ms": paused_ms}
    return Outcome(compared, tuple(lines), tuple(plug for plug in plugs.values() if plug.name != ANSWER), figure, facts)


def receive(wire, deadline):
    """The next response of a connection; None if there is none in time."""
    wire._socket.settimeout(max(0.05, deadline - time.monotonic()))
    try:
        return wire.receive() or None
    except (TimeoutError, OSError):
        return None


def answers_in_order(broker):
    """The correlation ids in the order in which the responses come: 8 waits in the broker, 9 follows it."""
    (wire,) = broker.call(1, waiting_fetch("empty", wait_ms=200, correlation_id=8))
    time.sleep(0.05)
    wire.send(small_request(9))
    return ids_of(wire)


def answers_of_throttled(broker):
    """The correlation ids of the responses to a client that is over its quota after its first request."""
    (wire,) = broker.call(1, small_request(OVER_QUOTA) + small_request(OVER_QUOTA + 1))
    return ids_of(wire)


def ids_of(wire):
    deadline = time.monotonic() + PATIENCE_S
    responses = [receive(wire, deadline) for _ in range(2)]
    return [correlation_id_of(each) for each in responses if each is not None]


class Yours:
    """Your code in the broker's places."""

    def __init__(self, work):
        self.work = work
        self.is_active = False
        self.errors = []
        self.queues, self.channels, self.times = {}, {}, {}
        self.left = 0
        """Threads that your close has not woken."""
        self._inside = {}
        """By queue, the threads that are in your put or your take."""
        self._closed = set()
        self._throttled_at = self._heard_at = None
        self._clocks = threading.Lock()

    def places(self):
        """What goes where. The broker's own functions are kept first: they go on if yours cannot."""
        self.own_put, self.own_close = RequestQueue.put, RequestQueue.close
        self.own_next, self.own_done = ServerChannel.next_request, ServerChannel.done
        self.own_unthrottle, self.own_encode = ServerChannel.unthrottle, Answer.encode
        self.own_begin, self.own_end = WaitingTime.begin, WaitingTime.end
        queue = {name: getattr(self, name) for name in ("put", "take", "close")}
        channel = {name: getattr(self, name) for name in ("next_request", "done", "unthrottle")}
        return {
            **{f"{STAGES}.RequestQueue.{name}": function for name, function in queue.items()},
            f"{STAGES}.RequestQueue.__len__": self.size,
            f"{STAGES}.WaitingTime.begin": self.begin,
            f"{STAGES}.WaitingTime.end": self.end,
            **{f"{CHANNEL}.{name}": function for name, function in channel.items()},
            ANSWER: self.encode,
        }

    def activate(self, broker):
        """From now on your code is asked. Handlers that wait in the broker's own queues move to yours."""
        queues = list(broker._stages._queues.values())
        for own in queues:
            made = self.call(self.work.RequestQueue, own.capacity)
            if made is not FAILED:
                self.queues[own] = made
        self.is_active = True
        for own in queues:
            with own._has_requests:
                own._has_requests.notify_all()

    def call(self, function, *arguments):
        """What your function returns; FAILED if it raises."""
        try:
            return function(*arguments)
        except LetGoError:
            return FAILED
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")
            return FAILED

    # --- the queue: threads wait in yours -----------------------------------------------------------------------------

    def in_yours(self, own, function, *arguments):
        """A call in which a thread may wait."""
        inside, thread = self._inside.setdefault(own, set()), threading.current_thread()
        inside.add(thread)
        try:
            return self.call(function, *arguments)
        finally:
            inside.discard(thread)

    def put(self, own, request):
        queue = self.queues.get(own)
        if queue is None or self.in_yours(own, queue.put, request) is FAILED:
            self.own_put(own, request)

    def take(self, own, waiting):
        waiting.begin()
        try:
            while not own._is_closed:
                queue = self.queues.get(own)
                with own._has_requests:
                    while not own._requests and not own._is_closed and queue is None:
                        own._has_requests.wait(0.05)
                        queue = self.queues.get(own)
                    if own._requests and not own._is_closed:
                        own._has_room.notify()
                        return own._requests.popleft()
                found = FAILED if own._is_closed else self.in_yours(own, queue.take)
                if found is not FAILED and found is not None:
                    return found
                if not own._is_closed:  # yours gave nothing, and a handler without a request has to wait
                    time.sleep(0.02)
            return None
        finally:
            waiting.end()

    def close(self, own):
        self.own_close(own)
        queue = self.queues.get(own)
        if queue is not None and own not in self._closed:
            self._closed.add(own)
            inside = self._inside.setdefault(own, set())
            closing = threading.Thread(target=self.call, args=(queue.close,), daemon=True)
            closing.start()
            closing.join(PATIENCE_S)
            deadline = time.monotonic() + PATIENCE_S
            while inside and time.monotonic() < deadline:
                time.sleep(0.01)
            self.left += len(inside)
            self.let_go(queue)

    def let_all_go(self):
        for queue in self.queues.values():
            self.let_go(queue)

    @staticmethod
    def let_go(queue):
        """End what waits in a queue of yours, whatever it waits for: the broker has to stop."""
        for condition in [each for each in vars(queue).values() if isinstance(each, threading.Condition)]:
            condition.wait = let
            if condition.acquire(timeout=0.1):
                condition.notify_all()
                condition.release()

    def size(self, own):
        queue = self.queues.get(own)
        length = 0 if queue is None else self.call(len, queue)
        return len(own._requests) + (0 if length is FAILED else length)

    # --- the channels -------------------------------------------------------------------------------------------------

    def next_request(self, own, recorder=None):
        if own not in self.channels and self.is_active and own._in_hand is None:
            self.channels[own] = self.call(self.work.Channel)
        channel = self.channels.get(own, FAILED)
        if channel is FAILED:
            return self.own_next(own, recorder)
        if self.call(lambda: channel.is_muted):
            own.wants_bytes = False
            return None
        own._in_hand, own._is_throttled = None, False
        taken = self.own_next(own, recorder)
        if taken is not None:
            self.call(channel.request_received)
            if own._in_hand is not None and own._in_hand.correlation_id == OVER_QUOTA + 1:
                self._heard_at = time.monotonic_ns()
        return taken

    def encode(self, answer, context):
        """The broker's own, but that one client is over its quota."""
        parts, throttle_ms = self.own_encode(answer, context)
        is_over = self.is_active and context.correlation_id == OVER_QUOTA
        return parts, THROTTLE_MS if is_over else throttle_ms

    def done(self, own, context, throttled=False):
        channel = self.channels.get(own, FAILED)
        if channel is FAILED:
            self.own_done(own, context, throttled)
            return
        if throttled:
            self._throttled_at = time.monotonic_ns()
            self.call(channel.throttle_started)
        self.call(channel.response_sent)
        own._in_hand, own._is_throttled = None, throttled

    def unthrottle(self, own):
        channel = self.channels.get(own, FAILED)
        if channel is FAILED:
            self.own_unthrottle(own)
            return
        self.call(channel.throttle_ended)
        own._is_throttled = False

    @property
    def paused_ms(self):
        """How long after it was throttled a client was heard again."""
        if self._throttled_at is None or self._heard_at is None:
            return None
        return (self._heard_at - self._throttled_at) // 1_000_000

    # --- the idle time ------------------------------------------------------------------------------------------------

    def begin(self, own):
        with self._clocks:
            self.own_begin(own)
            if own not in self.times and self.is_active:
                now = own._since
                self.times[own] = self.call(self.work.IdleTime, now), now, own._waited
            meter = self.times.get(own, (FAILED,))[0]
            if meter is not FAILED:
                self.call(meter.begin, own._since)

    def end(self, own):
        with self._clocks:
            since, waited = own._since, own._waited
            self.own_end(own)
            meter = self.times.get(own, (FAILED,))[0]
            if meter is not FAILED:
                self.call(meter.end, since + own._waited - waited)

    def idle(self):
        """What your times and the broker's own counts say of the threads, on average, to whole percents."""
        with self._clocks:
            now = time.monotonic_ns()
            known = [(own, *found) for own, found in self.times.items() if found[0] is not FAILED]
            shares = [self.call(meter.share, now) for _, meter, _, _ in known]
            brokers = [(own.total(now) - before) / max(1, now - began) for own, _, began, before in known]
        if not known or FAILED in shares:
            return 0.0, 1.0
        return round(sum(shares) / len(shares), 2), round(sum(brokers) / len(brokers), 2)


class LetGoError(Exception):
    """The broker stops, and this thread must not wait any more."""


def let(*_):
    raise LetGoError
