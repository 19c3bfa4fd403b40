"""Lab 07: the queue between network threads and handlers, and what keeps each connection in order."""

from typing import Any


# --- task 7.1: the request queue ---
class RequestQueue:
    """Requests that wait for a handler, at most `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        raise NotImplementedError(
            "Task 7.1: remember the capacity, the requests in their order, and whether it is closed"
        )

    def __len__(self) -> int:
        """How many requests wait."""
        raise NotImplementedError("Task 7.1: count the requests")

    def put(self, request: Any) -> bool:
        """Add a request; False if there is no room for it, or the queue is closed."""
        raise NotImplementedError("Task 7.1: look whether there is room before you add anything")

    def take(self) -> Any:
        """The request that has waited longest; None if there is none."""
        raise NotImplementedError("Task 7.1: the first that came is the first to go")

    def close(self) -> None:
        """The broker stops: nothing goes in any more, and what is in it is dropped."""
        raise NotImplementedError("Task 7.1: empty the queue, and let put know")


# --- end of task 7.1 ---


# --- task 7.2: muting ---
class Channel:
    """One connection: whether its next request may be taken."""

    def __init__(self) -> None:
        raise NotImplementedError("Task 7.2: two things can keep a channel muted; remember each of them")

    @property
    def is_muted(self) -> bool:
        """No request may be taken."""
        raise NotImplementedError("Task 7.2: muted while either of the two lasts")

    def request_received(self) -> None:
        """A request was taken. ValueError if the channel is muted."""
        raise NotImplementedError("Task 7.2: from now on a response is due")

    def response_sent(self) -> None:
        """The response has left. ValueError if no request waits for one."""
        raise NotImplementedError("Task 7.2: no response is due any more")

    def throttle_started(self) -> None:
        """The client is over its quota. ValueError if no request waits for a response, or it is throttled already."""
        raise NotImplementedError("Task 7.2: remember that the client is throttled")

    def throttle_ended(self) -> None:
        """The time for which it is throttled is over. ValueError if it is not throttled."""
        raise NotImplementedError("Task 7.2: forget that the client is throttled, and nothing else")


# --- end of task 7.2 ---


# --- task 7.3: the idle percentage ---
class IdleTime:
    """What share of its time a thread has waited for work. Times are whole numbers, and 0 is one of them."""

    def __init__(self, now: int) -> None:
        """The thread starts, and works."""
        raise NotImplementedError("Task 7.3: remember when it started")

    def begin(self, now: int) -> None:
        """It waits for work from now on."""
        raise NotImplementedError("Task 7.3: remember when the wait began")

    def end(self, now: int) -> None:
        """It has work again."""
        raise NotImplementedError("Task 7.3: add this wait to those before it")

    def share(self, now: int) -> float:
        """From 0 (it has never waited) to 1; a wait that goes on counts. A thread that has just started is idle: 1."""
        raise NotImplementedError("Task 7.3: divide what it has waited by the time since it started")


# --- end of task 7.3 ---
