"""Envelope 0: what brokers forward to the active controller for their clients.

An envelope carries a client's whole request, with its header, and who the client is; the answer comes back in another
envelope (KIP-590). Only requests that are declared forwardable may be in one. The sender needs CLUSTER_ACTION on the
cluster, because the controller trusts its word about the client.

Follows kafka.server.EnvelopeUtils.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from pykraft.broker.requests.authorizer import Authorizer, check_cluster
from pykraft.broker.requests.dispatch import Handlers
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation
from pykraft.common.core import Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.protocol.api import ListenerKind, formats
from pykraft.protocol.header import RequestHeader, peek
from pykraft.protocol.messages.brokers import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from pykraft.transport.server_channel import MAX_NAMES_BYTES, MAX_REQUEST_ELEMENTS, InboundRequest, RequestContext
from pykraft.transport.server_connection import Answer

_PRINCIPAL_VERSION_BYTES = 2
_ADDRESS_BYTES = (4, 16)
_PARTS = ("topics", "responses", "results", "filter_results", "entries")
"""Where an answer that is forwarded has error codes of its parts. The refusal of a whole request has the error there,
unless the answer has a place for it."""


class EnvelopeApis:
    """Opens envelopes."""

    def __init__(
        self,
        is_active: Callable[[], bool],
        handle: Callable[[InboundRequest, int], Answer | Promise[Answer]],
        authorizer: Authorizer,
    ) -> None:
        """`is_active` says whether this node is the active controller; `handle` answers the request inside."""
        self._is_active = is_active
        self._handle = handle
        self._authorizer = authorizer

    def envelope(self, envelope: EnvelopeRequest, context: RequestContext, now: int) -> ItemByItem:
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        return ItemByItem((envelope,), lambda envelope, now: _unwrap(envelope, context), self._answer, is_write=True)

    def _answer(self, unwrapped: list[InboundRequest], now: int) -> EnvelopeResponse | Promise[EnvelopeResponse]:
        (inner,) = unwrapped
        if not self._is_active():
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        answered = self._handle(inner, now)
        if isinstance(answered, Promise):
            return answered.map(lambda answer: _wrapped(answer, inner.context))
        return _wrapped(answered, inner.context)


HANDLERS: Handlers = {EnvelopeRequest: EnvelopeApis.envelope}


def _unwrap(envelope: EnvelopeRequest, context: RequestContext) -> Steps[InboundRequest]:
    """The client's request, and its context: principal and address are the client's, not the broker's."""
    frame = memoryview(envelope.request_data)
    if len(frame) > MAX_NAMES_BYTES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a request of {len(frame)} bytes is not forwarded")
    if len(envelope.client_host_address) not in _ADDRESS_BYTES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's address is none")
    try:
        principal = DefaultPrincipalData.decode(envelope.request_principal or b"", 0, position=_PRINCIPAL_VERSION_BYTES)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    try:
        found = formats(ListenerKind.CONTROLLER).get(bytes(frame[:4]))
        if found is None:
            key, version, _ = peek(frame)
            raise ProtocolError(f"API {key} version {version} is not served by a controller")
        header, position = RequestHeader.decode_from(frame, found.header_version, 0, MAX_REQUEST_ELEMENTS)
        request = yield from found.request.decode_in_steps(frame, header.api_version, position, MAX_REQUEST_ELEMENTS)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
    if not request.forwardable:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{type(request).__name__} is not forwarded")
    inner = context._replace(
        principal=f"{principal.type}:{principal.name}",
        client_address=str(ip_address(envelope.client_host_address)),
        client_id=header.client_id,
        api_key=header.api_key,
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        size_bytes=len(frame),
    )
    return InboundRequest(inner, request)


def _wrapped(answer: Answer, context: RequestContext) -> EnvelopeResponse:
    """The answer with its header, as the client will get it. An answer that says NOT_CONTROLLER is the envelope's own:
    the broker will look for the controller again, and the client need not know. A request that would close its client's
    connection (it has a code that means nothing) cannot be read, as far as the envelope is concerned."""
    if answer.hang_up:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the request in the envelope, API {context.api_key}, is none")
    response = answer.response
    assert response is not None, f"API {context.api_key} is forwarded, so its client wants an answer"
    # Where all its errors are counted there need be none; else those of its parts are looked at.
    may_be_lost = answer.errors is None or answer.errors.get(ErrorCode.NOT_CONTROLLER)
    if may_be_lost and ErrorCode.NOT_CONTROLLER in _error_codes(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    (_, *parts), _ = answer.encode(context)
    return EnvelopeResponse(response_data=b"".join(parts))


def _error_codes(response: Any) -> set[int]:
    """The error codes of an answer as a whole, and of the topics, resources or features in it."""
    parts = [part for name in _PARTS for part in getattr(response, name, ())]
    return {getattr(part, "error_code", 0) for part in (response, *parts)}
