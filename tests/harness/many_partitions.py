"""Thousands of partitions on one node in a process of its own: made, filled, and looked at one by one.

Every partition gets two batches whose timestamps lie further apart than ``segment.ms``, so each has two segments, as
after a day of work, but a few hundred bytes. Half of the partitions belong to one topic, the others to topics of a
hundred. The node may open as few files as a shell gives by default.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psutil

from pykraft import Cluster
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import FetchRequest, ProduceRequest
from tests.harness.asking import T0, batch, create, new_topic
from tests.harness.connection import Closed, Connection

T = TypeVar("T")

MEGABYTE = 1_000_000
OPEN_FILES = 1024
NODE = 1
SEGMENT_MS = 60_000
SETTINGS = (("segment.ms", str(SEGMENT_MS)), ("retention.ms", "-1"))
SMALL_TOPIC = 100
AT_ONCE = 500
PATIENCE_S = 120.0
_CREATE_VERSION, _METADATA_VERSION, _PRODUCE_VERSION, _FETCH_VERSION = 7, 9, 9, 11

Place = tuple[str, int]
"""A topic's name and a partition."""


class ManyPartitions:
    """One node, and the partitions that were made on it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.places: list[Place] = []
        self.batches = 0

    # --- the node -----------------------------------------------------------------------------------------------------

    def restart(self) -> float:
        """Start the node, which does not run; the seconds until it leads all partitions."""
        began = time.monotonic()
        with open_files(OPEN_FILES):
            self._cluster.restart(NODE, wait=False)
        self.wait_for_leaders()
        return time.monotonic() - began

    def megabytes(self) -> float:
        """What the node's process has for itself."""
        memory = psutil.Process(self._pid).memory_full_info()
        return float(getattr(memory, "pss", memory.rss)) / MEGABYTE

    def cpu_s(self) -> float:
        """The CPU seconds that it has used."""
        times = psutil.Process(self._pid).cpu_times()
        return float(times.user + times.system)

    def open_files(self) -> int:
        return psutil.Process(self._pid).num_fds()

    @property
    def _pid(self) -> int:
        return self._cluster._nodes[NODE].pid  # type: ignore[union-attr]

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with Connection(self._cluster.bootstrap_servers, patience_s=PATIENCE_S) as connection:
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
        self.wait_for_leaders()
        return time.monotonic() - began

    def wait_for_leaders(self) -> None:
        """Wait until the node answers, and leads all partitions."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._leads_all():
            assert time.monotonic() < deadline, f"not all of {len(self.places)} partitions have a leader"
            time.sleep(0.02)

    def _leads_all(self) -> bool:
        with suppress(ConnectionError, Closed), self._connected() as connection:
            answer = connection.ask(MetadataRequest(topics=None), _METADATA_VERSION)
            led = [p for topic in answer.topics for p in topic.partitions if p.leader_id == NODE]
            return len(answer.brokers) == 1 and len(led) == len(self.places)
        return False

    def produce(self) -> float:
        """One more batch for each partition, in the next segment; the seconds that it took."""
        data = batch(1, timestamp=T0 + self.batches * 2 * SEGMENT_MS)
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
        response = connection.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), _PRODUCE_VERSION)
        offsets = [(p.error_code, p.base_offset) for topic in response.responses for p in topic.partition_responses]
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


def _by_topic(places: Sequence[Place]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, number in places:
        topics.setdefault(topic, []).append(number)
    return list(topics.items())


def _pieces(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


@contextmanager
def open_files(limit: int) -> Iterator[None]:
    """Processes that are started within have this limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def one_node(**properties: str) -> Iterator[ManyPartitions]:
    """A node in a process, with nothing on it."""
    with open_files(OPEN_FILES):
        cluster = Cluster(nodes=1, mode="processes", timeouts="kafka", properties=properties)
    with cluster:
        many = ManyPartitions(cluster)
        many.stop = lambda: cluster.stop(NODE)  # type: ignore[attr-defined]
        many.kill = lambda: cluster.kill(NODE)  # type: ignore[attr-defined]
        yield many
