"""Brokers of Apache Kafka under a controller of pykraft: a leader dies and comes back, Kafka's own tool gives it the
leadership back, and an eligible replica leads when the ISR is gone."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Iterator, Mapping

import pytest

from pykraft import Admin, NewTopic, TopicPartition
from pykraft.cli import main
from pykraft.common.settings.config import format_properties, parse_properties
from pykraft.runtime.process import NodeProcess
from tests.harness import apache_kafka
from tests.harness.apache_kafka import CLUSTER_ID, QUICK_START, ApacheKafka, free_ports
from tests.harness.asking import PATIENT
from tests.harness.moments import TODAY_MS
from tests.harness.waiting import wait_until
from tests.interop.clients import Confluent, Row

pytestmark = [pytest.mark.limit(300), pytest.mark.long]

CONTROLLER_ID = 101
CLIENT = Confluent()
NOBODY = -1
TOOL = "org.apache.kafka.tools.LeaderElectionCommand"


class JavaBrokers(ApacheKafka):
    """Brokers 1, 2, ... of Apache Kafka, without a controller of their own."""

    def __init__(self, nodes: int, controller: str, has_two_directories: bool = False) -> None:
        self._controller = controller
        self._has_two_directories = has_two_directories
        super().__init__(nodes, PATIENT, heap="256m", java_options=QUICK_START)

    def log_directories(self, node: int) -> list[pathlib.Path]:
        """Where the node has its partitions, if in two directories."""
        return [self.folder(node) / "first", self.folder(node) / "second"]

    def _write_properties(self, node: int, properties: Mapping[str, str]) -> None:
        super()._write_properties(node, properties)
        file = self.folder(node) / "server.properties"
        values = parse_properties(file.read_text())
        del values["controller.quorum.voters"]
        values |= {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{self.address(node)}",
            "controller.quorum.bootstrap.servers": self._controller,
        }
        if self._has_two_directories:
            values["metadata.log.dir"] = values["log.dirs"]
            values["log.dirs"] = ",".join(map(str, self.log_directories(node)))
        file.write_text(format_properties(values))


@pytest.fixture
def controller(tmp_path: pathlib.Path) -> Iterator[str]:
    """Where the controller of ours is, whose cluster keeps eligible leader replicas."""
    if reason := apache_kafka.available():
        pytest.skip(reason)
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    file = tmp_path / "controller.properties"
    file.write_text(
        format_properties(
            {
                **PATIENT,
                "process.roles": "controller",
                "node.id": str(CONTROLLER_ID),
                "listeners": f"CONTROLLER://{address}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.bootstrap.servers": address,
                "log.dirs": str(tmp_path / "controller"),
                "auto.leader.rebalance.enable": "false",
            }
        )
    )
    assert main(["storage", "format", "-t", CLUSTER_ID, "-c", str(file), "--standalone"]) == 0
    started = NodeProcess(CONTROLLER_ID, file, tmp_path / "controller.out")
    try:
        yield address
    finally:
        started.kill()


@pytest.fixture
def brokers(controller: str) -> Iterator[JavaBrokers]:
    """Two of them."""
    with JavaBrokers(2, controller) as started:
        yield started


def wait_for(admin: Admin, topic: str, leader: int, isr: set[int]) -> None:
    def is_so() -> bool:
        (partition,) = admin.describe_topics([topic])[topic].partitions
        return (partition.leader, set(partition.isr)) == (leader, isr)

    wait_until(is_so, f"leader {leader} and ISR {isr} of {topic}", 60)


def write(brokers: JavaBrokers, topic: str, start: int) -> None:
    rows = [Row(0, -1, TODAY_MS + n, b"key", b"value %d" % n, []) for n in range(start, start + 10)]
    assert len(CLIENT.write(brokers.bootstrap_servers, topic, iter(rows))) == 10


def values(brokers: JavaBrokers, topic: str, count: int) -> list[bytes | None]:
    return [row.value for row in CLIENT.read(brokers.bootstrap_servers, topic, {0: 0}, count)]


def test_a_leader_of_kafkas_dies_and_gets_its_leadership_back(brokers: JavaBrokers) -> None:
    with Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("moved", replica_assignments={0: [1, 2]})])
        wait_for(admin, "moved", 1, {1, 2})
        write(brokers, "moved", 0)
        brokers.kill(1)
        wait_for(admin, "moved", 2, {2})
        write(brokers, "moved", 10)
        brokers.restart(1)
        wait_for(admin, "moved", 2, {1, 2})
        asked = ("--bootstrap-server", brokers.bootstrap_servers, "--election-type", "preferred")
        done = "Successfully completed leader election (PREFERRED) for partitions moved-0"
        assert done in brokers.tool(TOOL, *asked, "--all-topic-partitions")
        wait_for(admin, "moved", 1, {1, 2})
        again = "Valid replica already elected for partitions moved-0"
        assert again in brokers.tool(TOOL, *asked, "--topic", "moved", "--partition", "0")
        write(brokers, "moved", 20)
        assert values(brokers, "moved", 30) == [b"value %d" % n for n in range(30)]


def test_a_broker_of_kafkas_that_stopped_in_order_is_eligible(brokers: JavaBrokers) -> None:
    with Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("kept", 1, 2, {0: [1, 2]}, {"min.insync.replicas": 2})])
        wait_for(admin, "kept", 1, {1, 2})
        write(brokers, "kept", 0)
        brokers.kill(2, signal.SIGTERM)
        wait_for(admin, "kept", 1, {1})
        brokers.kill(1)
        brokers.restart(2)
        wait_for(admin, "kept", 2, {2})
        brokers.restart(1)
        wait_for(admin, "kept", 2, {1, 2})
        assert values(brokers, "kept", 10) == [b"value %d" % n for n in range(10)]


def test_a_partition_moves_between_brokers_of_kafkas(brokers: JavaBrokers, tmp_path: pathlib.Path) -> None:
    """The first record of the reassignment is ours, and so is the second, when Kafka's leader asks for the ISR."""
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    key = TopicPartition("moving", 0)
    with Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("moving", replica_assignments={0: [1]})])
        wait_for(admin, "moving", 1, {1})
        write(brokers, "moving", 0)
        file = tmp_path / "moving.json"
        file.write_text('{"version": 1, "partitions": [{"topic": "moving", "partition": 0, "replicas": [2]}]}')
        asked = ("--bootstrap-server", brokers.bootstrap_servers, "--reassignment-json-file", str(file))
        assert "Successfully started partition reassignment for moving-0" in brokers.tool(tool, *asked, "--execute")
        wait_for(admin, "moving", 2, {2})
        assert not admin.list_partition_reassignments()
        assert "Reassignment of partition moving-0 is completed." in brokers.tool(tool, *asked, "--verify")
        write(brokers, "moving", 10)
        admin.alter_partition_reassignments({key: [1, 2]})
        wait_for(admin, "moving", 2, {1, 2})
        admin.alter_partition_reassignments({key: [1]})
        wait_for(admin, "moving", 1, {1})
        assert values(brokers, "moving", 20) == [b"value %d" % n for n in range(20)]


def test_a_broker_of_kafkas_that_loses_one_of_two_disks_leads_on_from_the_other(controller: str) -> None:
    with (
        JavaBrokers(2, controller, has_two_directories=True) as brokers,
        Admin(bootstrap_servers=brokers.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("spread", replica_assignments={number: [1, 2] for number in range(4)})])
        first, second = brokers.log_directories(1)

        def are_spread() -> bool:
            return all(len(list(folder.glob("spread-*"))) == 2 for folder in (first, second))

        wait_until(are_spread, "the partitions are in both directories", 60)
        lost = {int(folder.name.rpartition("-")[2]) for folder in first.glob("spread-*")}
        rows = [Row(n % 4, -1, TODAY_MS + n, b"key", b"value %d" % n, []) for n in range(40)]
        assert len(CLIENT.write(brokers.bootstrap_servers, "spread", iter(rows))) == 40
        first.rename(first.with_name("gone"))  # it is noticed when a checkpoint is to be written there

        def have_moved() -> bool:
            partitions = admin.describe_topics(["spread"])["spread"].partitions
            return [p.leader for p in partitions] == [2 if p.partition in lost else 1 for p in partitions]

        wait_until(have_moved, "broker 2 leads what the lost disk had", 60)
        rows = [Row(n % 4, -1, TODAY_MS + n, b"key", b"value %d" % n, []) for n in range(40, 80)]
        assert len(CLIENT.write(brokers.bootstrap_servers, "spread", iter(rows))) == 40
        assert len(CLIENT.read(brokers.bootstrap_servers, "spread", dict.fromkeys(range(4), 0), 80)) == 80
