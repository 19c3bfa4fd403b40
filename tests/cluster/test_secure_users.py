"""A cluster whose clients log in with a password over TLS: users that are made on the spot, and where passwords are."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from pykraft import Admin, Cluster, ConfigResource, ConfigResourceType
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.cli import main
from pykraft.client.errors import AuthenticationError
from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import parse_properties
from pykraft.network.tls import AcceptedTls, TlsWire
from pykraft.runtime.fused import FusedStages
from pykraft.runtime.secure_files import Passwords, SecureFiles
from tests.harness.apache_kafka import free_ports
from tests.harness.secure_clients import check_that_a_rule_lets_it_write, check_that_records_come_back, node_threads


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        2, controllers=1, security="SASL_SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER}
    ) as running:
        running.create_topic("flights", partitions=2)
        yield running


def _passwords(cluster: Cluster) -> Passwords:
    assert cluster.secure_files is not None and cluster.secure_files.passwords is not None
    return cluster.secure_files.passwords


def test_records_come_and_go_and_are_replicated(cluster: Cluster) -> None:
    check_that_records_come_back(cluster, "flights")


def test_every_connection_is_encrypted_and_has_logged_in(cluster: Cluster) -> None:
    found = set()
    for thread in node_threads(cluster):
        assert isinstance(thread.stages, FusedStages)
        accepted = list(thread.stages._processor._sockets)
        assert accepted and all(isinstance(stream, AcceptedTls) for stream in accepted)
        assert all(isinstance(wire, TlsWire) for wire in thread._client._dialer.wires)
        found |= {stream.connection.channel.principal for stream in accepted}
    assert {"User:node-1", "User:node-2"} <= found <= {"User:node-1", "User:node-2", "User:node-101", "User:admin"}


def test_a_user_is_made_on_the_spot_and_may_do_what_the_rules_say(cluster: Cluster) -> None:
    alice = cluster.client_settings("alice")
    assert cluster.client_settings("alice") == alice
    check_that_a_rule_lets_it_write(cluster, "alice", "flights")
    wrong = {**alice, "sasl.jaas.config": alice["sasl.jaas.config"].replace(_passwords(cluster)["alice"], "guessed")}
    with Admin(**wrong) as admin, pytest.raises(AuthenticationError, match="Authentication failed"):
        admin.list_topics()


def test_the_controllers_let_the_same_user_in(cluster: Cluster) -> None:
    settings = cluster.client_settings()
    del settings["bootstrap.servers"]
    listeners = cluster.properties(101)["listeners"]
    with Admin(bootstrap_controllers=listeners.partition("://")[2], **settings) as admin:
        assert admin.describe_quorum().leader_id == 101


def test_commands_and_librdkafka_take_their_settings_from_files(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    files = cluster.secure_files
    assert isinstance(files, SecureFiles)
    java, librdkafka = files.write_client_files("admin")
    at = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(java)]
    assert main(["topics", "--list", *at]) == 0
    assert "flights" in capsys.readouterr().out
    settings = {"bootstrap.servers": cluster.bootstrap_servers, **parse_properties(librdkafka.read_text())}
    producer = confluent_kafka.Producer(settings)
    told: list[Any] = []
    producer.produce("flights", b"x", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(30) == 0 and told == [None]


def test_passwords_are_in_private_files_and_nowhere_else(cluster: Cluster) -> None:
    secrets = [*_passwords(cluster).values()]
    assert len(secrets) == len({*secrets}) and min(map(len, secrets)) == 24
    with_secrets = [
        file
        for file in cluster.directory.rglob("*")
        if file.is_file() and any(secret.encode() in file.read_bytes() for secret in secrets)
    ]
    assert {file.name for file in with_secrets} >= {"passwords", "node-1.properties", "node-101.properties"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in with_secrets} == {0o600}
    assert all(file.parent.name == "security" or file.parent == cluster.directory for file in with_secrets)
    with cluster.admin() as admin:
        described = str(admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")]))
    told = described + "".join(str(event) for node in cluster.node_ids for event in cluster.journal(node))
    told += "".join(repr(thread.node.config) for thread in node_threads(cluster)) + repr(_passwords(cluster))
    assert not [secret for secret in secrets if secret in told]


def test_a_directory_keeps_its_passwords_and_its_security(tmp_path: Path) -> None:
    with Cluster(1, security="SASL_SSL", directory=tmp_path) as first:
        bob = first.client_settings("bob")
    with Cluster(1, security="SASL_SSL", directory=tmp_path) as again:
        assert again.client_settings("bob") == bob
        with Admin(**bob) as admin:
            assert admin.list_topics() == []
    with pytest.raises(ConfigError, match="holds a cluster whose listeners have SASL_SSL, and not SSL: start it with"):
        Cluster(1, security="SSL", directory=tmp_path)
    with pytest.raises(ConfigError, match="and not PLAINTEXT"):
        Cluster(1, directory=tmp_path)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: Cluster(1, security="TLS"), 'security=\'TLS\': must be "SSL" or "SASL_SSL", or be left out'),  # type: ignore[arg-type]
        (
            lambda: SecureFiles(Path(), [1], "SASL_SSL").client_settings("a/b"),
            "'a/b' must be of letters, digits, dots, underscores and dashes to name a secure client",
        ),
        (
            lambda: SecureFiles(Path(), [1], "SASL_SSL").client_settings("carol"),
            "there is no user 'carol': Cluster.client_settings('carol') makes one",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(
    act: Any, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as refused:
        act()
    assert str(refused.value) == sentence


def test_up_secure_with_logins_prints_where_the_settings_of_a_client_are(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pykraft", "up", "--secure", "SASL_SSL", "--data", str(tmp_path)]
    command += ["--port", str(free_ports(1)[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            java, librdkafka, ready = (process.stdout.readline().strip() for _ in range(3))
            assert java.startswith("settings of the client User:admin (login by SCRAM-SHA-512), for Java")
            servers = ready.removeprefix("ready at ").partition(";")[0]
            settings: dict[str, Any] = parse_properties(Path(java.rpartition(": ")[2]).read_text())
            with Admin(bootstrap_servers=servers, **settings) as admin:
                assert admin.list_topics() == []
            assert Path(librdkafka.rpartition(": ")[2]).read_text().startswith("security.protocol=sasl_ssl\n")
        finally:
            process.kill()
