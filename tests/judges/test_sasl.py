"""Logins, judged by Apache Kafka and by other clients: wrong exchanges are answered alike, Java's console clients, its
kafka-configs, librdkafka, kafka-python and aiokafka log in here, and our clients and commands there.
"""

from __future__ import annotations

import asyncio
import difflib
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka import admin as librdkafka

from pykraft import Admin, Consumer, Producer
from pykraft.cli import main
from pykraft.client.errors import AuthenticationError
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, VERSION, ApacheKafka, free_ports, java_command
from tests.harness.kafka_tools import run_tool
from tests.harness.others import module
from tests.harness.sasl_nodes import (
    ALICE,
    EVERY_MECHANISM,
    FIRST,
    SECRET,
    client_login,
    sasl_nodes,
    sasl_properties,
)
from tests.harness.sasl_sequences import ANSWERS, answers
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

CONFIGS = "kafka.admin.ConfigCommand"
JAVA_S = 60


class Server(NamedTuple):
    """A node of either kind, and its listener with SASL."""

    name: str
    address: str


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with sasl_nodes(tmp_path_factory.mktemp("sasl")) as nodes:
        yield Server("pykraft", nodes.address())


@pytest.fixture(scope="module")
def theirs() -> Iterator[Server]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    plain, clients, controller = free_ports(3)
    addresses = f"PLAINTEXT://127.0.0.1:{plain},CLIENTS://127.0.0.1:{clients}"
    properties = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        **{name: value for name, value in sasl_properties().items() if ".clients." in name},
    }
    options = [part for each in FIRST for part in ("--add-scram", each)]
    with ApacheKafka(
        1, properties, java_options=QUICK_START, format_options=options, ports=(plain, controller)
    ) as kafka:
        yield Server("apache", f"127.0.0.1:{clients}")
        assert kafka.nodes


@pytest.fixture(scope="module", params=["pykraft", "apache"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("ours" if request.param == "pykraft" else "theirs")


@pytest.fixture
def login_file(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "client.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in client_login("SCRAM-SHA-512").items()))
    return file


def test_wrong_exchanges_are_answered_as_apache_kafka_answers_them(server: Server) -> None:
    found = answers(server.address)
    lines = difflib.unified_diff(
        ANSWERS.splitlines(), found.splitlines(), "written down", server.name, n=4, lineterm=""
    )
    assert found == ANSWERS, "\n".join(lines)


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM)
def test_our_clients_log_in(server: Server, mechanism: str) -> None:
    settings = {"bootstrap_servers": server.address, **client_login(mechanism)}
    topic = f"ours-{mechanism.lower()}"
    with Admin(**settings) as admin:
        admin.create_topic(topic, 1, 1)
    with Producer(**settings) as producer:
        producer.send(topic, value=b"hello").result()
    with Consumer(**settings, auto_offset_reset="earliest", group_id="ours") as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: bool(consumer.poll(1)), "the record is read")
    for wrong in ({"password": "wrong"}, {"user": "nobody"}):
        client = Admin(bootstrap_servers=server.address, **client_login(mechanism, **wrong))
        with client, pytest.raises(AuthenticationError, match="Authentication failed"):
            client.list_topics()


def test_our_command_and_kafkas_tool_set_and_show_the_same_passwords(
    server: Server, login_file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--bootstrap-server", server.address, "--command-config", str(login_file), "--entity-type", "users"]
    of_judge = [*common, "--entity-name", "judge"]
    for number, run in enumerate(("ours", "theirs")):
        say = [
            *of_judge,
            "--alter",
            "--add-config",
            f"SCRAM-SHA-256=[iterations={5000 + number},password=pass{number}]",
        ]
        if run == "ours":
            assert main(["configs", *say]) == 0
            ours_out = capsys.readouterr().out
        else:
            (told,) = run_tool(CONFIGS, [say])
            assert told.out == ours_out == "Completed updating config for user judge.\n", told.complaints
        expected = f"SCRAM credential configs for user-principal 'judge' are SCRAM-SHA-256=iterations={5000 + number}\n"

        def is_shown(expected: str = expected) -> bool:
            assert main(["configs", *of_judge, "--describe"]) == 0
            return capsys.readouterr().out == expected

        wait_until(is_shown, "the credential is shown")
        with Admin(
            bootstrap_servers=server.address, **client_login("SCRAM-SHA-256", "judge", f"pass{number}")
        ) as admin:
            admin.list_topics()
    (told,) = run_tool(CONFIGS, [[*of_judge, "--describe"]])
    assert told.out == expected
    assert main(["configs", *of_judge, "--alter", "--delete-config", "SCRAM-SHA-256"]) == 0


def test_javas_console_clients_log_in(ours: Server, tmp_path: pathlib.Path) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    for mechanism in EVERY_MECHANISM:
        file = tmp_path / f"{mechanism}.properties"
        file.write_text("\n".join(f"{name}={value}" for name, value in client_login(mechanism).items()))
        common = ["--bootstrap-server", ours.address, "--topic", f"java-{mechanism.lower()}"]
        written = run_java(
            "org.apache.kafka.tools.ConsoleProducer", *common, "--command-config", str(file), said="hi\n"
        )
        assert not written.returncode, written.stderr
        read = run_java(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *common,
            *("--command-config", str(file), "--from-beginning", "--max-messages", "1"),
        )
        assert read.stdout == "hi\n", read.stderr


def run_java(tool: str, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    command = java_command(VERSION, tool, *arguments)
    return subprocess.run(command, check=False, input=said, capture_output=True, text=True, timeout=JAVA_S)


def librdkafka_login(ours: Server, mechanism: str, password: str = SECRET) -> dict[str, Any]:
    return {
        "bootstrap.servers": ours.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": ALICE,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM)
def test_librdkafka_logs_in(ours: Server, mechanism: str) -> None:
    settings, topic = librdkafka_login(ours, mechanism), f"rd-{mechanism.lower()}"
    producer = confluent_kafka.Producer(settings)
    producer.produce(topic, b"hello")
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Any] = []

    def has_come() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value())
        return bool(found)

    wait_until(has_come, "the record is read")
    consumer.close()
    heard: list[Any] = []
    wrong = confluent_kafka.Producer({**librdkafka_login(ours, mechanism, "wrong"), "error_cb": heard.append})

    def is_refused() -> bool:
        wrong.poll(0.1)
        return any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in heard)

    wait_until(is_refused, "librdkafka says that the login failed")


def test_librdkafka_sets_lists_and_deletes_credentials(ours: Server) -> None:
    client = librdkafka.AdminClient(librdkafka_login(ours, "SCRAM-SHA-256"))
    mechanism = librdkafka.ScramMechanism.SCRAM_SHA_512
    info = librdkafka.ScramCredentialInfo(mechanism, 7000)
    upsertion = librdkafka.UserScramCredentialUpsertion("rd", info, b"rd-secret")
    client.alter_user_scram_credentials([upsertion])["rd"].result(20)

    def is_listed() -> bool:
        found = client.describe_user_scram_credentials().result(20)
        return "rd" in found and [each.iterations for each in found["rd"].scram_credential_infos] == [7000]

    wait_until(is_listed, "it is listed")
    with Admin(bootstrap_servers=ours.address, **client_login("SCRAM-SHA-512", "rd", "rd-secret")) as admin:
        admin.list_topics()
    deletion = librdkafka.UserScramCredentialDeletion("rd", mechanism)
    client.alter_user_scram_credentials([deletion])["rd"].result(20)
    with pytest.raises(confluent_kafka.KafkaException, match="does not exist"):
        client.alter_user_scram_credentials([deletion])["rd"].result(20)
    few = librdkafka.ScramCredentialInfo(mechanism, 4095)
    with pytest.raises(confluent_kafka.KafkaException, match="Too few iterations"):
        client.alter_user_scram_credentials([librdkafka.UserScramCredentialUpsertion("rd", few, b"x")])["rd"].result(20)


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM)
def test_kafka_python_logs_in(ours: Server, mechanism: str) -> None:
    kafka_python = module("kafka")
    topic = f"python-{mechanism.lower()}"
    settings = {
        "bootstrap_servers": ours.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": ALICE,
        "sasl_plain_password": SECRET,
    }
    producer = kafka_python.KafkaProducer(**settings)
    producer.send(topic, b"hello").get(20)
    producer.close()
    consumer = kafka_python.KafkaConsumer(
        topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=20_000, group_id=topic
    )
    assert next(iter(consumer)).value == b"hello"
    consumer.close()


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM)
def test_aiokafka_logs_in(ours: Server, mechanism: str) -> None:
    aiokafka = module("aiokafka")
    topic = f"aio-{mechanism.lower()}"
    settings: dict[str, Any] = {
        "bootstrap_servers": ours.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": ALICE,
        "sasl_plain_password": SECRET,
    }

    async def run() -> Any:
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        await producer.send_and_wait(topic, b"hello")
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest", group_id=topic)
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), 20)
        await consumer.stop()
        return message.value

    assert asyncio.run(run()) == b"hello"
