"""What a client logs in with: its mechanism, its name and its password.

Follows org.apache.kafka.common.security.JaasContext.
"""

from random import Random
from typing import NamedTuple

from pykraft.common.errors import ConfigError
from pykraft.security.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from pykraft.security.mechanism import PLAIN, SaslClient
from pykraft.security.plain import PlainClient
from pykraft.security.scram import ScramClient, ScramMechanism

MECHANISMS = (PLAIN, *(each.mechanism_name for each in ScramMechanism))
"""Those that are built."""


class SaslLogin(NamedTuple):
    """A mechanism and the credentials for it."""

    mechanism: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism}, {self.user!r})"

    def begin(self, random: Random) -> SaslClient:
        """The client's side of a new exchange."""
        scram = ScramMechanism.named(self.mechanism)
        if scram is None:
            return PlainClient(self.user, self.password)
        return ScramClient(scram, self.user, self.password, random)


def login_module(mechanism: str) -> str:
    """The class that a JAAS text must name for this mechanism."""
    return PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE


def check_mechanism(mechanism: str, setting: str) -> str:
    """The mechanism; ConfigError if it is not built."""
    if mechanism not in MECHANISMS:
        raise ConfigError(f"{setting} has {mechanism}, which is not built: it must be one of {', '.join(MECHANISMS)}")
    return mechanism


def login_of_jaas(mechanism: str, text: str, setting: str) -> SaslLogin:
    """The login that a JAAS text means; ConfigError, without a password, if there is none in it."""
    jaas = parse_jaas(text, setting)
    if jaas.module != login_module(mechanism):
        raise ConfigError(f"{setting} must name {login_module(mechanism)}, which is the module of {mechanism}")
    if jaas.credentials is None:
        raise ConfigError(f"{setting} must have username and password: a connection is to log in with them")
    return SaslLogin(mechanism, *jaas.credentials)
