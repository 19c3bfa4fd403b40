"""Kafka's tools that ask about a cluster or measure it, and pykraft's: on the same cluster both print the same.

The cluster is one of pykraft; with `--long` also one of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from pykraft import Admin, Cluster
from pykraft.cli import main
from pykraft.protocol.api import apis
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.kafka_tools import run_tools

pytestmark = pytest.mark.limit(240)

SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.max.retention.bytes": "1",
}
"""The metadata log begins with a snapshot."""
SERVERS: dict[str, Callable[[], Cluster | ApacheKafka]] = {
    "pykraft": lambda: Cluster(3, properties=SNAPSHOTS),
    "apache": lambda: ApacheKafka(nodes=2),
}
TOPIC = "measured"
TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
}
_SENT = "producer-perf-test --bootstrap-server SERVERS --topic measured --num-records 900 --throughput"
_READ = "consumer-perf-test --bootstrap-server SERVERS --topic measured --num-records"
_ELECT = "leader-election --bootstrap-server SERVERS --topic measured --partition"
CALLS = (
    f"{_ELECT} 0 --election-type preferred",
    f"{_ELECT} 1 --election-type UNCLEAN",
    "metadata-quorum --bootstrap-server SERVERS describe --status",
    "metadata-quorum --bootstrap-server SERVERS describe --replication",
    "metadata-quorum --bootstrap-server SERVERS describe --replication --human-readable",
    "cluster cluster-id --bootstrap-server SERVERS",
    "cluster list-endpoints --bootstrap-server SERVERS",
    "cluster list-endpoints --bootstrap-server SERVERS --include-fenced-brokers",
    "broker-api-versions --bootstrap-server SERVERS",
    "topics --bootstrap-server SERVERS --describe --topic measured",
    "topics --bootstrap-server SERVERS --describe --topic measured --partition-size-limit-per-response 1",
    f"{_SENT} -1 --record-size 100",
    f"{_SENT} 1500 --payload-monotonic --warmup-records 300 --reporting-interval 600000",
    f"{_SENT} -1 --record-size 10 --transaction-duration-ms 50 --command-property linger.ms=1 acks=all",
    f"{_READ} 500",
    f"{_READ} 500 --hide-header --from-latest --timeout 300",
)
_MOVES = re.compile(r"\b\d{13}\b|\d+ ms ago|((?:HighWatermark|LagTimeMs|FollowerLag): +)\d+|(\t)\d+ +\t\d+ +(?=\t)")
"""Times, and offsets of a metadata log that grows: between two calls they change."""
_FIGURES = re.compile(
    r"\d+\.\d+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d\d\d|(?<=[ (])\d+(?= ms )|(?<=, )\d+(?=,|$)", re.MULTILINE
)
"""What is measured."""
_NEWER_SINCE = ("ApiVersions", "DeleteGroups", "DescribeLogDirs", "TxnOffsetCommit", "UnregisterController", "UNKNOWN")
"""Kafka 4.3 and 4.4 have a version more of these, or have them at all."""


@pytest.fixture(params=["pykraft", pytest.param("apache", marks=pytest.mark.long)])
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with SERVERS[request.param]() as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, 2, 1)
        yield cluster.bootstrap_servers


def test_both_print_the_same(bootstrap_servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [call.replace("SERVERS", bootstrap_servers).split() for call in CALLS]
    theirs = run_tools([(TOOLS[verb], arguments) for verb, *arguments in calls])
    for call, told in zip(calls, theirs, strict=True):
        assert main(call) == 0
        printed = capsys.readouterr().out
        assert told.out.strip(), told.complaints
        form = _figures if "perf-test" in call[0] else _rows
        assert form(printed) == form(told.out), call


def _rows(printed: str) -> list[list[str]]:
    """The words of each line, without what changes, and without APIs that one of the two clients does not have. The
    order of the lines is of no meaning."""
    still = (_MOVES.sub(lambda found: f"{found[1] or found[2] or ''}~", line) for line in printed.splitlines())
    return sorted(line.replace(",", " ").split() for line in still if line.strip() and not _is_foreign(line))


def _is_foreign(line: str) -> bool:
    """Kafka 4.2's tool can use no newer version than it knows."""
    key = re.match(r"\t(\w+)\((\d+)\): ", line)
    return key is not None and (int(key[2]) not in apis or "UNSUPPORTED" in line or key[1] in _NEWER_SINCE)


def _figures(printed: str) -> list[str]:
    """The lines, with a sign in the place of each figure."""
    return _FIGURES.sub("~", printed).splitlines()
