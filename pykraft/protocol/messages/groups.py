"""Messages of groups: how their members join and live (JoinGroup, SyncGroup, Heartbeat, LeaveGroup; or with KIP-848
ConsumerGroupHeartbeat alone), and how others see and delete groups.

In a **classic** group the coordinator only brings the members together. Each member joins and says what it subscribes
to; the coordinator makes the first one the leader, gives it all subscriptions, the leader assigns the partitions, and
SyncGroup carries the assignments back. Both are bytes that the coordinator does not read.

In a **consumer** group (KIP-848) the coordinator assigns. A member sends what it subscribes to and what it owns, and is
answered with what it should own: one request for everything, sent again at every heartbeat interval.
"""

from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import BROKER
from pykraft.protocol.messages.cluster import OPERATIONS_NOT_ASKED_FOR
from pykraft.protocol.messages.offsets import NO_GENERATION, NO_MEMBER
from pykraft.protocol.schema import (
    Array,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    octets,
    string,
    uuid,
)

# --- classic members --------------------------------------------------------------------------------------------------


class JoinGroupRequest(Request, api=11, versions=(0, 9), flexible=6, listeners=BROKER):
    """Let me into the group. A new member has no id yet; from version 4 on it is given one and has to ask again with it
    (KIP-394). A member with a `group_instance_id` is *static*: it may be away for as long as its session lasts without
    a rebalance (KIP-345). From version 8 on it may say why it joins (KIP-800)."""

    class Protocol(Struct):
        name: string
        metadata: octets

    group_id: string
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = field(default=-1, since=1)
    member_id: string = field(default=NO_MEMBER)
    group_instance_id: string | None = field(default=None, since=5)
    protocol_type: string
    protocols: Array[Protocol]
    reason: string | None = field(default=None, since=8)

    def refusal(self, error: KafkaError) -> "JoinGroupResponse":
        """The answer has the error, and no protocol: up to version 6 that is an empty name."""
        return JoinGroupResponse(error_code=error.code, member_id=self.member_id)


class JoinGroupResponse(Response, to=JoinGroupRequest):
    """All members have joined: this is the group's new generation. Only the leader gets the members. It assigns,
    unless from version 9 on `skip_assignment` says that the present assignment goes on (KIP-814)."""

    class Member(Struct):
        member_id: string
        group_instance_id: string | None = field(default=None, since=5)
        metadata: octets

    throttle_time_ms: int32 = field(default=0, since=2)
    error_code: int16 = field(default=0)
    generation_id: int32 = field(default=NO_GENERATION)
    protocol_type: string | None = field(default=None, since=7)
    protocol_name: string | None = field(default="", nullable_since=7)
    leader: string = field(default="")
    skip_assignment: boolean = field(default=False, since=9)
    member_id: string = field(default=NO_MEMBER)
    members: Array[Member] = field(default=())


class SyncGroupRequest(Request, api=14, versions=(0, 5), flexible=4, listeners=BROKER):
    """What do I get? The leader brings all assignments along."""

    class Assignment(Struct):
        member_id: string
        assignment: octets

    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field(default=None, since=3)
    protocol_type: string | None = field(default=None, since=5)
    protocol_name: string | None = field(default=None, since=5)
    assignments: Array[Assignment]


class SyncGroupResponse(Response, to=SyncGroupRequest):
    """The member's assignment."""

    throttle_time_ms: int32 = field(default=0, since=1)
    error_code: int16 = field(default=0)
    protocol_type: string | None = field(default=None, since=5)
    protocol_name: string | None = field(default=None, since=5)
    assignment: octets = field(default=b"")


class HeartbeatRequest(Request, api=12, versions=(0, 4), flexible=4, listeners=BROKER):
    """I am alive."""

    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field(default=None, since=3)


class HeartbeatResponse(Response, to=HeartbeatRequest):
    """With REBALANCE_IN_PROGRESS the member must join again."""

    throttle_time_ms: int32 = field(default=0, since=1)
    error_code: int16 = field(default=0)


class LeaveGroupRequest(Request, api=13, versions=(0, 5), flexible=4, listeners=BROKER):
    """These members leave: one that says so itself, or from version 3 on several static ones that an administrator
    removes (KIP-345)."""

    class Member(Struct):
        member_id: string
        group_instance_id: string | None = field(default=None)
        reason: string | None = field(default=None, since=5)

    group_id: string
    member_id: string = field(default=NO_MEMBER, until=2)
    members: Array[Member] = field(default=(), since=3)


class LeaveGroupResponse(Response, to=LeaveGroupRequest):
    """What became of each member."""

    class Member(Struct):
        member_id: string
        group_instance_id: string | None
        error_code: int16 = field(default=0)

    throttle_time_ms: int32 = field(default=0, since=1)
    error_code: int16 = field(default=0)
    members: Array[Member] = field(default=(), since=3)


# --- members of consumer groups (KIP-848) -----------------------------------------------------------------------------


class OwnedPartitions(Struct):
    """Partitions of one topic, by its id."""

    topic_id: uuid
    partitions: Array[int32]


class ConsumerGroupHeartbeatRequest(Request, api=68, versions=(0, 1), flexible=0, listeners=BROKER):
    """I am alive; and whatever has changed since the last heartbeat. Null, or -1, says that nothing has. Epoch 0 joins,
    -1 leaves, -2 leaves for a while (a static member)."""

    group_id: string
    member_id: string
    member_epoch: int32
    instance_id: string | None = field(default=None)
    rack_id: string | None = field(default=None)
    rebalance_timeout_ms: int32 = field(default=-1)
    subscribed_topic_names: Array[string] | None = field(default=None)
    subscribed_topic_regex: string | None = field(default=None, since=1)
    server_assignor: string | None = field(default=None)
    topic_partitions: Array[OwnedPartitions] | None = field(default=None)


class ConsumerGroupHeartbeatResponse(Response, to=ConsumerGroupHeartbeatRequest):
    """The member's epoch, and its assignment if that has changed."""

    class Assignment(Struct):
        topic_partitions: Array[OwnedPartitions]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)
    member_id: string | None = field(default=None)
    member_epoch: int32 = field(default=0)
    heartbeat_interval_ms: int32 = field(default=0)
    assignment: Assignment | None = field(default=None)


# --- seen from outside ------------------------------------------------------------------------------------------------


class DescribeGroupsRequest(Request, api=15, versions=(0, 6), flexible=5, listeners=BROKER):
    """What are these classic groups like?"""

    groups: Array[string]
    include_authorized_operations: boolean = field(default=False, since=3)

    def refusal(self, error: KafkaError) -> "DescribeGroupsResponse":
        """Each group gets the error."""
        return DescribeGroupsResponse(
            groups=[DescribeGroupsResponse.Group(group_id=name, error_code=error.code) for name in self.groups]
        )


class DescribeGroupsResponse(Response, to=DescribeGroupsRequest):
    """Each group's state, protocol and members."""

    class Group(Struct):
        class Member(Struct):
            member_id: string
            group_instance_id: string | None = field(default=None, since=4)
            client_id: string
            client_host: string
            member_metadata: octets
            member_assignment: octets

        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None, since=6)
        group_id: string
        group_state: string = field(default="")
        protocol_type: string = field(default="")
        protocol_data: string = field(default="")
        members: Array[Member] = field(default=())
        authorized_operations: int32 = field(default=OPERATIONS_NOT_ASKED_FOR, since=3)

    throttle_time_ms: int32 = field(default=0, since=1)
    groups: Array[Group]


class ConsumerGroupDescribeRequest(Request, api=69, versions=(0, 1), flexible=0, listeners=BROKER):
    """What are these consumer groups like?"""

    group_ids: Array[string]
    include_authorized_operations: boolean = field(default=False)

    def refusal(self, error: KafkaError) -> "ConsumerGroupDescribeResponse":
        """Each group gets the error."""
        return ConsumerGroupDescribeResponse(
            groups=[
                ConsumerGroupDescribeResponse.Group(group_id=name, error_code=error.code) for name in self.group_ids
            ]
        )


class NamedPartitions(Struct):
    """Partitions of one topic, by its id and name."""

    topic_id: uuid
    topic_name: string
    partitions: Array[int32]


class DescribedAssignment(Struct):
    """The partitions of a member."""

    topic_partitions: Array[NamedPartitions]


class ConsumerGroupDescribeResponse(Response, to=ConsumerGroupDescribeRequest):
    """Each group's epochs and members: what a member has, and what it is to have in the end."""

    class Group(Struct):
        class Member(Struct):
            member_id: string
            instance_id: string | None = field(default=None)
            rack_id: string | None = field(default=None)
            member_epoch: int32
            client_id: string
            client_host: string
            subscribed_topic_names: Array[string]
            subscribed_topic_regex: string | None = field(default=None)
            assignment: DescribedAssignment
            target_assignment: DescribedAssignment
            member_type: int8 = field(default=-1, since=1)

        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)
        group_id: string
        group_state: string = field(default="")
        group_epoch: int32 = field(default=0)
        assignment_epoch: int32 = field(default=0)
        assignor_name: string = field(default="")
        members: Array[Member] = field(default=())
        authorized_operations: int32 = field(default=OPERATIONS_NOT_ASKED_FOR)

    throttle_time_ms: int32 = field(default=0)
    groups: Array[Group]


class ListGroupsRequest(Request, api=16, versions=(0, 5), flexible=3, listeners=BROKER):
    """Which groups does this broker coordinate? Filters by state (KIP-518) and by type (KIP-848); empty: all."""

    states_filter: Array[string] = field(default=(), since=4)
    types_filter: Array[string] = field(default=(), since=5)


class ListGroupsResponse(Response, to=ListGroupsRequest):
    """The groups."""

    class Group(Struct):
        group_id: string
        protocol_type: string
        group_state: string = field(default="", since=4)
        group_type: string = field(default="", since=5)

    throttle_time_ms: int32 = field(default=0, since=1)
    error_code: int16 = field(default=0)
    groups: Array[Group] = field(default=())


class DeleteGroupsRequest(Request, api=42, versions=(0, 3), flexible=2, listeners=BROKER):
    """Forget these groups with their offsets; they must be empty (KIP-229)."""

    groups_names: Array[string]

    def refusal(self, error: KafkaError) -> "DeleteGroupsResponse":
        """Each group gets the error."""
        return DeleteGroupsResponse(
            results=[DeleteGroupsResponse.Result(group_id=name, error_code=error.code) for name in self.groups_names]
        )


class DeleteGroupsResponse(Response, to=DeleteGroupsRequest):
    """What became of each group. Only a streams group's error has a message."""

    class Result(Struct):
        group_id: string
        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None, since=3)

    throttle_time_ms: int32 = field(default=0)
    results: Array[Result]
