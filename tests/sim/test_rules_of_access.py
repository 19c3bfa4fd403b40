"""Histories of a cluster with an authorizer: rules come and go while nodes fall; every node allows by them what a look
at each rule allows, and in the end they have the same rules. (The planted bugs are in `test_planted_bugs`.)
"""

from __future__ import annotations

import pytest

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.limits import RULE_SEEDS
from tests.sim.histories import in_processes

SEEDS = RULE_SEEDS[1:5]


def outcome(seed: int) -> tuple[int, int, int, int]:
    """(requests that made rules, requests that removed some, rules in the end, records acknowledged)."""
    cluster = SimulatedCluster(seed)
    report = cluster.run()
    maker = cluster.limits.rule_maker
    assert maker is not None
    nodes = [machine.node for machine in cluster.nodes.values() if machine.node is not None]
    (rules,) = {len(node.loader.image.acls) for node in nodes}
    return maker.made, maker.removed, rules, report.progress.acknowledged


@pytest.mark.long
@pytest.mark.limit(900)
def test_rules_may_change_at_any_time() -> None:
    found = in_processes(outcome, SEEDS)
    assert all(made > 3 and removed > 3 and acknowledged > 50 for made, removed, _, acknowledged in found), found
    assert sum(made + removed for made, removed, _, _ in found) > 50, found
    assert any(rules for _, _, rules, _ in found), "in some history rules are left in the end"
