"""Histories of quorums that begin with static voters and are upgraded while nodes fall.

A client asks for ``kraft.version`` 1 until it is told that the quorum has it. From then on every active controller is
at level 1. A level comes and goes with its voters: at level 0 no directory id is known, at level 1 each one is. At the
end every node is at level 1, and all have the same voters with their true directory ids. The first leaders that write
the upgrade crash at once. If no other voter has it, it is lost, and the client asks again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple

import pytest

from pykraft.client.administration.features import FeatureCalls, FeatureUpdate
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.trace import TraceEvent
from pykraft.common.types import ZERO_UUID
from pykraft.raft.log.voters import STATIC_VOTERS, VOTERS_IN_LOG
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.invariants import require
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.trouble.outages import Outages
from pykraft.sim.workloads.workload import admin_core
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.scheduler import US_PER_MS
from tests.sim.histories import in_processes

SEEDS = (10,)
LONG_SEEDS = range(40)
KRAFT = "kraft.version"
_LOST = 2
"""So many leaders crash soon after they have written the upgrade, before or after it is committed."""


class Upgrader:
    """Asks for level 1 until it has it. It is a RequestManager."""

    def __init__(self, servers: str, random: Random) -> None:
        self._random = random
        self._metadata, self._driver = admin_core(servers, random)
        self._next = 0
        self.is_told = False
        self.refusals = 0

    def poll(self, now: int) -> Poll:
        if now >= self._next:
            self._next = FOREVER
            updates = {KRAFT: FeatureUpdate(VOTERS_IN_LOG)}
            promise = FeatureCalls(self._driver).update_features(updates, False, 1000, now + 3000)
            promise.then(lambda result: self._on_answer(result, now))
        return merge([Poll(self._next), self._driver.poll(now), self._metadata.poll(now)])

    def _on_answer(self, result: KafkaError | None, asked: int) -> None:
        self.is_told = self.is_told or result is None
        self.refusals += isinstance(result, KafkaError) and result.code is ErrorCode.INVALID_UPDATE_VERSION
        self._next = FOREVER if self.is_told else asked + self._random.randint(20, 200)


class Upgraded(SimulatedCluster):
    """A cluster with static voters that is to have them in its log."""

    def __init__(self, seed: int) -> None:
        self.written = 0
        knobs = draw(seed)
        super().__init__(seed, replace(knobs, features={**knobs.features, KRAFT: STATIC_VOTERS}))

    def _make_clients(self) -> None:
        super()._make_clients()
        servers = ",".join(f"node-{node_id}:9092" for node_id in range(1, self.knobs.brokers + 1))
        self.upgrader = Upgrader(servers, self._dice("upgrader"))
        self._add_client("upgrader", self.upgrader)

    def _on_trace(self, event: TraceEvent) -> None:
        super()._on_trace(event)
        if event.name == "kraft_version":
            self.written += 1
            if self.written <= _LOST:
                self._trouble(self.nodes[event.node], self._dice(f"trouble {self.written}"))
        if event.name in ("metadata_append", "metadata_truncate") and (node := self.nodes[event.node].node) is not None:
            keys = node.raft.replica.control_records.voters.keys
            is_known = all(key.directory_id != ZERO_UUID for key in keys)
            is_upgraded = node.raft.kraft_version == VOTERS_IN_LOG
            require(is_known == is_upgraded, f"node {event.node} is at a level of other voters: {keys}")
        if event.name == "controller" and event.fields["active"] and self.upgrader.is_told:
            node = self.nodes[event.node].node
            assert node is not None
            require(node.raft.kraft_version == VOTERS_IN_LOG, f"leader {event.node} is at an older level than was told")

    def _trouble(self, leader: SimulatedNode, dice: Random) -> None:
        """The leader ends soon, and perhaps no other node hears of what it has just written."""
        if dice.random() < 0.7:
            links = [(f"node-{leader.node_id}", f"node-{other}") for other in self.nodes if other != leader.node_id]
            Outages(self.scheduler, self.network, self._report).cut(links, 1500 * US_PER_MS)
        self.scheduler.after(dice.randint(0, 5 * US_PER_MS), partial(self._end_leader, leader))

    def _end_leader(self, machine: SimulatedNode) -> None:
        if machine.is_up and not machine.is_kept_down:
            self.faults.crash(machine)

    def _missing(self) -> str | None:
        return super()._missing() or (None if self.upgrader.is_told else "the upgrade is not acknowledged")

    def _check_end(self) -> None:
        super()._check_end()
        nodes = [machine.node for _, machine in sorted(self.nodes.items()) if machine.node is not None]
        keys = sorted(node.replica_key for node in nodes if node.config.is_controller)
        for node in nodes:
            name = f"node {node.config.node_id}"
            require(node.raft.kraft_version == VOTERS_IN_LOG, f"{name} is at {node.raft.kraft_version}")
            found = node.raft.replica.control_records.voters.keys
            require(found == keys, f"{name} has the voters {found}")


class Outcome(NamedTuple):
    refusals: int
    """How often the leader had not heard of all voters."""
    lost: int
    """How many upgrades were written and lost."""


def outcome(seed: int) -> Outcome:
    """What came of a run that has broken no law."""
    cluster = Upgraded(seed)
    cluster.run()
    return Outcome(cluster.upgrader.refusals, cluster.written - 1)


@pytest.mark.limit(900)
def test_static_voters_are_upgraded_under_crashes(request: pytest.FixtureRequest) -> None:
    is_long = request.config.getoption("--long")
    found = in_processes(outcome, LONG_SEEDS if is_long else SEEDS)
    assert sum(each.refusals for each in found) > len(found), found
    assert sum(each.lost for each in found) >= (2 if is_long else 1), found
