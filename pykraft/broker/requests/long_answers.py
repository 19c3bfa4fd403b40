"""Answers about very many things, though their handlers did not go through these one by one.

The controller plans what a request asks for as a whole, and a refusal repeats what the request has named, each with the
error (`Request.refusal`). Of twenty thousand names either is a long answer, and to make or to encode it takes tens of
milliseconds. So a long answer is encoded in steps; and a large request is refused piece by piece: some entries of one
of its lists at a time, and the lists of the refusals come one after the other in the whole.

This is ours: in Kafka a request handler has a thread of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.core import Steps
from pykraft.common.errors import KafkaError
from pykraft.protocol.error_counts import count_in_steps
from pykraft.protocol.schema import Request, Response, Struct, encode_in_steps

ENCODED_AT_ONCE = 200
"""An answer about more items than this is encoded in slices."""
LARGE_REQUEST_BYTES = 32 << 10
"""A request of more than this may name many things."""
_AT_ONCE = 200


class Long(NamedTuple):
    """A response that may be about very many items."""

    response: Response | None

    @property
    def is_long(self) -> bool:
        """Whether it is about more items than are encoded at once; of its parts a few are looked into."""
        count = 0
        for found in () if self.response is None else vars(self.response).values():
            if isinstance(found, list | tuple):
                count += len(found)
                for part in found[:ENCODED_AT_ONCE]:
                    inner = vars(part).values() if isinstance(part, Struct) else ()
                    count += sum(len(each) for each in inner if isinstance(each, list | tuple))
        return count > ENCODED_AT_ONCE


class Encoded(NamedTuple):
    """A response, its bytes, and the errors in it."""

    response: Response
    body: list[Any]
    errors: Mapping[int, int]


def encoding(response: Response | None, version: int) -> ItemByItem:
    """The steps that encode a response."""

    def encoded(response: Response, now: int) -> Steps[Encoded]:
        body = yield from encode_in_steps(response, version)
        errors = yield from count_in_steps(response)
        return Encoded(response, body, errors)

    return ItemByItem((response,), encoded, lambda found, now: found[0])


def refusing(request: Request, error: KafkaError, otherwise: object) -> ItemByItem:
    """The steps that refuse a request; `otherwise` is what becomes of a client that wants no answer."""
    return ItemByItem(
        (request,),
        lambda request, now: refuse_in_steps(request, error),
        lambda found, now: otherwise if found[0] is None else Long(found[0]),
    )


def refuse_in_steps(request: Request, error: KafkaError) -> Steps[Response | None]:
    """What ``request.refusal(error)`` returns, in steps of a few entries."""
    lists = [
        field.name
        for field in request.fields
        if field.wire.array and len(getattr(request, field.name) or ()) > _AT_ONCE
    ]
    if not lists:
        return request.refusal(error)
    whole = request.replace(**dict.fromkeys(lists, ())).refusal(error)
    for piece in _pieces(request, lists):
        refusal = piece.refusal(error)
        if whole is None or refusal is None:
            return refusal
        for name, more in vars(refusal).items():
            if isinstance(more, list):
                getattr(whole, name).extend(more)
        yield
    return whole


def _pieces(request: Request, lists: list[str]) -> Iterator[Request]:
    """The request again and again, each time with some entries of one of these lists, and the others empty."""
    nothing: dict[str, Any] = dict.fromkeys(lists, ())
    for name in lists:
        entries = getattr(request, name)
        for start in range(0, len(entries), _AT_ONCE):
            yield request.replace(**(nothing | {name: entries[start : start + _AT_ONCE]}))
