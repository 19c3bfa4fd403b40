"""Links that are cut for a while, between nodes or between a client and all brokers.

A cut is reported when it begins and when it ends. Nothing else happens to the two hosts: they find out by themselves.
"""

from collections.abc import Callable, Sequence
from random import Random

from pykraft.sim.world.network import Link, Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler


class Outages:
    """Cuts links of one network, and mends them later."""

    def __init__(
        self, scheduler: Scheduler, network: Network, report: Callable[[str, dict[str, object]], None]
    ) -> None:
        self._scheduler = scheduler
        self._network = network
        self._report = report

    def cut(self, links: Sequence[Link], duration_us: int) -> None:
        """Cut these links, each from its source to its target only."""
        self._report("cut", {"links": links})
        for source, target in links:
            self._network.cut(source, target)

        def mend() -> None:
            self._report("mend", {"links": links})
            for source, target in links:
                self._network.mend(source, target)

        self._scheduler.after(duration_us, mend)

    def cut_client(self, client: str, brokers: Sequence[str], longest_ms: int, random: Random) -> None:
        """No broker hears the client, or it hears none, or both."""
        there, back = [(client, broker) for broker in brokers], [(broker, client) for broker in brokers]
        links = random.choice((there + back, there, back))
        self.cut(links, random.randint(1, longest_ms) * US_PER_MS)
