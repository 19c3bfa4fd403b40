"""Messages that change the cluster for an administrator: CreateTopics, CreatePartitions, DeleteTopics,
UnregisterBroker, and UnregisterController.

A client sends them to any broker, which forwards them in an Envelope to the active controller (KIP-590). They are
answered when the change is committed in the metadata log; brokers may see it a moment later.
"""

from pykraft.common.errors import KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.listeners import BOTH
from pykraft.protocol.schema import (
    Array,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    string,
    uuid,
)

CLUSTER_DEFAULT = -1


class CreateTopicsRequest(Request, api=19, versions=(2, 7), flexible=5, listeners=BOTH, forwardable=True):
    """Make these topics. `assignments` says which broker holds what; where it is empty, the controller places
    `num_partitions` times `replication_factor` replicas, -1 meaning the cluster's defaults (KIP-464)."""

    class Topic(Struct):
        class Assignment(Struct):
            partition_index: int32
            broker_ids: Array[int32]

        class Config(Struct):
            name: string
            value: string | None

        name: string
        num_partitions: int32 = field(default=CLUSTER_DEFAULT)
        replication_factor: int16 = field(default=CLUSTER_DEFAULT)
        assignments: Array[Assignment]
        configs: Array[Config]

    topics: Array[Topic]
    timeout_ms: int32 = field(default=60_000)
    # Check everything and answer as if it were done, but change nothing.
    validate_only: boolean = field(default=False)

    def refusal(self, error: KafkaError) -> "CreateTopicsResponse":
        """Each topic gets the error."""
        topic_type = CreateTopicsResponse.Topic
        code, message = error.code, error.detail or None
        return CreateTopicsResponse(
            topics=[topic_type(name=topic.name, error_code=code, error_message=message) for topic in self.topics]
        )


class CreateTopicsResponse(Response, to=CreateTopicsRequest):
    """What was made of each topic: its id, and from version 5 on its real size and settings (KIP-525)."""

    class Topic(Struct):
        class Config(Struct):
            name: string = field(default="", since=5)
            value: string | None = field(default=None, since=5)
            read_only: boolean = field(default=False, since=5)
            config_source: int8 = field(default=-1, since=5)
            is_sensitive: boolean = field(default=False, since=5)

        name: string
        topic_id: uuid = field(default=ZERO_UUID, since=7)
        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)
        # Why num_partitions to configs are missing, if the client may not see them.
        topic_config_error_code: int16 = field(default=0, since=5, tag=0)
        num_partitions: int32 = field(default=-1, since=5)
        replication_factor: int16 = field(default=-1, since=5)
        # Null is allowed, but the Java client fails on it where the topic was made: answer an empty list.
        configs: Array[Config] | None = field(default=(), since=5)

    throttle_time_ms: int32 = field(default=0)
    topics: Array[Topic]


class CreatePartitionsRequest(Request, api=37, versions=(0, 3), flexible=2, listeners=BOTH, forwardable=True):
    """Give each of these topics `count` partitions, which must be more than it has. `assignments` says which brokers
    hold the new ones, in the order of their numbers; where it is null, the controller places them."""

    class Topic(Struct):
        class Assignment(Struct):
            broker_ids: Array[int32]

        name: string
        count: int32
        assignments: Array[Assignment] | None = field(default=None)

    topics: Array[Topic]
    timeout_ms: int32 = field(default=60_000)
    # Check everything and answer as if it were done, but change nothing.
    validate_only: boolean = field(default=False)

    def refusal(self, error: KafkaError) -> "CreatePartitionsResponse":
        """Each topic gets the error."""
        topic_type = CreatePartitionsResponse.Topic
        code, message = error.code, error.detail or None
        return CreatePartitionsResponse(
            results=[topic_type(name=topic.name, error_code=code, error_message=message) for topic in self.topics]
        )


class CreatePartitionsResponse(Response, to=CreatePartitionsRequest):
    """What became of each topic."""

    class Topic(Struct):
        name: string
        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)

    throttle_time_ms: int32 = field(default=0)
    results: Array[Topic]


class DeleteTopicsRequest(Request, api=20, versions=(1, 6), flexible=4, listeners=BOTH, forwardable=True):
    """Delete these topics: by name, or from version 6 on by id, so that a topic of the same name that was created since
    is not hit (KIP-516)."""

    class Topic(Struct):
        name: string | None = field(default=None, since=6)
        topic_id: uuid = field(default=ZERO_UUID, since=6)

    topics: Array[Topic] = field(default=(), since=6)
    topic_names: Array[string] = field(default=(), until=5)
    timeout_ms: int32

    def refusal(self, error: KafkaError) -> "DeleteTopicsResponse":
        """Each topic gets the error."""
        topic_type = DeleteTopicsResponse.Topic
        code, message = error.code, error.detail or None
        named = [(topic.name, topic.topic_id) for topic in self.topics] + [
            (name, ZERO_UUID) for name in self.topic_names
        ]
        return DeleteTopicsResponse(
            responses=[
                topic_type(name=name, topic_id=topic_id, error_code=code, error_message=message)
                for name, topic_id in named
            ]
        )


class DeleteTopicsResponse(Response, to=DeleteTopicsRequest):
    """What became of each topic."""

    class Topic(Struct):
        name: string | None = field(default="", nullable_since=6)
        topic_id: uuid = field(default=ZERO_UUID, since=6)
        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None, since=5)

    throttle_time_ms: int32 = field(default=0)
    responses: Array[Topic]


class UnregisterBrokerRequest(Request, api=64, versions=(0, 0), flexible=0, listeners=BOTH, forwardable=True):
    """Forget the broker of this id: it is not coming back. The replicas on it stay assigned to it."""

    broker_id: int32


class UnregisterBrokerResponse(Response, to=UnregisterBrokerRequest):
    """Whether there was such a broker."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)


class UnregisterControllerRequest(Request, api=94, versions=(0, 0), flexible=0, listeners=BOTH, forwardable=True):
    """Forget the controller of this id: it is not coming back (KIP-1312). Whether it is a voter is Raft's to know."""

    controller_id: int32


class UnregisterControllerResponse(Response, to=UnregisterControllerRequest):
    """Whether there was such a controller."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field()
