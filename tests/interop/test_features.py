"""Levels of features, shown and changed by Kafka's tool and by pykraft's: on the same cluster both print the same.

The cluster is one of pykraft, and the tool our base's; with `--long` the cluster is also one of Apache Kafka, and the
tool that of the newest release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from pykraft import Cluster
from pykraft.cli import main
from pykraft.common.settings.config import parse_properties
from tests.harness import apache_kafka
from tests.harness.apache_kafka import NEWEST, VERSION, ApacheKafka
from tests.harness.kafka_tools import run_tool

pytestmark = pytest.mark.limit(240)

SERVERS: dict[str, Callable[[], Cluster | ApacheKafka]] = {
    "pykraft": lambda: Cluster(2),
    "apache": lambda: ApacheKafka(nodes=1),
    "newest": lambda: ApacheKafka(nodes=1, version=NEWEST),
}
TOOL = "org.apache.kafka.tools.FeatureCommand"
CALLS = (
    "describe",
    "describe --node-id 1",
    "upgrade --feature group.version=1 --dry-run",
    "downgrade --feature group.version=0 --feature transaction.version=1 --dry-run",
    "downgrade --feature group.version=0 --feature transaction.version=1",
    "describe",
    "upgrade --feature group.version=9",
    "upgrade --feature group.version=9 --dry-run",
    "disable --feature transaction.version",
    "disable --feature of.tomorrow",
    "disable --feature transaction.version --unsafe --dry-run",
    "upgrade --feature transaction.version=2 --feature group.version=1",
    "downgrade --metadata 4.1",
    "downgrade --feature metadata.version=22",
    "downgrade --unsafe --feature metadata.version=22",
    "upgrade --release-version 3.8",
    "describe",
    "upgrade --metadata 4.2",
    "describe",
    "version-mapping",
    "version-mapping --release-version 3.9",
    "version-mapping --release-version 4.0-IV0",
    "feature-dependencies --feature metadata.version=29 --feature eligible.leader.replicas.version=1",
    "feature-dependencies --feature group.version=1 --feature kraft.version=0",
)
"""At the end the levels are what they were before."""
MISTAKES = (
    "upgrade",
    "upgrade --feature group.version",
    "upgrade --feature group.version=x",
    "upgrade --feature group.version=1 --feature group.version=1",
    "upgrade --feature group.version=1 --release-version 4.0",
    "upgrade --release-version 9.9",
    "disable",
    "version-mapping --release-version 3.2",
    "feature-dependencies --feature metadata.version=6",
    "feature-dependencies --feature of.tomorrow=1",
    "feature-dependencies --feature group.version=7",
    "describe --node-id -1",
)
_EPOCH = re.compile(r"Epoch: \d+")


@pytest.fixture(params=["pykraft", *(pytest.param(name, marks=pytest.mark.long) for name in ("apache", "newest"))])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster | ApacheKafka]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with SERVERS[request.param]() as running:
        yield running


@pytest.mark.parametrize("version", [VERSION, pytest.param(NEWEST, marks=pytest.mark.long)])
def test_both_print_the_same(version: str, cluster: Cluster | ApacheKafka, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's tool also speaks with controllers alone, which it finds by their registrations."""
    calls = [["--bootstrap-server", cluster.bootstrap_servers, *call.split()] for call in (*CALLS, *MISTAKES)]
    controllers = ["--bootstrap-controller", controller_address(cluster)]
    *theirs, described, up = run_tool(
        TOOL, [*calls, [*controllers, "describe"], [*controllers, *CALLS[2].split()]], version
    )
    assert (lines(described.out), up.out) == (lines(theirs[0].out), theirs[2].out)
    for call, told in zip(calls, theirs, strict=True):
        newest = ["--release-version", "4.4-IV2"] if version == NEWEST and call[-1] == "version-mapping" else []
        code = main(["features", *call, *newest])  # without a release both tools show the levels of their own
        printed, complaint = capsys.readouterr()
        if version == NEWEST:
            assert words(printed) == words(told.out), call
        else:
            assert lines(printed) == lines(told.out), call
        assert bool(code) == bool(told.complaints.strip()), (call, complaint, told.complaints)
        if "operation(s) failed" in told.complaints:
            assert complaint == f"pykraft: {told.complaints}", call


def controller_address(cluster: Cluster | ApacheKafka) -> str:
    if isinstance(cluster, Cluster):
        text = cluster.properties(1)["listeners"]
    else:
        text = parse_properties((cluster.folder(1) / "server.properties").read_text())["listeners"]
    return dict(listener.split("://") for listener in text.split(","))["CONTROLLER"]


def words(printed: str) -> list[list[str]]:
    """The same, line by line: since 4.4 the tool has columns where it had tabs."""
    return [line.split() for line in lines(printed)]


def lines(printed: str) -> list[str]:
    """What was printed. Kafka 4.2's tool has no names for the levels of 4.3 and 4.4."""
    named = printed.replace("UNKNOWN 33", "4.4-IV2")
    return _EPOCH.sub("Epoch: an offset", named).splitlines()
