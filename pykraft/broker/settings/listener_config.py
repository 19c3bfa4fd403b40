"""The listeners of a node: their names, addresses and security protocols.

::

    listeners=                       CLIENTS://0.0.0.0:9092, PEERS://10.0.0.1:9093, CONTROLLER://10.0.0.1:9094
    listener.security.protocol.map=  CLIENTS:SASL_SSL,       PEERS:SSL,             CONTROLLER:SSL
    inter.broker.listener.name=      PEERS
    controller.listener.names=       CONTROLLER

A listener is a name; the map gives its protocol. A listener that is named like a protocol needs no entry, unless the
map is set. Then a listener of the controllers needs one as well; otherwise it is PLAINTEXT, if no listener is named
after another protocol.

A setting that begins with ``listener.name.NAME.`` (the name in lower case) is the setting without this prefix, for this
listener alone, and hides the plain one (`settings_of_listener`).

Follows kafka.server.KafkaConfig and org.apache.kafka.common.network.ListenerName.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import Config, Key, names, string
from pykraft.common.types import EVERYWHERE, Endpoint
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.security_protocol import SecurityProtocol

LISTENERS = names("listeners", [], "where the node listens: NAME://host:port, ...", required=True)
ADVERTISED_LISTENERS = names(
    "advertised.listeners", [], "the addresses that others use for the listeners, where they differ"
)
CONTROLLER_LISTENER_NAMES = names(
    "controller.listener.names", [], "which listeners are the controllers'", required=True
)
INTER_BROKER_LISTENER_NAME = string(
    "inter.broker.listener.name", "", "by which listener brokers reach each other; by default the only one"
)
SECURITY_INTER_BROKER_PROTOCOL = string(
    "security.inter.broker.protocol",
    SecurityProtocol.PLAINTEXT.name,
    "brokers reach each other by the listener that is named like this protocol, without inter.broker.listener.name",
    [each.name for each in SecurityProtocol],
)
LISTENER_SECURITY_PROTOCOL_MAP = names(
    "listener.security.protocol.map",
    [],
    f"NAME:PROTOCOL, ...; the protocols are {', '.join(each.name for each in SecurityProtocol)}",
)

LISTENER_KEYS: list[Key[Any]] = [
    LISTENERS,
    ADVERTISED_LISTENERS,
    CONTROLLER_LISTENER_NAMES,
    INTER_BROKER_LISTENER_NAME,
    SECURITY_INTER_BROKER_PROTOCOL,
    LISTENER_SECURITY_PROTOCOL_MAP,
]


@dataclass(frozen=True)
class Listener:
    """One listener: its name, its kind, the address that it is bound to, the one that others use, and its protocol."""

    name: str
    kind: ListenerKind
    bind: Endpoint
    advertised: Endpoint
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


def read_protocols(values: Config) -> dict[str, SecurityProtocol]:
    """The security protocol of each listener's name, the controllers' included, which a broker alone does not have."""
    protocols = {}
    for name, protocol in (_pair(text) for text in values[LISTENER_SECURITY_PROTOCOL_MAP]):
        if protocol not in SecurityProtocol.__members__:
            raise ConfigError(
                f"{LISTENER_SECURITY_PROTOCOL_MAP.name} gives {name} the protocol {protocol}, but must give it one of "
                + ", ".join(SecurityProtocol.__members__)
            )
        protocols[name] = SecurityProtocol[protocol]
    if protocols:
        protocols.setdefault("PLAINTEXT", SecurityProtocol.PLAINTEXT)
    else:
        protocols.update(SecurityProtocol.__members__)
        controllers = [name.upper() for name in values[CONTROLLER_LISTENER_NAMES]]
        listeners = [text.partition("://")[0].upper() for text in values[LISTENERS]]
        if not any(protocols.get(name) for name in (*controllers, *listeners)):
            protocols.update({name: SecurityProtocol.PLAINTEXT for name in controllers if name not in protocols})
    return protocols


def protocol_of(name: str, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    """The protocol of a listener; ConfigError if it has none."""
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"{LISTENER_SECURITY_PROTOCOL_MAP.name} has no entry for listener {name}: add {name}:PLAINTEXT, or another"
            " protocol"
        )
    return protocol


def no_host() -> str:
    """The name of a machine that does not say it."""
    return ""


def read_listeners(
    values: Config, protocols: Mapping[str, SecurityProtocol], own_host: Callable[[], str]
) -> list[Listener]:
    """The node's own listeners. One without a host is bound to every address, and others use `own_host` for it.
    ConfigError says what is wrong with them."""
    said_to_others, said_of_listeners = values[ADVERTISED_LISTENERS], values[LISTENERS]
    advertised = read_endpoints(ADVERTISED_LISTENERS, said_to_others)
    controllers = {name.upper() for name in values[CONTROLLER_LISTENER_NAMES]}
    found = []
    for name, bind in read_endpoints(LISTENERS, said_of_listeners).items():
        protocol = protocol_of(name, protocols)
        kind = ListenerKind.CONTROLLER if name in controllers else ListenerKind.BROKER
        address = advertised.get(name, bind)
        if not address.host:
            address = Endpoint(own_host(), address.port)
        if kind is ListenerKind.BROKER and address.host in EVERYWHERE:
            raise ConfigError(
                f"clients would connect to {str(address)!r}: advertised.listeners must say which address of "
                f"this machine they can reach, {name}://host:{address.port}"
            )
        found.append(Listener(name, kind, bind, address, protocol))
    unknown = sorted(set(advertised) - {listener.name for listener in found})
    if unknown:
        raise ConfigError(f"advertised.listeners names {unknown[0]}, which listeners does not")
    _check_ports(found)
    return found


def _check_ports(listeners: Sequence[Listener]) -> None:
    """Two listeners may share a port only if one has an address of IPv4 and the other one of IPv6, as in Kafka."""
    for index, listener in enumerate(listeners):
        for other in listeners[:index]:
            is_mixed = (":" in listener.bind.host) != (":" in other.bind.host)
            if listener.bind.port == other.bind.port != 0 and not is_mixed:
                raise ConfigError(
                    f"listeners has {other.name} and {listener.name} at port {listener.bind.port}, but each must have "
                    "a port of its own"
                )


def inter_broker_listener(values: Config, listeners: Sequence[Listener], is_protocol_set: bool) -> str:
    """By which listener brokers reach each other. `is_protocol_set` says that the file names their protocol."""
    of_brokers = [listener.name for listener in listeners if listener.kind is ListenerKind.BROKER]
    if not of_brokers:
        raise ConfigError("listeners names no listener for clients: a broker needs one that is not the controllers'")
    named, protocol = values[INTER_BROKER_LISTENER_NAME].upper(), values[SECURITY_INTER_BROKER_PROTOCOL]
    if named and is_protocol_set:
        raise ConfigError(
            f"{INTER_BROKER_LISTENER_NAME.name} and {SECURITY_INTER_BROKER_PROTOCOL.name} are both set, but must not "
            "be: the listener has a protocol already, so leave the second out"
        )
    if is_protocol_set:
        key, chosen = SECURITY_INTER_BROKER_PROTOCOL, protocol
    else:
        key, chosen = INTER_BROKER_LISTENER_NAME, named or (protocol if protocol in of_brokers else of_brokers[0])
    if chosen not in of_brokers:
        raise ConfigError(f"{key.name} is {chosen!r}, but must be one of: " + ", ".join(of_brokers))
    return chosen


def listener_prefix(listener: str) -> str:
    """What the names of a listener's own settings begin with."""
    return f"listener.name.{listener.lower()}."


def settings_of_listener(properties: Mapping[str, str], listener: str) -> dict[str, str]:
    """The properties as this listener has them: its own without their prefix, in the place of the plain ones."""
    prefix = listener_prefix(listener)
    own = {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}
    return {**properties, **own}


def _pair(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name or not value:
        raise ConfigError(f"{LISTENER_SECURITY_PROTOCOL_MAP.name} has {text!r}, but must have NAME:PROTOCOL, ...")
    return name.strip().upper(), value.strip().upper()


def read_endpoints(key: Key[Any], texts: Sequence[str]) -> dict[str, Endpoint]:
    """By the names of the listeners."""
    found: dict[str, Endpoint] = {}
    for text in texts:
        name, separator, address = text.partition("://")
        if not separator or not name:
            raise ConfigError(f"{key.name} has {text!r}, but must have NAME://host:port, ...")
        if name.upper() in found:
            raise ConfigError(f"{key.name} has {name.upper()} twice, but each listener must have a name of its own")
        found[name.upper()] = read_endpoint(key, address)
    return found


def read_endpoint(key: Key[Any], text: str) -> Endpoint:
    """One address; ConfigError if it is none."""
    try:
        return Endpoint.parse(text)
    except ValueError as error:
        raise ConfigError(f"{key.name}: {error}") from None
