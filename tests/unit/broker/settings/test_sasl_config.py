"""What a node's file says of SASL: its listeners' users, its own logins, and each mistake without a password in it."""

from __future__ import annotations

import pytest

from pykraft.broker.settings.config import NodeConfig, read_node_config
from pykraft.common.errors import ConfigError
from pykraft.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from pykraft.security.login import SaslLogin
from tests.harness.sasl_nodes import SECRETS, sasl_properties

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "CLIENTS://h:1,PEERS://h:2,CONTROLLER://h:3",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,PEERS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PEERS",
    "controller.quorum.voters": "1@h:3",
    "log.dirs": "/data",
    **sasl_properties(),
}
PLAIN_OF_CLIENTS = "listener.name.clients.plain.sasl.jaas.config"
LOGIN_OF_PEERS = "listener.name.peers.scram-sha-512.sasl.jaas.config"


def read(**changes: str | None) -> NodeConfig:
    return read_node_config({name: value for name, value in {**NODE, **changes}.items() if value is not None})


def test_a_listener_has_its_users_and_the_node_its_logins() -> None:
    config = read()
    clients, peers = config.sasl_listeners["CLIENTS"], config.sasl_listeners["PEERS"]
    assert (clients.mechanisms, clients.passwords) == (
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        {"alice": SECRETS[0]},
    )
    assert (peers.mechanisms, peers.passwords) == (("SCRAM-SHA-512",), {})
    assert clients.max_receive_bytes == 524_288
    node = "node", SECRETS[1]
    assert config.logins == {False: SaslLogin("SCRAM-SHA-512", *node), True: SaslLogin("PLAIN", *node)}
    assert not config.unknown


def test_no_secret_is_in_what_may_be_printed() -> None:
    config = read()
    shown = f"{config!r} {config.logins!r} {config.sasl_listeners!r}"
    assert not any(secret in shown for secret in SECRETS)


def test_a_listener_has_what_holds_for_it_alone() -> None:
    config = read(
        **{"listener.name.peers.sasl.server.max.receive.size": "1000", "sasl.server.max.receive.size": "2000"}
    )
    limits = {name: listener.max_receive_bytes for name, listener in config.sasl_listeners.items()}
    assert limits == {"CLIENTS": 2000, "PEERS": 1000, "CONTROLLER": 2000}


def test_a_node_without_sasl_needs_none_of_it() -> None:
    plain = "CLIENTS:PLAINTEXT,PEERS:PLAINTEXT,CONTROLLER:PLAINTEXT"
    config = read(**{"listener.security.protocol.map": plain, PLAIN_OF_CLIENTS: None, LOGIN_OF_PEERS: None})
    assert (config.sasl_listeners, config.logins) == ({}, {})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"listener.name.clients.sasl.enabled.mechanisms": "GSSAPI"},
            "sasl.enabled.mechanisms of listener CLIENTS has GSSAPI, which is not built: it must be one of PLAIN,",
        ),
        ({"listener.name.clients.sasl.enabled.mechanisms": None}, "has GSSAPI, which is not built"),
        ({PLAIN_OF_CLIENTS: None}, f"{PLAIN_OF_CLIENTS} is not set, but must name PLAIN's users"),
        ({PLAIN_OF_CLIENTS: "secret"}, f"{PLAIN_OF_CLIENTS} names no login module"),
        (
            {PLAIN_OF_CLIENTS: f'{SCRAM_MODULE} required a="secret";'},
            f"must name {PLAIN_MODULE}, which is the module of",
        ),
        ({LOGIN_OF_PEERS: None}, f"{LOGIN_OF_PEERS} is not set, but must have the username and password"),
        ({LOGIN_OF_PEERS: f"{SCRAM_MODULE} required;"}, f"{LOGIN_OF_PEERS} must have username and password"),
        ({"sasl.mechanism.controller.protocol": None}, "sasl.mechanism.controller.protocol has GSSAPI, which is not"),
        ({"connections.max.reauth.ms": "1000"}, "connections.max.reauth.ms is 1000, but must be 0: that is not built"),
        ({"connection.failed.authentication.delay.ms": "-1"}, "connection.failed.authentication.delay.ms is '-1'"),
    ],
)
def test_a_mistake_is_one_sentence(changes: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(**changes)
    assert sentence in str(refused.value)
    assert "secret" not in str(refused.value)
