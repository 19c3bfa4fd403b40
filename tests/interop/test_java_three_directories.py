"""Three directories that change hands: a cluster of Apache Kafka goes on as one of pykraft, and the other way round.

Three nodes with both roles, topics with a replica on each. All are stopped in order, and three nodes of the other kind
started on what they left: the quorum's log and votes, the replicas, the checkpoints, on the ports that the quorum knows
its voters by. The voters stand in the log (kraft.version 1), as both kinds are formatted with `--initial-controllers`.

In a short run one node does the same (test_java_directories).
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

import confluent_kafka.admin
import pytest

from pykraft import Cluster
from pykraft.common.types import METADATA_TOPIC, Uuid
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka, free_ports
from tests.harness.asking import KEPT, PATIENT
from tests.harness.waiting import wait_until
from tests.interop.test_java_directories import (
    CLIENT,
    PART,
    PARTITIONS,
    SMALL,
    adopt,
    apache,
    check,
    needs_java,
    write,
)

__all__ = ["needs_java"]
pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

NODES = (1, 2, 3)


def all_in_sync(servers: str) -> None:
    """Every partition is led, by a node that all others follow."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def are_in_sync() -> bool:
        topics = admin.list_topics(timeout=10).topics.values()
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return all(each.leader > 0 and sorted(each.isrs) == [*NODES] for each in partitions)

    wait_until(are_in_sync, "every replica is in sync", 60)


def replicas_are_equal(home: pathlib.Path, topic: str) -> None:
    """What the three nodes have of it is the same, byte for byte; segments may begin elsewhere."""
    for partition in range(PARTITIONS):
        folders = [home / f"node-{node}" / f"{topic}-{partition}" for node in NODES]
        first, *others = [b"".join(path.read_bytes() for path in sorted(f.glob("*.log"))) for f in folders]
        assert first and others == [first, first], f"{topic}-{partition}"


def none_was_recovered(kafka: ApacheKafka) -> None:
    """None of its nodes had to recover a log when it started: the orderly stop before was known."""
    recovered = [line for node in NODES for line in kafka.log(node).splitlines() if "Recovering unflushed" in line]
    assert all(METADATA_TOPIC in line for line in recovered), recovered


@pytest.fixture
def kafka() -> Iterator[ApacheKafka]:
    ports = free_ports(2 * len(NODES))
    ids = [Uuid.random(random.Random()) for _ in NODES]
    voters = [f"{node}@127.0.0.1:{ports[len(NODES) + node - 1]}:{ids[node - 1]}" for node in NODES]
    options = ("--initial-controllers", ",".join(voters))
    with ApacheKafka(len(NODES), java_options=QUICK_START, ports=ports, format_options=options) as kafka:
        yield kafka


def test_a_cluster_of_apache_kafkas_goes_on_as_ours_and_as_its_own_again(
    kafka: ApacheKafka, tmp_path: pathlib.Path
) -> None:
    home = tmp_path / "home"
    CLIENT.create(kafka.bootstrap_servers, "theirs", PARTITIONS, len(NODES), KEPT)
    write(kafka.bootstrap_servers, "theirs", 0, "snappy")
    write(kafka.bootstrap_servers, "theirs", PART, "none")
    kafka.stop()
    adopt(kafka, home)
    with Cluster(len(NODES), directory=home, properties=PATIENT) as cluster:
        servers = cluster.bootstrap_servers
        assert servers == kafka.bootstrap_servers
        check(servers, "theirs", 2 * PART)
        all_in_sync(servers)
        write(servers, "theirs", 2 * PART, "zstd")
        with cluster.admin() as admin:
            admin.create_topic("ours", PARTITIONS, len(NODES), SMALL)
        write(servers, "ours", 0, "none")
        cluster.stop(2)  # others lead what it has led, in an epoch of ours
        write(servers, "ours", PART, "gzip")
        cluster.restart(2)
        all_in_sync(servers)
    replicas_are_equal(home, "theirs")
    replicas_are_equal(home, "ours")
    ends = {"theirs": 3 * PART, "ours": 2 * PART}
    with apache(home, len(NODES)) as again:
        goes_on_at_apache_kafkas(again, ends)
        none_was_recovered(again)
        again.stop()
    with Cluster(len(NODES), directory=home, properties=PATIENT) as cluster:
        for topic, end in ends.items():
            check(cluster.bootstrap_servers, topic, end + PART)
        all_in_sync(cluster.bootstrap_servers)
    for topic in ends:
        replicas_are_equal(home, topic)


def goes_on_at_apache_kafkas(kafka: ApacheKafka, ends: dict[str, int]) -> None:
    """It serves all, and takes more."""
    all_in_sync(kafka.bootstrap_servers)
    for topic, end in ends.items():
        check(kafka.bootstrap_servers, topic, end)
        write(kafka.bootstrap_servers, topic, end, "lz4")
        check(kafka.bootstrap_servers, topic, end + PART)


def test_a_cluster_of_ours_goes_on_as_one_of_apache_kafkas(tmp_path: pathlib.Path) -> None:
    """The voters, too, are those that ours was formatted with."""
    with Cluster(len(NODES), directory=tmp_path, properties=PATIENT) as cluster:
        with cluster.admin() as admin:
            admin.create_topic("ours", PARTITIONS, len(NODES), SMALL)
        write(cluster.bootstrap_servers, "ours", 0, "zstd")
    with apache(tmp_path, len(NODES)) as kafka:
        goes_on_at_apache_kafkas(kafka, {"ours": PART})
        none_was_recovered(kafka)


def test_a_node_of_apache_kafka_that_is_left_alone_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no controller to ask for leave to stop, which may happen to the last one of every orderly stop."""
    monkeypatch.setattr(apache_kafka, "ALONE_S", 2)
    with ApacheKafka(2, java_options=QUICK_START) as kafka:
        kafka.kill(1)
        kafka.stop()
        assert "shutting down" in kafka.log(2)
        assert "[BrokerServer id=2] shut down completed" not in kafka.log(2)
