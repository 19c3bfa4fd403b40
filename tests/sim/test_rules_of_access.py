"""Histories of a cluster with an authorizer: rules come and go while nodes fall, and in the end every node has the
same rules, and allows by them what a look at each rule allows.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pykraft.broker.requests.standard_authorizer import StandardAuthorizer
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.client.administration.acls import AclCalls
from pykraft.common.acl import AclBinding, AclBindingFilter, AclOperation, AclResourceType
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.metadata.acls import binding
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.workloads.workload import admin_core
from tests.harness.lone_node import LoneNode
from tests.harness.rules import rule
from tests.sim.histories import in_processes
from tests.unit.metadata.test_acls import plainly

SEEDS = (3, 5, 8, 11)
GUARDED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
RULES = [
    rule(f"{permission} {who} {operation} TOPIC {name}")
    for permission in ("allow", "deny")
    for who in ("alice", "*")
    for operation in ("READ", "ALL")
    for name in ("t", "t...", "*")
]


class RuleMaker:
    """Makes and removes one rule after another. It is a RequestManager."""

    def __init__(self, servers: str, random: Random) -> None:
        self._random = random
        self._metadata, self._driver = admin_core(servers, random)
        self._next = 0
        self.is_done = False
        self.made = self.removed = 0

    def poll(self, now: int) -> Poll:
        if now >= self._next and not self.is_done:
            self._next = FOREVER
            calls, chosen = AclCalls(self._driver), self._random.sample(RULES, 2)
            if self._random.random() < 0.6:
                calls.create_acls(chosen, now + 3000).then(lambda result: self._on_answer(result, now, True))
            else:
                filters = [AclBindingFilter(*chosen[0]), AclBindingFilter(principal=chosen[1].principal)]
                calls.delete_acls(filters, now + 3000).then(lambda result: self._on_answer(result, now, False))
        return merge([Poll(self._next), self._driver.poll(now), self._metadata.poll(now)])

    def _on_answer(self, result: object, asked: int, is_made: bool) -> None:
        if not isinstance(result, KafkaError):
            self.made += is_made
            self.removed += not is_made
        self._next = asked + self._random.randint(20, 300)


class Guarded(SimulatedCluster):
    """A cluster with rules of access, which are never left alone."""

    def _make_clients(self) -> None:
        super()._make_clients()
        servers = ",".join(f"node-{node_id}:9092" for node_id in range(1, self.knobs.brokers + 1))
        self.rule_maker = RuleMaker(servers, self._dice("rules"))
        self._add_client("rules", self.rule_maker)

    def _end_storm(self) -> None:
        self.rule_maker.is_done = True
        super()._end_storm()


def outcome(seed: int) -> tuple[int, int, int, int]:
    """(requests that made rules, requests that removed some, rules in the end, records acknowledged)."""
    knobs = draw(seed)
    cluster = Guarded(seed, replace(knobs, properties={**knobs.properties, **GUARDED}))
    report = cluster.run()
    rules: set[frozenset[AclBinding]] = set()
    for machine in cluster.nodes.values():
        node = machine.node
        if node is not None:
            assert isinstance(node.authorizer, StandardAuthorizer)
            known = frozenset(map(binding, node.loader.image.acls.values()))
            rules.add(known)
            for who in ("User:alice", "User:bob"):
                context = LoneNode.context(MetadataRequest(topics=None), principal=who)
                for operation in (AclOperation.READ, AclOperation.DESCRIBE):
                    allowed = node.authorizer.allows(context, operation, AclResourceType.TOPIC, "tea")
                    assert allowed is plainly(known, who, "127.0.0.1", operation, AclResourceType.TOPIC, "tea")
    assert len(rules) == 1, "every node has the same rules"
    return cluster.rule_maker.made, cluster.rule_maker.removed, len(*rules), report.progress.acknowledged


@pytest.mark.long
@pytest.mark.limit(900)
def test_rules_may_change_at_any_time() -> None:
    found = in_processes(outcome, SEEDS)
    assert all(made > 3 and removed > 3 and acknowledged > 100 for made, removed, _, acknowledged in found), found
    assert sum(made + removed for made, removed, _, _ in found) > 50, found
    assert any(rules for _, _, rules, _ in found), "in some history rules are left in the end"
