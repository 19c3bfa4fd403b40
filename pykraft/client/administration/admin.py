"""What an administrator asks of a cluster, in Python's words, and how the answers read.

Follows org.apache.kafka.clients.admin.{Admin,NewTopic,NewPartitions,TopicDescription,DescribeClusterResult,QuorumInfo}.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from pykraft.client.administration.configs import setting_text
from pykraft.client.api_driver import ADMIN_CHANNEL, Answers, ApiDriver, ApiHandler, converted, key_answer
from pykraft.client.arguments import LARGEST_INT32, whole_number
from pykraft.client.lookups import BrokerStrategy
from pykraft.client.metadata import controllers_question
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import METADATA_TOPIC, ZERO_UUID, Node, Uuid
from pykraft.protocol.messages.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
    TopicPartitionCursor,
)
from pykraft.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ListenerEndpoint,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

CLUSTER_DEFAULT = -1
PARTITIONS_PER_RESPONSE = 2000


@dataclass(frozen=True)
class NewTopic:
    """A topic to make. -1 takes the cluster's default; `replica_assignments` (partition to broker ids, the first one
    leads) takes the place of both numbers."""

    name: str
    num_partitions: int = CLUSTER_DEFAULT
    replication_factor: int = CLUSTER_DEFAULT
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    topic_configs: Mapping[str, object] = field(default_factory=dict)


def new_topic(topic: Any) -> NewTopic:
    """What is to be made. TypeError if it does not say so."""
    if not isinstance(topic, NewTopic):
        raise TypeError(f"a topic is made of NewTopic(name, num_partitions, replication_factor), not of {topic!r}")
    return topic


@dataclass(frozen=True)
class NewPartitions:
    """How many partitions a topic is to have in all. `new_assignments` names the brokers of each new one, in order, the
    first one leads; without it the controller chooses."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


def new_partitions(wanted: Any) -> NewPartitions:
    """What a topic is to have. TypeError unless it is NewPartitions or a number."""
    found = wanted if isinstance(wanted, NewPartitions) else NewPartitions(wanted)
    whole_number("the number of partitions", found.total_count, LARGEST_INT32)
    return found


class PartitionDescription(NamedTuple):
    """One partition; the leader is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Replicas outside the ISR that hold everything committed (KIP-966). None: the brokers are too old to say."""
    last_known_elr: tuple[int, ...] | None = None
    """Those that were eligible before, and may have lost records since."""


class TopicDescription(NamedTuple):
    """One topic."""

    name: str
    topic_id: Uuid
    partitions: tuple[PartitionDescription, ...]


class ClusterDescription(NamedTuple):
    """The brokers, and the one that answers for the controller; or the controllers, and the one that is active. Fenced
    brokers are among them only if they were asked for; `fenced` has their ids."""

    cluster_id: str
    controller_id: int
    brokers: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()


class QuorumReplica(NamedTuple):
    """A voter or an observer of the metadata log, as the leader sees it; times are milliseconds since 1970, -1 if not
    known."""

    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    directory_id: Uuid = ZERO_UUID
    """Of its metadata directory; zero where voters are known by their ids alone."""


class QuorumDescription(NamedTuple):
    """The metadata quorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[str, ...]] = MappingProxyType({})
    """Where each voter can be reached, as ``LISTENER://host:port``, by its id."""


class ApiVersions(NamedTuple):
    """What one broker serves."""

    versions: Mapping[int, tuple[int, int]]
    """The lowest and the highest version by the key of the API."""


class AdminCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    # --- topics -------------------------------------------------------------------------------------------------------

    def create_topics(
        self, topics: Iterable[NewTopic], validate_only: bool, timeout_ms: int, deadline: int
    ) -> "Promise[dict[str, Uuid] | KafkaError]":
        """Names and ids of the topics that were made."""
        request_type = CreateTopicsRequest.Topic
        request = CreateTopicsRequest(
            topics=[
                request_type(
                    name=topic.name,
                    num_partitions=CLUSTER_DEFAULT if topic.replica_assignments else topic.num_partitions,
                    replication_factor=CLUSTER_DEFAULT if topic.replica_assignments else topic.replication_factor,
                    assignments=[
                        request_type.Assignment(partition_index=partition, broker_ids=list(brokers))
                        for partition, brokers in sorted(topic.replica_assignments.items())
                    ],
                    configs=[
                        request_type.Config(name=name, value=setting_text(value))
                        for name, value in sorted(topic.topic_configs.items())
                    ],
                )
                for topic in topics
            ],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )

        def read(response: CreateTopicsResponse) -> dict[str, Uuid]:
            for topic in response.topics:
                _check(topic.error_code, topic.name, topic.error_message)
            return {topic.name: topic.topic_id for topic in response.topics}

        return self._driver.ask_any("to create topics", request, read, deadline)

    def create_partitions(
        self, topics: Mapping[str, NewPartitions], validate_only: bool, timeout_ms: int, deadline: int
    ) -> "Promise[KafkaError | None]":
        topic_type = CreatePartitionsRequest.Topic
        request = CreatePartitionsRequest(
            topics=[
                topic_type(
                    name=name,
                    count=wanted.total_count,
                    assignments=None
                    if wanted.new_assignments is None
                    else [topic_type.Assignment(broker_ids=list(brokers)) for brokers in wanted.new_assignments],
                )
                for name, wanted in topics.items()
            ],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )

        def read(response: CreatePartitionsResponse) -> None:
            for topic in response.results:
                _check_topic(topic.error_code, topic.name, topic.error_message)

        return self._driver.ask_any("to create partitions", request, read, deadline)

    def delete_topics(self, names: Iterable[str], timeout_ms: int, deadline: int) -> "Promise[KafkaError | None]":
        names = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.Topic(name=name) for name in names], topic_names=names, timeout_ms=timeout_ms
        )

        def read(response: DeleteTopicsResponse) -> None:
            for topic in response.responses:
                _check_topic(topic.error_code, topic.name or "", topic.error_message)

        return self._driver.ask_any("to delete topics", request, read, deadline)

    def list_topics(self, deadline: int) -> "Promise[list[str] | KafkaError]":
        """The names of all topics, in order."""
        return converted(self._describe_by_metadata(None, deadline), sorted)

    def describe_topics(
        self, names: Iterable[str] | None, deadline: int, partition_limit: int = PARTITIONS_PER_RESPONSE
    ) -> "Promise[dict[str, TopicDescription] | KafkaError]":
        """These topics, or all: `partition_limit` partitions in one response, so many responses for large topics.
        Older brokers do not serve DescribeTopicPartitions, and are asked for metadata instead."""
        wanted = None if names is None else sorted(set(names))
        answer: Promise[dict[str, TopicDescription] | KafkaError] = Promise()
        if wanted is not None and not wanted:
            answer.keep({})  # to name no topic means all
            return answer
        pages = _TopicPages(wanted, partition_limit)

        def ask(request: DescribeTopicPartitionsRequest) -> None:
            self._driver.ask_any("to describe topics", request, pages.take, deadline).then(go_on)

        def go_on(request: DescribeTopicPartitionsRequest | KafkaError | None) -> None:
            if isinstance(request, DescribeTopicPartitionsRequest):
                ask(request)
            elif request is None:
                answer.keep(pages.described())
            elif request.code is ErrorCode.UNSUPPORTED_VERSION:
                self._describe_by_metadata(wanted, deadline).then(answer.keep)
            else:
                answer.keep(request)

        ask(pages.request(None))
        return answer

    def _describe_by_metadata(
        self, names: Iterable[str] | None, deadline: int
    ) -> "Promise[dict[str, TopicDescription] | KafkaError]":
        wanted = None if names is None else [MetadataRequest.Topic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        def read(response: MetadataResponse) -> dict[str, TopicDescription]:
            for topic in response.topics:
                _check_topic(topic.error_code, topic.name or "", None)
            return {
                topic.name or "": TopicDescription(topic.name or "", topic.topic_id, _partitions(topic.partitions))
                for topic in response.topics
            }

        return self._driver.ask_any("to describe topics", request, read, deadline)

    # --- cluster ------------------------------------------------------------------------------------------------------

    def describe_cluster(
        self, deadline: int, include_fenced_brokers: bool = False
    ) -> "Promise[ClusterDescription | KafkaError]":
        def read(response: DescribeClusterResponse) -> ClusterDescription:
            _check(response.error_code, "cluster", response.error_message)
            brokers = tuple(Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers)
            fenced = frozenset(b.broker_id for b in response.brokers if b.is_fenced)
            return ClusterDescription(response.cluster_id, response.controller_id, brokers, fenced)

        request = DescribeClusterRequest(include_fenced_brokers=include_fenced_brokers)
        if self._driver.metadata.of_controllers:
            if include_fenced_brokers:
                raise ValueError("fenced brokers are listed by brokers: use bootstrap.servers")
            request = controllers_question()
        return self._driver.ask_any("to describe the cluster", request, read, deadline)

    def unregister_broker(self, broker_id: int, deadline: int) -> "Promise[KafkaError | None]":
        def read(response: UnregisterBrokerResponse) -> None:
            _check(response.error_code, f"broker {broker_id}", response.error_message)

        request = UnregisterBrokerRequest(broker_id=broker_id)
        return self._driver.ask_any("to unregister a broker", request, read, deadline)

    def unregister_controller(self, controller_id: int, deadline: int) -> "Promise[KafkaError | None]":
        def read(response: UnregisterControllerResponse) -> None:
            _check(response.error_code, f"controller {controller_id}", response.error_message)

        request = UnregisterControllerRequest(controller_id=controller_id)
        return self._driver.ask_any("to unregister a controller", request, read, deadline)

    def describe_api_versions(
        self, brokers: Iterable[int], deadline: int
    ) -> "Promise[Answers[int, ApiVersions] | KafkaError]":
        """What each of these brokers serves; one that is gone has its error."""

        def read(asked: Sequence[int], response: ApiVersionsResponse) -> Iterator[tuple[int, ApiVersions | KafkaError]]:
            for broker in asked:
                versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
                yield key_answer(broker, response.error_code, ApiVersions(versions))

        handler = ApiHandler(
            what="the API versions of brokers {}",
            lookup=BrokerStrategy(self._driver.metadata, lambda broker: broker),
            request=lambda asked: ApiVersionsRequest(client_software_name="pykraft", client_software_version="1"),
            read=read,
            channel=ADMIN_CHANNEL,
        )
        return self._driver.ask_each(handler, sorted(brokers), deadline)

    def describe_quorum(self, deadline: int) -> "Promise[QuorumDescription | KafkaError]":
        topic_type = DescribeQuorumRequest.Topic
        request = DescribeQuorumRequest(
            topics=[topic_type(topic_name=METADATA_TOPIC, partitions=[topic_type.Partition(partition_index=0)])]
        )

        def read(response: DescribeQuorumResponse) -> QuorumDescription:
            _check(response.error_code, "quorum", response.error_message)
            partition = response.topics[0].partitions[0]
            _check(partition.error_code, "quorum", partition.error_message)
            return QuorumDescription(
                partition.leader_id,
                partition.leader_epoch,
                partition.high_watermark,
                tuple(_replica(state) for state in partition.current_voters),
                tuple(_replica(state) for state in partition.observers),
                {node.node_id: tuple(map(_address, node.listeners)) for node in response.nodes},
            )

        return self._driver.ask_any("to describe the quorum", request, read, deadline)

    def change_voters(
        self, request: AddRaftVoterRequest | RemoveRaftVoterRequest, deadline: int
    ) -> "Promise[KafkaError | None]":
        def read(response: AddRaftVoterResponse | RemoveRaftVoterResponse) -> None:
            if response.error_code in _NOT_THE_LEADER:
                _check(response.error_code, "quorum", response.error_message)
            if response.error_code:
                raise VoterChangeError(ErrorCode.of(response.error_code), response.error_message)

        verb = "add" if isinstance(request, AddRaftVoterRequest) else "remove"
        return self._driver.ask_any(f"to {verb} voter {request.voter_id}", request, read, deadline)


_NOT_THE_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER)


class VoterChangeError(KafkaError):
    """The leader does not change the voters. It is not asked again: a change whose time was up may have been made."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(error, message or error.text)

    @property
    def retriable(self) -> bool:
        return False


class UnknownTopicError(KafkaError):
    """There is no such topic. For an administrator this is an answer, not a reason to ask again."""

    def __init__(self, topic: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")

    @property
    def retriable(self) -> bool:
        return False


def _check(code: int, subject: str, message: str | None) -> None:
    if code:
        error = ErrorCode.of(code)
        raise KafkaError(error, f"{subject}: {message or error.text}")


def _check_topic(code: int, name: str, message: str | None) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopicError(name)
    _check(code, name, message)


class _TopicPages:
    """A description that comes in several responses. A topic that is cut in two has its second half in the next."""

    def __init__(self, names: Sequence[str] | None, partition_limit: int) -> None:
        """`names` are in order; None means all topics."""
        self._names = names
        self._limit = partition_limit
        self._ids: dict[str, Uuid] = {}
        self._partitions: dict[str, list[PartitionDescription]] = {}

    def request(self, cursor: TopicPartitionCursor | None) -> DescribeTopicPartitionsRequest:
        """Ask for what comes at the cursor and after it."""
        names = [name for name in self._names or () if cursor is None or name >= cursor.topic_name]
        return DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.Topic(name=name) for name in names],
            response_partition_limit=self._limit,
            cursor=cursor,
        )

    def take(self, response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsRequest | None:
        """Take one response in; the request for the next one, None after the last. KafkaError: a topic has one."""
        for topic in response.topics:
            _check_topic(topic.error_code, topic.name or "", None)
        for topic in response.topics:
            name = topic.name or ""
            if self._ids.setdefault(name, topic.topic_id) != topic.topic_id:  # deleted and created again meanwhile
                self._ids[name] = topic.topic_id
                self._partitions[name] = []
            self._partitions.setdefault(name, []).extend(_partitions(topic.partitions))
        return None if response.next_cursor is None else self.request(response.next_cursor)

    def described(self) -> dict[str, TopicDescription]:
        return {
            name: TopicDescription(name, self._ids[name], tuple(partitions))
            for name, partitions in self._partitions.items()
        }


def _partitions(
    partitions: Iterable[MetadataResponse.Topic.Partition | DescribeTopicPartitionsResponse.Topic.Partition],
) -> tuple[PartitionDescription, ...]:
    return tuple(
        PartitionDescription(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            _optional(getattr(partition, "eligible_leader_replicas", None)),
            _optional(getattr(partition, "last_known_elr", None)),
        )
        for partition in sorted(partitions, key=lambda partition: partition.partition_index)
    )


def _optional(brokers: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if brokers is None else tuple(brokers)


def _replica(state: DescribeQuorumResponse.Topic.Partition.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        state.replica_directory_id,
    )


def _address(listener: ListenerEndpoint) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{listener.name}://{host}:{listener.port}"
