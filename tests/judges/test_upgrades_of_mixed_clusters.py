"""A cluster of one node of ours and two of Apache Kafka's is upgraded from 4.2 to 4.4, and back before it cannot be.

Nodes are rolled one by one while a producer writes and a group reads. The new level of the metadata is finalised at the
end. From then on 4.2 is refused, controllers can be unregistered, and log directories cordoned. No acknowledged record
is lost, and none is there twice.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from pykraft import Admin, Consumer, NewTopic, Producer
from pykraft.cli import main
from pykraft.client.administration.configs import ConfigResource
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import format_properties
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.configs import ResourceType
from pykraft.runtime.process import NodeProcess
from tests.harness import apache_kafka
from tests.harness.apache_kafka import CLUSTER_ID, NEWEST, QUICK_START, START_S, VERSION, free_ports, java_command
from tests.harness.asking import PATIENT
from tests.harness.waiting import wait_until
from tests.interop.test_java_snapshots import LOWERED

pytestmark = pytest.mark.limit(600)

OURS, THEIRS = 1, (2, 3)
NODES = (OURS, *THEIRS)
TOPIC, PARTITIONS, GROUP = "written-all-the-time", 3, "readers"
BASE_LEVEL, NEWEST_LEVEL = 29, 33
PROPERTIES = {
    **PATIENT,
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "min.insync.replicas": "2",
}


class MixedCluster:
    """Three combined nodes; each runs as the program that it was started with last."""

    def __init__(self, folder: pathlib.Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._ours: NodeProcess | None = None
        self._java: dict[int, subprocess.Popen[bytes]] = {}
        ports = free_ports(2 * len(NODES))
        self._brokers = dict(zip(NODES, ports[: len(NODES)], strict=True))
        self._controllers = dict(zip(NODES, ports[len(NODES) :], strict=True))
        self.servers = ",".join(f"127.0.0.1:{port}" for port in self._brokers.values())
        bootstrap = {node: f"127.0.0.1:{port}" for node, port in self._controllers.items()}
        directories = {node: Uuid(b"a directory of " + bytes([node])) for node in NODES}
        voters = ",".join(f"{node}@{bootstrap[node]}:{directories[node]}" for node in NODES)
        for node in NODES:
            values = PROPERTIES | {
                "node.id": str(node),
                "listeners": f"PLAINTEXT://127.0.0.1:{self._brokers[node]},CONTROLLER://{bootstrap[node]}",
                "controller.quorum.bootstrap.servers": ",".join(bootstrap.values()),
                "log.dirs": str(folder / f"data-{node}"),
            }
            self._file(node).write_text(format_properties(values))
        formatting = ["format", "-t", CLUSTER_ID, "--initial-controllers", voters]
        assert main(["storage", *formatting, "-c", str(self._file(OURS))]) == 0
        for node in THEIRS:
            command = java_command(
                VERSION, "kafka.tools.StorageTool", *formatting, "-c", str(self._file(node)), *LOWERED
            )
            subprocess.run(command, check=True, capture_output=True, timeout=START_S)

    def _file(self, node: int) -> pathlib.Path:
        return self._folder / f"{node}.properties"

    def launch(self, node: int, version: str = "") -> None:
        """Start a node, of this release if it is Kafka's."""
        if node == OURS:
            self._ours = NodeProcess(node, self._file(node), self._folder / f"{node}.out")
            self._stack.callback(self._ours.kill)
            return
        command = java_command(version, "kafka.Kafka", str(self._file(node)), logging="server", options=QUICK_START)
        with (self._folder / f"{node}.log").open("wb") as log:
            self._java[node] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._stack.callback(self._end, self._java[node])

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def stop(self, node: int) -> None:
        """In order: it hands over what it leads."""
        if node == OURS:
            assert self._ours is not None
            self._ours.stop()
            return
        self._java[node].send_signal(signal.SIGTERM)
        self._java[node].wait(START_S)

    def refuses_to_run(self, node: int) -> bool:
        return self._java[node].poll() is not None

    def roll(self, admin: Admin, node: int, version: str = "") -> None:
        self.stop(node)
        self.launch(node, version)
        until_all_replicas_are_in_sync(admin, f"node {node} is back{' as ' + version if version else ''}")


def until_all_replicas_are_in_sync(admin: Admin, what: str) -> None:
    def are_in_sync() -> bool:
        try:
            brokers = {broker.id for broker in admin.describe_cluster().brokers}
            described = admin.describe_topics([TOPIC])[TOPIC]
        except KafkaError:
            return False
        return brokers == set(NODES) and all(set(partition.isr) == set(NODES) for partition in described.partitions)

    wait_until(are_in_sync, what, 120)


class Load:
    """A producer that writes numbers all the time, and a group that commits how far it has read."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._ends = threading.Event()
        self.acknowledged: list[int] = []
        self.failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._guarded, args=(job,)) for job in (self._write, self._read)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self.failure = error

    def _write(self) -> None:
        number = 0
        with Producer(bootstrap_servers=self._servers, delivery_timeout_ms=120_000) as producer:
            while not self._ends.is_set():
                written = range(number, number + 20)
                futures = [producer.send(TOPIC, b"%d" % each, partition=each % PARTITIONS) for each in written]
                for future in futures:
                    future.result(130)
                self.acknowledged += written
                number = written.stop
                self._ends.wait(0.05)

    def _read(self) -> None:
        settings = {"group_id": GROUP, "auto_offset_reset": "earliest", "group_protocol": "consumer"}
        with Consumer(bootstrap_servers=self._servers, **settings) as consumer:
            consumer.subscribe([TOPIC])
            while not self._ends.is_set():
                consumer.poll(200)
                consumer.commit()


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[MixedCluster]:
    for version in (VERSION, NEWEST):
        if reason := apache_kafka.available(version):
            pytest.skip(reason)
    with ExitStack() as stack:
        yield MixedCluster(tmp_path, stack)


def level(admin: Admin) -> int:
    return admin.describe_features().finalized_features["metadata.version"]


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        call()
    return refused.value.code


def numbers(servers: str, count: int) -> list[list[int]]:
    """What is in each partition, once all are read."""
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        found: list[list[int]] = [[] for _ in partitions]

        def read_on() -> bool:
            for partition, records in consumer.poll(200).items():
                found[partition.partition] += [int(record.value or b"") for record in records]
            return sum(map(len, found)) >= count

        wait_until(read_on, f"{count} records are read", 60)
        return found


def cordon(admin: Admin, node: int, value: str | None) -> None:
    admin.incremental_alter_configs({ConfigResource(ResourceType.BROKER, str(node)): {"cordoned.log.dirs": value}})


def is_cordoned(admin: Admin, node: int) -> bool:
    return any(each.is_cordoned for each in admin.describe_log_dirs([node])[node].values())


def test_a_cluster_of_both_is_upgraded_to_4_4_and_back_while_it_is_written_and_read(cluster: MixedCluster) -> None:
    for node in NODES:
        cluster.launch(node, VERSION)
    with Admin(bootstrap_servers=cluster.servers) as admin:
        wait_until(lambda: brokers_of(admin) == set(NODES), "all nodes serve", START_S)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
        until_all_replicas_are_in_sync(admin, "the topic is there")
        with Load(cluster.servers) as load:
            for node in THEIRS:
                cluster.roll(admin, node, NEWEST)
            cluster.roll(admin, OURS)
            assert level(admin) == BASE_LEVEL
            cluster.roll(admin, THEIRS[0], VERSION)  # and back
            assert refusal(lambda: admin.update_features({"metadata.version": NEWEST_LEVEL}))
            cluster.roll(admin, THEIRS[0], NEWEST)
            admin.update_features({"metadata.version": NEWEST_LEVEL})
            wait_until(lambda: level(admin) == NEWEST_LEVEL, "the level is known")
            cluster.stop(THEIRS[1])
            cluster.launch(THEIRS[1], VERSION)
            wait_until(lambda: cluster.refuses_to_run(THEIRS[1]), "4.2 does not know the level", START_S)
            cluster.launch(THEIRS[1], NEWEST)
            until_all_replicas_are_in_sync(admin, "the last node is back")
            for node in (OURS, *THEIRS):
                check_cordoning(admin, node)
            assert refusal(lambda: admin.unregister_controller(99)) is ErrorCode.CONTROLLER_ID_NOT_REGISTERED
            active = admin.describe_quorum().leader_id
            assert refusal(lambda: admin.unregister_controller(active)) is ErrorCode.INVALID_REQUEST
            admin.unregister_controller(next(node for node in NODES if node != active))
            cluster.roll(admin, OURS)
        assert load.failure is None, load.failure
    assert len(load.acknowledged) > 200
    found = numbers(cluster.servers, len(load.acknowledged))
    assert found == [[each for each in load.acknowledged if each % PARTITIONS == part] for part in range(PARTITIONS)]


def brokers_of(admin: Admin) -> set[int]:
    try:
        return {broker.id for broker in admin.describe_cluster().brokers}
    except KafkaError:
        return set()


def check_cordoning(admin: Admin, node: int) -> None:
    """A cordoned broker of either kind gets no new replica, from a controller of either kind."""
    topic = f"made-beside-{node}"
    cordon(admin, node, "*")
    wait_until(lambda: is_cordoned(admin, node), f"{node} says that it is cordoned")
    wait_until(lambda: three_replicas_are_refused(admin), f"the controller knows that {node} is cordoned")
    admin.create_topics([NewTopic(topic, 6, 2)])
    wait_until(lambda: replicas_of(admin, topic) == set(NODES) - {node}, "the other two have the new replicas")
    cordon(admin, node, None)
    wait_until(lambda: not is_cordoned(admin, node), f"{node} says that it is not")
    wait_until(lambda: not three_replicas_are_refused(admin), "the controller knows that, too")


def replicas_of(admin: Admin, topic: str) -> set[int]:
    """The brokers of a topic; none while this broker does not know it."""
    try:
        return {node for partition in admin.describe_topics([topic])[topic].partitions for node in partition.replicas}
    except KafkaError:
        return set()


def three_replicas_are_refused(admin: Admin) -> bool:
    try:
        admin.create_topics([NewTopic("never-made", 1, 3)], validate_only=True)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_REPLICATION_FACTOR, error
        return True
    return False
