"""Talking to brokers from a task: connections that are waited on, and who leads what.

A task of Spark does one thing after the other, so it needs no selector and no thread: it sends a request and waits for
the answer. What goes over the wire, and what an answer means, is in `transport.client_channel`, the core that brokers
and clients use; here it is given a socket.

Answers that say "not now" or "not here" (a leader that was killed, a broker that has just started) are followed by
fresh metadata, a pause and another attempt, until patience ends; the sentence at the end says what the last obstacle
was. Two things are not waited for that long: brokers none of which can be reached at all, and a topic that nobody knows
are most likely a wrong name.

Follows org.apache.kafka.clients.{NetworkClient,consumer.internals.OffsetFetcher}, in one thread.
"""

import random
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Self, TypeVar, cast

from pykraft.client import config as keys
from pykraft.client.errors import ClientTimeoutError
from pykraft.common.config import Config
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError, ProtocolError
from pykraft.common.timer import Backoff
from pykraft.common.types import Endpoint, Node, TopicPartition, Uuid
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import ListOffsetsRequest, ListOffsetsResponse
from pykraft.protocol.schema import Request, Response
from pykraft.transport.client_channel import ClientChannel, UnsupportedVersion

CONNECT_TIMEOUT_S = 10.0
FIRST_CONTACT_S = 5.0
"""Brokers may still be starting; a wrong address stays one."""
UNKNOWN_TOPIC_S = 2.0
"""The news of a fresh topic may take a moment to reach the broker that is asked."""
_NEWS = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID)

T = TypeVar("T")

BROKEN = (OSError, EOFError, ProtocolError)
"""What ends a connection."""


class UnreachableError(OSError):
    """No connection came about. `why` says it without the address."""

    def __init__(self, endpoint: Endpoint, why: str) -> None:
        super().__init__(f"broker {endpoint} cannot be reached ({why})")
        self.why = why


class Connection:
    """An open connection to one broker, which has said what it speaks. OSError, EOFError, ProtocolError: it is over."""

    def __init__(self, endpoint: Endpoint, client_id: str, timeout_s: float) -> None:
        self.endpoint = endpoint
        self._channel = ClientChannel(client_id)
        self._muted_until = 0.0
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), min(timeout_s, CONNECT_TIMEOUT_S))
        except OSError as error:
            raise UnreachableError(endpoint, in_words(error)) from None
        except UnicodeError:
            raise UnreachableError(endpoint, "no host can have this name") from None
        try:
            self._socket.settimeout(timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._write(self._channel.greet())
            while not self._channel.is_ready:
                self._receive_some()
                self._next_response()
        except BaseException:
            self.close()
            raise

    def ask(self, request: Request) -> Response:
        """The answer to a request, waited for."""
        self.send(request)
        return self.receive()

    def send(self, request: Request) -> None:
        """Send a request whose answer is fetched later. KafkaError if the broker speaks no version of it. A broker that
        has asked for a pause, because this client's quota is used up, is given it first (KIP-219)."""
        time.sleep(self.pause_s)
        try:
            parts = self._channel.send(request, request)
        except UnsupportedVersion as reason:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(reason)) from None
        self._write(parts)

    def receive(self) -> Response:
        """The answer to the oldest request that has none yet. What it holds of records is a view, valid until the next
        call."""
        while (response := self._next_response()) is None:
            self._receive_some()
        self._muted_until = time.monotonic() + getattr(response, "throttle_time_ms", 0) / 1000
        return response

    @property
    def pause_s(self) -> float:
        """How long the broker does not want to hear anything."""
        return max(0.0, self._muted_until - time.monotonic())

    def _next_response(self) -> Response | None:
        answer = self._channel.next_response()
        if self._channel.greeting_again is not None:
            self._write(self._channel.greeting_again)
            self._channel.greeting_again = None
        return None if answer is None else answer[1]

    def _receive_some(self) -> None:
        count = self._socket.recv_into(self._channel.frames.space())
        if not count:
            raise EOFError("the broker closed the connection")
        self._channel.frames.received(count)

    def _write(self, parts: Iterable[bytes]) -> None:
        self._socket.sendall(b"".join(parts))

    def close(self) -> None:
        self._socket.close()


class Leader(NamedTuple):
    """Who leads a partition, under which epoch, and the id of its topic."""

    node: Node
    epoch: int
    topic_id: Uuid


class Brokers:
    """A cluster, as one task or the planning of one query sees it. To be used from one thread, and closed."""

    def __init__(self, config: Config, patience_ms: int) -> None:
        self._config = config
        self._patience_s = patience_ms / 1000
        self._bootstrap = keys.bootstrap_endpoints(config)
        self._backoff = Backoff(random.Random(), config[keys.RETRY_BACKOFF_MS], config[keys.RETRY_BACKOFF_MAX_MS])
        self._connections: dict[Endpoint, Connection] = {}
        self._nodes: dict[int, Node] = {}
        self._topics: dict[str, MetadataResponse.Topic] = {}
        self._isolation_level = int(config[keys.ISOLATION_LEVEL] == "read_committed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- what there is ------------------------------------------------------------------------------------------------

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of these topics, in order. KafkaError if there is no such topic."""
        return self.retried("reading the cluster's metadata", lambda: self._partitions(sorted(set(topics))))

    def _partitions(self, topics: list[str]) -> list[TopicPartition]:
        self._refresh(topics)
        return [
            TopicPartition(topic, number)
            for topic in topics
            for number in sorted(partition.partition_index for partition in self._topics[topic].partitions)
        ]

    def existing_partitions(self, topics: Iterable[str] | None) -> list[TopicPartition]:
        """The partitions, in order, of those of the topics that exist; of None, of all topics but Kafka's own."""
        asked = None if topics is None else sorted(set(topics))

        def ask() -> list[TopicPartition]:
            found = []
            for topic in self._metadata(asked).topics:
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or (asked is None and topic.is_internal):
                    continue
                self._note(topic)
                found += [TopicPartition(topic.name or "", each.partition_index) for each in topic.partitions]
            return sorted(found)

        return self.retried("reading the cluster's metadata", ask)

    def topic_id(self, topic: str) -> Uuid:
        """The id of a topic whose partitions were asked for; `ZERO_UUID` if its brokers have no ids."""
        return self._topics[topic].topic_id

    def leader(self, partition: TopicPartition) -> Leader:
        """Who leads the partition, as far as is known. KafkaError if nobody does, or there is no such partition."""
        if partition.topic not in self._topics:
            self._refresh([partition.topic])
        topic = self._topics[partition.topic]
        found = next((p for p in topic.partitions if p.partition_index == partition.partition), None)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {partition.topic} has {len(topic.partitions)} partitions, and none has number"
                f" {partition.partition}",
            )
        if found.leader_id not in self._nodes:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment")
        return Leader(self._nodes[found.leader_id], found.leader_epoch, topic.topic_id)

    def _refresh(self, topics: list[str]) -> None:
        for topic in self._metadata(topics).topics:
            self._note(topic)
        missing = [topic for topic in topics if topic not in self._topics]
        if missing:
            raise ProtocolError(f"an answer about {missing[0]!r} does not name it")

    def _note(self, topic: MetadataResponse.Topic) -> None:
        """Remember an answer about a topic; KafkaError if it is an error."""
        name = topic.name or ""
        error = ErrorCode.of(topic.error_code)
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(error, f"there is no topic {name!r} on {self._known_as()}")
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"topic {name!r}: {error.text}")
        self._topics[name] = topic

    def _metadata(self, topics: list[str] | None) -> MetadataResponse:
        asked = None if topics is None else [MetadataRequest.Topic(name=topic) for topic in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response = cast(MetadataResponse, self._ask_anybody(request))
        self._nodes = {broker.node_id: Node(broker.node_id, broker.host, broker.port) for broker in response.brokers}
        return response

    # --- offsets ------------------------------------------------------------------------------------------------------

    def offsets(self, marks: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offsets at these marks: at a timestamp in milliseconds, or one of the negative marks of ListOffsets. -1
        where no record is as young."""
        found: dict[TopicPartition, int] = {}

        def ask() -> dict[TopicPartition, int]:
            by_leader: dict[Node, list[TopicPartition]] = {}
            for partition in sorted(marks.keys() - found.keys()):
                by_leader.setdefault(self.leader(partition).node, []).append(partition)
            for node, partitions in by_leader.items():
                found.update(self._offsets_at(node, {partition: marks[partition] for partition in partitions}))
            return found

        return self.retried("asking for offsets", ask)

    def _offsets_at(self, node: Node, marks: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        asked: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
        for partition, mark in marks.items():
            asked.setdefault(partition.topic, []).append(
                ListOffsetsRequest.Topic.Partition(
                    partition_index=partition.partition,
                    current_leader_epoch=self.leader(partition).epoch,
                    timestamp=mark,
                )
            )
        request = ListOffsetsRequest(
            isolation_level=self._isolation_level,
            topics=[ListOffsetsRequest.Topic(name=topic, partitions=parts) for topic, parts in asked.items()],
            timeout_ms=self._config[keys.REQUEST_TIMEOUT_MS],
        )
        response = cast(ListOffsetsResponse, self._ask(node.endpoint, request))
        found = {}
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(topic.name, answer.partition_index)
                if answer.error_code:
                    error = ErrorCode.of(answer.error_code)
                    raise KafkaError(error, f"{partition}: {error.text}")
                found[partition] = answer.offset
        if found.keys() != marks.keys():
            raise ProtocolError("an answer about offsets does not say what was asked")
        return found

    # --- asking -------------------------------------------------------------------------------------------------------

    def connect(self, endpoint: Endpoint, timeout_ms: int = 0) -> Connection:
        """A new connection, the caller's own; an answer may take `timeout_ms` longer than others."""
        timeout_s = (self._config[keys.REQUEST_TIMEOUT_MS] + timeout_ms) / 1000
        return Connection(endpoint, self._config[keys.CLIENT_ID] or "pykraft-spark", timeout_s)

    def _ask(self, endpoint: Endpoint, request: Request) -> Response:
        if endpoint not in self._connections:
            self._connections[endpoint] = self.connect(endpoint)
        try:
            return self._connections[endpoint].ask(request)
        except BROKEN:
            self._connections.pop(endpoint).close()
            raise

    def _ask_anybody(self, request: Request) -> Response:
        """Ask the brokers that are known, one after the other, until one answers."""
        endpoints = [node.endpoint for node in self._nodes.values()] + self._bootstrap
        obstacle: Exception = EOFError("there is nobody to ask")
        for endpoint in dict.fromkeys(endpoints):
            try:
                return self._ask(endpoint, request)
            except BROKEN as error:
                obstacle = error
        raise obstacle

    def retried(self, what: str, attempt: Callable[[], T]) -> T:
        """What `attempt` returns, repeated while there is hope. ClientTimeoutError at the end of patience, or the
        KafkaError that there is no hope for."""
        began = time.monotonic()
        attempts = 0
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if not error.retriable or isinstance(error, CorruptRecordError):
                    raise
                obstacle: Exception = error
            except BROKEN as error:
                obstacle = error
            self._topics.clear()
            self._give_up_or_pause(what, obstacle, time.monotonic() - began, attempts)
            attempts += 1

    def _give_up_or_pause(self, what: str, obstacle: Exception, waited_s: float, attempts: int) -> None:
        """Wait before the next attempt, or raise if there has been enough waiting."""
        is_unknown = isinstance(obstacle, KafkaError) and obstacle.code in _NEWS
        if is_unknown and waited_s > UNKNOWN_TOPIC_S:
            raise obstacle
        if not self._nodes and waited_s > FIRST_CONTACT_S:
            why = obstacle.why if isinstance(obstacle, UnreachableError) else in_words(obstacle)
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"no broker answers on {self._known_as()} ({why}): does it run, and is kafka.bootstrap.servers right?",
            )
        if waited_s > self._patience_s:
            raise ClientTimeoutError(f"{what} failed for {waited_s:.0f} s, at last because {in_words(obstacle)}")
        time.sleep(min(self._backoff.pause_ms(attempts) / 1000, max(0.0, self._patience_s - waited_s) + 0.001))

    def _known_as(self) -> str:
        return ", ".join(map(str, self._bootstrap))


def in_words(obstacle: Exception) -> str:
    """What went wrong, without a code's name in front."""
    if isinstance(obstacle, KafkaError):
        return obstacle.detail or obstacle.code.text
    return getattr(obstacle, "strerror", None) or str(obstacle) or type(obstacle).__name__
