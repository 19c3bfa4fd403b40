"""A classic group: its members, its generation, and the state that both are in.

::

                 a member joins                      all have joined
      EMPTY ------------------> PREPARING_REBALANCE -----------------> COMPLETING_REBALANCE
        ^                          ^   |                                  |            |
        | the last one has left    |   |   a member joins, leaves or dies |            | the leader's assignment
        +--------------------------|---+ <--------------------------------+            | is committed
                                   |                                                   v
                                   +------------------------------------------------ STABLE

* PREPARING_REBALANCE: the members are asked to join again (REBALANCE_IN_PROGRESS); those that have, wait.
* COMPLETING_REBALANCE: a new *generation* has begun. The leader assigns; the others wait in SyncGroup.
* STABLE: each member has its assignment and sends heartbeats.
* DEAD: the group was deleted; a timer or request that still holds it finds that there is none.

The coordinator never reads an assignment. Of the subscriptions it reads the topics, and only to know which committed
offsets are still of use.

Members here are soft state until the leader's assignment is written: a crash before that brings the generation before
back, and the members join again.

Follows org.apache.kafka.coordinator.group.classic.{ClassicGroup,ClassicGroupMember,ClassicGroupState}.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.coordinator.group.consumer_protocol import read_subscription
from pykraft.protocol.messages.coordinators import (
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
)
from pykraft.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

CLASSIC = "classic"
CONSUMER_PROTOCOL = "consumer"
"""The protocol type of groups of consumers; Kafka Connect, for instance, has another."""
NO_STATE_TIMESTAMP = -1
GROUP_METADATA = 2
"""The type of the record."""
_GROUP_METADATA_VERSION = 3


class ClassicState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = ClassicState
TRANSITIONS = frozenset(
    [
        (_S.EMPTY, _S.PREPARING_REBALANCE),
        (_S.PREPARING_REBALANCE, _S.EMPTY),
        (_S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE),
        (_S.COMPLETING_REBALANCE, _S.PREPARING_REBALANCE),
        (_S.COMPLETING_REBALANCE, _S.STABLE),
        (_S.STABLE, _S.PREPARING_REBALANCE),
        *((state, _S.DEAD) for state in _S),
    ]
)

Protocols = Sequence[tuple[str, bytes]]
"""What a member can be assigned by, the best first: (name, subscription)."""


@dataclass(eq=False)
class ClassicMember:
    """One member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """No answer has named its id yet, so it cannot send heartbeats."""
    joining: Promise[JoinGroupResponse] | None = field(default=None, repr=False)
    syncing: Promise[SyncGroupResponse] | None = field(default=None, repr=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_awaiting_answer(self) -> bool:
        """Its request waits here, so it need not send a heartbeat. A new member may have gone without a word."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Its subscription under this protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class ClassicGroup:
    """One group. Its methods change members and state; what follows from that is for `classic`."""

    group_type = CLASSIC

    def __init__(self, group_id: str, time_ms: int) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_timestamp = time_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.generation = 0
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by group.instance.id."""
        self.pending_members: set[str] = set()
        """Ids that the group gave away, and with which no member has joined yet."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not asked for their assignment yet."""
        self.new_member_added = False
        """During the delay before the first rebalance: another member has joined since the last look."""
        self.subscribed_topics: frozenset[str] | None = None
        """None if it is not known what the members subscribe to."""

    # --- what holds now -----------------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return (self.state, ClassicState.PREPARING_REBALANCE) in TRANSITIONS

    @property
    def awaiting_join(self) -> int:
        return sum(member.joining is not None for member in self.members.values())

    @property
    def have_all_joined(self) -> bool:
        return self.awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member's."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed_topics is not None and topic in self.subscribed_topics

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    def move(self, state: ClassicState, time_ms: int) -> None:
        assert (self.state, state) in TRANSITIONS, f"group {self.group_id} went from {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp = time_ms

    # --- members ------------------------------------------------------------------------------------------------------

    def validate(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member with this id; KafkaError if there is none, or another one has its instance id now."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"another member has the instance id {instance_id}")
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has no member {member_id}")
        return member

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Take in a member; the first one leads, and says of what kind the group is."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member, or an id that was given away. If it led, the next one does."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """A static member is back under a new id. A request that waits under the old one is fenced."""
        member = self.members.pop(old_id)
        answer_join(member, refused_join(old_id, ErrorCode.FENCED_INSTANCE_ID))
        answer_sync(member, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        self.pending_sync.discard(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """A leader must have joined: choose another one if ours has not. False if no member has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = next((member for member in self.members.values() if member.joining is not None), None)
        if leader is None or joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    # --- protocols ----------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a client with these protocols can be a member."""
        if self.is_empty:
            return bool(protocol_type and names)
        common = self._common() if self.members else set(names)
        return self.protocol_type == protocol_type and not common.isdisjoint(names)

    def _common(self) -> set[str]:
        """The protocols that all members have."""
        counts = Counter(name for member in self.members.values() for name in dict(member.protocols))
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """Each member votes for its best among those that all have; the most votes win. KafkaError if there is none."""
        common = self._common()
        if not common:  # no request leads here, but the records of a group may
            detail = f"the members of {self.group_id} have no protocol in common"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return max(votes, key=lambda name: votes[name])

    def begin_generation(self, time_ms: int) -> None:
        """All that join have joined. A group without members is empty in the new generation."""
        self.generation += 1
        self.pending_sync = set()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.subscribed_topics = self._subscriptions()
            self.move(ClassicState.COMPLETING_REBALANCE, time_ms)
        else:
            self.protocol_name = None
            self.subscribed_topics = self._subscriptions()
            self.move(ClassicState.EMPTY, time_ms)

    def become_stable(self) -> None:
        """The group was a consumer group, whose members have their assignments."""
        self.state = ClassicState.STABLE
        self.protocol_name = self.select_protocol()
        self.subscribed_topics = self._subscriptions()

    def _subscriptions(self) -> frozenset[str] | None:
        """The topics of all members, if they are consumers and their subscriptions can be read."""
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            found = subscribed_topics(member.metadata(self.protocol_name))
            if found is None:
                return None
            topics.update(found)
        return frozenset(topics)

    # --- answers ------------------------------------------------------------------------------------------------------

    def joined(
        self, member: ClassicMember, leader_id: str | None, *, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        """The answer to a member of this generation; the leader also gets the others."""
        has_members = member.member_id == leader_id
        return JoinGroupResponse(
            members=[
                JoinGroupResponse.Member(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    metadata=each.metadata(self.protocol_name),
                )
                for each in (self.members.values() if has_members else ())
            ],
            member_id=member.member_id,
            generation_id=self.generation,
            protocol_name=self.protocol_name,
            protocol_type=self.protocol_type,
            leader=leader_id or "",
            skip_assignment=skip_assignment,
        )

    def synced(self, member: ClassicMember, error: ErrorCode = ErrorCode.NONE) -> SyncGroupResponse:
        """The assignment of a member."""
        if error:
            return SyncGroupResponse(error_code=error)
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )

    # --- records ------------------------------------------------------------------------------------------------------

    def record(self, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
        """The group as it is, with these assignments."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=self.state_timestamp,
            members=[
                GroupMetadataValue.Member(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )
        return CoordinatorRecord(GROUP_METADATA, GroupMetadataKey(group=self.group_id), _GROUP_METADATA_VERSION, value)

    def assignments(self) -> dict[str, bytes]:
        return {member.member_id: member.assignment for member in self.members.values()}

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """The group that a record keeps."""
        group = cls(group_id, value.current_state_timestamp)
        group.state = ClassicState.STABLE if value.members else ClassicState.EMPTY
        group.protocol_type = value.protocol_type or None
        group.generation = value.generation
        group.protocol_name = value.protocol
        for each in value.members:
            member = ClassicMember(
                member_id=each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=each.session_timeout if each.rebalance_timeout < 0 else each.rebalance_timeout,
                session_timeout_ms=each.session_timeout,
                protocols=[(value.protocol or "", bytes(each.subscription))],
                assignment=bytes(each.assignment),
            )
            group.add(member, value.protocol_type)
        group.leader_id = value.leader
        group.subscribed_topics = group._subscriptions()
        return group


def empty_record(group: ClassicGroup) -> CoordinatorRecord:
    """The record that a group exists. It leaves out members that join now: they are not in the group before they are
    assigned."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=group.state_timestamp,
        members=[],
    )
    return CoordinatorRecord(GROUP_METADATA, GroupMetadataKey(group=group.group_id), _GROUP_METADATA_VERSION, value)


def tombstone(group_id: str) -> CoordinatorRecord:
    """The record that forgets a classic group."""
    return CoordinatorRecord(GROUP_METADATA, GroupMetadataKey(group=group_id), None, None)


def subscribed_topics(metadata: bytes) -> Sequence[str] | None:
    """The topics of a consumer's subscription; None if it cannot be read."""
    try:
        topics: Sequence[str] = read_subscription(metadata).topics
    except ProtocolError:
        return None
    return topics


def answer_join(member: ClassicMember, response: JoinGroupResponse) -> None:
    """Answer a member's JoinGroup, if it waits. It may have been refused already: its group could not be written."""
    promise, member.joining = member.joining, None
    if promise is not None and not promise.kept:
        promise.keep(response)


def answer_sync(member: ClassicMember, response: SyncGroupResponse) -> bool:
    """Answer a member's SyncGroup; whether it waited."""
    promise, member.syncing = member.syncing, None
    if promise is not None:
        promise.keep(response)
    return promise is not None


def refused_join(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id)
