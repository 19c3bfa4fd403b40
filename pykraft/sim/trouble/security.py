"""What is drawn for the seeds in which clients and nodes prove who they are, and strangers come who cannot.

The listeners of brokers have SSL, SASL_SSL or SASL_PLAINTEXT, those of controllers SSL or SASL_SSL. A login is one of
SCRAM, with credentials that the cluster was formatted with; at the controllers, which know no credential before they
have a leader, it is one of PLAIN. Certificates are those of `sim.world.tls`: each host has its own.

While the history lasts, a node may show a certificate that is refused: one that is over, one of another host, or one of
an authority that nothing believes. Then no new connection to it comes about. Strangers (`sim.workloads.strangers`) come
again and again, also after the storm, when the cluster must recover all the same.
"""

from dataclasses import dataclass
from random import Random

from pykraft.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from pykraft.security.login import SaslLogin
from pykraft.security.scram import ScramMechanism

SECURITY_SEEDS, SECURITY_PERIOD = range(12_800, 12_900), 25_600
"""Of each 25,600 seeds these have listeners with TLS, with logins, or with both."""

NODE, CLIENT = "node", "client"
"""The users that log in. A certificate names its host instead."""
PASSWORDS = {NODE: "n", CLIENT: "c"}


@dataclass(frozen=True)
class SecurityKnobs:
    """The draw of such a seed. Times are milliseconds."""

    brokers: str
    """The security protocol of the brokers' listener."""
    controllers: str
    """And that of the controllers'."""
    mechanism: str
    """What is logged in with at the brokers' listener."""
    client_auth: str
    """Whether a client must show a certificate: none, requested or required."""
    only_1_2: float
    """How many of the hosts speak TLS 1.2 alone."""
    parted: float
    """How often a flight of a handshake comes in two pieces."""
    max_idle_ms: int
    strangers: int
    stranger_every_ms: int
    bad_certificate_every_ms: int
    """How often a node shows a certificate that is refused, for as long as half of that; 0 for never."""

    @property
    def has_tls(self) -> bool:
        """Whether clients speak TLS."""
        return self.brokers.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in."""
        return self.brokers.startswith("SASL")

    def login(self, user: str) -> SaslLogin | None:
        """What is logged in with at the brokers' listener."""
        return SaslLogin(self.mechanism, user, PASSWORDS[user]) if self.has_sasl else None

    @property
    def first_credentials(self) -> list[str]:
        """What ``storage format --add-scram`` takes."""
        return [f"{self.mechanism}=[name={name},password={word}]" for name, word in PASSWORDS.items()]

    @property
    def properties(self) -> dict[str, str]:
        """Of each node."""
        own = f'required username="{NODE}" password="{PASSWORDS[NODE]}"'
        scram = self.mechanism.lower()
        return {
            "listener.security.protocol.map": f"PLAINTEXT:{self.brokers},CONTROLLER:{self.controllers}",
            "connections.max.idle.ms": str(self.max_idle_ms),
            "ssl.client.auth": self.client_auth,
            "listener.name.controller.ssl.client.auth": "none" if self.controllers.startswith("SASL") else "required",
            **({"listener.name.plaintext.ssl.client.auth": self.client_auth} if self.has_tls else {}),
            "listener.name.plaintext.sasl.enabled.mechanisms": self.mechanism,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"{scram}.sasl.jaas.config": f"{SCRAM_MODULE} {own};",
            "plain.sasl.jaas.config": f'{PLAIN_MODULE} {own} user_{NODE}="{PASSWORDS[NODE]}";',
        }


def draw_security(seed: int) -> SecurityKnobs | None:
    if seed % SECURITY_PERIOD not in SECURITY_SEEDS:
        return None
    random = Random(f"security {seed}")
    return SecurityKnobs(
        brokers=random.choice(("SSL", "SASL_SSL", "SASL_SSL", "SASL_PLAINTEXT")),
        controllers=random.choice(("SSL", "SASL_SSL")),
        mechanism=random.choice([each.mechanism_name for each in ScramMechanism]),
        client_auth=random.choice(("none", "requested", "required")),
        only_1_2=random.choice((0.0, 0.5)),
        parted=random.choice((0.0, 0.3, 1.0)),
        max_idle_ms=random.choice((1_500, 3_000)),
        strangers=random.choice((2, 4)),
        stranger_every_ms=random.choice((50, 200)),
        bad_certificate_every_ms=random.choice((0, 500, 1_500)),
    )
