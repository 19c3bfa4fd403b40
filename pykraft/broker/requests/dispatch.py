"""From a request to its handler, and from what the handler returns to the answer.

Each module of this folder has a class whose methods are handlers, and `HANDLERS`, the table of which of them answers
which request. A node makes the objects and hands them to `Dispatcher.serve`; the listeners that serve a request are
declared with the request itself.

A handler returns its response, or None if the client wants none. It returns a `Promise` of that only if it has to wait:
until a high watermark has moved, or the controller has answered. A request that is a list is answered item by item, a
slice of time at a time: its handler returns an `ItemByItem` (`broker.turns.slices`). An answer about many items is
encoded in slices, too. If a handler raises KafkaError, the whole request is refused, in the way that is declared with
the request (`Request.refusal`).

Any other exception is a fault of ours. It costs its request and nothing else: the client gets UNKNOWN_SERVER_ERROR, the
journal the traceback, and the node goes on. Only the failure of a disk is the node's own affair.

On a node with quotas an answer is charged to its client when it is encoded, for then its size is known. An envelope is
free: what is in it is charged to its client.

Follows kafka.server.{KafkaApis,RequestHandlerHelper}.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MethodType
from typing import Any

from pykraft.broker.requests.long_answers import ENCODED_AT_ONCE, LARGE_REQUEST_BYTES, Encoded, Long, encoding, refusing
from pykraft.broker.requests.quotas import Quotas, Used, is_exempt
from pykraft.broker.turns.slices import ItemByItem, Slices, Work
from pykraft.common.core import Clock, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.time_slice import TimeSlice
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.schema import Request, Response
from pykraft.transport.server_channel import InboundRequest, RequestContext
from pykraft.transport.server_connection import Answer


class CloseConnection(Exception):  # noqa: N818 (it is an order, not a fault)
    """There is no way to tell this client what went wrong but to hang up."""


_NO_MEMORY = CloseConnection("there is not enough memory for this request")
"""Made ahead: then there may be none for it."""
_FROM_THE_START = object()
_LATER = object()

Handled = Response | CloseConnection | None | Promise[Any] | ItemByItem | Long
"""What a handler returns: the response, None for none, a promise of what another handler might return, or a list to be
worked through."""
Handlers = Mapping[type[Request], Callable[[Any, Any, RequestContext, int], Handled]]
"""Functions of one class by the request that they answer; called with (self, request, context, now)."""


class Dispatcher:
    """The handlers of a node, by listener and request."""

    def __init__(
        self,
        quotas: Quotas | None,
        clock: Clock,
        now: Callable[[], int],
        time_slice: TimeSlice,
        fault_handler: FaultHandler,
    ) -> None:
        """`now` is for answers that come later than their requests; `clock` measures the handlers."""
        self._quotas = quotas
        self._clock = clock
        self._now = now
        self.time_slice = time_slice
        self.slices = Slices(time_slice, self._go_on_later)
        self._fault_handler = fault_handler
        self._handlers: dict[tuple[ListenerKind, type[Request]], Callable[[Any, RequestContext, int], Handled]] = {}

    def charge_to(self, quotas: Quotas | None) -> None:
        """Record from now on what requests use; None: record nothing."""
        self._quotas = quotas

    def serve(self, kind: ListenerKind, apis: object, handlers: Handlers) -> None:
        """Let the object `apis` answer those of these requests that a listener of this kind serves."""
        for request, handler in handlers.items():
            if kind in request.served_by:
                assert (kind, request) not in self._handlers, f"{request.__name__} has a handler: {kind.value}"
                self._handlers[kind, request] = MethodType(handler, apis)

    def requests(self, kind: ListenerKind) -> set[type[Request]]:
        """The requests that have a handler on a listener of this kind."""
        return {request for served_by, request in self._handlers if served_by is kind}

    def handler(self, kind: ListenerKind, request: type[Request]) -> Callable[[Any, RequestContext, int], Handled]:
        """The handler of these requests on a listener of this kind."""
        return self._handlers[kind, request]

    def handle(self, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        """Answer a request that the channel has let through. An answer that is abandoned abandons the handler's."""
        self.time_slice.begin()
        work = Work(inbound)
        ended = self._work(work, _FROM_THE_START, now)
        if ended is not _LATER:
            return self._answer(work, ended)
        assert work.promise is not None
        return work.promise

    def _work(self, work: Work, handled: Any, now: int) -> Any:
        """Handle a request from where it is: `handled` is what was made of it up to now. Returns what it comes to, or
        `_LATER` if it has to wait, or if the slice is over."""
        began_us = None if self._quotas is None else self._clock.elapsed_us()
        try:
            if handled is _FROM_THE_START:
                context, request = work.inbound
                handled = self._handlers[context.kind, type(request)](request, context, now)
            while True:
                if type(handled) is ItemByItem:
                    if not work.go_on(handled, self.time_slice, now):
                        self._promise(work)
                        self.slices.pause(work)
                        return _LATER
                    work.is_large = handled.is_large or len(work.answers) > ENCODED_AT_ONCE
                    handled = handled.gather(work.answers, now)
                elif isinstance(handled, Promise):
                    if not handled.kept:
                        self._wait(work, handled)
                        return _LATER
                    handled = handled.value
                elif type(handled) is Long:
                    version = work.inbound.context.api_version
                    handled = encoding(handled.response, version) if handled.is_long else handled.response
                elif work.is_large and isinstance(handled, Response):
                    handled = encoding(handled, work.inbound.context.api_version)
                else:
                    return handled
        except Exception as error:  # a fault of ours must cost this request and no other
            is_small = work.inbound.context.size_bytes <= LARGE_REQUEST_BYTES
            if work.is_refused or is_small or not isinstance(error, KafkaError):
                return self._ended(work.inbound, error)
            work.is_refused = True
            return self._work(work, refusing(work.inbound.message, error, _unanswered(error)), now)
        finally:
            if began_us is not None:
                work.handling_us += self._clock.elapsed_us() - began_us

    def _go_on_later(self, work: Work, now: int) -> None:
        self._keep(work, self._work(work, work.listed, now))

    def _promise(self, work: Work) -> Promise[Any]:
        """The promise of the answer, made when it is first needed."""
        if work.promise is None:
            work.promise = Promise()
            work.promise.on_abandoned(partial(self.slices.drop, work))
        return work.promise

    def _wait(self, work: Work, awaited: Promise[Any]) -> None:
        """The handler waits for something. If its client hangs up before that, nothing wants it."""
        self._promise(work).on_abandoned(awaited.abandon)

        def go_on(_: object) -> None:
            self._keep(work, self._work(work, awaited, self._now()))

        awaited.then(go_on, go_on)

    def _keep(self, work: Work, ended: Any) -> None:
        if ended is not _LATER:
            self._promise(work).keep(self._answer(work, ended))

    def _ended(self, inbound: InboundRequest, error: Exception) -> Response | CloseConnection:
        """What a request comes to whose handler has raised this."""
        request = inbound.message
        if isinstance(error, OSError):  # a disk has failed: that is the node's affair
            raise error
        if isinstance(error, MemoryError):
            return _NO_MEMORY
        if isinstance(error, CloseConnection):
            return error
        if not isinstance(error, KafkaError):
            self._fault_handler.handle_fault(type(request).__name__, error)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        refusal = request.refusal(error)
        return _unanswered(error) if refusal is None else refusal

    def _answer(self, work: Work, ended: Any) -> Answer:
        if isinstance(ended, CloseConnection):
            return Answer(None, hang_up=True)
        body = errors = None
        if type(ended) is Encoded:
            ended, body, errors = ended
        quotas, context = self._quotas, work.inbound.context
        if quotas is None or context.api_key == EnvelopeRequest.api:
            return Answer(ended, body=body, errors=errors)
        return Answer(ended, partial(self._charge, quotas, work), body=body, errors=errors)

    def _charge(self, quotas: Quotas, work: Work, response_bytes: int) -> int:
        """Let the quotas know what the request has used; for how many milliseconds its client is throttled."""
        context, message = work.inbound
        used = Used(context.size_bytes, response_bytes, work.handling_us, is_exempt(context, message))
        return quotas.record(context, used, self._now())


def _unanswered(error: KafkaError) -> CloseConnection:
    return CloseConnection(f"a client that wants no answer is refused: {error}")
