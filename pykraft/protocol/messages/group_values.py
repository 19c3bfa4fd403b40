"""What is remembered of consumer, share and streams groups: the values of `coordinators` for the newer groups.

All three work alike (KIP-848). The group has an epoch that rises with each change of its members or of what they
subscribe to; the target assignment has the epoch that it was computed for; each member has the epoch that it has
reached, with the partitions that it holds now. A group is stable when all three are the same.

Follows the message files of org.apache.kafka.coordinator.group.
"""

from pykraft.protocol.schema import (
    Array,
    Message,
    Struct,
    field,
    int8,
    int16,
    int32,
    int64,
    octets,
    string,
    uint16,
    uuid,
)


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: uuid
    partitions: Array[int32]


class GroupTargetAssignmentMetadataValue(Message, flexible=0):
    """The group epoch that the target assignment was computed for, and when. Kafka writes the time since 4.3."""

    assignment_epoch: int32
    assignment_timestamp: int64 = field(default=0, tag=0)


class GroupTargetAssignmentMemberValue(Message, flexible=0):
    """What a member of a consumer or share group is to have in the end."""

    topic_partitions: Array[TopicPartitions]


# --- consumer groups --------------------------------------------------------------------------------------------------


class ConsumerGroupMetadataValue(Message, flexible=0):
    """The group's epoch, and a hash of the topics that its members subscribe to: another hash, another epoch."""

    epoch: int32
    metadata_hash: int64 = field(default=0, tag=0)


class ConsumerGroupPartitionMetadataValue(Message, flexible=0):
    """The topics that the members subscribe to, as they were seen last. Since 4.1 a hash has taken its place."""

    class Topic(Struct):
        class Partition(Struct):
            partition: int32
            racks: Array[string]

        topic_id: uuid
        topic_name: string
        num_partitions: int32
        partition_metadata: Array[Partition]

    topics: Array[Topic]


class ClassicMemberMetadata(Struct):
    """What a member brought along that still speaks the classic protocol."""

    class Protocol(Struct):
        name: string
        metadata: octets

    session_timeout_ms: int32
    supported_protocols: Array[Protocol]


NO_CLASSIC_METADATA = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())


class ConsumerGroupMemberMetadataValue(Message, flexible=0):
    """A member, and what it subscribes to."""

    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: Array[string]
    subscribed_topic_regex: string | None
    rebalance_timeout_ms: int32 = field(default=-1)
    server_assignor: string | None
    # Null is on the wire, and common: the default that is left out is an empty structure.
    classic_member_metadata: ClassicMemberMetadata | None = field(default=NO_CLASSIC_METADATA, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, flexible=0):
    """What a member has now, and what it must give up first."""

    class TopicPartitions(Struct):
        topic_id: uuid
        partitions: Array[int32]
        # The member's epoch when it got each of them. Kafka writes them since 4.3. The default that is left out is the
        # empty list.
        assignment_epochs: Array[int32] | None = field(default=(), tag=0)

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: Array[TopicPartitions]
    partitions_pending_revocation: Array[TopicPartitions]


class ConsumerGroupRegularExpressionValue(Message, flexible=0):
    """The topics that a pattern matched in a version of the cluster's metadata."""

    topics: Array[string]
    version: int64
    timestamp: int64


# --- share groups -----------------------------------------------------------------------------------------------------


class ShareGroupMetadataValue(Message, flexible=0):
    """The group's epoch, and a hash of its topics."""

    epoch: int32
    metadata_hash: int64


class ShareGroupMemberMetadataValue(Message, flexible=0):
    """A member, and what it subscribes to."""

    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: Array[string]


class ShareGroupCurrentMemberAssignmentValue(Message, flexible=0):
    """What a member reads from now."""

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: Array[TopicPartitions]


class ShareGroupStatePartitionMetadataValue(Message, flexible=0):
    """For which partitions the share group's state is being made, is there, is being deleted."""

    class TopicPartitionsInfo(Struct):
        topic_id: uuid
        topic_name: string
        partitions: Array[int32]

    class TopicInfo(Struct):
        topic_id: uuid
        topic_name: string

    initializing_topics: Array[TopicPartitionsInfo]
    initialized_topics: Array[TopicPartitionsInfo]
    deleting_topics: Array[TopicInfo]


# --- streams groups ---------------------------------------------------------------------------------------------------


class StreamsGroupMetadataValue(Message, flexible=0):
    """The group's epoch, a hash of its topics, and what the last assignment was made from."""

    class AssignmentConfig(Struct):
        key: string
        value: string

    epoch: int32
    metadata_hash: int64
    validated_topology_epoch: int32 = field(default=-1, tag=0)
    # The default that is left out is the empty list.
    last_assignment_configs: Array[AssignmentConfig] | None = field(default=(), tag=1)
    # The epochs of the topology whose description the broker's plugin has, or has refused; since 4.4.
    stored_description_topology_epoch: int32 = field(default=-1, tag=2)
    failed_description_topology_epoch: int32 = field(default=-1, tag=3)


class StreamsGroupMemberMetadataValue(Message, flexible=0):
    """A member, its process, and where that can be asked for its state."""

    class Endpoint(Struct):
        host: string
        port: uint16

    class KeyValue(Struct):
        key: string
        value: string

    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    rebalance_timeout_ms: int32 = field(default=-1)
    topology_epoch: int32
    process_id: string
    user_endpoint: Endpoint | None
    client_tags: Array[KeyValue]


class StreamsGroupTargetAssignmentMemberValue(Message, flexible=0):
    """The tasks that a member is to have in the end."""

    class TaskIds(Struct):
        subtopology_id: string
        partitions: Array[int32]

    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]


class StreamsGroupCurrentMemberAssignmentValue(Message, flexible=0):
    """The tasks that a member has now, and those that it must give up first."""

    class TaskIds(Struct):
        subtopology_id: string
        partitions: Array[int32]
        assignment_epochs: Array[int32] | None = field(default=(), tag=0)

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]
    active_tasks_pending_revocation: Array[TaskIds]
    standby_tasks_pending_revocation: Array[TaskIds]
    warmup_tasks_pending_revocation: Array[TaskIds]


class StreamsGroupTopologyValue(Message, flexible=0):
    """What the application does: its parts that can run apart, with the topics that each reads, writes and keeps."""

    class Subtopology(Struct):
        class TopicInfo(Struct):
            class TopicConfig(Struct):
                key: string
                value: string

            name: string
            partitions: int32
            replication_factor: int16
            topic_configs: Array[TopicConfig]

        class CopartitionGroup(Struct):
            source_topics: Array[int16]
            source_topic_regex: Array[int16]
            repartition_source_topics: Array[int16]

        subtopology_id: string
        source_topics: Array[string]
        source_topic_regex: Array[string]
        state_changelog_topics: Array[TopicInfo]
        repartition_sink_topics: Array[string]
        repartition_source_topics: Array[TopicInfo]
        copartition_groups: Array[CopartitionGroup]

    epoch: int32
    subtopologies: Array[Subtopology]
