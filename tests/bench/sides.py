"""The brokers that are measured beside each other: pykraft's, one process per node, and Apache Kafka's.

Both live at the same time, so that runs can be taken in turn; who is not asked is idle. They get the same settings. A
JVM compiles what it runs often, so Apache Kafka is warmed up before anything counts.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import psutil
from confluent_kafka import Producer

from pykraft import Admin, Cluster, KafkaError, NewTopic
from pykraft.client.administration.admin import PartitionDescription
from pykraft.runtime.secure_files import ADMIN, SecureFiles
from tests.bench.rows import NOT_AT_HAND
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.waiting import wait_until

OURS = "pykraft"
APACHE = f"Apache Kafka {apache_kafka.VERSION}"
HEAP = "1g"
_PATIENCE_S = 30.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Side:
    """A cluster that serves."""

    name: str
    bootstrap_servers: str
    processes: list[psutil.Process] = field(default_factory=list)
    files: SecureFiles | None = None
    """What its clients need, if its listeners have TLS."""

    def admin(self) -> Admin:
        own = {} if self.files is None else self.files.client_settings(ADMIN)
        return Admin(bootstrap_servers=self.bootstrap_servers, **own)

    def librdkafka(self) -> dict[str, str]:
        """The settings of its clients."""
        own = {} if self.files is None else self.files.librdkafka_settings(ADMIN)
        return {"bootstrap.servers": self.bootstrap_servers, **own}

    def cpu_seconds(self) -> float:
        """Processor time that its nodes have used so far."""
        times = [process.cpu_times() for process in self.processes]
        return sum(used.user + used.system for used in times)


@contextlib.contextmanager
def sides(nodes: int, properties: Mapping[str, str] | None = None) -> Iterator[list[Side]]:
    """Ours, and Apache Kafka if it can be had, both with Kafka's own timeouts."""
    with contextlib.ExitStack() as stack:
        before = children()
        cluster = stack.enter_context(
            Cluster(nodes=nodes, mode="processes", timeouts="kafka", properties=dict(properties or {}))
        )
        found = [Side(OURS, cluster.bootstrap_servers, children_since(before))]
        if not apache_kafka.available():
            kafka = stack.enter_context(ApacheKafka(nodes, properties, heap=HEAP))
            pids = [psutil.Process(kafka.pid(node)) for node in kafka.nodes]
            found.append(Side(APACHE, kafka.bootstrap_servers, pids))
        yield found


def children() -> set[psutil.Process]:
    return set(psutil.Process().children())


def children_since(before: set[psutil.Process]) -> list[psutil.Process]:
    """The processes that have been started since."""
    return sorted(children() - before, key=lambda child: child.pid)


def why_without_apache() -> str:
    """Empty if Apache Kafka is measured too; otherwise why it is not."""
    reason = apache_kafka.available()
    return f"{APACHE} is {NOT_AT_HAND}: {reason}" if reason else ""


def warm_up(side: Side, load: Callable[[Side], object], seconds: float) -> None:
    """Repeat the load for so long if there is a JVM to get warm, else once."""
    deadline = time.monotonic() + seconds
    load(side)
    while side.name == APACHE and time.monotonic() < deadline:
        load(side)


@contextlib.contextmanager
def fresh_topic(side: Side, partitions: int = 1, replicas: int = 1, **configs: str) -> Iterator[str]:
    """A topic of that side, led by node 1 on (partition 0 by the first, ...), ready to be written; then deleted."""
    name = f"bench-{next(_numbers)}"
    with side.admin() as admin:
        brokers = sorted(broker.id for broker in admin.describe_cluster().brokers)
        assignments = {
            number: [brokers[(number + replica) % len(brokers)] for replica in range(replicas)]
            for number in range(partitions)
        }
        texts = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, replica_assignments=assignments, topic_configs=texts)])
        wait_until(lambda: is_whole(admin, name, replicas), f"{name} is replicated")
        try:
            yield name
        finally:
            admin.delete_topics([name])


def is_whole(admin: Admin, topic: str, replicas: int) -> bool:
    """Every partition has its leader, and all its replicas are in sync."""
    partitions = _partitions_of(admin, topic)
    return bool(partitions) and all(each.leader > 0 and len(each.isr) == replicas for each in partitions)


def _partitions_of(admin: Admin, topic: str) -> Sequence[PartitionDescription]:
    """Empty while the broker that happens to be asked has not heard of the topic."""
    try:
        return admin.describe_topics([topic])[topic].partitions
    except KafkaError:
        return ()


def leaders(side: Side, topic: str) -> list[str]:
    """host:port:partition of each partition's leader, once each of them takes records: a broker hears from the
    controller what it leads, and not all hear it at once. Each partition then holds a record."""
    with side.admin() as admin:
        brokers = {broker.id: f"{broker.host}:{broker.port}" for broker in admin.describe_cluster().brokers}
        partitions: list[PartitionDescription] = []

        def are_led() -> bool:
            # Each question may go to another broker: what one of them knows, the next may not know yet.
            partitions[:] = _partitions_of(admin, topic)
            return bool(partitions) and all(each.leader in brokers for each in partitions)

        wait_until(are_led, f"{topic} is known to a broker, and led")
    producer = Producer({**side.librdkafka(), "log_level": 0})
    for partition in partitions:
        producer.produce(topic, b"first", partition=partition.partition)
    assert producer.flush(_PATIENCE_S) == 0
    return [f"{brokers[partition.leader]}:{partition.partition}" for partition in partitions]
