"""Kafka's VerifiableProducer and TransactionalMessageCopier on three process nodes while leaders and coordinators are
killed with SIGKILL: nothing is lost, nothing is there twice.

The producer writes numbers, and the copier copies them in transactions of ten, some of which it aborts. Each kill hits
the leader of a topic, of the transactions or of the group's offsets, in turn, and waits until the tool goes on. The
copier copies what is there when it starts, and it may give up when it is fenced: then it is started again.

`make test` has two kills, `make judges` ten.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pykraft import Admin, Cluster, Consumer, TopicPartition
from tests.harness import apache_kafka
from tests.harness.apache_kafka import java_command
from tests.harness.asking import PATIENT
from tests.harness.waiting import wait_until
from tests.interop.test_others import make_topic

PATIENCE_S = 90.0
SOURCE, TARGET = "numbers", "copied"
KILLED = ("__transaction_state", "__consumer_offsets", TARGET)
PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
RETRYING = "retries=2147483647\nenable.idempotence=true\ndelivery.timeout.ms=120000\n"
"""By default the producer would not retry."""


class Tool:
    """One of Kafka's tools in a process, and the JSON lines that it has printed."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.said: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self._process = subprocess.Popen(
            java_command(apache_kafka.VERSION, f"org.apache.kafka.tools.{name}", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.said.append(json.loads(line))
            else:
                self.complaints.append(line)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None and not self._listener.is_alive()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextlib.contextmanager
def three_nodes() -> Iterator[Cluster]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with Cluster(3, mode="processes", properties=PATIENT | PROPERTIES) as cluster:
        yield cluster


def leader(cluster: Cluster, topic: str) -> int:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return admin.describe_topics([topic])[topic].partitions[0].leader


def in_sync(cluster: Cluster, topics: Sequence[str]) -> bool:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        found = admin.describe_topics(topics)
        return all(len(found[topic].partitions[0].isr) == 3 for topic in topics)


class Copiers:
    """The copier, started again until all is copied."""

    def __init__(self, servers: str, count: int) -> None:
        self._servers = servers
        self._count = count
        self._runs: list[Tool] = []
        self.start()

    def start(self) -> None:
        words = {
            "broker-list": self._servers,
            "consumer-group": "copier",
            "input-topic": SOURCE,
            "input-partition": "0",
            "output-topic": TARGET,
            "transactional-id": "copier",
            "transaction-size": "10",
            "max-messages": str(self._count),
        }
        arguments = [word for name, value in words.items() for word in (f"--{name}", value)]
        switches = ("--enable-random-aborts", "--use-group-metadata")
        self._runs.append(Tool("TransactionalMessageCopier", *arguments, *switches))

    def progress(self) -> int:
        """How many lines were printed; a copier that gave up is started again."""
        if self._runs[-1].has_ended and not self.is_done:
            self.start()
        return sum(len(run.said) for run in self._runs)

    @property
    def is_done(self) -> bool:
        return any(each.get("remaining") == 0 for each in self._runs[-1].said) and self._runs[-1].has_ended

    def __str__(self) -> str:
        last = self._runs[-1]
        return f"{len(self._runs)} runs, {last.said[-2:]}, {last.complaints[-10:]}"

    def close(self) -> None:
        for run in self._runs:
            run.close()


def write_and_copy(
    cluster: Cluster,
    folder: pathlib.Path,
    *,
    count: int,
    throughput: int,
    kills_of_producer: int,
    kills_of_copier: int,
) -> None:
    """The producer writes `count` numbers, `throughput` in a second; then they are copied."""
    servers = cluster.bootstrap_servers
    for topic in (SOURCE, TARGET):
        make_topic(servers, topic, partitions=1)
    (folder / "producer.properties").write_text(RETRYING)
    words = ("--topic", SOURCE, "--bootstrap-server", servers, "--max-messages", str(count), "--acks", "-1")
    settings = ("--throughput", str(throughput), "--producer.config", str(folder / "producer.properties"))
    with contextlib.closing(Tool("VerifiableProducer", *words, *settings)) as producer:
        for _ in range(kills_of_producer):
            kill_while_it_writes(cluster, producer)
        wait_until(lambda: producer.has_ended, "all is written", PATIENCE_S)
    acknowledged = sorted(int(each["value"]) for each in producer.said if each["name"] == "producer_send_success")
    assert acknowledged == list(range(count))
    with contextlib.closing(Copiers(servers, count)) as copiers:
        for topic in itertools.islice(itertools.cycle(KILLED), kills_of_copier):
            kill_while_it_copies(cluster, copiers, topic)
        wait_until(lambda: bool(copiers.progress()) and copiers.is_done, "all is copied", PATIENCE_S)
    assert read_committed(servers) == list(range(count)), "each number is there once, in the order of the source"


def kill_while_it_writes(cluster: Cluster, producer: Tool) -> None:
    begun = len(producer.said)
    wait_until(lambda: len(producer.said) >= begun + 60, "the producer writes", PATIENCE_S)
    victim = leader(cluster, SOURCE)
    cluster.kill(victim)
    dead = len(producer.said)
    wait_until(lambda: len(producer.said) >= dead + 60, f"the producer goes on without node {victim}", PATIENCE_S)
    assert not producer.has_ended, "the kills come while it writes"
    cluster.restart(victim)
    wait_until(lambda: in_sync(cluster, (SOURCE,)), "all are in sync", PATIENCE_S)


def kill_while_it_copies(cluster: Cluster, copiers: Copiers, topic: str) -> None:
    go_on(copiers, copiers.progress() + 8, "it copies")
    victim = leader(cluster, topic)
    cluster.kill(victim)
    go_on(copiers, copiers.progress() + 8, f"it goes on without node {victim}")
    cluster.restart(victim)
    kept = (SOURCE, TARGET, "__transaction_state", "__consumer_offsets")
    wait_until(lambda: in_sync(cluster, kept), "all are in sync", PATIENCE_S)


def read_committed(servers: str) -> list[int]:
    """All numbers that were copied, up to the end of the log."""
    key = TopicPartition(TARGET, 0)
    found: list[int] = []
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign([key])
        consumer.seek_to_beginning(key)
        (end,) = consumer.end_offsets([key]).values()

        def is_read() -> bool:
            for records in consumer.poll(timeout_ms=100).values():
                found.extend(int(record.value) for record in records)
            return consumer.position(key) >= end

        wait_until(is_read, "all is read", PATIENCE_S)
    return found


def go_on(copiers: Copiers, until: int, what: str) -> None:
    try:
        wait_until(lambda: copiers.progress() >= until, what, PATIENCE_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {copiers}") from None
    assert not copiers.is_done, "the kills come while it copies"
