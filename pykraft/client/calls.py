"""A question or an order to the cluster, that is repeated until it is answered or it is too late.

Nearly always any broker will do: what only the controller or the quorum's leader can say or do, a broker passes on
(KIP-590). An answer that may be better later (no controller at the moment, the connection broke) is followed by a pause
and another attempt. An order that was carried out, but whose answer was lost, is given twice: it may then fail because
it was already done ("a topic of this name exists"), as with Kafka's own client.

Follows org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Generic, TypeVar

from pykraft.client.arguments import check_sendable
from pykraft.client.config import REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.config import Config
from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.timer import Backoff
from pykraft.common.types import Node
from pykraft.protocol.schema import Request, Response

CHANNEL = "admin"
ANY_NODE = -1
T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R", bound=Response)


class _Call(Generic[T]):
    def __init__(self, what: str, request: Request, read: Callable[[Any], T], deadline: int, node_id: int) -> None:
        self.node_id = node_id
        self.what = what
        self.request = request
        self.read = read
        self.deadline = deadline
        self.promise: Promise[T | KafkaError] = Promise()
        self.attempts = 0
        self.not_before = 0
        self.is_under_way = False
        self.obstacle = "no broker has answered"


class Calls:
    """The calls that are not answered yet. It is a RequestManager."""

    def __init__(self, config: Config, metadata: ClusterMetadata, random: Random) -> None:
        self._timeout_ms = config[REQUEST_TIMEOUT_MS]
        self._metadata = metadata
        self._backoff = Backoff(random, config[RETRY_BACKOFF_MS], config[RETRY_BACKOFF_MAX_MS])
        self._calls: list[_Call[Any]] = []

    def ask(
        self, what: str, request: Request, read: Callable[[R], T], deadline: int, node_id: int = ANY_NODE
    ) -> "Promise[T | KafkaError]":
        """Send the request until it is answered. `read` takes the value out of the response, or raises the KafkaError
        in it; `what` names the call in words, for the message if it is too late. `node_id` is the broker to ask, if it
        must be that one. KafkaError at once if the request cannot be sent at all."""
        check_sendable(what, request)
        call: _Call[T] = _Call(what, request, read, deadline, node_id)
        self._calls.append(call)
        return call.promise

    def poll(self, now: int) -> Poll:
        """Send what is due, give up what is late."""
        requests = []
        deadline = FOREVER
        for call in list(self._calls):
            if now >= call.deadline:
                self._finish(call, ClientTimeoutError(f"{call.what}: {call.obstacle}"))
            elif call.is_under_way:
                deadline = min(deadline, call.deadline)
            elif now < call.not_before:
                deadline = min(deadline, call.deadline, call.not_before)
            elif (node := self._node_for(call)) is None:
                self._pause(call, f"broker {call.node_id} is not known to live", now)
                self._metadata.request_update()
                deadline = min(deadline, call.deadline, call.not_before)
            else:
                requests.append(self._send(call, node, now))
                deadline = min(deadline, call.deadline)
        return Poll(deadline, requests)

    def _node_for(self, call: _Call[Any]) -> Node | None:
        return self._metadata.any_node() if call.node_id == ANY_NODE else self._metadata.brokers.get(call.node_id)

    def _pause(self, call: _Call[Any], obstacle: str, now: int) -> None:
        call.obstacle = obstacle
        call.not_before = now + self._backoff.pause_ms(call.attempts)
        call.attempts += 1

    def _send(self, call: _Call[Any], node: Node, now: int) -> Outbound:
        call.is_under_way = True

        def on_response(response: Any, now: int) -> None:
            call.is_under_way = False
            if isinstance(response, Failure):
                self._metadata.has_failed(node)
            if not call.promise.kept:
                self._on_response(call, node, response, now)

        timeout_ms = max(1, min(self._timeout_ms, call.deadline - now))
        return Outbound(CHANNEL, node, call.request, on_response, timeout_ms)

    def _on_response(self, call: _Call[Any], node: Node, response: Any, now: int) -> None:
        try:
            if response is Failure.UNSUPPORTED_VERSION:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{call.what}: the broker does not speak this API")
            if isinstance(response, Failure):
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{node.endpoint}: {response.value}")
            self._finish(call, _read(call, response))
        except KafkaError as error:
            if not error.retriable:
                self._finish(call, error)
                return
            self._pause(call, str(error), now)

    def _finish(self, call: _Call[T], result: T | KafkaError) -> None:
        self._calls.remove(call)
        call.promise.keep(result)


def _read(call: _Call[T], response: Any) -> T:
    """What the answer says. KafkaError: its own, or that it lacks what it must have."""
    try:
        return call.read(response)
    except (LookupError, ValueError) as error:
        detail = f"{call.what}: the answer makes no sense: {error!r}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail) from None


def gathered(
    promises: "Sequence[Promise[T | KafkaError]]", combine: Callable[[list[T]], U]
) -> "Promise[U | KafkaError]":
    """What the answers to several questions come to together; the first error if there is one."""
    answer: Promise[U | KafkaError] = Promise()
    found: dict[int, T] = {}

    def on_answer(number: int, value: T | KafkaError) -> None:
        if answer.kept:
            return
        if isinstance(value, KafkaError):
            answer.keep(value)
            return
        found[number] = value
        if len(found) == len(promises):
            answer.keep(combine([found[number] for number in range(len(promises))]))

    for number, promise in enumerate(promises):
        promise.then(partial(on_answer, number))
    if not promises:
        answer.keep(combine([]))
    return answer
