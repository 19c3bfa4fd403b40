"""The log directories of a broker: one log manager for each, seen as one.

::

    log.dirs=/a,/b,/c
      /a   LogManager: its logs, checkpoints, marker, lock      online
      /b   LogManager                                           online
      /c                                                        offline: it cannot be read or written

**Where a new log goes.** Into the directory that the metadata name, if it is online. Else into the one with the fewest
logs of those that are not cordoned; of equals into the first in the order of ``log.dirs``. So partitions spread by
their number, not by their bytes.

**A directory fails** when the system cannot read or write a file in it. The name of the file tells which directory it
is. From then on nothing is asked of that directory: a sync that failed may report success the next time, though the
bytes are lost. The other directories go on. If the metadata log is in it, or no other directory is left, the node
stops (`failure`).

While a directory is offline, a replica that the metadata place in a directory which this broker does not have online
is not made again elsewhere (`may_create`): its log may be in the failed directory. When all directories of ``log.dirs``
are online, such a replica begins empty: its directory was replaced.

Two directories may have a log of the same partition: the process died in the middle of a move, or the directory that
the log was moved away from had failed then. The log whose last record has the higher leader epoch is newer; of equal
ones the longer; of two with the same records the one that was moved in (`future_logs`). The other is set aside.
(Kafka does not start there.)

Follows org.apache.kafka.storage.internals.log.LogManager and kafka.server.ReplicaManager.handleLogDirFailure (KIP-112,
KIP-858).
"""

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from pykraft.common.core import Steps, finish
from pykraft.common.metrics import LOG, Metrics
from pykraft.common.types import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    TopicIdPartition,
    TopicPartition,
    Uuid,
)
from pykraft.storage.disk.filesystem import is_gone
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_cleaner import LogCleaner, register_gauges
from pykraft.storage.upkeep.log_manager import LogManager, parse_directory

T = TypeVar("T")
IsWanted = Callable[[TopicIdPartition], bool]
_WITHOUT_PLACE = frozenset({UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY, LOST_DIRECTORY})


class LogDirectories:
    """All log directories of a broker. `online` ones have a log manager; `failures` say why the others have none."""

    def __init__(
        self,
        managers: Sequence[LogManager],
        ids: Mapping[str, Uuid],
        *,
        paths: Sequence[str] = (),
        metadata_directory: str | None = None,
        failures: Mapping[str, OSError] | None = None,
    ) -> None:
        """`ids` are those of the directories that could be read; `paths` are all of ``log.dirs``, in its order."""
        self.online = list(managers)
        self.paths = tuple(paths) or tuple(manager.directory for manager in managers)
        self.ids = ids
        self._metadata_directory = metadata_directory
        self.failures: dict[str, OSError] = dict(failures or {})
        self.failure: OSError | None = None
        """What ends the node: the metadata log's directory has failed, or the last one."""
        self.logs: ChainMap[TopicPartition, UnifiedLog] = ChainMap(*(manager.logs for manager in managers))
        """Of all directories that are online."""
        self._offline: dict[TopicPartition, Uuid] = {}
        """Logs of directories that have failed since the start, and the directory's id."""
        self.preferred: dict[TopicPartition, str] = {}
        """Where an administrator wants logs that are not made yet (AlterReplicaLogDirs)."""
        self.promised: dict[TopicPartition, Uuid] = {}
        """Logs that are about to be in another directory: the metadata name it before the log is there."""
        self.previous_broker_epoch = -1
        """The broker epoch of the last orderly stop; -1 if a directory names another one, or none."""
        self.assigned: Callable[[TopicIdPartition], Uuid] = lambda key: UNASSIGNED_DIRECTORY
        """In which directory the metadata place a replica."""
        self.is_cordoned: Callable[[str], bool] = lambda directory: False
        self.on_failure: Callable[[str, OSError], None] = lambda directory, error: None
        """Hears of a directory that has failed while others are left."""

    def start(self) -> None:
        """Open every log that is there. A directory that fails meanwhile is offline."""
        for manager in list(self.online):
            try:
                manager.start()
            except OSError as error:
                if not self.take_offline(error):
                    raise
        self._set_duplicates_aside()
        first, *others = [manager.previous_broker_epoch for manager in self.online] or [-1]
        self.previous_broker_epoch = first if all(each == first for each in others) and not self.failures else -1

    def _set_duplicates_aside(self) -> None:
        """Keep the newest log of each partition."""
        for manager in list(self.online):
            stale = [key for key, log in manager.logs.items() if self._is_stale(key, log)]
            if stale:
                manager.unknown += [name.rpartition("/")[2] for name in manager.set_aside(stale)]

    def _is_stale(self, key: TopicPartition, log: UnifiedLog) -> bool:
        held = [(manager, manager.logs[key]) for manager in self.online if key in manager.logs]
        if len(held) < 2:
            return False
        newest = max(held, key=lambda each: (_newness(each[1]), not each[0].knows(key)))
        return newest[1] is not log

    def register_metrics(self, metrics: Metrics) -> None:
        """Let these figures be read, under Kafka's names. Before the logs are opened."""
        for manager in self.online:
            manager.register_metrics(metrics)
        metrics.gauge("LogManager", "OfflineLogDirectoryCount", lambda: float(len(self.failures)), LOG)
        register_gauges(metrics, self.cleaners)

    # --- finding ------------------------------------------------------------------------------------------------------

    @property
    def online_ids(self) -> list[Uuid]:
        return [self.ids[manager.directory] for manager in self.online]

    @property
    def offline_ids(self) -> list[Uuid]:
        """Of those that have failed, as far as their ids could be read."""
        return [self.ids[directory] for directory in self.failures if directory in self.ids]

    def manager_of(self, topic_partition: TopicPartition) -> LogManager | None:
        """Where the log is, if it is online."""
        for manager in self.online:
            if topic_partition in manager.logs:
                return manager
        return None

    @property
    def cleaners(self) -> list[LogCleaner]:
        """One for each directory."""
        return [manager.cleaner for manager in self.online]

    def id_of(self, topic_partition: TopicPartition) -> Uuid | None:
        """The id of the directory that holds the log, also if that has failed; None if there is no log. Of a log that
        is about to move it is the new one's."""
        if topic_partition in self.promised:
            return self.promised[topic_partition]
        manager = self.manager_of(topic_partition)
        return self._offline.get(topic_partition) if manager is None else self.ids[manager.directory]

    def _grouped(self, topic_partitions: Iterable[TopicPartition]) -> list[tuple[LogManager, list[TopicPartition]]]:
        found: dict[str, tuple[LogManager, list[TopicPartition]]] = {}
        for topic_partition in topic_partitions:
            manager = self.manager_of(topic_partition)
            if manager is not None:
                found.setdefault(manager.directory, (manager, []))[1].append(topic_partition)
        return list(found.values())

    # --- making and deleting ------------------------------------------------------------------------------------------

    def may_create(self, key: TopicIdPartition) -> bool:
        """Whether a log that is not there may be made: not if it may be in a directory that is offline."""
        assigned = self.assigned(key)
        return not self.failures or assigned == UNASSIGNED_DIRECTORY or assigned in self.online_ids

    def place_for(self, key: TopicIdPartition, ahead: Mapping[str, int] | None = None) -> LogManager:
        """Where the new log goes: where the metadata say, else where an administrator has said; `ahead` counts logs
        that are about to be made in each directory."""
        free = [manager for manager in self.online if not self.is_cordoned(manager.directory)] or self.online
        assigned = self.assigned(key) if len(self.online) > 1 else UNASSIGNED_DIRECTORY
        if assigned not in _WITHOUT_PLACE:
            for manager in self.online:
                if self.ids[manager.directory] == assigned:
                    return manager
        preferred = self.preferred.get(key.topic_partition)
        for manager in self.online:
            if manager.directory == preferred:
                return manager
        counts = ahead or {}
        return min(free, key=lambda each: len(each.logs) + len(each.futures.logs) + counts.get(each.directory, 0))

    def recover_futures(self, place_of: Callable[[UnifiedLog], Uuid | None]) -> None:
        """While directories are offline, let a future log be the log where the metadata place it in its directory, and
        there is no other: the process died before the swap, and the old log may be in a failed directory."""
        for manager in list(self.online if self.failures else ()):
            for key, future in list(manager.futures.logs.items()):
                if self.manager_of(key) is None and place_of(future) == self.ids[manager.directory]:
                    manager.adopt_future(key, future.log_start_offset)

    def get_or_create(self, topic_partition: TopicPartition, topic_id: Uuid) -> UnifiedLog:
        """The partition's log. A log of another incarnation of the topic is set aside first."""
        manager = self.manager_of(topic_partition) or self.place_for(TopicIdPartition(topic_id, *topic_partition))
        self._offline.pop(topic_partition, None)
        return manager.get_or_create(topic_partition, topic_id)

    def create_in_steps(self, keys: Sequence[TopicIdPartition], is_wanted: IsWanted) -> Steps[None]:
        """Make these logs, which are not there. Pauses after each; see `LogManager.create_in_steps`. What a directory
        that fails meanwhile was to take goes to the others."""
        left = list(keys)
        while left:
            placed: dict[str, tuple[LogManager, list[TopicIdPartition]]] = {}
            counts: dict[str, int] = {}
            for key in left:
                manager = self.place_for(key, counts)
                placed.setdefault(manager.directory, (manager, []))[1].append(key)
                counts[manager.directory] = counts.get(manager.directory, 0) + 1
                self._offline.pop(key.topic_partition, None)
            left = []
            for manager, some in placed.values():
                try:
                    yield from manager.create_in_steps(some, is_wanted)
                except OSError as error:
                    if not self.take_offline(error):
                        raise
                    left += some

    def delete_in_steps(self, topic_partitions: Collection[TopicPartition]) -> Steps[None]:
        """Delete these logs: at once for every request, and their bytes later. Pauses after each."""
        for topic_partition in topic_partitions:
            self._offline.pop(topic_partition, None)
        for manager, some in self._grouped(topic_partitions):
            yield from self._surviving(manager.delete_in_steps(some))

    def set_aside(self, topic_partitions: Collection[TopicPartition]) -> list[str]:
        """Serve these logs no longer, and keep their bytes; the folders where they are now."""
        return [path for manager, some in self._grouped(topic_partitions) for path in manager.set_aside(some)]

    # --- a directory fails --------------------------------------------------------------------------------------------

    def directory_of(self, error: OSError) -> str | None:
        """Which directory the file that could not be read or written is in."""
        path = error.filename if isinstance(error.filename, str) else ""
        holding = [each for each in self.paths if path == each or path.startswith(each.rstrip("/") + "/")]
        return max(holding, key=len, default=None)

    def take_offline(self, error: OSError) -> bool:
        """A file could not be read or written: its directory is offline from now on. Whether the node goes on; if not,
        `failure` is why."""
        directory = self.directory_of(error)
        if directory is not None and is_gone(error) and self._is_of_a_moved_log(directory, error.filename):
            return True
        if directory in self.failures:
            return self.failure is None
        if directory is None or directory == self._metadata_directory or len(self.online) <= 1:
            self.failure = self.failure or error
            self.failures.setdefault(directory or self.paths[0], error)
            return False
        self.failures[directory] = error
        (failed,) = (manager for manager in self.online if manager.directory == directory)
        failed.fail(error)
        self.online.remove(failed)
        self.logs.maps.remove(failed.logs)
        self._offline.update(dict.fromkeys(failed.logs, self.ids[directory]))
        failed.abandon()
        self.on_failure(directory, error)
        return True

    def _is_of_a_moved_log(self, directory: str, path: str) -> bool:
        """Whether the file is missing because its log is in another directory by now: then the disk has not failed."""
        topic_partition = parse_directory(path[len(directory) :].lstrip("/").partition("/")[0])
        manager = None if topic_partition is None else self.manager_of(topic_partition)
        return manager is not None and manager.directory != directory

    def _surviving(self, steps: Steps[None]) -> Steps[None]:
        """Take these steps, which are about one directory; if that fails, they end."""
        try:
            yield from steps
        except OSError as error:
            if not self.take_offline(error):
                raise

    def _in_each(self, chore: Callable[[LogManager], Steps[None]]) -> Steps[None]:
        for manager in list(self.online):
            if manager.failure is None:
                yield from self._surviving(chore(manager))

    # --- from time to time --------------------------------------------------------------------------------------------

    def delete_old_segments(self) -> bool:
        """Shorten the logs by what retention does not keep; whether there is more to do."""
        return any(self._of_each(lambda manager: manager.delete_old_segments()))

    def empty_trash(self) -> None:
        """Remove the files whose time since their deletion is over."""
        self._of_each(lambda manager: manager.empty_trash())

    def write_log_starts(self) -> None:
        """Write down where the logs begin."""
        self._of_each(lambda manager: manager.write_log_starts())

    def _of_each(self, ask: Callable[[LogManager], T]) -> list[T]:
        """What each directory answers that does not fail meanwhile."""
        answers = []
        for manager in list(self.online):
            try:
                answers.append(ask(manager))
            except OSError as error:
                if not self.take_offline(error):
                    raise
        return answers

    def compact(self) -> Steps[None]:
        """Let the cleaners compact what is due. Pauses after each log."""
        return self._in_each(lambda manager: manager.compact())

    def flush_old(self) -> Steps[None]:
        """Flush the logs that were not flushed for ``flush.ms``. Pauses after each log."""
        return self._in_each(lambda manager: manager.flush_old())

    def checkpoint(self) -> Steps[None]:
        """Write down the marks of every log. Pauses before each file."""
        return self._in_each(lambda manager: manager.checkpoint())

    def write_checkpoints(self) -> None:
        """The same at once."""
        finish(self.checkpoint())

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Forget producers after this long from now on."""
        for manager in self.online:
            manager.set_producer_id_expiration(expiration_ms)

    # --- closing ------------------------------------------------------------------------------------------------------

    def close(self, broker_epoch: int) -> None:
        """Close every log in order. OSError if the last directory, or that of the metadata, fails meanwhile; a
        directory that has failed says nothing of an orderly stop."""
        if self.failure is not None:
            raise self.failure
        self._of_each(lambda manager: manager.close(broker_epoch))

    def abandon(self) -> None:
        """Close the files and write nothing, as a crash would."""
        for manager in self.online:
            manager.abandon()


def _newness(log: UnifiedLog) -> tuple[int, int]:
    """Of two logs of a partition the newer one has all records that the other has, as far as they count."""
    return log.latest_epoch, log.log_end_offset
