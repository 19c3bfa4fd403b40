"""Making a node's directories: what ``storage format`` does, before a node can start on them.

A formatted directory says in ``meta.properties`` which node of which cluster it belongs to, and has a random id of its
own. The metadata directory of a controller also gets the first voters (as a snapshot of an empty log), and the first
records of the cluster's metadata.

There are two kinds of quorums (`raft.log.voters`), and the file of a node says which of them it is formatted for:

* with ``controller.quorum.voters`` the voters are static, at kraft.version 0. Each start reads them from the file, and
  nothing of them is written here;
* without it the quorum begins at kraft.version 1, where voters are known by id *and* directory id. So each node gets
  the directory ids of all first voters (``--initial-controllers``), and keeps them in a snapshot of an empty log. With
  ``--standalone`` it is the only one.

A cluster of `pykraft.cluster` or of the simulator has static voters in its files, and yet begins at kraft.version 1,
unless it is asked for level 0. There a first voter's directory id follows from the ids of its cluster and node, so that
all nodes come to the same (`first_voters`). The price: a controller that lost its disk, and is formatted again in the
same way, is taken for the one that had voted.

Follows kafka.tools.StorageTool and org.apache.kafka.metadata.storage.Formatter.
"""

import hashlib
from collections.abc import Mapping, Sequence
from random import Random

from pykraft.broker.settings.config import NODE_ID, NodeConfig
from pykraft.common.errors import ConfigError
from pykraft.common.types import METADATA_TOPIC, Endpoint, ReplicaKey, Uuid
from pykraft.controller.features import KRAFT_VERSION, NEW_CLUSTER, level_records
from pykraft.controller.result import VersionedRecord
from pykraft.protocol.messages.records import MetadataRecord, encode_metadata_record
from pykraft.raft.log.snapshot import (
    BOOTSTRAP_SNAPSHOT,
    encode_snapshot,
    snapshot_name,
    write_snapshot,
)
from pykraft.raft.log.voters import NO_VOTERS, STATIC_VOTERS, Voter, VoterSet
from pykraft.storage.disk.checkpoint import (
    BOOTSTRAP_CHECKPOINT,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from pykraft.storage.disk.filesystem import FileSystem


class AlreadyFormattedError(Exception):
    """The directory belongs to a node already; the message names it."""


def metadata_log_directory(config: NodeConfig) -> str:
    return f"{config.metadata_dir}/{METADATA_TOPIC}-0"


def first_directory_id(cluster_id: str, node_id: int) -> Uuid:
    """The directory id of a first voter where none is given. Ours: Apache Kafka has no such rule."""
    return Uuid(hashlib.sha256(f"pykraft first voter {node_id} of {cluster_id}".encode()).digest()[:16])


def first_voters(config: NodeConfig, cluster_id: str) -> VoterSet:
    """The voters that ``controller.quorum.voters`` names, for a quorum that begins at kraft.version 1."""
    return VoterSet(
        {
            node.id: Voter(
                ReplicaKey(node.id, first_directory_id(cluster_id, node.id)),
                {config.controller_listener: node.endpoint},
            )
            for node in config.voters
        }
    )


def standalone_voter(config: NodeConfig, random: Random) -> VoterSet:
    """This controller as the only voter, with a new directory id."""
    (listener,) = (each for each in config.listeners if each.name == config.controller_listener)
    key = ReplicaKey(config.node_id, Uuid.random(random))
    return VoterSet({key.id: Voter(key, {listener.name: listener.advertised})})


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """Read ``id@host:port:directory-id,...``; ConfigError says what is wrong."""
    voters: dict[int, Voter] = {}
    for part in text.split(","):
        node, _, directory_id = part.strip().rpartition(":")
        number, _, address = node.partition("@")
        voter_id = NODE_ID.read(number, f"the id of {part.strip()!r} in --initial-controllers")
        if voter_id in voters:
            raise ConfigError(f"--initial-controllers has {voter_id} twice, but each voter must have an id of its own")
        try:
            key = ReplicaKey(voter_id, Uuid.parse(directory_id))
            voters[voter_id] = Voter(key, {listener: Endpoint.parse(address)})
        except ValueError as error:
            raise ConfigError(
                f"--initial-controllers has {part!r}, but must have id@host:port:id,...: {error}"
            ) from None
    return VoterSet(voters)


def format_directories(
    config: NodeConfig,
    cluster_id: str,
    filesystem: FileSystem,
    random: Random,
    time_ms: int,
    voters: VoterSet | None = None,
    leaves_formatted: bool = False,
    levels: Mapping[str, int] = NEW_CLUSTER,
    first_records: Sequence[MetadataRecord] = (),
) -> list[str]:
    """Make the node's directories; returns those that were made. `levels` are those of the cluster's features, which
    begins with the `first_records` besides. The quorum begins with these `voters`, or with `first_voters`; with none of
    them at kraft.version 0. AlreadyFormattedError if a directory is a node's already, unless such are to be left as
    they are; ConfigError if it is another node's then."""
    try:
        Uuid.parse(cluster_id)
    except ValueError as error:
        raise ConfigError(f"the cluster id {error}") from None
    directories = config.directories
    for directory in list(directories):
        found = read_meta_properties(filesystem, directory) if filesystem.exists(directory) else None
        if found is None:
            continue
        if not leaves_formatted:
            raise AlreadyFormattedError(f"the directory {directory} is formatted already")
        if (found.cluster_id, found.node_id) != (cluster_id, config.node_id):
            raise ConfigError(
                f"the directory {directory} belongs to node {found.node_id} of cluster {found.cluster_id}"
            )
        directories.remove(directory)
    if levels.get(KRAFT_VERSION) == STATIC_VOTERS:
        voters = NO_VOTERS
    voters = first_voters(config, cluster_id) if voters is None else voters
    for directory in directories:
        try:
            filesystem.make_directory(directory)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(
                f"{directory} is a file, or below one, but must be a directory: move the file away, or name another"
                " directory"
            ) from None
        is_voters = directory == config.metadata_dir and config.node_id in voters.voters and config.is_controller
        directory_id = voters.voters[config.node_id].key.directory_id if is_voters else Uuid.random(random)
        if directory == config.metadata_dir:
            records = [*level_records(levels), *((record, 0) for record in first_records)]
            _write_first_records(filesystem, directory, records, time_ms)
            if config.is_controller and voters.voters:
                _write_first_voters(config, filesystem, voters, time_ms)
        # Last, since it says that all the rest is there.
        write_meta_properties(filesystem, directory, MetaProperties(cluster_id, config.node_id, directory_id))
    return directories


def _write_first_records(
    filesystem: FileSystem, directory: str, records: Sequence[VersionedRecord], time_ms: int
) -> None:
    values = [encode_metadata_record(record, version) for record, version in records]
    data = encode_snapshot(None, values, epoch=0, timestamp=time_ms, last_timestamp=0)
    write_snapshot(filesystem, f"{directory}/{BOOTSTRAP_CHECKPOINT}", data)


def _write_first_voters(config: NodeConfig, filesystem: FileSystem, voters: VoterSet, time_ms: int) -> None:
    directory = metadata_log_directory(config)
    filesystem.make_directory(directory)
    filesystem.sync_directory(config.metadata_dir)
    data = encode_snapshot(voters, [], epoch=0, timestamp=time_ms, last_timestamp=time_ms)
    write_snapshot(filesystem, f"{directory}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}", data)


def check_formatted(
    config: NodeConfig, filesystem: FileSystem, failures: dict[str, OSError] | None = None
) -> Mapping[str, MetaProperties]:
    """The meta.properties of the node's directories; ConfigError says what to do if they are missing or another's.

    A directory that cannot be read, or is a file, is left out, and put into `failures`, while another one can. OSError
    if none can, or if the unreadable one is that of the metadata."""
    found: dict[str, MetaProperties] = {}
    failures = {} if failures is None else failures
    for directory in config.directories:
        try:
            properties = read_meta_properties(filesystem, directory) if filesystem.exists(directory) else None
            if properties is None and filesystem.exists(directory):
                filesystem.list(directory)  # NotADirectoryError: a file is in its place
        except OSError as error:
            failures[directory] = error
            if directory == config.metadata_dir or failures.keys() >= set(config.log_dirs):
                raise
            continue
        if properties is None:
            raise ConfigError(
                f"the directory {directory} is not formatted: "
                "run python -m pykraft storage format -t CLUSTER_ID -c FILE"
                + (" --ignore-formatted" if len(config.directories) > 1 else "")
            )
        if properties.node_id != config.node_id:
            raise ConfigError(f"the directory {directory} belongs to node {properties.node_id}, not {config.node_id}")
        found[directory] = properties
    if len({properties.cluster_id for properties in found.values()}) > 1:
        raise ConfigError(f"log.dirs and metadata.log.dir belong to different clusters: {', '.join(sorted(found))}")
    by_id: dict[Uuid, str] = {}
    for directory in config.log_dirs:
        if directory not in found:
            continue
        properties = found[directory]
        if properties.directory_id in by_id:
            raise ConfigError(
                f"the directories {by_id[properties.directory_id]} and {directory} have the same directory.id: one is a"
                " copy of the other. Take one of them out of log.dirs"
            )
        by_id[properties.directory_id] = directory
    return found
