"""Several listeners of one node: what it registers, and which addresses a client hears of."""

from __future__ import annotations

import pytest

from pykraft.protocol.messages.cluster import DescribeClusterRequest, MetadataRequest
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.transport.server_channel import InboundRequest
from tests.harness.lone_node import LoneNode


@pytest.fixture
def node() -> LoneNode:
    return LoneNode(
        listeners="PLAINTEXT://node:9092,OUTSIDE://node:9094,CONTROLLER://node:9093",
        advertised_listeners="OUTSIDE://public:19094",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUTSIDE:SASL_SSL,CONTROLLER:SSL",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
    )


def test_a_registration_has_the_security_protocol_of_each_endpoint(node: LoneNode) -> None:
    image = node.node.loader.image
    assert image.brokers[1].security_protocols == {
        "PLAINTEXT": SecurityProtocol.PLAINTEXT,
        "OUTSIDE": SecurityProtocol.SASL_SSL,
    }
    (endpoint,) = image.controllers[1].end_points
    assert (endpoint.name, endpoint.security_protocol) == ("CONTROLLER", SecurityProtocol.SSL)


@pytest.mark.parametrize(("listener", "address"), [("PLAINTEXT", ("node", 9092)), ("OUTSIDE", ("public", 19094))])
def test_a_client_hears_of_the_addresses_of_the_listener_that_it_came_by(
    node: LoneNode, listener: str, address: tuple[str, int]
) -> None:
    for request in (MetadataRequest(topics=[]), DescribeClusterRequest()):
        context = LoneNode.context(request)._replace(listener=listener)
        answer = node.node.handle(InboundRequest(context, request), node.now)
        (broker,) = answer.response.brokers  # type: ignore[union-attr]
        assert (broker.host, broker.port) == address
