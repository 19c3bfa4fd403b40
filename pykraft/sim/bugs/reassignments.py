"""Bugs in reassignments: a move that ends too early, and one that was only promised.

A replica that leaves takes its copy along, so the new ones must have everything before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykraft.common.core import Steps
from pykraft.controller.partitions import partition_change
from pykraft.controller.partitions.assignment import Assignment, Replicas
from pykraft.controller.partitions.reassignment import ReassignmentControl
from pykraft.controller.result import Result
from pykraft.metadata.image import MetadataImage
from pykraft.sim.bugs.planting import bug, put


@bug
def a_reassignment_completed_one_replica_early() -> None:
    """A reassignment ends when all but one of its new replicas are in sync."""

    def completed(assignment: Assignment, isr: Sequence[int]) -> tuple[Assignment, Replicas] | None:
        in_sync = tuple(replica for replica in isr if replica not in assignment.removing)
        missing = set(assignment.target) - set(in_sync)
        if not assignment.is_in_progress or not in_sync or len(missing) > 1:
            return None
        return Assignment(assignment.target), in_sync

    put(partition_change, "completed", completed)


@bug
def a_reassignment_acknowledged_and_not_written() -> None:
    """The controller answers as if it had written the first record."""
    alter = ReassignmentControl.alter

    def acknowledged(self: ReassignmentControl, image: MetadataImage, request: Any) -> Steps[Result[Any]]:
        return (yield from alter(self, image, request))._replace(records=[])

    put(ReassignmentControl, "alter", acknowledged)
