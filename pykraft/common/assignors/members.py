"""What an assignor reads and returns: the members of a group with their subscriptions, and their partitions.

Where a choice is arbitrary, an assignor takes the members in the order of the mapping, so the same mapping gives the
same result. Kafka takes them in the order of a Java HashMap; with members in that order our results are Kafka's.

Follows org.apache.kafka.clients.consumer.ConsumerPartitionAssignor and its Subscription, and
AbstractPartitionAssignor.MemberInfo.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from pykraft.common.types import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id. Members without partitions have an empty list."""


class MemberSubscription(NamedTuple):
    """What one member says as it joins. Generation -1 means that it has not been in one, or does not say."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    rack: str | None = None
    instance_id: str | None = None
    user_data: bytes | None = None


class Assignor(Protocol):
    """One strategy. It is cooperative if members keep their partitions while they rejoin (KIP-429)."""

    @property
    def name(self) -> str: ...

    @property
    def is_cooperative(self) -> bool: ...

    def user_data(self, owned: Collection[TopicPartition], generation: int) -> bytes | None:
        """The bytes for the leader's assignor that a member adds to its subscription. `owned` and `generation` are of
        the last assignment that it received: nothing and -1 before the first."""
        ...

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        """Give each partition of `partitions` (topic to partition count) that a member subscribes to one owner.

        A topic missing in `partitions` is not assigned: its metadata is not known yet.
        """
        ...


def subscribed(partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> dict[str, int]:
    """The topics to assign, sorted, with their partition counts: those known that some member subscribes to."""
    topics = {topic for member in members.values() for topic in member.topics}
    return {topic: partitions[topic] for topic in sorted(topics) if partitions.get(topic, 0) > 0}


class MayBeStatic(Protocol):
    """A member of any protocol: one with an instance id is static."""

    @property
    def instance_id(self) -> str | None: ...


def in_order(members: Mapping[str, MayBeStatic]) -> list[str]:
    """Member ids in the order in which partitions are dealt out.

    Static members come first, by instance id: it outlives a restart, and a member id does not. So a restarted static
    member gets its old partitions back. The others follow by member id.
    """

    def position(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(members, key=position)
