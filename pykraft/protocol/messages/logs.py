"""Messages about the logs themselves: DeleteRecords, DescribeLogDirs, AlterReplicaLogDirs.

A client sends DeleteRecords to the leader of each partition (KIP-107), and DescribeLogDirs and AlterReplicaLogDirs to
the broker whose disk it is about (KIP-113, KIP-827).
"""

from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import BROKER
from pykraft.protocol.messages.refusals import each_partition
from pykraft.protocol.schema import Array, Request, Response, Struct, boolean, field, int16, int32, int64, string

HIGH_WATERMARK = -1
"""As an offset: everything that consumers may see."""
NO_LOW_WATERMARK = -1
NO_LAG = -1
NO_SIZE = -1


class DeleteRecordsRequest(Request, api=21, versions=(0, 2), flexible=2, listeners=BROKER):
    """Delete the records before these offsets, and answer once every live replica has done so."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            offset: int64

        name: string
        partitions: Array[Partition]

    topics: Array[Topic]
    timeout_ms: int32

    def refusal(self, error: KafkaError) -> "DeleteRecordsResponse":
        """Each partition gets the error."""
        return DeleteRecordsResponse(topics=each_partition(DeleteRecordsResponse.Topic, self.topics, error))


class DeleteRecordsResponse(Response, to=DeleteRecordsRequest):
    """Of each partition the smallest log start offset among its live replicas."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            low_watermark: int64 = field(default=NO_LOW_WATERMARK)
            error_code: int16 = field(default=0)

        name: string
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    topics: Array[Topic]


class DescribeLogDirsRequest(Request, api=35, versions=(1, 5), flexible=2, listeners=BROKER):
    """The replicas in the broker's log directories: of these partitions, or (None) of all."""

    class Topic(Struct):
        topic: string
        partitions: Array[int32]

    topics: Array[Topic] | None = field(default=None)


class DescribeLogDirsResponse(Response, to=DescribeLogDirsRequest):
    """Each log directory, with its partitions that were asked for."""

    class Result(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int32
                # Bytes of the segments' .log files.
                partition_size: int64
                # How far the log's end is behind the high watermark; -1 if the broker has no such replica.
                offset_lag: int64
                # Whether the log is being made here, to take the place of one in another directory.
                is_future_key: boolean = field(default=False)

            name: string
            partitions: Array[Partition]

        error_code: int16 = field(default=0)
        log_dir: string
        topics: Array[Topic] = field(default=())
        # Of the volume that holds the directory.
        total_bytes: int64 = field(default=NO_SIZE, since=4)
        usable_bytes: int64 = field(default=NO_SIZE, since=4)
        # Whether it takes no new replicas (KIP-1066).
        is_cordoned: boolean = field(default=False, since=5)

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0, since=3)
    results: Array[Result]


class AlterReplicaLogDirsRequest(Request, api=34, versions=(1, 2), flexible=2, listeners=BROKER):
    """Keep these replicas in these log directories of the broker."""

    class Directory(Struct):
        class Topic(Struct):
            name: string
            partitions: Array[int32]

        path: string
        topics: Array[Topic]

    dirs: Array[Directory]

    def refusal(self, error: KafkaError) -> "AlterReplicaLogDirsResponse":
        """Each partition gets the error."""
        topic_type = AlterReplicaLogDirsResponse.Topic
        return AlterReplicaLogDirsResponse(
            results=[
                topic_type(
                    topic_name=topic.name,
                    partitions=[
                        topic_type.Partition(partition_index=number, error_code=error.code)
                        for number in topic.partitions
                    ],
                )
                for directory in self.dirs
                for topic in directory.topics
            ]
        )


class AlterReplicaLogDirsResponse(Response, to=AlterReplicaLogDirsRequest):
    """What became of each replica."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)

        topic_name: string
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    results: Array[Topic]
