"""Lab 07: the queue between network threads and handlers, and what keeps each connection in order."""

from typing import Any


# --- task 7.1: the request queue ---
class RequestQueue:
    """Requests on their way from network threads to handlers, at most `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        raise NotImplementedError("Task 7.1: what does the queue know, and how do threads wait for it")

    def __len__(self) -> int:
        """How many requests wait."""
        raise NotImplementedError("Task 7.1: how many are inside")

    def put(self, request: Any) -> bool:
        """Add a request as soon as there is room for it, and return True; False as soon as the queue is
        closed."""
        raise NotImplementedError("Task 7.1: when may a request go in")

    def take(self) -> Any:
        """The request that has waited longest, as soon as there is one; None as soon as the queue is
        closed."""
        raise NotImplementedError("Task 7.1: when may a handler have one")

    def close(self) -> None:
        """The broker stops: what is inside is dropped, and no thread waits any more."""
        raise NotImplementedError("Task 7.1: who waits, and for what")


# --- end of task 7.1 ---


# --- task 7.2: muting ---
class Channel:
    """One connection: whether its next request may be taken."""

    def __init__(self) -> None:
        raise NotImplementedError("Task 7.2: what does a channel have to know")

    @property
    def is_muted(self) -> bool:
        """No request may be taken."""
        raise NotImplementedError("Task 7.2: when may no request be taken")

    def request_received(self) -> None:
        """A request was taken. ValueError if the channel is muted."""
        raise NotImplementedError("Task 7.2: what begins here")

    def response_sent(self) -> None:
        """The response has left. ValueError if no request waits for one."""
        raise NotImplementedError("Task 7.2: what ends here, and what does not")

    def throttle_started(self) -> None:
        """The client is over its quota. ValueError if no request waits for a response, or it is
        throttled already."""
        raise NotImplementedError("Task 7.2: what begins here")

    def throttle_ended(self) -> None:
        """The time for which it is throttled is over. ValueError if it is not throttled."""
        raise NotImplementedError("Task 7.2: what ends here, and what does not")


# --- end of task 7.2 ---


# --- task 7.3: the idle percentage ---
class IdleTime:
    """What share of its time a thread has waited for work. Times are whole numbers, and 0 is one of
    them."""

    def __init__(self, now: int) -> None:
        """The measurement begins; the thread does not wait yet."""
        raise NotImplementedError("Task 7.3: what will share need")

    def begin(self, now: int) -> None:
        """It waits for work from now on."""
        raise NotImplementedError("Task 7.3: what begins here")

    def end(self, now: int) -> None:
        """It has work again."""
        raise NotImplementedError("Task 7.3: what ends here")

    def share(self, now: int) -> float:
        """From 0 (it has never waited) to 1; a wait that goes on counts. A thread that has just started
        is idle: 1."""
        raise NotImplementedError("Task 7.3: which share of its time has it waited")


# --- end of task 7.3 ---
