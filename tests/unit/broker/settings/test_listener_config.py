"""Listeners and their security protocols, as a node's properties give them."""

from __future__ import annotations

import pytest

from pykraft.broker.settings.config import NodeConfig, read_node_config
from pykraft.broker.settings.listener_config import listener_prefix, settings_of_listener
from pykraft.broker.settings.tls_listeners import read_listener_tls
from pykraft.common.errors import ConfigError
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.security_protocol import SecurityProtocol

BROKER = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "h:9093",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
    "scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="node" password="of the node";',
}
COMBINED = {
    **BROKER,
    "process.roles": "broker,controller",
    "listeners": "CLIENTS://h:1,PEERS://h:2,CONTROLLER://h:3",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,PEERS:SSL,controller:sasl_plaintext",
    "inter.broker.listener.name": "peers",
}


def read(properties: dict[str, str], **changes: str | None) -> NodeConfig:
    named = {name.replace("_", "."): value for name, value in changes.items()}
    return read_node_config({key: value for key, value in {**properties, **named}.items() if value is not None})


def test_each_listener_has_the_protocol_of_the_map() -> None:
    config = read(COMBINED)
    assert [(each.name, each.kind, each.protocol) for each in config.listeners] == [
        ("CLIENTS", ListenerKind.BROKER, SecurityProtocol.SASL_SSL),
        ("PEERS", ListenerKind.BROKER, SecurityProtocol.SSL),
        ("CONTROLLER", ListenerKind.CONTROLLER, SecurityProtocol.SASL_PLAINTEXT),
    ]
    assert config.inter_broker_listener == config.outgoing_listener(is_to_controller=False) == "PEERS"
    assert config.outgoing_listener(is_to_controller=True) == "CONTROLLER"


def test_a_broker_alone_knows_the_protocol_of_the_controllers_listener() -> None:
    config = read(BROKER, listeners="SSL://h:1", listener_security_protocol_map="SSL:SSL,CONTROLLER:SASL_SSL")
    assert config.protocols["CONTROLLER"] is SecurityProtocol.SASL_SSL
    assert config.inter_broker_listener == "SSL"


def test_the_protocol_between_brokers_names_their_listener() -> None:
    config = read(COMBINED, inter_broker_listener_name=None, listeners="SSL://h:1,SASL_SSL://h:2,CONTROLLER://h:3",
                  listener_security_protocol_map="SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:SSL",
                  security_inter_broker_protocol="SASL_SSL")  # fmt: skip
    assert config.inter_broker_listener == "SASL_SSL"


@pytest.mark.parametrize(
    ("properties", "changes", "sentence"),
    [
        (
            BROKER,
            {"listeners": "SSL://h:1"},
            "listener.security.protocol.map has no entry for listener CONTROLLER: add CONTROLLER:PLAINTEXT, or another",
        ),
        (
            COMBINED,
            {"listener_security_protocol_map": "CLIENTS:TLS"},
            "gives CLIENTS the protocol TLS, but must give it one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            COMBINED,
            {"security_inter_broker_protocol": "SSL"},
            "inter.broker.listener.name and security.inter.broker.protocol are both set, but must not be",
        ),
        (
            COMBINED,
            {"inter_broker_listener_name": None, "security_inter_broker_protocol": "SSL"},
            "security.inter.broker.protocol is 'SSL', but must be one of: CLIENTS, PEERS",
        ),
        (
            COMBINED,
            {"security_inter_broker_protocol": "TLS"},
            "security.inter.broker.protocol is 'TLS', but must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
    ],
)
def test_a_mistake_is_one_sentence(properties: dict[str, str], changes: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(properties, **changes)
    assert sentence in str(refused.value)


def test_a_listeners_own_setting_hides_the_plain_one_for_this_listener_alone() -> None:
    properties = {
        "ssl.client.auth": "none",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.ssl.client.auth": "required",
        "listener.name.clients.plain.sasl.jaas.config": "secret",
    }
    clients, peers = (settings_of_listener(properties, name) for name in ("CLIENTS", "PEERS"))
    assert (clients["ssl.client.auth"], peers["ssl.client.auth"]) == ("required", "none")
    assert clients["sasl.enabled.mechanisms"] == "PLAIN" and clients["plain.sasl.jaas.config"] == "secret"
    assert "plain.sasl.jaas.config" not in peers
    assert listener_prefix("CLIENTS") == "listener.name.clients."


@pytest.mark.parametrize(
    ("protocol", "setting", "asks"),
    [
        (SecurityProtocol.SSL, "ssl.client.auth", "required"),
        (SecurityProtocol.SASL_SSL, "ssl.client.auth", "none"),
        (SecurityProtocol.SASL_SSL, "listener.name.clients.ssl.client.auth", "required"),
        (SecurityProtocol.SSL, "listener.name.others.ssl.client.auth", "none"),
    ],
)
def test_where_clients_log_in_only_the_listeners_own_setting_asks_for_a_certificate(
    protocol: SecurityProtocol, setting: str, asks: str
) -> None:
    tls = read_listener_tls("CLIENTS", protocol, {setting: "required"})
    assert (tls.client_auth, tls.mapping is None) == (asks, protocol.has_sasl)
