"""Thousands of partitions on one node in a process of its own: made, filled, and looked at one by one.

Every partition gets two batches whose timestamps lie further apart than ``segment.ms``, so each has two segments, as
after a day of work, but a few hundred bytes. Half of the partitions belong to one topic, the others to topics of a
hundred. The node may open as few files as a shell gives by default.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGTERM
from typing import Any, TypeVar

import psutil

from pykraft import Cluster
from pykraft.common.errors import ErrorCode
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import LATEST_TIMESTAMP, FetchRequest, ListOffsetsRequest, ProduceRequest
from pykraft.runtime.process import NodeProcess
from pykraft.storage.disk.checkpoint import CLEAN_SHUTDOWN
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.asking import T0, batch, create, new_topic
from tests.harness.connection import Closed, Connection

T = TypeVar("T")

MEGABYTE = 1_000_000
OPEN_FILES = 1024
NODE = 1
SEGMENT_MS = 60_000
SESSION_MS = 5000
SETTINGS = (("segment.ms", str(SEGMENT_MS)), ("retention.ms", "-1"))
SMALL_TOPIC = 100
AT_ONCE = 100
PATIENCE_S = 240.0
KAFKA_PATIENCE_S = 600.0
"""Of a start after a kill: it rebuilds the indexes of all active segments, 165 CPU seconds for 10,000."""
_CREATE_VERSION, _METADATA_VERSION, _LIST_OFFSETS_VERSION, _PRODUCE_VERSION, _FETCH_VERSION = 7, 9, 6, 9, 11

Place = tuple[str, int]
"""A topic's name and a partition."""


class ManyPartitions:
    """One node, and the partitions that were made on it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.places: list[Place] = []
        self.batches = 0
        self._day = 0

    # --- the node -----------------------------------------------------------------------------------------------------

    def stop(self) -> float:
        """Stop the node in order; the seconds that it took."""
        began = time.monotonic()
        self._node.stop(PATIENCE_S)
        assert (self._directory / CLEAN_SHUTDOWN).exists(), "it was ended before it was done"
        return time.monotonic() - began

    def kill(self) -> None:
        self._node.kill()

    def restart(self) -> float:
        """Start the node, which does not run; the seconds until it leads all partitions."""
        began = time.monotonic()
        with open_files(OPEN_FILES):
            self._cluster.restart(NODE, wait=False)
        self.wait_until_served()
        return time.monotonic() - began

    def megabytes(self) -> float:
        """What the node's process has for itself."""
        memory = psutil.Process(self._pid).memory_full_info()
        return float(getattr(memory, "pss", memory.rss)) / MEGABYTE

    def cpu_s(self) -> float:
        """The CPU seconds that it has used."""
        times = psutil.Process(self._pid).cpu_times()
        return float(times.user + times.system)

    def idle_cpu_percent(self, seconds: float = 10.0) -> float:
        """How much of one CPU it uses while nothing is asked of it."""
        began, used_s = time.monotonic(), self.cpu_s()
        time.sleep(seconds)  # what is measured is the rest
        return 100 * (self.cpu_s() - used_s) / (time.monotonic() - began)

    def open_files(self) -> int:
        return psutil.Process(self._pid).num_fds()

    def segments(self) -> set[int]:
        """How many segments the partitions have."""
        return {
            sum(name.endswith(".log") for name in os.listdir(self._directory / f"{topic}-{number}"))
            for topic, number in self.places
        }

    @property
    def _node(self) -> NodeProcess:
        node = self._cluster._nodes[NODE]
        assert isinstance(node, NodeProcess)
        return node

    @property
    def _pid(self) -> int:
        return self._node.pid

    @property
    def _bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def _directory(self) -> Path:
        return self._cluster.node_directory(NODE)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with Connection(self._bootstrap_servers, patience_s=PATIENCE_S) as connection:
            yield connection

    # --- partitions ---------------------------------------------------------------------------------------------------

    def create(self, count: int) -> float:
        """Make so many partitions; the seconds until all have a leader."""
        began = time.monotonic()
        large = count - count // 2
        sizes = {"large": large}
        while (left := count - sum(sizes.values())) > 0:
            sizes[f"small{len(sizes)}"] = min(SMALL_TOPIC, left)
        self.places = [(topic, number) for topic, size in sizes.items() for number in range(size)]
        topics = [new_topic(topic, size, 1, configs=SETTINGS) for topic, size in sizes.items()]
        with self._connected() as connection:
            for request in (create(topics[0]), create(*topics[1:])):
                response = connection.ask(request, _CREATE_VERSION)
                assert not any(topic.error_code for topic in response.topics), response
        self.wait_until_served()
        return time.monotonic() - began

    def wait_until_served(self) -> None:
        """Wait until the node answers, and leads all partitions."""
        deadline = time.monotonic() + PATIENCE_S
        asked = time.monotonic()
        while not self._are_served():
            assert time.monotonic() < deadline, f"not all of {len(self.places)} partitions are served"
            # The question itself is work for the node.
            time.sleep(min(0.5, 0.02 + 2 * (time.monotonic() - asked)))
            asked = time.monotonic()

    def _are_served(self) -> bool:
        topic_type = ListOffsetsRequest.Topic
        topics = [
            topic_type(
                name=topic,
                partitions=[topic_type.Partition(partition_index=n, timestamp=LATEST_TIMESTAMP) for n in numbers],
            )
            for topic, numbers in _by_topic(self.places)
        ]
        with suppress(ConnectionError, Closed), self._connected() as connection:
            answer = connection.ask(MetadataRequest(topics=None), _METADATA_VERSION)
            led = [p for topic in answer.topics for p in topic.partitions if p.leader_id == NODE]
            if len(answer.brokers) == 1 and len(led) == len(self.places):
                offsets = connection.ask(ListOffsetsRequest(topics=topics), _LIST_OFFSETS_VERSION)
                return not any(p.error_code for topic in offsets.topics for p in topic.partitions)
        return False

    def produce(self, new_segment: bool) -> float:
        """One more batch for each partition; the seconds that it took."""
        self._day += new_segment
        data = batch(1, timestamp=T0 + self._day * 2 * SEGMENT_MS)
        began = time.monotonic()
        with self._connected() as connection:
            for some in _pieces(self.places, AT_ONCE):
                self._produce(connection, some, data)
        self.batches += 1
        return time.monotonic() - began

    def _produce(self, connection: Connection, places: Sequence[Place], data: bytes) -> None:
        topic_type = ProduceRequest.Topic
        topics = [
            topic_type(name=topic, partition_data=[topic_type.Partition(index=n, records=data) for n in numbers])
            for topic, numbers in _by_topic(places)
        ]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
        response: Any = connection.ask(request, _PRODUCE_VERSION)
        answers = [p for topic in response.responses for p in topic.partition_responses]
        if any(answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER for answer in answers):
            # On a machine that is busy the node may have been too late with a heartbeat, and will lead again.
            assert all(answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER for answer in answers), answers
            self.wait_until_served()
            self._produce(connection, places, data)
            return
        offsets = [(answer.error_code, answer.base_offset) for answer in answers]
        assert offsets == [(0, self.batches)] * len(places), set(offsets)

    def fetch(self) -> float:
        """Read each partition from its beginning, and see that all is there; the seconds that it took."""
        began = time.monotonic()
        with self._connected() as connection:
            for some in _pieces(self.places, AT_ONCE):
                for offset in range(self.batches):
                    self._fetch(connection, some, offset)
        return time.monotonic() - began

    def _fetch(self, connection: Connection, places: Sequence[Place], offset: int) -> None:
        topic_type = FetchRequest.Topic
        topics = [
            topic_type(
                topic=topic,
                partitions=[
                    topic_type.Partition(partition=n, fetch_offset=offset, partition_max_bytes=1 << 20) for n in numbers
                ],
            )
            for topic, numbers in _by_topic(places)
        ]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=50 << 20, topics=topics)
        response: Any = connection.ask(request, _FETCH_VERSION)
        answers = [p for topic in response.responses for p in topic.partitions]
        assert len(answers) == len(places)
        for answer in answers:
            assert not answer.error_code and answer.high_watermark == self.batches, answer
            assert int.from_bytes(answer.records[:8], "big") == offset, answer


class ManyOfApacheKafka(ManyPartitions):
    """The same, of a node of Apache Kafka."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self.places = []
        self.batches = 0
        self._day = 0

    def stop(self) -> float:
        began = time.monotonic()
        self._kafka.kill(NODE, SIGTERM)
        return time.monotonic() - began

    def kill(self) -> None:
        self._kafka.kill(NODE)

    def restart(self) -> float:
        began = time.monotonic()
        with open_files(None):
            self._kafka.restart(NODE)
        self.wait_until_served()
        return time.monotonic() - began

    @property
    def _pid(self) -> int:
        return self._kafka.pid(NODE)

    @property
    def _bootstrap_servers(self) -> str:
        return self._kafka.bootstrap_servers

    @property
    def _directory(self) -> Path:
        return self._kafka.data(NODE)


def _by_topic(places: Sequence[Place]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, number in places:
        topics.setdefault(topic, []).append(number)
    return list(topics.items())


def _pieces(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


@contextmanager
def open_files(limit: int | None) -> Iterator[None]:
    """Processes that are started within have this limit of open files; None: the highest that the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if limit is None else min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def one_node(**properties: object) -> Iterator[ManyPartitions]:
    """A node in a process, with nothing on it. After a crash it is let in again when the session of the process before
    is over, so sessions are shorter than usual."""
    sessions = {"broker.session.timeout.ms": SESSION_MS, "broker.heartbeat.interval.ms": SESSION_MS // 5}
    with open_files(OPEN_FILES):
        cluster = Cluster(nodes=1, mode="processes", timeouts="kafka", properties=sessions | properties)
    with cluster:
        many = ManyPartitions(cluster)
        yield many
        many.kill()  # its files need not be synced


@contextmanager
def one_apache_kafka(heap: str = "1g") -> Iterator[ManyOfApacheKafka]:
    """A node of Apache Kafka with the same sessions. It keeps the files of all logs open, and maps their indexes: with
    1,024 descriptors it would not start."""
    sessions = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": str(SESSION_MS // 5)}
    with open_files(None):
        kafka = ApacheKafka(properties=sessions, heap=heap, patience_s=KAFKA_PATIENCE_S)
    with kafka:
        yield ManyOfApacheKafka(kafka)
