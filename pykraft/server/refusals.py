"""Refusing a request that names very many things.

A refusal repeats what the request has named, each with the error (`Request.refusal`). Of twenty thousand names that
takes tens of milliseconds. So a large request is refused piece by piece: some entries of one of its lists at a time,
and the lists of the refusals come one after the other in the whole.

This is ours: in Kafka a request handler has a thread of its own.
"""

from collections.abc import Iterator
from typing import Any

from pykraft.common.core import Steps
from pykraft.common.errors import KafkaError
from pykraft.protocol.schema import Request, Response

_AT_ONCE = 200


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
