"""Logins over TLS, judged from outside: kafkajs, franz-go, librdkafka, kafka-python, aiokafka, Java's tools, and a
broker of Apache Kafka beside ours. The users are those that a cluster makes on the spot."""

from __future__ import annotations

import asyncio
import pathlib
import ssl
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin as librdkafka

from pykraft import Admin, Cluster, NewTopic
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from tests.harness import apache_kafka
from tests.harness.java_broker import JavaBroker, files_of_both, shared
from tests.harness.others import module
from tests.harness.secure_clients import (
    LIMIT_S,
    allow,
    end_offsets,
    leaders,
    of_librdkafka,
    read_with_librdkafka,
    tool,
    write_with_librdkafka,
)
from tests.harness.waiting import wait_until
from tests.interop.members import Member, Peer, why_not

pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

BOTH = frozenset({1, 2})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With rules of access, so that each client must be the user that it has logged in as."""
    with Cluster(1, security="SASL_SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER}) as running:
        yield running


def user(cluster: Cluster, name: str, topic: str) -> tuple[str, str]:
    """Where the authority is, and the password of a new user, who may do all with a new topic and the group g-NAME."""
    cluster.create_topic(topic, partitions=2)
    with cluster.admin() as admin:
        allow(admin, f"allow {name} ALL TOPIC {topic}", f"allow {name} ALL GROUP g-{name}")
    settings = cluster.client_settings(name)
    assert cluster.secure_files is not None and cluster.secure_files.passwords is not None
    return settings["ssl.truststore.location"], cluster.secure_files.passwords[name]


# --- kafkajs and franz-go ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["kafkajs", "franz-go", "franz-go-848"])
def test_it_writes_reads_in_a_group_and_commits(cluster: Cluster, library: str) -> None:
    if reason := why_not(library):
        pytest.skip(reason)
    topic, group = f"of-{library}", f"g-{library}"
    authority, password = user(cluster, library, topic)
    login = f"{authority} {library} {password}"
    with closing(Peer(library, cluster.bootstrap_servers, login)) as peer:
        for number in range(10):
            assert peer.write(topic, number % 2, f"value-{number}") == number // 2
        member = Member(library, cluster.bootstrap_servers, group, topic, 10_000, login)
        try:
            expected = {f"{topic}-{number}": [*range(5)] for number in (0, 1)}
            wait_until(lambda: member.seen == expected, "all were read", LIMIT_S)
            wait_until(lambda: peer.committed(group, topic, 0).split()[0] == "5", "the group has committed", LIMIT_S)
        finally:
            member.kill()


@pytest.mark.parametrize("library", ["kafkajs", "franz-go"])
def test_it_is_refused_with_a_wrong_password_and_a_strangers_topic(cluster: Cluster, library: str) -> None:
    if reason := why_not(library):
        pytest.skip(reason)
    name, topic = f"{library}-2", f"of-{library}-2"
    authority, password = user(cluster, name, topic)
    cluster.create_topic(f"strange-{library}")
    for login, at in ((f"{authority} {name} wrong", topic), (f"{authority} {name} {password}", f"strange-{library}")):
        with closing(Peer(library, cluster.bootstrap_servers, login)) as peer, pytest.raises(AssertionError):
            peer.write(at, 0, "x")
    with closing(Peer(library, cluster.bootstrap_servers, f"{authority} {name} {password}")) as peer:
        assert peer.write(topic, 0, "x") == 0


# --- librdkafka -------------------------------------------------------------------------------------------------------


def _of_librdkafka(cluster: Cluster, name: str) -> dict[str, Any]:
    cluster.client_settings(name)
    assert cluster.secure_files is not None
    return of_librdkafka(cluster.secure_files, cluster.bootstrap_servers, name)


def test_librdkafka_writes_and_reads(cluster: Cluster) -> None:
    user(cluster, "rd", "of-rd")
    values, settings = [b"%d" % number * 1000 for number in range(100)], _of_librdkafka(cluster, "rd")
    write_with_librdkafka(settings, "of-rd", values)
    assert read_with_librdkafka(settings, "of-rd", "g-rd", 100) == values


def test_librdkafka_makes_users_and_rules_and_they_hold(cluster: Cluster) -> None:
    """(It has no calls for quotas.)"""
    cluster.create_topic("of-made")
    admin = librdkafka.AdminClient(_of_librdkafka(cluster, "admin"))
    mechanism = librdkafka.ScramMechanism.SCRAM_SHA_512
    info = librdkafka.ScramCredentialInfo(mechanism, 5000)
    made = admin.alter_user_scram_credentials([librdkafka.UserScramCredentialUpsertion("made", info, b"made-secret")])
    made["made"].result(LIMIT_S)

    def is_listed() -> bool:
        found = admin.describe_user_scram_credentials().result(LIMIT_S)
        return "made" in found and [each.iterations for each in found["made"].scram_credential_infos] == [5000]

    wait_until(is_listed, "the user is listed")
    settings = {**_of_librdkafka(cluster, "admin"), "sasl.username": "made", "sasl.password": "made-secret"}
    told: list[Any] = []

    def sent() -> Any:
        producer = confluent_kafka.Producer({**settings, "message.timeout.ms": 5000})
        producer.produce("of-made", b"x", on_delivery=lambda error, _: told.append(error))
        producer.flush(LIMIT_S)
        return told[-1]

    assert sent().code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    kind, pattern = librdkafka.ResourceType, librdkafka.ResourcePatternType
    operation, permission = librdkafka.AclOperation, librdkafka.AclPermissionType
    binding = librdkafka.AclBinding(
        *(kind.TOPIC, "of-m", pattern.PREFIXED, "User:made", "*", operation.WRITE, permission.ALLOW)
    )
    assert admin.create_acls([binding])[binding].result(LIMIT_S) is None
    wait_until(lambda: sent() is None, "the rule lets it in", LIMIT_S)
    powerless = librdkafka.AdminClient(settings)
    with pytest.raises(confluent_kafka.KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        powerless.create_acls([binding])[binding].result(LIMIT_S)
    wanted = librdkafka.AclBindingFilter(
        *(kind.ANY, None, pattern.ANY, "User:made", None, operation.ANY, permission.ANY)
    )
    assert admin.delete_acls([wanted])[wanted].result(LIMIT_S) == [binding]
    deletion = librdkafka.UserScramCredentialDeletion("made", mechanism)
    assert admin.alter_user_scram_credentials([deletion])["made"].result(LIMIT_S) is None


# --- Python -----------------------------------------------------------------------------------------------------------


def _of_python(cluster: Cluster, name: str, topic: str) -> dict[str, Any]:
    authority, password = user(cluster, name, topic)
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": name,
        "sasl_plain_password": password,
        "ssl_context": ssl.create_default_context(cafile=authority),
    }


def test_kafka_python_writes_and_reads(cluster: Cluster) -> None:
    kafka_python = module("kafka")
    settings = _of_python(cluster, "py", "of-py")
    producer = kafka_python.KafkaProducer(**settings)
    producer.send("of-py", b"hello").get(LIMIT_S)
    producer.close()
    consumer = kafka_python.KafkaConsumer(
        "of-py", **settings, auto_offset_reset="earliest", consumer_timeout_ms=LIMIT_S * 1000, group_id="g-py"
    )
    assert next(iter(consumer)).value == b"hello"
    consumer.close()


def test_aiokafka_writes_and_reads(cluster: Cluster) -> None:
    aiokafka = module("aiokafka")
    settings = _of_python(cluster, "aio", "of-aio")

    async def run() -> Any:
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        await producer.send_and_wait("of-aio", b"hello")
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer("of-aio", **settings, auto_offset_reset="earliest", group_id="g-aio")
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), LIMIT_S)
        await consumer.stop()
        return message.value

    assert asyncio.run(run()) == b"hello"


# --- Java -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


@pytest.mark.usefixtures("java")
def test_java_writes_and_reads_and_its_tools_administer(cluster: Cluster) -> None:
    user(cluster, "duke", "of-duke")
    words = "".join(f"value {number}\n" for number in range(100))
    tool(cluster, "duke", "org.apache.kafka.tools.ConsoleProducer", "--topic", "of-duke", words=words)
    where = ("--topic", "of-duke", "--group", "g-duke", "--from-beginning", "--max-messages", "100")
    read = tool(cluster, "duke", "org.apache.kafka.tools.consumer.ConsoleConsumer", *where)
    assert sorted(read.splitlines()) == sorted(words.splitlines())
    rules = tool(cluster, "admin", "org.apache.kafka.tools.AclCommand", "--list", "--topic", "of-duke")
    assert "(principal=User:duke, host=*, operation=ALL, permissionType=ALLOW)" in rules
    of_duke = ("--entity-type", "users", "--entity-name", "duke")
    quota = ("--alter", "--add-config", "producer_byte_rate=1000000")
    tool(cluster, "admin", "kafka.admin.ConfigCommand", *of_duke, *quota)
    shown = tool(cluster, "admin", "kafka.admin.ConfigCommand", *of_duke, "--describe")
    assert "Quota configs for user-principal 'duke' are producer_byte_rate=1000000.0" in shown
    assert "SCRAM credential configs for user-principal 'duke' are SCRAM-SHA-512=iterations=4096" in shown


@pytest.mark.usefixtures("java")
def test_a_broker_of_apache_kafka_and_ours_log_in_to_each_other(tmp_path: pathlib.Path) -> None:
    """They log in by SCRAM, and the JVM to our controller by PLAIN. What it forwards there has its client's name."""
    files = files_of_both(tmp_path, "SASL_SSL")
    own = {**shared(files), "authorizer.class.name": STANDARD_AUTHORIZER}
    with (
        Cluster(1, security="SASL_SSL", timeouts="kafka", properties=own, directory=tmp_path) as cluster,
        JavaBroker(cluster, files) as javas,
        Admin(**cluster.client_settings()) as admin,
    ):
        admin.create_topics([NewTopic("both", replica_assignments={0: [1, 2], 1: [2, 1]})])

        led = {(0, 1, BOTH), (1, 2, BOTH)}
        wait_until(lambda: leaders(admin, "both") == led, "each leads one", LIMIT_S)
        allow(admin, "allow eve ALL TOPIC both", "allow eve CREATE TOPIC eve...")
        eve = {**_of_librdkafka(cluster, "eve"), "bootstrap.servers": javas.bootstrap_servers}
        write_with_librdkafka(eve, "both", [b"%d" % number for number in range(50)], 2)
        assert end_offsets(eve, "both", 2) == [25, 25]
        with Admin(**{**cluster.client_settings("eve"), "bootstrap.servers": javas.bootstrap_servers}) as forwarded:
            forwarded.create_topic("eves", 1, 1)
            with pytest.raises(Exception, match=r"(?i)authori[sz]ation"):
                forwarded.create_topic("of-another", 1, 1)
        assert leaders(admin, "both") == led
