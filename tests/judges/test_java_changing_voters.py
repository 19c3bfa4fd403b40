"""Voters of both kinds come and go in one quorum, by Kafka's kafka-metadata-quorum and by ours (KIP-853).

The quorum begins with one controller of ours. One of Kafka's joins by itself, another of ours is added by Kafka's tool.
Each leader is then removed, until Kafka's controller leads: there voters of ours are added by both tools, and one joins
by itself. All the time a client writes.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pykraft import Admin, Producer
from pykraft.cli import main
from pykraft.common.settings.config import format_properties
from pykraft.runtime.process import NodeProcess
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness import apache_kafka
from tests.harness.apache_kafka import CLUSTER_ID, QUICK_START, START_S, VERSION, free_ports, java_command
from tests.harness.asking import PATIENT
from tests.harness.waiting import wait_until
from tests.interop.test_java_snapshots import LOWERED

pytestmark = [pytest.mark.limit(600), pytest.mark.long]

BROKER, FIRST, JAVA, SECOND, LATE = 1, 101, 102, 103, 104
JOINS = {"controller.quorum.auto.join.enable": "true"}
TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"


class MixedQuorum:
    """Three controllers and a broker of ours, and a controller of Kafka's, each when it is started."""

    def __init__(self, folder: pathlib.Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        nodes = (FIRST, JAVA, SECOND, LATE, BROKER)
        self._ports = dict(zip(nodes, free_ports(len(nodes)), strict=True))
        self.servers = f"127.0.0.1:{self._ports[BROKER]}"

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self._ports[node]}"

    def file(self, node: int) -> pathlib.Path:
        return self._folder / f"{node}.properties"

    def directory_id(self, node: int) -> str:
        found = read_meta_properties(OsFileSystem(), str(self._folder / f"data-{node}"))
        assert found is not None
        return str(found.directory_id)

    def _write(self, node: int, **settings: str) -> None:
        is_broker = node == BROKER
        values = {
            **PATIENT,
            "process.roles": "broker" if is_broker else "controller",
            "node.id": str(node),
            "listeners": f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://{self.address(node)}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(self.address(n) for n in (FIRST, JAVA, SECOND, LATE)),
            "log.dirs": str(self._folder / f"data-{node}"),
            **settings,
        }
        self.file(node).write_text(format_properties(values))

    def start(self, node: int, *options: str, **settings: str) -> None:
        """Format a node of ours, and start it."""
        self._write(node, **settings)
        assert main(["storage", "format", "-t", CLUSTER_ID, "-c", str(self.file(node)), *options]) == 0
        process = NodeProcess(node, self.file(node), self._folder / f"{node}.out")
        self._stack.callback(process.kill)

    def start_java(self) -> None:
        self._write(JAVA, **JOINS)
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self.file(JAVA)), "--no-initial-controllers")
        formatting = java_command(VERSION, "kafka.tools.StorageTool", *arguments, *LOWERED)
        subprocess.run(formatting, check=True, capture_output=True, timeout=START_S)
        command = java_command(VERSION, "kafka.Kafka", str(self.file(JAVA)), logging="server", options=QUICK_START)
        with (self._folder / "java.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def end() -> None:
            process.send_signal(signal.SIGKILL)
            process.wait()

        self._stack.callback(end)

    def javas_tool(self, *arguments: str) -> str:
        command = java_command(VERSION, TOOL, "--bootstrap-server", self.servers, *arguments)
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=START_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def our_tool(self, *arguments: str) -> None:
        assert main(["metadata-quorum", "--bootstrap-server", self.servers, *arguments]) == 0


@pytest.fixture
def quorum(tmp_path: pathlib.Path) -> Iterator[MixedQuorum]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with ExitStack() as stack:
        yield MixedQuorum(tmp_path, stack)


def test_voters_of_both_kinds_come_and_go_by_both_tools(quorum: MixedQuorum) -> None:
    quorum.start(FIRST, "--standalone")
    quorum.start(BROKER)
    with Admin(bootstrap_servers=quorum.servers) as admin, Producer(bootstrap_servers=quorum.servers) as producer:
        wait_until(lambda: len(admin.describe_cluster().brokers) == 1, "the broker is unfenced", 60)
        admin.create_topic("t", 1, 1)

        def voters() -> dict[int, str]:
            return {voter.replica_id: str(voter.directory_id) for voter in admin.describe_quorum().voters}

        def leader() -> int:
            return admin.describe_quorum().leader_id

        def writes() -> None:
            producer.send("t", b"x").result(60)

        def observes(node: int) -> None:
            found = lambda: {each.replica_id for each in admin.describe_quorum().observers}  # noqa: E731
            wait_until(lambda: node in found(), f"{node} follows", 60)

        quorum.start_java()
        wait_until(lambda: voters().keys() == {FIRST, JAVA}, "Kafka's controller has joined our leader", 120)
        assert voters()[JAVA] == quorum.directory_id(JAVA)
        writes()
        quorum.start(SECOND, "--no-initial-controllers")
        observes(SECOND)
        said = quorum.javas_tool("--command-config", str(quorum.file(SECOND)), "add-controller")
        assert f"Added controller {SECOND} with directory id {quorum.directory_id(SECOND)}" in said
        assert voters().keys() == {FIRST, JAVA, SECOND}
        writes()
        while (old := leader()) != JAVA:
            others = voters().keys() - {old}
            quorum.our_tool("remove-controller", "-i", str(old), "-d", quorum.directory_id(old))
            wait_until(lambda others=others: leader() in others, "one of the others leads", 60)
            assert voters().keys() == others
            writes()
        back = sorted({FIRST, SECOND} - voters().keys())
        observes(back[0])
        quorum.our_tool("--command-config", str(quorum.file(back[0])), "add-controller")
        quorum.start(LATE, "--no-initial-controllers", **JOINS)
        wait_until(lambda: LATE in voters(), "ours has joined Kafka's leader", 120)
        assert voters()[LATE] == quorum.directory_id(LATE)
        said = quorum.javas_tool("remove-controller", "-i", str(LATE), "-d", quorum.directory_id(LATE))
        assert f"KRaft controller {LATE} with directory id {quorum.directory_id(LATE)}" in said
        writes()
        assert {JAVA, back[0]} <= voters().keys()
