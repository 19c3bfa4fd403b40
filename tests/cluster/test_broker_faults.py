"""A broker without a controller meets exceptions that no code expects: it lives, counts them and tells them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykraft import Admin, Cluster
from pykraft.broker.node import Node
from pykraft.common.core import Node as Address
from pykraft.common.core import Outbound, Poll
from pykraft.common.errors import KafkaError
from pykraft.common.metrics import OWN
from pykraft.metadata.delta import MetadataDelta
from pykraft.network.socket_server import AcceptedSocket
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.messages.records import TopicRecord
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import Answer, ServerConnection
from tests.harness.connection import Closed, Connection
from tests.harness.waiting import wait_until

BROKER = 1


class PlantedError(Exception):
    """What no code expects."""


def faults(of: Node) -> float:
    """How many exceptions the node has counted."""
    return of.metrics.value("FaultHandler", "FaultCount", OWN)


@pytest.mark.survives_faults
def test_a_broker_lives_on_when_it_cannot_load_a_record_and_writes_no_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    properties = {"metadata.log.max.record.bytes.between.snapshots": 200}
    with Cluster(nodes=1, controllers=1, properties=properties) as cluster:
        original = MetadataDelta.replay

        def replay(self: MetadataDelta, record: Any) -> None:
            is_of_broker = threading.current_thread().name == f"node-{BROKER}"
            if is_of_broker and isinstance(record, TopicRecord) and record.name == "bad":
                raise PlantedError("planted")
            original(self, record)

        monkeypatch.setattr(MetadataDelta, "replay", replay)
        node = cluster._nodes[BROKER]

        def on_node(look: Any) -> Any:
            return node.call(look).result()  # type: ignore[union-attr]

        def load_errors(of: Node) -> float:
            return of.metrics.value("broker-metadata-metrics", "metadata-load-error-count")

        cluster.create_topic("good")
        admin = Admin(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=1000)
        with admin, suppress(KafkaError):  # the controller has it, and the broker does not show it
            admin.create_topic("bad")
        wait_until(lambda: on_node(load_errors) >= 1, "the record is counted")
        snapshot = on_node(lambda of: of.raft.replica.log.snapshots.newest_id())
        cluster.create_topic("better")
        assert on_node(lambda of: of.raft.replica.log.snapshots.newest_id()) == snapshot
        assert {"good", "better"} <= {topic.name for topic in on_node(lambda of: of.loader.image.topics.values())}
        assert cluster.failures() == {}
        told = [event.fields for event in cluster.journal(BROKER) if event.name == "fault"]
        assert {fault["kind"] for fault in told} <= {"metadata-load"} and "traceback" in told[0]
        assert told[0]["record"] == "TopicRecord"


@pytest.mark.survives_faults
def test_what_callbacks_of_a_running_node_raise_does_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(nodes=1) as cluster:
        node: Any = cluster._nodes[BROKER]

        def raising(*_: object) -> Any:
            raise PlantedError("planted")

        def plant(of: Node) -> None:
            of.timer.at(0, raising)
            node._client.timer.at(0, raising)
            node._background.submit(raising, print)
            node._background.submit(int, raising)
            endpoint = of.config.listeners[0].advertised
            ask = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            address = Address(BROKER, endpoint.host, endpoint.port)
            node._send(Poll(0, [Outbound("planted", address, ask, raising, 10_000)]).requests, 0)

        node.call(plant).result()
        wait_until(lambda: node.call(faults).result() == 5, "all are counted")
        cluster.create_topic("t")
        told = [event.fields for event in cluster.journal(BROKER) if event.name == "fault"]
        assert sorted(fault["kind"] for fault in told) == [
            "background",
            "background",
            "network-timer",
            "response",
            "timer",
        ]
        assert sum("traceback" in fault for fault in told) == 4
        assert cluster.failures() == {}


ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")
PLACES: dict[str, tuple[Any, str, Callable[..., str]]] = {
    "its socket is ready": (AcceptedSocket, "on_ready", lambda stream, _: stream.connection.channel.listener),
    "its socket is watched": (AcceptedSocket, "watch", lambda stream: stream.connection.channel.listener),
    "its request is read": (ServerChannel, "next_request", lambda channel, _: channel.listener),
    "its request is handled": (Node, "handle", lambda _, inbound, __: inbound.context.listener),
    "its answer is encoded": (Answer, "encode", lambda _, context: context.listener),
    "its answer is sent": (ServerChannel, "done", lambda channel, *_: channel.listener),
    "it is closed": (ServerConnection, "close", lambda connection, *_: connection.channel.listener),
    "its socket is closed": (AcceptedSocket, "close", lambda stream, _: stream.connection.channel.listener),
}
"""What raises once, and on which listener that is."""


@pytest.mark.survives_faults
@pytest.mark.parametrize("network", ["fused", "staged"])
def test_what_a_connection_raises_costs_that_connection_and_no_other(
    network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted: dict[str, int] = {}

    def plant(patch: pytest.MonkeyPatch, place: str) -> None:
        owner, method, listener_of = PLACES[place]
        original = getattr(owner, method)

        def raising(self: Any, *arguments: Any, **named: Any) -> Any:
            if place not in planted and listener_of(self, *arguments) == listener:
                planted[place] = 1
                raise PlantedError(place)
            return original(self, *arguments, **named)

        patch.setattr(owner, method, raising)

    with Cluster(nodes=1, network=network) as cluster:
        node: Any = cluster._nodes[BROKER]
        listener = next(each.name for each in node.node.config.listeners if each.kind is ListenerKind.BROKER)
        with Connection(cluster.bootstrap_servers) as other:
            other.ask(ASK, 3)
            for place in PLACES:
                with monkeypatch.context() as patch, Connection(cluster.bootstrap_servers) as victim:
                    victim.ask(ASK, 3)
                    plant(patch, place)
                    with suppress(Closed):
                        victim.send_bytes(b"\0\0\0\0" if "closed" in place else victim.frame(ASK, 3))
                        victim.receive_frame()
                    wait_until(lambda place=place: place in planted, place)  # type: ignore[misc]
                    assert victim.is_closed(), place
                other.ask(ASK, 3)
        wait_until(lambda: node.call(faults).result() == len(PLACES), "all are counted")
        assert cluster.failures() == {}
        told = [event.fields for event in cluster.journal(BROKER) if event.name == "fault"]
        assert {fault["kind"] for fault in told} == {"network"}
