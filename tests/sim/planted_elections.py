"""Bugs about elections, put into the nodes on purpose (see `planted`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykraft.controller.partitions import partition_change
from pykraft.controller.partitions.partition_change import Election, elect
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from tests.sim.planted import bug, put


@bug
def an_elr_member_kept_after_an_unclean_shutdown() -> None:
    """A broker that comes back is as eligible as the process before it was."""

    def plan_broker_replaced(
        self: ReplicationControl, image: MetadataImage, broker_id: int, is_clean: bool
    ) -> list[VersionedRecord]:
        return self.plan_broker_gone(image, broker_id)

    put(ReplicationControl, "plan_broker_replaced", plan_broker_replaced)


@bug
def a_preferred_leader_elected_outside_the_isr() -> None:
    """The first replica leads because it is alive."""

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
