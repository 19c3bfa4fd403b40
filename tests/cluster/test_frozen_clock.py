"""A test stops the time of day around the code that it is about: nodes and clients go on, and stamp what it says.

What time-machine does instead changes only the functions that tell the time of day, which no timer here asks.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from freezegun import freeze_time

from pykraft import Cluster, Consumer, Producer
from pykraft.runtime.clock import MonotonicClock, SystemClock, monotonic_s
from tests.harness.waiting import wait_until

THEN = datetime(2020, 2, 29, 12, tzinfo=UTC)
LONG_S = 20.0


@pytest.mark.parametrize(
    "now", [monotonic_s, SystemClock().elapsed_us, SystemClock.elapsed_ns, MonotonicClock().now], ids=str
)
def test_what_timers_count_on_goes_on_while_the_time_of_day_is_frozen(now: Callable[[], float]) -> None:
    with freeze_time(THEN):
        assert SystemClock().time_ms() == THEN.timestamp() * 1000
        before = now()
        for _ in range(100_000):
            if now() > before:
                return
    raise AssertionError("the clock stands still")


def test_a_group_reads_commits_and_loses_a_member_while_the_time_of_day_is_frozen() -> None:
    """Each of these needs timers: to join, to commit, and to notice that a member is silent."""
    times = {"session_timeout_ms": 600, "heartbeat_interval_ms": 100}
    group = {"group_id": "frozen", "auto_offset_reset": "earliest", **times}
    with Cluster(nodes=1, properties={"group.min.session.timeout.ms": 100}) as cluster, freeze_time(THEN):
        servers = cluster.bootstrap_servers
        with Producer(bootstrap_servers=servers) as producer:
            assert producer.send("frozen", b"ice").get(LONG_S).timestamp == THEN.timestamp() * 1000
        first = Consumer("frozen", bootstrap_servers=servers, **group)  # type: ignore[arg-type]
        read: list[bytes | None] = []
        wait_until(lambda: bool(read.extend(first_values(first)) or read), "the first member reads")
        first.commit()
        first.kill()
        with Consumer("frozen", bootstrap_servers=servers, **group) as second:  # type: ignore[arg-type]
            wait_until(lambda: bool(second.poll(20) or second.assignment()), "the silent member is removed")
    assert read == [b"ice"]


def first_values(consumer: Consumer) -> list[bytes | None]:
    return [record.value for records in consumer.poll(50).values() for record in records]
