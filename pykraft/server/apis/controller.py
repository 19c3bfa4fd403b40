"""What the controller listener answers: the quorum's own messages, the brokers' requests, and what brokers forward.

Versions: Vote 0 to 2, BeginQuorumEpoch and EndQuorumEpoch 0 to 1, Fetch 4 to 18 (of the metadata log), DescribeQuorum 0
to 2, BrokerRegistration 0 to 4, BrokerHeartbeat 0 to 1, AlterPartition 2 to 3, AllocateProducerIds 0, Envelope 0,
CreateTopics 2 to 7, DeleteTopics 1 to 6, IncrementalAlterConfigs 0 to 1, AlterConfigs 0 to 2, DescribeConfigs 1 to 4.
Only the active controller does what is asked; the others answer NOT_CONTROLLER.

An Envelope carries a client's whole request, with its header, and who the client is; the answer comes back in another
envelope (KIP-590). Only requests that the controller serves for clients may be in one.

Follows kafka.server.ControllerApis and kafka.server.EnvelopeUtils.
"""

from collections.abc import Callable
from typing import Any

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.controller.controller import Outcome, QuorumController
from pykraft.protocol.api import ListenerKind, requests, served
from pykraft.protocol.header import RequestHeader, encode_response, peek, request_header_version
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    DefaultPrincipalData,
    EnvelopeRequest,
    EnvelopeResponse,
)
from pykraft.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    VoteRequest,
)
from pykraft.protocol.schema import Request, Response
from pykraft.raft.service import RaftService
from pykraft.server.apis.errors import error_response
from pykraft.transport.server_channel import MAX_REQUEST_ELEMENTS, RequestContext

FORWARDABLE = (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    AlterConfigsRequest,
    DescribeQuorumRequest,
)
"""The requests that a broker passes on for its clients."""

_PRINCIPAL_VERSION_BYTES = 2
_ADDRESS_BYTES = (4, 16)

Handler = Callable[[Any, RequestContext, int], Any]


class ControllerApis:
    """Answers on the controller listener."""

    def __init__(self, raft: RaftService, controller: QuorumController) -> None:
        self._raft = raft
        self._controller = controller
        self.handlers: dict[type[Request], Handler] = {
            VoteRequest: lambda request, _, now: Promise.of(raft.vote(request, now)),
            BeginQuorumEpochRequest: lambda request, _, now: Promise.of(raft.begin_quorum_epoch(request, now)),
            EndQuorumEpochRequest: lambda request, _, now: Promise.of(raft.end_quorum_epoch(request, now)),
            FetchRequest: lambda request, _, now: raft.fetch(request, now),
            DescribeQuorumRequest: lambda request, _, now: Promise.of(raft.describe_quorum(request, now)),
            BrokerRegistrationRequest: self._asking(controller.register_broker),
            BrokerHeartbeatRequest: self._asking(controller.broker_heartbeat),
            AlterPartitionRequest: self._asking(controller.alter_partition),
            AllocateProducerIdsRequest: self._asking(controller.allocate_producer_ids),
            CreateTopicsRequest: self._asking(controller.create_topics),
            DeleteTopicsRequest: self._asking(controller.delete_topics),
            IncrementalAlterConfigsRequest: self._asking(controller.incremental_alter_configs),
            AlterConfigsRequest: self._asking(controller.alter_configs),
            EnvelopeRequest: self._envelope,
        }

    @staticmethod
    def _asking(method: Callable[[Any, int], Promise[Outcome]]) -> Handler:
        """A handler that asks the controller and answers with its outcome."""

        def handle(request: Request, context: RequestContext, now: int) -> Promise[Response]:
            answer: Promise[Response] = Promise()

            def on_outcome(outcome: Outcome) -> None:
                error = outcome.error
                answer.keep(outcome.response if error is None else error_response(request, error))

            method(request, now).then(on_outcome)
            return answer

        return handle

    def _envelope(self, envelope: EnvelopeRequest, context: RequestContext, now: int) -> Promise[EnvelopeResponse]:
        try:
            inner, request = _unwrap(envelope, context)
        except KafkaError as error:
            return Promise.of(EnvelopeResponse(error_code=error.code))
        if not self._controller.is_active:
            return Promise.of(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
        answer: Promise[EnvelopeResponse] = Promise()
        self.handlers[type(request)](request, inner, now).then(lambda response: answer.keep(_wrap(response, inner)))
        return answer


def _unwrap(envelope: EnvelopeRequest, context: RequestContext) -> tuple[RequestContext, Request]:
    """The client's request, and its context: the principal is the client's, not the broker's."""
    frame = memoryview(envelope.request_data)
    if len(envelope.client_host_address) not in _ADDRESS_BYTES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's address is none")
    try:
        principal = DefaultPrincipalData.decode(envelope.request_principal or b"", 0, position=_PRINCIPAL_VERSION_BYTES)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    try:
        key, version, _ = peek(frame)
        if not served(ListenerKind.CONTROLLER, key, version):
            raise ProtocolError(f"API {key} version {version} is not served by a controller")
        request_type = requests[key]
        header, position = RequestHeader.decode_from(frame, request_header_version(request_type, version))
        request = request_type.decode(frame, version, position, MAX_REQUEST_ELEMENTS)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
    if not isinstance(request, FORWARDABLE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{request_type.__name__} is not forwarded")
    inner = context._replace(
        principal=f"{principal.type}:{principal.name}",
        client_id=header.client_id,
        api_key=key,
        api_version=version,
        correlation_id=header.correlation_id,
    )
    return inner, request


def _wrap(response: Response, context: RequestContext) -> EnvelopeResponse:
    """The answer with its header, as the client will get it. An answer that says NOT_CONTROLLER is the envelope's own:
    the broker will look for the controller again, and the client need not know."""
    if ErrorCode.NOT_CONTROLLER in _error_codes(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    _, *parts = encode_response(response, context.api_version, context.correlation_id)
    return EnvelopeResponse(response_data=b"".join(parts))


def _error_codes(response: Any) -> set[int]:
    """The error codes of an answer as a whole, and of the topics in it."""
    topics = [*getattr(response, "topics", ()), *getattr(response, "responses", ())]
    return {getattr(part, "error_code", 0) for part in (response, *topics)}
