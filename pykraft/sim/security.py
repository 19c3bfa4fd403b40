"""Who is who in a simulated cluster: certificates, logins, strangers, and certificates that go bad for a while.

Without `SecurityKnobs` there is nothing of it, and a history is the same as ever.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from pykraft.broker.startup.first_credentials import parse_add_scram
from pykraft.common.types import Endpoint, Node
from pykraft.protocol.messages.records import MetadataRecord
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.security.login import SaslLogin
from pykraft.sim.laws.security_laws import SecurityLaws
from pykraft.sim.node_files import BROKER_PORT
from pykraft.sim.trouble.security import CLIENT, NODE, SecurityKnobs
from pykraft.sim.workloads.strangers import Asker, Stranger, kinds_of
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.network import GHOST, Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler
from pykraft.sim.world.secure_hosts import ClientSecurity, Credentials, NodeSecurity
from pykraft.sim.world.tls import VERSIONS, Certificate, TlsSide
from pykraft.transport.server_channel import ANONYMOUS

_STRANGER = "stranger"
_BAD: dict[str, Callable[[Certificate], Certificate]] = {
    "expired": lambda mine: replace(mine, is_expired=True),
    "unknown authority": lambda mine: replace(mine, issuer="an unknown authority"),
    "wrong host": lambda mine: replace(mine, hosts=("elsewhere",)),
}


class ClusterSecurity:
    """All of it for one run."""

    def __init__(
        self,
        knobs: SecurityKnobs | None,
        brokers: int,
        scheduler: Scheduler,
        network: Network,
        dice: Callable[[str], Random],
        report: Callable[[str, dict[str, object]], None],
    ) -> None:
        self._knobs = knobs
        self._scheduler = scheduler
        self._network = network
        self._dice = dice
        self._report = report
        self._addresses = [Endpoint(f"node-{number}", BROKER_PORT) for number in range(1, brokers + 1)]
        self._nodes: list[NodeSecurity] = []
        self._names: list[str] = []
        self._is_storm_over = False
        self.strangers: list[Stranger] = []
        self.first_records: Sequence[MetadataRecord] = ()
        """What the cluster is formatted with."""
        if knobs is None:
            return
        self.laws = SecurityLaws(self._principal_of, knobs.max_idle_ms)
        self.first_records = parse_add_scram(knobs.first_credentials, dice("credentials"))
        self._side_dice = dice("versions of TLS")
        side = self._side_of_client if knobs.has_tls else None
        network.credentials = Credentials(
            knobs.login(CLIENT), side, dice, knobs.parted, self.laws.see_certificate, self.laws.see_refusal
        )

    # --- who is who ---------------------------------------------------------------------------------------------------

    def equip(self, machine: SimulatedNode) -> None:
        """Give a new node what it needs, and watch its connections."""
        knobs = self._knobs
        if knobs is None:
            return
        certificate = Certificate(machine.name, (machine.name,))
        machine.secure = NodeSecurity(
            machine,
            TlsSide(certificate, versions=self._versions()),
            self._dice(f"TLS of {machine.name}"),
            knobs.parted,
            self.laws,
        )
        machine.on_request = self.laws.see_request
        self._nodes.append(machine.secure)
        self._names.append(machine.name)

    def _versions(self) -> tuple[str, ...]:
        assert self._knobs is not None
        return VERSIONS[:1] if self._side_dice.random() < self._knobs.only_1_2 else VERSIONS

    def _side_of_client(self, name: str) -> TlsSide:
        assert self._knobs is not None
        certificate = None if self._knobs.client_auth == "none" else Certificate(name)
        return TlsSide(certificate, versions=self._versions())

    def _principal_of(self, name: str, protocol: SecurityProtocol, is_to_controller: bool) -> str | None:
        """That of a host; None: it can prove nothing."""
        assert self._knobs is not None
        if name == GHOST or name.startswith(_STRANGER):
            return None
        if protocol.has_sasl:
            return f"User:{NODE if name in self._names else CLIENT}"
        is_asked = is_to_controller or self._knobs.client_auth != "none"
        return f"User:CN={name}" if is_asked else ANONYMOUS

    # --- strangers ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The history begins."""
        knobs = self._knobs
        if knobs is None:
            return
        side = TlsSide(None) if knobs.has_tls else None
        kinds = kinds_of(knobs.has_tls, knobs.has_sasl)
        for number in range(knobs.strangers):
            name = f"{_STRANGER}-{number}"
            dice, where = self._dice(name), (self._scheduler, self._network)
            stranger = Stranger(name, kinds, self._addresses, knobs.mechanism, side, *where, dice)
            self.strangers.append(stranger)
            self._scheduler.after(US_PER_MS, partial(stranger.come, knobs.stranger_every_ms))
        for kind, own, login in self._impostors(knobs):
            self._send_impostor(f"{_STRANGER}-{kind}", own, login, knobs.stranger_every_ms)
        if knobs.bad_certificate_every_ms:
            self._plan_bad(self._dice("bad certificates"), knobs.bad_certificate_every_ms)

    def _impostors(self, knobs: SecurityKnobs) -> list[tuple[str, TlsSide | None, SaslLogin | None]]:
        """(kind, what it shows, what it logs in with) of those that keep to the protocol."""
        found: list[tuple[str, TlsSide | None, SaslLogin | None]] = []
        right, mine = knobs.login(CLIENT), Certificate("client")
        if knobs.has_tls and knobs.client_auth != "none":
            found += [(kind, TlsSide(_BAD[kind](mine)), right) for kind in ("expired", "unknown authority")]
        if knobs.has_tls and knobs.client_auth == "required":
            found.append(("no certificate", TlsSide(None), right))
            found.append(("no certificate in 1.2", TlsSide(None, versions=VERSIONS[:1]), right))
        if right is not None:
            good = mine if knobs.client_auth != "none" else None
            wrong = SaslLogin(right.mechanism, right.user, "wrong")
            found.append(("wrong password", TlsSide(good) if knobs.has_tls else None, wrong))
        return found

    def _send_impostor(self, name: str, side: TlsSide | None, login: SaslLogin | None, every_ms: int) -> None:
        brokers = [Node(number, *address) for number, address in enumerate(self._addresses, 1)]
        client = SimulatedClient(name, Asker(brokers, every_ms), self._scheduler, self._network, self._dice(name))
        client.login = login
        if isinstance(client.secure, ClientSecurity) and side is not None:
            client.secure.side = side
        self._scheduler.after(1, lambda: client.act(lambda: None))

    # --- certificates that go bad -------------------------------------------------------------------------------------

    def _plan_bad(self, random: Random, every_ms: int) -> None:
        pause_ms = random.expovariate(1 / every_ms)
        self._scheduler.after(round(pause_ms * US_PER_MS) + 1, lambda: self._go_bad(random, every_ms))

    def _go_bad(self, random: Random, every_ms: int) -> None:
        """A node shows a certificate that is refused, for a while; the connections that there are stay."""
        if self._is_storm_over:
            return
        self._plan_bad(random, every_ms)
        number, kind = random.randrange(len(self._nodes)), random.choice(sorted(_BAD))
        node = self._nodes[number]
        if node.side.certificate == node.certificate:
            node.side.certificate = _BAD[kind](node.certificate)
            self._report("bad_certificate", {"node": self._names[number], "kind": kind})
            self._scheduler.after(every_ms * US_PER_MS // 2, node.mend)

    def end_storm(self) -> None:
        """All certificates are good from here on. The strangers stay."""
        self._is_storm_over = True
        for node in self._nodes:
            node.mend()
