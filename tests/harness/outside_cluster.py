"""A cluster that another process asks for, starts and stops brokers of, and ends: through standard input.

    python -m tests.harness.outside_cluster pykraft     its nodes are threads here
    python -m tests.harness.outside_cluster kafka       its nodes are JVMs with Apache Kafka

It reads what the cluster is to be, up to an empty line. Its nodes get the ids and directories of Kafka's own test
runtime: brokers from 0 on; controllers from 3000 on if they are isolated, else from 0 on. It answers when the cluster
serves, with the addresses of the brokers and of the controllers. Each further line is a question, and is answered when
that is done:

    brokers 2
    controllers 1
    isolated
    protocols SASL_PLAINTEXT PLAINTEXT  of the brokers' and of the controllers' listener
    disks 1                           log directories of a broker
    feature group.version 0
    set num.partitions=3              a property of each node
    set-of 3000 num.partitions=5      a property of one node

                                      -> 127.0.0.1:20001,127.0.0.1:20002 127.0.0.1:20004
    stop 1                            -> done     a broker stops in order
    start 1                           -> done     and serves again
    settle                            -> done     each living node has applied all that the controllers have committed

Where the side cannot have such a cluster, the only answer is "cannot" and why. It ends with its input, with status 0 if
all nodes were well.
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from pykraft import Admin
from pykraft.broker.describe import NodeView
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.lifecycle import LifecycleState
from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import format_properties
from pykraft.common.trace import RingBuffer
from pykraft.common.types import Uuid
from pykraft.controller.features import METADATA_VERSION, METADATA_VERSION_4_2_IV1, levels_with
from pykraft.runtime.clock import StallTolerantClock
from pykraft.runtime.ports import HOST, PortReservation
from pykraft.runtime.threaded import NodeThread
from pykraft.security.jaas import PLAIN_MODULE
from pykraft.security.mechanism import PLAIN
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness.apache_kafka import LOGGING, QUICK_START, STARTED, java
from tests.harness.kafka_client_tests import fetched
from tests.harness.waiting import wait_until

FIRST_BROKER_ID = 0
FIRST_ISOLATED_CONTROLLER_ID = 3000
START_S = 120
SASL = "SASL_PLAINTEXT"
OF_ALL = {
    "controller.listener.names": "CONTROLLER",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
}
"""What Kafka's own runtime gives to each node if the test does not."""
WITH_PLAIN = {
    "sasl.enabled.mechanisms": PLAIN,
    "sasl.mechanism.inter.broker.protocol": PLAIN,
    "sasl.mechanism.controller.protocol": PLAIN,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "false",
    "super.users": "User:plain-admin",
}
"""What it gives besides to a node that has a listener with SASL."""
ADMINS_LOGIN = 'username="plain-admin" password="plain-admin-secret"'
PLAIN_USERS = " ".join(
    f'user_{name}="{name}-secret"'  # as Kafka's runtime has them, in a file of JAAS texts for the whole JVM
    for name in ("plain-admin", "plain-user1")
)


@dataclass
class Wanted:
    """The cluster that is asked for."""

    brokers: int = 1
    controllers: int = 1
    is_combined: bool = True
    protocols: tuple[str, str] = ("PLAINTEXT", "PLAINTEXT")
    """Of the brokers' listener, and of the controllers'."""
    disks: int = 1
    features: dict[str, int] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    of_nodes: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def broker_ids(self) -> list[int]:
        return list(range(FIRST_BROKER_ID, FIRST_BROKER_ID + self.brokers))

    @property
    def controller_ids(self) -> list[int]:
        first = FIRST_BROKER_ID if self.is_combined else FIRST_ISOLATED_CONTROLLER_ID
        return list(range(first, first + self.controllers))


def read_wanted(lines: Iterator[str]) -> Wanted:
    """The cluster that the lines up to an empty one describe."""
    wanted = Wanted()
    for line in iter(lambda: next(lines), ""):
        what, _, rest = line.partition(" ")
        match what:
            case "brokers" | "controllers" | "disks":
                setattr(wanted, what, int(rest))
            case "combined" | "isolated":
                wanted.is_combined = what == "combined"
            case "protocols":
                ours, theirs = rest.split()
                wanted.protocols = ours, theirs
            case "feature":
                name, level = rest.split()
                wanted.features[name] = int(level)
            case "set":
                name, _, value = rest.partition("=")
                wanted.properties[name] = value
            case "set-of":
                node, _, setting = rest.partition(" ")
                name, _, value = setting.partition("=")
                wanted.of_nodes.setdefault(int(node), {})[name] = value
            case _:
                raise KeyError(what)
    return wanted


class Nodes(Protocol):
    """The running nodes of one side."""

    def start(self, node_ids: list[int]) -> None: ...
    def stop(self, node_id: int) -> None: ...
    def settle(self) -> None: ...
    def close(self) -> None: ...


class Layout:
    """Where each node of a cluster keeps its files, and what is in its server.properties."""

    def __init__(self, wanted: Wanted, directory: pathlib.Path, ports: list[int]) -> None:
        self.wanted = wanted
        self.directory = directory
        self.broker_ids, self.controller_ids = wanted.broker_ids, wanted.controller_ids
        self.node_ids = sorted({*self.broker_ids, *self.controller_ids})
        self._broker_ports = dict(zip(self.broker_ids, ports, strict=False))
        self._controller_ports = dict(zip(self.controller_ids, ports[len(self.broker_ids) :], strict=True))
        self.cluster_id = str(Uuid.random(Random()))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._broker_ports.values())

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._controller_ports.values())

    def properties(self, node_id: int) -> dict[str, str]:
        listeners = [
            f"{name}://{HOST}:{ports[node_id]}"
            for name, ports in (("PLAINTEXT", self._broker_ports), ("CONTROLLER", self._controller_ports))
            if node_id in ports
        ]
        roles = (("broker", self.broker_ids), ("controller", self.controller_ids))
        disks = self.wanted.disks if node_id in self._broker_ports else 1
        logs = [str(self.directory / f"node_{node_id}_{number}") for number in range(disks)]
        own = {
            "process.roles": ",".join(role for role, ids in roles if node_id in ids),
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "log.dirs": ",".join(logs),
            "metadata.log.dir": logs[0],
            "controller.quorum.voters": ",".join(f"{n}@{HOST}:{port}" for n, port in self._controller_ports.items()),
        }
        said = self.wanted.properties | own | self.wanted.of_nodes.get(node_id, {})
        return OF_ALL | self._secured(node_id) | said

    def _secured(self, node_id: int) -> dict[str, str]:
        """The protocols of the listeners, and how the node's clients, and the node itself, log in."""
        of_brokers, of_controllers = self.wanted.protocols
        found = {"listener.security.protocol.map": f"PLAINTEXT:{of_brokers},CONTROLLER:{of_controllers}"}
        is_broker = node_id in self._broker_ports
        if is_broker:
            found["inter.broker.listener.name"] = "PLAINTEXT"
        with_sasl = {"plaintext": is_broker and of_brokers, "controller": of_controllers}
        for listener in (name for name, protocol in with_sasl.items() if protocol == SASL):
            found[f"listener.name.{listener}.plain.sasl.jaas.config"] = (
                f"{PLAIN_MODULE} required {ADMINS_LOGIN} {PLAIN_USERS};"
            )
            found |= WITH_PLAIN
        return found

    @property
    def login_to_controllers(self) -> dict[str, str]:
        """The settings of a client of the controllers."""
        if self.wanted.protocols[1] != SASL:
            return {}
        login = f"{PLAIN_MODULE} required {ADMINS_LOGIN};"
        return {"security.protocol": SASL, "sasl.mechanism": PLAIN, "sasl.jaas.config": login}


class PykraftNodes:
    """Nodes of pykraft, each a thread of this process."""

    def __init__(self, layout: Layout) -> None:
        """ConfigError if pykraft has no such cluster."""
        if "principal.builder.class" in layout.wanted.properties:
            raise ConfigError("principal.builder.class is a Java class: without it no node has the principals it needs")
        self._layout = layout
        self._clock = StallTolerantClock()
        self._nodes: dict[int, NodeThread] = {}
        features = layout.wanted.features
        # A later Kafka's tests are for its newest metadata; here that is ours.
        newest = min(features.get(METADATA_VERSION, METADATA_VERSION_4_2_IV1), METADATA_VERSION_4_2_IV1)
        levels = levels_with(features | {METADATA_VERSION: newest})
        for node_id in layout.node_ids:
            config = read_node_config(layout.properties(node_id))
            now = time.time_ns() // 1_000_000
            format_directories(config, layout.cluster_id, OsFileSystem(), Random(), now, levels=levels)

    def start(self, node_ids: list[int]) -> None:
        for node_id in node_ids:
            config = read_node_config(self._layout.properties(node_id))
            self._nodes[node_id] = NodeThread(config, self._clock, Random(), RingBuffer())
            self._nodes[node_id].start()
        brokers = {*node_ids} & {*self._layout.broker_ids}
        wait_until(lambda: brokers <= self._ready(), f"brokers {sorted(brokers)} are ready", START_S)

    def _views(self) -> dict[int, NodeView]:
        self._raise_failures()
        return {node_id: node.describe(0) for node_id, node in self._nodes.items() if node.is_running}

    def _ready(self) -> set[int]:
        return {n for n, view in self._views().items() if view.broker_state == LifecycleState.RUNNING.value}

    def stop(self, node_id: int) -> None:
        self._nodes[node_id].stop()
        self._raise_failures()

    def settle(self) -> None:
        """Wait until each living node has what is committed now. The controllers' own records are in the same log."""
        committed = max(view.quorum.high_watermark for view in self._views().values())

        def has_settled() -> bool:
            return all(view.quorum.high_watermark >= committed for view in self._views().values())

        wait_until(has_settled, "all nodes have the controllers' records", START_S)

    def _raise_failures(self) -> None:
        for node_id, node in self._nodes.items():
            if node.failure is not None:
                raise RuntimeError(f"node {node_id} died: {node.failure!r}") from node.failure

    def close(self) -> None:
        for node in self._nodes.values():
            if node.is_running:
                node.kill()
        self._raise_failures()


class KafkaNodes:
    """Nodes of Apache Kafka, of the release whose tests these are; each is a process."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        (layout.directory / "logging.yaml").write_text(LOGGING.format(level="INFO"))
        formatting = []
        for node_id in layout.node_ids:
            file = layout.directory / f"{node_id}.properties"
            file.write_text(format_properties(layout.properties(node_id)))
            features = [
                word for name, level in layout.wanted.features.items() for word in ("--feature", f"{name}={level}")
            ]
            arguments = ("format", "-t", layout.cluster_id, "-c", str(file), *features)
            formatting.append(
                subprocess.Popen(self._java("kafka.tools.StorageTool", *arguments), stdout=subprocess.DEVNULL)
            )
        if {process.wait(START_S) for process in formatting} != {0}:
            raise ConfigError("Kafka refuses to format such a cluster")

    def _java(self, main: str, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._layout.directory / 'logging.yaml'}"
        return [java(), "-Xmx512m", *QUICK_START, logging, "-cp", f"{fetched() / 'libs'}/*", main, *arguments]

    def _log(self, node_id: int) -> pathlib.Path:
        return self._layout.directory / f"{node_id}.log"

    def start(self, node_ids: list[int]) -> None:
        for node_id in node_ids:
            file = self._layout.directory / f"{node_id}.properties"
            with self._log(node_id).open("wb") as log:
                command = self._java("kafka.Kafka", str(file))
                self._processes[node_id] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: all(map(self._serves, node_ids)), f"nodes {node_ids} serve", START_S)

    def _serves(self, node_id: int) -> bool:
        if self._processes[node_id].poll() is not None:
            raise RuntimeError(f"node {node_id} ended: {self._log(node_id).read_text()[-2000:]}")
        return STARTED in self._log(node_id).read_bytes()

    def stop(self, node_id: int) -> None:
        process = self._processes.pop(node_id)
        process.send_signal(signal.SIGTERM)
        process.wait(START_S)

    def settle(self) -> None:
        """Wait until each living node has fetched what the controllers have committed now."""
        with Admin(
            bootstrap_controllers=self._layout.bootstrap_controllers, **self._layout.login_to_controllers
        ) as admin:
            end = admin.describe_quorum().high_watermark

            def has_settled() -> bool:
                quorum = admin.describe_quorum()
                replicas = {
                    replica.replica_id: replica.log_end_offset for replica in (*quorum.voters, *quorum.observers)
                }
                return all(replicas.get(node_id, -1) >= end for node_id in self._processes)

            wait_until(has_settled, "all nodes have the controllers' records", START_S)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(START_S)


SIDES: dict[str, Callable[[Layout], Nodes]] = {"pykraft": PykraftNodes, "kafka": KafkaNodes}


def serve(side: str, lines: Iterable[str], answer: Callable[[str], object]) -> None:
    """Start what the first lines describe, and do what the others say until they end."""
    questions = (line.rstrip("\n") for line in lines)
    wanted = read_wanted(questions)
    ports = [0] * (wanted.brokers + wanted.controllers)
    folder = tempfile.TemporaryDirectory(prefix="outside-", ignore_cleanup_errors=True)
    with folder as directory, contextlib.closing(PortReservation(ports)) as reserved:
        layout = Layout(wanted, pathlib.Path(directory), reserved.ports)
        try:
            nodes = SIDES[side](layout)
        except ConfigError as error:
            answer(f"cannot {' '.join(str(error).split())}")
            return
        try:
            nodes.start(layout.node_ids)
            answer(f"{layout.bootstrap_servers} {layout.bootstrap_controllers}")
            for question in questions:
                what, *ids = question.split()
                {
                    "stop": lambda ids: [nodes.stop(node_id) for node_id in ids],
                    "start": nodes.start,
                    "settle": lambda _: nodes.settle(),
                }[what]([int(node_id) for node_id in ids])
                answer("done")
        finally:
            nodes.close()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.stdin, say)
