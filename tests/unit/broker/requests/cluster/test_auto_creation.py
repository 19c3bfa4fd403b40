"""Topics that a broker creates because a client asked about them: how many partitions and replicas they get."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pykraft.broker.requests.authorizer import AllowAll
from pykraft.broker.requests.envelope import EnvelopeApis
from pykraft.broker.requests.forwarding import ForwardingApis
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.types import Node
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CLUSTER_DEFAULT, CreateTopicsResponse
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import Answer
from tests.harness.answering import answered
from tests.harness.lone_node import LoneNode

BOTH_DEFAULTS = (CLUSTER_DEFAULT, CLUSTER_DEFAULT)


@pytest.mark.parametrize(
    ("broker_file", "partitions_and_replicas"),
    [
        ({}, BOTH_DEFAULTS),
        ({"num.partitions": "5"}, (5, CLUSTER_DEFAULT)),
        ({"default.replication.factor": "2"}, (CLUSTER_DEFAULT, 2)),
        ({"num.partitions": "5", "default.replication.factor": "2"}, (5, 2)),
        (
            {"num.partitions": "1", "default.replication.factor": "1"},
            (1, 1),
        ),  # set, if to Kafka's default
    ],
)
def test_what_the_brokers_file_sets_goes_before_the_controllers_defaults(
    broker_file: Mapping[str, str], partitions_and_replicas: tuple[int, int]
) -> None:
    channel = ControllerChannel("forwarding", lambda: Node(1, "node", 9093), 1000)
    context = LoneNode.context(MetadataRequest(topics=None))
    ForwardingApis(channel, broker_file).create_missing(["t"], context, 0)
    (outbound,) = channel.poll(0).requests
    received: list[InboundRequest] = []

    def keep(inner: InboundRequest, now: int) -> Answer:
        received.append(inner)
        return Answer(CreateTopicsResponse(topics=[]))

    controller = EnvelopeApis(lambda: True, keep, AllowAll())
    answered(controller.envelope(outbound.request, LoneNode.context(outbound.request, ListenerKind.CONTROLLER), 0))
    (topic,) = received[0].message.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", *partitions_and_replicas)
