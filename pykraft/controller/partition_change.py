"""One partition's next state: who is in sync, who leads, and whether the leader epoch rises.

The rules, in the order in which they apply:

1. The present leader stays, if it is in the new ISR and may lead.
2. Else the first replica, in the order of the assignment, that is in the new ISR and may lead.
3. Else, if the topic allows an unclean election, the first replica that may lead at all. It may lack records that were
   acknowledged: the ISR is then the new leader alone, and those records are gone.
4. Else nobody leads. The ISR never becomes empty: its last members are the only ones who are sure to have everything.

Who may lead: a broker that is registered, not fenced, and not on its way out.

Follows org.apache.kafka.controller.PartitionChangeBuilder. Not here: reassignment, eligible leader replicas (KIP-966).
"""

from collections.abc import Callable, Sequence

from pykraft.common.types import Uuid
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.image import PartitionRegistration
from pykraft.protocol.messages.brokers import RECOVERING
from pykraft.protocol.messages.records import NO_LEADER, PartitionChangeRecord

PARTITION_CHANGE_VERSION = 2


def plan_partition_change(
    topic_id: Uuid,
    number: int,
    partition: PartitionRegistration,
    *,
    new_isr: Sequence[int],
    may_lead: Callable[[int], bool],
    unclean: bool,
    recovery_state: int | None = None,
) -> VersionedRecord | None:
    """The record that takes the partition to its next state; None if nothing changes."""
    record = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    leader, is_unclean = elect(partition, new_isr, may_lead, unclean)
    if leader != partition.leader:
        record.leader = leader
    if recovery_state is not None and recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = recovery_state
    if is_unclean:
        record.isr = [leader]
        record.leader_recovery_state = RECOVERING
    elif new_isr and tuple(new_isr) != partition.isr:
        record.isr = list(new_isr)
    is_change = record.leader != PartitionChangeRecord.leader or record.isr is not None
    return (record, PARTITION_CHANGE_VERSION) if is_change or record.leader_recovery_state >= 0 else None


def elect(
    partition: PartitionRegistration, new_isr: Sequence[int], may_lead: Callable[[int], bool], unclean: bool
) -> tuple[int, bool]:
    """(the next leader or NO_LEADER, whether it may lack acknowledged records)."""
    in_sync = [replica for replica in partition.replicas if replica in new_isr and may_lead(replica)]
    if partition.leader in in_sync:
        return partition.leader, False
    if in_sync:
        return in_sync[0], False
    if unclean:
        for replica in partition.replicas:
            if may_lead(replica):
                return replica, True
    return NO_LEADER, False
