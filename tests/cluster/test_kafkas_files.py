"""Files that were written for Apache Kafka start nodes; and limits of connections change while a node runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

from pykraft import Admin, Cluster
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.storage_format import format_directories, standalone_voter
from pykraft.cli import main
from pykraft.common.settings.config import parse_properties
from pykraft.common.trace import RingBuffer
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.threaded import NodeThread
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness.apache_kafka import free_ports
from tests.harness.socket_settings import SERVED, WAITS, a_third_connection
from tests.harness.tree import ROOT
from tests.harness.waiting import wait_until

FILES = ROOT / "tests" / "harness" / "kafka_files"


@contextmanager
def started(file: str, folder: Path, ports: tuple[int, int]) -> Iterator[None]:
    """The node of this file, on these ports for clients and controllers, and in a folder of its own."""
    text = (FILES / file).read_text().replace("//:", "//127.0.0.1:").replace("localhost", "127.0.0.1")
    properties = parse_properties(text.replace(":9092", f":{ports[0]}").replace(":9093", f":{ports[1]}"))
    config = read_node_config(properties | {"log.dirs": str(folder / file)})
    voters = standalone_voter(config, Random(1)) if config.is_controller else None
    format_directories(config, "pykraftReferenceQuorum", OsFileSystem(), Random(config.node_id), 0, voters)
    node = NodeThread(config, MonotonicClock(), Random(1), RingBuffer())
    node.start()
    try:
        yield
    finally:
        node.kill()


@pytest.mark.parametrize(
    "files", [("server.properties",), ("production.properties",), ("controller.properties", "broker.properties")]
)
def test_a_file_of_kafkas_starts_a_node(files: tuple[str, ...], tmp_path: Path) -> None:
    clients, controllers = free_ports(2)
    with ExitStack() as stack:
        for file in files:
            stack.enter_context(started(file, tmp_path, (clients, controllers)))
        with Admin(bootstrap_servers=f"127.0.0.1:{clients}") as admin:
            admin.create_topic("t", 1, 1)
            assert admin.list_topics() == ["t"]


def test_the_limits_of_connections_change_while_a_node_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1) as cluster:
        reached = ["--bootstrap-server", cluster.bootstrap_servers]
        limit, threads = "max.connections.per.ip=1", "background.threads=12"
        assert a_third_connection(cluster.bootstrap_servers) == SERVED
        assert main(["configs", *reached, "--alter", "--broker", "1", "--add-config", "max.connections=2"]) == 0
        wait_until(lambda: a_third_connection(cluster.bootstrap_servers) == WAITS, "a third connection waits")
        assert capsys.readouterr().err == ""
        assert main(["configs", *reached, "--alter", "--broker-defaults", "--add-config", f"{limit},{threads}"]) == 0
        assert "background.threads is kept and described, and changes nothing: one thread" in capsys.readouterr().err
