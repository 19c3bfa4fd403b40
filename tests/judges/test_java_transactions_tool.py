"""Kafka's own tool for transactions on a node of pykraft: it lists, describes, finds what hangs, and aborts that.

With `--long` it must print the same of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from pykraft import Admin, Cluster, Producer
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.kafka_tools import run_tool
from tests.harness.waiting import wait_until
from tests.interop.test_transactions import PROPERTIES, TOOL, UNVERIFIED, Server, apache, hang

pytestmark = pytest.mark.limit(240)

SERVERS: dict[str, Callable[[], Cluster | ApacheKafka]] = {
    "pykraft": lambda: Cluster(1, properties=PROPERTIES | UNVERIFIED),
    "apache": apache(2, PROPERTIES | UNVERIFIED),
}
TOPIC = "shown"


@pytest.fixture(params=["pykraft", pytest.param("apache", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with SERVERS[request.param]() as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, 2, 1)

            def is_led() -> bool:
                return all(each.leader >= 0 for each in admin.describe_topics([TOPIC])[TOPIC].partitions)

            wait_until(is_led, "the topic has leaders", 30)
        yield Server(request.param, cluster.bootstrap_servers)


CALLS = (
    "list",
    "list --transactional-id-pattern no.*",
    "describe --transactional-id open",
    f"describe-producers --topic {TOPIC} --partition 0",
    f"find-hanging --topic {TOPIC}",
    f"abort --topic {TOPIC} --partition 0 --start-offset 77",
    f"abort --topic {TOPIC} --partition 0 --start-offset 3",
    f"find-hanging --topic {TOPIC}",
    f"describe-producers --topic {TOPIC} --partition 0",
)
TABLES = """
TransactionalId|Coordinator|ProducerId|TransactionState
open|1|0|Ongoing

TransactionalId|Coordinator|ProducerId|TransactionState

CoordinatorId|TransactionalId|ProducerId|ProducerEpoch|TransactionState|TransactionTimeoutMs|\
CurrentTransactionStartTimeMs|TransactionDurationMs|TopicPartitions
1|open|0|1|Ongoing|60000|TIME|DURATION|shown-0

ProducerId|ProducerEpoch|LatestCoordinatorEpoch|LastSequence|LastTimestamp|CurrentTransactionStartOffset
0|1|0|0|TIME|2
7777|3|-1|0|1000000000000|3

Topic|Partition|ProducerId|ProducerEpoch|CoordinatorEpoch|StartOffset|LastTimestamp|Duration(min)
shown|0|7777|3|-1|3|1000000000000|DURATION

Could not find any open transactions starting at offset 77 on partition shown-0



Topic|Partition|ProducerId|ProducerEpoch|CoordinatorEpoch|StartOffset|LastTimestamp|Duration(min)

ProducerId|ProducerEpoch|LatestCoordinatorEpoch|LastSequence|LastTimestamp|CurrentTransactionStartOffset
0|1|0|0|TIME|2
7777|3|0|0|TIME|None
"""
"""A table for each call. The aborting call prints none. The order of rows is of no meaning."""


def tables(server: Server) -> str:
    answers = run_tool(TOOL, [["--bootstrap-server", server.bootstrap, *call.split()] for call in CALLS])
    found = []
    for answer in answers:
        lines = ["|".join(cells(line)) for line in (answer.out + answer.complaints).splitlines() if line.strip()]
        found.append("\n".join([*lines[:1], *sorted(lines[1:])]))
    return "\n" + "\n\n".join(found) + "\n"


def cells(line: str) -> list[str]:
    """The cells of a line. A time of today and a duration differ from run to run."""
    found = [cell.strip() for cell in line.strip().split("\t")]
    found = ["TIME" if re.fullmatch(r"1[5-9]\d{11}|2\d{12}", cell) else cell for cell in found]
    if len(found) >= 8 and found[7].isdecimal():
        found[7] = "DURATION"
    return found


def test_kafkas_tool_shows_transactions_and_aborts_one_that_hangs(server: Server) -> None:
    with Producer(bootstrap_servers=server.bootstrap, transactional_id="open") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(TOPIC, b"x", partition=0)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(TOPIC, b"x", partition=0)
        producer.flush()
        hang(server, TOPIC)
        assert tables(server) == TABLES
        producer.commit_transaction()
