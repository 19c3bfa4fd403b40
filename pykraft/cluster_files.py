"""What the nodes of a `Cluster` are given: names, ports, a directory and a properties file each."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

from pykraft.broker.settings.config import advice, read_node_config
from pykraft.broker.startup.storage_format import format_directories
from pykraft.cluster_arguments import FIRST_CONTROLLER_ID, INSTEAD, Reach, known_port
from pykraft.cluster_users import check_secured_before
from pykraft.common.settings.config import format_properties, parse_properties
from pykraft.common.types import Uuid
from pykraft.runtime.ports import HOST, PortReservation, PortTakenError
from pykraft.runtime.secure_files import SecureFiles, write_private
from pykraft.runtime.temporary import TemporaryPlace
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import FileSystem, OsFileSystem
from pykraft.storage.upkeep.log_manager import lock_directory
from pykraft.timeouts import PROFILES, TimeoutProfile

_logger = logging.getLogger(__name__)

MOST_REPLICAS = 3
_LESSON_PARTITIONS_OF_INTERNAL_TOPICS = 3
"""A lesson has a few groups and producers. Kafka's 50 partitions would keep the first of them waiting."""


class ClusterError(RuntimeError):
    """A node died, or did not come up; the message says which and why."""


class ClusterFiles:
    """The part of a `Cluster` that starts nothing."""

    directory: Path
    timeouts: TimeoutProfile
    secure_files: SecureFiles | None
    _broker_ports: dict[int, int]
    _controller_ports: dict[int, int]
    _extra: dict[str, object]
    _filesystem: FileSystem | None
    _log_dirs: int
    _levels: Mapping[str, int]
    _listener: str
    _racks: Mapping[int, str]
    _reach: Reach

    @staticmethod
    def _place(directory: str | Path | None) -> tuple[Path, TemporaryPlace | None]:
        """Where the files are, and what is to be removed at the end."""
        if directory is not None:
            return Path(directory).resolve(), None
        temporary = TemporaryPlace()
        return temporary.path, temporary

    def _name_nodes(self, nodes: int, controllers: int | None) -> None:
        self.broker_ids = list(range(1, nodes + 1))
        self._separate = [] if controllers is None else [FIRST_CONTROLLER_ID + n for n in range(controllers)]
        self.controller_ids = self._separate or self.broker_ids
        self.node_ids = self.broker_ids + self._separate

    @property
    def bootstrap_servers(self) -> str:
        """What a client is given to begin with."""
        return ",".join(f"{self._reach.near}:{port}" for port in self._broker_ports.values())

    def properties(self, node_id: int) -> dict[str, str]:
        """What is in a node's server.properties."""
        is_broker = node_id in self._broker_ports
        is_controller = node_id in self._controller_ports
        listeners = []
        if is_broker:
            listeners.append(f"{self._listener}://{self._reach.host}:{self._broker_ports[node_id]}")
        if is_controller:
            listeners.append(f"CONTROLLER://{HOST}:{self._controller_ports[node_id]}")
        replicas = min(MOST_REPLICAS, len(self.broker_ids))
        own: dict[str, object] = {
            "process.roles": ",".join(["broker"] * is_broker + ["controller"] * is_controller),
            "node.id": node_id,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"{self._listener}:{self._listener},CONTROLLER:{self._listener}",
            "controller.quorum.voters": ",".join(f"{n}@{HOST}:{port}" for n, port in self._controller_ports.items()),
            "log.dirs": ",".join(map(str, self.log_directories(node_id))),
        }
        if is_broker:
            own["inter.broker.listener.name"] = self._listener
        if is_broker and self._reach.name != HOST:
            own["advertised.listeners"] = f"{self._listener}://{self._reach.name}:{self._broker_ports[node_id]}"
        if node_id in self._racks:
            own["broker.rack"] = self._racks[node_id]
        if taken := own.keys() & self._extra.keys():
            name = min(taken)
            raise ValueError(
                f"properties has {name}, which the cluster itself gives to each of its nodes:"
                f" {INSTEAD.get(name, 'leave it out')}"
            )
        others: dict[str, object] = {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **PROFILES[self.timeouts],
        }
        if self.timeouts == "lesson":
            others["offsets.topic.num.partitions"] = _LESSON_PARTITIONS_OF_INTERNAL_TOPICS
            others["transaction.state.log.num.partitions"] = _LESSON_PARTITIONS_OF_INTERNAL_TOPICS
        if self.secure_files is not None:
            others |= self.secure_files.node_properties(node_id, is_broker)
        others |= self._extra
        return {key: str(value) for key, value in {**own, **others}.items()}

    def properties_file(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.properties"

    def node_directory(self, node_id: int) -> Path:
        """Where a node keeps its logs: the first of its log directories, which has the metadata, too."""
        return self.directory / f"node-{node_id}"

    def log_directories(self, node_id: int) -> list[Path]:
        """All log directories of a node."""
        others = [self.directory / f"node-{node_id}-disk-{number}" for number in range(2, self._log_dirs + 1)]
        return [self.node_directory(node_id), *others]

    def partition_directory(self, node_id: int, topic: str, partition: int) -> Path:
        """Where a node keeps one partition's log; in the first directory if it is nowhere yet."""
        found = [path / f"{topic}-{partition}" for path in self.log_directories(node_id)]
        return next((path for path in found if path.exists()), found[0])

    def _check_unused(self) -> None:
        """DirectoryInUseError if another cluster runs in the directory. Its nodes would find that themselves, but its
        ports are taken, too, and that would say less."""
        filesystem = OsFileSystem()
        for directory in map(self.node_directory, self.node_ids):
            if directory.exists():
                lock_directory(filesystem, str(directory)).release()

    def _reserve_ports(self, first: int | None) -> PortReservation:
        """The ports that were asked for, or free ones; for nodes that were here before, the ports they had, since the
        quorum's log names them."""
        before = {node_id: self._properties_before(node_id) for node_id in self.node_ids}
        if first is None:
            wanted = [known_port(before[node_id], self._listener) for node_id in self.broker_ids]
        else:
            wanted = [first + n for n in range(len(self.broker_ids))]
        wanted += [known_port(before[node_id], "CONTROLLER") for node_id in self.controller_ids]
        try:
            return PortReservation(wanted)
        except PortTakenError as error:
            whose = f" that the cluster in {self.directory} had" if before[self.node_ids[0]] and first is None else ""
            raise ClusterError(f"port {error.port}{whose} is taken by another program ({error.reason})") from None

    def _properties_before(self, node_id: int) -> dict[str, str]:
        """What a node's file said when the directory was used before; ClusterError if the quorum was another one, which
        its log would hold on to."""
        file = self.properties_file(node_id)
        if not file.exists():
            return {}
        properties = parse_properties(file.read_text())
        voters = properties.get("controller.quorum.voters")
        if voters is None:  # Apache Kafka was run with this file, on a quorum whose voters are records in its log
            return properties
        controllers = [text.partition("@")[0] for text in voters.split(",")]
        if controllers != [str(each) for each in self.controller_ids]:
            raise ClusterError(
                f"{self.directory} holds a cluster whose controllers are the nodes {', '.join(controllers)}: start it "
                "with these, or use another directory"
            )
        return properties

    def _format(self) -> str:
        """Write the properties files, and format the directories that are new; returns the cluster's id."""
        filesystem = self._filesystem or OsFileSystem()
        self.directory.mkdir(parents=True, exist_ok=True)
        check_secured_before(self.directory, self._listener)
        if self._listener != "PLAINTEXT":
            self.secure_files = SecureFiles(
                self.directory / "security", self.node_ids, self._listener, self._reach.name
            )
        found = {
            node_id: read_meta_properties(filesystem, str(self.node_directory(node_id)))
            for node_id in self.node_ids
            if self.node_directory(node_id).exists()
        }
        known = {properties.cluster_id for properties in found.values() if properties is not None}
        random = Random()
        cluster_id = min(known) if known else str(Uuid.random(random))
        for node_id in self.node_ids:
            properties = self.properties(node_id)
            config = read_node_config(properties)
            if config.unknown:
                name = config.unknown[0]
                raise ValueError(f"properties has {name}, which is no setting of a node: {advice(name)}")
            if config.without_effect and node_id == min(self.node_ids):
                _logger.warning("of properties, these change nothing in pykraft: %s", ", ".join(config.without_effect))
            write_private(self.properties_file(node_id), format_properties(properties))
            if found.get(node_id) is None or self._log_dirs > 1:
                first = [] if self.secure_files is None else self.secure_files.first_credentials()
                now_ms = time.time_ns() // 1_000_000
                format_directories(
                    config,
                    cluster_id,
                    filesystem,
                    random,
                    now_ms,
                    leaves_formatted=True,
                    levels=self._levels,
                    first_records=first,
                )
        return cluster_id
