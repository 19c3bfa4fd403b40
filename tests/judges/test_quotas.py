"""Quotas, judged by Apache Kafka: its tool kafka-configs and pykraft's command set and show the same ones on both kinds
of cluster, and the producers of librdkafka and Java are slowed down to the same rate.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from pykraft import Admin, Cluster
from pykraft.cli import main
from pykraft.client.administration.quotas import ClientQuotaEntity
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.kafka_tools import run_tool
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

PROPERTIES = {"quota.window.num": "3"}
"""Two seconds' worth come at once, so that the rate is soon that of the quota."""
CONFIGS = "kafka.admin.ConfigCommand"
RATE = 100_000


class Server(NamedTuple):
    name: str
    address: str


def pykraft_server() -> Iterator[Server]:
    with Cluster(1, properties=PROPERTIES) as cluster:
        yield Server("pykraft", cluster.bootstrap_servers)


def apache_server() -> Iterator[Server]:
    with ApacheKafka(1, PROPERTIES, heap="384m", java_options=QUICK_START) as kafka:
        yield Server("apache", kafka.bootstrap_servers)


KINDS: dict[str, Callable[[], Iterator[Server]]] = {"pykraft": pykraft_server, "apache": apache_server}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    yield from KINDS[request.param]()


ALTERED = [
    "--entity-type users --entity-name alice --add-config producer_byte_rate=1048576000,request_percentage=0.5",
    "--entity-type users --entity-name alice --entity-type clients --entity-default --add-config consumer_byte_rate=7",
    "--entity-type clients --entity-name c:d --entity-type users --entity-default --add-config request_percentage=1e8",
    "--user-defaults --add-config controller_mutation_rate=12.5",
    "--client loader --add-config producer_byte_rate=100000",
    "--client-defaults --add-config producer_byte_rate=12345678",
    "--ip 10.1.2.3 --add-config connection_creation_rate=5",
    "--ip-defaults --add-config connection_creation_rate=50",
]
DESCRIBED = [
    "--entity-type users",
    "--entity-type clients",
    "--entity-type users --entity-type clients",
    "--entity-type ips",
    "--entity-type users --entity-name alice --entity-type clients",
    "--user alice",
    "--user-defaults --client c:d",
    "--ip-defaults",
    "--client nobody",
]


def lines(text: str) -> set[str]:
    """What was printed; quotas of an entity come in any order."""
    found = set()
    for line in text.splitlines():
        head, are, quotas = line.partition(" are ")
        found.add(head + are + ", ".join(sorted(quotas.split(", "))))
    return found


def test_both_tools_set_and_show_the_same_quotas(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap = ["--bootstrap-server", server.address]

    def ours(words: str, *action: str) -> str:
        capsys.readouterr()
        assert main(["configs", *bootstrap, *action, *words.split()]) == 0, words
        return capsys.readouterr().out

    def theirs(all_words: list[str], *action: str) -> list[str]:
        return [told.out for told in run_tool(CONFIGS, [[*bootstrap, *action, *words.split()] for words in all_words])]

    def shown() -> list[set[str]]:
        return [lines(ours(words, "--describe")) for words in DESCRIBED]

    said = [ours(words, "--alter") for words in ALTERED]
    first = settled(shown)
    assert [lines(text) for text in theirs(DESCRIBED, "--describe")] == first
    gone = [re.sub(r"=[^,]+", "", words.replace("--add-config", "--delete-config")) for words in ALTERED]
    for words in gone:
        ours(words, "--alter")
    with Admin(bootstrap_servers=server.address) as admin:
        wait_until(lambda: not admin.describe_client_quotas(), "all are gone")
    assert theirs(ALTERED, "--alter") == said
    wait_until(lambda: shown() == first, "the broker has them")
    theirs(gone, "--alter")
    with Admin(bootstrap_servers=server.address) as admin:
        wait_until(lambda: not admin.describe_client_quotas(), "all are gone")


def settled(shown: Callable[[], list[set[str]]]) -> list[set[str]]:
    """What is shown once the broker has all quotas."""
    wait_until(lambda: sum(map(len, shown())) == 12, "the broker has them")
    return shown()


def limit(server: Server, client_id: str) -> None:
    with Admin(bootstrap_servers=server.address) as admin:
        if "slow" not in admin.list_topics():
            admin.create_topic("slow", 1, 1)
        entity = ClientQuotaEntity(client_id=client_id)
        admin.alter_client_quotas({entity: {"producer_byte_rate": RATE}})
        wait_until(lambda: entity in admin.describe_client_quotas(), "the broker has it")


def test_a_producer_of_librdkafka_is_slowed_down_to_its_rate(server: Server) -> None:
    limit(server, "rdkafka")
    acknowledged = 0

    def on_delivery(error: object, message: object) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1000

    settings = {"bootstrap.servers": server.address, "client.id": "rdkafka", "batch.size": 20_000, "linger.ms": 5}
    producer = Producer({**settings, "queue.buffering.max.kbytes": 200, "max.in.flight": 1})
    begun, began = 0, 0.0
    end = time.monotonic() + 18
    while time.monotonic() < end:
        try:
            producer.produce("slow", b"x" * 1000, on_delivery=on_delivery)
        except BufferError:
            producer.poll(0.05)
        if not began and time.monotonic() > end - 12:
            begun, began = acknowledged, time.monotonic()
    rate = (acknowledged - begun) / (time.monotonic() - began)
    sys.stdout.write(f"\n{server.name}: librdkafka got {rate:,.0f} of {RATE:,} bytes a second\n")
    producer.purge()
    assert 0.75 * RATE < rate < 1.15 * RATE


def test_a_producer_of_java_is_slowed_down_to_its_rate(server: Server) -> None:
    limit(server, "java")
    words = ["--topic", "slow", "--num-records", "1800", "--record-size", "1000", "--throughput", "-1"]
    properties = [f"bootstrap.servers={server.address}", "client.id=java", "batch.size=20000", "linger.ms=5"]
    (told,) = run_tool("org.apache.kafka.tools.ProducerPerformance", [[*words, "--producer-props", *properties]])
    last = told.out.splitlines()[-1]
    found = re.search(r"([\d.]+) records/sec", last)
    assert found, told
    # Two seconds' worth came at once, so 1.8 MB take sixteen seconds, and not eighteen.
    rate = 1000 * float(found.group(1))
    sys.stdout.write(f"\n{server.name}: Java got {rate:,.0f} of {RATE:,} bytes a second: {last}\n")
    assert 0.8 * RATE < rate < 1.35 * RATE
