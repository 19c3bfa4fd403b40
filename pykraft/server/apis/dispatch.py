"""From a request to its handler, and from what the handler returns to the answer.

Each module of this folder has a class whose methods are handlers, and `HANDLERS`, the table of which of them answers
which request. A node makes the objects and hands them to `Dispatcher.serve`; the listeners that serve a request are
declared with the request itself.

A handler returns its response, or None if the client wants none. It returns a `Promise` of that only if it has to wait:
until a high watermark has moved, or the controller has answered. A request that is a list is answered item by item, a
slice of time at a time: its handler returns an `ItemByItem` (`server.slices`). An answer about many items is encoded in
slices, too. If a handler raises KafkaError, the whole request is refused, in the way that is declared with the request
(`Request.refusal`).

Any other exception is a fault of ours. It costs its request and nothing else: the client gets UNKNOWN_SERVER_ERROR, the
journal the traceback, and the node goes on. Only the failure of a disk is the node's own affair.

On a node with quotas an answer is charged to its client when it is encoded, for then its size is known. An envelope is
free: what is in it is charged to its client.

Follows kafka.server.{KafkaApis,RequestHandlerHelper}.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MethodType
from typing import Any, NamedTuple

from pykraft.common.core import Clock, Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.time_slice import TimeSlice
from pykraft.protocol.error_counts import count_in_steps
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.schema import Request, Response, Struct, encode_in_steps
from pykraft.server.quotas import Quotas, Used
from pykraft.server.refusals import refuse_in_steps
from pykraft.server.slices import ItemByItem, Slices, Work
from pykraft.transport.server_channel import InboundRequest, RequestContext
from pykraft.transport.server_connection import Answer


class CloseConnection(Exception):  # noqa: N818 (it is an order, not a fault)
    """There is no way to tell this client what went wrong but to hang up."""


_NO_MEMORY = CloseConnection("there is not enough memory for this request")
"""Made ahead: then there may be none for it."""
_ENCODED_AT_ONCE = 200
"""An answer about more items than this is encoded in slices."""
_LARGE_REQUEST_BYTES = 32 << 10
"""A refusal names all that the request has named: that of a larger request is made in slices."""
_FROM_THE_START = object()
_LATER = object()


class Long(NamedTuple):
    """A response that may be about very many items, though its handler did not go through them one by one."""

    response: Response | None


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
                    if handled is not work.listed:
                        work.begin(handled)
                    if not work.go_on(self.time_slice, now):
                        self._promise(work)
                        self.slices.pause(work)
                        return _LATER
                    handled = handled.gather(work.answers, now)
                elif isinstance(handled, Promise):
                    if not handled.kept:
                        self._wait(work, handled)
                        return _LATER
                    handled = handled.value
                elif type(handled) is Long:
                    is_long = handled.response is not None and _has_many_items(handled.response)
                    handled = self._encoding(work, handled.response) if is_long else handled.response
                elif len(work.answers) > _ENCODED_AT_ONCE and isinstance(handled, Response):
                    handled = self._encoding(work, handled)
                else:
                    return handled
        except Exception as error:  # a fault of ours must cost this request and no other
            is_large = work.inbound.context.size_bytes > _LARGE_REQUEST_BYTES
            if not isinstance(error, KafkaError) or not is_large or work.is_refused:
                return self._ended(work.inbound, error)
            work.is_refused = True
            return self._work(work, ItemByItem((work.inbound.message,), partial(_refused, error), _long), now)
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
        awaited.then(lambda value: self._keep(work, self._work(work, value, self._now())))

    def _keep(self, work: Work, ended: Any) -> None:
        if ended is not _LATER:
            self._promise(work).keep(self._answer(work, ended))

    @staticmethod
    def _encoding(work: Work, response: Response | None) -> ItemByItem:
        return ItemByItem((response,), partial(_encoded, work.inbound.context.api_version), _only)

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
        return _refusal_or_end(request.refusal(error), error)

    def _answer(self, work: Work, ended: Any) -> Answer:
        if isinstance(ended, CloseConnection):
            return Answer(None, hang_up=True)
        body = errors = None
        if type(ended) is _Encoded:
            ended, body, errors = ended
        quotas, context = self._quotas, work.inbound.context
        if quotas is None or context.api_key == EnvelopeRequest.api:
            return Answer(ended, body=body, errors=errors)
        return Answer(ended, partial(self._charge, quotas, context, work.handling_us), body=body, errors=errors)

    def _charge(self, quotas: Quotas, context: RequestContext, handling_us: int, response_bytes: int) -> int:
        """Let the quotas know what the request has used; for how many milliseconds its client is throttled."""
        return quotas.record(context, Used(context.size_bytes, response_bytes, handling_us), self._now())


class _Encoded(NamedTuple):
    """A response, its bytes, and the errors in it."""

    response: Response
    body: list[Any]
    errors: Mapping[int, int]


def _encoded(version: int, response: Response, now: int) -> Steps[_Encoded]:
    body = yield from encode_in_steps(response, version)
    errors = yield from count_in_steps(response)
    return _Encoded(response, body, errors)


def _only(answers: list[_Encoded], now: int) -> Any:
    return answers[0]


def _refused(error: KafkaError, request: Request, now: int) -> Steps[Response | CloseConnection]:
    return _refusal_or_end((yield from refuse_in_steps(request, error)), error)


def _refusal_or_end(refusal: Response | None, error: KafkaError) -> Response | CloseConnection:
    return CloseConnection(f"a client that wants no answer is refused: {error}") if refusal is None else refusal


def _long(answers: list[Any], now: int) -> Any:
    return Long(answers[0]) if isinstance(answers[0], Response) else answers[0]


def _has_many_items(response: Response) -> bool:
    """Whether it is about more items than are encoded at once; of its parts a few are looked into."""
    count = 0
    for found in vars(response).values():
        if isinstance(found, list | tuple):
            count += len(found)
            for part in found[:_ENCODED_AT_ONCE]:
                inner = vars(part).values() if isinstance(part, Struct) else ()
                count += sum(len(each) for each in inner if isinstance(each, list | tuple))
    return count > _ENCODED_AT_ONCE
