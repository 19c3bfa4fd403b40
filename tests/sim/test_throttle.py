"""A reassignment under a throttle (KIP-73), in virtual time: so many bytes a second, no more and not much less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from pykraft.broker.replication.partition import Partition
from pykraft.client.administration.admin import AdminCalls, NewTopic
from pykraft.client.administration.configs import ConfigCalls, ConfigResource, ConfigResourceType
from pykraft.client.administration.reassignments import ReassignmentCalls
from pykraft.client.api_driver import ApiDriver
from pykraft.client.config import COMMON_CONFIG, bootstrap_endpoints, client_config
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import FOREVER, Poll, Promise, merge
from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.knobs import calm, draw
from tests.harness.storage import NOW_MS

TOPIC = "moved"
BATCH_BYTES, BATCHES = 2_000, 20
RATE = 5_000
SETTINGS = {
    "replica.fetch.max.bytes": BATCH_BYTES,
    "replica.fetch.wait.max.ms": 100,
    "replica.fetch.backoff.ms": 50,
    "metadata.max.idle.interval.ms": 500,
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 5_000,
}


class Asking:
    """An admin client that is handed one question after another. It is a RequestManager."""

    def __init__(self) -> None:
        config = client_config(COMMON_CONFIG, {"bootstrap.servers": "node-1:9092", "request.timeout.ms": 1000})
        self._metadata = ClusterMetadata(config, bootstrap_endpoints(config), Random(1))
        self.driver = ApiDriver(config, self._metadata, Random(1))

    def poll(self, now: int) -> Poll:
        return merge([Poll(now + 20), self.driver.poll(now), self._metadata.poll(now)])


class Quiet(SimulatedCluster):
    """Three nodes, and no clients but the one that is asked for things."""

    def __init__(self) -> None:
        knobs = replace(calm(draw(1)), brokers=3, controllers=0, storm_until_ms=1 << 40, racks=(), features={})
        knobs = replace(knobs, producers=(), consumers=(), groups=(), transactions=None, elections=None)
        super().__init__(1, replace(knobs, properties=dict(SETTINGS), admin_every_ms=0))

    def _make_clients(self) -> None:
        super()._make_clients()
        self.asking = Asking()
        self._add_client("asking", self.asking)

    def until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        end = self.scheduler.now + limit_ms
        while not condition():
            assert self.scheduler.now < end, "it takes too long"
            self.step()

    def answered(self, promise: Promise[object]) -> None:
        self.until(lambda: promise.kept)
        assert promise.value is None or isinstance(promise.value, dict), promise.value

    def _end_storm(self) -> None:
        """There is none."""

    def partition(self, node_id: int, number: int) -> Partition | None:
        node = self.nodes[node_id].node
        assert node is not None and node.broker is not None
        return node.broker.replicas.partitions.get(TopicPartition(TOPIC, number))

    def copied(self, number: int) -> int:
        """How many bytes of a partition broker 2 has."""
        partition = self.partition(2, number)
        return 0 if partition is None else partition.log.log_end_offset * BATCH_BYTES


@pytest.fixture(scope="module")
def cluster() -> Quiet:
    """Broker 1 alone holds two partitions."""
    cluster = Quiet()
    cluster.begin()
    cluster.until(lambda: cluster._maker.is_done)  # then all brokers are there
    topic = NewTopic(TOPIC, replica_assignments={0: [1], 1: [1]})
    cluster.answered(AdminCalls(cluster.asking.driver).create_topics([topic], False, 1000, FOREVER))
    cluster.until(lambda: cluster.partition(1, 1) is not None)
    for number in range(2 * BATCHES):
        builder = RecordBatchBuilder()
        builder.append(NOW_MS, None, b"%d " % number + b"x" * (BATCH_BYTES - 80))
        partition = cluster.partition(1, number % 2)
        assert partition is not None
        partition.append_as_leader(RecordBatch(memoryview(builder.build())), cluster.scheduler.now)
    return cluster


@pytest.mark.parametrize(("number", "side", "broker"), [(0, "leader", "1"), (1, "follower", "2")])
def test_a_throttled_copy_comes_as_fast_as_the_limit_allows_and_at_once_when_the_throttle_is_gone(
    cluster: Quiet, number: int, side: str, broker: str
) -> None:
    configs = ConfigCalls(cluster.asking.driver)
    named = {ConfigResource(ConfigResourceType.TOPIC, TOPIC): f"{side}.replication.throttled.replicas"}
    limited = {ConfigResource(ConfigResourceType.BROKER, broker): f"{side}.replication.throttled.rate"}
    throttle = {each: {name: f"{number}:{broker}"} for each, name in named.items()}
    throttle |= {each: {name: str(RATE)} for each, name in limited.items()}
    cluster.answered(configs.incremental_alter_configs(throttle, False, FOREVER))
    cluster.until(lambda: cluster.copied(number) == 0)
    moves = {TopicPartition(TOPIC, number): [1, 2]}
    cluster.answered(ReassignmentCalls(cluster.asking.driver).alter_partition_reassignments(moves, True, 1000, FOREVER))
    cluster.until(lambda: cluster.copied(number) > 0)
    began, copied = cluster.scheduler.now, [cluster.copied(number)]
    for second in range(1, 5):
        cluster.until(lambda end=began + 1000 * second: cluster.scheduler.now >= end)  # type: ignore[misc]
        copied.append(cluster.copied(number))
    for second, size in enumerate(copied):
        assert RATE * second - BATCH_BYTES <= size <= RATE * max(1, second) + 2 * BATCH_BYTES, copied
    assert copied[-1] < BATCHES * BATCH_BYTES
    cluster.answered(
        configs.incremental_alter_configs({each: {name: None} for each, name in named.items()}, False, FOREVER)
    )
    cluster.until(lambda: cluster.copied(number) == BATCHES * BATCH_BYTES, limit_ms=1000)
