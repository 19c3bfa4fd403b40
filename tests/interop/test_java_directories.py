"""Directories that change hands: what a node of pykraft wrote, Apache Kafka serves and writes on, and the other way
round.

A node is stopped in order, and the other one started on what it left: a whole log directory, with the quorum's log and
state, or the folder of one partition that both know under the same name.

A node of Apache Kafka as it is formatted by default runs features that pykraft does not serve, share and streams
groups. Our node keeps their levels, and Kafka finds them again. So it is with Kafka 4.2 and, in long runs, 4.3 and 4.4.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import signal
from collections.abc import Iterator, Mapping

import confluent_kafka
import pytest

from pykraft import Admin, Cluster
from pykraft.storage.disk.checkpoint import PARTITION_METADATA
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, VERSION, ApacheKafka
from tests.harness.asking import KEPT, PATIENT, T0
from tests.harness.waiting import wait_until
from tests.interop.clients import Confluent, Row

pytestmark = pytest.mark.limit(300)

FEATURES = {
    "share.version": 1,
    "streams.version": 1,
}
"""What a cluster of Apache Kafka 4.2 runs, and pykraft does not serve."""
NEWER = [pytest.param(version, marks=pytest.mark.long) for version in ("4.3.1", "4.4.0")]
PARTITIONS = 2
PART = 300
SMALL = {**KEPT, "segment.bytes": str(1 << 20), "index.interval.bytes": "512"}
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.max.retention.bytes": "1",
}
"""Let either write a snapshot of the metadata again and again, and keep as little before it as it may."""
SHORT = {**PATIENT, "internal.metadata.log.segment.bytes": "4000"}
CLIENT = Confluent()


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


def rows(start: int) -> list[Row]:
    """The next `PART` rows, to both partitions in turn."""
    return [
        Row(number % PARTITIONS, -1, T0 + number, b"key %d" % number, b"value %d" % number, [("h", b"%d" % number)])
        for number in range(start, start + PART)
    ]


def write(servers: str, topic: str, start: int, codec: str) -> None:
    written = CLIENT.write(servers, topic, iter(rows(start)), compression_type=codec)
    assert len(written) == PART


def check(servers: str, topic: str, end: int) -> None:
    """Just the rows 0 to `end` are there, in order."""
    found = CLIENT.read(servers, topic, dict.fromkeys(range(PARTITIONS), 0), end)
    expected = [row for start in range(0, end, PART) for row in rows(start)]
    for partition in range(PARTITIONS):
        mine = [row for row in found if row.partition == partition]
        assert [row._replace(offset=-1) for row in mine] == [row for row in expected if row.partition == partition]
        assert [row.offset for row in mine] == list(range(len(mine)))


def stop(kafka: ApacheKafka) -> None:
    """Stop its node in order; it has found no fault. (A coordinator complains if it is stopped while it reads, and a
    controller that registers with itself the moment before it knows that it leads, or that waits for the processor.)"""
    kafka.kill(1, signal.SIGTERM)
    harmless = ("Coordinator id=", "apiKey=CONTROLLER_REGISTRATION", "Exceptionally slow controller event")
    errors = [line for line in kafka.log(1).splitlines() if " ERROR " in line]
    faults = [line for line in errors if not any(words in line for words in harmless)]
    assert not faults, faults
    recovered = [line for line in kafka.log(1).splitlines() if "Recovering unflushed segment" in line]
    assert all("__cluster_metadata" in line for line in recovered), "the orderly stop was not known"


def ports_of(home: pathlib.Path, nodes: int) -> list[int]:
    """The brokers', then the controllers', by what the nodes' properties say."""
    listeners = [
        line.removeprefix("listeners=").split(",")
        for node in range(1, nodes + 1)
        for line in (home / f"node-{node}.properties").read_text().splitlines()
        if line.startswith("listeners=")
    ]
    return [int(of_node[which].rpartition(":")[2]) for which in (0, 1) for of_node in listeners]


def apache(
    home: pathlib.Path,
    nodes: int = 1,
    properties: Mapping[str, str] | None = None,
    static_voters: bool = False,
    version: str = VERSION,
) -> ApacheKafka:
    """Apache Kafka on the directories of the nodes of this cluster."""
    return ApacheKafka(
        nodes,
        properties,
        java_options=QUICK_START,
        ports=ports_of(home, nodes),
        log_directories=[home / f"node-{node}" for node in range(1, nodes + 1)],
        static_voters=static_voters,
        version=version,
    )


def adopt(kafka: ApacheKafka, home: pathlib.Path) -> None:
    """Make of the stopped nodes' directories and properties those of nodes of ours."""
    for node in kafka.nodes:
        shutil.copytree(kafka.data(node), home / f"node-{node}", copy_function=shutil.copy2)
        adopt_properties(kafka, node, home)


def adopt_properties(kafka: ApacheKafka, node: int, home: pathlib.Path) -> None:
    properties = (kafka.folder(node) / "server.properties").read_text()
    properties = properties.replace(f"log.dirs={kafka.data(node)}\n", f"log.dirs={home / f'node-{node}'}\n")
    assert f"log.dirs={home}" in properties
    (home / f"node-{node}.properties").write_text(properties)


def quorum_state(home: pathlib.Path) -> dict[str, object]:
    """What the first node's quorum-state says."""
    found: dict[str, object] = json.loads((home / "node-1" / "__cluster_metadata-0" / "quorum-state").read_text())
    return found


def features(kafka: ApacheKafka) -> dict[str, int]:
    """The levels of its cluster."""
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        return dict(admin.describe_features().finalized_features)


def begins_with_a_snapshot(home: pathlib.Path) -> bool:
    """Whether the metadata log has let its first records go."""
    folder = home / "node-1" / "__cluster_metadata-0"
    snapshots = [int(path.stem.partition("-")[0]) for path in folder.glob("0*.checkpoint")]
    return min(int(path.stem) for path in folder.glob("*.log")) > 0 and max(snapshots, default=0) > 0


# --- whole directories ------------------------------------------------------------------------------------------------


def test_a_directory_of_ours_is_served_by_apache_kafka_and_then_by_us_again(tmp_path: pathlib.Path) -> None:
    """All that is left of the beginning of the metadata is in snapshots, of ours and then of theirs."""
    with Cluster(1, directory=tmp_path, properties=SHORT | SNAPSHOTS) as cluster:
        with cluster.admin() as admin:
            admin.create_topic("ours", PARTITIONS, 1, SMALL)
            for number in range(12):
                admin.create_topic(f"more-{number}", 1, 1)
        write(cluster.bootstrap_servers, "ours", 0, "none")
        wait_until(lambda: begins_with_a_snapshot(tmp_path), "it begins with a snapshot")
    with apache(tmp_path, properties=SNAPSHOTS) as kafka:
        check(kafka.bootstrap_servers, "ours", PART)
        write(kafka.bootstrap_servers, "ours", PART, "zstd")
        CLIENT.create(kafka.bootstrap_servers, "theirs", PARTITIONS, 1, KEPT)
        write(kafka.bootstrap_servers, "theirs", 0, "lz4")
        stop(kafka)
    assert begins_with_a_snapshot(tmp_path)
    with Cluster(1, directory=tmp_path, properties=PATIENT) as cluster:
        check(cluster.bootstrap_servers, "ours", 2 * PART)
        check(cluster.bootstrap_servers, "theirs", PART)
        write(cluster.bootstrap_servers, "theirs", PART, "gzip")
        check(cluster.bootstrap_servers, "theirs", 2 * PART)


@pytest.mark.parametrize("version", [VERSION, *NEWER])
def test_a_directory_of_apache_kafkas_as_it_is_formatted_by_default_is_served_by_us_and_by_it_again(
    version: str, tmp_path: pathlib.Path
) -> None:
    """Its quorum is at kraft.version 0: the properties name the voters, and both kinds of nodes leave it at that."""
    second = tmp_path / "second"
    with ApacheKafka(java_options=QUICK_START, properties=SNAPSHOTS, version=version) as kafka:
        CLIENT.create(kafka.bootstrap_servers, "theirs", PARTITIONS, 1, KEPT)
        write(kafka.bootstrap_servers, "theirs", 0, "snappy")
        CLIENT.create(kafka.bootstrap_servers, "decided", PARTITIONS, 1, KEPT)
        transaction(kafka.bootstrap_servers, rows(0), committed=True)
        transaction(kafka.bootstrap_servers, rows(PART), committed=False)
        levels = features(kafka)
        assert levels.keys() >= FEATURES.keys()
        stop(kafka)
        adopt(kafka, second)
    assert any(path.stem > "0" * 19 + "1" for path in (second / "node-1").glob("__cluster*/0*.checkpoint")), "snapshots"
    states = [quorum_state(second)]
    with Cluster(1, directory=second, properties=PATIENT | SNAPSHOTS) as cluster:
        check(cluster.bootstrap_servers, "theirs", PART)
        states.append(quorum_state(second))
        with cluster.admin() as admin:
            assert admin.describe_features().finalized_features == levels
        write(cluster.bootstrap_servers, "theirs", PART, "none")
        decided = CLIENT.read(cluster.bootstrap_servers, "decided", dict.fromkeys(range(PARTITIONS), 0), PART)
        assert sorted(row.value or b"" for row in decided) == sorted(row.value or b"" for row in rows(0))
    with apache(second, static_voters=True, version=version) as kafka:
        assert features(kafka) == levels
        states.append(quorum_state(second))
        assert [{**state, "leaderEpoch": 0} for state in states] == 3 * [
            {
                "clusterId": "",
                "leaderId": 1,
                "leaderEpoch": 0,
                "votedId": -1,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": 1}],
                "data_version": 0,
            }
        ]
        check(kafka.bootstrap_servers, "theirs", 2 * PART)
        write(kafka.bootstrap_servers, "theirs", 2 * PART, "none")
        check(kafka.bootstrap_servers, "theirs", 3 * PART)
        stop(kafka)


@pytest.mark.long
def test_a_directory_that_apache_kafka_formatted_and_never_started_begins_as_ours(tmp_path: pathlib.Path) -> None:
    """With all that its bootstrap.checkpoint has: levels of an older release, and a user's credentials, which only
    Apache Kafka uses."""
    credentials = ("--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]")
    options = ("--standalone", "--release-version", "4.0", "--feature", "transaction.version=1", *credentials)
    with ApacheKafka(java_options=QUICK_START, format_options=options, starts=False) as kafka:
        adopt(kafka, tmp_path)
    with Cluster(1, directory=tmp_path, properties=SHORT | SNAPSHOTS) as cluster, cluster.admin() as admin:
        features = admin.describe_features().finalized_features
        assert features == {"metadata.version": 25, "kraft.version": 1, "group.version": 1, "transaction.version": 1}
        admin.create_topic("ours", PARTITIONS, 1, SMALL)
        for number in range(12):
            admin.create_topic(f"more-{number}", 1, 1)
        write(cluster.bootstrap_servers, "ours", 0, "none")
        wait_until(lambda: begins_with_a_snapshot(tmp_path), "it begins with a snapshot")
    with apache(tmp_path) as kafka:
        check(kafka.bootstrap_servers, "ours", PART)
        told = kafka.tool(
            "kafka.admin.ConfigCommand",
            "--bootstrap-server",
            kafka.bootstrap_servers,
            "--describe",
            "--entity-type",
            "users",
        )
        assert "SCRAM-SHA-256=iterations=4096" in told
        stop(kafka)


def transaction(servers: str, some: list[Row], committed: bool) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "interop"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for row in some:
        producer.produce("decided", row.value, row.key, row.partition)
    producer.flush(60)
    (producer.commit_transaction if committed else producer.abort_transaction)(60)


# --- folders of partitions --------------------------------------------------------------------------------------------


@pytest.fixture
def theirs() -> Iterator[ApacheKafka]:
    with ApacheKafka(java_options=QUICK_START) as kafka:
        yield kafka


def give(source: pathlib.Path, target: pathlib.Path, topic: str) -> None:
    """Put the partitions' files of one stopped node in the place of another's; the other's topic has another id."""
    for partition in range(PARTITIONS):
        folder = target / f"{topic}-{partition}"
        metadata = (folder / PARTITION_METADATA).read_bytes()
        shutil.rmtree(folder)
        shutil.copytree(source / folder.name, folder)
        (folder / PARTITION_METADATA).write_bytes(metadata)


@pytest.mark.long
def test_folders_of_partitions_are_exchanged(theirs: ApacheKafka, tmp_path: pathlib.Path) -> None:
    our_data, their_data = tmp_path / "node-1", theirs.folder(1) / "data"
    servers = theirs.bootstrap_servers
    with Cluster(1, directory=tmp_path, properties=PATIENT) as cluster:
        for topic in ("from-us", "from-them"):
            with cluster.admin() as admin:
                admin.create_topic(topic, PARTITIONS, 1, SMALL)
            CLIENT.create(servers, topic, PARTITIONS, 1, KEPT)
        write(cluster.bootstrap_servers, "from-us", 0, "zstd")
        write(servers, "from-them", 0, "gzip")
        cluster.stop(1)
        theirs.kill(1, signal.SIGTERM)
        give(our_data, their_data, "from-us")
        give(their_data, our_data, "from-them")
        theirs.restart(1)
        cluster.restart(1)
        for servers, topic in ((cluster.bootstrap_servers, "from-them"), (theirs.bootstrap_servers, "from-us")):
            check(servers, topic, PART)
            write(servers, topic, PART, "none")
            check(servers, topic, 2 * PART)
        cluster.stop(1)
        stop(theirs)
        give(their_data, our_data, "from-us")  # and back
        cluster.restart(1)
        check(cluster.bootstrap_servers, "from-us", 2 * PART)
        write(cluster.bootstrap_servers, "from-us", 2 * PART, "lz4")
        check(cluster.bootstrap_servers, "from-us", 3 * PART)
