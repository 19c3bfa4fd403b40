"""The settings of SASL, under Kafka's names: what clients of a listener may prove who they are with, and how the node
itself logs in to others.

::

    listener.name.clients.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
    listener.name.clients.plain.sasl.jaas.config=...PlainLoginModule required user_alice="secret";
    sasl.mechanism.inter.broker.protocol=PLAIN
    listener.name.peers.plain.sasl.jaas.config=...PlainLoginModule required username="node" password="x" user_node="x";

A JAAS text belongs to a listener and a mechanism. PLAIN's has the users that the listener knows; SCRAM's users are in
the metadata. Its ``username`` and ``password`` are those of the node, for the listener's peers.

Follows org.apache.kafka.common.config.internals.BrokerSecurityConfigs and
org.apache.kafka.common.security.JaasContext.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pykraft.broker.settings.listener_config import Listener, listener_prefix, settings_of_listener
from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import Config, ConfigDef, Key, integer, names, string
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.security.jaas import parse_jaas
from pykraft.security.login import MECHANISMS, SaslLogin, check_mechanism, login_module, login_of_jaas
from pykraft.security.mechanism import PLAIN

_KERBEROS = "GSSAPI"
SASL_ENABLED_MECHANISMS = names(
    "sasl.enabled.mechanisms", [_KERBEROS], f"what clients may log in with: some of {', '.join(MECHANISMS)}"
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL = string(
    "sasl.mechanism.inter.broker.protocol", _KERBEROS, "what brokers log in to each other with"
)
SASL_MECHANISM_CONTROLLER_PROTOCOL = string(
    "sasl.mechanism.controller.protocol", _KERBEROS, "what nodes log in to controllers with"
)
SASL_SERVER_MAX_RECEIVE_SIZE = integer(
    "sasl.server.max.receive.size", 524_288, "a client that has not logged in sends no more bytes at once", at_least=1
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = integer(
    "connection.failed.authentication.delay.ms", 100, "a client whose login failed hears so after this long", at_least=0
)
CONNECTIONS_MAX_REAUTH_MS = integer(
    "connections.max.reauth.ms", 0, "must be 0: a client logs in once for each connection", at_least=0, kind="long"
)
_JAAS = "sasl.jaas.config"
_OF_LISTENERS: list[Key[Any]] = [SASL_ENABLED_MECHANISMS, SASL_SERVER_MAX_RECEIVE_SIZE, CONNECTIONS_MAX_REAUTH_MS]
SASL_KEYS: list[Key[Any]] = [
    *_OF_LISTENERS,
    SASL_MECHANISM_INTER_BROKER_PROTOCOL,
    SASL_MECHANISM_CONTROLLER_PROTOCOL,
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
]


class SaslListener(NamedTuple):
    """How the clients of a listener prove who they are."""

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str]
    """Of the users that PLAIN knows."""
    max_receive_bytes: int

    def __repr__(self) -> str:
        return f"SaslListener({', '.join(self.mechanisms)})"


def read_sasl_listeners(listeners: Iterable[Listener], properties: Mapping[str, str]) -> dict[str, SaslListener]:
    """By the names of the listeners that have SASL. ConfigError says what is wrong with one."""
    return {each.name: _read(each.name, properties) for each in listeners if each.protocol.has_sasl}


def _read(listener: str, properties: Mapping[str, str]) -> SaslListener:
    values = ConfigDef(_OF_LISTENERS).resolve(settings_of_listener(properties, listener))
    reauth_ms, mechanisms = values[CONNECTIONS_MAX_REAUTH_MS], values[SASL_ENABLED_MECHANISMS]
    if reauth_ms:
        raise ConfigError(f"{CONNECTIONS_MAX_REAUTH_MS.name} is {reauth_ms}, but must be 0: that is not built")
    for mechanism in mechanisms:
        check_mechanism(mechanism, f"{SASL_ENABLED_MECHANISMS.name} of listener {listener}")
    passwords: dict[str, str] = {}
    for mechanism in mechanisms:
        found = _jaas(listener, mechanism, properties)
        if found is not None:
            setting, text = found
            jaas = parse_jaas(text, setting)
            if jaas.module != login_module(mechanism):
                raise ConfigError(f"{setting} must name {login_module(mechanism)}, which is the module of {mechanism}")
            if mechanism == PLAIN:
                passwords = jaas.users
        elif mechanism == PLAIN:
            name = f"{listener_prefix(listener)}{mechanism.lower()}.{_JAAS}"
            raise ConfigError(f"{name} is not set, but must name PLAIN's users: {login_module(PLAIN)} required ...;")
    return SaslListener(tuple(mechanisms), passwords, values[SASL_SERVER_MAX_RECEIVE_SIZE])


def read_login(listener: str, is_to_controller: bool, properties: Mapping[str, str], values: Config) -> SaslLogin:
    """What the node logs in to this listener of others with; ConfigError if that is not said."""
    if is_to_controller:
        key, mechanism = SASL_MECHANISM_CONTROLLER_PROTOCOL, values[SASL_MECHANISM_CONTROLLER_PROTOCOL]
    else:
        key, mechanism = SASL_MECHANISM_INTER_BROKER_PROTOCOL, values[SASL_MECHANISM_INTER_BROKER_PROTOCOL]
    check_mechanism(mechanism, key.name)
    found = _jaas(listener, mechanism, properties)
    if found is None:
        name = f"{listener_prefix(listener)}{mechanism.lower()}.{_JAAS}"
        raise ConfigError(f"{name} is not set, but must have the username and password that this node logs in with")
    return login_of_jaas(mechanism, found[1], found[0])


def read_logins(
    outgoing: Mapping[bool, str],
    protocols: Mapping[str, SecurityProtocol],
    properties: Mapping[str, str],
    values: Config,
) -> dict[bool, SaslLogin]:
    """What the node logs in with, by whether it is to a controller. `outgoing` are the listeners of the others."""
    return {
        is_to_controller: read_login(listener, is_to_controller, properties, values)
        for is_to_controller, listener in outgoing.items()
        if listener and protocols[listener].has_sasl
    }


def sasl_names(listeners: Iterable[str]) -> set[str]:
    """The names of settings that are read here for one listener."""
    found = {f"{mechanism.lower()}.{_JAAS}" for mechanism in MECHANISMS}
    for listener in listeners:
        prefix = listener_prefix(listener)
        found |= {prefix + key.name for key in _OF_LISTENERS}
        found |= {f"{prefix}{mechanism.lower()}.{_JAAS}" for mechanism in MECHANISMS}
    return found


def _jaas(listener: str, mechanism: str, properties: Mapping[str, str]) -> tuple[str, str] | None:
    """(setting, text) of the listener's JAAS text for this mechanism."""
    plain = f"{mechanism.lower()}.{_JAAS}"
    for name in (listener_prefix(listener) + plain, plain):
        if name in properties:
            return name, properties[name]
    return None
