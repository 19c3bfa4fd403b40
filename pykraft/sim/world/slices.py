"""Slices of time and bursts of requests in the simulator: the seed ends them.

A step of the simulator takes no time, so a slice that is measured would never end there, and a request for ten
thousand partitions would be handled at one stroke. Here a slice may end wherever it is asked about, with a probability
that each seed draws. So histories go through cuts at every place: between the validation of a batch and its append,
between two partitions of a fetch, in the middle of an answer. In the same way a burst (`transport.server_connection`)
has one request, or up to eight.
"""

from collections.abc import Callable
from functools import partial
from random import Random

from pykraft.transport.server_connection import MAX_BURST_REQUESTS


class SeededSlice:
    """A slice that ends by chance."""

    def __init__(self, random: Random, chance: float) -> None:
        """`chance` is how likely the slice is over whenever it is asked."""
        self._random = random
        self._chance = chance

    def begin(self) -> None:
        """Nothing depends on when it began."""

    def is_over(self) -> bool:
        return self._random.random() < self._chance

    def is_long(self, steps: int) -> bool:
        return self.is_over()


def seeded_bursts(random: Random) -> Callable[[], int]:
    """How many requests each burst may have."""
    return partial(random.randint, 1, MAX_BURST_REQUESTS)
