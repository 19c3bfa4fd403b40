"""Snapshots over the wire (FetchSnapshot): a broker of Apache Kafka that is new to a cluster of ours copies the
snapshot of our controller, and a new broker of ours copies that of Kafka's.

The log of the quorum has let its first records go, so there is no other way to know the first topics.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pykraft import Admin, Cluster, NewTopic
from pykraft.common.settings.config import format_properties
from pykraft.raft.log.history import SnapshotFolder
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, START_S, VERSION, ApacheKafka, java_command
from tests.harness.asking import PATIENT
from tests.harness.moments import TODAY_MS
from tests.harness.waiting import wait_until
from tests.interop.clients import Confluent, Row

pytestmark = pytest.mark.limit(300)

SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.max.retention.bytes": "1",
    "internal.metadata.log.segment.bytes": "4000",
}
LOWERED = [word for feature in ("share.version", "streams.version") for word in ("--feature", f"{feature}=0")]
NEW_NODE = 7
TOPICS = [f"made-before-{number}" for number in range(12)]


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


def make_topics(servers: str) -> str:
    """Topics, until the log has let the first records go; the cluster's id."""
    with Admin(bootstrap_servers=servers) as admin:
        for name in TOPICS:
            admin.create_topic(name, 1, 1)
        return admin.describe_cluster().cluster_id


def begins_with_a_snapshot(folder: pathlib.Path) -> bool:
    """Of a new broker this says that it has copied the snapshot: it has written none so soon."""
    newest = SnapshotFolder(OsFileSystem(), str(folder)).newest_id()
    return newest not in (None, BOOTSTRAP_SNAPSHOT) and min(int(path.stem) for path in folder.glob("*.log")) > 0


def properties(folder: pathlib.Path, controller: str) -> pathlib.Path:
    """server.properties of a new broker."""
    (port,) = apache_kafka.free_ports(1)
    path = folder / "server.properties"
    path.write_text(
        format_properties(
            {
                "process.roles": "broker",
                "node.id": str(NEW_NODE),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.listener.names": "CONTROLLER",
                "inter.broker.listener.name": "PLAINTEXT",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.bootstrap.servers": controller,
                "log.dirs": str(folder / "data"),
                "broker.session.timeout.ms": "9000",
            }
        )
    )
    return path


@contextmanager
def running(command: list[str], log: pathlib.Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield
        assert process.poll() is None, log.read_text()[-2000:]
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def check_new_broker(servers: str) -> None:
    """It serves a topic that is made on it alone, and knows those that were made before it came."""

    def is_there() -> bool:
        with Admin(bootstrap_servers=servers) as admin:
            return NEW_NODE in {broker.id for broker in admin.describe_cluster().brokers}

    wait_until(is_there, f"broker {NEW_NODE} is there", START_S)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("on-the-new-one", replica_assignments={0: [NEW_NODE]})])
        (address,) = [f"{b.host}:{b.port}" for b in admin.describe_cluster().brokers if b.id == NEW_NODE]
    client, rows = Confluent(), [Row(0, -1, TODAY_MS, b"k%d" % n, b"v", []) for n in range(50)]
    client.write(address, "on-the-new-one", iter(rows))
    assert len(client.read(address, "on-the-new-one", {0: 0}, 50)) == 50
    with Admin(bootstrap_servers=address) as admin:
        assert set(TOPICS) <= set(admin.list_topics())


def test_a_new_broker_of_apache_kafka_copies_the_snapshot_of_our_controller(tmp_path: pathlib.Path) -> None:
    with Cluster(1, directory=tmp_path / "ours", properties=PATIENT | SNAPSHOTS) as cluster:
        cluster_id = make_topics(cluster.bootstrap_servers)
        ours = tmp_path / "ours" / "node-1" / "__cluster_metadata-0"
        wait_until(lambda: begins_with_a_snapshot(ours), "the log begins with a snapshot")
        controller = cluster.properties(1)["listeners"].rpartition("CONTROLLER://")[2]
        (tmp_path / "new").mkdir()
        file = str(properties(tmp_path / "new", controller))
        formatting = java_command(VERSION, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", file)
        subprocess.run(formatting, check=True, capture_output=True, timeout=START_S)
        log = tmp_path / "new" / "server.log"
        with running(java_command(VERSION, "kafka.Kafka", file, logging="server", options=QUICK_START), log):
            check_new_broker(cluster.bootstrap_servers)
            assert begins_with_a_snapshot(tmp_path / "new" / "data" / "__cluster_metadata-0")
            errors = [line for line in log.read_text().splitlines() if " ERROR " in line]
    assert not errors


@pytest.mark.long
def test_a_new_broker_of_ours_copies_the_snapshot_of_apache_kafkas_controller(tmp_path: pathlib.Path) -> None:
    options = ("--standalone", *LOWERED)
    with ApacheKafka(1, SNAPSHOTS, java_options=QUICK_START, format_options=options) as kafka:
        cluster_id = make_topics(kafka.bootstrap_servers)
        theirs = kafka.data(1) / "__cluster_metadata-0"
        wait_until(lambda: begins_with_a_snapshot(theirs), "the log begins with a snapshot", 120)
        (controller,) = kafka.controller_addresses
        file = str(properties(tmp_path, controller))
        pykraft = [sys.executable, "-m", "pykraft"]
        subprocess.run([*pykraft, "storage", "format", "-t", cluster_id, "-c", file], check=True, capture_output=True)
        with running([*pykraft, "server", file], tmp_path / "server.log"):
            check_new_broker(kafka.bootstrap_servers)
            assert begins_with_a_snapshot(tmp_path / "data" / "__cluster_metadata-0")
