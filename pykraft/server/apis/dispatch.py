"""From a request to its handler, and from what the handler returns to the answer.

Each module of this folder has a class whose methods are handlers, and `HANDLERS`, the table of which of them answers
which request. A node makes the objects and hands them to `Dispatcher.serve`; the listeners that serve a request are
declared with the request itself.

A handler returns its response, or None if the client wants none. It returns a `Promise` of that only if it has to wait:
until a high watermark has moved, or the controller has answered. If it raises KafkaError, the whole request is refused,
in the way that is declared with the request (`Request.refusal`).

On a node with quotas an answer is charged to its client when it is encoded, for then its size is known. An envelope is
free: what is in it is charged to its client.

Follows kafka.server.{KafkaApis,RequestHandlerHelper}.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import GeneratorType, MethodType
from typing import Any

from pykraft.common.core import Clock, Promise, Steps
from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.schema import Request, Response
from pykraft.server.quotas import Quotas, Used
from pykraft.server.turns import Turns
from pykraft.transport.server_channel import InboundRequest, RequestContext
from pykraft.transport.server_connection import Answer


class CloseConnection(Exception):  # noqa: N818 (it is an order, not a fault)
    """There is no way to tell this client what went wrong but to hang up."""


_NO_MEMORY = CloseConnection("there is not enough memory for this request")
"""Made ahead: then there may be none for it."""
_ENDS = (KafkaError, CloseConnection, MemoryError)
"""What a handler may raise."""

Handled = Response | None | Promise[Any] | Steps[Any]
"""What a handler returns: the response, None for none, a promise of one of them, or the steps that lead to one."""
Ended = Response | CloseConnection | None
Responded = Ended | Promise[Any]
"""What a request comes to; a promise is one of the others."""
Handlers = Mapping[type[Request], Callable[[Any, Any, RequestContext, int], Handled]]
"""Functions of one class by the request that they answer; called with (self, request, context, now)."""


class Dispatcher:
    """The handlers of a node, by listener and request."""

    def __init__(self, quotas: Quotas | None, clock: Clock, now: Callable[[], int]) -> None:
        """`now` is for answers that come later than their requests; `clock` measures the handlers."""
        self._quotas = quotas
        self.turns = Turns()
        self._clock = clock
        self._now = now
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
        quotas, context = self._quotas, inbound.context
        if quotas is None or context.api_key == EnvelopeRequest.api:
            handled, answer = self._respond(inbound, now, None), _answer
        else:
            handling_us = [0]
            handled = self._respond(inbound, now, handling_us)
            answer = partial(_answer, charge=partial(self._charge, quotas, context, handling_us))
        if not isinstance(handled, Promise):
            return answer(handled)
        return answer(handled.value) if handled.kept else handled.map(answer)

    def _respond(self, inbound: InboundRequest, now: int, handling_us: list[int] | None) -> Responded:
        """What the handler returns, or the refusal if it raises KafkaError; or the order to hang up on the client. The
        time that it takes is added to `handling_us`."""
        context, request = inbound
        handler = self._handlers[context.kind, type(request)]
        if handling_us is None:
            try:
                handled: Any = handler(request, context, now)
                if isinstance(handled, GeneratorType):
                    handled = self.turns.run(inbound, _guarded(request, handled))
            except _ENDS as error:
                return _ended(request, error)
            responded: Responded = handled
            return responded
        steps = _guarded(request, _steps(handler, request, context, now))
        return self.turns.run(inbound, self._timed(steps, handling_us))

    def _timed(self, steps: Steps[Any], handling_us: list[int]) -> Steps[Any]:
        """The same steps, with the time that each takes added up."""
        now: int | None = None
        while True:
            began_us = self._clock.elapsed_us()
            try:
                awaited = steps.send(now)  # type: ignore[arg-type]  # a generator begins with None
            except StopIteration as end:
                return end.value
            finally:
                handling_us[0] += self._clock.elapsed_us() - began_us
            now = yield awaited

    def _charge(self, quotas: Quotas, context: RequestContext, handling_us: list[int], response_bytes: int) -> int:
        """Let the quotas know what the request has used; for how many milliseconds its client is throttled."""
        return quotas.record(context, Used(context.size_bytes, response_bytes, handling_us[0]), self._now())


def _steps(handler: Callable[[Any, RequestContext, int], Handled], *arguments: Any) -> Steps[Any]:
    """What a handler does as steps, also if it needs only one."""
    handled = handler(*arguments)
    return (yield from handled) if isinstance(handled, GeneratorType) else handled


def _guarded(request: Request, steps: Steps[Any]) -> Steps[Any]:
    """The steps of a handler, with what they raise made into what is answered."""
    try:
        return (yield from steps)
    except _ENDS as error:
        return _ended(request, error)


def _ended(request: Request, error: KafkaError | CloseConnection | MemoryError) -> Response | CloseConnection:
    """What a request comes to whose handler has raised this."""
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    if isinstance(error, CloseConnection):
        return error
    refusal = request.refusal(error)
    if refusal is None:
        return CloseConnection(f"a client that wants no answer is refused: {error}")
    return refusal


def _answer(handled: Ended, charge: Callable[[int], int] | None = None) -> Answer:
    if isinstance(handled, CloseConnection):
        return Answer(None, hang_up=True)
    return Answer(handled, charge)
