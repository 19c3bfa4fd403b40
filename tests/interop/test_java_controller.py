"""A controller of Apache Kafka in a quorum of ours: it copies the snapshot of our active controller (FetchSnapshot),
becomes the active one itself, and leads the cluster on with the same metadata.

The voters are two controllers of ours and one of Kafka's, which comes last: the log of the quorum has let its first
records go by then, so there is no other way to know the first topics.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from pykraft import Admin, NewTopic
from pykraft.broker.startup.levels import UnopenedLog
from pykraft.cli import main
from pykraft.common.settings.config import format_properties
from pykraft.common.types import METADATA_TOPIC, Uuid
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.raft.log.state_machine import CommitReader
from pykraft.records.batch import LARGEST_OFFSET
from pykraft.runtime.process import NodeProcess
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness import apache_kafka
from tests.harness.apache_kafka import CLUSTER_ID, QUICK_START, START_S, VERSION, free_ports, java_command
from tests.harness.asking import PATIENT
from tests.harness.moments import TODAY_MS
from tests.harness.waiting import wait_until
from tests.interop.clients import Confluent, Row
from tests.interop.test_java_snapshots import LOWERED, SNAPSHOTS, begins_with_a_snapshot

pytestmark = [pytest.mark.limit(300), pytest.mark.long]

OURS, JAVA, BROKER = (101, 102), 103, 1
TOPICS = [f"made-before-{number}" for number in range(12)]


class MixedQuorum:
    """Two controllers and a broker of ours, and a controller of Kafka's, each when it is started."""

    def __init__(self, folder: pathlib.Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._nodes: dict[int, NodeProcess] = {}
        self._java: subprocess.Popen[bytes] | None = None
        ports = dict(zip((*OURS, JAVA, BROKER), free_ports(4), strict=True))
        self.servers = f"127.0.0.1:{ports[BROKER]}"
        controllers = {node: f"127.0.0.1:{ports[node]}" for node in (*OURS, JAVA)}
        self._voters = ",".join(f"{n}@{address}:{Uuid(bytes(15) + bytes([n]))}" for n, address in controllers.items())
        for node, port in ports.items():
            self._write_properties(node, port, controllers)

    def _write_properties(self, node: int, port: int, controllers: Mapping[int, str]) -> None:
        is_broker = node == BROKER
        values = {
            **PATIENT,
            **SNAPSHOTS,
            "process.roles": "broker" if is_broker else "controller",
            "node.id": str(node),
            "listeners": f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(controllers.values()),
            "log.dirs": str(self._folder / f"data-{node}"),
        }
        self._file(node).write_text(format_properties(values))

    def _file(self, node: int) -> pathlib.Path:
        return self._folder / f"{node}.properties"

    def metadata(self, node: int) -> pathlib.Path:
        """Where its metadata log is."""
        return self._folder / f"data-{node}" / f"{METADATA_TOPIC}-0"

    def start(self, node: int) -> None:
        """Start a node of ours, for the first time or again."""
        arguments = ["storage", "format", "-t", CLUSTER_ID, "-c", str(self._file(node)), "--ignore-formatted"]
        assert main([*arguments, *(() if node == BROKER else ("--initial-controllers", self._voters))]) == 0
        self._nodes[node] = NodeProcess(node, self._file(node), self._folder / f"{node}.out")
        self._stack.callback(self._nodes[node].kill)

    def stop(self, node: int) -> None:
        self._nodes[node].stop()

    def start_java(self) -> None:
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._file(JAVA)), "--initial-controllers", self._voters)
        formatting = java_command(VERSION, "kafka.tools.StorageTool", *arguments, *LOWERED)
        subprocess.run(formatting, check=True, capture_output=True, timeout=START_S)
        command = java_command(VERSION, "kafka.Kafka", str(self._file(JAVA)), logging="server", options=QUICK_START)
        with (self._folder / "java.log").open("wb") as log:
            self._java = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._stack.callback(self._end_java)

    def _end_java(self) -> None:
        assert self._java is not None
        self._java.kill()
        self._java.wait()

    def stop_java(self) -> str:
        """Stop it in order; what it has logged."""
        assert self._java is not None and self._java.poll() is None
        self._java.send_signal(signal.SIGTERM)
        self._java.wait(START_S)
        return (self._folder / "java.log").read_text()

    def image(self, node: int) -> MetadataImage:
        """What the files of a node that does not run say, up to their end."""
        loader = MetadataLoader()
        CommitReader(UnopenedLog(OsFileSystem(), str(self.metadata(node))), loader).deliver(LARGEST_OFFSET)
        return loader.image


@pytest.fixture
def quorum(tmp_path: pathlib.Path) -> Iterator[MixedQuorum]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with ExitStack() as stack:
        yield MixedQuorum(tmp_path, stack)


def wait_for(admin: Admin, what: str, is_so: Callable[..., bool]) -> int:
    """Until this is so of (how many records each voter lacks, the leader's id); returns the leader."""
    found: list[int] = []

    def look() -> bool:
        described = admin.describe_quorum()
        ends = {voter.replica_id: voter.log_end_offset for voter in described.voters}
        found[:] = [described.leader_id]
        return is_so({voter: max(ends.values()) - end for voter, end in ends.items()}, described.leader_id)

    wait_until(look, what, 60)
    return found[0]


def registrations(image: MetadataImage) -> dict[int, tuple[object, ...]]:
    """The controllers; a snapshot of Kafka's has their features in the order of a hash map."""
    return {
        node: (record.incarnation_id, record.end_points, sorted(record.features, key=lambda feature: feature.name))
        for node, record in image.controllers.items()
    }


def let_java_lead(quorum: MixedQuorum, admin: Admin) -> None:
    """Stop the active controller, until the others elect the one of Kafka's."""
    for _ in range(6):
        active = wait_for(
            admin, "all voters have the same log", lambda behind, leader: max(behind.values()) < 5 and leader > 0
        )
        if active == JAVA:
            return
        quorum.stop(active)
        wait_for(admin, "another controller is active", lambda _, leader, old=active: leader not in (-1, old))
        quorum.start(active)
    pytest.fail("the controller of Kafka's was never elected")


def test_a_controller_of_apache_kafka_copies_our_snapshot_and_leads_on_from_it(quorum: MixedQuorum) -> None:
    for node in (*OURS, BROKER):
        quorum.start(node)
    with Admin(bootstrap_servers=quorum.servers) as admin:
        wait_until(lambda: len(admin.describe_cluster().brokers) == 1, "the broker is unfenced", 60)
        for name in TOPICS:
            admin.create_topic(name, 1, 1)
        for node in OURS:
            wait_until(
                lambda node=node: begins_with_a_snapshot(quorum.metadata(node)), "the log begins with a snapshot"
            )
        quorum.start_java()
        wait_for(admin, "Kafka's controller has it all", lambda behind, _: behind[JAVA] < 5)
        assert begins_with_a_snapshot(quorum.metadata(JAVA))
        let_java_lead(quorum, admin)
        admin.create_topics([NewTopic("made-by-kafka", 1, 1)])
        wait_until(lambda: {*TOPICS, "made-by-kafka"} <= set(admin.list_topics()), "our broker knows all topics")
        client, rows = Confluent(), [Row(0, -1, TODAY_MS, b"k%d" % n, b"v", []) for n in range(50)]
        client.write(quorum.servers, "made-by-kafka", iter(rows))
        assert len(client.read(quorum.servers, "made-by-kafka", {0: 0}, 50)) == 50
        wait_for(admin, "all voters have the same log", lambda behind, _: max(behind.values()) < 5)
    quorum.stop(BROKER)
    said = quorum.stop_java()
    for node in OURS:
        quorum.stop(node)
    ours, theirs = quorum.image(OURS[0]), quorum.image(JAVA)
    assert ours.topics == theirs.topics and len(ours.topics) == len(TOPICS) + 1
    assert (ours.features, ours.configs) == (theirs.features, theirs.configs)
    assert registrations(ours) == registrations(theirs) and len(ours.controllers) == len(OURS) + 1
    # (What it calls errors are also requests that it cannot serve before it is elected.)
    assert not [line for line in said.splitlines() if "Encountered" in line and " fault" in line]
