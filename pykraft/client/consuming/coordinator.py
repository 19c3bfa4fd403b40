"""What a consumer in a classic group does around its membership: rebalances and assignors.

A rebalance takes partitions away and brings others. Records of a partition may still be on their way through the user's
code when it is taken, so both happen only inside the user's `poll()`, on the user's thread::

    something changed --> commit --> on_partitions_revoked --> JoinGroup, SyncGroup --> on_partitions_assigned

The rounds themselves, and heartbeats, go on in between without the user. With an *eager* assignor a member gives up
all its partitions before it joins. With *cooperative* ones it keeps them, and reads on; the assignment then says which
to give up, and a second rebalance gives those to their new owners (KIP-429). That takes a member that offers nothing
but cooperative assignors. A member that was removed from the group cannot commit any more: its partitions are *lost*.

A member joins again when the coordinator says so, when its own subscription has changed, and, if it leads the group,
when the partitions of the group's topics have changed.

Follows org.apache.kafka.clients.consumer.internals.{ConsumerCoordinator,ConsumerProtocol}. One difference: partitions
that a cooperative rebalance takes away are committed right before, not only when the rebalance began.
"""

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.group_part import ASSIGNED, LOST, REVOKED, GroupPart, ListenerCall, Script
from pykraft.client.consuming.membership import ClassicMembership
from pykraft.client.consuming.subscription import Mode, SubscriptionState
from pykraft.common.assignors import MemberSubscription, assignor
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition, by_topic
from pykraft.protocol.messages.coordinators import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykraft.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse

_VERSION = struct.Struct(">h")
_NEWEST = ConsumerProtocolSubscription.versions[1]


class ConsumerCoordinator(GroupPart):
    """A consumer's part in its classic group. It is a RequestManager, and the `Participant` of its membership."""

    membership: ClassicMembership

    def __init__(self, config: Config, subscription: SubscriptionState, driver: ApiDriver) -> None:
        super().__init__(config, subscription, driver, ClassicMembership(config, driver, self))
        self._assignors = [assignor(name) for name in config[keys.PARTITION_ASSIGNMENT_STRATEGY]]
        self._is_cooperative = all(each.is_cooperative for each in self._assignors)
        self._rack: str | None = config[keys.CLIENT_RACK] or None
        self._joined_topics: frozenset[str] | None = None
        """What the last JoinGroup subscribed to."""
        self._counts_at_assignment: Mapping[str, int] | None = None
        """The partition counts of the group's topics when this member, as its leader, assigned them."""
        self._compared_version = -1
        """The metadata with which they were last compared."""
        self._received: tuple[Collection[TopicPartition], int] = ((), -1)
        """The last assignment, with its generation: sticky assignors bring it along."""

    # --- on the user's thread -----------------------------------------------------------------------------------------

    def leave(self, reason: str, deadline: int) -> "Promise[Any]":
        self._joined_topics = self._counts_at_assignment = None
        return super().leave(reason, deadline)

    @property
    def _has_work(self) -> bool:
        return self.membership.assignment is not None or self._must_join()

    def _next_script(self) -> Script | None:
        if self.membership.assignment is not None:
            return self._complete_join()
        return self._prepare_join() if self._must_join() else None

    def _prepare_join(self) -> Script:
        """Before JoinGroup: commit, and give up what the group may take away."""
        now = yield None
        subscription = self._subscription
        yield from self._commit_before_revocation(() if self._is_cooperative else tuple(subscription.partitions), now)
        owned = tuple(subscription.partitions)
        if self.membership.generation.is_lost:
            given_up = owned
            if owned:
                yield ListenerCall(LOST, owned)
        elif self._is_cooperative:
            given_up = tuple(key for key in owned if not subscription.covers(key.topic))
            if given_up:
                yield ListenerCall(REVOKED, given_up)
        else:
            given_up = owned
            yield ListenerCall(REVOKED, owned)
        subscription.assign_from_subscription(key for key in owned if key not in set(given_up))
        self._counts_at_assignment = None
        if self.membership.may_join:
            self.membership.join()

    def _complete_join(self) -> Script:
        """After SyncGroup: take over the assignment."""
        now = yield None
        subscription = self._subscription
        assigned = self._take_assignment()
        if assigned is None:
            return
        generation = self.membership.generation
        owned = set(subscription.partitions)
        revoked = tuple(sorted(owned - assigned))
        added = tuple(sorted(assigned - owned))
        if revoked:
            yield from self._commit_before_revocation(revoked, now)
        if self.membership.generation != generation:
            return  # the member was removed meanwhile: what it owned is lost
        if revoked:
            yield ListenerCall(REVOKED, revoked)
            subscription.assign_from_subscription(owned & assigned)
            self.membership.request_rejoin("need to revoke partitions and re-join")
        if self.membership.generation != generation:
            return
        self._received = (sorted(assigned), generation.id)
        self._commit_at = None
        subscription.assign_from_subscription(assigned)
        yield ListenerCall(ASSIGNED, added)

    def _take_assignment(self) -> set[TopicPartition] | None:
        """What SyncGroup brought; None if the user subscribes to something else by now, and the member joins again."""
        taken, self.membership.assignment = self.membership.assignment, None
        assert taken is not None
        try:
            assigned = set(_decode_assignment(taken)) if taken else set()
        except ProtocolError as error:
            self.membership.request_rejoin("the assignment cannot be read")
            detail = f"{self.membership.group_id}: the leader's assignment cannot be read: {error}"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail) from None
        if not all(self._subscription.covers(key.topic) for key in assigned):
            self.membership.request_rejoin("received assignment does not match the current subscription")
            return None
        return assigned

    # --- joining again ------------------------------------------------------------------------------------------------

    def _must_join(self) -> bool:
        """Whether to prepare a rebalance now."""
        if not self._subscription.mode.is_automatic or not self.membership.may_join:
            return False  # and what changes during a rebalance is seen when it is over
        if self._subscription.mode is Mode.PATTERN and not self._metadata.knows_all_topics:
            return False  # which topics to subscribe to is not known yet
        counts = self._counts_at_assignment
        if counts is not None and self._compared_version != self._metadata.version:
            self._compared_version = self._metadata.version
            if counts != self._counts(counts):
                self.membership.request_rejoin("cached metadata has changed")
        if self._joined_topics is not None and self._joined_topics != self._subscription.topics:
            self.membership.request_rejoin("subscription has changed")
        return self.membership.rejoin_reason is not None

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each of these topics has; 0 for one that is not known."""
        return {topic: len(self._metadata.partitions_of(topic) or ()) for topic in sorted(topics)}

    # --- the member's part --------------------------------------------------------------------------------------------

    def protocols(self) -> Sequence[JoinGroupRequest.Protocol]:
        """The subscription, once for each assignor: each has its own bytes to add."""
        self._joined_topics = self._subscription.topics
        owned = list(self._subscription.partitions)
        return [
            JoinGroupRequest.Protocol(
                name=each.name,
                metadata=_encode(
                    ConsumerProtocolSubscription(
                        topics=sorted(self._joined_topics),
                        user_data=each.user_data(*self._received),
                        owned_partitions=_by_topic(ConsumerProtocolSubscription.TopicPartition, owned),
                        generation_id=self.membership.generation.id,
                        rack_id=self._rack,
                    )
                ),
            )
            for each in self._assignors
        ]

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes] | None:
        """Run the assignor that the coordinator chose, over the members' subscriptions."""
        chosen = next((each for each in self._assignors if each.name == joined.protocol_name), None)
        if chosen is None:
            detail = f"the coordinator chose {joined.protocol_name}, which this member does not offer"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
        members = {member.member_id: _decode_subscription(member) for member in joined.members}
        topics = sorted({topic for member in members.values() for topic in member.topics})
        for topic in topics:
            self._metadata.add_topic(topic)
        if not all(topic in self._metadata.topics for topic in topics):
            return None
        self._counts_at_assignment = self._counts(topics)
        self._compared_version = self._metadata.version
        if joined.skip_assignment:
            return {}
        known = {topic: count for topic, count in self._counts_at_assignment.items() if count}
        assigned = chosen.assign(known, members)
        part_type = ConsumerProtocolAssignment.TopicPartition
        return {
            member: _encode(ConsumerProtocolAssignment(assigned_partitions=_by_topic(part_type, partitions)))
            for member, partitions in assigned.items()
        }


# --- the embedded consumer protocol -----------------------------------------------------------------------------------

M = TypeVar("M", ConsumerProtocolSubscription, ConsumerProtocolAssignment)
P = TypeVar("P", ConsumerProtocolSubscription.TopicPartition, ConsumerProtocolAssignment.TopicPartition)


def _encode(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    """int16 version, then the message."""
    return _VERSION.pack(_NEWEST) + message.to_bytes(_NEWEST)


def _decode(kind: type[M], data: bytes) -> M:
    """ProtocolError if it cannot be read. Newer versions only add fields at the end, which are left out."""
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{kind.__name__} has {len(data)} bytes")
    version: int = _VERSION.unpack_from(data)[0]
    return kind.decode(data, min(version, _NEWEST), _VERSION.size)


def _by_topic(kind: type[P], partitions: Iterable[TopicPartition]) -> list[P]:
    topics = by_topic(sorted(partitions))
    return [kind(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def _decode_assignment(data: bytes) -> list[TopicPartition]:
    found = _decode(ConsumerProtocolAssignment, data)
    return [TopicPartition(part.topic, number) for part in found.assigned_partitions for number in part.partitions]


def _decode_subscription(member: JoinGroupResponse.Member) -> MemberSubscription:
    try:
        found = _decode(ConsumerProtocolSubscription, member.metadata)
    except ProtocolError as error:
        detail = f"the subscription of {member.member_id} cannot be read: {error}"
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail) from None
    return MemberSubscription(
        topics=found.topics,
        owned=[TopicPartition(part.topic, number) for part in found.owned_partitions for number in part.partitions],
        generation=found.generation_id,
        rack=found.rack_id,
        instance_id=member.group_instance_id,
        user_data=found.user_data,
    )
