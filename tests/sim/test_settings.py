"""Histories in which a topic's settings change all the time, while nodes fall: the laws hold, and in the end every
replica goes by the settings that the metadata log has.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.client.administration.configs import ConfigCalls, ConfigResource, ConfigResourceType
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.workloads.workload import TOPIC, admin_core
from tests.harness.log_laws import all_batches
from tests.sim.histories import in_processes

SHORT, LONG = (0, 2), (0, 2, 6, 9)
CHOICES: dict[str, tuple[object, ...]] = {
    "compression.type": ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "internal.segment.bytes": (1000, 5000, 100_000, None),
    "index.interval.bytes": (0, 100, 4096),
    "flush.messages": (1, 10, None),
}
TOPICS = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")


class Changer:
    """Changes one setting after another. It is a RequestManager."""

    def __init__(self, servers: str, random: Random) -> None:
        self._random = random
        self._metadata, self._driver = admin_core(servers, random)
        self._next = 0
        self.is_done = False
        self.made = 0

    def poll(self, now: int) -> Poll:
        if now >= self._next and not self.is_done:
            self._next = FOREVER
            name = self._random.choice(sorted(CHOICES))
            change: dict[ConfigResource, Any] = {TOPICS: {name: self._random.choice(CHOICES[name])}}
            if self._random.random() < 0.2:
                change = {ALL_BROKERS: {"compression.type": self._random.choice(CHOICES["compression.type"])}}
            promise = ConfigCalls(self._driver).incremental_alter_configs(change, False, now + 3000)
            promise.then(lambda result: self._on_answer(result, now))
        return merge([Poll(self._next), self._driver.poll(now), self._metadata.poll(now)])

    def _on_answer(self, result: KafkaError | None, asked: int) -> None:
        self.made += result is None
        self._next = asked + self._random.randint(20, 300)


class Changing(SimulatedCluster):
    """A cluster whose topic is never left alone."""

    def _make_clients(self) -> None:
        super()._make_clients()
        servers = ",".join(f"node-{node_id}:9092" for node_id in range(1, self.knobs.brokers + 1))
        self.changer = Changer(servers, self._dice("changer"))
        self._add_client("changer", self.changer)

    def _end_storm(self) -> None:
        self.changer.is_done = True
        super()._end_storm()


def outcome(seed: int) -> tuple[int, set[str], int]:
    """(changes made, codecs in the logs, records acknowledged) of a run that has broken no law."""
    cluster = Changing(seed)
    report = cluster.run()
    codecs = set()
    for machine in cluster.nodes.values():
        node = machine.node
        if node is None or node.broker is None:
            continue
        for topic_partition, log in node.broker.logs.logs.items():
            expected = node.broker.replicas._topic_configs.config_of(topic_partition.topic)
            assert log.config.as_dict() == expected.as_dict(), (seed, topic_partition)
            codecs |= {batch.compression.name for batch in all_batches(log)}
    return cluster.changer.made, codecs, report.progress.acknowledged


@pytest.mark.long  # `test_changing_settings` has short ones
@pytest.mark.limit(900)
def test_settings_may_change_at_any_time(request: pytest.FixtureRequest) -> None:
    found = in_processes(outcome, LONG if request.config.getoption("--long") else SHORT)
    assert all(made > 5 and acknowledged > 100 for made, _, acknowledged in found), found
    assert len(set().union(*(codecs for _, codecs, _ in found))) >= 4, found
