"""How long a producer hears nothing when the node it writes to dies.

Three idempotent producers with acks=all send a small record every few milliseconds, each to a partition of its own; one
node leads all three partitions, each has three replicas. That node is killed: ours between two steps of its loop,
Apache Kafka's with SIGKILL. The silence is the longest time between two acknowledgements. Afterwards each log must hold
each record once.

A *mere* leader is not the active controller. If it is, the others must first find that the controller is silent, and
elect another one, before that one can find that the leader is silent.

The silence is not all the cluster's. librdkafka looks for the new leader of a partition once a second, and when the
dead node disappears from the metadata it forgets what it has just found, and looks again a second later: so it may hear
nothing for two seconds more. A short ``topic.metadata.refresh.interval.ms`` takes that away: therefore librdkafka
writes twice, as it is and with that setting. pykraft's producer asks for the leader whenever it tries again, after
pauses that grow from ``retry.backoff.ms``, and sends at once when there is a new one.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import confluent_kafka

import pykraft
from pykraft import Admin, Cluster, NewTopic, TopicPartition
from pykraft.protocol.messages.data import LATEST_TIMESTAMP
from pykraft.timeouts import PROFILES
from tests.bench.rows import Row, progress, worst
from tests.bench.sides import APACHE, HEAP, is_whole, why_without_apache
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.waiting import wait_until

LESSON_KILLS = 10
APACHE_LESSON_KILLS = 3
DEFAULT_KILLS = 3
MERE, BOTH = "a mere leader", "leader and active controller"
TARGETS_S = {MERE: 1.0, BOTH: 2.0}
UNIT = "s"
REPLICAS = 3
BEFORE, AFTER = 100, 100
"""Records that each producer has acknowledged before the kill, and of those that it sent after it."""
PAUSE_S = 0.002
TIMEOUT_S = 90.0
REFRESH_MS = 100
_SETTINGS = {"acks": "all", "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
_numbers = itertools.count(1)

Silences = dict[str, dict[str, list[float]]]
"""Seconds, by the kind of kill and by the producer."""


class Killable(Protocol):
    """What both kinds of cluster can do."""

    @property
    def bootstrap_servers(self) -> str: ...

    def kill(self, node: int, /) -> None: ...

    def restart(self, node: int, /) -> None: ...


class Writer:
    """A producer that numbers its records, and notes when each was acknowledged."""

    name = ""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.sent = 0
        self.times: list[float] = []
        self._killed_at: int | None = None
        self._late = 0

    def on_kill(self) -> None:
        self._killed_at = self.sent

    @property
    def has_begun(self) -> bool:
        return len(self.times) >= BEFORE

    @property
    def is_over_it(self) -> bool:
        return self._late >= AFTER

    @property
    def silence(self) -> float:
        return max(later - earlier for earlier, later in pairwise(self.times))

    def acknowledged(self, number: int) -> None:
        self.times.append(time.perf_counter())
        self._late += self._killed_at is not None and number >= self._killed_at

    def send(self, topic: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Confluent(Writer):
    name = "librdkafka"
    settings: ClassVar[Mapping[str, object]] = {}

    def __init__(self, partition: int, bootstrap_servers: str) -> None:
        super().__init__(partition)
        settings = {"bootstrap.servers": bootstrap_servers, **_SETTINGS, **self.settings}
        self._producer = confluent_kafka.Producer(settings)

    def _on_delivery(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged(int(message.value()))

    def send(self, topic: str) -> None:
        self._producer.produce(topic, b"%d" % self.sent, partition=self.partition, on_delivery=self._on_delivery)
        self.sent += 1
        self._producer.poll(0)

    def close(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0


class Refreshing(Confluent):
    name = f"librdkafka, metadata every {REFRESH_MS} ms"
    settings: ClassVar[Mapping[str, object]] = {"topic.metadata.refresh.interval.ms": REFRESH_MS}


class Ours(Writer):
    name = "pykraft's producer"

    def __init__(self, partition: int, bootstrap_servers: str) -> None:
        super().__init__(partition)
        self._producer = pykraft.Producer(
            bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True, linger_ms=2
        )

    def send(self, topic: str) -> None:
        number = self.sent

        def on_done(future: Future[Any]) -> None:
            if future.exception() is None:
                self.acknowledged(number)

        self._producer.send(topic, b"%d" % number, partition=self.partition).add_done_callback(on_done)
        self.sent += 1

    def close(self) -> None:
        self._producer.flush()
        self._producer.close()


WRITERS = (Ours, Refreshing, Confluent)


def measure() -> list[Row]:
    """The lesson's timeouts, then Kafka's; first ours, then Apache Kafka's."""
    return [
        *_measured("lesson", list(TARGETS_S), LESSON_KILLS, APACHE_LESSON_KILLS),
        *_measured("kafka", [MERE], DEFAULT_KILLS, DEFAULT_KILLS),
    ]


def _measured(profile: str, kinds: list[str], kills: int, kills_of_apache: int) -> list[Row]:
    ours = _silences(lambda: Cluster(timeouts=profile), kinds, kills)
    properties = {key: str(value) for key, value in PROFILES[profile].items()}
    theirs: Silences = {}
    if not apache_kafka.available():
        theirs = _silences(lambda: ApacheKafka(REPLICAS, properties, heap=HEAP), kinds, kills_of_apache)
    timeouts = "lesson timeouts" if profile == "lesson" else "Kafka's timeouts"
    return [
        worst(
            f"silence, {kind} killed, {timeouts}: {writer.name}",
            UNIT,
            ours[kind][writer.name],
            APACHE,
            theirs[kind][writer.name] if theirs else (),
            note=why_without_apache(),
            at_most=TARGETS_S[kind] if profile == "lesson" else None,
        )
        for kind in kinds
        for writer in WRITERS
    ]


def _silences(start: Callable[[], Any], kinds: list[str], kills: int) -> Silences:
    """So many kills of each kind, in turn."""
    found: Silences = {kind: {writer.name: [] for writer in WRITERS} for kind in kinds}
    with start() as cluster:
        for number in range(1, kills + 1):
            for kind in kinds:
                seconds = silences(cluster, is_controller=kind == BOTH)
                progress(f"kill {number} of {kills}, {kind}: " + ", ".join(f"{s:.2f} s" for s in seconds.values()))
                for name, figure in seconds.items():
                    found[kind][name].append(figure)
    return found


def silences(cluster: Killable, is_controller: bool) -> dict[str, float]:
    """By producer, the longest seconds between two acknowledgements around the kill of the leader."""
    with (
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
        led_topic(admin, is_controller) as (topic, victim),
    ):
        writers = written_through_a_kill(cluster, topic, victim)
        ends = admin.list_offsets({TopicPartition(topic, w.partition): LATEST_TIMESTAMP for w in writers})
        for writer in writers:
            end = ends[TopicPartition(topic, writer.partition)].offset
            counts = (writer.sent, len(writer.times), end)
            assert len(set(counts)) == 1, f"{writer.name} sent, had acknowledged, and is in the log: {counts}"
        cluster.restart(victim)
        wait_until(lambda: is_whole(admin, topic, REPLICAS), f"node {victim} has caught up", TIMEOUT_S)
    return {writer.name: writer.silence for writer in writers}


@contextmanager
def led_topic(admin: Admin, is_controller: bool) -> Iterator[tuple[str, int]]:
    """A topic with a partition for each writer, and the node that leads them all: the active controller, or another
    one."""
    name = f"silence-{next(_numbers)}"
    controller = admin.describe_quorum().leader_id
    nodes = sorted(broker.id for broker in admin.describe_cluster().brokers)
    nodes.sort(key=lambda node: (node == controller) is not is_controller)
    assignments = dict.fromkeys(range(len(WRITERS)), nodes)
    configs = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(name, replica_assignments=assignments, topic_configs=configs)])
    wait_until(lambda: is_whole(admin, name, REPLICAS), f"{name} is replicated", TIMEOUT_S)
    yield name, nodes[0]
    admin.delete_topics([name])


def written_through_a_kill(cluster: Killable, topic: str, victim: int) -> list[Writer]:
    """All writers, after each has had all its records acknowledged."""
    deadline = time.monotonic() + TIMEOUT_S
    is_killed = False
    with ExitStack() as stack:
        writers: list[Writer] = []
        for number, kind in enumerate(WRITERS):
            writers.append(kind(number, cluster.bootstrap_servers))
            stack.callback(writers[-1].close)
        while not all(writer.is_over_it for writer in writers):
            for writer in writers:
                writer.send(topic)
            time.sleep(PAUSE_S)
            if not is_killed and all(writer.has_begun for writer in writers):
                cluster.kill(victim)
                is_killed = True
                for writer in writers:
                    writer.on_kill()
            counts = [(writer.name, len(writer.times), writer.sent) for writer in writers]
            assert time.monotonic() < deadline, f"acknowledged and sent after {TIMEOUT_S:g} s: {counts}"
    return writers
