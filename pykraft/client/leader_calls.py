"""A question about partitions that only their leaders can answer: where offsets are, what is to be deleted.

All partitions of one leader go into one request. A leader that has moved, or cannot answer yet, is asked again after a
pause, until the time is up. A refusal that will not change ends a question of the kind that is answered as a whole;
another kind is answered partition by partition, with the error in the place of the answer, and whoever does not want
to wait for the slowest partition is told of each one as it is answered.

Follows org.apache.kafka.clients.admin.internals.{PartitionLeaderStrategy,AdminApiDriver} and
org.apache.kafka.clients.consumer.internals.OffsetFetcher.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from pykraft.client.arguments import check_sendable
from pykraft.client.config import REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.config import Config
from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.timer import Backoff
from pykraft.common.types import Node, TopicPartition
from pykraft.protocol.schema import Request

CHANNEL = "metadata"
V = TypeVar("V")


class LeaderAnswer(NamedTuple, Generic[V]):
    """What a leader says of one partition."""

    topic_partition: TopicPartition
    error: ErrorCode
    value: V


@dataclass(frozen=True, kw_only=True)
class Question(Generic[V]):
    """How a question is asked and its answer read."""

    api: str
    """The API's name, for who does not speak it."""
    too_late: str
    """What is said if the time is up; the partitions that are not answered come in the place of "{}"."""
    request: Callable[[Sequence[TopicPartition]], Request]
    read: Callable[[Any], Iterable[LeaderAnswer[V]]]
    is_whole: bool
    """Whether one partition's refusal ends it."""


Answers = Mapping[TopicPartition, V | KafkaError]
OnAnswer = Callable[[TopicPartition, V | KafkaError], None]


class _Call(Generic[V]):
    """What one caller wants to know."""

    def __init__(
        self, question: Question[V], asked: Iterable[TopicPartition], deadline: int, on_answer: OnAnswer[V] | None
    ) -> None:
        self.question = question
        self.deadline = deadline
        self._on_answer = on_answer
        self.promise: Promise[Answers[V] | KafkaError] = Promise()
        self.open = set(asked)
        self.under_way: set[TopicPartition] = set()
        self.found: dict[TopicPartition, V | KafkaError] = {}
        self.attempts = 0
        self.not_before = 0
        self.obstacle = "no leader is known"

    def settle(self, topic_partition: TopicPartition, answer: V | KafkaError) -> None:
        """This partition is answered."""
        self.found[topic_partition] = answer
        self.open.discard(topic_partition)
        if self._on_answer is not None:
            self._on_answer(topic_partition, answer)


class LeaderCalls:
    """Asks the leaders. It is a RequestManager."""

    def __init__(self, config: Config, metadata: ClusterMetadata, random: Random) -> None:
        self._timeout_ms: int = config[REQUEST_TIMEOUT_MS]
        self._metadata = metadata
        self._backoff = Backoff(random, config[RETRY_BACKOFF_MS], config[RETRY_BACKOFF_MAX_MS])
        self._calls: list[_Call[Any]] = []

    def ask(
        self,
        question: Question[V],
        asked: Iterable[TopicPartition],
        deadline: int,
        on_answer: OnAnswer[V] | None = None,
    ) -> "Promise[Answers[V] | KafkaError]":
        """The answer for each of these partitions. `on_answer` is told of each one as it comes. KafkaError at once if
        the question cannot be sent at all."""
        call = _Call(question, asked, deadline, on_answer)
        check_sendable(question.api, question.request(sorted(call.open)))
        for topic_partition in sorted(call.open):
            self._metadata.add_topic(topic_partition.topic)
        if call.open:
            self._calls.append(call)
        else:
            call.promise.keep({})
        return call.promise

    def poll(self, now: int) -> Poll:
        """Ask what is not under way; give up what is late."""
        requests: list[Outbound] = []
        deadline = FOREVER
        for call in list(self._calls):
            if now >= call.deadline:
                what = ", ".join(str(key) for key in sorted(call.open)[:5])
                self._fail(call, ClientTimeoutError(f"{call.question.too_late.format(what)}: {call.obstacle}"))
                continue
            deadline = min(deadline, call.deadline)
            if now < call.not_before:
                deadline = min(deadline, call.not_before)
            else:
                requests += self._requests(call)
        return Poll(deadline, requests)

    def _requests(self, call: _Call[Any]) -> list[Outbound]:
        by_node: dict[Node, list[TopicPartition]] = {}
        for topic_partition in sorted(call.open - call.under_way):
            node = self._metadata.leader_of(topic_partition)
            if node is None:
                self._metadata.request_update()
            else:
                by_node.setdefault(node, []).append(topic_partition)
        return [self._request(call, node, keys) for node, keys in by_node.items()]

    def _request(self, call: _Call[Any], node: Node, asked: list[TopicPartition]) -> Outbound:
        call.under_way.update(asked)

        def on_response(response: Any, now: int) -> None:
            call.under_way.difference_update(asked)
            if not call.promise.kept:
                self._on_response(call, response, now)

        return Outbound(CHANNEL, node, call.question.request(asked), on_response, self._timeout_ms)

    def _on_response(self, call: _Call[Any], response: Any, now: int) -> None:
        if response is Failure.UNSUPPORTED_VERSION:
            detail = f"a broker does not speak {call.question.api}"
            self._fail(call, KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail))
            return
        if isinstance(response, Failure):
            self._ask_again(call, f"a broker did not answer ({response.value})", now)
            return
        for key, error, value in call.question.read(response):
            if key not in call.open:
                continue
            if error.retriable:
                self._ask_again(call, f"{key}: {error.text}", now)
                continue
            if error is not ErrorCode.NONE and call.question.is_whole:
                self._fail(call, KafkaError(error, f"{key}: {error.text}"))
                return
            call.settle(key, value if error is ErrorCode.NONE else KafkaError(error, f"{key}: {error.text}"))
        if not call.open:
            self._finish(call, call.found)

    def _ask_again(self, call: _Call[Any], obstacle: str, now: int) -> None:
        call.obstacle = obstacle
        call.not_before = now + self._backoff.pause_ms(call.attempts)
        call.attempts += 1
        self._metadata.request_update()

    def _fail(self, call: _Call[Any], error: KafkaError) -> None:
        """What is not answered yet will not be."""
        if call.question.is_whole:
            self._finish(call, error)
            return
        for key in sorted(call.open):
            call.settle(key, error)
        self._finish(call, call.found)

    def _finish(self, call: _Call[V], result: Answers[V] | KafkaError) -> None:
        self._calls.remove(call)
        call.promise.keep(result)
