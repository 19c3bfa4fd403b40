"""Kafka's tools and pykraft's with ``--bootstrap-controller``, on controllers of pykraft and of Apache Kafka.

On each cluster both print the same lines, and Kafka's tools print the same on both clusters but for numbers and ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pykraft import Admin
from pykraft.cli import main
from pykraft.controller.features import SUPPORTED_FEATURES
from tests.conformance.servers import NODES, ApacheServer, PykraftServer, Server
from tests.harness import apache_kafka
from tests.harness.kafka_tools import run_tools

pytestmark = [pytest.mark.limit(240), pytest.mark.long]

TOOLS = {
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
TOPIC = "moved"
ANSWERED = (
    "metadata-quorum ASKED describe --status",
    "metadata-quorum ASKED describe --replication",
    "metadata-quorum ASKED describe --replication --human-readable",
    "cluster cluster-id ASKED",
    "cluster list-endpoints ASKED",
    "features ASKED describe",
    "features ASKED describe --node-id 2",
    "features ASKED upgrade --feature group.version=1 --dry-run",
    "configs ASKED --describe --broker-defaults",
    "configs ASKED --alter --broker-defaults --add-config log.retention.ms=60000,message.max.bytes=2000000",
    "configs ASKED --alter --broker-defaults --delete-config message.max.bytes",
    "configs ASKED --describe --broker-defaults",
    "configs ASKED --alter --entity-type brokers --entity-name 3 --add-config log.retention.ms=70000",
    "configs ASKED --describe --broker 3",
    "configs ASKED --describe --entity-type brokers",
    "configs ASKED --alter --broker 3 --delete-config log.retention.ms",
    "configs ASKED --alter --broker-defaults --delete-config log.retention.ms",
    "configs ASKED --alter --topic moved --add-config retention.ms=5000",
    "configs ASKED --alter --topic moved --delete-config retention.ms",
    "configs ASKED --describe --broker 9",
    "reassign-partitions ASKED --list",
    "reassign-partitions ASKED --cancel --reassignment-json-file FILE",
)
REFUSED = {
    "cluster list-endpoints ASKED --include-fenced-brokers": "--include-fenced-brokers is",
    "cluster unregister ASKED --id 9": "Broker ID 9 is not currently registered|no broker 9 is registered",
    "configs ASKED --describe --topic moved": "communicating directly with the controller|controllers are not asked",
    "reassign-partitions ASKED --verify --reassignment-json-file FILE": r"bootstrap-controller",
}
"""What both refuse, and in which words."""
_MOVES = re.compile(
    r"\b\d{13}\b|\d+ ms ago|((?:HighWatermark|LagTimeMs|FollowerLag|Epoch):\s+)\d+|(\t)\d+ +\t\d+ +(?=\t)"
)
_OWN = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])|\d+")
_DIRECTORY_ID = re.compile(r'"directoryId": "[\w-]+", ')
"""Apache Kafka's voters have none here: they are those of ``controller.quorum.voters``."""


@pytest.fixture(params=[PykraftServer, ApacheServer])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with closing(request.param()) as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, 1, 3)
        yield running


printed_by: dict[str, list[list[str]]] = {}
"""What Kafka's tools printed, by cluster."""


def test_both_print_the_same(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "moves.json"
    file.write_text(f'{{"version": 1, "partitions": [{{"topic": "{TOPIC}", "partition": 0, "replicas": [1, 2]}}]}}')
    controllers = ",".join(map(server.controller_address, NODES))
    words = {"ASKED": f"--bootstrap-controller {controllers}", "FILE": str(file)}

    def calls(texts: Sequence[str]) -> list[list[str]]:
        return [_replaced(text, words).split() for text in texts]

    ours = []
    for call in calls(ANSWERED):
        assert main(call) == 0, (call, capsys.readouterr().err)
        ours.append(_lines(capsys.readouterr().out))
    theirs = run_tools([(TOOLS[verb], rest) for verb, *rest in calls(ANSWERED)])
    for text, told, lines in zip(ANSWERED, theirs, ours, strict=True):
        assert _lines(told.out) == lines, (text, told.complaints)
    refusals = run_tools([(TOOLS[verb], rest) for verb, *rest in calls(tuple(REFUSED))])
    for call, (told, says) in zip(calls(tuple(REFUSED)), zip(refusals, REFUSED.values(), strict=True), strict=True):
        assert main(call) == 1
        assert re.search(says, capsys.readouterr().err), call
        assert re.search(says, told.out + told.complaints), call
    printed_by[server.name] = [_without_own(told.out) for told in theirs]


def test_kafkas_tools_print_the_same_on_both_clusters() -> None:
    if len(printed_by) < 2:
        pytest.skip("the two clusters were not asked in this run")
    pairs = zip(ANSWERED, printed_by["pykraft"], printed_by["apache"], strict=True)
    assert {text: (here, there) for text, here, there in pairs if here != there} == {}


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _lines(printed: str) -> list[list[str]]:
    """The words of each line, without what changes from call to call. The order of the lines is of no meaning. Kafka's
    tool ends one sentence without a new line."""
    printed = printed.replace("moves are active.", "moves are active.\n")
    replaced: Callable[[re.Match[str]], str] = lambda found: f"{found[1] or found[2] or ''}~"  # noqa: E731
    return sorted(_MOVES.sub(replaced, line).split() for line in printed.splitlines() if line.strip())


def _without_own(printed: str) -> list[str]:
    """The words of each line without numbers and ids; of features, those that both clusters have."""
    lines = []
    for line in printed.splitlines():
        feature = re.match(r"Feature: (\S+)", line)
        if line.strip() and (feature is None or feature[1] in SUPPORTED_FEATURES):
            lines.append(" ".join(_OWN.sub("~", _DIRECTORY_ID.sub("", line)).split()))
    return sorted(lines)
