"""The requests to the other controllers: who of the quorum may be asked something now.

One request at a time goes to a node, and after a failure there is a pause. When the role changes, everything that is
under way becomes irrelevant: answers to it are dropped, and every node may be asked again.

A node that was not reached a moment ago counts as not reached now: a leader has died, and who looks for the next one
asks the others meanwhile.

Follows org.apache.kafka.raft.RequestManager.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from pykraft.common.core import FOREVER, Failure, Outbound, Promise
from pykraft.common.rooms import Room
from pykraft.common.types import Node

Handler = Callable[[Node, Any, int], bool | Promise[bool]]
"""(sender, response, now) -> whether the answer was of use; if not, there is a pause. It may promise that: until then
the node is asked nothing more."""


class QuorumRequests:
    """The nodes of the quorum, by id. Bootstrap addresses have ids below -1."""

    def __init__(
        self,
        channel: str,
        bootstrap: list[Node],
        retry_backoff_ms: int,
        request_timeout_ms: int,
        random: Random,
        room: Room,
    ) -> None:
        self._channel = channel
        self._bootstrap = bootstrap
        self._retry_backoff_ms = retry_backoff_ms
        self._request_timeout_ms = request_timeout_ms
        self._random = random
        self._room = room
        self._in_flight: dict[int, int] = {}
        self._backoff: dict[int, int] = {}
        self._generation = 0
        self._outbox: list[Outbound] = []

    def reset(self) -> None:
        """The role changed: forget what is under way."""
        self._generation += 1
        self._in_flight = {}
        self._backoff = {}
        self._outbox = []

    def take_outbox(self) -> list[Outbound]:
        taken, self._outbox = self._outbox, []
        return taken

    @property
    def is_idle(self) -> bool:
        return not self._in_flight

    def is_backing_off(self, node: Node, now: int) -> bool:
        return self._backoff.get(node.id, 0) > now

    def next_ready(self, node: Node, now: int) -> int:
        """When this node may be asked: `FOREVER` while an answer is awaited (it will come, or fail)."""
        if node.id in self._in_flight:
            return FOREVER
        return max(now, self._backoff.get(node.id, 0))

    def send(self, node: Node, request: Any, handler: Handler, now: int) -> bool:
        """Ask, unless the node is busy or backing off; whether the request is on its way."""
        if self.next_ready(node, now) > now:
            return False
        generation = self._generation
        self._in_flight[node.id] = generation

        def on_response(response: Any, then: int) -> None:
            if generation != self._generation:
                return
            del self._in_flight[node.id]
            self._room.mark("answer")
            useful = not isinstance(response, Failure) and handler(node, response, then)
            if isinstance(useful, Promise):
                self._in_flight[node.id] = generation
                useful.then(lambda is_useful: on_read(is_useful, then))
            elif not useful:
                pause(then)

        def on_read(useful: bool, then: int) -> None:
            if generation == self._generation:
                del self._in_flight[node.id]
                if not useful:
                    pause(then)

        def pause(then: int) -> None:
            if generation == self._generation:
                self._backoff[node.id] = then + self._retry_backoff_ms

        timeout_ms = self._request_timeout_ms
        self._outbox.append(
            Outbound(
                self._channel,
                node,
                request,
                on_response,
                timeout_ms,
                is_to_controller=True,
                waits_for_connection=False,
            )
        )
        return True

    def ready_bootstrap(self, now: int) -> Node | None:
        """Any of the nodes known from the start that may be asked now."""
        ready = [node for node in self._bootstrap if self.next_ready(node, now) <= now]
        return self._random.choice(ready) if ready else None

    def bootstrap_ready(self, now: int) -> int:
        """When one of them may be asked."""
        return min((self.next_ready(node, now) for node in self._bootstrap), default=FOREVER)
