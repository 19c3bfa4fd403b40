"""What befalls disks and clocks, and what an administrator does about it: `DiskFaults`. See `trouble.disks` for what is
promised meanwhile."""

from collections.abc import Callable
from random import Random
from typing import Any

from pykraft.raft.log.voters import NO_VOTERS, VoterSet
from pykraft.records.batch import HEADER_BYTES
from pykraft.sim.trouble.disks import DiskKnobs
from pykraft.sim.trouble.faults import Faults
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.storage.disk.checkpoint import CLEAN_SHUTDOWN
from pykraft.storage.file_records import FileRecords
from pykraft.storage.segment_files import LOG_SUFFIX

_CLEAN = f"/data/{CLEAN_SHUTDOWN}"
_TOPIC = "t"
"""The topic of the readers and writers (`workloads.workload`), which have the laws that damage must not break."""
_LOOK_US = 100 * US_PER_MS
_KEPT_COPIES = 3
_SECOND_COPIES_MS = 3_000
"""A replica that has lost its folders is back, and copies them, within this time."""
_LENGTH, _MAGIC, _CHECKSUM = 8, 16, 17
_LAST_OFFSET_DELTA = range(23, 27)
"""Places in the header of a batch."""
_MOST_LEFT_BYTES = 3_000
_CLOCK_LIMIT_MS = 12 * 3_600_000
"""No clock is farther off than this."""


class DiskFaults(Faults):
    """All trouble, that of disks and clocks as well."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._copies: dict[int, list[MemoryFileSystem]] = {}
        self._damaged: dict[int, list[str]] = {}
        """By node: the folders with rotten bytes."""
        self._again: Callable[[SimulatedNode], None]
        self._skew_ms = {key: machine.clock_skew_ms for key, machine in self._nodes.items()}

    def format_with(
        self, format_again: Callable[[SimulatedNode, VoterSet | None, Random], None], dice: Callable[[str], Random]
    ) -> None:
        """`format_again` makes the directories of a node on its new disk; a directory's id is drawn."""
        self._again = lambda machine: format_again(machine, NO_VOTERS, dice(f"disk {machine.name} {machine.life}"))

    @property
    def _disks(self) -> DiskKnobs:
        assert self._knobs.disks is not None
        return self._knobs.disks

    def begin(self) -> None:
        super().begin()
        if self._knobs.disks is not None and "old_disk" in self._knobs.faults:
            self._copy_later()

    def end(self) -> None:
        super().end()
        for node_id, machine in self._nodes.items():
            machine.clock_skew_ms = self._skew_ms[node_id]
            machine.filesystem.make_room()
        for node_id in sorted(self._damaged):
            self._take_damage_away(self._nodes[node_id])
            self._start_later(self._nodes[node_id], 0)

    def _make_calm(self) -> None:
        super()._make_calm()
        for machine in self._nodes.values():
            machine.filesystem.make_room()

    # --- full disks, and clocks ---------------------------------------------------------------------------------------

    def _full_disk(self) -> None:
        """Soon there is no room left; later there is again."""
        if self._up:
            machine = self._random.choice(self._up)
            left = self._random.randrange(_MOST_LEFT_BYTES)
            machine.filesystem.fill_up(left)
            self._watcher.progress.disks_filled += 1
            self._report("full_disk", {"node": machine.node_id, "left": left})
            filesystem = machine.filesystem
            delay_ms = self._random.randint(*self._disks.full_for_ms)
            self._scheduler.after(delay_ms * US_PER_MS, filesystem.make_room)

    def _clock_jump(self) -> None:
        machine = self._random.choice(list(self._nodes.values()))
        by_ms = self._random.choice((-1, 1)) * self._random.choice(self._disks.jumps_ms)
        if abs(machine.clock_skew_ms + by_ms) <= _CLOCK_LIMIT_MS:
            machine.clock_skew_ms += by_ms
            self._watcher.progress.clock_jumps += 1
            self._report("clock", {"node": machine.node_id, "by_ms": by_ms})

    # --- other disks --------------------------------------------------------------------------------------------------

    def _copy_later(self) -> None:
        def copy() -> None:
            if self._is_over:
                return
            self._copy_later()
            machine = self._random.choice(self._lone_brokers)
            if machine.node_id not in self._watcher.lossy:
                self._keep_copy(machine)

        self._scheduler.after(self._random.randint(1, 2 * self._disks.copy_every_ms) * US_PER_MS, copy)

    def _keep_copy(self, machine: SimulatedNode) -> None:
        kept = self._copies.setdefault(machine.node_id, [])
        kept.append(machine.filesystem.copy())
        del kept[: -_KEPT_COPIES if self._random.random() < 0.5 else -_KEPT_COPIES - 2]

    def on_end(self, machine: SimulatedNode) -> None:
        was_in_order = machine.is_stopping and machine.node_id not in self._watcher.lossy
        if was_in_order and self._copies and not machine.config.is_controller and not self._is_over:
            self._keep_copy(machine)  # it says of itself that it was closed in order
        if self._watcher.disks is not None:
            self._watcher.disks.note_end(machine)
            self._watcher.progress.processes_without_room = sum(each.ends_without_room for each in self._nodes.values())
        super().on_end(machine)

    @property
    def _lone_brokers(self) -> list[SimulatedNode]:
        return [machine for machine in self._nodes.values() if not machine.config.is_controller]

    def _old_disk(self) -> None:
        self._make_calm()

        def strike() -> None:
            self._replace_disk(self._random.choice(self._lone_brokers))
            self._await(self._one_may_lose_power, self._resume)

        self._await(self._one_may_lose_power, strike)

    @property
    def _has_elr(self) -> bool:
        return self._knobs.elections is not None and self._knobs.elections.keeps_elr

    def _replace_disk(self, machine: SimulatedNode) -> None:
        copies = self._copies.get(machine.node_id, [])
        is_wiped = not copies or self._random.random() < self._disks.wiped
        self._report("old_disk", {"node": machine.node_id, "is_empty": is_wiped})
        self._watcher.lossy.add(machine.node_id)
        self._watcher.progress.disks_replaced += 1
        if machine.is_up:
            machine.crash()
        self._watcher.forget_disk(machine)
        machine.filesystem = MemoryFileSystem() if is_wiped else self._random.choice(copies).copy()
        self._copies.pop(machine.node_id, None)
        if is_wiped:
            self._again(machine)

    def _forgive_when_back(self, machine: SimulatedNode) -> None:
        """Once it is in all its ISRs again, in a process that began after the loss, it counts as whole."""

        def look() -> None:
            if machine.node_id not in self._damaged and self._is_back(machine):
                self._watcher.lossy.discard(machine.node_id)
            else:
                self._scheduler.after(_LOOK_US, look)

        self._scheduler.after(_LOOK_US, look)

    # --- bit rot ------------------------------------------------------------------------------------------------------

    def _bit_rot(self) -> None:
        if self._has_elr:
            victim = self._one_to_rot()
            if victim is not None and not self._watcher.lossy:
                self._damage(victim)
                self._await_repair(victim, lambda: self._forgive_when_back(victim))
            return
        self._make_calm()
        self._await(self._one_may_lose_power, self._rot_in_the_calm)

    def _one_to_rot(self) -> SimulatedNode | None:
        found = [machine for machine in self._up if _closed_segments(machine)]
        leaders = [machine for machine in found if _leads(machine)]
        chosen = leaders if leaders and self._random.random() < 0.7 else found
        return self._random.choice(chosen) if chosen else None

    def _rot_in_the_calm(self) -> None:
        victim = self._one_to_rot()
        if victim is None:
            self._resume()
            return
        self._damage(victim)
        has_second = self._random.random() < self._disks.second
        if has_second:
            others = [machine for machine in self._up if machine is not victim and _closed_segments(machine)]
            self._lose_folders(self._random.choice(others or [victim]))
        longer_ms = _SECOND_COPIES_MS if has_second else 0
        self._await_repair(victim, lambda: self._await(self._one_may_lose_power, self._resume), longer_ms)

    def _damage(self, machine: SimulatedNode) -> None:
        """One byte in some batches of its closed segments."""
        self._watcher.lossy.add(machine.node_id)
        self._watcher.progress.disks_rotten += 1
        segments = _closed_segments(machine)
        for path in self._random.sample(segments, self._random.randint(1, len(segments))):
            bits = _damage_of(machine.filesystem, path, self._random)
            machine.filesystem.rot(path, bits)
            self._report("bit_rot", {"node": machine.node_id, "file": path, "at": sorted(bits)})
        folders = {path.rpartition("/")[0] for path in segments if machine.filesystem.rotten(path)}
        self._damaged[machine.node_id] = sorted(folders)

    def _await_repair(self, machine: SimulatedNode, then: Callable[[], None], longer_ms: int = 0) -> None:
        """The damage stays for a while, and the broker may start again with it; then it is taken away."""
        for_ms = self._random.randint(*self._disks.damaged_for_ms) + longer_ms
        if not longer_ms and self._random.random() < 0.5:
            self._scheduler.after(for_ms * US_PER_MS // 3, lambda: self._end_somehow(machine))

        def repair() -> None:
            if machine.node_id in self._damaged and not self._is_over:
                self._take_damage_away(machine)
                self._start_later(machine, 0)
                then()

        self._scheduler.after(for_ms * US_PER_MS, repair)

    def _end_somehow(self, machine: SimulatedNode) -> None:
        if machine.is_up and not machine.is_stopping and machine.node_id in self._damaged:
            if self._random.random() < 0.3:
                machine.stop()
            else:
                self.crash(machine)

    def _take_damage_away(self, machine: SimulatedNode) -> None:
        """The folders with rotten bytes go, while no process uses them; the broker copies them from the leaders."""
        self._report("repair", {"node": machine.node_id})
        folders = self._damaged.pop(machine.node_id)
        if machine.is_up:
            machine.crash()
        if machine.filesystem.exists(_CLEAN):
            machine.filesystem.remove(_CLEAN)  # of what is left here now that stop says nothing
        self._watcher.lossy.add(machine.node_id)
        self._remove(machine, folders)
        machine.filesystem.is_rotten = False

    def _lose_folders(self, machine: SimulatedNode) -> None:
        """Another replica of what is damaged has lost its folders: it copies them, perhaps from the damaged one."""
        self._report("lost_folders", {"node": machine.node_id})
        self._watcher.lossy.add(machine.node_id)
        folders = sorted({path.rpartition("/")[0] for path in _closed_segments(machine)})
        if machine.is_up and machine.node_id not in self._damaged:
            machine.crash()
            self._remove(machine, folders)
            self._start_later(machine, 0)

    @staticmethod
    def _remove(machine: SimulatedNode, folders: list[str]) -> None:
        disk = machine.filesystem
        for folder in folders:
            if disk.exists(folder):
                disk.remove(folder)
        disk.sync_all()


def _closed_segments(machine: SimulatedNode) -> list[str]:
    """The files of the topic's segments on which nothing is appended any more."""
    disk, found = machine.filesystem, []
    if disk.exists("/data"):
        for name in disk.list("/data"):
            if name.startswith(f"{_TOPIC}-") and "." not in name:
                files = [each for each in disk.list(f"/data/{name}") if each.endswith(LOG_SUFFIX)]
                found += [f"/data/{name}/{each}" for each in files[:-1] if disk.size(f"/data/{name}/{each}")]
    return found


def _leads(machine: SimulatedNode) -> bool:
    broker = None if machine.node is None else machine.node.broker
    return broker is not None and any(
        partition.is_leader and place.topic == _TOPIC for place, partition in broker.replicas.partitions.items()
    )


def _damage_of(disk: MemoryFileSystem, path: str, random: Random) -> dict[int, int]:
    """A byte of one or two batches of this file, and which of its bits are inverted."""
    file = FileRecords(disk.open(path))
    places = list(file.headers())
    bits = {}
    for at in random.sample(places, min(len(places), random.choice((1, 1, 2)))):
        of_records = random.randrange(HEADER_BYTES, at.header.size)
        inside = random.choice((_CHECKSUM, random.randrange(_CHECKSUM, HEADER_BYTES), of_records, of_records))
        place = random.choice((_LENGTH + 2, _MAGIC)) if random.random() < 0.15 else inside
        if place not in _LAST_OFFSET_DELTA:
            bits[at.position + place] = 1 << random.randrange(8)
    return bits
