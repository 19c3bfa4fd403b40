"""What a client knows of the cluster: its brokers, and the leader of each partition.

It is asked for when a topic is named for the first time, when a broker says that it does not lead what the client
thought it did, and from time to time. While an answer is under way nothing is asked again; after one there is a pause.
What is known stays in use meanwhile. A broker that has not answered is not asked again while there is another one to
ask: each attempt to connect to a dead broker waits longer (``reconnect.backoff.max.ms``).

A broker's address may change hands. So a new connection says which broker of which cluster it is for; if another one is
there, all that is known of the cluster is forgotten, and the bootstrap addresses are asked (KIP-899, KIP-1242).

A client that was given controllers instead of brokers (``bootstrap.controllers``, KIP-919) asks with DescribeCluster.
What it knows are the controllers and which of them is active: topics and leaders it cannot ask about.

Follows org.apache.kafka.clients.{Metadata,NetworkClient.DefaultMetadataUpdater}.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from pykraft.client.config import (
    METADATA_MAX_AGE_MS,
    RECONNECT_BACKOFF_MAX_MS,
    RECONNECT_BACKOFF_MS,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    client_login,
    client_tls,
)
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import ErrorCode
from pykraft.common.settings.config import Config
from pykraft.common.types import ZERO_UUID, Endpoint, Node, TopicPartition, Uuid
from pykraft.protocol.messages.cluster import (
    CONTROLLER_ENDPOINTS,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)
from pykraft.protocol.messages.data import LeaderIdAndEpoch, NodeEndpoint
from pykraft.protocol.schema import Request
from pykraft.transport.client_channel import Meant

CHANNEL = "metadata"
_FIRST_WITH_ENDPOINT_TYPE = 1
_NO_CONTROLLER = -1


class PartitionLeader(NamedTuple):
    """The leader of a partition, and its epoch; -1 while there is none."""

    leader_id: int
    epoch: int


class TopicMetadata(NamedTuple):
    topic_id: Uuid
    partitions: Mapping[int, PartitionLeader]
    error: ErrorCode
    is_internal: bool = False


def controllers_question() -> DescribeClusterRequest:
    """Which controllers are there, and which is active?"""
    return DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS).at_least(_FIRST_WITH_ENDPOINT_TYPE)


class ClusterMetadata:
    """The newest view of the cluster, and the questions that renew it. It is a RequestManager."""

    def __init__(
        self, config: Config, bootstrap: Sequence[Endpoint], random: Random, of_controllers: bool = False
    ) -> None:
        """`of_controllers`: the addresses are those of controllers, and so are the nodes in `brokers`."""
        self._config = config
        self.login = client_login(config)
        """What this client logs in to every node with; None: nothing."""
        self.tls = client_tls(config)
        """What it shows and trusts, if bytes travel over TLS."""
        self.reconnect_backoff_ms: tuple[int, int] = (config[RECONNECT_BACKOFF_MS], config[RECONNECT_BACKOFF_MAX_MS])
        """The first pause before a connection that failed is tried again, and the longest."""
        self.of_controllers = of_controllers
        self._controller_id = _NO_CONTROLLER
        self._bootstrap = [Node(-1 - number, *endpoint) for number, endpoint in enumerate(bootstrap)]
        self._random = random
        self.cluster_id: str | None = None
        self.brokers: dict[int, Node] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._wanted: set[str] = set()
        self._wants_update = False
        self._in_flight = False
        self._not_before = 0
        self._fresh_until = 0
        self._silent: set[Endpoint] = set()
        self.may_create_topics = True
        """Whether a topic that is asked about is made, if the brokers do so (``auto.create.topics.enable``)."""
        self._wants_all_topics = False
        self.knows_all_topics = False
        """Whether the newest answer named every topic of the cluster."""
        self.version = 0
        """Counts the answers."""
        self.unheard_since: int | None = None
        """When it was asked for the first time, as long as no broker has ever answered."""
        self.forbidding: set[Endpoint] = set()
        """Where this client has not the right to ask."""
        self.wrong_listeners: set[Endpoint] = set()
        """Addresses of the other kind of listener: controllers', or brokers' where controllers are meant."""

    def add_topic(self, topic: str) -> None:
        """From now on, know about this topic."""
        if topic not in self._wanted:
            self._wanted.add(topic)
            if topic not in self.topics:  # else another question has had it for an answer
                self._wants_update = True

    def forget_topic(self, topic: str) -> None:
        """Know nothing of this topic, and ask about it no more, until it is added again."""
        self._wanted.discard(topic)
        self.topics.pop(topic, None)

    def want_all_topics(self, is_wanted: bool) -> None:
        """From now on, know about every topic that there is; or only about those that were added."""
        if is_wanted and not self._wants_all_topics:
            self._wants_update = True
        self._wants_all_topics = is_wanted
        self.knows_all_topics = self.knows_all_topics and is_wanted

    def rest(self) -> None:
        """Ask nothing until something is wanted. Otherwise the brokers are asked for at once."""
        self._fresh_until = FOREVER

    def request_update(self) -> None:
        """Something that is known has turned out to be wrong."""
        self._wants_update = True

    def leader_of(self, topic_partition: TopicPartition) -> Node | None:
        """The broker that leads the partition; None while no leader is known."""
        leader = self._known_leader(topic_partition)
        return None if leader is None else self.brokers.get(leader.leader_id)

    def leader_epoch(self, topic_partition: TopicPartition) -> int:
        leader = self._known_leader(topic_partition)
        return -1 if leader is None else leader.epoch

    def _known_leader(self, topic_partition: TopicPartition) -> PartitionLeader | None:
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def topic_id(self, topic: str) -> Uuid:
        known = self.topics.get(topic)
        return ZERO_UUID if known is None else known.topic_id

    def partitions_of(self, topic: str) -> Sequence[int] | None:
        """The partitions of a topic; None while it is not known."""
        known = self.topics.get(topic)
        return sorted(known.partitions) if known is not None and known.partitions else None

    def any_node(self) -> Node:
        """A node to ask: a known broker; if they are all silent, a bootstrap address; if those are, too, any of
        them."""
        known = [self.brokers[broker_id] for broker_id in sorted(self.brokers)]
        for nodes in (known, self._bootstrap):
            hopeful = [node for node in nodes if node.endpoint not in self._silent]
            if hopeful:
                return self._random.choice(hopeful)
        self._silent.clear()
        return self._random.choice(known + self._bootstrap)

    @property
    def controller(self) -> Node | None:
        """The active controller, for a client of controllers; None while it is not known."""
        return self.brokers.get(self._controller_id)

    def forget_controller(self) -> None:
        """This controller is not the active one any more."""
        self._controller_id = _NO_CONTROLLER
        self._wants_update = True

    @property
    def bootstrap(self) -> Sequence[Endpoint]:
        """The addresses that the client was given."""
        return [node.endpoint for node in self._bootstrap]

    def has_failed(self, node: Node) -> None:
        """It did not answer, or the connection to it broke: it may be dead."""
        self._silent.add(node.endpoint)
        self._wants_update = True

    def meant(self, node: Node) -> Meant | None:
        """Which broker a connection to this node is for; None for a bootstrap address, and for controllers."""
        if self.cluster_id is None or node.id < 0:
            return None
        return Meant(self.cluster_id, node.id)

    def rebootstrap(self) -> None:
        """Forget the cluster, and ask the bootstrap addresses."""
        self.cluster_id = None
        self.brokers = {}
        self.topics = {}
        self.knows_all_topics = False
        self._silent.clear()
        self._wants_update = True

    def poll(self, now: int) -> Poll:
        """Ask, if something is wanted or what is known is old."""
        if self._in_flight:
            return Poll(FOREVER)
        if not self._wants_update and now < self._fresh_until:
            return Poll(self._fresh_until if self.version else FOREVER)
        if now < self._not_before:
            return Poll(self._not_before)
        self._in_flight = True
        self._wants_update = False
        if not self.version and self.unheard_since is None:
            self.unheard_since = now
        of_all = self._wants_all_topics
        request = self._question(of_all)
        timeout_ms = min(self._config[REQUEST_TIMEOUT_MS], 5000)
        node = self.any_node()

        def on_response(response: Any, now: int) -> None:
            self._on_response(node, response, of_all, now)

        return Poll(FOREVER, [Outbound(CHANNEL, node, request, on_response, timeout_ms)])

    def _question(self, of_all: bool) -> Request:
        if self.of_controllers:
            return controllers_question()
        topics = None if of_all else [MetadataRequest.Topic(name=topic) for topic in sorted(self._wanted)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self.may_create_topics)

    def _on_response(self, node: Node, response: Any, of_all: bool, now: int) -> None:
        self._in_flight = False
        self._not_before = now + self._config[RETRY_BACKOFF_MS]
        if isinstance(response, DescribeClusterResponse) and not response.error_code:
            self._fresh_until = now + self._config[METADATA_MAX_AGE_MS]
            self._learn_controllers(response)
            return
        if not isinstance(response, MetadataResponse):
            if _is_wrong_listener(response) and len(self.wrong_listeners) < len(self.bootstrap):
                self.wrong_listeners.add(node.endpoint)
            if _is_unauthorized(response) and len(self.forbidding) < len(self.bootstrap):
                self.forbidding.add(node.endpoint)
            self.has_failed(node)
            return
        self._fresh_until = now + self._config[METADATA_MAX_AGE_MS]
        self.learn(response)
        self.knows_all_topics = of_all and self._wants_all_topics
        if of_all:
            named = {topic.name for topic in response.topics}
            self.topics = {name: known for name, known in self.topics.items() if name in named}
            for name in sorted(self._wanted - self.topics.keys()):
                self.topics[name] = TopicMetadata(ZERO_UUID, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _learn_controllers(self, response: DescribeClusterResponse) -> None:
        """While no controller is active there is an election; a controller names the winner when it knows."""
        self.version += 1
        self.unheard_since = None
        self.brokers = {node.broker_id: Node(node.broker_id, node.host, node.port) for node in response.brokers}
        self._controller_id = response.controller_id
        if self.controller is None:
            self._wants_update = True

    def learn(self, response: MetadataResponse) -> None:
        """Take over what an answer says of the brokers and of some topics. Any client's request will do."""
        self.version += 1
        self.unheard_since = None
        self.cluster_id = response.cluster_id
        self.brokers = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
        }
        for topic in response.topics:
            self._learn(topic)

    def _learn(self, topic: MetadataResponse.Topic) -> None:
        error = ErrorCode.of(topic.error_code)
        partitions = {p.partition_index: self._newer(topic, p) for p in topic.partitions}
        self.topics[topic.name or ""] = TopicMetadata(topic.topic_id, partitions, error, topic.is_internal)
        nobody_leads = any(leader.leader_id < 0 for leader in partitions.values())
        if error.retriable or nobody_leads:
            self._wants_update = True

    def learn_leader(
        self, topic_partition: TopicPartition, leader: LeaderIdAndEpoch, endpoints: Sequence[NodeEndpoint]
    ) -> None:
        """A broker that does not lead the partition any more names the one that does, and its address (KIP-951). A
        partition that is not known, perhaps because a broker that lags behind has answered since, is none by that: a
        topic of which one partition is known would seem to have no other."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition not in topic.partitions:
            return
        if leader.leader_id < 0 or leader.leader_epoch <= self.leader_epoch(topic_partition):
            return
        for endpoint in endpoints:
            self.brokers[endpoint.node_id] = Node(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
        led = {topic_partition.partition: PartitionLeader(leader.leader_id, leader.leader_epoch)}
        self.topics[topic_partition.topic] = topic._replace(partitions={**topic.partitions, **led})

    def _newer(self, topic: MetadataResponse.Topic, partition: MetadataResponse.Topic.Partition) -> PartitionLeader:
        """A broker that lags behind may tell of an older leader than is known already."""
        answered = PartitionLeader(partition.leader_id, partition.leader_epoch)
        before = self.topics.get(topic.name or "")
        if before is None or before.topic_id != topic.topic_id:
            return answered
        known = before.partitions.get(partition.partition_index)
        return known if known is not None and 0 <= answered.epoch < known.epoch else answered


def _is_unauthorized(response: Any) -> bool:
    """Whether a controller has answered that this client may not ask it."""
    is_answer = isinstance(response, DescribeClusterResponse)
    return is_answer and response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _is_wrong_listener(response: Any) -> bool:
    """Whether an answer means that the address is one of the other kind of listener."""
    if isinstance(response, DescribeClusterResponse):
        return response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    return response is Failure.UNSUPPORTED_VERSION
