"""One partition's next state: its ISR, its leader, and whether the leader epoch rises.

A *valid* leader is in the new ISR and may lead. A broker may lead if it is registered, not fenced, and not on its way
out. The rules, in the order in which they apply:

1. In a preferred election: the first replica of the assignment, if it is valid.
2. The present leader, if it is valid.
3. The first valid replica in the order of the assignment.
4. In an unclean election: the first replica that may lead at all. It may lack records that were acknowledged: the ISR
   is then the new leader alone, and those records are gone. The partition is RECOVERING until its leader says that it
   has dealt with that (KIP-704).
5. Else there is no leader. The ISR never becomes empty: its last member is believed to have everything, though it may
   have lost its power and what it had not synced.

**Eligible leader replicas** (KIP-966) are the way out of that belief. The high watermark does not rise while fewer than
``min.insync.replicas`` are in sync. So a replica that leaves such a small ISR still has everything that is committed,
until its disk loses something. The controller keeps it in the ELR; a broker that comes back without having stopped in
order leaves the ELR. The rules change in three places:

* The ISR may become empty. Then the members of the ELR are the valid leaders; the one that is elected is the ISR.
* Before rule 4: if ISR and ELR are both empty, the *last known leader* may lead, as in an unclean election.
* The ELR is cleared when the ISR has ``min.insync.replicas`` again, and by an unclean election.

A cluster that does without ELRs again forgets those that it has, but for one case: where the ISR is empty, only the ELR
tells who has everything. It stays until one of its members leads. (Kafka elects a member, too, but forgets them all as
soon as another broker comes back first.)

A partition that is being reassigned has two more rules, which come first (`assignment`). If the new ISR has every
replica of the target, the removing replicas leave with the same record, so the rules above elect among the others. And
whenever a replica leaves, the leader epoch rises even if the leader stays: with that epoch the leader no longer counts
the replica, and a fetch of the replica that is still on its way is refused.

Follows org.apache.kafka.controller.PartitionChangeBuilder.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from pykraft.common.types import UNASSIGNED_DIRECTORY, Uuid
from pykraft.controller.partitions.assignment import Assignment, Replicas, completed
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


@dataclass(frozen=True, slots=True)
class ElrRules:
    """What decides about the ELR of a topic, in a cluster that keeps one. `lost` are brokers that came back without
    having stopped in order: their disks may have lost what was not synced."""

    min_isr: int
    lost: frozenset[int] = frozenset()

    def next_elr(self, partition: PartitionRegistration, isr: Sequence[int], replicas: Sequence[int]) -> Replicas:
        """The ELR beside this new ISR."""
        if len(isr) >= self.min_isr:
            return ()
        candidates = {*partition.eligible_leader_replicas, *partition.isr} - self.lost - set(isr)
        return tuple(sorted(candidates.intersection(replicas)))


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
    moved: Mapping[int, Uuid] = MappingProxyType({}),
    elr_rules: ElrRules | None = None,
    lost: frozenset[int] = frozenset(),
    epoch_rises_on_shrink: bool = False,
) -> VersionedRecord | None:
    """The record that takes the partition to its next state; None if nothing changes. What is None is wanted as it is;
    without `elr_rules` no ELR is kept. Replicas that are new in the `assignment` get their log directories from
    `directories`; replicas that are in another one than is known are `moved`. The disks of `lost` brokers may have lost
    records. If `epoch_rises_on_shrink`, the leader epoch rises where the ISR loses a member (KAFKA-15021)."""
    record = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    before = Assignment.of(partition)
    after = before if assignment is None else assignment
    isr = partition.isr if new_isr is None else tuple(new_isr)
    after, isr = completed(after, isr) or (after, isr)
    elr = _left_over(partition, isr, lost) if elr_rules is None else elr_rules.next_elr(partition, isr, after.replicas)
    leader, is_unclean = elect(partition, isr, may_lead, election, after.replicas, elr)
    if leader != partition.leader or not set(before.replicas) <= set(after.replicas):
        record.leader = leader
    if recovery_state is not None and recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = recovery_state
    if is_unclean and partition.leader_recovery_state != RECOVERING:
        record.leader_recovery_state = RECOVERING
    if is_unclean or leader in (elr or ()):
        isr = (leader,)  # alone: nothing is known of the others
    if is_unclean or (isr != partition.isr and (isr or elr_rules is not None)):
        record.isr = list(isr)
    is_forgotten = is_unclean or elr is None or (elr_rules is None and leader != NO_LEADER)
    _set_elr(record, partition, () if is_forgotten or elr is None else tuple(each for each in elr if each != leader))
    _set_last_known_leader(record, partition, is_kept=elr_rules is not None)
    _set_assignment(record, partition, after, directories, moved)
    if epoch_rises_on_shrink and record.isr is not None and not set(partition.isr) <= set(record.isr):
        record.leader = leader
    is_change = record != PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    return (record, PARTITION_CHANGE_VERSION) if is_change else None


def _left_over(partition: PartitionRegistration, isr: Sequence[int], lost: frozenset[int]) -> Replicas | None:
    """The ELR of a cluster that keeps none any more: None unless it alone tells who has everything."""
    if isr or partition.isr:
        return None  # without ELRs the last one in sync stays in the ISR
    return tuple(each for each in partition.eligible_leader_replicas if each not in lost) or None


def _set_elr(record: PartitionChangeRecord, partition: PartitionRegistration, elr: Replicas) -> None:
    if elr != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = list(elr)


def _set_last_known_leader(record: PartitionChangeRecord, partition: PartitionRegistration, is_kept: bool) -> None:
    """The last leader before the partition had none; forgotten when there is a leader again."""
    if is_kept and record.leader == NO_LEADER and partition.has_leader and not partition.last_known_leader:
        record.last_known_elr = [partition.leader]
    elif record.leader >= 0 and partition.last_known_leader:
        record.last_known_elr = []


def _set_assignment(
    record: PartitionChangeRecord,
    partition: PartitionRegistration,
    after: Assignment,
    directories: Mapping[int, Uuid],
    moved: Mapping[int, Uuid],
) -> None:
    """What the record says of the replicas: only what changes. Directories are in the order of the replicas."""
    before = Assignment.of(partition)
    if after.replicas != before.replicas:
        record.replicas = list(after.replicas)
    if after.replicas != before.replicas or moved:
        known = {**directories, **dict(zip(before.replicas, partition.directories, strict=True)), **moved}
        in_order = [known.get(replica, UNASSIGNED_DIRECTORY) for replica in after.replicas]
        if after.replicas != before.replicas or in_order != list(partition.directories):
            record.directories = in_order
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
    elr: Sequence[int] | None = None,
) -> tuple[int, bool]:
    """(the next leader or NO_LEADER, whether it may lack acknowledged records). `replicas` are those of the next state,
    None if they stay; `elr` is None if the cluster keeps none."""
    replicas = partition.replicas if replicas is None else replicas
    eligible = isr or elr or ()
    valid = [replica for replica in replicas if replica in eligible and may_lead(replica)]
    if election is Election.PREFERRED and replicas[0] in valid:
        return replicas[0], False
    if partition.leader in valid:
        return partition.leader, False
    if valid:
        return valid[0], False
    if elr is not None and not eligible and len(partition.last_known_leader) == 1:
        (last_known,) = partition.last_known_leader
        if may_lead(last_known):
            return last_known, True
    if election is Election.UNCLEAN:
        for replica in replicas:
            if may_lead(replica):
                return replica, True
    return NO_LEADER, False
