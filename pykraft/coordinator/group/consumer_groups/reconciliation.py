"""One step of a member towards its target assignment.

The coordinator computes the group's target at once, but each member reaches it step by step, at its own heartbeats. Two
rules keep a partition from having two owners:

* A member that has to revoke partitions stays in its epoch until a heartbeat shows that it no longer owns them.
* A partition of the target is only added if it is free. The group keeps the epoch of each partition's owner for that;
  -1 means free.

For each topic, with what the member has now::

    assigned             = has ∩ target
    to be revoked        = has - assigned
    to be added          = target - assigned, where the owner's epoch is -1

and the next state follows::

    it still owns some that are to be revoked  UNREVOKED_PARTITIONS    its epoch stays; it keeps what is assigned
    otherwise, some of the target is not free  UNRELEASED_PARTITIONS   the target's epoch; free partitions are added
    otherwise                                  STABLE                  the target's epoch; it has its whole target

A member in UNRELEASED_PARTITIONS tries again at each heartbeat. A member in UNREVOKED_PARTITIONS ignores newer targets
until it has revoked. A topic that the member has unsubscribed from is not part of its target, even before the group has
a new one.

Follows org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.coordinator.group.consumer_groups.consumer_group_member import (
    NO_PARTITIONS,
    ConsumerGroupMember,
    MemberState,
    overlaps,
)
from pykraft.coordinator.group.topics import Assignment

NO_OWNER = -1


class Target(NamedTuple):
    """What a member is to have, and from which epoch on."""

    epoch: int
    partitions: Assignment


class Heard(NamedTuple):
    """What a heartbeat says of its member's partitions."""

    owned: Assignment | None
    """What the member says it owns; None if this heartbeat does not say."""
    subscription_changed: bool
    subscribed_topic_ids: Collection[Uuid]


def reconcile(
    member: ConsumerGroupMember, target: Target, heard: Heard, owner_epoch: Callable[[Uuid, int], int]
) -> ConsumerGroupMember:
    """The member's next state: the same member if it cannot move."""
    if member.state == MemberState.STABLE:
        if member.member_epoch != target.epoch:
            return _advance(member, member.member_epoch, target, heard, owner_epoch)
        return _drop_unsubscribed(member, heard) if heard.subscription_changed else member
    if member.state == MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(heard, member.pending_revocation):
            return _drop_unsubscribed(member, heard) if heard.subscription_changed else member
        return _advance(member, member.member_epoch, target, heard, owner_epoch)
    if member.state == MemberState.UNRELEASED_PARTITIONS:
        return _advance(member, member.member_epoch, target, heard, owner_epoch)
    if heard.owned is None or heard.owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "the member's state is from a newer coordinator: it must give up all partitions and join again",
        )
    return _advance(member, target.epoch, target, heard, owner_epoch)


def _advance(
    member: ConsumerGroupMember,
    epoch: int,
    target: Target,
    heard: Heard,
    owner_epoch: Callable[[Uuid, int], int],
) -> ConsumerGroupMember:
    """One step towards the target, from the given epoch."""
    assigned: dict[Uuid, frozenset[int]] = {}
    to_revoke: dict[Uuid, frozenset[int]] = {}
    to_add: dict[Uuid, frozenset[int]] = {}
    unreleased = False
    for topic_id in sorted(target.partitions.keys() | member.assigned.keys()):
        wanted = target.partitions.get(topic_id, frozenset()) if topic_id in heard.subscribed_topic_ids else frozenset()
        has = member.assigned.get(topic_id, frozenset())
        # A partition that this member was to revoke is its own: it may have it back.
        own = member.pending_revocation.get(topic_id, frozenset())
        missing = wanted - has
        free = frozenset(p for p in missing if p in own or owner_epoch(topic_id, p) == NO_OWNER)
        unreleased = unreleased or free != missing
        for kept, partitions in ((assigned, has & wanted), (to_revoke, has - wanted), (to_add, free)):
            if partitions:
                kept[topic_id] = partitions
    if to_revoke and _still_owns(heard, to_revoke):
        return member._replace(
            state=MemberState.UNREVOKED_PARTITIONS,
            member_epoch=epoch,
            previous_member_epoch=member.member_epoch,
            assigned=assigned,
            pending_revocation=to_revoke,
        )
    return member._replace(
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        member_epoch=target.epoch,
        previous_member_epoch=member.member_epoch,
        assigned=_union(assigned, to_add),
        pending_revocation=NO_PARTITIONS,
    )


def _drop_unsubscribed(member: ConsumerGroupMember, heard: Heard) -> ConsumerGroupMember:
    """Within its epoch, the member loses the topics that it no longer subscribes to."""
    kept = {topic_id: owned for topic_id, owned in member.assigned.items() if topic_id in heard.subscribed_topic_ids}
    if len(kept) == len(member.assigned):
        return member
    dropped = {topic_id: owned for topic_id, owned in member.assigned.items() if topic_id not in kept}
    to_revoke = _union(member.pending_revocation, dropped)
    if _still_owns(heard, to_revoke):
        return member._replace(state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=to_revoke)
    return member._replace(assigned=kept)


def _still_owns(heard: Heard, partitions: Assignment) -> bool:
    """A heartbeat that does not say what the member owns proves nothing."""
    return heard.owned is None or overlaps(heard.owned, partitions)


def _union(some: Assignment, others: Assignment) -> dict[Uuid, frozenset[int]]:
    union = dict(some)
    for topic_id, partitions in others.items():
        union[topic_id] = union.get(topic_id, frozenset()) | partitions
    return union
