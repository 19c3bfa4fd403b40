"""Ten thousand partitions on one node with 1,024 descriptors: made, filled, stopped, killed, and all there each time.

What it takes is measured by `make bench`, part `partitions`. The ceilings here are for any machine, also a busy one:
the starts are bounded by the node's own CPU time, because how long they last depends on what else uses the machine.
"""

from __future__ import annotations

import pytest

from tests.harness.many_partitions import OPEN_FILES, one_node

COUNT = 10_000
START_CPU_S = 25.0
START_AFTER_KILL_CPU_S = 50.0
STOP_S = 60.0
MEMORY_MB = 700.0


@pytest.mark.limit(500)  # a minute on a machine that has nothing else to do
def test_ten_thousand_partitions_are_served_before_and_after_a_stop_and_a_kill() -> None:
    with one_node() as many:
        many.create(COUNT)
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
        assert clean_s < START_CPU_S, f"{clean_s:.1f} CPU s until all partitions were led after an orderly stop"
        assert killed_s < START_AFTER_KILL_CPU_S, f"{killed_s:.1f} CPU s until all partitions were led after a kill"
