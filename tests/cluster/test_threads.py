"""Clusters of threads: killed, cut in two, held up and mended; what they hold afterwards is the same everywhere."""

from __future__ import annotations

import ctypes
import enum
import gc
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft import Admin, Cluster, Consumer, Producer, TopicPartition
from pykraft.broker.node import Node
from pykraft.broker.requests.dispatch import Answer
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.storage_format import format_directories
from pykraft.cluster import ClusterError
from pykraft.cluster_view import ClusterView
from pykraft.common.core import Poll, Promise
from pykraft.common.errors import KafkaError
from pykraft.common.fault_handler import FatalFault
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from pykraft.raft.log.state_machine import CommitReader
from pykraft.runtime.clock import MonotonicClock, StallTolerantClock
from pykraft.runtime.threaded import NodeThread
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.upkeep.log_manager import DirectoryInUseError
from pykraft.transport.server_channel import InboundRequest
from tests.harness import asking
from tests.harness.connection import Connection
from tests.harness.waiting import wait_until

NODES = {1, 2, 3}
SAFE = {"min.insync.replicas": "2"}


def make_topic(cluster: Cluster, name: str = "t", partitions: int = 1, replicas: int = 3) -> None:
    with cluster.admin() as admin:
        admin.create_topic(name, partitions, replicas, SAFE if replicas > 2 else {})

    def is_known(view: ClusterView) -> bool:
        return all(len(view.isr(name, number)) == replicas for number in range(partitions))

    cluster.wait_until(is_known, what=f"{name} is there")


def produce(cluster: Cluster, values: list[bytes], topic: str = "t") -> None:
    """Returns when all in-sync replicas have them."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for future in [producer.send(topic, value) for value in values]:
            future.result(30)


def consume(cluster: Cluster, count: int, topic: str = "t") -> list[bytes]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[bytes] = []

        def has_all() -> bool:
            for records in consumer.poll(100).values():
                found.extend(record.value for record in records)
            return len(found) >= count

        wait_until(has_all, f"{count} records were read")
        return found


def node_of(cluster: Cluster, node_id: int) -> NodeThread:
    node = cluster._nodes[node_id]
    assert isinstance(node, NodeThread)
    return node


def logs(cluster: Cluster, topic: str = "t") -> dict[int, bytes]:
    """The bytes of the partition on every node that holds it."""
    found = {}
    for node_id in cluster.broker_ids:
        folder = cluster.partition_directory(node_id, topic, 0)
        found[node_id] = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
    return found


def wait_until_all_are_in_sync(cluster: Cluster, topic: str = "t") -> ClusterView:
    def is_whole(view: ClusterView) -> bool:
        replicas = view.replicas(topic, 0)
        ends = {(r.log_end_offset, r.high_watermark) for n, r in replicas.items() if view.nodes[n].is_alive}
        return view.isr(topic, 0) == set(replicas) and len(ends) == 1 and len(set(ends.pop())) == 1

    return cluster.wait_until(is_whole, what="all replicas are in sync and know it")


# --- kill and return --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def combined() -> Any:
    """Three combined nodes with a topic `t`; who kills one brings it back."""
    with Cluster(nodes=3) as cluster:
        make_topic(cluster)
        yield cluster


def test_three_nodes_become_ready_and_describe_themselves(combined: Cluster) -> None:
    view = combined.describe()
    assert view.ready_brokers == NODES and view.active_controller in NODES
    assert [node.roles for node in view.nodes.values()] == [("broker", "controller")] * 3
    assert {node.quorum.voters for node in view.alive} == {(1, 2, 3)}
    assert view.leader("t", 0) in NODES and view.isr("t", 0) == NODES
    text = str(view)
    assert "node 1 (broker and controller" in text and "the active controller" in text and "t-0" in text
    assert "broker.session.timeout.ms" in repr(combined.describe_timeouts())


def test_a_leader_that_is_killed_is_replaced_and_loses_nothing_that_was_acknowledged(combined: Cluster) -> None:
    produce(combined, [b"%d" % n for n in range(50)])
    for _ in range(2):
        view = combined.describe()
        dead = view.leader("t", 0)
        assert dead is not None
        combined.kill(dead)
        assert dead not in combined.alive
        view = combined.wait_until(
            lambda v, dead=dead: v.leader("t", 0) not in (None, dead) and dead not in v.isr("t", 0)
        )
        before = consume(combined, 50)
        produce(combined, [b"%d" % n for n in range(len(before), len(before) + 25)])
        combined.restart(dead)
        wait_until_all_are_in_sync(combined)
    count = 100
    assert consume(combined, count) == [b"%d" % n for n in range(count)]
    assert len(set(logs(combined).values())) == 1, "byte for byte"
    assert combined.failures() == {}


def test_the_active_controller_is_replaced_too(combined: Cluster) -> None:
    dead = combined.wait_until(lambda v: v.active_controller is not None).active_controller
    assert dead is not None
    epoch = combined.describe().nodes[dead].quorum.epoch
    combined.kill(dead)
    view = combined.wait_until(lambda v: v.active_controller not in (None, dead))
    assert max(node.quorum.epoch for node in view.alive) > epoch
    make_topic(combined, "afterwards", replicas=2)
    combined.restart(dead)
    assert combined.describe().nodes[dead].is_alive


def test_a_node_that_is_stopped_in_order_hands_over_first(combined: Cluster) -> None:
    wait_until_all_are_in_sync(combined)
    leader = combined.describe().leader("t", 0)
    assert leader is not None
    combined.stop(leader)
    states = [event.fields["state"] for event in combined.journal(leader) if event.name == "lifecycle"]
    assert states[-2:] == ["controlled shutdown", "shutting down"]
    assert combined.describe().leader("t", 0) not in (None, leader)
    combined.restart(leader)
    wait_until_all_are_in_sync(combined)


def test_two_nodes_that_are_cut_apart_find_together_again(combined: Cluster) -> None:
    """The follower cannot reach its leader and falls out of the ISR; both stay members, for the third hears them."""
    view = wait_until_all_are_in_sync(combined)
    leader = view.leader("t", 0)
    assert leader is not None
    controller = view.active_controller
    other = next(n for n in sorted(NODES) if n not in (leader, controller))
    produce(combined, [b"while together"])
    wait_until_all_are_in_sync(combined)
    combined.disconnect(leader, other)
    assert combined.describe().cut_links == {(leader, other), (other, leader)}
    produce(combined, [b"while apart"])
    view = combined.wait_until(lambda v: other not in v.isr("t", 0), what="the follower is out of the ISR")
    assert combined.alive == [1, 2, 3]
    ends = {n: (seen.tail[-1].end_offset, seen.log_end_offset) for n, seen in view.replicas("t", 0).items()}
    assert all(of_tail == of_log for of_tail, of_log in ends.values()) and ends[other] < ends[leader]
    combined.reconnect(leader, other)
    assert not combined.describe().cut_links
    wait_until_all_are_in_sync(combined)
    assert len(set(logs(combined).values())) == 1


def test_a_batch_that_waits_for_its_replicas_holds_up_what_its_connection_sends_after_it(combined: Cluster) -> None:
    """Without a majority no replica leaves the ISR, so what is produced waits for as long as it takes."""
    make_topic(combined, "line")
    leader = combined.describe().leader("line", 0)
    assert leader is not None
    batches = [asking.produce("line", asking.batch(1), acks=-1, timeout_ms=120_000) for _ in range(5)]
    behind = MetadataRequest(topics=[])
    with Connection(combined.bootstrap_servers.split(",")[leader - 1], patience_s=100) as connection:
        for node in NODES - {leader}:
            combined.kill(node)
        asked = [connection.send(request, 9) for request in (*batches, behind)]

        def end(view: ClusterView) -> int:
            return view.replicas("line", 0)[leader].log_end_offset

        combined.wait_until(lambda v: end(v) >= 1, what="the first batch is in the log")
        connection.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.sock.recv(1)
        connection.sock.settimeout(100)
        assert end(combined.describe()) == 1, "the next one waits outside"
        for node in NODES - {leader}:
            combined.restart(node)
        for request, correlation_id in zip((*batches, behind), asked, strict=True):
            connection.receive(request, 9, correlation_id)
    wait_until_all_are_in_sync(combined, "line")
    wait_until_all_are_in_sync(combined)


def what_follows_a_held_interpreter(cluster: Cluster) -> set[str]:
    """Hold it for two seconds, four times the fetch timeout and three sessions of a broker; what is reported until the
    cluster has gone on for a while."""
    before = cluster.wait_until(lambda v: v.active_controller is not None)
    mark = max(node.quorum.high_watermark for node in before.alive)
    seen = {n: len(cluster.journal(n)) for n in NODES}
    ctypes.PyDLL(None).usleep(2_000_000)  # a PyDLL keeps the lock, as a C extension does that never lets go of it

    def goes_on(view: ClusterView) -> bool:
        return min(node.quorum.high_watermark for node in view.alive) >= mark + 4

    cluster.wait_until(goes_on, what="the metadata log grows")
    return {event.name for n in NODES for event in cluster.journal(n)[seen[n] :]}


SUSPICIONS = {"role", "leadership", "isr", "broker_session_expired", "broker_change"}


ATTEMPTS = 3
"""A follower may leave the ISR for another reason: a machine that is busy with something else. Held up by the cell they
are suspected each time, as the next test shows."""


def test_a_cell_that_holds_the_interpreter_for_two_seconds_causes_no_election(combined: Cluster) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        before = wait_until_all_are_in_sync(combined)
        stalled = combined._clock.stalled_s
        suspicions = what_follows_a_held_interpreter(combined) & SUSPICIONS
        assert combined._clock.stalled_s - stalled > 1.5
        assert suspicions <= {"isr"}, "not in any attempt"
        after = combined.describe()
        if not suspicions:
            break
        assert attempt < ATTEMPTS, suspicions
    assert {n.quorum.epoch for n in after.alive} == {n.quorum.epoch for n in before.alive}
    assert after.active_controller == before.active_controller
    assert (after.leader("t", 0), after.isr("t", 0)) == (before.leader("t", 0), NODES)


def test_on_a_plain_clock_it_would_cause_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.cluster.StallTolerantClock", MonotonicClock)
    with Cluster(nodes=3) as cluster:
        for _ in range(ATTEMPTS):
            assert "role" in what_follows_a_held_interpreter(cluster)


def test_a_flood_of_requests_does_not_keep_a_node_from_its_own_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that never wait for an answer, all at once; meanwhile heartbeats are due, and votes are asked for."""
    clients, each = 10, 3_000
    request = ApiVersionsRequest(client_software_name="flood", client_software_version="1")
    requests = b"".join(b"".join(encode_request(request, 3, number, "flood")) for number in range(each))
    handled = [0]  # between one look after itself and the next
    with Cluster(nodes=1) as cluster:
        node = node_of(cluster, 1).node
        handle, poll = node.handle, node.poll

        def counted(inbound: InboundRequest, now: int) -> Promise[Answer]:
            handled[-1] += 1
            return handle(inbound, now)

        def look(now: int) -> Poll:
            handled.append(0)
            return poll(now)

        monkeypatch.setattr(node, "handle", counted)
        monkeypatch.setattr(node, "poll", look)
        with ThreadPoolExecutor(clients) as pool:
            asked = [pool.submit(numbers_of_answers, cluster.bootstrap_servers, requests) for _ in range(clients)]
            assert all(answers.result() == list(range(each)) for answers in asked)
    assert sum(handled) >= clients * each
    assert max(handled) < 3_000


def numbers_of_answers(address: str, requests: bytes) -> list[int]:
    """Send all of it at once, and read to the end; the correlation ids of the answers."""
    host, _, port = address.rpartition(":")
    found = []
    with socket.create_connection((host, int(port)), 60) as sock, ThreadPoolExecutor(1) as pool:
        pool.submit(sock.sendall, requests).add_done_callback(lambda _: sock.shutdown(socket.SHUT_WR))
        answers = sock.makefile("rb")
        while size := answers.read(4):
            found.append(int.from_bytes(answers.read(int.from_bytes(size, "big"))[:4], "big"))
    return found


# --- what they hold ---------------------------------------------------------------------------------------------------


def replayed(node: Node) -> tuple[MetadataImage, MetadataImage]:
    """The image of a node, and the one that its metadata log gives to a reader that begins from nothing."""
    fresh = MetadataLoader()
    log = node.raft.replica.log
    CommitReader(log, fresh).deliver(node.loader.image.provenance.offset + 1)
    return node.loader.image, fresh.image


def test_every_image_is_the_replay_of_the_log_and_equal_at_equal_offsets(combined: Cluster) -> None:
    for node_id in NODES:
        image, again = node_of(combined, node_id).call(replayed).result(10)
        assert image == again
        assert len(image.topics) >= 1 and set(image.brokers) == NODES
    assert images_agree(combined, list(NODES))


def images_agree(cluster: Cluster, nodes: list[int]) -> MetadataImage:
    """Wait until these nodes have read equally far; their images are equal then."""
    images: list[MetadataImage] = []

    def are_equally_far() -> bool:
        images[:] = [node_of(cluster, n).call(lambda node: node.loader.image).result(10) for n in nodes]
        return len({image.provenance for image in images}) == 1

    wait_until(are_equally_far, "all nodes have read equally far")
    assert all(image == images[0] for image in images)
    return images[0]


def test_two_nodes_share_no_python_object() -> None:
    """Whatever can be reached from one node and from another is a constant of the program, or cannot be changed. The
    clock, which stands still for all nodes of a process alike, is the one exception."""
    with Cluster(nodes=2) as cluster:
        make_topic(cluster, replicas=2)
        produce(cluster, [b"x"])
        nodes = [node_of(cluster, n) for n in (1, 2)]
        for n in (1, 2):
            cluster.kill(n)
        ours = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("pykraft")]
        one, other, constants = (reachable(roots) for roots in ([nodes[0].node], [nodes[1].node], ours))
        assert min(len(one), len(other)) > 300
        shared = [one[key] for key in one.keys() & other.keys() - constants.keys()]
        assert [thing for thing in shared if not isinstance(thing, UNCHANGEABLE)] == []
        planted = ["shared"]
        nodes[0].node.metrics.planted = nodes[1].node.metrics.planted = planted  # type: ignore[attr-defined]
        assert id(planted) in reachable([nodes[0].node]).keys() & reachable([nodes[1].node]).keys()


UNCHANGEABLE = (str, bytes, int, float, tuple, frozenset, enum.Enum)
PROGRAM = (type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, threading.Thread, StallTolerantClock)


def reachable(roots: list[Any]) -> dict[int, Any]:
    """All objects that these refer to, by id. What belongs to the program, or to a thread as such, is not entered; a
    function is followed into what it has closed over."""
    found: dict[int, Any] = {}
    left = list(roots)
    while left:
        thing = left.pop()
        if id(thing) in found or isinstance(thing, PROGRAM):
            continue
        if isinstance(thing, types.FunctionType):
            left += [*(thing.__closure__ or ()), *(thing.__defaults__ or ())]
            continue
        found[id(thing)] = thing
        left += gc.get_referents(thing)
    return found


def test_a_broker_on_a_new_disk_rebuilds_image_and_replicas_from_what_it_fetches() -> None:
    """Five nodes with separate roles, of which the third broker loses its disk."""
    with Cluster(nodes=3, controllers=2) as cluster:
        view = cluster.describe()
        assert cluster.node_ids == [1, 2, 3, 101, 102]
        assert [view.nodes[n].roles for n in (1, 101)] == [("broker",), ("controller",)]
        assert view.active_controller in (101, 102) and view.nodes[1].quorum.role == "observer"
        make_topic(cluster)
        produce(cluster, [b"%d" % n for n in range(20)])
        cluster.kill(3)
        cluster.wait_until(lambda v: 3 not in v.isr("t", 0))
        shutil.rmtree(cluster.node_directory(3))
        config = read_node_config(cluster.properties(3))
        format_directories(config, cluster.cluster_id, OsFileSystem(), Random(), time.time_ns() // 1_000_000)
        cluster.restart(3)
        produce(cluster, [b"20"])
        wait_until_all_are_in_sync(cluster)
        assert len(set(logs(cluster).values())) == 1
        image = images_agree(cluster, cluster.node_ids)
        assert set(image.brokers) == NODES


def test_five_nodes_go_on_without_any_two_of_them() -> None:
    brokers = {1, 2, 3, 4, 5}
    with Cluster(nodes=5) as cluster:
        make_topic(cluster, replicas=5)
        produce(cluster, [b"before"])
        view = wait_until_all_are_in_sync(cluster)
        worst = {view.active_controller or 0, view.leader("t", 0)}
        worst |= set(sorted(brokers - worst)[: 2 - len(worst)])
        for node in worst:
            cluster.kill(node)
        produce(cluster, [b"between"])
        assert cluster.describe().active_controller not in worst
        for node in worst:
            cluster.restart(node)
        assert wait_until_all_are_in_sync(cluster).isr("t", 0) == brokers
        assert consume(cluster, 2) == [b"before", b"between"]
        assert len(set(logs(cluster).values())) == 1


def test_a_cluster_is_started_again_on_its_directory(tmp_path: Path) -> None:
    with Cluster(nodes=1, directory=tmp_path / "c") as cluster:
        make_topic(cluster, replicas=1)
        produce(cluster, [b"1", b"2"])
        first = (cluster.cluster_id, cluster.bootstrap_servers)
    with Cluster(nodes=1, directory=tmp_path / "c") as cluster:
        assert (cluster.cluster_id, cluster.bootstrap_servers) == first
        cluster.wait_until(lambda v: v.leader("t", 0) == 1)
        assert consume(cluster, 2) == [b"1", b"2"]
    assert (tmp_path / "c").exists()
    for other in ({"nodes": 2}, {"nodes": 1, "controllers": 1}):
        with pytest.raises(
            ClusterError, match=r"c holds a cluster whose controllers are the nodes 1: start it with these"
        ):
            Cluster(directory=tmp_path / "c", **other)


# --- the end ----------------------------------------------------------------------------------------------------------


class Bug(Exception):  # noqa: N818 (it is one)
    """Planted."""


def test_a_node_that_dies_fails_the_cluster_that_closes() -> None:
    cluster = Cluster(nodes=1)
    directory = cluster.directory

    def plant(node: Node) -> None:
        def poll(now: int) -> Any:
            raise Bug("the disk is on fire")

        node.poll = poll  # type: ignore[method-assign]

    node_of(cluster, 1).call(plant).result(10)
    wait_until(lambda: not cluster.alive, "the node is dead")
    cluster.restart(1)
    assert (cluster.alive, cluster.failures()) == ([1], {}), "who starts it again has seen that it died"
    node_of(cluster, 1).call(plant).result(10)
    wait_until(lambda: not cluster.alive, "the node is dead again")
    assert isinstance(cluster.failures()[1], Bug)
    with pytest.raises(ClusterError, match="node 1 died: Bug: the disk is on fire"):
        cluster.wait_until(lambda view: False)
    with pytest.raises(ClusterError, match="node 1 died"):
        cluster.close()
    assert not directory.exists()
    cluster.close()  # again: nothing happens


def test_a_fatal_fault_in_a_handler_stops_that_node_and_is_told() -> None:
    with pytest.raises(ClusterError, match="node 1 died: FatalFault"), Cluster(nodes=1) as cluster:

        def plant(node: Node) -> None:
            def handle(inbound: Any, now: int) -> Any:
                raise FatalFault("unheard of")

            node.handle = handle  # type: ignore[method-assign]

        node_of(cluster, 1).call(plant).result(10)
        admin = Admin(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=1000)
        with admin, pytest.raises(KafkaError):
            admin.describe_cluster()


def test_what_was_wrong_in_the_with_block_is_what_is_raised() -> None:
    with pytest.raises(ZeroDivisionError), Cluster(nodes=1) as cluster:
        cluster.kill(1)
        _ = 1 / 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"nodes": 0}, "a cluster has at least one broker"),
        ({"nodes": 1.5}, "nodes=1.5: must be a whole number"),
        ({"controllers": "1"}, "controllers='1': must be a whole number"),
        ({"nodes": 101}, "at most 100 brokers"),
        ({"controllers": 0}, "name at least one"),
        ({"mode": "containers"}, 'must be "threads" or "processes"'),
        ({"timeouts": "short"}, "must be kafka or lesson"),
        (
            {"properties": {"num.partitions": "many"}},
            "num.partitions is 'many', but must be a whole number of at least 1",
        ),
        (
            {"properties": {"num.partition": 2}},
            r"properties has num.partition, which is no setting of a node: did you mean num.partitions\?",
        ),
        (
            {"properties": {"zookeeper.connect": "localhost:2181"}},
            "zookeeper.connect, which is no setting of a node: there is no ZooKeeper since Kafka 4: leave it out",
        ),
        ({"properties": {"node.id": 7}}, "properties has node.id, which the cluster itself gives to each of its nodes"),
        ({"racks": ["a", "b"]}, "2 names for 3 brokers; each broker needs one"),
        ({"racks": "abc"}, "must be a list of names"),
        (
            {"properties": {"listeners": "PLAINTEXT://:9092"}},
            "listeners, which the cluster itself gives to each of its nodes: port=N says the first broker's port",
        ),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_in_a_sentence_and_leaves_nothing_behind(
    arguments: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match=sentence):
        Cluster(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_does_not_come_up_is_told_with_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.cluster._START_TIMEOUT_S", 0)
    with pytest.raises(ClusterError, match=r"after 0 s it is not so that nodes \[1\] are ready; last seen:\ncluster "):
        Cluster(nodes=1)


def test_a_cluster_whose_ports_somebody_else_has_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(ClusterError, match=r"^port \d+ that the cluster in .* had is taken by another program \(")
    with Cluster(nodes=1, directory=tmp_path) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
    with socket.create_server((host, int(port))), refused:
        Cluster(nodes=1, directory=tmp_path)


def test_a_directory_in_which_a_cluster_runs_is_refused(tmp_path: Path) -> None:
    """Also with ports of its own: it would read the other one's files."""
    with Cluster(nodes=1, directory=tmp_path):
        for port in (None, 1):
            with pytest.raises(DirectoryInUseError, match=r"node-1 is in use by this process: stop that node first"):
                Cluster(nodes=1, directory=tmp_path, port=port)


def test_the_port_of_a_controller_is_no_brokers() -> None:
    with Cluster(nodes=1) as cluster, cluster.admin() as admin:
        ((address,),) = admin.describe_quorum().endpoints.values()
        controller = address.removeprefix("CONTROLLER://")
        with Admin(bootstrap_servers=controller) as lost, pytest.raises(KafkaError) as refused:
            lost.list_topics()
        assert f"{controller} does not serve this API: it is an older broker, or a controller's port" in str(
            refused.value
        )
        with Producer(bootstrap_servers=controller, max_block_ms=500) as producer, pytest.raises(KafkaError) as refused:
            producer.send("t", b"x")
        assert f"{controller} (a controller's listener; clients need a broker's)" in str(refused.value)


def test_what_is_said_of_timeouts_is_what_the_nodes_have() -> None:
    with Cluster(nodes=1, properties={"replica.lag.time.max.ms": 7000}) as cluster:
        here = {timeout.key: timeout.here for timeout in cluster.describe_timeouts()}
    assert (here["replica.lag.time.max.ms"], here["broker.heartbeat.interval.ms"]) == (7000, 100)


def test_a_node_that_there_is_not_or_that_does_not_run_is_named(combined: Cluster) -> None:
    with pytest.raises(ValueError, match="there is no node '1'; there are 1, 2, 3"):
        combined.kill("1")  # type: ignore[arg-type]
    combined.kill(2)
    with pytest.raises(ValueError, match=r"node 2 does not run; restart\(2\) starts it"):
        combined.kill(2)
    combined.restart(2)
    wait_until_all_are_in_sync(combined)


# --- clusters that are not closed
# --------------------------------------------------------------------------------------


def leaves_nothing(before: set[threading.Thread], directory: Path) -> bool:
    return not set(threading.enumerate()) - before and not directory.exists()


def test_a_cluster_that_is_forgotten_gives_back_its_threads_its_ports_and_its_directory() -> None:
    before = set(threading.enumerate())
    cluster = Cluster(1)
    directory, port = cluster.directory, int(cluster.bootstrap_servers.rpartition(":")[2])
    del cluster
    gc.collect()
    wait_until(lambda: leaves_nothing(before, directory), "threads and directory are gone")
    with Cluster(1, port=port):
        pass


def test_a_process_that_ends_without_closing_its_cluster_leaves_no_directory() -> None:
    program = "from pykraft import Cluster; cluster = Cluster(1); print(cluster.directory)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert not Path(done.stdout.strip()).exists()
    assert done.stderr == ""


def test_a_running_node_visits_all_its_rooms_once_a_second() -> None:
    """A mark too few costs a second then, and not the node."""
    with Cluster(1) as cluster:
        thread = cluster._nodes[1]
        assert isinstance(thread, NodeThread)
        room = next(room for room in thread.node.rooms if room.name == "opening")
        poll, visits = room.poll, []

        def visited(now: int) -> Poll | int:
            visits.append(now)
            return poll(now)

        room.poll = visited
        wait_until(lambda: len(visits) > 1, "a room in which nothing happens is visited again and again", 30)
