"""Copies of logs that are on their way into a log directory: *future* logs.

A future log is in a folder ``flights-0.<32 hex digits>-future`` below the directory that it moves to. It is filled like
a follower's log, and serves no request. Once it has what the log has, `adopt` makes it the log:

1. it is closed in order, so that all of it is on the disk;
2. its folder gets the name of the partition;
3. it is opened under that name; the owner lets the partition use it;
4. the old log's folder gets a name that ends in ``-delete``, and the checkpoints of both directories are written.

A process that dies before step 2 finds the future log at its next start, and goes on. One that dies before step 4 finds
two logs with the same records. The directory of the newer one does not have it in its recovery points yet: that one is
kept (`log_directories`).

Follows futureLogs of org.apache.kafka.storage.internals.log.LogManager (KIP-113).
"""

import re
from collections.abc import Callable

from pykraft.common.types import TopicPartition, Uuid
from pykraft.storage.log import UnifiedLog

FUTURE_SUFFIX = "-future"
_FUTURE = re.compile(rf"(.+)-([0-9]+)\.[0-9a-f]{{32}}{FUTURE_SUFFIX}")
_LONGEST_NAME = 255

OpenLog = Callable[[TopicPartition, Uuid | None, str], UnifiedLog]


class TooLongError(Exception):
    """No folder can be called after the future log of this topic: its name is too long."""


def parse_future(name: str) -> TopicPartition | None:
    """The partition whose future log is in a folder of this name."""
    found = _FUTURE.fullmatch(name)
    return None if found is None else TopicPartition(found[1], int(found[2]))


class FutureLogs:
    """The future logs below one directory."""

    def __init__(self, directory: str, open_log: OpenLog) -> None:
        """``open_log(topic_partition, topic_id, folder)`` opens a log, and makes it if it is not there."""
        self._directory = directory
        self._open_log = open_log
        self.logs: dict[TopicPartition, UnifiedLog] = {}

    def find(self, name: str) -> bool:
        """Open the future log in the folder of this name; False if it is none. Of a second one only the first counts,
        and the folder is left for the owner."""
        topic_partition = parse_future(name)
        if topic_partition is None or topic_partition in self.logs:
            return False
        self.logs[topic_partition] = self._open_log(topic_partition, None, f"{self._directory}/{name}")
        return True

    def create(self, topic_partition: TopicPartition, topic_id: Uuid, unique: str) -> UnifiedLog:
        """Begin a future log. TooLongError if its folder cannot be named."""
        name = f"{topic_partition}.{unique}{FUTURE_SUFFIX}"
        if len(name) > _LONGEST_NAME:
            raise TooLongError(name)
        log = self._open_log(topic_partition, topic_id, f"{self._directory}/{name}")
        self.logs[topic_partition] = log
        return log

    def close(self) -> None:
        """Close them in order: the next start goes on with them."""
        for log in self.logs.values():
            log.close()

    def abandon(self) -> None:
        """Close the files and write nothing."""
        for log in self.logs.values():
            log.abandon()
