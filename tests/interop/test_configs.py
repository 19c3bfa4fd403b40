"""Settings, asked for and changed by clients of other hands: what one changes, all see."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka.admin as confluent
import pytest

from pykraft import Admin, AlterConfigOp, ConfigResource, ConfigResourceType
from pykraft.cli import main
from pykraft.protocol.messages.configs import Operation
from tests.harness import apache_kafka
from tests.harness.apache_kafka import java_command
from tests.harness.kafka_tools import run_tool
from tests.harness.others import module
from tests.interop.test_others import make_topic, wait_until

ASKED = ("retention.ms", "cleanup.policy", "segment.bytes")

Told = Mapping[str, str]
Client = tuple[Callable[[str, str, str, str], None], Callable[[str, str], Told]]
"""How it sets one setting of a topic, and how it asks for all of them."""


def _pykraft_set(servers: str, topic: str, name: str, value: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.incremental_alter_configs({ConfigResource(ConfigResourceType.TOPIC, topic): {name: value}})


def _pykraft_ask(servers: str, topic: str) -> Told:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    with Admin(bootstrap_servers=servers) as admin:
        return {name: entry.value or "" for name, entry in admin.describe_configs([resource])[resource].items()}


def _confluent_set(servers: str, topic: str, name: str, value: str) -> None:
    entry = confluent.ConfigEntry(name, value, incremental_operation=confluent.AlterConfigOpType.SET)
    resource = confluent.ConfigResource(confluent.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = confluent.AdminClient({"bootstrap.servers": servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def _confluent_ask(servers: str, topic: str) -> Told:
    resource = confluent.ConfigResource(confluent.ConfigResource.Type.TOPIC, topic)
    return {name: entry.value for name, entry in _confluent_describe(servers, resource).items()}


def _confluent_describe(servers: str, resource: Any) -> Any:
    admin = confluent.AdminClient({"bootstrap.servers": servers})
    (future,) = admin.describe_configs([resource]).values()
    return future.result(30)


def _kafka_python_set(servers: str, topic: str, name: str, value: str) -> None:
    kafka = module("kafka.admin")
    admin = module("kafka").KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.alter_configs([kafka.ConfigResource(kafka.ConfigResourceType.TOPIC, topic, {name: value})])
    finally:
        admin.close()


def _kafka_python_ask(servers: str, topic: str) -> Told:
    kafka = module("kafka.admin")
    admin = module("kafka").KafkaAdminClient(bootstrap_servers=servers)
    try:
        resource = kafka.ConfigResource(kafka.ConfigResourceType.TOPIC, topic)
        told: Any = admin.describe_configs([resource], config_filter="all")
        return {name: entry["value"] for name, entry in told["topic"][topic].items()}
    finally:
        admin.close()


def _aiokafka_set(servers: str, topic: str, name: str, value: str) -> None:
    """The older way, which replaces all settings of the topic."""
    aiokafka = module("aiokafka.admin.config_resource")
    resource = aiokafka.ConfigResource(aiokafka.ConfigResourceType.TOPIC, topic, {name: value})
    asyncio.run(_with_aiokafka(servers, lambda admin: admin.alter_configs([resource])))


def _aiokafka_ask(servers: str, topic: str) -> Told:
    aiokafka = module("aiokafka.admin.config_resource")
    resource = aiokafka.ConfigResource(aiokafka.ConfigResourceType.TOPIC, topic)
    (response,) = asyncio.run(_with_aiokafka(servers, lambda admin: admin.describe_configs([resource])))
    return {config[0]: config[1] for config in response.resources[0][4]}


async def _with_aiokafka(servers: str, call: Callable[[Any], Any]) -> Any:
    admin = module("aiokafka.admin").AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        return await call(admin)
    finally:
        await admin.close()


CLIENTS: Mapping[str, Client] = {
    "pykraft": (_pykraft_set, _pykraft_ask),
    "confluent-kafka": (_confluent_set, _confluent_ask),
    "kafka-python": (_kafka_python_set, _kafka_python_ask),
    "aiokafka": (_aiokafka_set, _aiokafka_ask),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_one_client_changes_all_see(servers: str, client: str) -> None:
    topic = make_topic(servers, f"configs-{client}", 1)
    change, _ = CLIENTS[client]
    change(servers, topic, "retention.ms", "86400000")
    expected = ["86400000", "delete", "1073741824"]
    for name, (_, ask) in CLIENTS.items():
        wait_until(lambda ask=ask: [ask(servers, topic)[key] for key in ASKED] == expected)  # type: ignore[misc]
        assert len(ask(servers, topic)) == 37, name


def test_brokers_tell_their_settings_to_librdkafka(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        defaults = ConfigResource(ConfigResourceType.BROKER, "")
        change = AlterConfigOp("log.cleanup.policy", "compact", Operation.APPEND)
        admin.incremental_alter_configs({defaults: [change]})
        admin.incremental_alter_configs({defaults: {"log.cleanup.policy": None}})
    resource = confluent.ConfigResource(confluent.ConfigResource.Type.BROKER, "2")
    told = _confluent_describe(servers, resource)
    assert (told["node.id"].value, told["node.id"].is_read_only) == ("2", True)
    assert (told["log.cleanup.policy"].value, told["log.cleanup.policy"].is_read_only) == ("delete", False)


def test_kafkas_own_tool_changes_and_shows_settings(servers: str) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    topic = make_topic(servers, "configs-java", 1)

    def tool(*arguments: str) -> list[str]:
        line = java_command(
            apache_kafka.VERSION, "kafka.admin.ConfigCommand", "--bootstrap-server", servers, *arguments
        )
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    added = "retention.ms=1000,cleanup.policy=[compact,delete]"
    assert tool("--alter", "--topic", topic, "--add-config", added, "--delete-config", "min.insync.replicas") == [
        f"Completed updating config for topic {topic}."
    ]
    wait_until(lambda: _pykraft_ask(servers, topic)["retention.ms"] == "1000")
    policies = "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete"
    assert tool("--describe", "--topic", topic) == [
        f"Dynamic configs for topic {topic} are:",
        f"  cleanup.policy=compact,delete sensitive=false synonyms={{{policies}}}",
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
    ]


@pytest.mark.long
def test_kafkas_own_tool_and_ours_print_the_same_of_groups(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)

    def theirs(*calls: str) -> list[str]:
        arguments = [["--bootstrap-server", servers, *call.split()] for call in calls]
        return [told.out for told in run_tool("kafka.admin.ConfigCommand", arguments)]

    def ours(call: str) -> str:
        capsys.readouterr()
        main(["configs", "--bootstrap-server", servers, *call.split()])
        return capsys.readouterr().out

    changed = "--alter --entity-type groups --entity-name g --add-config consumer.heartbeat.interval.ms=6000"
    done = "Completed updating config for group g.\n"
    assert theirs(changed) == [done]
    describes = ["--describe --group g", "--describe --group none", "--describe --entity-type groups"]
    wait_until(lambda: "=6000" in ours(describes[0]))
    assert theirs(*describes) == [ours(call) for call in describes]
    assert ours("--alter --group g --delete-config consumer.heartbeat.interval.ms") == done
    wait_until(lambda: "=6000" not in theirs(describes[0])[0])
