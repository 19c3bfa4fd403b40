"""Requests that list topics and their partitions, in pieces of a moderate size.

Some requests are handled by a shard of a coordinator, which plans a whole request at once. With ten thousand offsets
that would be a long turn. So the API cuts the request up before it asks the shard::

    topics of the request     orders 0 1 2 3 4      people 0 1
    pieces of 3 partitions    orders 0 1 2  |  orders 3 4, people 0  |  people 1

Each piece is a request of its own to the shard. `Merged` puts the answers together again in the order of the request.

This is ours: Kafka's coordinators have threads of their own, and write one batch.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pykraft.broker.requests.dispatch import Handled
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.core import Steps, finish

AT_ONCE = 500
"""A piece has so many partitions: 20 ms, if their offsets are committed. A consumer of more is rare."""


class Part(NamedTuple):
    """Partitions of one topic, in one piece."""

    number: int
    """Of the topic in the request."""
    topic: Any
    partitions: Sequence[Any]


Piece = list[Part]


def cut(
    topics: Sequence[Any],
    partitions_of: Callable[[Any], Sequence[Any]],
    go_on: Callable[[list[Piece], int], Handled],
    now: int,
) -> Handled:
    """What `go_on(pieces, now)` makes of the topics of a request in pieces. Many topics are cut up in steps."""
    steps = in_pieces(topics, partitions_of)
    if len(topics) <= AT_ONCE:
        return go_on(finish(steps), now)
    return ItemByItem((steps,), lambda steps, _: steps, lambda found, then: go_on(found[0], then))


def in_pieces(topics: Iterable[Any], partitions_of: Callable[[Any], Sequence[Any]]) -> Steps[list[Piece]]:
    """The topics of a request in pieces of `AT_ONCE` partitions. A topic without partitions counts as one."""
    pieces: list[Piece] = []
    room = 0
    for number, topic in enumerate(topics):
        yield
        partitions = partitions_of(topic)
        start, count = 0, len(partitions)
        while True:
            if not room:
                pieces.append([])
                room = AT_ONCE
            part = partitions[start : start + room] if start or count > room else partitions
            pieces[-1].append(Part(number, topic, part))
            start, room = start + len(part), room - (len(part) or 1)
            if start >= count:
                break
    return pieces


class Merged:
    """The topics of an answer, put together from those of the pieces."""

    def __init__(self) -> None:
        self._topics: dict[int | str, Any] = {}

    def add(self, key: int | str, topic: Any) -> None:
        """This is the answer about a part of the topic with this number, or name."""
        before = self._topics.get(key)
        if before is None:
            self._topics[key] = topic
        else:
            before.partitions += topic.partitions

    @property
    def topics(self) -> list[Any]:
        return list(self._topics.values())
