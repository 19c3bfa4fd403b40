"""Slices of time and bursts of requests in the simulator: the seed ends them.

A step of the simulator takes no time, so a slice that is measured would never end there, and a request for ten
thousand partitions would be handled at one stroke. Here a slice may end wherever it is asked about, with a probability
that each seed draws. So histories go through cuts at every place: between the validation of a batch and its append,
between two partitions of a fetch, in the middle of an answer. In the same way a burst (`transport.server_connection`)
has one request, or up to eight. A node that looks at each piece by itself finds one request at a time, so some seeds
keep their nodes busy for a moment meanwhile.
"""

from random import Random

from pykraft.transport.pace import MAX_BURST_REQUESTS


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


class SeededBursts:
    """How many requests a burst has, by chance, and how many of them come before the node looks."""

    def __init__(self, random: Random, busy_us: int) -> None:
        self._random = random
        self._busy_us = busy_us

    def requests(self) -> int:
        """How many requests the burst that begins now may have."""
        return self._random.randint(1, MAX_BURST_REQUESTS)

    def busy_us(self) -> int:
        """For how long the node is busy when something comes; what comes meanwhile is read in the same turn."""
        return self._random.randint(0, self._busy_us) if self._busy_us else 0
