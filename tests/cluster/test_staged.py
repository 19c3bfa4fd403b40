"""Nodes with Kafka's threads: the order of each connection, the bound of the queue, and what may not be held up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack

import pytest

from pykraft import Cluster, ClusterError
from pykraft.broker.node import Node
from pykraft.common.fault_handler import FatalFault
from pykraft.common.metrics import NETWORK
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from pykraft.protocol.messages.data import FetchRequest
from pykraft.runtime.staged import FirstOwnership, Ownership, StagedStages
from pykraft.runtime.threaded import NodeThread
from tests.cluster.test_threads import numbers_of_answers
from tests.golden.dumps import GOLDEN
from tests.golden.test_golden_mbeans import TEXTS, names
from tests.harness.connection import Closed, Connection
from tests.harness.socket_settings import IDS, SCENES, Scene
from tests.harness.waiting import wait_until

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
FROM_THE_START = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
FETCH = FetchRequest(
    max_wait_ms=20_000, min_bytes=1, topics=[FetchRequest.Topic(topic="t", partitions=[FROM_THE_START])]
)


@pytest.fixture(scope="module")
def staged() -> Iterator[Cluster]:
    with Cluster(nodes=1, network="staged", properties={"queued.max.requests": 2}) as cluster:
        cluster.create_topic("t")
        yield cluster


def thread_of(cluster: Cluster, node_id: int = 1) -> NodeThread:
    node = cluster._nodes[node_id]
    assert isinstance(node, NodeThread)
    return node


def stages_of(cluster: Cluster) -> StagedStages:
    stages = thread_of(cluster).stages
    assert isinstance(stages, StagedStages)
    return stages


class Held:
    """Another thread owns the node for a while: no handler gets it."""

    def __init__(self, cluster: Cluster) -> None:
        self._thread = thread_of(cluster)
        self._is_over = threading.Event()

    def __enter__(self) -> None:
        begun = threading.Event()

        def hold(node: Node) -> None:
            begun.set()
            assert self._is_over.wait(30)

        self._done = self._thread.call(hold)
        assert begun.wait(10)

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._done.result(10)


def test_pipelined_requests_are_answered_in_the_order_of_each_connection(staged: Cluster) -> None:
    """Eight handlers, and no two have requests of the same connection at a time."""
    each = 300
    kinds = [HELLO, MetadataRequest(topics=[])]
    pipelined = b"".join(
        b"".join(encode_request(kinds[number % 2], (3, 9)[number % 2], number, "pipelining")) for number in range(each)
    )
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(numbers_of_answers, staged.bootstrap_servers, pipelined) for _ in range(6)]
        assert all(answers.result() == list(range(each)) for answers in asked)


def test_no_more_requests_wait_than_the_queue_has_room_for_and_none_is_lost(staged: Cluster) -> None:
    stages = stages_of(staged)
    handlers = len(stages._handlers[next(iter(stages._queues))])
    many = handlers + 2 + 3  # in the hands of handlers, in the queue, and in their sockets
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(staged.bootstrap_servers)) for _ in range(many)]
        queue = next(queue for kind, queue in stages._queues.items() if kind.value == "broker")
        with Held(staged):
            numbers = [connection.send(HELLO, 3) for connection in connections]
            wait_until(lambda: len(queue) == 2, "the queue is full")
            time.sleep(0.05)
            assert len(queue) == 2
        for connection, number in zip(connections, numbers, strict=True):
            connection.receive(HELLO, 3, number)


def test_a_request_in_purgatory_keeps_no_handler(staged: Cluster) -> None:
    def parked(node: Node) -> float:
        return node.metrics.value("DelayedOperationPurgatory", "PurgatorySize")

    with ExitStack() as stack:
        fetching = [stack.enter_context(Connection(staged.bootstrap_servers)) for _ in range(10)]
        for connection in fetching:
            connection.send(FETCH, 11)
        call = thread_of(staged).call
        wait_until(lambda: call(parked).result() >= 10, "all of them wait")
        with Connection(staged.bootstrap_servers) as other:
            other.ask(HELLO, 3)
    # Their clients have hung up: nothing waits for them any more.
    wait_until(lambda: call(parked).result() == 0, "they are forgotten")


def test_the_metrics_mean_what_kafkas_do(staged: Cluster) -> None:
    def figures(node: Node) -> dict[str, float]:
        return {name: value for _, name, value in node.metrics.read()}

    thread = thread_of(staged)
    names = [f"{who}RequestHandlerAvgIdlePercent" for who in ("", "Broker", "Controller")]
    found = thread.call(figures).result()
    assert all(0.5 < found[name] <= 1 for name in [*names, "NetworkProcessorAvgIdlePercent"])
    assert [found[f"ResponseQueueSize{tag}"] for tag in ("", ",processor=0", ",processor=5")] == [0, 0, 0]
    stages = stages_of(staged)
    waits = stages._pools["BrokerRequestHandlerAvgIdlePercent"]
    began = time.monotonic_ns()
    before = [each.total(began) for each in waits]
    with Connection(staged.bootstrap_servers) as connection, Held(staged):
        connection.send(HELLO, 3)
        time.sleep(0.2)  # one of eight has a request, and cannot do it
    ended = time.monotonic_ns()
    idle = [(each.total(ended) - was) / (ended - began) for each, was in zip(waits, before, strict=True)]
    assert sorted(idle)[0] < 0.4 and sorted(idle)[1] > 0.8
    size = ("RequestChannel", "RequestQueueSize", NETWORK)
    wait_until(lambda: thread.call(lambda node: node.metrics.value(*size)).result() == 0, "the queue is empty")


def test_each_metric_is_one_of_kafkas(staged: Cluster) -> None:
    ours = thread_of(staged).call(lambda node: set(names(node.metrics))).result()
    theirs = set((GOLDEN / "kafka-mbeans.txt").read_text().splitlines())
    assert ours - theirs == TEXTS
    assert "kafka.network:type=RequestMetrics,name=ResponseQueueTimeMs by request" in ours


def test_connections_go_to_the_network_threads_in_turn(staged: Cluster) -> None:
    with ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(Connection(staged.bootstrap_servers)).ask(HELLO, 3)
        counts = [len(thread.processor) for name, thread in stages_of(staged)._processors if name == "PLAINTEXT"]
        assert len(counts) == 3 and min(counts) >= 2


def test_the_nodes_own_thread_comes_before_handlers_that_come_later() -> None:
    ownership, order = Ownership(), []

    def take(who: str, how: AbstractContextManager[object]) -> None:
        with how:
            order.append(who)

    with ThreadPoolExecutor(9) as pool, ownership:
        pool.submit(take, "node", FirstOwnership(ownership))
        wait_until(ownership._turnstile.locked, "the node's thread waits")
        for _ in range(8):
            pool.submit(take, "handler", ownership)
        time.sleep(0.02)
    assert order == ["node"] + ["handler"] * 8


def test_a_fatal_fault_on_a_handler_stops_the_node_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(*_: object) -> None:
        raise FatalFault("planted")

    cluster = Cluster(nodes=1, network="staged")
    node = thread_of(cluster).node
    monkeypatch.setattr(node, "handle", handle)
    with Connection(cluster.bootstrap_servers) as connection, pytest.raises(Closed):
        connection.ask(HELLO, 3)
    wait_until(lambda: not cluster.alive, "the node has stopped")
    with pytest.raises(ClusterError, match="node 1 died: FatalFault: planted"):
        cluster.close()


def test_a_killed_node_resets_its_connections_and_leaves_no_thread() -> None:
    others = set(threading.enumerate())
    with Cluster(nodes=1, network="staged", properties={"num.network.threads": 2, "num.io.threads": 3}) as cluster:
        threads = set(threading.enumerate()) - others
        assert len(threads) == 2 * (1 + 2 + 3) + 3  # acceptor, network threads, handlers; the node, disk, clock
        connection = Connection(cluster.bootstrap_servers)
        connection.ask(HELLO, 3)
        cluster.kill(1)
        assert [thread.name for thread in threads if thread.is_alive()] == ["pykraft-ticker"]
        with connection, pytest.raises(ConnectionResetError):
            connection.sock.recv(1)
        cluster.restart(1)
        with Connection(cluster.bootstrap_servers) as again:
            again.ask(HELLO, 3)


@pytest.mark.parametrize(("properties", "scene", "seen"), SCENES[:2], ids=IDS[:2])
def test_a_client_sees_what_the_setting_says(properties: dict[str, str], scene: Scene, seen: str) -> None:
    with Cluster(nodes=1, properties=properties, network="staged") as cluster:
        assert scene(cluster.bootstrap_servers) == seen


@pytest.mark.long
@pytest.mark.parametrize(("properties", "scene", "seen"), SCENES[2:], ids=IDS[2:])
def test_a_client_sees_what_the_slower_settings_say(properties: dict[str, str], scene: Scene, seen: str) -> None:
    with Cluster(nodes=1, properties=properties, network="staged") as cluster:
        assert scene(cluster.bootstrap_servers) == seen


def test_a_network_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match='network=\'threads\': must be "fused" or "staged"'):
        Cluster(nodes=1, network="threads")


def test_what_waits_when_a_node_stops_in_order_is_not_left_open(staged: Cluster) -> None:
    with Cluster(nodes=1, network="staged") as cluster:
        caller = socket.create_connection(("127.0.0.1", int(cluster.bootstrap_servers.rpartition(":")[2])))
    with caller:
        assert caller.recv(1) == b""
