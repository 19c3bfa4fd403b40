"""Requests that come before their listener serves: they wait, and are answered when it does.

Listeners accept connections as soon as the node starts. A broker's clients wait until the broker has read what it leads
and its registration. On a node with rules of access, a listener that ``early.start.listeners`` leaves out waits for the
rules, too. Controllers' listeners start early by default: a quorum that is not there yet can commit no rules.

Follows org.apache.kafka.metadata.authorizer.StandardAuthorizer.start and kafka.server.BrokerServer.
"""

from collections.abc import Callable

from pykraft.common.core import FOREVER, Promise
from pykraft.common.rooms import Room
from pykraft.protocol.listeners import ListenerKind
from pykraft.transport.server_channel import InboundRequest, RequestContext
from pykraft.transport.server_connection import Answer

_LOOK_FOR_RULES_MS = 50
"""How often a listener that waits for the rules looks whether they are there."""


class EarlyRequests:
    """The requests of one node that wait."""

    def __init__(
        self,
        handle: Callable[[InboundRequest, int], Answer | Promise[Answer]],
        is_open: Callable[[], bool],
        late_listeners: frozenset[str] = frozenset(),
        has_rules: Callable[[], bool] = lambda: True,
    ) -> None:
        """``is_open()`` says whether the broker serves, and ``has_rules()`` whether the rules of access are there, for
        which the `late_listeners` wait."""
        self._handle = handle
        self._is_open = is_open
        self._late_listeners = late_listeners
        self._has_rules = has_rules
        self._waiting: dict[int, tuple[InboundRequest, Promise[Answer]]] = {}
        """By the identity of the request."""
        self._look_at = 0
        """When to look for the rules again."""
        self.are_over = False
        """Whether all listeners serve: then it need not be asked any more."""
        self.room = Room("waiting")

    def must_wait(self, context: RequestContext) -> bool:
        """Whether the listener of this request does not serve yet."""
        is_open, has_rules = self._is_open(), not self._late_listeners or self._has_rules()
        self.are_over = is_open and has_rules
        if not is_open and context.kind is ListenerKind.BROKER:
            return True
        return not has_rules and context.listener in self._late_listeners

    def add(self, inbound: InboundRequest) -> Promise[Answer]:
        """Let it wait. If its client hangs up, it is forgotten."""
        answer: Promise[Answer] = Promise()
        self._waiting[id(inbound)] = inbound, answer
        answer.on_abandoned(lambda: self._waiting.pop(id(inbound), None))
        if self._late_listeners:
            self.room.mark("rules")
        return answer

    def poll(self, now: int) -> int:
        """Serve those that need not wait any more, in their order."""
        for key, (inbound, answer) in list(self._waiting.items()):
            if key in self._waiting and not self.must_wait(inbound.context):
                del self._waiting[key]
                answered = self._handle(inbound, now)
                if isinstance(answered, Promise):
                    answered.pass_on_to(answer)
                else:
                    answer.keep(answered)
        if not self._waiting or not self._late_listeners:
            return FOREVER
        if now >= self._look_at:
            self._look_at = now + _LOOK_FOR_RULES_MS
        return self._look_at
