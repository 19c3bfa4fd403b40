"""Bugs that show where a broker has several log directories: one fails, and replicas move between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykraft.broker.replication import directory_moves
from pykraft.broker.replication.directory_moves import DirectoryMoves, Move, MoveState
from pykraft.broker.replication.offline_replicas import OfflineReplicas
from pykraft.broker.replication.partition import Partition
from pykraft.broker.startup.lifecycle import BrokerLifecycle
from pykraft.common.core import Steps
from pykraft.common.types import TopicPartition, Uuid
from pykraft.controller.cluster_control import ClusterControl
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.image import BrokerRegistration, MetadataImage
from pykraft.protocol.messages.brokers import BrokerHeartbeatRequest
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_directories import LogDirectories
from pykraft.storage.upkeep.log_manager import LogManager

# --- a directory fails ------------------------------------------------------------------------------------------------


@bug
def a_failed_directory_that_is_not_reported() -> None:
    """A broker's heartbeats do not name the directories that have failed."""
    heartbeat = BrokerLifecycle._heartbeat

    def heartbeat_without(self: BrokerLifecycle) -> BrokerHeartbeatRequest:
        request = heartbeat(self)
        request.offline_log_dirs = []
        return request

    put(BrokerLifecycle, "_heartbeat", heartbeat_without)


@bug
def a_failed_directory_that_fences_its_broker() -> None:
    """The controller fences a broker that has lost one of its directories."""

    def fence(
        self: ClusterControl, image: MetadataImage, broker: BrokerRegistration, offline: Sequence[Uuid]
    ) -> Steps[list[VersionedRecord]]:
        if set(offline).isdisjoint(broker.directories):
            return []
        return (yield from self.plan_fencing(image, broker.broker_id))

    put(ClusterControl, "_plan_directories_gone", fence)


@bug
def a_failed_directory_that_ends_its_node() -> None:
    """A node ends with the first of its directories that fails."""

    def end(self: LogDirectories, error: OSError) -> bool:
        self.failure = self.failure or error
        return False

    put(LogDirectories, "take_offline", end)


@bug
def a_failed_directory_whose_replicas_stay() -> None:
    """A broker goes on leading and following what was in the failed directory."""

    def keep(
        self: OfflineReplicas,
        partitions: Mapping[TopicPartition, Partition],
        serve_no_longer: Callable[[TopicPartition], None],
    ) -> None:
        self.is_due = False

    put(OfflineReplicas, "take_out", keep)


@bug
def a_failed_log_that_is_made_again() -> None:
    """A broker that begins without one of its directories makes the logs that are in it in another one, empty."""
    put(LogDirectories, "may_create", lambda self, key: True)


# --- moves ------------------------------------------------------------------------------------------------------------


@bug
def a_move_that_ends_before_its_copy_has_all() -> None:
    """A turn copies a batch, and the copy takes the place of the log once the controller has noted the move."""
    begin, step, copy = DirectoryMoves._begin, DirectoryMoves._step, DirectoryMoves._copy

    def promise(self: DirectoryMoves, key: Any, target: LogManager, future: UnifiedLog) -> None:
        begin(self, key, target, future)
        self.moves[key.topic_partition].state = MoveState.PROMISED
        self._logs.promised[key.topic_partition] = self._logs.ids[target.directory]
        self._on_placed(key)

    def swap_when_named(self: DirectoryMoves, partition: Partition, move: Move) -> None:
        source = self._logs.manager_of(move.key.topic_partition)
        if source is not None and self._is_named(move):
            self._swap(partition, move, source)
        else:
            step(self, partition, move)

    put(DirectoryMoves, "_begin", promise)
    put(DirectoryMoves, "_copy", lambda self, log, future, max_bytes: copy(self, log, future, min(max_bytes, 1)))
    put(DirectoryMoves, "_step", swap_when_named)


@bug
def a_copy_that_goes_on_as_it_was() -> None:
    """A move goes on after a start with the copy as it is, though the log was truncated meanwhile."""
    put(directory_moves, "_truncate_to_agreed", lambda future, log: None)


@bug
def a_log_that_stays_after_its_move() -> None:
    """A log that has moved stays in the directory that it came from."""
    put(LogManager, "let_go", lambda self, topic_partition: None)
