"""One partition's next state: who is in sync, who leads, and whether the leader epoch rises.

A *valid* leader is in the new ISR and may lead. A broker may lead if it is registered, not fenced, and not on its way
out. The rules, in the order in which they apply:

1. In a preferred election: the first replica of the assignment, if it is valid.
2. The present leader, if it is valid.
3. The first valid replica in the order of the assignment.
4. In an unclean election: the first replica that may lead at all. It may lack records that were acknowledged: the ISR
   is then the new leader alone, and those records are gone. The partition is RECOVERING until its leader says that it
   has dealt with that (KIP-704).
5. Else there is no leader. The ISR never becomes empty: only its last members are sure to have everything.

A partition that is being reassigned has two more rules, which come first (`assignment`). If the new ISR has every
replica of the target, the removing replicas leave with the same record, so the rules above elect among the others. And
whenever a replica leaves, the leader epoch rises even if the leader stays: with that epoch the leader no longer counts
the replica, and a fetch of the replica that is still on its way is refused.

Follows org.apache.kafka.controller.PartitionChangeBuilder. Not here: eligible leader replicas (KIP-966).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType

from pykraft.common.types import UNASSIGNED_DIRECTORY, Uuid
from pykraft.controller.assignment import Assignment, completed
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.image import PartitionRegistration
from pykraft.protocol.messages.brokers import RECOVERING
from pykraft.protocol.messages.records import NO_LEADER, PartitionChangeRecord

PARTITION_CHANGE_VERSION = 2


class Election(Enum):
    """What a change may do to the leadership."""

    ONLINE = "the leader stays if it can; else another valid replica leads"
    PREFERRED = "the first replica of the assignment leads if it can"
    UNCLEAN = "as ONLINE; without a valid replica another one leads"


def plan_partition_change(
    topic_id: Uuid,
    number: int,
    partition: PartitionRegistration,
    *,
    may_lead: Callable[[int], bool],
    election: Election = Election.ONLINE,
    new_isr: Sequence[int] | None = None,
    recovery_state: int | None = None,
    assignment: Assignment | None = None,
    directories: Mapping[int, Uuid] = MappingProxyType({}),
) -> VersionedRecord | None:
    """The record that takes the partition to its next state; None if nothing changes. What is None is wanted as it is.
    Replicas that are new in the `assignment` get their log directories from `directories`."""
    record = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    before = Assignment.of(partition)
    after = before if assignment is None else assignment
    isr = partition.isr if new_isr is None else tuple(new_isr)
    after, isr = completed(after, isr) or (after, isr)
    leader, is_unclean = elect(partition, isr, may_lead, election, after.replicas)
    if leader != partition.leader or not set(before.replicas) <= set(after.replicas):
        record.leader = leader
    if recovery_state is not None and recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = recovery_state
    if is_unclean:
        record.isr = [leader]
        if partition.leader_recovery_state != RECOVERING:
            record.leader_recovery_state = RECOVERING
    elif isr and isr != partition.isr:
        record.isr = list(isr)
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
    isr: Sequence[int],
    may_lead: Callable[[int], bool],
    election: Election,
    replicas: Sequence[int] | None = None,
) -> tuple[int, bool]:
    """(the next leader or NO_LEADER, whether it may lack acknowledged records). `replicas` are those of the next state,
    None if they stay."""
    replicas = partition.replicas if replicas is None else replicas
    valid = [replica for replica in replicas if replica in isr and may_lead(replica)]
    if election is Election.PREFERRED and replicas[0] in valid:
        return replicas[0], False
    if partition.leader in valid:
        return partition.leader, False
    if valid:
        return valid[0], False
    if election is Election.UNCLEAN:
        for replica in replicas:
            if may_lead(replica):
                return replica, True
    return NO_LEADER, False
