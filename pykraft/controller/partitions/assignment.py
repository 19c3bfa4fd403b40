"""Which brokers hold a partition, and which of them it is gaining and losing: a reassignment, in two records.

A partition moves while it is written and read, so at no moment may it have fewer copies than before. One record is not
enough for that. With replicas [1, 2] and the target [3, 2]::

    replicas [1, 2]                                      before
    replicas [3, 2, 1]   adding [3]   removing [1]       the first record: 3 begins to fetch, 1 stays
    replicas [3, 2]                                      the second: 3 is in the ISR, so 1 may go

The second record is written with whatever change of the partition makes it possible, mostly the leader's AlterPartition
that takes the last adding replica into the ISR. The condition is that *every* replica of the target is in the ISR. If
one of them were left out, the partition would end with fewer copies of its committed records than it was promised: with
a target of one broker and a broker one replica early, with none.

To cancel means to go back: the adding replicas leave, the removing ones stay.

All here are values and functions of values. Follows org.apache.kafka.controller.{PartitionReassignmentReplicas,
PartitionReassignmentRevert}; KIP-455.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pykraft.metadata.image import PartitionRegistration

Replicas = tuple[int, ...]


class Assignment(NamedTuple):
    """The replicas of a partition, in the order in which they are preferred as leaders. `adding` and `removing` are
    among `replicas`; both are empty unless the partition is being reassigned."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @classmethod
    def of(cls, partition: PartitionRegistration) -> "Assignment":
        return cls(partition.replicas, partition.adding_replicas, partition.removing_replicas)

    @property
    def is_in_progress(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def original(self) -> Replicas:
        """The replicas before the reassignment, as far as they are still here."""
        return _without(self.replicas, self.adding)

    @property
    def target(self) -> Replicas:
        """The replicas after it."""
        return _without(self.replicas, self.removing)


def reassigned(now: Assignment, target: Sequence[int]) -> Assignment:
    """The way from `now` to these replicas: the first of the two records.

    Where the partition is being reassigned already, Kafka compares the new target with all replicas that it has at the
    moment. An empty difference leaves the old one as it was: a replica that the first reassignment is removing, and
    that the new target keeps, is removed all the same if the new target removes no other.
    """
    removing = tuple(sorted(_without(now.replicas, target)))
    adding = tuple(sorted(_without(target, now.replicas)))
    return Assignment((*target, *removing), adding or now.adding, removing or now.removing)


def completed(assignment: Assignment, isr: Sequence[int]) -> tuple[Assignment, Replicas] | None:
    """(the assignment, the ISR) after the second record; None unless there is a reassignment, and all of its target are
    in this ISR."""
    if not assignment.is_in_progress:
        return None
    target, in_sync = assignment.target, _without(isr, assignment.removing)
    if not target or not set(target) <= set(in_sync):
        return None
    return Assignment(target), in_sync


def reverted(assignment: Assignment, isr: Sequence[int]) -> tuple[Assignment, Replicas, bool]:
    """(the assignment, the ISR, whether it may lack acknowledged records) after the reassignment is cancelled. If all
    of the ISR are adding replicas, the first original replica has to do, which may have fallen behind."""
    original, in_sync = assignment.original, _without(isr, assignment.adding)
    return (Assignment(original), in_sync, False) if in_sync else (Assignment(original), original[:1], True)


def _without(replicas: Sequence[int], gone: Sequence[int]) -> Replicas:
    return tuple(replica for replica in replicas if replica not in gone)
