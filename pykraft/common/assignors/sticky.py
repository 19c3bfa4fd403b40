"""The two assignors with a memory: sticky and cooperative-sticky.

The leader learns the last assignment from the members. A member of `sticky` revokes everything before it rejoins, so
its last partitions travel in the user data. A member of `cooperative-sticky` keeps its partitions while it rejoins, so
they are in the subscription itself. With them comes the generation in which the member received them: a member that
missed a rebalance may claim a partition that another one has received since. The higher generation wins, and two claims
of the same generation are both void.

    sticky's user data              [previous_assignment: [topic, [partition]]] generation     (v0 ends before it)
    cooperative-sticky's user data  generation

Strings have a 16-bit length, arrays a 32-bit one, all numbers are big-endian. User data that cannot be read claim
nothing. Kafka's clients write and read the same bytes, so a group may mix them with ours.

When all members subscribe to the same topics, `equal` computes the assignment, otherwise `mixed` does.

Follows org.apache.kafka.clients.consumer.{StickyAssignor,CooperativeStickyAssignor} and
internals.AbstractStickyAssignor.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pykraft.common.assignors.equal import assign_equal
from pykraft.common.assignors.members import Assignment, MemberSubscription, subscribed
from pykraft.common.assignors.mixed import assign_mixed
from pykraft.common.types import TopicPartition, by_topic


class Claim(NamedTuple):
    """The partitions that a member says it owns, and the generation in which it received them."""

    partitions: Sequence[TopicPartition]
    generation: int


class StickyAssignor:
    """Balanced, and as few partitions as possible change their owner."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        return encode_claim(owned, generation) if owned or generation >= 0 else None

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        claims = {member_id: decode_claim(member.user_data or b"") for member_id, member in members.items()}
        return _assign(partitions, members, claims)[0]


class CooperativeStickyAssignor:
    """Assigns as sticky does, and withholds each partition that its old owner has to revoke first."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        return struct.pack(">i", generation)

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        claims = {member_id: Claim(member.owned, _generation(member)) for member_id, member in members.items()}
        assignment, moving = _assign(partitions, members, claims)
        if moving is None:
            moving = _moving(assignment, members)
        for partition, new_owner in moving.items():
            assignment[new_owner].remove(partition)
        return assignment


def _assign(
    partitions: Mapping[str, int], members: Mapping[str, MemberSubscription], claims: Mapping[str, Claim]
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and the new owner of each partition that moves, where that is known already."""
    partitions = subscribed(partitions, members)
    owned, contested = _settle_claims(partitions, members, claims)
    subscriptions = {member_id: frozenset(member.topics) for member_id, member in members.items()}
    if len({*subscriptions.values()}) <= 1:
        return assign_equal(partitions, owned, contested)
    return assign_mixed(partitions, subscriptions, owned, _previous_owners(claims)), None


def _settle_claims(
    partitions: Mapping[str, int], members: Mapping[str, MemberSubscription], claims: Mapping[str, Claim]
) -> tuple[Assignment, set[TopicPartition]]:
    """What each member owns now, and the partitions that two members claim in the same generation."""
    owned: Assignment = {member_id: [] for member_id in claims}
    contested: set[TopicPartition] = set()
    owner: dict[TopicPartition, str] = {}
    for member_id, claim in claims.items():
        for partition in claim.partitions:
            if partition.partition >= partitions.get(partition.topic, 0):
                continue  # deleted since, or no member subscribes to it
            other = owner.get(partition)
            # Kafka compares with the generation in the other's subscription, even if its user data say another.
            if other is not None and claim.generation < members[other].generation:
                continue
            owner[partition] = member_id
            if other is not None and partition in owned[other]:
                owned[other].remove(partition)
            if other is not None and claim.generation == members[other].generation:
                contested.add(partition)
            else:
                owned[member_id].append(partition)
    return owned, contested


def _previous_owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """The latest owner of each partition among the members that have missed a generation.

    If such a member has come back, and its partition has to move anyway, it moves back to that member.
    """
    newest = max(claim.generation for claim in claims.values())
    previous: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, claim in claims.items():
        if claim.generation < newest:
            for partition in claim.partitions:
                if partition not in previous or claim.generation > previous[partition][0]:
                    previous[partition] = (claim.generation, member_id)
    return {partition: member_id for partition, (_, member_id) in previous.items()}


def _moving(assignment: Assignment, members: Mapping[str, MemberSubscription]) -> dict[TopicPartition, str]:
    """The new owner of each partition that one member receives and another one has to revoke."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, assigned in assignment.items():
        owned = members[member_id].owned
        added |= dict.fromkeys({*assigned}.difference(owned), member_id)  # in any order: each is removed
        revoked |= {*owned}.difference(assigned)
    return {partition: member_id for partition, member_id in added.items() if partition in revoked}


def _generation(member: MemberSubscription) -> int:
    """From the subscription, and from the user data if the member is older than that field (KIP-792)."""
    if member.generation >= 0 or member.user_data is None or len(member.user_data) < 4:
        return member.generation
    return int(struct.unpack_from(">i", member.user_data)[0])


def encode_claim(owned: Collection[TopicPartition], generation: int) -> bytes:
    """Sticky's user data, version 1."""
    topics = by_topic(owned)
    written = [struct.pack(">i", len(topics))]
    for topic, numbers in sorted(topics.items()):
        name = topic.encode()
        written.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join([*written, struct.pack(">i", generation)])


def decode_claim(data: bytes) -> Claim:
    """Sticky's user data, version 1 or 0; nothing owned if they are neither."""
    try:
        partitions, end = _decode_partitions(data)
    except struct.error:
        return Claim((), -1)
    return Claim(partitions, struct.unpack_from(">i", data, end)[0] if len(data) >= end + 4 else -1)


def _decode_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    """The partitions, and where they end in the data."""
    partitions: list[TopicPartition] = []
    (topics,) = struct.unpack_from(">i", data)
    if topics < 0:
        raise struct.error("a negative length")
    at = 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, at)
        name, count = struct.unpack_from(f">{length}si", data, at + 2)
        at += 2 + length + 4
        topic = name.decode(errors="replace")
        partitions += [TopicPartition(topic, number) for number in struct.unpack_from(f">{count}i", data, at)]
        at += 4 * count
    return partitions, at
