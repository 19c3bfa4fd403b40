"""The scenario of two consumers in one group: what it does on a cluster, and what it says of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pykraft import Cluster
from pykraft.course.rigs.shared_group import SharedGroup

SESSION_MS = 1000


@pytest.fixture
def group() -> Iterator[SharedGroup]:
    with Cluster(nodes=1) as cluster:
        with cluster.admin() as admin:
            admin.create_topic("t", 2, 1)
        group = SharedGroup(cluster, "t", ["ann", "ben"], session_timeout_ms=SESSION_MS)
        try:
            yield group
        finally:
            group.close()


def test_a_killed_member_keeps_its_partition_until_its_session_times_out_and_the_other_reads_on(
    group: SharedGroup,
) -> None:
    group.wait_until_shared()
    assert group.is_shared() and not group.is_taken_over()
    group.flow(0.3)
    started = time.monotonic()
    group.kill("ann")
    assert time.monotonic() - started < 10, "a kill waits for no answer"
    group.flow_until(group.is_taken_over)
    group.drain()
    # The others hear of a member that leaves at their next heartbeat, a fifth of a session later at most. This one is
    # waited for, less the age of its last heartbeat.
    assert SESSION_MS / 2000 < group.takeover_s < float("inf")
    assert group.owners == {"t-0": "ben", "t-1": "ben"}
    assert (group.lag, group.unread) == (0, 0)
    assert group.highest_lag > 0
    assert sum(seen[-1][2] for seen in group.seen.values()) == group.written
    group.close()
    group.close()  # twice, as at the end of a notebook
