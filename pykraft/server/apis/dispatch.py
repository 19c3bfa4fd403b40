"""From a request to its handler, and from what the handler returns to the answer.

Each module of this folder has a class whose methods are handlers, and `HANDLERS`, the table of which of them answers
which request. A node makes the objects and hands them to `Dispatcher.serve`; the listeners that serve a request are
declared with the request itself.

A handler returns its response, or None if the client wants none. It returns a `Promise` of that only if it has to wait:
until a high watermark has moved, or the controller has answered. If it raises KafkaError, the whole request is refused,
in the way that is declared with the request (`Request.refusal`).

Follows kafka.server.KafkaApis.handle.
"""

from collections.abc import Callable, Generator, Mapping
from types import MethodType
from typing import Any

from pykraft.common.core import Promise, Steps
from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.schema import Request, Response
from pykraft.server.quotas import Quotas
from pykraft.server.turns import Turns
from pykraft.transport.server_channel import InboundRequest, RequestContext
from pykraft.transport.server_connection import Answer


class CloseConnection(Exception):  # noqa: N818 (it is an order, not a fault)
    """There is no way to tell this client what went wrong but to hang up."""


Handled = Response | None | Promise[Any] | Steps[Any]
"""What a handler returns: the response, None for none, a promise of one of them, or the steps that lead to one."""
Responded = Response | CloseConnection | Promise[Any] | None
"""What a request comes to; a promise is one of the others."""
Handlers = Mapping[type[Request], Callable[[Any, Any, RequestContext, int], Handled]]
"""Functions of one class by the request that they answer; called with (self, request, context, now)."""


class Dispatcher:
    """The handlers of a node, by listener and request."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self.turns = Turns()
        self._handlers: dict[tuple[ListenerKind, type[Request]], Callable[[Any, RequestContext, int], Handled]] = {}

    def serve(self, kind: ListenerKind, apis: object, handlers: Handlers) -> None:
        """Let the object `apis` answer those of these requests that a listener of this kind serves."""
        for request, handler in handlers.items():
            if kind in request.served_by:
                assert (kind, request) not in self._handlers, f"{request.__name__} has a handler: {kind.value}"
                self._handlers[kind, request] = MethodType(handler, apis)

    def requests(self, kind: ListenerKind) -> set[type[Request]]:
        """The requests that have a handler on a listener of this kind."""
        return {request for served_by, request in self._handlers if served_by is kind}

    def handle(self, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        """Answer a request that the channel has let through. An answer that is abandoned abandons the handler's."""
        throttle_ms = self._quotas.record(inbound.context, now)
        handled = self.respond(inbound, now)
        if not isinstance(handled, Promise):
            return _answer(handled, throttle_ms)
        if handled.kept:
            return _answer(handled.value, throttle_ms)
        return handled.map(lambda response: _answer(response, throttle_ms))

    def respond(self, inbound: InboundRequest, now: int) -> Responded:
        """What the handler returns, or the refusal if it raises KafkaError; or the order to hang up on the client."""
        context, request = inbound
        try:
            handled = self._handlers[context.kind, type(request)](request, context, now)
            if isinstance(handled, Generator):
                handled = self.turns.run(inbound, _guarded(request, handled))
        except KafkaError as error:
            return _refusal(request, error)
        except CloseConnection as order:
            return order
        return handled


def _guarded(request: Request, steps: Steps[Any]) -> Steps[Any]:
    """The steps of a handler, with what they raise made into what is answered."""
    try:
        return (yield from steps)
    except KafkaError as error:
        return _refusal(request, error)
    except CloseConnection as order:
        return order


def _refusal(request: Request, error: KafkaError) -> Response | CloseConnection:
    refusal = request.refusal(error)
    if refusal is None:
        return CloseConnection(f"a client that wants no answer is refused: {error}")
    return refusal


def _answer(handled: Response | CloseConnection | None, throttle_ms: int) -> Answer:
    if isinstance(handled, CloseConnection):
        return Answer(None, hang_up=True)
    return Answer(handled, throttle_ms)
