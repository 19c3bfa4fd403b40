"""The small files beside the logs.

Checkpoints are text: a version line, a count line, then that many entries::

    0                      0
    2                      2
    flights 0 1200         0 0
    flights 1 1187         3 812
    (offset checkpoint:    (leader-epoch-checkpoint:
     topic, partition,      epoch, start offset)
     offset)

The others are text, too, one name and value a line, but for the last, which is JSON::

    partition.metadata     which topic a folder belongs to: version: 0, topic_id: ... (no final newline)
    meta.properties        whose log directory it is: version=1, cluster.id=..., node.id=1, directory.id=...
    .kafka_cleanshutdown   the node closed its logs in order, and as which broker epoch: {"version":0,"brokerEpoch":7}

All are replaced as a whole (`filesystem.replace_file`), so a crash leaves the old or the new file. A file that cannot
be read is refused with its name: it was not a crash that did that. (A node of Kafka stops there, too: it takes the
directory for one that has failed.) There are two exceptions: an empty checkpoint is one that was never written, and of
``.kafka_cleanshutdown`` it counts that it is there; if it cannot be read, it names no broker epoch.

Follows org.apache.kafka.server.common.CheckpointFile, org.apache.kafka.storage.internals.checkpoint.* and
org.apache.kafka.metadata.properties.MetaProperties.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pykraft.common.settings.config import digits, format_properties, parse_properties
from pykraft.common.types import TopicPartition, Uuid
from pykraft.storage.disk.filesystem import FileSystem, read_if_there, replace_file

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
LOCK = ".lock"

T = TypeVar("T")


class DamagedFileError(Exception):
    """A file of the log directory cannot be what it should be; the message names it."""


def format_checkpoint(lines: Sequence[str]) -> bytes:
    """The bytes of a checkpoint with these entries."""
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def parse_checkpoint(path: str, data: bytes, entry: Callable[[list[str]], T]) -> list[T]:
    """The entries of a checkpoint; an empty file is one that was never written."""
    if not data:
        return []
    try:
        version, count, *lines = data.decode().splitlines()
        if version != "0" or parse_number(count) != len(lines):
            raise ValueError(f"version {version}, {count} entries announced, {len(lines)} there")
        return [entry(line.split()) for line in lines]
    except (ValueError, TypeError, IndexError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


def parse_number(text: str) -> int:
    """A number in such a file. ValueError if Kafka could not read it."""
    number = int(digits(text))
    if not -1 << 63 <= number < 1 << 63:
        raise ValueError(f"{number} has more than 64 bits")
    return number


def read_offsets(filesystem: FileSystem, path: str) -> dict[TopicPartition, int]:
    """An offset checkpoint; empty if there is none."""
    if not filesystem.exists(path):
        return {}

    def entry(words: list[str]) -> tuple[TopicPartition, int]:
        topic, partition, offset = words
        return TopicPartition(topic, parse_number(partition)), parse_number(offset)

    return dict(parse_checkpoint(path, filesystem.read(path), entry))


def write_offsets(filesystem: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint."""
    lines = [_line(key, offset) for key, offset in sorted(offsets.items())]
    replace_file(filesystem, path, format_checkpoint(lines))


class OffsetCheckpoint:
    """An offset checkpoint that is written again and again. At five thousand partitions, to sort its entries and to
    write each as text takes longer than all the rest, and mostly few have changed: only their lines are made again."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self.offsets: Mapping[TopicPartition, int] = {}
        """What is written down."""
        self._order: list[TopicPartition] = []
        self._lines: dict[TopicPartition, str] = {}

    def read(self) -> None:
        """Take what the file says."""
        self.offsets = read_offsets(self._filesystem, self._path)
        self._order = sorted(self.offsets)
        self._lines = {key: _line(key, offset) for key, offset in self.offsets.items()}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file."""
        before, lines = self.offsets, self._lines
        gone = before.keys() - offsets.keys()
        if gone:
            self._order = [key for key in self._order if key not in gone]
            for key in gone:  # in any order
                del lines[key]
        come = sorted(offsets.keys() - before.keys())
        if come:
            self._order = sorted(self._order + come)  # two sorted runs: merged
        for key, offset in offsets.items():
            if before.get(key) != offset:
                lines[key] = _line(key, offset)
        self.offsets = offsets
        replace_file(self._filesystem, self._path, format_checkpoint([lines[key] for key in self._order]))


def _line(key: TopicPartition, offset: int) -> str:
    return f"{key.topic} {key.partition} {offset}"


class MetaProperties(NamedTuple):
    """Whose log directory this is."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


def read_meta_properties(filesystem: FileSystem, directory: str) -> MetaProperties | None:
    """The directory's ``meta.properties``; None if it was never formatted."""

    def parse(text: str) -> MetaProperties:
        values = parse_properties(text)
        _check_version(values["version"], "1")
        node_id, directory_id = parse_number(values["node.id"]), Uuid.parse(values["directory.id"])
        return MetaProperties(values["cluster.id"], node_id, directory_id)

    return _read_if_there(filesystem, f"{directory}/{META_PROPERTIES}", parse)


def write_meta_properties(filesystem: FileSystem, directory: str, properties: MetaProperties) -> None:
    """Say whose log directory it is: once, when it is formatted."""
    values = {
        "node.id": str(properties.node_id),
        "directory.id": str(properties.directory_id),
        "version": "1",
        "cluster.id": properties.cluster_id,
    }
    replace_file(filesystem, f"{directory}/{META_PROPERTIES}", b"#\n" + format_properties(values).encode())


def read_partition_metadata(filesystem: FileSystem, directory: str) -> Uuid | None:
    """The topic id of a partition's folder; None if it was not written yet."""

    def parse(text: str) -> Uuid:
        values = dict(line.split(": ", 1) for line in text.splitlines())
        _check_version(values["version"], "0")
        return Uuid.parse(values["topic_id"])

    return _read_if_there(filesystem, f"{directory}/{PARTITION_METADATA}", parse)


def write_partition_metadata(
    filesystem: FileSystem, directory: str, topic_id: Uuid, sync_directory: bool = True
) -> None:
    """Say which topic the folder belongs to; without `sync_directory` the folder is still to be synced."""
    content = f"version: 0\ntopic_id: {topic_id}".encode()
    replace_file(filesystem, f"{directory}/{PARTITION_METADATA}", content, sync_directory)


def read_clean_shutdown(filesystem: FileSystem, directory: str) -> int | None:
    """The broker epoch of an orderly stop (-1 if it names none); None after a crash."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if not filesystem.exists(path):
        return None
    try:
        epoch = int(json.loads(filesystem.read(path) or b"{}").get("brokerEpoch", -1))
        return epoch if 0 <= epoch < 1 << 63 else -1
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return -1


def write_clean_shutdown(filesystem: FileSystem, directory: str, broker_epoch: int) -> None:
    """Say that everything in the directory was closed in order. It has to be the last that is written."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(filesystem, f"{directory}/{CLEAN_SHUTDOWN}", content.encode())


def _check_version(found: str, known: str) -> None:
    if found != known:
        raise ValueError(f"version {found} is not {known}")


def _read_if_there(filesystem: FileSystem, path: str, parse: Callable[[str], T]) -> T | None:
    """What the text in the file says; None if there is no such file."""
    data = read_if_there(filesystem, path)
    if data is None:
        return None
    try:
        return parse(data.decode())
    except (ValueError, KeyError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error
