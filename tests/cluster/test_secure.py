"""A cluster whose listeners have TLS: every connection of clients, brokers and controllers, and whom they name."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pykraft import Admin, Cluster, ConfigResource, ConfigResourceType, Consumer, Producer
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.cli import main
from pykraft.client.errors import AuthenticationError
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.network.tls import AcceptedTls, TlsWire
from pykraft.runtime.fused import FusedStages
from pykraft.runtime.secure_files import SecureFiles
from pykraft.runtime.threaded import NodeThread
from tests.harness.certificates import keystore, side, truststore
from tests.harness.rules import rule
from tests.harness.sasl_nodes import client_login, sasl_nodes
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, security="SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER}) as running:
        running.create_topic("flights", partitions=2)
        yield running


def _threads(cluster: Cluster) -> list[NodeThread]:
    return [node for node in cluster._nodes.values() if isinstance(node, NodeThread)]


def test_records_come_and_go_and_are_replicated(cluster: Cluster) -> None:
    with Producer(**cluster.client_settings()) as producer:
        sent = [producer.send("flights", value=b"%d" % n * 10_000, partition=n % 2) for n in range(50)]
        assert {future.result(10).partition for future in sent} == {0, 1}
    reading: dict[str, Any] = {**cluster.client_settings(), "group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer("flights", consumer_timeout_ms=10_000, **reading) as consumer:
        got = [next(consumer).value for _ in range(50)]
    assert sorted(got) == sorted(b"%d" % n * 10_000 for n in range(50))


def test_every_connection_between_nodes_is_encrypted_and_verified(cluster: Cluster) -> None:
    for thread in _threads(cluster):
        assert isinstance(thread.stages, FusedStages)
        accepted = list(thread.stages._processor._sockets)
        assert accepted and all(isinstance(stream, AcceptedTls) for stream in accepted)
        wires = list(thread._client._dialer.wires)
        assert wires
        for wire in wires:
            assert isinstance(wire, TlsWire)
            assert wire.tls.context.verify_mode is ssl.CERT_REQUIRED and wire.tls.context.check_hostname
        principals = {stream.connection.channel.principal for stream in accepted}
        assert principals <= {"User:node-1", "User:node-2", "User:admin"}


def test_a_client_may_do_what_the_rules_say_of_the_name_in_its_certificate(cluster: Cluster) -> None:
    def send() -> int:
        with Producer(**cluster.client_settings("alice")) as alice:
            return alice.send("flights", value=b"x").result(10).offset

    with pytest.raises(KafkaError) as refused:
        send()
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with cluster.admin() as admin:
        admin.create_acls([rule("allow alice WRITE TOPIC flights")])

    def is_allowed() -> bool:
        with suppress(KafkaError):
            return send() >= 0
        return False

    wait_until(is_allowed, "the brokers have the rule")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (truststore(), "self-signed certificate in certificate chain"),
        ({}, "self-signed certificate in certificate chain"),
        ({"trusts": "the cluster"}, "certificate required"),
        ({"trusts": "the cluster", **keystore("/CN=admin", "stranger")}, "unknown ca"),
    ],
)
def test_a_client_that_is_not_let_in_hears_why_at_once(cluster: Cluster, settings: dict[str, str], reason: str) -> None:
    own = dict(settings)
    if own.pop("trusts", None):
        own |= {name: value for name, value in cluster.client_settings().items() if "truststore" in name}
    connecting: dict[str, Any] = {"security.protocol": "SSL", **own}
    with (
        Admin(bootstrap_servers=cluster.bootstrap_servers, **connecting) as admin,
        pytest.raises(AuthenticationError, match=f"127.0.0.1:[0-9]+: TLS: .*{reason}"),
    ):
        admin.list_topics()


def test_commands_take_their_settings_from_a_file(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = cluster.secure_files
    assert isinstance(files, SecureFiles)
    java, librdkafka = files.write_client_files("admin")
    at = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(java)]
    assert main(["topics", "--list", *at]) == 0
    assert "flights" in capsys.readouterr().out
    assert "ssl.key.location" in librdkafka.read_text()


def test_nothing_that_is_described_or_told_has_a_secret(cluster: Cluster) -> None:
    secrets = [
        line
        for file in cluster.directory.glob("security/*.pem")
        for line in file.read_text().splitlines()
        if "/" in line
    ]
    with cluster.admin() as admin:
        described = str(admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")]))
    told = described + json.dumps([str(event) for node in (1, 2) for event in cluster.journal(node)])
    told += "".join(repr(thread.node.config) for thread in _threads(cluster))
    assert not [line for line in secrets if line in told]


def test_over_sasl_ssl_a_client_is_whom_it_logs_in_as_whatever_its_certificate_says(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "listener_security_protocol_map": "CLIENTS:SASL_SSL,PEERS:SASL_SSL,CONTROLLER:SASL_SSL",
        "listener.name.clients.ssl.client.auth": "required",
        "ssl_client_auth": "required",  # it does not hold for the others
        **side("/CN=node"),
    }
    with sasl_nodes(tmp_path, **settings) as nodes:
        connecting = {"bootstrap.servers": nodes.address(), **client_login("SCRAM-SHA-256")}
        own: dict[str, Any] = {**connecting, "security.protocol": "SASL_SSL", **side("/CN=mallory")}
        with Admin(**own) as admin:
            admin.create_topic("t", 1, 1)
        with Producer(**own) as producer:
            assert producer.send("t", value=b"x").result(10).offset == 0
        thread = nodes.nodes[0]
        assert isinstance(thread.stages, FusedStages)
        accepted = list(thread.stages._processor._sockets)
        assert all(isinstance(stream, AcceptedTls) for stream in accepted)
        principals = {stream.connection.channel.principal for stream in accepted}
        assert principals <= {"User:alice", "User:node"} and "User:CN=mallory" not in principals
        for refused, sentence in (
            (
                {**own, **client_login("SCRAM-SHA-256", password="wrong"), "security.protocol": "SASL_SSL"},
                "does not let",
            ),
            ({**connecting, "security.protocol": "SASL_SSL", **truststore()}, "TLS: .*certificate required"),
        ):
            with Admin(**refused) as admin, pytest.raises(AuthenticationError, match=sentence):
                admin.list_topics()
