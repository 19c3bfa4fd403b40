"""Faults on purpose: what a node does to requests, so that you can see how a client reacts.

A fault has conditions (which API, which topic, whose client) and says what happens to a request that meets them::

    delay_ms           it is handled this much later; with one of the others, that happens this much later
    error              it is refused with this error, as if its handler had refused it; nothing is changed
    drop = "request"   it is lost on its way: nothing is changed, and the connection is closed
    drop = "answer"    it is carried out, and its answer is lost: the connection is closed

The last is the one that clients fear: the broker has done what was asked for, and the client does not know it. Faults
meet what clients send; what nodes send each other they leave alone.

A fetch in a session names only the partitions that are new to it; it is about all topics of the session.

One fault may stand in several nodes at once, each of which is a thread: all of them together catch `count` requests.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import count
from typing import Any, NamedTuple

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.timer import Timer
from pykraft.common.types import Uuid
from pykraft.protocol.api import apis
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.schema import Request, Struct
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import Answer

DROPS = ("request", "answer")
MOST_CAUGHT = 10_000
"""At most this many of the requests that a fault has caught are kept: the first ones."""
_OF_NODES = re.compile(r"node-\d+-client")
_NAMES_A_TOPIC = ("topic", "topic_name", "topic_id", "name")


class CaughtRequest(NamedTuple):
    """A request that met a fault: at which node, when on the node's clock, whose, and what it said."""

    node_id: int
    time_ms: int
    client_id: str
    api: str
    version: int
    topics: frozenset[str]


@dataclass(eq=False)
class Fault:
    """What happens to which requests; see the module. `count` is None for all of them."""

    api: type[Request]
    topic: str | None = None
    client_id: str | None = None
    error: ErrorCode | None = None
    delay_ms: int = 0
    drop: str | None = None
    count: int | None = None
    caught: list[CaughtRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tickets = count()  # one is drawn in a single step, whichever thread draws

    @property
    def is_over(self) -> bool:
        """Whether it has caught all that it was to catch."""
        return self.count is not None and len(self.caught) >= self.count

    def may_meet(self, inbound: InboundRequest) -> bool:
        """Whether the request is of the kind, whatever topics it names."""
        return type(inbound.message) is self.api and self.client_id in (None, inbound.context.client_id)

    def take(self, caught: CaughtRequest) -> bool:
        """Catch a request, unless enough are caught."""
        if self.topic is not None and self.topic not in caught.topics:
            return False
        if self.count is not None and next(self._tickets) >= self.count:
            return False
        if len(self.caught) < max(MOST_CAUGHT, self.count or 0):
            self.caught.append(caught)
        return True


class Faults:
    """The faults of one node, in front of what handles its requests."""

    def __init__(
        self,
        node_id: int,
        timer: Timer,
        topic_name: Callable[[Uuid], str | None],
        session_topics: Callable[[int], set[str | Uuid]],
        handle: Callable[[InboundRequest, int], Answer | Promise[Answer]],
    ) -> None:
        self._node_id = node_id
        self._timer = timer
        self._topic_name = topic_name
        self._session_topics = session_topics
        self._handle = handle
        self.planted: list[Fault] = []
        """In the order in which they are tried. While there are none, requests go straight to their handlers."""

    def add(self, fault: Fault) -> None:
        self.planted.append(fault)

    def remove(self, fault: Fault) -> None:
        """Forget a fault; it need not be there."""
        self.planted = [other for other in self.planted if other is not fault]

    def handle(self, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        """Answer a request, or do to it what the first fault says that it meets."""
        fault = self._met(inbound, now)
        if fault is None:
            return self._handle(inbound, now)
        if not fault.delay_ms:
            return self._carry_out(fault, inbound, now)
        answer: Promise[Answer] = Promise()

        def handle_late(later: int) -> None:
            answered = self._carry_out(fault, inbound, later)
            if isinstance(answered, Promise):
                answered.pass_on_to(answer)
            else:
                answer.keep(answered)

        task = self._timer.at(now + fault.delay_ms, handle_late)
        answer.on_abandoned(task.cancel)
        return answer

    def _met(self, inbound: InboundRequest, now: int) -> Fault | None:
        context = inbound.context
        client_id = context.client_id or ""
        if context.kind is not ListenerKind.BROKER or _OF_NODES.fullmatch(client_id):
            return None
        api = type(inbound.message).__name__.removesuffix("Request")
        topics: frozenset[str] | None = None
        for fault in self.planted:
            if fault.may_meet(inbound):
                topics = self._topics(inbound.message) if topics is None else topics
                caught = CaughtRequest(self._node_id, now, client_id, api, context.api_version, topics)
                if fault.take(caught):
                    return fault
        return None

    def _carry_out(self, fault: Fault, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        lost = Answer(None, hang_up=True)
        if fault.drop == "request":
            return lost
        if fault.error is not None and isinstance(inbound.message, MetadataRequest):
            return self._with_topic_errors(self._handle(inbound, now), fault.error)
        if fault.error is not None:
            refusal = inbound.message.refusal(KafkaError(fault.error))
            return lost if refusal is None else Answer(refusal)
        answered = self._handle(inbound, now)
        if fault.drop is None:
            return answered
        return answered.map(lambda _: lost) if isinstance(answered, Promise) else lost

    @staticmethod
    def _with_topic_errors(answered: Answer | Promise[Answer], error: ErrorCode) -> Answer | Promise[Answer]:
        """An answer to Metadata in which each topic has this error. The brokers are in it, as they are in Kafka's: a
        client asks one of them again."""

        def changed(answer: Answer) -> Answer:
            response = answer.response
            assert isinstance(response, MetadataResponse)
            topics = [topic.replace(error_code=error, partitions=[]) for topic in response.topics]
            return answer._replace(response=response.replace(topics=topics))

        return answered.map(changed) if isinstance(answered, Promise) else changed(answered)

    def _topics(self, message: Request) -> frozenset[str]:
        """The topics that a request is about."""
        said = set(_named(message))
        if isinstance(message, FetchRequest) and message.session_id:
            said |= self._session_topics(message.session_id)
        return frozenset(filter(None, map(self._name, said)))

    def _name(self, said: str | Uuid) -> str | None:
        return said if isinstance(said, str) else self._topic_name(said)


def make_fault(
    api: str,
    topic: str | None,
    client_id: str | None,
    error: str | None,
    delay_ms: int,
    drop: str | None,
    count: int | None,
) -> Fault:
    """A fault from what a person says; ValueError says what is wrong with it."""
    served = {row.name: row.request for row in apis.values() if ListenerKind.BROKER in row.listeners}
    request = served[_one_of("api", api, served)]
    if topic is not None and not names_topics(request):
        raise ValueError(f"topic={topic!r}: a request of {api} names no topic")
    if error is not None:
        _one_of("error", error, [code.name for code in ErrorCode if code is not ErrorCode.NONE])
    if drop is not None:
        _one_of("drop", drop, DROPS)
        if error is not None:
            raise ValueError(
                f"error={error!r} and drop={drop!r}: a request that is lost gets no answer, so say one of them"
            )
    for name, number, least in (("delay_ms", delay_ms, 0), ("count", count, 1)):
        if number is not None and (not isinstance(number, int) or number < least):
            raise ValueError(f"{name}={number!r}: must be a whole number, and at least {least}")
    return Fault(request, topic, client_id, None if error is None else ErrorCode[error], delay_ms, drop, count)


def _one_of(name: str, value: str, known: Collection[str]) -> str:
    if value in known:
        return value
    nearest = get_close_matches(value, known, 1, cutoff=0.4)
    raise ValueError(
        f"{name}={value!r}: there is no such {name}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")
    )


def names_topics(declared: type[Struct]) -> bool:
    """Whether requests of this class can name topics."""
    inner = [value for value in vars(declared).values() if isinstance(value, type) and issubclass(value, Struct)]
    own = {"topic", "topic_name", "topic_id"} & set(declared._names)
    return bool(own) or any("Topic" in each.__name__ or names_topics(each) for each in inner)


def _named(struct: Struct) -> Iterator[str | Uuid]:
    """The names and ids of topics in a request, at any depth."""
    is_topic = "Topic" in type(struct).__name__
    for name in struct._names:
        value: Any = getattr(struct, name)
        if name in _NAMES_A_TOPIC and (is_topic or name != "name") and isinstance(value, str | Uuid) and value:
            yield value
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, Struct):
                    yield from _named(each)
                elif isinstance(each, str) and "topic" in name:
                    yield each
