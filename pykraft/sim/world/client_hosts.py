"""A host in the simulator that is a whole client: a producer, a consumer or an admin client.

It does what `runtime.client_thread` does, without the thread and the sockets: it polls the core and sends what that
wants sent. The core cannot tell the difference.
"""

from random import Random
from typing import Any

from pykraft.common.core import RequestManager
from pykraft.common.types import Endpoint
from pykraft.security.login import SaslLogin
from pykraft.sim.world.hosts import Machine
from pykraft.sim.world.network import Network
from pykraft.sim.world.scheduler import Scheduler
from pykraft.transport.peers import Peers


class _HeedlessPeers(Peers):
    def heed(self, endpoint: Endpoint, response: Any, now: int) -> None:
        """A client that is throttled goes on as before: its broker must stop reading."""


class SimulatedClient(Machine):
    """A producer, a consumer or an admin client."""

    login: SaslLogin | None = None
    """What it logs in to nodes with."""

    def __init__(
        self,
        name: str,
        core: RequestManager,
        scheduler: Scheduler,
        network: Network,
        random: Random,
        heeds_throttling: bool = True,
    ) -> None:
        super().__init__(name, scheduler, network)
        self._core = core
        self._peers = (Peers if heeds_throttling else _HeedlessPeers)(self, name, random)
        self._peers.login_of = lambda is_to_controller: self.login
        if network.credentials is not None:
            network.credentials.equip(self)
        self.is_up = True

    def _poll(self, now: int) -> int:
        poll = self._core.poll(now)
        for outbound in poll.requests:
            self._peers.send(outbound, now)
        return poll.deadline

    def crash(self) -> None:
        """The host is gone, now."""
        self._go_down()
