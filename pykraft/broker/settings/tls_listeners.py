"""The TLS of a node's listeners: what each shows, whom it asks for a certificate, and how its clients are named.

A listener may have each of these settings for itself (``listener.name.NAME.ssl.keystore.location``). The listeners of
other nodes that this one connects to, the brokers' and the controllers', have the same: what a node shows there, and
whom it trusts, is what it has for its own listener of that name.

``ssl.client.auth`` without a listener's name does not hold for SASL_SSL, where clients have a name without a
certificate; ``listener.name.NAME.ssl.client.auth`` does.

Follows org.apache.kafka.common.config.internals.BrokerSecurityConfigs and
org.apache.kafka.common.network.ChannelBuilders.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pykraft.broker.settings.listener_config import listener_prefix, settings_of_listener
from pykraft.common.settings.config import ConfigDef, Key, string
from pykraft.common.settings.tls_config import TLS_KEYS, TlsSettings, tls_settings
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.transport.principals import PrincipalMapping

SSL_CLIENT_AUTH = string(
    "ssl.client.auth",
    "none",
    "whether clients must show a certificate (required), may show one (requested), or are not asked (none)",
    ["required", "requested", "none"],
)


def _rules(text: str) -> str:
    PrincipalMapping(text)
    return text


SSL_PRINCIPAL_MAPPING_RULES: Key[str] = Key(
    "ssl.principal.mapping.rules",
    "DEFAULT",
    _rules,
    "rules with commas between them: DEFAULT, or RULE:pattern/replacement/ with L or U after it",
    "how the subject of a client's certificate becomes the name of a principal; the first rule that matches counts",
    "string",
)

TLS_LISTENER_KEYS: list[Key[Any]] = [*TLS_KEYS, SSL_CLIENT_AUTH, SSL_PRINCIPAL_MAPPING_RULES]
_OF_LISTENER = ConfigDef(TLS_LISTENER_KEYS)


@dataclass(frozen=True)
class ListenerTls:
    """The TLS of one listener."""

    settings: TlsSettings
    client_auth: str
    mapping: PrincipalMapping | None
    """None: certificates name no client, SASL does."""


def read_listener_tls(name: str, protocol: SecurityProtocol, properties: Mapping[str, str]) -> ListenerTls:
    """What these properties say of a listener that has TLS. ConfigError is one sentence."""
    own = settings_of_listener(properties, name)
    prefix = listener_prefix(name)
    if protocol.has_sasl and prefix + SSL_CLIENT_AUTH.name not in properties:
        own[SSL_CLIENT_AUTH.name] = SSL_CLIENT_AUTH.default
    values = _OF_LISTENER.resolve(own)
    is_own = any(prefix + key.name in properties for key in TLS_LISTENER_KEYS)
    return ListenerTls(
        settings=tls_settings(values, prefix if is_own else ""),
        client_auth=values[SSL_CLIENT_AUTH],
        mapping=None if protocol.has_sasl else PrincipalMapping(values[SSL_PRINCIPAL_MAPPING_RULES]),
    )


def tls_of_listeners(
    names: Iterable[str], protocols: Mapping[str, SecurityProtocol], properties: Mapping[str, str]
) -> dict[str, ListenerTls]:
    """Of those listeners that have TLS, by name."""
    return {
        name: read_listener_tls(name, protocols[name], properties)
        for name in names
        if name in protocols and protocols[name].has_tls
    }


def own_tls_names(listeners: Iterable[str]) -> set[str]:
    """The settings of TLS that these listeners may have for themselves."""
    return {listener_prefix(listener) + key.name for listener in listeners for key in TLS_LISTENER_KEYS}
