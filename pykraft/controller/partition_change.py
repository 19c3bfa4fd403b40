"""One partition's next state: who is in sync, who leads, and whether the leader epoch rises.

The rules, in the order in which they apply:

1. The present leader stays, if it is in the new ISR and may lead.
2. Else the first replica, in the order of the assignment, that is in the new ISR and may lead.
3. Else, if the topic allows an unclean election, the first replica that may lead at all. It may lack records that were
   acknowledged: the ISR is then the new leader alone, and those records are gone.
4. Else nobody leads. The ISR never becomes empty: its last members are the only ones who are sure to have everything.

Who may lead: a broker that is registered, not fenced, and not on its way out.

A partition that is being reassigned has two more rules, which come first (`assignment`). If the new ISR has every
replica of the target, the removing replicas leave with the same record, so the rules above elect among the others. And
whenever a replica leaves, the leader epoch rises even if the leader stays: with that epoch the leader no longer counts
the replica, and a fetch of the replica that is still on its way is refused.

Follows org.apache.kafka.controller.PartitionChangeBuilder. Not here: eligible leader replicas (KIP-966).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pykraft.common.types import UNASSIGNED_DIRECTORY, Uuid
from pykraft.controller.assignment import Assignment, completed
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
    assignment: Assignment | None = None,
    directories: Mapping[int, Uuid] = MappingProxyType({}),
) -> VersionedRecord | None:
    """The record that takes the partition to its next state; None if nothing changes. `assignment` is None for the one
    that it has; replicas that are new in it get their log directories from `directories`."""
    record = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    before = Assignment.of(partition)
    after = before if assignment is None else assignment
    after, new_isr = completed(after, new_isr) or (after, new_isr)
    leader, is_unclean = elect(partition, new_isr, may_lead, unclean, after.replicas)
    if leader != partition.leader or not set(before.replicas) <= set(after.replicas):
        record.leader = leader
    if recovery_state is not None and recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = recovery_state
    if is_unclean:
        record.isr = [leader]
        record.leader_recovery_state = RECOVERING
    elif new_isr and tuple(new_isr) != partition.isr:
        record.isr = list(new_isr)
    _set_assignment(record, partition, after, directories)
    is_change = record != PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    return (record, PARTITION_CHANGE_VERSION) if is_change else None


def _set_assignment(
    record: PartitionChangeRecord, partition: PartitionRegistration, after: Assignment, directories: Mapping[int, Uuid]
) -> None:
    """What the record says of the replicas: only what changes. Directories are in the order of the replicas."""
    before = Assignment.of(partition)
    if after.replicas != before.replicas:
        known = {**directories, **dict(zip(before.replicas, partition.directories, strict=True))}
        record.replicas = list(after.replicas)
        record.directories = [known.get(replica, UNASSIGNED_DIRECTORY) for replica in after.replicas]
    if after.adding != before.adding:
        record.adding_replicas = list(after.adding)
    if after.removing != before.removing:
        record.removing_replicas = list(after.removing)


def elect(
    partition: PartitionRegistration,
    new_isr: Sequence[int],
    may_lead: Callable[[int], bool],
    unclean: bool,
    replicas: Sequence[int] | None = None,
) -> tuple[int, bool]:
    """(the next leader or NO_LEADER, whether it may lack acknowledged records). `replicas` are those of the next state,
    None if they stay."""
    replicas = partition.replicas if replicas is None else replicas
    in_sync = [replica for replica in replicas if replica in new_isr and may_lead(replica)]
    if partition.leader in in_sync:
        return partition.leader, False
    if in_sync:
        return in_sync[0], False
    if unclean:
        for replica in replicas:
            if may_lead(replica):
                return replica, True
    return NO_LEADER, False
