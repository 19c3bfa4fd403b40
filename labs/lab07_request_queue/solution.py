"""Lab 07: the queue between network threads and handlers, and what keeps each connection in order."""

from collections import deque
from threading import Condition
from typing import Any


# --- task 7.1: the request queue ---
class RequestQueue:
    """Requests on their way from network threads to handlers, at most `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.requests: deque[Any] = deque()
        self.is_closed = False
        self.changed = Condition()

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self.requests)

    def put(self, request: Any) -> bool:
        """Add a request as soon as there is room for it, and return True; False as soon as the queue is
        closed."""
        with self.changed:
            while len(self.requests) >= self.capacity and not self.is_closed:
                self.changed.wait()
            if self.is_closed:
                return False
            self.requests.append(request)
            self.changed.notify_all()
            return True

    def take(self) -> Any:
        """The request that has waited longest, as soon as there is one; None as soon as the queue is
        closed."""
        with self.changed:
            while not self.requests and not self.is_closed:
                self.changed.wait()
            if self.is_closed:
                return None
            request = self.requests.popleft()
            self.changed.notify_all()
            return request

    def close(self) -> None:
        """The broker stops: what is inside is dropped, and no thread waits any more."""
        with self.changed:
            self.is_closed = True
            self.requests.clear()
            self.changed.notify_all()


# --- end of task 7.1 ---


# --- task 7.2: muting ---
class Channel:
    """One connection: whether its next request may be taken."""

    def __init__(self) -> None:
        self.is_pending = False
        self.is_throttled = False

    @property
    def is_muted(self) -> bool:
        """No request may be taken."""
        return self.is_pending or self.is_throttled

    def request_received(self) -> None:
        """A request was taken. ValueError if the channel is muted."""
        if self.is_muted:
            raise ValueError("a muted channel has no request")
        self.is_pending = True

    def response_sent(self) -> None:
        """The response has left. ValueError if no request waits for one."""
        if not self.is_pending:
            raise ValueError("no request waits for a response")
        self.is_pending = False

    def throttle_started(self) -> None:
        """The client is over its quota. ValueError if no request waits for a response, or it is
        throttled already."""
        if not self.is_pending or self.is_throttled:
            raise ValueError("throttling begins once, with a request in hand")
        self.is_throttled = True

    def throttle_ended(self) -> None:
        """The time for which it is throttled is over. ValueError if it is not throttled."""
        if not self.is_throttled:
            raise ValueError("the channel is not throttled")
        self.is_throttled = False


# --- end of task 7.2 ---


# --- task 7.3: the idle percentage ---
class IdleTime:
    """What share of its time a thread has waited for work. Times are whole numbers, and 0 is one of
    them."""

    def __init__(self, now: int) -> None:
        """The measurement begins; the thread does not wait yet."""
        self.started = now
        self.waited = 0
        self.since: int | None = None

    def begin(self, now: int) -> None:
        """It waits for work from now on."""
        self.since = now

    def end(self, now: int) -> None:
        """It has work again."""
        if self.since is not None:
            self.waited += now - self.since
            self.since = None

    def share(self, now: int) -> float:
        """From 0 (it has never waited) to 1; a wait that goes on counts. A thread that has just started
        is idle: 1."""
        if now == self.started:
            return 1.0
        going_on = 0 if self.since is None else now - self.since
        return (self.waited + going_on) / (now - self.started)


# --- end of task 7.3 ---
