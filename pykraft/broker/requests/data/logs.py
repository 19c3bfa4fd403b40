"""DeleteRecords, DescribeLogDirs and AlterReplicaLogDirs on a broker's listener: the logs, seen from outside.

Versions: DeleteRecords 0 to 2, DescribeLogDirs 1 to 5, AlterReplicaLogDirs 1 to 2. Behaviour to know:

* DeleteRecords goes to the leader. It is answered once the logs of all live replicas begin at the offset or after it,
  which each follower's next fetch but one tells; or, with REQUEST_TIMED_OUT, when the time is up. The records are
  deleted then all the same.
* Deleting moves the log start offset and no more: consumers get OFFSET_OUT_OF_RANGE at once, but the bytes go with
  their segment, when retention is looked at next.
* Of a partition that a request names twice the last mention counts, and it is answered once.
* DescribeLogDirs tells the .log files' bytes, as Kafka does: no index, and nothing of what was deleted and is still on
  the disk. The metadata log is no partition of a broker, and is left out.
* AlterReplicaLogDirs is answered when the move has begun (`replication.directory_moves`); DescribeLogDirs shows the
  future log until it is over. A path that is not in ``log.dirs`` is LOG_DIR_NOT_FOUND, a directory that has failed
  KAFKA_STORAGE_ERROR. A partition without a replica here is REPLICA_NOT_AVAILABLE: its log will be made in that
  directory, and after a reassignment Kafka's tool asks again until the replica has come.
* DeleteRecords needs DELETE on each topic, DescribeLogDirs DESCRIBE and AlterReplicaLogDirs ALTER on the cluster.

Follows kafka.server.KafkaApis.{handleDeleteRecordsRequest,handleDescribeLogDirsRequest,
handleAlterReplicaLogDirsRequest}.
"""

from collections.abc import Sequence

from pykraft.broker.replication.delayed import DelayedDeleteRecords, DeleteResult
from pykraft.broker.replication.directory_moves import DirectoryMoves
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.requests.authorizer import Authorizer, check_cluster
from pykraft.broker.requests.cluster.cluster import INTERNAL_TOPICS
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.logs import (
    NO_LAG,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.upkeep.log_directories import LogDirectories
from pykraft.transport.server_channel import RequestContext


class LogApis:
    """Answers about logs."""

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: LogDirectories,
        moves: DirectoryMoves,
        filesystem: FileSystem,
        authorizer: Authorizer,
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._moves = moves
        self._filesystem = filesystem
        self._authorizer = authorizer

    # --- DeleteRecords ------------------------------------------------------------------------------------------------

    def delete_records(self, request: DeleteRecordsRequest, context: RequestContext, now: int) -> ItemByItem:
        offsets = {
            TopicPartition(topic.name, partition.partition_index): partition.offset
            for topic in request.topics
            for partition in topic.partitions
        }
        names = {topic.name for topic in request.topics}
        allowed = self._authorizer.allowed(context, AclOperation.DELETE, AclResourceType.TOPIC, names)

        def delete(named: tuple[TopicPartition, int], now: int) -> DeleteResult:
            topic_partition, offset = named
            if topic_partition.topic not in allowed:
                return DeleteResult(topic_partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return self._delete(topic_partition, offset)

        def deleted(results: list[DeleteResult], now: int) -> Handled:
            self._write_down(results)
            delayed = DelayedDeleteRecords(self._replicas, results)
            if delayed.is_decided():
                return _deleted(results)
            waiting = sorted(result.topic_partition for result in results if result.error is None)
            self._replicas.deletes.watch(delayed, waiting, now + max(0, request.timeout_ms))
            return delayed.promise.map(_deleted)

        return ItemByItem(list(offsets.items()), delete, deleted, is_write=True)

    def _delete(self, topic_partition: TopicPartition, offset: int) -> DeleteResult:
        try:
            if topic_partition.topic in INTERNAL_TOPICS:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition.topic} is the cluster's own")
            wanted = self._replicas.delete_records(topic_partition, offset)
            partition = self._replicas.partition(topic_partition)
            return DeleteResult(topic_partition, None, wanted, partition.low_watermark, partition.key.topic_id)
        except KafkaError as error:
            return DeleteResult(topic_partition, error.code)

    def _write_down(self, results: Sequence[DeleteResult]) -> None:
        if all(result.error is not None for result in results):
            return
        try:
            self._replicas.write_log_starts()
        except KafkaError as error:
            for result in results:
                if result.error is None:
                    result.error, result.low_watermark = error.code, -1

    # --- DescribeLogDirs ----------------------------------------------------------------------------------------------

    def describe_log_dirs(self, request: DescribeLogDirsRequest, context: RequestContext, now: int) -> Handled:
        check_cluster(self._authorizer, context, AclOperation.DESCRIBE)
        results = {path: self._describe_directory(path) for path in self._logs.paths}
        result_type = DescribeLogDirsResponse.Result
        topics: dict[str, dict[str, list[DescribeLogDirsResponse.Result.Topic.Partition]]] = {}

        def describe(topic_partition: TopicPartition, now: int) -> None:
            is_replica = topic_partition in self._replicas.partitions
            for manager in self._logs.online:
                for log, is_future in (
                    (manager.logs.get(topic_partition), False),
                    (manager.futures.logs.get(topic_partition), True),
                ):
                    if log is None:
                        continue  # it is in another directory, or was deleted a moment ago
                    lag = max(0, log.high_watermark - log.log_end_offset) if is_replica else NO_LAG
                    topics.setdefault(manager.directory, {}).setdefault(topic_partition.topic, []).append(
                        result_type.Topic.Partition(
                            partition_index=topic_partition.partition,
                            partition_size=log.size,
                            offset_lag=self._moves.lag_of(topic_partition) if is_future else lag,
                            is_future_key=is_future,
                        )
                    )

        def respond(_: list[None], now: int) -> DescribeLogDirsResponse:
            for path, found in topics.items():
                if not results[path].error_code:
                    results[path].topics = [
                        result_type.Topic(name=name, partitions=some) for name, some in found.items()
                    ]
            return DescribeLogDirsResponse(results=list(results.values()))

        asked = set(self._logs.logs)
        if request.topics is not None:
            asked &= {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
        return ItemByItem(sorted(asked), describe, respond)

    def _describe_directory(self, path: str) -> DescribeLogDirsResponse.Result:
        """The directory without what is in it."""
        absolute = self._filesystem.absolute(path)
        try:
            if path in self._logs.failures:
                raise self._logs.failures[path]
            total_bytes, usable_bytes = self._filesystem.space(path)
        except OSError:
            return DescribeLogDirsResponse.Result(log_dir=absolute, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
        return DescribeLogDirsResponse.Result(
            log_dir=absolute,
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
            is_cordoned=self._logs.is_cordoned(path),
        )

    # --- AlterReplicaLogDirs ------------------------------------------------------------------------------------------

    def alter_replica_log_dirs(
        self, request: AlterReplicaLogDirsRequest, context: RequestContext, now: int
    ) -> ItemByItem:
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        wanted = {
            TopicPartition(topic.name, number): directory.path
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
        topic_type = AlterReplicaLogDirsResponse.Topic
        topics: dict[str, list[AlterReplicaLogDirsResponse.Topic.Partition]] = {}

        def answer_one(named: tuple[TopicPartition, str], now: int) -> None:
            (topic, number), path = named
            error = self._move_to(TopicPartition(topic, number), path)
            topics.setdefault(topic, []).append(topic_type.Partition(partition_index=number, error_code=error))

        def respond(_: list[None], now: int) -> AlterReplicaLogDirsResponse:
            return AlterReplicaLogDirsResponse(
                results=[topic_type(topic_name=name, partitions=partitions) for name, partitions in topics.items()]
            )

        return ItemByItem(list(wanted.items()), answer_one, respond)

    def _move_to(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        """Let the replica be in the directory with this absolute path."""
        there = {self._filesystem.absolute(each): each for each in self._logs.paths}
        if path not in there:
            return ErrorCode.LOG_DIR_NOT_FOUND
        try:
            self._moves.alter(topic_partition, there[path])
        except KafkaError as error:
            is_elsewhere = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else error.code
        except OSError as error:
            return self._replicas.on_disk_failure(error).code
        return ErrorCode.NONE


HANDLERS: Handlers = {
    AlterReplicaLogDirsRequest: LogApis.alter_replica_log_dirs,
    DeleteRecordsRequest: LogApis.delete_records,
    DescribeLogDirsRequest: LogApis.describe_log_dirs,
}


def _deleted(results: Sequence[DeleteResult]) -> DeleteRecordsResponse:
    topic_type = DeleteRecordsResponse.Topic
    topics: dict[str, list[DeleteRecordsResponse.Topic.Partition]] = {}
    for result in results:
        assert result.error is not None
        topics.setdefault(result.topic_partition.topic, []).append(
            topic_type.Partition(
                partition_index=result.topic_partition.partition,
                low_watermark=result.low_watermark,
                error_code=result.error,
            )
        )
    return DeleteRecordsResponse(
        topics=[topic_type(name=name, partitions=partitions) for name, partitions in topics.items()]
    )
