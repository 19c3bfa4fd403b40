"""The replicas of this broker whose log directory has failed.

They are neither leaders nor followers until the broker starts again: each request is answered with
KAFKA_STORAGE_ERROR, at which a client asks for metadata and finds the new leader. The broker tells the controller of
the directory in its next heartbeat; the controller elects other leaders and takes these replicas out of their ISRs.

A directory may fail in the middle of anything: an append, a loop over partitions. So there it is only noted, and its
requests are refused; the replicas are taken out at the beginning of the next turn of their room.

Follows kafka.server.HostedPartition.Offline and kafka.server.ReplicaManager.handleLogDirFailure (KIP-112).
"""

from collections.abc import Callable, Mapping

from pykraft.broker.replication.partition import Partition
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.trace import Tracer
from pykraft.common.types import TopicIdPartition, TopicPartition
from pykraft.storage.upkeep.log_directories import LogDirectories


class OfflineReplicas:
    """Which replicas are offline."""

    def __init__(self, logs: LogDirectories, trace: Tracer, on_failure: Callable[[], None]) -> None:
        """`on_failure()` hears that a directory has failed, and that `is_due` is true."""
        self._logs = logs
        self._trace = trace
        self._on_failure = on_failure
        self.keys: dict[TopicPartition, TopicIdPartition] = {}
        self.is_due = False
        """Whether a directory has failed whose replicas are still to be taken out."""

    @property
    def is_all(self) -> bool:
        """Whether the last directory has failed: the node stops."""
        return self._logs.failure is not None

    def check(self, topic_partition: TopicPartition) -> None:
        """KafkaError if the replica's directory has failed."""
        if self._logs.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {self._logs.paths[0]} is offline")
        if topic_partition in self.keys or (self.is_due and topic_partition not in self._logs.logs):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {topic_partition} is offline")

    def holds(self, key: TopicIdPartition) -> bool:
        """Whether this replica is offline, or may be: then no log is made for it. One whose log is there is not: the
        controller had noted a move, and the process before died without making it."""
        if self.keys.get(key.topic_partition) == key:
            return True
        log = self._logs.logs.get(key.topic_partition)
        is_there = log is not None and log.topic_id in (None, key.topic_id)
        return not is_there and not self._logs.may_create(key)

    def take_out(
        self, partitions: Mapping[TopicPartition, Partition], serve_no_longer: Callable[[TopicPartition], None]
    ) -> None:
        """A log directory has failed: what was in it is served no longer."""
        self.is_due = False
        for key, partition in list(partitions.items()):
            if key not in self._logs.logs:
                self.keys[key] = partition.key
                serve_no_longer(key)

    def on_disk_failure(self, error: OSError) -> KafkaError:
        """A log could not be read or written: its directory is offline from now on. What to answer."""
        directory = self._logs.directory_of(error) or self._logs.paths[0]
        if directory not in self._logs.failures and not self._logs.take_offline(error):
            self._trace("log_directory_failed", directory=directory, reason=str(error))
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {directory} has failed")

    def note(self, directory: str, error: OSError) -> None:
        """A directory has failed, and others are left."""
        self._trace("log_directory_failed", directory=directory, reason=str(error))
        self.is_due = True
        self._on_failure()
