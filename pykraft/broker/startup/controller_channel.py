"""A broker's way to the active controller.

The leader of the quorum is the active controller, and that changes. So a request is held until a leader is known, and
goes there. If that node leads no more, or does not answer, the request is held and sent again, until its time is up.
Each user of the controller has a channel, and so a connection, of its own: a heartbeat must not wait behind the making
of a thousand topics.

Follows org.apache.kafka.server.NodeToControllerChannelManager.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import ErrorCode
from pykraft.common.rooms import Room
from pykraft.common.types import Node
from pykraft.protocol.schema import Request

RETRY_BACKOFF_MS = 50

_NOTHING = Poll()
OnAnswer = Callable[[Any, int], None]
"""(response, now); the response is None if the time was up."""


class _Asked(NamedTuple):
    request: Request
    on_answer: OnAnswer
    deadline: int


class ControllerChannel:
    """Requests of one kind to the active controller."""

    def __init__(self, name: str, controller: Callable[[], Node | None], timeout_ms: int) -> None:
        self._name = name
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._queue: deque[_Asked] = deque()
        self._backoff_until = 0
        self.room = Room(name)

    def send(self, request: Request, on_answer: OnAnswer, now: int, timeout_ms: int | None = None) -> None:
        """Ask the controller; ``on_answer(response, now)`` is called once."""
        self._queue.append(_Asked(request, on_answer, now + (self._timeout_ms if timeout_ms is None else timeout_ms)))
        self.room.mark("request")

    def poll(self, now: int) -> Poll:
        """Send what is held, if it is known to whom."""
        if not self._queue:
            return _NOTHING
        late = [asked for asked in self._queue if asked.deadline <= now]
        for asked in late:
            self._queue.remove(asked)
            asked.on_answer(None, now)
        # A broker polls its lifecycle before this channel. After an answer the lifecycle has a new deadline to tell.
        again = now if late else FOREVER
        node = self._controller()
        if now < self._backoff_until or node is None:
            # A new leader marks the room; until then the deadlines count.
            waiting = min(again, *(asked.deadline for asked in self._queue), FOREVER)
            return Poll(min(waiting, self._backoff_until) if now < self._backoff_until else waiting)
        requests = [self._outbound(asked, node, now) for asked in self._queue]
        self._queue.clear()
        return Poll(again, requests)

    def _outbound(self, asked: _Asked, node: Node, now: int) -> Outbound:
        def on_response(response: Any, then: int) -> None:
            is_lost = isinstance(response, Failure)
            if is_lost or getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
                self._backoff_until = then + RETRY_BACKOFF_MS
                self._queue.append(asked)
                self.room.mark("no answer")
            else:
                asked.on_answer(response, then)

        timeout_ms = max(1, asked.deadline - now)
        # It is held here, where it is seen who leads by then, and not before a node that may be dead.
        return Outbound(
            self._name, node, asked.request, on_response, timeout_ms, is_to_controller=True, waits_for_connection=False
        )
