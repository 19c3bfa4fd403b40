"""Counts the coordinators that are lost while they have something in flight: a run in which none is proves little."""

from collections.abc import Iterable, Sequence

from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup, ConsumerGroupState
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.runtime import CoordinatorRuntime
from pykraft.coordinator.transaction.shard import TransactionShard
from pykraft.coordinator.transaction.state import AT_REST, TransactionState
from pykraft.sim.laws.progress import Progress


class Coordinators:
    """Counts the shards of coordinators that are lost with work in flight."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.busy: dict[int, dict[int, frozenset[str]]] = {}
        """By node and partition: the protocols of the groups that have work in flight there."""

    def look(self, node_id: int, runtime: CoordinatorRuntime[GroupShard], active: Sequence[int]) -> None:
        """Look at a node that has these shards."""
        before = self.busy.get(node_id)
        if active or before:
            busy = {partition: _busy_protocols(runtime, partition) for partition in active}
            self._count(protocols for partition, protocols in (before or {}).items() if partition not in busy)
            self.busy[node_id] = busy

    def look_for_the_last_time(self, node_id: int) -> None:
        """The node ends, and its shards with it."""
        self._count(self.busy.pop(node_id, {}).values())

    def _count(self, lost: Iterable[frozenset[str]]) -> None:
        for protocols in lost:
            for protocol in protocols:
                self._progress.count(protocol, "coordinator_moves")


def _busy_protocols(runtime: CoordinatorRuntime[GroupShard], partition: int) -> frozenset[str]:
    """A group has work in flight while it rebalances, and while a response waits until its records are committed."""
    groups = runtime.active(partition).groups
    if not groups:
        return frozenset()
    has_waiting = runtime.has_waiting(partition)
    return frozenset([group.group_type for group in groups.values() if has_waiting or _is_rebalancing(group)])


def _is_rebalancing(group: ClassicGroup | ConsumerGroup) -> bool:
    if isinstance(group, ConsumerGroup):
        return group.state in (ConsumerGroupState.ASSIGNING, ConsumerGroupState.RECONCILING)
    return any(member.joining is not None or member.syncing is not None for member in group.members.values())


class TransactionCoordinators:
    """Counts the shards of transaction coordinators that are lost with a transaction in each of its states."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.busy: dict[int, dict[int, frozenset[TransactionState]]] = {}
        """By node and partition: the states of the transactions there that are not over."""

    def look(self, node_id: int, runtime: CoordinatorRuntime[TransactionShard]) -> None:
        active, before = runtime.active_partitions(), self.busy.get(node_id)
        if active or before:
            busy = {
                partition: frozenset([each.state for each in runtime.active(partition).transactions.values()]) - AT_REST
                for partition in active
            }
            self._count(states for partition, states in (before or {}).items() if partition not in busy)
            self.busy[node_id] = busy

    def look_for_the_last_time(self, node_id: int) -> None:
        """The node ends, and its shards with it."""
        self._count(self.busy.pop(node_id, {}).values())

    def _count(self, lost: Iterable[frozenset[TransactionState]]) -> None:
        for states in lost:
            self._progress.moves_ongoing += TransactionState.ONGOING in states
            self._progress.moves_prepare_commit += TransactionState.PREPARE_COMMIT in states
            self._progress.moves_prepare_abort += TransactionState.PREPARE_ABORT in states
