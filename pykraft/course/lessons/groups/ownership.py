"""The owner of each partition of a topic, from when until when: what a scenario notes of its group.

The history is a list of moments with the owners from then on. From it come the spans that `pykraft.viz.ownership`
draws, how often a partition moved, and for how long partitions were stopped:

* a partition has *moved* when its next owner is not its last one, however long it had none in between;
* it is *stopped* while it has no owner. Seconds of several partitions add up: two partitions without an owner for three
  seconds are six seconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise

Spans = Mapping[str, list[tuple[str, float, float]]]
"""By partition: the owner ("" for none), from which second, until which."""


class Ownership:
    """The owners of one topic's partitions over time."""

    def __init__(self, partitions: Sequence[int]) -> None:
        self.partitions = partitions
        self._noted: list[tuple[float, dict[int, str]]] = []

    def note(self, second: float, owners: Mapping[int, str]) -> None:
        """From this second on these are the owners; a partition that is missing has none."""
        if not self._noted or self._noted[-1][1] != owners:
            self._noted.append((second, dict(owners)))

    def spans(self, end: float) -> dict[str, list[tuple[str, float, float]]]:
        """The history up to this second."""
        return {f"{number}": list(self._of(number, end)) for number in self.partitions}

    def _of(self, number: int, end: float) -> Iterator[tuple[str, float, float]]:
        changes = [(second, owners.get(number, "")) for second, owners in self._noted]
        for owner, some in groupby(pairwise([*changes, (end, "")]), key=lambda pair: pair[0][1]):
            pairs = list(some)
            yield owner, pairs[0][0][0], pairs[-1][1][0]


def moved(spans: Spans, since: float, until: float) -> int:
    """How often partitions got another owner than their last one."""
    return sum(
        one != other
        for each in spans.values()
        for (one, _, _), (other, begin, _) in pairwise([span for span in each if span[0]])
        if since <= begin < until
    )


def stopped_s(spans: Spans, since: float, until: float) -> float:
    """For how many seconds partitions had no owner, all partitions together."""
    return sum(
        max(0.0, min(end, until) - max(begin, since))
        for each in spans.values()
        for owner, begin, end in each
        if not owner
    )


def in_words(verb: str, names: Sequence[str]) -> str:
    """What some members do, in words.

    >>> in_words("join", ["ann", "ben", "cleo"])
    'ann, ben and cleo join'
    >>> in_words("join", ["ann"])
    'ann joins'
    """
    *others, last = names
    return f"{', '.join(others)} and {last} {verb}" if others else f"{last} {verb}s"
