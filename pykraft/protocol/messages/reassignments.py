"""Messages about reassignments: AlterPartitionReassignments, ListPartitionReassignments (KIP-455).

A client sends them to any broker, which forwards them to the active controller. An alteration is answered when its
first record is committed; the replicas move afterwards, and ListPartitionReassignments tells which of them still do.
"""

from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import BOTH
from pykraft.protocol.schema import Array, Request, Response, Struct, boolean, field, int16, int32, string


class AlterPartitionReassignmentsRequest(
    Request, api=45, versions=(0, 1), flexible=0, listeners=BOTH, forwardable=True
):
    """Give each of these partitions other replicas, the preferred leader first; null cancels the reassignment that the
    partition is in."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            replicas: Array[int32] | None = field(default=None)

        name: string
        partitions: Array[Partition]

    timeout_ms: int32 = field(default=60_000)
    # Whether a partition may end with more or fewer replicas than it has (KIP-860).
    allow_replication_factor_change: boolean = field(default=True, since=1)
    topics: Array[Topic]

    def refusal(self, error: KafkaError) -> "AlterPartitionReassignmentsResponse":
        """The error as a whole, and at each partition."""
        topic_type = AlterPartitionReassignmentsResponse.Topic
        code, message = error.code, error.detail or None
        return AlterPartitionReassignmentsResponse(
            error_code=code,
            error_message=message,
            responses=[
                topic_type(
                    name=topic.name,
                    partitions=[
                        topic_type.Partition(
                            partition_index=partition.partition_index, error_code=code, error_message=message
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in self.topics
            ],
        )


class AlterPartitionReassignmentsResponse(Response, to=AlterPartitionReassignmentsRequest):
    """What became of each partition."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)
            error_message: string | None = field(default=None)

        name: string
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    allow_replication_factor_change: boolean = field(default=True, since=1)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)
    responses: Array[Topic]


class ListPartitionReassignmentsRequest(Request, api=46, versions=(0, 0), flexible=0, listeners=BOTH, forwardable=True):
    """Which of these partitions are being reassigned? Null asks for all."""

    class Topic(Struct):
        name: string
        partition_indexes: Array[int32]

    timeout_ms: int32 = field(default=60_000)
    topics: Array[Topic] | None = field(default=None)

    def refusal(self, error: KafkaError) -> "ListPartitionReassignmentsResponse":
        """The error as a whole; the partitions are named, with nothing about them."""
        topic_type = ListPartitionReassignmentsResponse.Topic
        return ListPartitionReassignmentsResponse(
            error_code=error.code,
            error_message=error.detail or None,
            topics=[
                topic_type(
                    name=topic.name,
                    partitions=[topic_type.Partition(partition_index=number) for number in topic.partition_indexes],
                )
                for topic in self.topics or ()
            ],
        )


class ListPartitionReassignmentsResponse(Response, to=ListPartitionReassignmentsRequest):
    """The partitions that are being reassigned; the others are not mentioned. `replicas` has all that hold or fetch the
    partition at the moment, those that are added and removed among them."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            replicas: Array[int32] = field(default=())
            adding_replicas: Array[int32] = field(default=())
            removing_replicas: Array[int32] = field(default=())

        name: string
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)
    topics: Array[Topic]
