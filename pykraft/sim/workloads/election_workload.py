"""An administrator who orders elections while the cluster is in trouble: preferred ones, and perhaps unclean ones.

What comes of an election the laws about leaders say (`invariants`, `election_laws`); the answers are of no interest
here. An election that is refused, or whose answer is lost, is ordered again with the next ones.
"""

from random import Random

from pykraft.client.administration.elections import ElectionCalls, ElectionType
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.sim.workloads.workload import admin_core

_PATIENCE_MS = 2_000


class Elector:
    """An admin client's core that acts of its own accord. It is a RequestManager."""

    def __init__(self, bootstrap_servers: str, every_ms: int, orders_unclean: bool, random: Random) -> None:
        self._metadata, self._driver = admin_core(bootstrap_servers, random)
        self._calls = ElectionCalls(self._driver)
        self._every_ms = every_ms
        self._kinds = list(ElectionType) if orders_unclean else [ElectionType.PREFERRED]
        self._random = random
        self._act_at = every_ms
        self.is_active = True
        self.is_waiting = False

    def poll(self, now: int) -> Poll:
        if self.is_active and not self.is_waiting and now >= self._act_at:
            self._act_at = now + self._every_ms
            self.is_waiting = True
            kind = self._random.choice(self._kinds)
            self._calls.elect_leaders(kind, None, 1000, now + _PATIENCE_MS).then(self._on_elected)
        deadline = self._act_at if self.is_active and not self.is_waiting else FOREVER
        return merge([Poll(max(now, deadline)), self._driver.poll(now), self._metadata.poll(now)])

    def _on_elected(self, result: object) -> None:
        self.is_waiting = False
