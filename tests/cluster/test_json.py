"""``--json``: each command that lists or describes prints one line for programs, with what its text says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykraft import Cluster, Consumer, Producer
from pykraft.cli import main
from pykraft.client.administration.admin import NewTopic
from pykraft.commands.as_json import plain
from pykraft.common.acl import AclBinding, AclOperation, AclPermissionType, AclResourceType, PatternType

TOPIC, GROUP = "tolls", "clerks"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as running:
        with running.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, 2, 1, topic_configs={"retention.ms": "60000"})])
        with Producer(bootstrap_servers=running.bootstrap_servers, transactional_id="bank") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(TOPIC, value=b"one", partition=0)
            producer.commit_transaction()
        with Consumer(
            TOPIC, bootstrap_servers=running.bootstrap_servers, group_id=GROUP, auto_offset_reset="earliest"
        ) as consumer:
            while not consumer.poll(timeout_ms=1000):
                pass
            consumer.commit()
        yield running


def said(cluster: Cluster, capsys: pytest.CaptureFixture[str], words: str) -> Any:
    verb, *arguments = words.split()
    own = arguments[:1] if verb == "cluster" else []
    at = ["--bootstrap-server", cluster.bootstrap_servers]
    assert main([verb, *own, *at, *arguments[len(own) :], "--json"]) == 0, capsys.readouterr()
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        ("topics --list", ("topics",), ["__consumer_offsets", "__transaction_state", TOPIC]),
        (f"topics --describe --topic {TOPIC}", ("topics", 0, "configs", "retention.ms"), "60000"),
        (f"topics --describe --topic {TOPIC}", ("topics", 0, "partitions", 1, "isr"), [1]),
        ("topics --describe --unavailable-partitions", ("topics",), []),
        ("groups --list", ("groups", 0, "group"), GROUP),
        ("consumer-groups --list", ("groups", 0, "state"), "Empty"),
        (f"consumer-groups --describe --group {GROUP}", ("groups", 0, "offsets", 0, "lag"), 0),
        (f"consumer-groups --describe --group {GROUP} --members", ("groups", 0, "members"), []),
        (f"configs --describe --topic {TOPIC}", ("topics", TOPIC, 0, "value"), "60000"),
        (
            "configs --describe --broker 1 --all",
            ("brokers", "1", 0, "name"),
            "add.partitions.to.txn.retry.backoff.max.ms",
        ),
        ("features describe", ("finalized_features", "kraft.version"), 1),
        ("metadata-quorum describe --status", ("leader_id",), 1),
        ("metadata-quorum describe --replication", ("voters", 0, "replica_id"), 1),
        ("cluster list-endpoints", ("brokers", 0, "id"), 1),
        ("broker-api-versions", ("brokers", 0, "apis", 0, "name"), "Produce"),
        (f"get-offsets --topic {TOPIC}", ("offsets", f"{TOPIC}-0", "offset"), 2),
        ("transactions list", ("transactions", 0, "transactional_id"), "bank"),
        ("transactions describe --transactional-id bank", ("state",), "CompleteCommit"),
        (
            f"transactions describe-producers --topic {TOPIC} --partition 0",
            ("producers", 0, "current_transaction_start_offset"),
            None,
        ),
        (f"transactions find-hanging --topic {TOPIC}", ("transactions",), []),
        ("reassign-partitions --list", ("reassignments",), {}),
    ],
)
def test_a_line_of_json_has_what_the_text_says(
    words: str, path: tuple[str | int, ...], value: object, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(cluster, capsys, words)
    for step in path:
        found = found[step]
    assert found == value


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("topics --delete --topic t --json", "--json is for --list and --describe, not for --delete"),
        ("consumer-groups --delete --group g --json", "--json is for --list and --describe, not for --delete"),
        ("configs --describe --user ann --json", "--json is for --describe of topics, groups or brokers"),
        ("acls --add --topic t --producer --allow-principal User:ann --json", "--json is for --list"),
        ("reassign-partitions --verify --reassignment-json-file f --json", "--json is for --list"),
    ],
)
def test_an_action_that_shows_nothing_has_no_json(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert told in capsys.readouterr().err


def test_a_rule_of_access_has_the_names_of_its_parts() -> None:
    kinds = AclResourceType.TOPIC, TOPIC, PatternType.LITERAL
    rule = AclBinding(*kinds, "User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW)
    assert plain(rule)["operation"] == "READ" and plain(rule)["resource_name"] == TOPIC
