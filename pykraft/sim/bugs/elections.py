"""Bugs in elections: who leads a partition, and who is fit to lead it.

A leader that lacks what is committed loses it, and a broker that is gone leads nothing. These let one happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pykraft.controller.partitions import partition_change
from pykraft.controller.partitions.partition_change import Election, elect
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.sim.bugs.planting import bug, put


@bug
def an_elr_member_kept_after_an_unclean_shutdown() -> None:
    """A broker that comes back is as eligible as the process before it was."""

    def plan_broker_replaced(
        self: ReplicationControl, image: MetadataImage, broker_id: int, is_clean: bool
    ) -> Iterable[VersionedRecord]:
        return self.plan_broker_gone(image, broker_id)

    put(ReplicationControl, "plan_broker_replaced", plan_broker_replaced)


@bug
def a_preferred_leader_elected_outside_the_isr() -> None:
    """A preferred election makes the first replica the leader if it is alive, in the ISR or not."""

    def elect_preferred(
        partition: PartitionRegistration,
        isr: Sequence[int],
        may_lead: Callable[[int], bool],
        election: Election,
        replicas: Sequence[int] | None = None,
        elr: Sequence[int] | None = None,
    ) -> tuple[int, bool]:
        first = (partition.replicas if replicas is None else replicas)[0]
        if election is Election.PREFERRED and may_lead(first):
            return first, False
        return elect(partition, isr, may_lead, election, replicas, elr)

    put(partition_change, "elect", elect_preferred)


@bug
def a_fenced_broker_kept_in_the_isr() -> None:
    """A broker whose session is over is fenced, and stays the leader and in the ISR of its partitions."""
    put(ReplicationControl, "plan_broker_gone", lambda self, image, broker_id: [])
