"""Envelopes: an answer of NOT_CONTROLLER is for the broker, which asks another controller, and not for its client."""

from __future__ import annotations

import pytest

from pykraft.broker.requests.authorizer import AllowAll
from pykraft.broker.requests.dispatch import CloseConnection
from pykraft.broker.requests.envelope import EnvelopeApis
from pykraft.broker.requests.forwarding import ForwardingApis, _open
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import METADATA_TOPIC, ZERO_UUID, Node
from pykraft.protocol.api import ListenerKind, apis
from pykraft.protocol.messages.admin import UnregisterBrokerRequest, UnregisterControllerRequest
from pykraft.protocol.messages.brokers import EnvelopeResponse
from pykraft.protocol.messages.quorum import AddRaftVoterRequest, DescribeQuorumRequest, RemoveRaftVoterRequest
from pykraft.protocol.messages.sasl import AlterUserScramCredentialsRequest
from pykraft.protocol.schema import Request
from pykraft.transport.server_connection import Answer
from tests.harness.answering import answered
from tests.harness.asking import (
    TOPIC,
    change,
    create,
    delete,
    elect,
    grow,
    new_topic,
    reassign,
    reassignments,
    replace_all,
    update,
)
from tests.harness.lone_node import LoneNode
from tests.harness.quotas import alter
from tests.harness.rules import create_acls, delete_acls, rule

QUORUM = DescribeQuorumRequest.Topic(
    topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequest.Topic.Partition(partition_index=0)]
)
FORWARDED: list[Request] = [
    create(new_topic("t")),
    grow(("t", 2)),
    delete("t"),
    elect(0, ("t", [0])),
    reassign(("t", 0, [1])),
    reassignments(("t", [0])),
    UnregisterBrokerRequest(broker_id=1),
    UnregisterControllerRequest(controller_id=1),
    DescribeQuorumRequest(topics=[QUORUM]),
    AddRaftVoterRequest(timeout_ms=1, voter_id=9, voter_directory_id=ZERO_UUID, listeners=[]),
    RemoveRaftVoterRequest(voter_id=9, voter_directory_id=ZERO_UUID),
    update(("group.version", 1)),
    change((TOPIC, "t", [])),
    replace_all((TOPIC, "t", [])),
    create_acls(rule("allow alice READ TOPIC t")),
    delete_acls(rule("allow alice READ TOPIC t")),
    alter(({"user": "alice"}, {"request_percentage": 1.0})),
    AlterUserScramCredentialsRequest(
        deletions=[AlterUserScramCredentialsRequest.Deletion(name="alice", mechanism=1)], upsertions=[]
    ),
]
EACH = [
    pytest.param(request, version, id=f"{type(request).__name__}-{version}")
    for request in FORWARDED
    for version in range(request.versions[0], request.versions[1] + 1)
]


def test_each_request_that_is_forwarded_is_here() -> None:
    assert {type(request) for request in FORWARDED} == {api.request for api in apis.values() if api.request.forwardable}


@pytest.mark.parametrize(("request_", "version"), EACH)
def test_a_controller_that_loses_its_leadership_says_so_to_the_broker(request_: Request, version: int) -> None:
    """The active controller took the request, and is deposed before the change is committed."""
    channel = ControllerChannel("forwarding", lambda: Node(1, "node", 9093), 1000)
    answered(ForwardingApis(channel).forward(request_, LoneNode.context(request_, version=version), 0))
    (outbound,) = channel.poll(0).requests
    refused = KafkaError(ErrorCode.NOT_CONTROLLER, "deposed")
    opened = EnvelopeApis(lambda: True, lambda inner, _: Answer(inner.message.refusal(refused)), AllowAll())
    context = LoneNode.context(outbound.request, ListenerKind.CONTROLLER)
    answer = answered(opened.envelope(outbound.request, context, 0))
    assert answer == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)


def test_a_request_that_means_nothing_makes_its_envelope_unsupported() -> None:
    """On a connection of its own it would be closed; in an envelope the connection is the broker's."""
    asked = create_acls(rule("allow alice READ TOPIC t"))
    asked.creations[0].operation = 0
    channel = ControllerChannel("forwarding", lambda: Node(1, "node", 9093), 1000)
    answered(ForwardingApis(channel).forward(asked, LoneNode.context(asked), 0))
    (outbound,) = channel.poll(0).requests
    opened = EnvelopeApis(lambda: True, lambda inner, _: Answer(None, hang_up=True), AllowAll())
    context = LoneNode.context(outbound.request, ListenerKind.CONTROLLER)
    with pytest.raises(KafkaError) as refused:
        answered(opened.envelope(outbound.request, context, 0))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("request_", FORWARDED[:4], ids=lambda request: type(request).__name__)
def test_a_client_hears_of_no_error_of_an_envelope_itself(request_: Request) -> None:
    """It says that the brokers are not set up rightly: `admin` may do what it asks for, and its broker may not ask."""
    opened = _open(
        EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), request_, LoneNode.context(request_)
    )
    told = repr(finish(opened))
    assert ErrorCode.UNKNOWN_SERVER_ERROR.name in told
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name not in told


def test_a_client_whose_envelope_is_not_understood_is_to_connect_again() -> None:
    request = FORWARDED[0]
    opened = _open(EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), request, LoneNode.context(request))
    with pytest.raises(CloseConnection):
        finish(opened)
