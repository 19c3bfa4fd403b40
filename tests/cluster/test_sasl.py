"""Clients and nodes that log in, over sockets: each mechanism, what a wrong password says, and no secret anywhere."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator

import pytest

from pykraft import Admin, Consumer, Producer
from pykraft.admin import ConfigResource, ConfigResourceType
from pykraft.cli import main
from pykraft.client.administration.scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pykraft.client.errors import AuthenticationError
from pykraft.common.errors import KafkaError
from pykraft.security.jaas import PLAIN_MODULE, as_jaas
from pykraft.transport.frame_recorder import FrameRecorder
from tests.harness.sasl_nodes import EVERY_MECHANISM, SECRET, SECRETS, SaslNodes, client_login, sasl_nodes
from tests.harness.sasl_sequences import ANSWERS, answers
from tests.harness.waiting import wait_until

SHA_256, SHA_512 = ScramMechanism


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslNodes]:
    """The delay of failures is as short as it can be, for the tests' sake."""
    quick = {"connection_failed_authentication_delay_ms": "1"}
    with sasl_nodes(tmp_path_factory.mktemp("sasl"), **quick) as found:
        yield found


def admin(nodes: SaslNodes, mechanism: str = "PLAIN", **how: str) -> Admin:
    return Admin(bootstrap_servers=nodes.address(), **client_login(mechanism, **how))


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM)
def test_records_travel_after_a_login(nodes: SaslNodes, mechanism: str) -> None:
    topic = mechanism.lower()
    with admin(nodes, mechanism) as client:
        client.create_topic(topic, 1, 1)
    settings = {"bootstrap_servers": nodes.address(), **client_login(mechanism)}
    with Producer(**settings) as producer:
        producer.send(topic, value=b"hello").result()
    with Consumer(**settings, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        found: list[bytes | None] = []

        def has_come() -> bool:
            found.extend(record.value for records in consumer.poll(0.5).values() for record in records)
            return bool(found)

        wait_until(has_come, "the record is read")
    assert found == [b"hello"]


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM)
def test_a_wrong_password_is_said_in_one_sentence_and_soon(nodes: SaslNodes, mechanism: str) -> None:
    began = time.monotonic()
    reasons = set()
    for user, password in (("alice", "wrong"), ("mallory", SECRET)):
        client = admin(nodes, mechanism, user=user, password=password)
        with client, pytest.raises(AuthenticationError) as error:
            client.list_topics()
        reasons.add(error.value.detail.replace(user, "USER"))
    assert len(reasons) == 1, "nothing tells a wrong password from an unknown user"
    assert f"{nodes.address()}: the server does not let 'USER' ({mechanism}) in: Authentication failed" in reasons.pop()
    assert time.monotonic() - began < 20, "and not only when the call's time is over"


def test_wrong_exchanges_are_answered_as_apache_kafka_has_answered_them(nodes: SaslNodes) -> None:
    """tests/judges/test_sasl.py asks Apache Kafka again."""
    assert answers(nodes.address()) == ANSWERS


def test_producers_and_consumers_hear_it_too(nodes: SaslNodes) -> None:
    settings = {"bootstrap_servers": nodes.address(), **client_login("PLAIN", password="wrong")}
    with Producer(**settings) as producer, pytest.raises(AuthenticationError):
        producer.send("topic", value=b"x").result()
    with Consumer(**settings) as consumer:
        consumer.subscribe(["topic"])
        with pytest.raises(AuthenticationError):
            wait_until(lambda: bool(consumer.poll(1)), "it fails")


def test_a_mechanism_that_a_listener_does_not_have_is_named(nodes: SaslNodes) -> None:
    offers = "does not offer sasl.mechanism SCRAM-SHA-256; it offers SCRAM-SHA-512"
    client = Admin(bootstrap_servers=nodes.address("PEERS"), **client_login("SCRAM-SHA-256"))
    with client, pytest.raises(AuthenticationError, match=offers):
        client.list_topics()


def test_a_client_that_does_not_log_in_is_not_served(nodes: SaslNodes) -> None:
    with Admin(bootstrap_servers=nodes.address(), default_api_timeout_ms=500) as client, pytest.raises(KafkaError):
        client.list_topics()


def test_passwords_come_change_and_go(nodes: SaslNodes) -> None:
    def may_log_in(mechanism: str, password: str) -> bool:
        with admin(nodes, mechanism, user="carol", password=password) as client:
            try:
                client.list_topics()
            except AuthenticationError:
                return False
        return True

    with admin(nodes) as client:
        set_both = [
            UserScramCredentialUpsertion("carol", SHA_256, "first", 8192),
            UserScramCredentialUpsertion("dave", SHA_512, "other"),
        ]
        client.alter_user_scram_credentials(set_both)
        wait_until(lambda: may_log_in("SCRAM-SHA-256", "first"), "carol gets in")
        assert not may_log_in("SCRAM-SHA-512", "first")
        found = client.describe_user_scram_credentials(["carol", "dave", "nobody"])
        assert found == {"carol": (ScramCredentialInfo(SHA_256, 8192),), "dave": (ScramCredentialInfo(SHA_512, 4096),)}
        client.alter_user_scram_credentials([UserScramCredentialUpsertion("carol", SHA_256, "second")])
        wait_until(lambda: may_log_in("SCRAM-SHA-256", "second"), "carol gets in with the new password")
        assert not may_log_in("SCRAM-SHA-256", "first")
        client.alter_user_scram_credentials([UserScramCredentialDeletion("carol", SHA_256)])
        wait_until(lambda: not may_log_in("SCRAM-SHA-256", "second"), "carol does not get in any more")
        with pytest.raises(KafkaError, match="does not exist"):
            client.alter_user_scram_credentials([UserScramCredentialDeletion("carol", SHA_256)])


def test_the_command_sets_and_shows_credentials(
    nodes: SaslNodes, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in client_login("SCRAM-SHA-512").items()))
    common = ["configs", "--bootstrap-server", nodes.address(), "--command-config", str(file), "--entity-type", "users"]
    both = "SCRAM-SHA-256=[iterations=8192,password=x],SCRAM-SHA-512=[password=y]"
    assert main([*common, "--alter", "--entity-name", "erin", "--add-config", both]) == 1, "one change for each user"
    capsys.readouterr()
    for one in ("SCRAM-SHA-256=[iterations=8192,password=x]", "SCRAM-SHA-512=[password=y]"):
        assert main([*common, "--alter", "--entity-name", "erin", "--add-config", one]) == 0
    assert capsys.readouterr().out == "Completed updating config for user erin.\n" * 2

    def shown(*options: str) -> str:
        assert main([*common, "--describe", *options]) == 0
        return capsys.readouterr().out

    both = "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    of_erin = f"SCRAM credential configs for user-principal 'erin' are {both}\n"
    wait_until(lambda: shown("--entity-name", "erin") == of_erin, "the broker has it")
    assert of_erin in shown()
    assert "'alice' are SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096" in shown()
    assert shown("--entity-name", "nobody") == shown("--entity-default") == ""
    assert main([*common, "--alter", "--entity-name", "erin", "--delete-config", "SCRAM-SHA-256"]) == 0
    wait_until(lambda: "SHA-256" not in shown("--entity-name", "erin"), "it is gone")


def test_no_secret_is_shown(nodes: SaslNodes) -> None:
    """Not by describe, not in the journal, not in recorded frames."""
    (node,), (config,), (journal,) = nodes.nodes, nodes.configs, nodes.journals
    recorder = FrameRecorder(1, lambda: 0, of_nodes=True)
    node.record(recorder)
    with admin(nodes) as client:
        client.alter_user_scram_credentials([UserScramCredentialUpsertion("frank", SHA_256, SECRET)])
        broker = ConfigResource(ConfigResourceType.BROKER, "1")
        settings = client.describe_configs([broker])[broker]
        client.list_topics()
    for mechanism in EVERY_MECHANISM:
        with admin(nodes, mechanism, password="wrong-secret") as client, pytest.raises(AuthenticationError):
            client.list_topics()
    node.record(None)
    assert recorder.exchanges, "something was recorded"
    frames = b"".join(frame.data for exchange in recorder.exchanges for frame in exchange.frames)
    jaas = {name: entry for name, entry in settings.items() if "jaas" in name}
    assert jaas and all(entry.value is None and entry.is_sensitive for entry in jaas.values())
    shown = f"{settings} {config!r} {config.logins!r} {config.sasl_listeners!r} {list(journal.events)}"
    for secret in (*SECRETS, "wrong-secret"):
        assert secret not in shown
        assert secret.encode() not in frames
    assert b"frank" not in frames, "what sets a password is not recorded: it is salted, and as good as the password"


def test_kafkas_threads_log_clients_in_as_well(tmp_path: pathlib.Path) -> None:
    with sasl_nodes(tmp_path, network="staged") as staged:
        for mechanism in EVERY_MECHANISM:
            with admin(staged, mechanism) as client:
                assert client.describe_cluster().brokers
            with admin(staged, mechanism, password="wrong") as client, pytest.raises(AuthenticationError):
                client.list_topics()


def test_a_node_that_is_not_let_in_says_so_in_its_journal(tmp_path: pathlib.Path) -> None:
    wrong = as_jaas(PLAIN_MODULE, "node", "not-the-secret").replace(";", ' user_node="node-secret";')
    jaas = {"listener_name_controller_plain_sasl_jaas_config": wrong}
    with sasl_nodes(tmp_path, waits=False, **jaas) as nodes:
        (journal,) = nodes.journals

        def refusals() -> list[str]:
            return [str(event.fields["reason"]) for event in list(journal.events) if event.name == "login_refused"]

        wait_until(lambda: bool(refusals()), "it says so")
        assert refusals()[0] == (
            "the server does not let 'node' (PLAIN) in: Authentication failed: Invalid username or password"
        )


@pytest.mark.long
def test_three_nodes_log_in_to_each_other(tmp_path: pathlib.Path) -> None:
    with sasl_nodes(tmp_path, 3) as three:
        settings = {"bootstrap_servers": three.address(), **client_login("SCRAM-SHA-256")}
        with Admin(**settings) as client:
            client.create_topic("copied", 3, 3, {"min.insync.replicas": 3})
            with Producer(**settings) as producer:
                for number in range(30):
                    producer.send("copied", value=b"%d" % number).result()
            client.alter_user_scram_credentials([UserScramCredentialUpsertion("late", SHA_512, "password")])
        addresses = [str(each.advertised) for config in three.configs for each in config.listeners[:1]]
        for address in addresses:

            def is_known(address: str = address) -> bool:
                late = Admin(bootstrap_servers=address, **client_login("SCRAM-SHA-512", "late", "password"))
                try:
                    with late:
                        return len(late.describe_cluster().brokers) == 3
                except AuthenticationError:
                    return False

            wait_until(is_known, "each broker knows the new user")
