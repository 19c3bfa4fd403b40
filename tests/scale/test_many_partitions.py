"""Thousands of partitions on one node with 1,024 descriptors: made, filled, stopped, killed, and all there each time.

Three thousand show in each run that more logs than descriptors are served; ten thousand are a long test. What it takes
is measured by `make bench`, part `partitions`. The ceilings here are for any machine, also a busy one: the starts are
bounded by the node's own CPU time, because how long they last depends on what else uses the machine.
"""

from __future__ import annotations

import pytest

from tests.harness.many_partitions import OPEN_FILES, one_node

BASE_CPU_S = 4.0
"""Of a start without partitions."""
START_CPU_S = 25.0
START_AFTER_KILL_CPU_S = 50.0
"""For ten thousand partitions."""
STOP_S = 60.0
MEMORY_MB = 700.0


@pytest.mark.limit(500)  # a minute on a machine that has nothing else to do
@pytest.mark.parametrize("count", [3_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_more_partitions_than_descriptors_are_served_before_and_after_a_stop_and_a_kill(count: int) -> None:
    share = count / 10_000
    with one_node() as many:
        many.create(count)
        many.produce(new_segment=False)
        many.produce(new_segment=True)
        assert many.segments() == {2}
        stop_s = many.stop()
        many.restart()
        clean_s = many.cpu_s()
        many.fetch()
        many.produce(new_segment=False)
        many.kill()
        many.restart()
        killed_s = many.cpu_s()
        many.fetch()
        many.produce(new_segment=False)
        many.fetch()
        assert many.segments() == {2}
        assert many.open_files() < OPEN_FILES
        assert many.megabytes() < MEMORY_MB
        assert stop_s < STOP_S, f"{stop_s:.1f} s until all logs were closed in order"
        assert clean_s < BASE_CPU_S + share * START_CPU_S, (
            f"{clean_s:.1f} CPU s until all partitions were led after an orderly stop"
        )
        assert killed_s < BASE_CPU_S + share * START_AFTER_KILL_CPU_S, (
            f"{killed_s:.1f} CPU s until all partitions were led after a kill"
        )
