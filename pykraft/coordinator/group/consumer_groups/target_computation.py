"""Targets that take long to compute: the group's heartbeats do not wait for them.

A heartbeat that raises the epoch of a small group computes the group's target, and its member gets its partitions at
once. In a large group (ten thousand topics) that takes a tenth of a second, in which the node would do nothing else. So
the heartbeat is answered with the target that there is, the group stays *Assigning*, and the target is computed by a
timer of the shard, a slice of time at a time. It is a write of its own, and members learn of it with their next
heartbeats::

    heartbeat    epoch 4 (target 3): the target would take long, the member stays at epoch 3
    timer        steps ...
    timer        records of target 4
    heartbeat    the member goes to epoch 4

Between two slices the group may change. A target is written only if the group has the epoch and the members that it was
computed for. Otherwise the computation begins again.

A group whose first target takes long begins with an empty one of epoch 1, and has epoch 2: a member's epoch is never 0.

Kafka computes targets beside heartbeats since 4.3: at most one a second (`group.consumer.assignment.interval.ms`), and
its groups begin with epoch 2. Our clients see the same in large groups only.

Follows org.apache.kafka.coordinator.group.GroupMetadataManager.maybeUpdateTargetAssignment (KIP-1263).
"""

from collections.abc import Callable, Set
from typing import NamedTuple

from pykraft.common.core import Steps
from pykraft.common.time_slice import TimeSlice, take_steps
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.target_assignment import GroupTarget
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer, timer_key

_PAUSE_MS = 1
"""Between two slices."""


class _Computation(NamedTuple):
    """A target that is being computed."""

    epoch: int
    members: Set[str]
    steps: Steps[GroupTarget]

    def is_for(self, group: ConsumerGroup) -> bool:
        """Whether the group is still as it was when this began."""
        return group.group_epoch == self.epoch and group.members.keys() == self.members


class TargetComputations:
    """The targets of a shard's groups that are being computed. They are soft state."""

    def __init__(
        self,
        timer: CoordinatorTimer,
        time_slice: TimeSlice,
        find_group: Callable[[str], ConsumerGroup | None],
        compute: Callable[[ConsumerGroup], Steps[GroupTarget]],
    ) -> None:
        """`compute(group)` are the steps to the target of the group as it is."""
        self._timer = timer
        self._time_slice = time_slice
        self._find_group = find_group
        self._compute = compute
        self._under_way: dict[str, _Computation] = {}

    def is_under_way(self, group_id: str) -> bool:
        return group_id in self._under_way

    def start(self, group_id: str) -> None:
        """Compute the group's target, if its epoch is ahead of its target's. Called after each heartbeat."""
        group = self._find_group(group_id)
        if group is None or group.group_epoch <= group.target_epoch or group_id in self._under_way:
            return
        self._under_way[group_id] = self._begin(group)
        self._schedule(group_id)

    def _begin(self, group: ConsumerGroup) -> _Computation:
        return _Computation(group.group_epoch, frozenset(group.members), self._compute(group))

    def _schedule(self, group_id: str) -> None:
        self._timer.schedule(timer_key("target", group_id), _PAUSE_MS, lambda now: self._go_on(group_id, now))

    def _go_on(self, group_id: str, now: int) -> CoordinatorResult[None]:
        """The next slice. The last one plans the target."""
        computation = self._under_way.pop(group_id, None)
        group = self._find_group(group_id)
        if group is None or group.group_epoch <= group.target_epoch or not group.members:
            return CoordinatorResult(None)
        if computation is None or not computation.is_for(group):
            computation = self._begin(group)
        self._time_slice.begin()
        is_done, target = take_steps(computation.steps, None, self._time_slice, now)
        if is_done:
            # If the records cannot be appended, the timer calls again in a while and begins again.
            return CoordinatorResult(None, target.records)
        self._under_way[group_id] = computation
        self._schedule(group_id)
        return CoordinatorResult(None)
