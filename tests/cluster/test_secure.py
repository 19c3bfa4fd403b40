"""A cluster whose listeners have TLS: every connection of clients, brokers and controllers, and whom they name."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft import Admin, Cluster, ConfigResource, ConfigResourceType, Producer
from pykraft.broker.node import Node
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.cli import main
from pykraft.client.errors import AuthenticationError
from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import parse_properties
from pykraft.network.tls import AcceptedTls, OpenSslEngine, TlsWire
from pykraft.runtime.fused import FusedStages
from pykraft.runtime.secure_files import SecureFiles
from tests.harness.apache_kafka import free_ports
from tests.harness.certificates import keystore, side, truststore
from tests.harness.sasl_nodes import client_login, sasl_nodes
from tests.harness.secure_clients import check_that_a_rule_lets_it_write, check_that_records_come_back, node_threads
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, security="SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER}) as running:
        running.create_topic("flights", partitions=2)
        yield running


def test_records_come_and_go_and_are_replicated(cluster: Cluster) -> None:
    check_that_records_come_back(cluster, "flights")


def test_every_connection_between_nodes_is_encrypted_and_verified(cluster: Cluster) -> None:
    for thread in node_threads(cluster):
        assert isinstance(thread.stages, FusedStages)
        accepted = list(thread.stages._processor._sockets)
        assert accepted and all(isinstance(stream, AcceptedTls) for stream in accepted)
        wires = list(thread._client._dialer.wires)
        assert wires
        for wire in wires:
            assert isinstance(wire, TlsWire)
            engine = wire.session.engine
            assert isinstance(engine, OpenSslEngine)
            assert engine.tls.context.verify_mode is ssl.CERT_REQUIRED and engine.tls.context.check_hostname
        principals = {stream.connection.channel.principal for stream in accepted}
        assert principals <= {"User:node-1", "User:node-2", "User:admin"}


def test_a_client_may_do_what_the_rules_say_of_the_name_in_its_certificate(cluster: Cluster) -> None:
    check_that_a_rule_lets_it_write(cluster, "alice", "flights")


def test_a_client_without_rights_at_the_controllers_hears_which_one_is_missing(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        address = next(iter(admin.describe_quorum().endpoints.values()))[0].rpartition("//")[2]
    settings = {name: each for name, each in cluster.client_settings("alice").items() if name != "bootstrap.servers"}
    said = rf"the controllers at {address} do not let this client ask them, as it has not the right ALTER"
    with (
        Admin(bootstrap_controllers=address, default_api_timeout_ms=500, **settings) as alice,
        pytest.raises(KafkaError, match=said),
    ):
        alice.describe_quorum()


def test_the_handshakes_and_those_that_have_failed_are_counted(cluster: Cluster) -> None:
    def counted(name: str) -> float:
        def read(node: Node) -> float:
            (family,) = (each for each in node.metrics.families() if each.name == f"{name}-authentication-total")
            return next(value for tags, value in family.metrics.items() if ("listener", "SSL") in tags)

        return sum(cluster.call(node_id, read) for node_id in cluster.broker_ids)

    before = counted("successful"), counted("failed")
    with cluster.admin() as admin:
        admin.list_topics()
    own: dict[str, Any] = {name: text for name, text in cluster.client_settings().items() if "keystore" not in name}
    with Admin(**own) as admin, pytest.raises(AuthenticationError):
        admin.list_topics()
    assert counted("successful") > before[0] and counted("failed") > before[1]


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


def test_up_secure_prints_where_the_settings_of_a_client_are(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pykraft", "up", "--secure", "--data", str(tmp_path)]
    command += ["--port", str(free_ports(1)[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            java, librdkafka, ready = (process.stdout.readline().strip() for _ in range(3))
            servers = ready.removeprefix("ready at ").partition(";")[0]
            settings: dict[str, Any] = parse_properties(Path(java.rpartition(": ")[2]).read_text())
            with Admin(bootstrap_servers=servers, **settings) as admin:
                assert admin.list_topics() == []
            assert Path(librdkafka.rpartition(": ")[2]).read_text().startswith("security.protocol=ssl\n")
        finally:
            process.kill()


def test_the_fixture_for_others_has_a_certificate_for_each_client(kafka_secure: Cluster) -> None:
    kafka_secure.create_topic("t")
    with Producer(**kafka_secure.client_settings("alice")) as producer:
        assert producer.send("t", value=b"x").result(10).offset == 0


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
    told += "".join(repr(thread.node.config) for thread in node_threads(cluster))
    assert not [line for line in secrets if line in told]


def shown_by(cluster: Cluster) -> str:
    """The name in the certificate that the first broker shows to a new connection."""
    own = cluster.client_settings()
    context = ssl.create_default_context(cafile=own["ssl.truststore.location"])
    context.load_cert_chain(own["ssl.keystore.location"])
    host, _, port = cluster.bootstrap_servers.partition(",")[0].partition(":")
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname=host) as tls,
    ):
        subject: Any = tls.getpeercert()
        return str(subject["subject"][0][0][1])


def test_a_certificate_is_replaced_without_a_restart_and_a_broken_one_is_not_taken(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    files = cluster.secure_files
    assert files is not None and shown_by(cluster) == "node-1"
    new = files.client_settings("renewed")["ssl.keystore.location"]
    java, _ = files.write_client_files("admin")
    at = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(java), "--entity-type", "brokers"]
    setting = "listener.name.ssl.ssl.keystore.location"
    alter = ["configs", *at, "--entity-name", "1", "--alter", "--add-config"]
    with Producer(**cluster.client_settings()) as before:
        assert before.send("flights", value=b"x").result(10).offset >= 0
        assert main([*alter, f"{setting}={new}"]) == 0
        wait_until(lambda: shown_by(cluster) == "renewed", "the new one is shown")
        assert before.send("flights", value=b"x").result(10).offset >= 0, "connections from before go on"
    assert main(["configs", *at, "--entity-name", "1", "--describe"]) == 0
    assert f"{setting}={new} sensitive=false" in capsys.readouterr().out
    assert main([*alter, f"{setting}=/none"]) == 0
    told = "certificates_not_reloaded"
    wait_until(lambda: any(each.name == told for each in cluster.journal(1)), "the node says so")
    assert shown_by(cluster) == "renewed", "what was there before stays"
    assert main(["configs", *at, "--entity-name", "1", "--alter", "--delete-config", setting]) == 0
    wait_until(lambda: shown_by(cluster) == "node-1", "the file's own is shown again")
    with cluster.admin() as admin, pytest.raises(KafkaError, match="broker id must be specified"):
        admin.incremental_alter_configs({ConfigResource(ConfigResourceType.BROKER, ""): {setting: new}})


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
