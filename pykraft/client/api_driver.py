"""The driver of a client's calls: it sends requests until they are answered, or it is too late.

A call asks for the values of some *keys*: partitions, brokers, configuration resources, groups. It goes through two
stages, which repeat until every key has its value or its error::

    lookup        which node answers for each key? Its strategy knows (`lookups`), or a broker is asked
    fulfillment   the keys of one node go into one request

An error that may pass (`KafkaError.retriable`), a broken connection and a missing answer send their keys, and only
those, back to the lookup, after a pause that grows. Any other error is final. A call that is answered as a whole ends
with the first of them; another kind puts the error in the place of the value, and goes on with the other keys.

``request.timeout.ms`` limits one attempt, the call's deadline (``default.api.timeout.ms`` from its start) all of them.
A client of controllers (``bootstrap.controllers``) may only ask what Kafka's own admin client asks of them (KIP-919).

A request that was carried out, but whose answer was lost, is sent twice: it may then fail because it was already done
("a topic of this name exists"), as with Kafka's own client.

Follows org.apache.kafka.clients.admin.internals.{AdminApiDriver,AdminApiHandler} and
org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, TypeVar

from pykraft.client.arguments import check_sendable
from pykraft.client.config import REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.lookups import (
    ANY_BROKER,
    ANY_NODE,
    BrokerStrategy,
    CoordinatorStrategy,
    K,
    LookupStrategy,
    PartitionLeaderStrategy,
)
from pykraft.client.metadata import CHANNEL as METADATA_CHANNEL
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.timer import Backoff
from pykraft.common.types import Node
from pykraft.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from pykraft.protocol.messages.admin import UnregisterBrokerRequest, UnregisterControllerRequest
from pykraft.protocol.messages.cluster import (
    GROUP_COORDINATOR,
    TRANSACTION_COORDINATOR,
    ApiVersionsRequest,
    DescribeClusterRequest,
)
from pykraft.protocol.messages.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from pykraft.protocol.messages.features import UpdateFeaturesRequest
from pykraft.protocol.messages.quorum import AddRaftVoterRequest, DescribeQuorumRequest, RemoveRaftVoterRequest
from pykraft.protocol.messages.quotas import AlterClientQuotasRequest
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from pykraft.protocol.schema import Request

ADMIN_CHANNEL = "admin"
_ASKED_OF_CONTROLLERS = (
    AddRaftVoterRequest,
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    ApiVersionsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
)
"""Others, such as CreateTopics, a controller serves as well, but for brokers that forward them."""
_MOST_NAMED = 5
V = TypeVar("V")
T = TypeVar("T")
U = TypeVar("U")

Answers = dict[K, V | KafkaError]
OnAnswer = Callable[[K, V | KafkaError], None]
Read = Callable[[Sequence[K], Any], Iterable[tuple[K, V | KafkaError]]]


@dataclass(frozen=True, kw_only=True)
class ApiHandler(Generic[K, V]):
    """How one API is asked, and how its answers are read."""

    what: str
    """The call in words, for messages; the keys without an answer come in the place of "{}"."""
    lookup: LookupStrategy[K]
    request: Callable[[Sequence[K]], Request]
    """The request for these keys, which one node answers. It is called for each attempt."""
    read: Read[K, V]
    """The value or the error of each key that was asked for. KafkaError: the error of all of them."""
    channel: str
    timeout_ms: int | None = None
    """The time for one attempt, where request.timeout.ms is not right."""
    is_retried: bool = True
    """False: the first error is final, also one that may pass. (The lookup of the node is repeated all the same.)"""
    is_ordered: bool = False
    """No key is asked for before the earlier ordered calls for it have been sent: each of them would look up its node
    for itself, and pause for itself, so that a later one may overtake it."""
    pauses_ms: Mapping[ErrorCode, int] = field(default_factory=dict)
    """The pause after an error that passes sooner than others."""

    def named(self, keys: Iterable[K]) -> str:
        """The call in words, with the first of these keys."""
        return self.what.format(", ".join(str(key) for key in list(keys)[:_MOST_NAMED]))


def key_answer(key: K, code: int, value: V) -> tuple[K, V | KafkaError]:
    """What a response says of a key: its value, or its error if the code is not 0."""
    error = ErrorCode.of(code)
    return key, value if error is ErrorCode.NONE else KafkaError(error, f"{key}: {error.text}")


def converted(
    promise: "Promise[T | KafkaError]", convert: "Callable[[T], U | KafkaError]"
) -> "Promise[U | KafkaError]":
    """The value of a promise as something else; an error stays what it is."""
    answer: Promise[U | KafkaError] = Promise()
    promise.then(lambda found: answer.keep(found if isinstance(found, KafkaError) else convert(found)))
    return answer


def chained(
    first: "Promise[T | KafkaError]", ask: "Callable[[T], Promise[U | KafkaError]]"
) -> "Promise[U | KafkaError]":
    """What is asked with the first answer; the first error is the answer to all."""
    answer: Promise[U | KafkaError] = Promise()

    def on_first(found: T | KafkaError) -> None:
        if isinstance(found, KafkaError):
            answer.keep(found)
        else:
            ask(found).then(answer.keep)

    first.then(on_first)
    return answer


class _Call(Generic[K, V]):
    """One call under way. `open` are the keys without a value or a final error, in the order of the question."""

    def __init__(
        self,
        handler: ApiHandler[K, V],
        keys: Iterable[K],
        deadline: int,
        is_whole: bool,
        on_answer: OnAnswer[K, V] | None,
    ) -> None:
        """`is_whole`: the first final error is the answer to the whole call."""
        self.handler = handler
        self.deadline = deadline
        self.is_whole = is_whole
        self.promise: Promise[Any] = Promise()
        self.open = dict.fromkeys(keys)
        self.under_way: set[K] = set()
        self.sent: set[K] = set()
        """Those under way to the node that answers for them."""
        self.answers: dict[K, V | KafkaError] = {}
        self.attempts = 0
        self.not_before = 0
        self.obstacle = "no broker has answered"
        self._on_answer = on_answer

    def settle(self, key: K, answer: V | KafkaError) -> None:
        """This key is done."""
        self.answers[key] = answer
        del self.open[key]
        if self._on_answer is not None:
            self._on_answer(key, answer)


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[K]):
    """A request for some keys of a call. `read` yields None for a key whose lookup succeeded."""

    keys: Sequence[K]
    request: Request
    read: Read[K, Any]
    channel: str
    is_lookup: bool


class ApiDriver:
    """The calls of one client that are not answered yet. It is a RequestManager."""

    def __init__(self, config: Config, metadata: ClusterMetadata, random: Random) -> None:
        self.metadata = metadata
        self.leaders = PartitionLeaderStrategy(metadata)
        self.group_coordinators = CoordinatorStrategy(GROUP_COORDINATOR)
        self.transaction_coordinators = CoordinatorStrategy(TRANSACTION_COORDINATOR)
        self._any_broker: BrokerStrategy[int] = BrokerStrategy(metadata, lambda key: ANY_BROKER)
        self._timeout_ms: int = config[REQUEST_TIMEOUT_MS]
        self._backoff = Backoff(random, config[RETRY_BACKOFF_MS], config[RETRY_BACKOFF_MAX_MS])
        self._calls: list[_Call[Any, Any]] = []

    def ask_all(
        self, handler: ApiHandler[K, V], keys: Iterable[K], deadline: int
    ) -> "Promise[dict[K, V] | KafkaError]":
        """Ask for the value of each of these keys; the first final error ends the call. KafkaError at once if the
        request cannot be sent at all."""
        return self._begin(_Call(handler, keys, deadline, True, None))

    def ask_each(
        self,
        handler: ApiHandler[K, V],
        keys: Iterable[K],
        deadline: int,
        on_answer: OnAnswer[K, V] | None = None,
    ) -> "Promise[Answers[K, V] | KafkaError]":
        """Ask for each of these keys its value or its error; `on_answer` is called with each answer when it arrives.
        KafkaError at once if the request cannot be sent at all."""
        return self._begin(_Call(handler, keys, deadline, False, on_answer))

    def _begin(self, call: _Call[K, V]) -> Promise[Any]:
        if call.open:
            wanted = list(call.open)
            request = call.handler.request(wanted)
            if self.metadata.of_controllers and not isinstance(request, _ASKED_OF_CONTROLLERS):
                what = f"{call.handler.named(wanted)}: controllers are not asked for it: use bootstrap.servers"
                raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, what)
            check_sendable(call.handler.named(wanted), request)
            self._calls.append(call)
        else:
            call.promise.keep({})
        return call.promise

    def ask_any(
        self,
        what: str,
        request: Request,
        read: Callable[[Any], V],
        deadline: int,
        channel: str = ADMIN_CHANNEL,
        timeout_ms: int | None = None,
    ) -> "Promise[V | KafkaError]":
        """Ask one thing that any broker can answer: what only the controller can do, a broker passes on (KIP-590).
        `read` takes the value out of the response, or raises the KafkaError in it."""
        handler: ApiHandler[int, V] = ApiHandler(
            what=what,
            lookup=self._any_broker,
            request=lambda keys: request,
            read=lambda keys, response: [(ANY_BROKER, read(response))],
            channel=channel,
            timeout_ms=timeout_ms,
        )
        return converted(self.ask_all(handler, [ANY_BROKER], deadline), lambda found: found[ANY_BROKER])

    @property
    def obstacle(self) -> str:
        """Why the oldest call is not answered yet, in words."""
        return self._calls[0].obstacle if self._calls else "all calls are answered"

    # --- sending ------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Send what is due, give up what is late."""
        requests: list[Outbound] = []
        deadline = FOREVER
        unsent: set[Any] = set()
        self._calls = [call for call in self._calls if not call.promise.abandoned]
        for call in list(self._calls):
            if now >= call.deadline:
                self._give_up(call)
                deadline = now  # the caller may want to go on, and was polled before this
                continue
            deadline = min(deadline, call.deadline)
            if len(call.sent) == len(call.open):
                continue  # nothing to send: of a thousand commits, nearly all are here
            if call.handler.is_ordered and not unsent.isdisjoint(call.open):
                continue  # an earlier one goes first
            if len(call.under_way) < len(call.open):
                if now < call.not_before:
                    deadline = min(deadline, call.not_before)
                else:
                    requests += self._requests(call, now)
            if call.handler.is_ordered:
                unsent |= call.open.keys() - call.sent
        return Poll(deadline, requests)

    def _requests(self, call: _Call[K, V], now: int) -> list[Outbound]:
        handler = call.handler
        by_node: dict[Node, list[K]] = {}
        lost: list[K] = []
        for key in [key for key in call.open if key not in call.under_way]:
            node = handler.lookup.node_of(key)
            if node is None:
                lost.append(key)
            else:
                by_node.setdefault(node, []).append(key)
        requests = [
            self._send(call, node, _Attempt(keys, handler.request(keys), handler.read, handler.channel, False), now)
            for node, keys in by_node.items()
        ]
        lookup = handler.lookup.request(lost) if lost else None
        if lookup is not None:
            attempt = _Attempt(lost, lookup, handler.lookup.read, METADATA_CHANNEL, True)
            requests.append(self._send(call, ANY_NODE, attempt, now))
        elif lost:
            call.obstacle = handler.lookup.unknown(lost[0])
            self.metadata.request_update()
        return requests

    def _send(self, call: _Call[K, V], node: Node, attempt: _Attempt[K], now: int) -> Outbound:
        call.under_way.update(attempt.keys)
        if not attempt.is_lookup:
            call.sent.update(attempt.keys)
        destination = self.metadata.any_node() if node is ANY_NODE else node

        def on_response(response: Any, now: int) -> None:
            call.under_way.difference_update(attempt.keys)
            call.sent.difference_update(attempt.keys)
            # The next call must know of a broken connection, even if it is too late for this one.
            if isinstance(response, Failure) and response is not Failure.UNSUPPORTED_VERSION:
                self.metadata.has_failed(destination)
                for key in attempt.keys:
                    call.handler.lookup.forget(key, destination, ErrorCode.NETWORK_EXCEPTION)
            if not call.promise.kept and not call.promise.abandoned:
                self._on_response(call, destination, attempt, response, now)

        limit = self._timeout_ms if call.handler.timeout_ms is None else call.handler.timeout_ms
        timeout_ms = max(1, min(limit, call.deadline - now))
        return Outbound(attempt.channel, destination, attempt.request, on_response, timeout_ms)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _on_response(self, call: _Call[K, V], node: Node, attempt: _Attempt[K], response: Any, now: int) -> None:
        obstacle = ""
        pause_ms: int | None = None
        answers: Iterable[tuple[K, Any]]
        try:
            answers = _answers(call, node, attempt, response)
        except KafkaError as error:
            obstacle = str(error) if error.retriable else ""
            answers = [(key, error) for key in attempt.keys]
        has_progress = False
        for key, answer in answers:
            if key not in call.open:
                continue
            if isinstance(answer, KafkaError):
                call.handler.lookup.forget(key, node, answer.code)
                if answer.retriable and (attempt.is_lookup or call.handler.is_retried):
                    obstacle = obstacle or answer.detail or answer.code.text
                    pause_ms = call.handler.pauses_ms.get(answer.code)
                    continue
                if call.is_whole:
                    self._finish(call, answer)
                    return
            has_progress = True
            if not attempt.is_lookup or answer is not None:
                call.settle(key, answer)
        if not call.open:
            self._finish(call, call.answers)
        elif obstacle or not has_progress:
            self._pause(call, obstacle or f"{node.endpoint}: the answer leaves out what was asked for", now, pause_ms)

    def _pause(self, call: _Call[Any, Any], obstacle: str, now: int, pause_ms: int | None) -> None:
        """Try again after `pause_ms`, or after a pause that grows with each attempt."""
        call.obstacle = obstacle
        if pause_ms is None:
            pause_ms = self._backoff.pause_ms(call.attempts)
            call.attempts += 1
        call.not_before = now + pause_ms

    def _give_up(self, call: _Call[Any, Any]) -> None:
        """The deadline is over: the keys that are open get no value."""
        error = ClientTimeoutError(f"{call.handler.named(call.open)}: {call.obstacle}")
        if call.is_whole:
            self._finish(call, error)
            return
        for key in list(call.open):
            call.settle(key, error)
        self._finish(call, call.answers)

    def _finish(self, call: _Call[K, V], result: Answers[K, V] | KafkaError) -> None:
        self._calls.remove(call)
        call.promise.keep(result)


def _answers(call: _Call[K, V], node: Node, attempt: _Attempt[K], response: Any) -> list[tuple[K, Any]]:
    """What the response says of each key. KafkaError: there is no response, or it cannot be read."""
    if response is Failure.UNSUPPORTED_VERSION:
        what = "the broker does not speak this API"
        if node.id < 0:  # nothing is known of it but the address that the user gave
            what = f"{node.endpoint} does not serve this API: it is an older broker, or a controller's port"
        detail = f"{call.handler.named(attempt.keys)}: {what}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
    if isinstance(response, Failure):
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{node.endpoint}: {response.value}")
    try:
        return list(attempt.read(attempt.keys, response))
    except (LookupError, ValueError) as error:
        detail = f"{call.handler.named(attempt.keys)}: the answer makes no sense: {error!r}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail) from None
