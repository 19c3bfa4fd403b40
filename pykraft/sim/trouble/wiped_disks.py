"""Controllers that lose their disks, and come again on an empty one, formatted for their cluster.

The node has its id, and another directory id: to the quorum it is another replica, an observer. The voter that it was
never votes again (KIP-853). An administrator removes that one, and adds the new one. A disk is only lost while the
quorum can do without it: a majority of the voters has to be left, whatever changes of the voters are under way.
"""

from collections.abc import Callable, Mapping
from random import Random

from pykraft.common.types import ReplicaKey
from pykraft.sim.laws.voter_laws import VoterLaws
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.voter_changes import VoterKnobs
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler
from pykraft.storage.disk.checkpoint import read_meta_properties


class DiskWiper:
    """Takes disks away while it is active."""

    is_waiting = False

    def __init__(
        self,
        knobs: VoterKnobs,
        nodes: Mapping[int, SimulatedNode],
        laws: VoterLaws,
        watcher: Watcher,
        scheduler: Scheduler,
        random: Random,
        format_again: Callable[[SimulatedNode], None],
        report: Callable[[str, dict[str, object]], None],
        removals: Callable[[], set[ReplicaKey]],
    ) -> None:
        """`format_again` makes the directories of a node on its new disk. `removals` are voters that an administrator
        has asked to remove, and has not heard yet whether they are."""
        self._knobs = knobs
        self._controllers = [machine for machine in nodes.values() if not machine.config.is_broker]
        self._laws = laws
        self._watcher = watcher
        self._scheduler = scheduler
        self._random = random
        self._format_again = format_again
        self._report = report
        self._removals = removals
        self._left = knobs.wipes
        self.is_active = True
        self._plan_next()

    def _plan_next(self) -> None:
        pause_ms = self._random.expovariate(1 / self._knobs.wipe_every_ms)
        self._scheduler.after(round(pause_ms * US_PER_MS) + 1, self._maybe_wipe)

    def _maybe_wipe(self) -> None:
        if not self.is_active or not self._left:
            return
        self._plan_next()
        machine = self._random.choice(self._controllers)
        key = _key_of(machine)
        if self._laws.can_do_without({key, *self._removals()}):
            self._left -= 1
            self._wipe(machine, key)

    def _wipe(self, machine: SimulatedNode, key: ReplicaKey) -> None:
        self._report("wipe", {"node": machine.node_id})
        if machine.is_up:
            machine.crash()
        machine.lost_power = False
        self._watcher.forget_disk(machine, key)
        machine.filesystem = MemoryFileSystem()
        self._format_again(machine)


def _key_of(machine: SimulatedNode) -> ReplicaKey:
    """What the node is to the quorum."""
    found = read_meta_properties(machine.filesystem, machine.config.metadata_dir)
    assert found is not None
    return ReplicaKey(machine.node_id, found.directory_id)
