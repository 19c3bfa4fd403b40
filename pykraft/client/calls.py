"""A question or an order to the cluster, that is repeated until it is answered or it is too late.

Any broker will do: what only the controller or the quorum's leader can say or do, a broker passes on (KIP-590). An
answer that may be better later (no controller at the moment, the connection broke) is followed by a pause and another
attempt. An order that was carried out, but whose answer was lost, is given twice: it may then fail because it was
already done ("a topic of this name exists"), as with Kafka's own client.

Follows org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Generic, TypeVar

from pykraft.client.config import REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.config import Config
from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.timer import Backoff
from pykraft.protocol.schema import Request, Response

CHANNEL = "admin"
T = TypeVar("T")
R = TypeVar("R", bound=Response)


class _Call(Generic[T]):
    def __init__(self, what: str, request: Request, read: Callable[[Any], T], deadline: int) -> None:
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

    def ask(self, what: str, request: Request, read: Callable[[R], T], deadline: int) -> "Promise[T | KafkaError]":
        """Send the request until it is answered. `read` takes the value out of the response, or raises the KafkaError
        in it; `what` names the call in words, for the message if it is too late."""
        call: _Call[T] = _Call(what, request, read, deadline)
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
            else:
                requests.append(self._send(call, now))
                deadline = min(deadline, call.deadline)
        return Poll(deadline, requests)

    def _send(self, call: _Call[Any], now: int) -> Outbound:
        call.is_under_way = True
        node = self._metadata.any_node()

        def on_response(response: Any, now: int) -> None:
            call.is_under_way = False
            if isinstance(response, Failure):
                self._metadata.has_failed(node)
            if not call.promise.kept:
                self._on_response(call, response, now)

        timeout_ms = max(1, min(self._timeout_ms, call.deadline - now))
        return Outbound(CHANNEL, node, call.request, on_response, timeout_ms)

    def _on_response(self, call: _Call[Any], response: Any, now: int) -> None:
        try:
            if response is Failure.UNSUPPORTED_VERSION:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{call.what}: the broker does not speak this API")
            if isinstance(response, Failure):
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, response.value)
            self._finish(call, call.read(response))
        except KafkaError as error:
            if not error.retriable:
                self._finish(call, error)
                return
            call.obstacle = str(error)
            call.not_before = now + self._backoff.pause_ms(call.attempts)
            call.attempts += 1

    def _finish(self, call: _Call[T], result: T | KafkaError) -> None:
        self._calls.remove(call)
        call.promise.keep(result)
