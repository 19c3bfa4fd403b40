"""A client's core driven by hand: time passes when a test says so, requests are caught, answers are given word by word.

There is no thread, no socket and no server: what a core asks for is a list, and what it hears is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from pykraft.client.config import ADMIN_CONFIG, CONSUMER_CONFIG, PRODUCER_CONFIG, client_config
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import Failure, Outbound, Poll, RequestManager
from pykraft.common.errors import ErrorCode
from pykraft.common.settings.config import Config
from pykraft.common.types import ZERO_UUID, Endpoint, TopicPartition, Uuid
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.protocol.schema import Request

HOST = "127.0.0.1"
BOOTSTRAP = Endpoint(HOST, 9000)
DEFINITIONS = {"producer": PRODUCER_CONFIG, "consumer": CONSUMER_CONFIG, "admin": ADMIN_CONFIG}

R = TypeVar("R", bound=Request)


def settings(kind: str, **given: object) -> Config:
    """A client's configuration: Kafka's defaults but for what is given."""
    return client_config(DEFINITIONS[kind], {"bootstrap_servers": str(BOOTSTRAP), **given})


def topic_id(name: str) -> Uuid:
    """The id that a topic of that name has here."""
    return Uuid(name.encode().ljust(16, b"\0")[:16])


class Script:
    """Polls a core and keeps what it sends."""

    def __init__(self, *cores: RequestManager, now: int = 1000) -> None:
        self.cores = cores
        self.now = now
        self.deadline = 0
        self.sent: list[Outbound] = []
        """What was sent and not answered yet."""

    def poll(self, after_ms: int = 0) -> list[Outbound]:
        """Let time pass and poll; what is new."""
        self.now += after_ms
        polls: list[Poll] = [core.poll(self.now) for core in self.cores]
        self.deadline = min(poll.deadline for poll in polls)
        new = [outbound for poll in polls for outbound in poll.requests]
        self.sent += new
        return new

    def asked(self, request: type[R]) -> R:
        """The one request of this kind that waits for its answer."""
        (found,) = [outbound.request for outbound in self.sent if isinstance(outbound.request, request)]
        return found

    def has_asked(self, request: type[Request]) -> bool:
        return any(isinstance(outbound.request, request) for outbound in self.sent)

    def outbound(self, request: type[Request]) -> Outbound:
        """The oldest request of this kind that waits for its answer."""
        return next(outbound for outbound in self.sent if isinstance(outbound.request, request))

    def answer(self, request: type[Request] | Outbound, response: Any) -> None:
        """Answer the oldest request of this kind, or just this one."""
        outbound = request if isinstance(request, Outbound) else self.outbound(request)
        self.sent.remove(outbound)
        outbound.on_response(response, self.now)

    def fail(self, request: type[Request] | Outbound, failure: Failure = Failure.DISCONNECTED) -> None:
        self.answer(request, failure)


Leaders = Mapping[str, Sequence[tuple[int, int] | None]]
"""By topic, partition by partition, the leader and its epoch; None for a partition without a leader."""


def described(
    leaders: Leaders, brokers: Sequence[int] = (1, 2, 3), errors: Mapping[str, ErrorCode] | None = None
) -> MetadataResponse:
    """Metadata that say so. Brokers listen on ports 9001, 9002, ..."""
    topic_type = MetadataResponse.Topic
    topics = [
        topic_type(
            name=name,
            topic_id=topic_id(name),
            partitions=[
                topic_type.Partition(
                    error_code=ErrorCode.NONE if leader else ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=number,
                    leader_id=leader[0] if leader else -1,
                    leader_epoch=leader[1] if leader else -1,
                    replica_nodes=[1, 2, 3],
                    isr_nodes=[1, 2, 3],
                )
                for number, leader in enumerate(partitions)
            ],
        )
        for name, partitions in leaders.items()
    ]
    for name, error in (errors or {}).items():
        topics.append(topic_type(error_code=error, name=name, topic_id=ZERO_UUID, partitions=[]))
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=n, host=HOST, port=9000 + n) for n in brokers],
        cluster_id="scripted",
        controller_id=1,
        topics=topics,
    )


def knowing(config: Config, leaders: Leaders, seed: int = 1) -> ClusterMetadata:
    """Metadata that a client has heard already."""
    metadata = ClusterMetadata(config, [BOOTSTRAP], Random(seed))
    for name in leaders:
        metadata.add_topic(name)
    learn(metadata, leaders)
    return metadata


def learn(metadata: ClusterMetadata, leaders: Leaders) -> None:
    """The cluster has changed, and the client hears of it (long after it heard of it before)."""
    metadata.request_update()
    script = Script(metadata, now=1_000_000 * (metadata.version + 1))
    script.poll()
    script.answer(MetadataRequest, described(leaders))


def partition(text: str) -> TopicPartition:
    """``t-0`` as a TopicPartition."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))
