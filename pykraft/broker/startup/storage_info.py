"""What the log directories of a node are before it starts: what ``storage info`` looks at.

Each directory is looked at by itself, and changed by nothing: whether it is there, whether it is formatted, and whose
it is. Then all that are formatted are compared with the first one, in order of their paths.

A ``meta.properties`` is read as Kafka's tool reads it, which is more patient than a start. It knows files of
ZooKeeper's time (version 0), whose ids may be missing, and files of version 1 without a directory id, as Kafka before
3.7 wrote them. A file that makes no sense is a problem of its directory.

Follows infoCommand of kafka.tools.StorageTool and org.apache.kafka.metadata.properties.MetaProperties.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pykraft.common.settings.config import digits, parse_properties
from pykraft.common.types import Uuid
from pykraft.storage.disk.checkpoint import META_PROPERTIES
from pykraft.storage.disk.filesystem import FileSystem

Metadata = Mapping[str, str | int]
"""What a ``meta.properties`` says, by Kafka's names, in their order."""

_OF_ZOOKEEPER, _OF_KRAFT = 0, 1
_MOST_INT = (1 << 31) - 1


class StorageInfo(NamedTuple):
    """What was found. `metadata` is that of the first directory that has some, None if none has."""

    directories: Mapping[str, Metadata | None]
    """Those that are there; None for one that is not formatted, or cannot be read."""
    problems: list[str]

    @property
    def metadata(self) -> Metadata | None:
        return next((each for each in self.directories.values() if each is not None), None)


def look_at_directories(filesystem: FileSystem, paths: Iterable[str]) -> StorageInfo:
    """Look at these log directories, in order of their paths."""
    directories: dict[str, Metadata | None] = {}
    found = StorageInfo(directories, [])
    for path in map(_plain, sorted(paths)):
        try:
            names = filesystem.list(path)
        except FileNotFoundError:
            found.problems.append(f"{path} does not exist")
            continue
        except NotADirectoryError:
            found.problems.append(f"{path} is not a directory")
            continue
        except OSError as error:
            found.problems.append(f"{path} cannot be read: {error.strerror}")
            continue
        directories[path] = None
        if META_PROPERTIES not in names:
            found.problems.append(f"{path} is not formatted.")
            continue
        file = f"{path}/{META_PROPERTIES}"
        first = found.metadata
        try:
            directories[path] = own = read_metadata(filesystem.read(file))
        except (OSError, ValueError) as error:
            found.problems.append(f"Error loading {file}: {_reason(error)}")
            continue
        found.problems.extend(_mismatches(own, own if first is None else first))
    if found.metadata is not None and found.metadata["version"] == _OF_ZOOKEEPER:
        found.problems.append(
            "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted "
            "for legacy mode."
        )
    return found


def read_metadata(data: bytes) -> Metadata:
    """Read a ``meta.properties`` of either version; ValueError says what is wrong, in the words of Kafka's tool."""
    values = parse_properties(data.decode())
    version = _version(values.get("version", "0"))
    cluster, node = "cluster.id", "node.id" if version == _OF_KRAFT else "broker.id"
    found: dict[str, str | int] = {}
    if node in values:
        found[node] = _number(values[node], f"Unable to read {node} as a base-10 number.")
    if cluster in values:
        found[cluster] = values[cluster]
    if version == _OF_KRAFT and cluster not in found:
        raise ValueError(f"{cluster} was not found.")
    if version == _OF_KRAFT and node not in found:
        raise ValueError(f"Failed to find {node}")
    if "directory.id" in values:
        try:
            found["directory.id"] = str(Uuid.parse(values["directory.id"]))
        except ValueError as error:
            raise ValueError(f"Unable to read directory.id as a Uuid: {error}") from None
    return dict(sorted({**found, "version": version}.items()))


def _version(text: str) -> int:
    version = _number(text, f"Invalid meta.properties version string '{text}'")
    if version not in (_OF_ZOOKEEPER, _OF_KRAFT):
        raise ValueError(f"Unknown meta.properties version number {version}")
    return version


def _number(text: str, refusal: str) -> int:
    """A number of 32 bits."""
    try:
        number = int(digits(text.strip()))
    except ValueError:
        raise ValueError(refusal) from None
    if not -_MOST_INT - 1 <= number <= _MOST_INT:
        raise ValueError(refusal)
    return number


def _mismatches(own: Metadata, first: Metadata) -> list[str]:
    """What is wrong with this directory beside the first one: one thing at most."""
    if own.get("cluster.id") != first.get("cluster.id"):
        return ["Mismatched cluster IDs between storage directories."]
    if _node_of(own) != _node_of(first):
        return ["Mismatched node IDs between storage directories."]
    return []


def _node_of(metadata: Metadata) -> str | int | None:
    return metadata.get("node.id", metadata.get("broker.id"))


def _plain(path: str) -> str:
    """Without slashes that change nothing."""
    return re.sub("/+", "/", path)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
