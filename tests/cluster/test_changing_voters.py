"""A quorum grows from one voter, loses its leader, and is changed from the command line. No file names a voter."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pykraft import Admin, Producer
from pykraft.cli import main
from pykraft.common.settings.config import format_properties
from pykraft.runtime.process import NodeProcess
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness.apache_kafka import free_ports
from tests.harness.asking import PATIENT
from tests.harness.waiting import wait_until

CLUSTER_ID = "quorumThatChanges00000"
COMBINED, SECOND, THIRD = 1, 2, 3


class Nodes:
    """A broker that is a controller, too, and two controllers; each when it is started."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._running: dict[int, NodeProcess] = {}
        broker, *controllers = free_ports(4)
        self.servers = f"127.0.0.1:{broker}"
        self.controllers = dict(
            zip((COMBINED, SECOND, THIRD), (f"127.0.0.1:{port}" for port in controllers), strict=True)
        )

    def file(self, node: int) -> Path:
        return self.folder / f"{node}.properties"

    def directory_id(self, node: int) -> str:
        found = read_meta_properties(OsFileSystem(), str(self.folder / f"data-{node}"))
        assert found is not None
        return str(found.directory_id)

    def start(self, node: int, *options: str, **settings: str) -> None:
        """Format it unless it is formatted, and start it."""
        is_broker = [f"PLAINTEXT://{self.servers}"] * (node == COMBINED)
        values = {
            **PATIENT,
            "process.roles": "broker,controller" if is_broker else "controller",
            "node.id": str(node),
            "listeners": ",".join([*is_broker, f"CONTROLLER://{self.controllers[node]}"]),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(self.controllers.values()),
            "log.dirs": str(self.folder / f"data-{node}"),
            "offsets.topic.replication.factor": "1",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.file(node).write_text(format_properties(values))
        assert main(["storage", "format", "-t", CLUSTER_ID, "-c", str(self.file(node)), "-g", *options]) == 0
        self._running[node] = NodeProcess(node, self.file(node), self.folder / f"{node}.out")
        self._stack.callback(self._running[node].kill)

    def wipe(self, node: int) -> None:
        """It stops, and its disk is gone."""
        self._running[node].stop()
        shutil.rmtree(self.folder / f"data-{node}")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(tmp_path, stack)


def voters(admin: Admin) -> list[tuple[int, str]]:
    return [(voter.replica_id, str(voter.directory_id)) for voter in admin.describe_quorum().voters]


@pytest.mark.limit(120)
def test_voters_come_and_go_at_the_command_line_and_by_themselves(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.start(COMBINED, "--standalone")
    nodes.start(SECOND, "--no-initial-controllers")
    of_brokers = ("metadata-quorum", "--bootstrap-server", nodes.servers)
    with Admin(bootstrap_servers=nodes.servers) as admin:

        def first(node: int) -> tuple[int, str]:
            return node, nodes.directory_id(node)

        wait_until(lambda: SECOND in {each.replica_id for each in admin.describe_quorum().observers}, "it follows", 60)
        assert voters(admin) == [first(COMBINED)]
        file, directory_id = str(nodes.file(SECOND)), nodes.directory_id(SECOND)
        added = f"controller {SECOND} with directory id {directory_id} and endpoints: "
        added += f"CONTROLLER://{nodes.controllers[SECOND]}\n"
        capsys.readouterr()
        assert main([*of_brokers, "--command-config", file, "add-controller", "--dry-run"]) == 0
        assert capsys.readouterr().out == f"DRY RUN of adding {added}"
        assert voters(admin) == [first(COMBINED)]
        assert main([*of_brokers, "--command-config", file, "add-controller"]) == 0
        assert capsys.readouterr().out == f"Added {added}"
        assert voters(admin) == [first(COMBINED), first(SECOND)]
        assert main([*of_brokers, "--command-config", file, "add-controller"]) == 1
        assert "DUPLICATE_VOTER" in capsys.readouterr().err

        which = ("--controller-id", "1", "--controller-directory-id", nodes.directory_id(COMBINED))
        assert main([*of_brokers, "remove-controller", *which]) == 0
        assert capsys.readouterr().out == f"Removed KRaft controller 1 with directory id {first(COMBINED)[1]}\n"
        wait_until(lambda: admin.describe_quorum().leader_id == SECOND, "the other one leads", 60)
        assert voters(admin) == [first(SECOND)]
        assert main([*of_brokers, "remove-controller", "-i", str(SECOND), "-d", directory_id]) == 1
        assert "the only voter" in capsys.readouterr().err
        with Producer(bootstrap_servers=nodes.servers, acks="all") as producer:
            producer.send("made-on-demand", b"x").result(30)


@pytest.mark.long
@pytest.mark.limit(240)
def test_a_controller_with_a_wiped_disk_replaces_its_old_key_by_itself(nodes: Nodes) -> None:
    joins = {"controller_quorum_auto_join_enable": "true"}
    nodes.start(COMBINED, "--standalone")
    for node in (SECOND, THIRD):
        nodes.start(node, "--no-initial-controllers", **joins)
    with Admin(bootstrap_controllers=nodes.controllers[COMBINED]) as admin:
        wait_until(lambda: len(voters(admin)) == 3, "both have joined", 120)
        before = nodes.directory_id(SECOND)
        assert dict(voters(admin))[SECOND] == before
        nodes.wipe(SECOND)
        nodes.start(SECOND, "--no-initial-controllers", **joins)
        wait_until(lambda: dict(voters(admin)).get(SECOND) == nodes.directory_id(SECOND), "it has joined again", 120)
        assert nodes.directory_id(SECOND) != before
