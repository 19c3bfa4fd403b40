"""Replicas move between the log directories of this broker, while they are written and read (KIP-113).

A move copies the log into a *future* log in the other directory, a slice in each turn of the node: clients and
followers go on with the old one. Then the future log takes its place::

    COPYING ----------> SYNCING ----------> PROMISED -----------> done
    the future log      in the background   the controller is     both logs end at the same offset:
    ends before the     it is brought to    to name the other     the folders are swapped
    log                 the disk            directory

The controller must name the other directory *before* the swap. If the broker died right after a swap that the
controller had not heard of, and the new directory failed, the controller would take the replica for readable, since it
names the old directory; and might let it lead, empty. A log that grows meanwhile is copied in each state.

Where the old log is truncated, the future log is truncated too, before anything is appended. Where a directory fails,
its moves are over: if it is the old one, the broker tells the controller that the replica is in it, and so is offline.

A process that dies in the middle goes on with the move after its next start: the future log is there. Meanwhile its
directory may have been away, and the log may have been truncated without it, and written again. So the future log is
truncated first to where the leader epochs of both agree, as a follower's is.

Follows kafka.server.ReplicaAlterLogDirs{Manager,Thread} and maybeReplaceCurrentWithFutureReplica of
kafka.cluster.Partition (KIP-113, KIP-858).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from pykraft.broker.replication.partition import Partition
from pykraft.broker.replication.replica_fetcher import agreed_end
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.common.background import Background
from pykraft.common.core import FOREVER
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.rooms import Room
from pykraft.common.trace import Tracer
from pykraft.common.types import OffsetAndEpoch, TopicIdPartition, TopicPartition
from pykraft.metadata.versions import IV_3_7_2_DIRECTORIES, METADATA_VERSION
from pykraft.records.batch import batches
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.future_logs import TooLongError
from pykraft.storage.upkeep.log_directories import LogDirectories
from pykraft.storage.upkeep.log_manager import LogManager

SLICE_BYTES = 256 << 10
"""How much a turn copies, of all moves together; a batch comes whole."""


class MoveState(Enum):
    COPYING = "copying"
    SYNCING = "syncing"
    SYNCED = "synced"
    PROMISED = "promised"


@dataclass(slots=True)
class Move:
    """One replica on its way into the directory of `target`."""

    key: TopicIdPartition
    target: LogManager
    future: UnifiedLog
    state: MoveState = MoveState.COPYING


class DirectoryMoves:
    """The moves of this broker. It is a room of the node."""

    def __init__(
        self,
        broker_id: int,
        logs: LogDirectories,
        replicas: ReplicaManager,
        background: Background,
        trace: Tracer,
        on_placed: Callable[[TopicIdPartition], None],
        rate: Callable[[], int],
    ) -> None:
        """``on_placed(key)`` hears that the controller is to name another directory; `rate()` is how many bytes a
        second may be copied."""
        self._broker_id = broker_id
        self._logs = logs
        self._replicas = replicas
        self._background = background
        self._trace = trace
        self._on_placed = on_placed
        self._rate = rate
        self._allowed_bytes = 0.0
        self._allowed_at = 0
        self.room = Room("moves")
        self.moves: dict[TopicPartition, Move] = {}
        for manager in logs.online:
            manager.on_truncated = self._on_truncated

    # --- asked for ----------------------------------------------------------------------------------------------------

    def alter(self, topic_partition: TopicPartition, directory: str) -> None:
        """Let the replica be in this directory, one of ``log.dirs``. KafkaError if it cannot be."""
        target = next((each for each in self._logs.online if each.directory == directory), None)
        if target is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {directory} is offline")
        move = self.moves.get(topic_partition)
        if move is not None and move.target is not target:
            self._cancel(topic_partition)
        self._logs.preferred[topic_partition] = directory
        partition = self._replicas.partition(topic_partition)
        self._logs.preferred.pop(topic_partition, None)
        if topic_partition in self.moves or topic_partition in target.logs:
            return
        try:
            future = target.create_future(topic_partition, partition.key.topic_id)
        except TooLongError:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic's name is too long to be moved") from None
        self._begin(partition.key, target, future)

    def _begin(self, key: TopicIdPartition, target: LogManager, future: UnifiedLog) -> None:
        self.moves[key.topic_partition] = Move(key, target, future)
        self._trace("directory_move", partition=str(key.topic_partition), to=target.directory)
        self.room.mark("move")

    def resume(self) -> None:
        """Go on with the moves that the last stop, or crash, has interrupted. What moves no more is removed."""
        for manager in list(self._logs.online):
            for topic_partition, future in list(manager.futures.logs.items()):
                partition = self._replicas.partitions.get(topic_partition)
                is_of_it = partition is not None and future.topic_id == partition.key.topic_id
                if partition is None or not is_of_it or topic_partition in {**manager.logs, **self.moves}:
                    manager.discard_future(topic_partition)
                elif self._on_disk(partial(_truncate_to_agreed, future, partition.log)):
                    self._begin(partition.key, manager, future)

    def lag_of(self, topic_partition: TopicPartition) -> int:
        """How many offsets the future log ends before the log."""
        partition, move = self._replicas.partitions.get(topic_partition), self.moves.get(topic_partition)
        if partition is None or move is None:
            return 0
        return max(0, partition.log.log_end_offset - move.future.log_end_offset)

    def _cancel(self, topic_partition: TopicPartition) -> None:
        move = self.moves.pop(topic_partition)
        was_promised = self._logs.promised.pop(topic_partition, None) is not None
        if topic_partition in move.target.futures.logs and move.target in self._logs.online:
            self._on_disk(lambda: move.target.discard_future(topic_partition))
        if was_promised:
            self._on_placed(move.key)

    def _on_disk(self, action: Callable[[], object]) -> bool:
        """Whether a disk has done this; if not, its directory is offline."""
        try:
            action()
        except OSError as error:
            self._replicas.on_disk_failure(error)
            return False
        return True

    # --- copying ------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> int:
        """Copy a slice, and end the moves that are done."""
        if not self.moves:
            return FOREVER
        left = self._allowance(now)
        for topic_partition in list(self.moves):
            copied = self._advance(topic_partition, left)
            left, self._allowed_bytes = left - copied, self._allowed_bytes - copied
        self.room.stay_awake(bool(self.moves))  # what is appended meanwhile is copied in the next turn
        is_busy = any(self.lag_of(key) > 0 or move.state is MoveState.SYNCED for key, move in self.moves.items())
        return now + 1 if is_busy else FOREVER

    def _allowance(self, now: int) -> int:
        """How many bytes this turn may copy. What a second allows is not saved for the next one."""
        rate = self._rate()
        earned_bytes = rate * (now - self._allowed_at) / 1000
        self._allowed_bytes, self._allowed_at = min(rate, self._allowed_bytes + earned_bytes), now
        return min(SLICE_BYTES, int(self._allowed_bytes))

    def _advance(self, topic_partition: TopicPartition, max_bytes: int) -> int:
        """Take one move further; how many bytes were copied."""
        move, partition = self.moves[topic_partition], self._replicas.partitions.get(topic_partition)
        if partition is None or partition.key != move.key or move.target not in self._logs.online:
            self._cancel(topic_partition)
            return 0
        try:
            copied = self._copy(partition.log, move.future, max_bytes)
            self._step(partition, move)
        except OSError as error:
            self._replicas.on_disk_failure(error)
            return 0
        except (CorruptRecordError, KafkaError) as error:
            self._trace("directory_move_failed", partition=partition.name, reason=str(error))
            self._cancel(topic_partition)
            return 0
        return copied

    def _copy(self, log: UnifiedLog, future: UnifiedLog, max_bytes: int) -> int:
        """Copy some batches; how many bytes."""
        if future.log_end_offset < log.log_start_offset:
            future.truncate_fully(log.log_start_offset)
        copied = 0
        while copied < max_bytes and future.log_end_offset < log.log_end_offset:
            region = log.read(future.log_end_offset, max_bytes - copied, Isolation.LOG_END, at_least_one=True).records
            data = memoryview(region if isinstance(region, bytes) else region.read(0, len(region)))
            first = next(batches(data), None)
            if first is None:
                break
            if future.is_empty and first.base_offset != future.log_end_offset:
                future.truncate_fully(first.base_offset)
            future.append_as_follower(data)
            copied += len(data)
        future.update_high_watermark(log.high_watermark)
        return copied

    def _step(self, partition: Partition, move: Move) -> None:
        """Go on to the next state if the future log has caught up."""
        topic_partition = move.key.topic_partition
        if partition.log.log_end_offset > move.future.log_end_offset:
            return
        if move.state is MoveState.COPYING:
            move.state = MoveState.SYNCING
            segments = list(move.future.unsynced_segments)
            self._background.submit(lambda: move.future.sync_segments(segments), lambda _: self._on_synced(move))
        elif move.state is MoveState.SYNCED:
            move.state = MoveState.PROMISED
            self._logs.promised[topic_partition] = self._logs.ids[move.target.directory]
            self._on_placed(move.key)
        elif move.state is MoveState.PROMISED and self._is_named(move):
            source = self._logs.manager_of(topic_partition)
            if source is not None and not source.cleaner.is_busy_with(partition.log):
                self._swap(partition, move, source)

    def _on_synced(self, move: Move) -> None:
        if move.state is MoveState.SYNCING:
            move.state = MoveState.SYNCED

    def _is_named(self, move: Move) -> bool:
        """Whether the metadata name the other directory; always where they know none."""
        image = self._replicas.image
        if image.features.get(METADATA_VERSION, 0) < IV_3_7_2_DIRECTORIES:
            return True
        known = image.partition(move.key.topic_id, move.key.partition)
        return known is not None and known.directory_of(self._broker_id) == self._logs.ids[move.target.directory]

    def _swap(self, partition: Partition, move: Move, source: LogManager) -> None:
        """Let the future log be the log (see `future_logs` for what a crash leaves)."""
        topic_partition, old = move.key.topic_partition, partition.log
        if old.log_start_offset <= move.future.high_watermark:
            move.future.increase_log_start(old.log_start_offset)
        new = move.target.adopt_future(topic_partition, old.high_watermark)
        for epoch, start_offset in old.epochs.entries:
            if epoch > (new.epochs.latest_epoch if new.epochs.latest_epoch is not None else -1):
                new.epochs.assign(epoch, start_offset)
        del self.moves[topic_partition]
        self._logs.promised.pop(topic_partition, None)
        self._replicas.use_log(partition, new)
        try:
            source.let_go(topic_partition)
        finally:
            move.target.write_checkpoints()
            self._replicas.follow_anew(partition)
            self._trace("directory_moved", partition=str(topic_partition), to=move.target.directory)

    def _on_truncated(self, log: UnifiedLog) -> None:
        """A log was truncated that may be moving: so is its copy, before anything is appended."""
        move = self.moves.get(log.topic_partition)
        if move is None or move.future.is_closed:
            return
        future = move.future
        if log.is_empty and future.log_end_offset != log.log_end_offset:
            self._on_disk(lambda: future.truncate_fully(log.log_end_offset))
        elif future.log_end_offset > log.log_end_offset:
            self._on_disk(lambda: future.truncate_to(log.log_end_offset))


def _truncate_to_agreed(future: UnifiedLog, log: UnifiedLog) -> None:
    """Let the future log be a beginning of the log."""
    while not future.is_empty:
        end = log.end_offset_for(future.latest_epoch) or OffsetAndEpoch(log.log_end_offset, log.latest_epoch)
        agreed = agreed_end(future, end)
        if agreed >= future.log_end_offset:
            return
        future.truncate_to(agreed)
