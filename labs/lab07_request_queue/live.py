"""Lab 07 in a live broker: your queue is between its network threads and its handlers, and your channels keep its
connections in order.

A broker with two network threads, two handlers and a queue for four requests starts. Then your code takes over. Twelve
clients send a request each while no handler may take one: your queue decides how many are inside. Another client sends
a request that waits for 0.2 s, and right after it one that does not: your channel decides which response comes first.
And your idle time says how much the broker's threads have waited, beside the broker's own count.

A mistake of yours must not stop the broker: what your code raises is noted, and the broker's own code goes on.
"""

import threading
import time

from pykraft.course.labs.plug import Outcome, at_most, plugged
from pykraft.course.rigs.by_hand import correlation_id_of, waiting_fetch
from pykraft.course.rigs.stages import Broker, small_request
from pykraft.network.stages import WaitingTime
from pykraft.transport.server_channel import ServerChannel
from pykraft.viz import broker_stages

PLACES = 4
FLOOD = 12
INSIDE = 2 + PLACES + 2
PATIENCE_S = 3
ROUNDING = 0.03
SETTINGS = {"num.network.threads": 2, "num.io.threads": 2, "queued.max.requests": PLACES}
STAGES = "pykraft.network.stages"
CHANNEL = "pykraft.transport.server_channel.ServerChannel"


def run(work):
    """Start a broker and let it run on `work`; it agrees if no response is lost or out of order."""
    yours = Yours(work)
    with plugged(yours.places()) as plugs:
        broker = Broker(SETTINGS)
        try:
            yours.is_active = True
            broker.cluster.create_topic("empty")
            with broker.held():
                callers = broker.call(FLOOD)
                counts = broker.counts()
                idle = yours.idle()
            answered = sum(receive(caller) is not None for caller in callers)
            order = answers_in_order(broker)
            yours.is_active = False
        finally:
            broker.close()
    compared = {
        "requests inside the broker": (counts.inside, INSIDE),
        "clients that got their response": (answered, FLOOD),
        "responses in order": (order, [8, 9]),
        "share of idle time away from the broker's own count": (round(abs(idle[0] - idle[1]), 2), at_most(ROUNDING)),
        "errors that your code raised": (len(yours.errors), 0),
    }
    lines = [
        f"{counts.inside} of {FLOOD} requests were inside the broker, {counts.queue} in your queue of {PLACES}.",
        f"{answered} of {FLOOD} clients got their response.",
        f"The response to the waiting request came {'first' if order == [8, 9] else 'late: ' + str(order)}.",
        f"By your count the threads were idle for {idle[0]:.0%} of their time; the broker's own says {idle[1]:.0%}.",
        *(f"Your code raised {error}; the broker's own went on." for error in dict.fromkeys(yours.errors)),
    ]
    figure = broker_stages(counts, title=f"Your queue let {counts.inside} of {FLOOD} requests in")
    facts = {"inside": counts.inside, "answered": answered, "order": order, "idle": idle}
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def receive(wire):
    """The next response of a connection; None if there is none in time."""
    wire._socket.settimeout(PATIENCE_S)
    try:
        return wire.receive() or None
    except TimeoutError:
        return None


def answers_in_order(broker):
    """The correlation ids in the order in which the responses come: 8 waits in the broker, 9 follows it."""
    (wire,) = broker.call(1, waiting_fetch("empty", wait_ms=200, correlation_id=8))
    time.sleep(0.05)
    wire.send(small_request(9))
    responses = [receive(wire) for _ in range(2)]
    return [correlation_id_of(each) for each in responses if each is not None]


class Yours:
    """Your code in the broker's places."""

    def __init__(self, work):
        self.work = work
        self.is_active = False
        self.errors = []
        self.queues, self.channels, self.times = {}, {}, {}
        self.waiting = threading.local()

    def places(self):
        """What goes where. The broker's own functions are kept first: they go on if yours cannot."""
        self.own_next, self.own_done = ServerChannel.next_request, ServerChannel.done
        self.own_begin, self.own_end = WaitingTime.begin, WaitingTime.end
        queue = {name: getattr(self, name) for name in ("put", "take", "close")}
        return {
            **{f"{STAGES}.RequestQueue.{name}": function for name, function in queue.items()},
            f"{STAGES}.RequestQueue.__len__": self.size,
            f"{STAGES}.WaitingTime.begin": self.begin,
            f"{STAGES}.WaitingTime.end": self.end,
            f"{CHANNEL}.next_request": self.next_request,
            f"{CHANNEL}.done": self.done,
        }

    def call(self, function, *arguments):
        """What your function returns; None if it raises."""
        try:
            return function(*arguments)
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")
            return None

    # --- the queue: the waiting is the broker's, what waits is yours --------------------------------------------------

    def queue_of(self, own):
        if own not in self.queues:
            self.queues[own] = self.call(self.work.RequestQueue, own.capacity), []
        return self.queues[own]

    def put(self, own, request):
        with own._has_room:
            while not own._is_closed:
                queue, inside = self.queue_of(own)
                if not self.is_active or queue is None:
                    own._requests.append(request)
                    break
                if self.call(queue.put, request):
                    inside.append(request)
                    break
                own._has_room.wait(0.05)
            own._has_requests.notify()

    def take(self, own, waiting):
        waiting.begin()
        with own._has_requests:
            found = self.found(own)
            while found is None and not own._is_closed:
                own._has_requests.wait(0.05)
                found = self.found(own)
            own._has_room.notify()
        waiting.end()
        return found

    def found(self, own):
        """A request of yours that was put in and not taken yet, or one of the broker's own."""
        queue, inside = self.queue_of(own)
        if own._requests:
            return own._requests.popleft()
        found = None if queue is None or not inside else self.call(queue.take)
        if found is not None:
            inside.remove(found)
        return found

    def close(self, own):
        queue, _ = self.queue_of(own)
        if queue is not None:
            self.call(queue.close)
        with own._has_room:
            own._is_closed = True
            own._has_room.notify_all()
            own._has_requests.notify_all()

    def size(self, own):
        queue, _ = self.queue_of(own)
        return len(own._requests) + (0 if queue is None else self.call(len, queue) or 0)

    # --- the channels -------------------------------------------------------------------------------------------------

    def next_request(self, own, recorder=None):
        if own not in self.channels and self.is_active and own._in_hand is None:
            self.channels[own] = self.call(self.work.Channel)
        channel = self.channels.get(own)
        if channel is None:
            return self.own_next(own, recorder)
        if self.call(lambda: channel.is_muted):
            own.wants_bytes = False
            return None
        own._in_hand = None
        taken = self.own_next(own, recorder)
        if taken is not None:
            self.call(channel.request_received)
        return taken

    def done(self, own, context, throttled=False):
        channel = self.channels.get(own)
        if channel is None:
            self.own_done(own, context, throttled)
            return
        self.call(channel.response_sent)
        own._in_hand = None

    # --- the idle time ------------------------------------------------------------------------------------------------

    def time_of(self, own):
        if own not in self.times and self.is_active:
            now = time.monotonic_ns()
            self.times[own] = self.call(self.work.IdleTime, now), now, own.total(now)
        return self.times.get(own, (None, 0, 0))

    def begin(self, own):
        meter, _, _ = self.time_of(own)
        self.own_begin(own)
        if meter is not None:
            self.call(meter.begin, own._since)

    def end(self, own):
        meter, _, _ = self.time_of(own)
        self.own_end(own)
        if meter is not None:
            self.call(meter.end, time.monotonic_ns())

    def idle(self):
        """What your times and the broker's own counts say of the threads, on average, to whole percents."""
        now = time.monotonic_ns()
        known = [(own, *found) for own, found in list(self.times.items()) if found[0] is not None]
        if not known:
            return 0.0, 1.0
        yours = sum(self.call(meter.share, now) or 0.0 for _, meter, _, _ in known)
        brokers = sum((own.total(now) - before) / (now - began) for own, _, began, before in known)
        return round(yours / len(known), 2), round(brokers / len(known), 2)
