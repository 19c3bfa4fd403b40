"""What a broker cannot do itself: it passes the client's request on to the active controller, and the answer back.

CreateTopics 2 to 7, CreatePartitions 0 to 3, DeleteTopics 1 to 6, ElectLeaders 0 to 2, AlterPartitionReassignments 0 to
1, ListPartitionReassignments 0, UnregisterBroker 0, UnregisterController 0, DescribeQuorum 0 to 2, AddRaftVoter 0 to 1,
RemoveRaftVoter 0, UpdateFeatures 0 to 2, AlterClientQuotas 0 to 1, AlterUserScramCredentials 0, and what is left of
IncrementalAlterConfigs 0 to 1 and AlterConfigs 0 to 2 (see `config_changes`) are forwarded in an Envelope (KIP-590), so
clients need not know which node is the controller. The controller authorizes the request, by the client's principal,
which the envelope carries.

Follows org.apache.kafka.server.ForwardingManager and kafka.server.AutoTopicCreationManager.
"""

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any

from pykraft.broker.requests.dispatch import CloseConnection, Handled, Handlers
from pykraft.broker.requests.long_answers import Long, refuse_in_steps
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.core import Promise, Steps, finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Key
from pykraft.controller.config import DEFAULT_REPLICATION_FACTOR, NUM_PARTITIONS
from pykraft.controller.result import check_size
from pykraft.protocol.header import decode_response_in_steps, request_frame
from pykraft.protocol.messages.admin import (
    CLUSTER_DEFAULT,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
)
from pykraft.protocol.messages.brokers import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from pykraft.protocol.messages.elections import ElectLeadersRequest
from pykraft.protocol.messages.features import UpdateFeaturesRequest
from pykraft.protocol.messages.quorum import AddRaftVoterRequest, DescribeQuorumRequest, RemoveRaftVoterRequest
from pykraft.protocol.messages.quotas import AlterClientQuotasRequest
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from pykraft.protocol.messages.sasl import AlterUserScramCredentialsRequest
from pykraft.protocol.schema import Request, Response, encode_in_steps
from pykraft.transport.server_channel import RequestContext

_PRINCIPAL_VERSION = b"\x00\x00"
_MADE_AT_ONCE = 100
"""This many missing topics are asked for at once; a client that wants more asks again."""


class ForwardingApis:
    """Passes requests on to the controller."""

    def __init__(self, channel: ControllerChannel, properties: Mapping[str, str] = MappingProxyType({})) -> None:
        """`properties` are the node's file: what it sets for new topics goes before the controller's defaults."""
        self._channel = channel
        self._num_partitions = _default_in(properties, NUM_PARTITIONS)
        self._replication_factor = _default_in(properties, DEFAULT_REPLICATION_FACTOR)
        self._creating: set[str] = set()

    def forward(self, request: Request, context: RequestContext, now: int) -> Handled:
        """Answer with what the controller answers."""
        return self.pass_on(request, context, now, Long)

    def pass_on(
        self, request: Request, context: RequestContext, now: int, respond: Callable[[Any], Handled]
    ) -> ItemByItem:
        """The same, where `respond` makes of the controller's answer what a handler returns.

        The controller refuses what names too much; so it need not be sent that. A large request is encoded again in
        steps, and is sent though its client has hung up. Its answer is read in steps, too."""
        check_size(request)
        return ItemByItem(
            (request,),
            lambda request, now: _envelope_in_steps(request, context.api_version, context),
            lambda envelopes, now: self._send(envelopes[0], request, context, now).map(
                lambda response: ItemByItem(
                    (response,),
                    lambda response, now: _open(response, request, context),
                    lambda answers, now: respond(answers[0]),
                )
            ),
            is_write=True,
        )

    def _send(
        self, envelope: EnvelopeRequest, request: Request, context: RequestContext, now: int
    ) -> Promise[EnvelopeResponse | None]:
        answered: Promise[EnvelopeResponse | None] = Promise()
        timeout_ms = getattr(request, "timeout_ms", None)
        self._channel.send(
            envelope,
            lambda response, _: answered.keep(response),
            now,
            timeout_ms if timeout_ms and timeout_ms > 0 else None,
        )
        return answered

    def create_missing(self, names: list[str], context: RequestContext, now: int) -> None:
        """Make topics that a client has asked about, with the defaults that this node's file sets, else with the
        controller's; once, however often it asks. The controller takes it for the client's own request."""
        fresh = [name for name in names if name not in self._creating][:_MADE_AT_ONCE]
        if not fresh:
            return
        self._creating.update(fresh)
        topics = [
            CreateTopicsRequest.Topic(
                name=name,
                num_partitions=self._num_partitions,
                replication_factor=self._replication_factor,
                assignments=[],
                configs=[],
            )
            for name in fresh
        ]

        def on_answer(response: Any, then: int) -> None:
            self._creating.difference_update(fresh)

        request = CreateTopicsRequest(topics=topics)
        self._channel.send(_envelope(request, request.versions[1], context), on_answer, now)

    def create_internal(self, topic: CreateTopicsRequest.Topic, now: int) -> None:
        """Make a topic that this broker needs itself; once, however often it is missed. The controller is asked in the
        broker's own name."""
        if topic.name in self._creating:
            return
        self._creating.add(topic.name)
        self._channel.send(
            CreateTopicsRequest(topics=[topic]), lambda response, then: self._creating.discard(topic.name), now
        )


HANDLERS: Handlers = {
    CreateTopicsRequest: ForwardingApis.forward,
    CreatePartitionsRequest: ForwardingApis.forward,
    DeleteTopicsRequest: ForwardingApis.forward,
    ElectLeadersRequest: ForwardingApis.forward,
    AlterPartitionReassignmentsRequest: ForwardingApis.forward,
    ListPartitionReassignmentsRequest: ForwardingApis.forward,
    UnregisterBrokerRequest: ForwardingApis.forward,
    UnregisterControllerRequest: ForwardingApis.forward,
    DescribeQuorumRequest: ForwardingApis.forward,
    AddRaftVoterRequest: ForwardingApis.forward,
    RemoveRaftVoterRequest: ForwardingApis.forward,
    UpdateFeaturesRequest: ForwardingApis.forward,
    AlterUserScramCredentialsRequest: ForwardingApis.forward,
    AlterClientQuotasRequest: ForwardingApis.forward,
}


def _default_in(properties: Mapping[str, str], key: Key[int]) -> int:
    """What the file says; the controller chooses a default that the file does not set."""
    return key.read(properties[key.name]) if key.name in properties else CLUSTER_DEFAULT


def _envelope(request: Request, version: int, context: RequestContext) -> EnvelopeRequest:
    """A request as that of the client in the context."""
    return finish(_envelope_in_steps(request, version, context))


def _envelope_in_steps(request: Request, version: int, context: RequestContext) -> Steps[EnvelopeRequest]:
    body = yield from encode_in_steps(request, version)
    _, *frame = request_frame(type(request), version, context.correlation_id, context.client_id, body)
    kind, _, name = context.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name).to_bytes(0)
    return EnvelopeRequest(
        request_data=b"".join(frame),
        request_principal=_PRINCIPAL_VERSION + principal,
        client_host_address=_address_bytes(context.client_address),
    )


def _open(response: EnvelopeResponse | None, request: Request, context: RequestContext) -> Steps[Response | None]:
    """The answer to the client, in the envelope or in place of it."""
    if response is None:
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller did not answer in time")
        return (yield from refuse_in_steps(request, late))
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        # The controller's versions may have changed since this client asked for them: it connects and asks again.
        raise CloseConnection("the controller does not understand what is in the envelope")
    if response.error_code or response.response_data is None:
        # The brokers are not set up rightly. No client would expect that error from its request.
        refused = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller refuses what this broker passes on")
        return (yield from refuse_in_steps(request, refused))
    data = memoryview(response.response_data)
    return (yield from decode_response_in_steps(type(request).response, context.api_version, data))


def _address_bytes(address: str) -> bytes:
    """The bytes of an IPv4 or IPv6 address."""
    try:
        return ip_address(address).packed
    except ValueError:  # a network that is not the Internet
        return bytes(4)
