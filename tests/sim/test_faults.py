"""What befalls a simulated machine is the simulator's doing, and is not taken for a node's mistake."""

from __future__ import annotations

from pykraft.sim.cluster import SimulatedCluster

SEED = 16


def test_a_disk_may_fail_in_the_life_after_the_one_in_which_that_was_drawn() -> None:
    cluster = SimulatedCluster(SEED)
    machine = next(iter(cluster.nodes.values()))
    machine.start()
    machine.disk_failed = True
    machine.stop()
    while machine.is_up:
        cluster.scheduler.run_next()
    machine.filesystem.fail_after(0, OSError(5, "the disk fails"))  # as was drawn, but this life was too short for it
    machine.start()
    assert not machine.is_up
    machine.start()
    assert machine.is_up, "the disk failed once"
