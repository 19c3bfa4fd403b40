"""Kafka's kafka-reassign-partitions.sh and pykraft's reassign-partitions on a cluster of pykraft: the same session with
each of the two prints the same lines.

Broker 3 cannot reach broker 2, so partitions that broker 2 leads and that are to go to broker 3 stay on their way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pykraft import Cluster, NewTopic
from pykraft.cli import main
from tests.harness import apache_kafka
from tests.harness.kafka_tools import run_tools

pytestmark = [pytest.mark.limit(240), pytest.mark.long]

TOOLS = {
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
}
NOW = {0: [2, 1], 1: [1, 2]}
WANTED: dict[str, Mapping[int, Sequence[int]]] = {
    "order": {1: [2, 1]},
    "stuck": {0: [3, 2], 1: [2, 1]},
    "more": {1: [2, 1, 3]},
    "elsewhere": {0: [2]},
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, controllers=1, timeouts="kafka") as running, running.admin() as admin:
        admin.create_topics([NewTopic(name, replica_assignments=NOW) for name in ("theirs", "ours")])
        running.wait_until_known("ours", 2)
        yield running


def written(folder: Path, topic: str, cluster: Cluster) -> dict[str, str]:
    """The files of the session, about this topic. In one the replicas have log directories, as in what `--execute`
    prints."""
    directories = [str(cluster.node_directory(node)) for node in (1, 2)]
    files = {"topics": json.dumps({"version": 1, "topics": [{"topic": topic}]})}
    for name, wanted in WANTED.items():
        partitions = [{"topic": topic, "partition": number, "replicas": wanted[number]} for number in wanted]
        files[name] = json.dumps({"version": 1, "partitions": partitions})
    placed = {"topic": topic, "partition": 1, "replicas": [1, 2], "log_dirs": directories}
    files["placed"] = json.dumps({"version": 1, "partitions": [placed]})
    for name, text in files.items():
        (folder / f"{topic}-{name}.json").write_text(text)
    return {name: str(folder / f"{topic}-{name}.json") for name in files}


def session(cluster: Cluster, topic: str, files: Mapping[str, str]) -> list[list[str]]:
    reached = ["--bootstrap-server", cluster.bootstrap_servers]

    def call(action: str, file: str = "", *rest: str) -> list[str]:
        named = ["--reassignment-json-file", files[file]] if file else []
        return ["reassign-partitions", *reached, f"--{action}", *named, *rest]

    throttles = [["configs", *reached, "--describe", "--topic", topic]]
    throttles += [["configs", *reached, "--describe", "--broker", broker] for broker in ("1", "2", "3")]

    return [
        call("list"),
        call("generate", "", "--topics-to-move-json-file", files["topics"], "--broker-list", "1,2,3"),
        call("execute", "order"),
        call("verify", "elsewhere", "--preserve-throttles"),
        call("verify", "order"),
        call("execute", "placed", "--replica-alter-log-dirs-throttle", "70000"),
        *throttles,
        call("verify", "placed", "--preserve-throttles"),
        *throttles,
        call("verify", "placed"),
        *throttles,
        call("execute", "stuck", "--throttle", "50000"),
        *throttles,
        call("execute", "stuck", "--additional", "--throttle", "60000"),
        *throttles,
        call("list"),
        ["topics", *reached, "--describe", "--topic", topic],
        ["topics", *reached, "--describe", "--under-replicated-partitions"],
        call("verify", "stuck"),
        call("verify", "more"),
        call("execute", "more", "--additional", "--disallow-replication-factor-change"),
        call("execute", "elsewhere", "--additional"),
        call("cancel", "stuck"),
        *throttles,
        call("execute", "stuck"),
        call("cancel", "stuck", "--preserve-throttles"),
        call("list"),
    ]


def lines(printed: str, topic: str) -> list[str]:
    """What was printed, without what cannot be the same: the topic's name, its id, and proposals,
    which are drawn by lot, and the order of settings. Kafka's tool ends one sentence without a new line."""
    text = printed.replace(topic, "TOPIC").replace("moves are active.", "moves are active.\n").rstrip()
    text = re.sub(r"(?<=configuration\n).*", _proposal, text)
    text = re.sub(r"(?<=TopicId: )\S+", "ID", text)
    text = re.sub(r"(?<=Configs: ).*", lambda found: ",".join(sorted(re.split(r",(?=[a-z])", found[0]))), text)
    return [line for line in text.splitlines() if line]


def _proposal(found: re.Match[str]) -> str:
    """The proposal without its choice, which must be one of two different brokers for each partition."""
    content = json.loads(found[0])
    for each in content["partitions"]:
        assert len(set(each["replicas"])) == 2 and set(each["replicas"]) <= {1, 2, 3}
        each["replicas"] = []
    return json.dumps(content)


def test_both_tools_print_the_same_session(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    cluster.disconnect(2, 3)
    theirs = run_tools(
        [(TOOLS[verb], call) for verb, *call in session(cluster, "theirs", written(tmp_path, "theirs", cluster))]
    )
    expected = [lines(told.out, "theirs") for told in theirs]
    with cluster.admin() as admin:
        assert not admin.list_partition_reassignments()
    found = []
    for call in session(cluster, "ours", written(tmp_path, "ours", cluster)):
        capsys.readouterr()
        code = main(call)
        printed = capsys.readouterr()
        found.append((code, lines(printed.out, "ours"), printed.err))
    refused = [number for number, (code, _, _) in enumerate(found) if code]
    assert [found[number][2].split(":")[1].strip() for number in refused] == ["partitions are not reassigned"]
    (number,) = refused
    assert "INVALID_REPLICATION_FACTOR" in found[number][2] and "Error reassigning partition(s):" in expected[number]
    assert [out for at, (_, out, _) in enumerate(found) if at != number] == [
        out for at, out in enumerate(expected) if at != number
    ]
