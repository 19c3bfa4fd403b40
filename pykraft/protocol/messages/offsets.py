"""Messages about the committed offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete.

A group commits, for each partition, the offset of the next record that it will read. The group's coordinator keeps it
in ``__consumer_offsets``, and gives it to the member that reads the partition next.

Members name themselves with the generation (classic groups) or the member epoch (KIP-848) in which they own the
partition, so that the commit of a member that was replaced meanwhile is refused. -1 is a client that is in no group and
only uses a group's name to keep its offsets. From version 10 on topics go by id instead of by name (KIP-848).
"""

from pykraft.common.errors import KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.listeners import BROKER
from pykraft.protocol.schema import Array, Request, Response, Struct, boolean, field, int16, int32, int64, string, uuid

NO_MEMBER = ""
NO_GENERATION = -1
NO_OFFSET = -1
NO_EPOCH = -1


class OffsetCommitRequest(Request, api=8, versions=(2, 10), flexible=8, listeners=BROKER):
    """Remember these offsets for the group."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            committed_offset: int64
            committed_leader_epoch: int32 = field(default=NO_EPOCH, since=6)
            committed_metadata: string | None = field(default=None)

        name: string = field(default="", until=9)
        topic_id: uuid = field(default=ZERO_UUID, since=10)
        partitions: Array[Partition]

    group_id: string
    generation_id_or_member_epoch: int32 = field(default=NO_GENERATION)
    member_id: string = field(default=NO_MEMBER)
    group_instance_id: string | None = field(default=None, since=7)
    retention_time_ms: int64 = field(default=-1, until=4)
    topics: Array[Topic]

    def refusal(self, error: KafkaError) -> "OffsetCommitResponse":
        """Each partition gets the error."""
        topic_type = OffsetCommitResponse.Topic
        return OffsetCommitResponse(
            topics=[
                topic_type(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        topic_type.Partition(partition_index=partition.partition_index, error_code=error.code)
                        for partition in topic.partitions
                    ],
                )
                for topic in self.topics
            ]
        )


class OffsetCommitResponse(Response, to=OffsetCommitRequest):
    """What became of each offset."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)

        name: string = field(default="", until=9)
        topic_id: uuid = field(default=ZERO_UUID, since=10)
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0, since=3)
    topics: Array[Topic]


class OffsetFetchRequest(Request, api=9, versions=(1, 10), flexible=6, listeners=BROKER):
    """Which offsets has the group committed? Without topics (from version 2 on): all of them. From version 8 on for
    several groups at once (KIP-709). With `require_stable` a partition whose offset a transaction is about to change is
    refused with UNSTABLE_OFFSET_COMMIT (KIP-447)."""

    class Topic(Struct):
        name: string
        partition_indexes: Array[int32]

    class Group(Struct):
        class Topic(Struct):
            name: string = field(default="", until=9)
            topic_id: uuid = field(default=ZERO_UUID, since=10)
            partition_indexes: Array[int32]

        group_id: string = field(default="", since=8)
        member_id: string | None = field(default=None, since=9)
        member_epoch: int32 = field(default=NO_GENERATION, since=9)
        topics: Array[Topic] | None = field(default=None, since=8)

    group_id: string = field(default="", until=7)
    topics: Array[Topic] | None = field(default=(), until=7, nullable_since=2)
    groups: Array[Group] = field(default=(), since=8)
    require_stable: boolean = field(default=False, since=7)

    def refusal(self, error: KafkaError) -> "OffsetFetchResponse":
        """Each group gets the error; version 1 has a place for it at each partition only."""
        topic_type = OffsetFetchResponse.Topic
        return OffsetFetchResponse(
            error_code=error.code,
            topics=[
                topic_type(
                    name=topic.name,
                    partitions=[
                        topic_type.Partition(partition_index=index, error_code=error.code)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in self.topics or ()
            ],
            groups=[OffsetFetchResponse.Group(group_id=group.group_id, error_code=error.code) for group in self.groups],
        )


class OffsetFetchResponse(Response, to=OffsetFetchRequest):
    """The offsets; -1 where the group has committed none."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            committed_offset: int64 = field(default=NO_OFFSET)
            committed_leader_epoch: int32 = field(default=NO_EPOCH, since=5)
            metadata: string | None = field(default="")
            error_code: int16 = field(default=0)

        name: string
        partitions: Array[Partition]

    class Group(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int32
                committed_offset: int64 = field(default=NO_OFFSET)
                committed_leader_epoch: int32 = field(default=NO_EPOCH)
                metadata: string | None = field(default="")
                error_code: int16 = field(default=0)

            name: string = field(default="", until=9)
            topic_id: uuid = field(default=ZERO_UUID, since=10)
            partitions: Array[Partition]

        group_id: string = field(default="", since=8)
        topics: Array[Topic] = field(default=(), since=8)
        error_code: int16 = field(default=0, since=8)

    throttle_time_ms: int32 = field(default=0, since=3)
    topics: Array[Topic] = field(default=(), until=7)
    error_code: int16 = field(default=0, since=2, until=7)
    groups: Array[Group] = field(default=(), since=8)


class OffsetDeleteRequest(Request, api=47, versions=(0, 0), listeners=BROKER):
    """Forget the group's offsets in these partitions; topics that it reads are refused (KIP-496)."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32

        name: string
        partitions: Array[Partition]

    group_id: string
    topics: Array[Topic]

    def refusal(self, error: KafkaError) -> "OffsetDeleteResponse":
        """The whole gets the error."""
        return OffsetDeleteResponse(error_code=error.code)


class OffsetDeleteResponse(Response, to=OffsetDeleteRequest):
    """What became of each offset."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)

        name: string
        partitions: Array[Partition]

    error_code: int16 = field(default=0)
    throttle_time_ms: int32 = field(default=0)
    topics: Array[Topic] = field(default=())
