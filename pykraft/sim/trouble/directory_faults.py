"""Lets log directories fail, and repairs them: `DirectoryFaults`. See `trouble.directories` for what is promised."""

from typing import Any

from pykraft.sim.trouble.directories import (
    EMPTIED,
    FAILS,
    MOMENTS,
    NOW,
    OUTCOMES,
    REPLACED,
    TORN,
    DirectoryKnobs,
)
from pykraft.sim.trouble.disk_faults import DiskFaults
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.network import Weather
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.storage.disk.checkpoint import META_PROPERTIES

_IN_THE_CALM_MS = (600, 2_200)
"""How long a directory that is replaced later is bad: long enough for the bounds of the laws."""
_ENDS_IN_ORDER = 0.3
_BREAKS_BY_MS = 400
"""A disk that has not met its operation by then breaks at once."""


class DirectoryFaults(DiskFaults):
    """All trouble, that of log directories as well."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._calms = 0
        """How often all trouble ended for a directory to be replaced: what was planned before does not come."""

    @property
    def _directories(self) -> DirectoryKnobs:
        assert self._knobs.directories is not None
        return self._knobs.directories

    def is_quiet(self) -> bool:
        """Whether nothing but a broken disk keeps the cluster from doing what it should."""
        now_us = self._scheduler.now_us
        return (
            self._network.is_whole
            and self._network.weather == Weather()
            and self._has_controller()
            and all(machine.is_up and machine.stalled_until_us <= now_us for machine in self._nodes.values())
            and all(self._runs(machine) for machine in self._nodes.values())
        )

    def _has_controller(self) -> bool:
        nodes = (machine.node for machine in self._up)
        return any(node is not None and node.raft.replica.quorum.is_leader for node in nodes)

    @staticmethod
    def _runs(machine: SimulatedNode) -> bool:
        broker = None if machine.node is None else machine.node.broker
        return not machine.is_stopping and (broker is None or (broker.lifecycle.is_running and broker.is_open))

    def on_end(self, machine: SimulatedNode) -> None:
        if self._watcher.directories is not None:
            self._watcher.directories.note_end(machine)
        super().on_end(machine)

    def end(self) -> None:
        super().end()
        for machine in self._nodes.values():
            self._mend(machine)
            self._begin_again(machine)

    # --- failing ------------------------------------------------------------------------------------------------------

    def _fail_directory(self) -> None:
        """One breaks, and works again later."""
        victims = [machine for machine in self._brokers_up if not machine.filesystem.failed_folders]
        if victims:
            machine = self._random.choice(victims)
            path = self._choose(machine)
            self._break(machine, path, self._random.choice(MOMENTS))
            for_ms = self._random.randint(*self._directories.bad_for_ms)
            calms = self._calms
            if self._random.random() < self._directories.restarts:
                self._scheduler.after(for_ms * US_PER_MS // 2, lambda: self._end_one(machine, calms))

            def repair() -> None:
                if not self._is_over and calms == self._calms:
                    self._mend(machine)
                    self._begin_again(machine)

            self._scheduler.after(for_ms * US_PER_MS, repair)

    @property
    def _brokers_up(self) -> list[SimulatedNode]:
        return [machine for machine in self._up if machine.config.is_broker]

    def _choose(self, machine: SimulatedNode, spares_metadata: bool = False) -> str:
        """Which of its directories."""
        config = machine.config
        if not spares_metadata and self._random.random() < self._directories.of_metadata:
            return config.metadata_dir
        paths = [path for path in config.log_dirs if path != config.metadata_dir]
        moved = [path for path in self._moved_between(machine) if path in paths]
        is_of_a_move = moved and self._random.random() < self._directories.of_a_move
        return self._random.choice(moved if is_of_a_move else paths)

    @staticmethod
    def _moved_between(machine: SimulatedNode) -> list[str]:
        """The directories that replicas move from and to now."""
        broker = None if machine.node is None else machine.node.broker
        if broker is None:
            return []
        sources = [broker.logs.manager_of(place) for place in broker.moves.moves]
        found = {move.target.directory for move in broker.moves.moves.values()}
        return sorted(found | {manager.directory for manager in sources if manager is not None})

    def _break(self, machine: SimulatedNode, path: str, moment: str) -> None:
        """At this moment, or soon."""
        self._report(FAILS, {"node": machine.node_id, "directory": path, "at": moment})
        disk = machine.filesystem

        def break_at_last() -> None:
            if disk.is_breaking(path):
                disk.break_now(path)

        if moment == NOW:
            disk.break_now(path)
        else:
            disk.break_at(path, moment)
            self._scheduler.after(_BREAKS_BY_MS * US_PER_MS, break_at_last)

    def _end_one(self, machine: SimulatedNode, calms: int) -> None:
        """Its process ends, and begins again on what it finds; unless a directory is to be replaced by now."""
        if machine.is_up and not machine.is_stopping and not self._is_over and calms == self._calms:
            if self._random.random() < _ENDS_IN_ORDER:
                machine.stop()
            else:
                self.crash(machine)

    def _mend(self, machine: SimulatedNode) -> None:
        disk = machine.filesystem
        self._watcher.progress.directories_failed += len(disk.failed_folders)
        for path in sorted(disk.failed_folders):
            self._report("mend_directory", {"node": machine.node_id, "directory": path})
        disk.failed_folders.clear()

    def _begin_again(self, machine: SimulatedNode) -> None:
        """A process that does without a directory ends: the next one has it."""
        broker = None if machine.node is None else machine.node.broker
        if broker is not None and broker.logs.failures:
            self.crash(machine)
        if self._is_over:
            self._start_later(machine, 0)

    # --- replacing ----------------------------------------------------------------------------------------------------

    def _replace_directory(self) -> None:
        self._calms += 1
        self._make_calm()
        for machine in self._nodes.values():
            self._mend(machine)
            self._begin_again(machine)
        self._await(self._one_may_lose_power, self._break_one_for_good)

    def _break_one_for_good(self) -> None:
        machine = self._random.choice(self._brokers_up)
        takes_metadata = not machine.config.is_controller and self._random.random() < self._directories.of_metadata
        path = machine.config.metadata_dir if takes_metadata else self._choose(machine, spares_metadata=True)
        self._break(machine, path, self._random.choice(MOMENTS))
        for_ms = self._random.randint(*_IN_THE_CALM_MS)
        if self._random.random() < self._directories.restarts:
            calms = self._calms
            self._scheduler.after(for_ms * US_PER_MS // 2, lambda: self._end_one(machine, calms))
        outcome = REPLACED if takes_metadata else self._random.choice(OUTCOMES)

        def replace() -> None:
            if not self._is_over:
                self._replace(machine, path, outcome)
                self._await(self._one_may_lose_power, self._resume)

        self._scheduler.after((for_ms + _BREAKS_BY_MS) * US_PER_MS, replace)

    def _replace(self, machine: SimulatedNode, path: str, outcome: str) -> None:
        """Another disk is where this one was."""
        self._report("replace_directory", {"node": machine.node_id, "directory": path, "outcome": outcome})
        self._watcher.progress.directories_replaced += 1
        self._watcher.lossy.add(machine.node_id)
        if machine.is_up:
            machine.crash()
        disk, is_of_metadata = machine.filesystem, path == machine.config.metadata_dir
        self._watcher.progress.directories_failed += len(disk.failed_folders)
        disk.failed_folders.clear()
        if is_of_metadata:
            self._watcher.forget_disk(machine)
        if self._watcher.directories is not None:
            self._watcher.directories.others.replaced.add(machine.node_id)
        if outcome == TORN:
            disk.lose_unsynced(path, self._random)
        else:
            self._empty(machine, path, outcome)
        self._start_later(machine, 0)

    def _empty(self, machine: SimulatedNode, path: str, outcome: str) -> None:
        disk: MemoryFileSystem = machine.filesystem
        kept = disk.read(f"{path}/{META_PROPERTIES}") if outcome == EMPTIED else None
        disk.remove(path)
        if kept is None:
            self._again(machine)
        else:
            disk.make_directory(path)
            disk.write(f"{path}/{META_PROPERTIES}", kept)
        disk.sync_all()
