"""Histories of the seeds that have quotas of their own, which change all the time while nodes fall: no client gets more
than the laws of quotas say, and none is held back for another. The clients take no notice when they are throttled.
"""

from __future__ import annotations

import pytest

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.limits import QUOTA_SEEDS
from tests.sim.histories import in_processes

SHORT, LONG = QUOTA_SEEDS[1:2], QUOTA_SEEDS[:8]


def outcome(seed: int) -> tuple[int, int, int, int]:
    """(changes made, requests with a quota, those that were throttled, records acknowledged)."""
    cluster = SimulatedCluster(seed)
    report = cluster.run()
    laws, setter = cluster.limits.quota_laws, cluster.limits.setter
    assert setter is not None
    return setter.made, laws.charged, laws.throttled, report.progress.acknowledged


@pytest.mark.limit(900)
def test_quotas_may_change_at_any_time(request: pytest.FixtureRequest) -> None:
    found = in_processes(outcome, LONG if request.config.getoption("--long") else SHORT)
    for made, charged, throttled, acknowledged in found:
        assert made >= 3 and charged > 50 and throttled > 3 and acknowledged > 100, found
