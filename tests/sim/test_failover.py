"""The active controller dies, and a broker's next request is answered: how long that takes, in virtual time.

The quorum needs a fetch timeout to miss it, and one election. The broker, which is no voter, must then hear of the next
one without losing time on the one that is dead: neither before its closed port nor behind a request to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from statistics import median

from pykraft.client.administration.configs import ConfigCalls, ConfigResource, ConfigResourceType
from pykraft.client.api_driver import ApiDriver
from pykraft.client.config import COMMON_CONFIG, bootstrap_endpoints, client_config
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import FOREVER, Poll, Promise, merge
from pykraft.sim.cluster import TOPIC, SimulatedCluster
from pykraft.sim.interventions import Kill, Restart
from pykraft.sim.trouble.knobs import calm, draw
from pykraft.timeouts import LESSON

KILLS = 6
MEDIAN_MS = 700
"""A fetch timeout of 500 ms, and what an election and a commit take. While the broker waited at the dead
controller's port, it was 840."""
SPLIT_VOTE_MS = 1100
"""Two voters miss the leader at the same time, and neither gets the other's vote: an election timeout more."""


class Asking:
    """An admin client. It is a RequestManager."""

    def __init__(self) -> None:
        config = client_config(COMMON_CONFIG, {"bootstrap.servers": "node-1:9092", "request.timeout.ms": 10_000})
        self._metadata = ClusterMetadata(config, bootstrap_endpoints(config), Random(1))
        self.driver = ApiDriver(config, self._metadata, Random(1))

    def poll(self, now: int) -> Poll:
        return merge([Poll(now + 5), self.driver.poll(now), self._metadata.poll(now)])


class Quiet(SimulatedCluster):
    """One broker and three controllers, with the timeouts of a lesson."""

    def __init__(self, seed: int) -> None:
        knobs = replace(calm(draw(seed)), brokers=1, controllers=3, storm_until_ms=1 << 40, racks=(), features={})
        knobs = replace(knobs, producers=(), consumers=(), groups=(), transactions=None, elections=None)
        properties = {name: value for name, value in LESSON.items() if name.startswith("controller.")}
        properties |= {"broker.session.timeout.ms": 9000, "broker.heartbeat.interval.ms": 500}
        super().__init__(seed, replace(knobs, properties=properties, admin_every_ms=0))

    def _make_clients(self) -> None:
        super()._make_clients()
        self.asking = Asking()
        self._add_client("asking", self.asking)

    def _end_storm(self) -> None:
        """There is none."""

    def until(self, condition: Callable[[], bool], limit_ms: int = 20_000) -> int:
        """Go on until this holds; the milliseconds that it took."""
        began = self.scheduler.now
        while not condition():
            assert self.scheduler.now < began + limit_ms, "it takes too long"
            self.step()
        return self.scheduler.now - began

    def answered(self, promise: Promise[object]) -> int:
        taken_ms = self.until(lambda: promise.kept)
        assert not isinstance(promise.value, Exception)
        return taken_ms

    @property
    def leading(self) -> int:
        """The controller that leads, by its id."""
        for node_id, machine in self.nodes.items():
            controller = None if machine.node is None else machine.node.controller
            if controller is not None and controller.is_active:
                return node_id
        return 0


def test_a_broker_has_the_next_controller_in_little_more_than_the_time_to_miss_the_last_one() -> None:
    cluster = Quiet(1)
    cluster.begin()
    cluster.until(lambda: cluster._maker.is_done)
    taken = []
    for number in range(KILLS):
        cluster.until(lambda: cluster.leading > 0)
        dead = cluster.leading
        cluster.intervene(Kill(dead))
        change = {ConfigResource(ConfigResourceType.TOPIC, TOPIC): {"retention.ms": str(1_000_000 + number)}}
        promise = ConfigCalls(cluster.asking.driver).incremental_alter_configs(change, False, FOREVER)
        taken.append(cluster.answered(promise))
        cluster.intervene(Restart(dead))
        pause = cluster.scheduler.now + 1000 + 37 * number
        cluster.until(lambda end=pause: cluster.scheduler.now >= end)  # type: ignore[misc]
    assert median(taken) <= MEDIAN_MS, taken
    assert max(taken) <= SPLIT_VOTE_MS, taken
