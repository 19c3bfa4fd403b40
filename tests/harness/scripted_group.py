"""A consumer in a classic group, driven by hand: time passes, the user polls and the coordinator answers when a test
says so. The coordinator is broker 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.coordinator import ConsumerCoordinator
from pykraft.client.consuming.subscription import FetchPosition, SubscriptionState
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykraft.protocol.messages.coordinators import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykraft.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.harness.scripted import HOST, Leaders, Script, knowing, learn, settings

GROUP = "g"
PAUSE_MS = 200
"""Longer than the pause before a retry."""


class Member:
    """One consumer, with what it knows of the cluster. `calls` are those of its listener."""

    def __init__(self, leaders: Leaders | None = None, **given: object) -> None:
        config = settings("consumer", **{"group_id": GROUP, "enable_auto_commit": False, **given})
        self.metadata = knowing(config, leaders or {"t": [(1, 0), (1, 0), (1, 0)]})
        reset = str(given.get("auto_offset_reset", "earliest"))
        self.subscription = SubscriptionState(reset, in_group=True)
        self.driver = ApiDriver(config, self.metadata, Random(1))
        self.group = ConsumerCoordinator(config, self.subscription, self.driver)
        self.membership = self.group.membership
        self.commits = self.group.commits
        self.script = Script(self.group, self.driver, now=10_000_000)
        self.calls: list[tuple[str, list[int]]] = []

    def user_polls(self, after_ms: int = 0) -> None:
        """The user calls `poll()`, and its listener is called."""
        self.script.now += after_ms
        while (call := self.group.advance(self.script.now)) is not None:
            self.calls.append((call.method.removeprefix("on_partitions_"), [key.partition for key in call.partitions]))
        self.script.poll()

    def knows_more(self, leaders: Leaders) -> None:
        """The metadata change."""
        learn(self.metadata, leaders)

    # --- what the coordinator answers ---------------------------------------------------------------------------------

    def coordinator_is(self, broker: int = 1, error: ErrorCode = ErrorCode.NONE) -> None:
        found = FindCoordinatorResponse.Coordinator(
            key=GROUP, node_id=broker, host=HOST, port=9000 + broker, error_code=error
        )
        self.script.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[found]))
        self.script.poll()

    def refuses_join(self, error: ErrorCode, member_id: str = "") -> None:
        self.script.answer(JoinGroupRequest, JoinGroupResponse(error_code=error, member_id=member_id))
        self.script.poll()

    def joined(
        self,
        generation: int = 1,
        leader: str = "other",
        members: Mapping[str, Sequence[str]] | None = None,
        protocol: str = "range",
        skip_assignment: bool = False,
    ) -> None:
        """`members` subscribe to these topics: the leader learns that."""
        response = JoinGroupResponse(
            generation_id=generation,
            protocol_type="consumer",
            protocol_name=protocol,
            leader=leader,
            skip_assignment=skip_assignment,
            member_id="m",
            members=[
                JoinGroupResponse.Member(
                    member_id=name,
                    metadata=b"\0\3" + ConsumerProtocolSubscription(topics=list(topics)).to_bytes(3),
                )
                for name, topics in (members or {}).items()
            ],
        )
        self.script.answer(JoinGroupRequest, response)
        self.script.poll()

    def synced(self, *partitions: int, topic: str = "t", error: ErrorCode = ErrorCode.NONE) -> None:
        part = ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=list(partitions))
        assignment = b"\0\3" + ConsumerProtocolAssignment(assigned_partitions=[part]).to_bytes(3)
        response = SyncGroupResponse(error_code=error, assignment=b"" if error else assignment)
        self.script.answer(SyncGroupRequest, response)
        self.script.poll()

    def heartbeat_answered(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.script.answer(HeartbeatRequest, HeartbeatResponse(error_code=error))
        self.script.poll()

    def committed(self, *errors: ErrorCode) -> None:
        """The partitions of the oldest commit have these errors; without any, all is well."""
        request = self.script.outbound(OffsetCommitRequest).request
        topic_type = OffsetCommitResponse.Topic
        codes = iter(errors)
        topics = [
            topic_type(
                name=topic.name,
                partitions=[
                    topic_type.Partition(
                        partition_index=partition.partition_index, error_code=next(codes, ErrorCode.NONE)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        self.script.answer(OffsetCommitRequest, OffsetCommitResponse(topics=topics))
        self.script.poll()

    # --- the way to a state -------------------------------------------------------------------------------------------

    def preparing(self) -> Member:
        """JoinGroup is under way, with the member's id."""
        self.subscription.subscribe(["t"])
        self.user_polls()
        self.coordinator_is()
        self.refuses_join(ErrorCode.MEMBER_ID_REQUIRED, "m")
        return self

    def completing(self) -> Member:
        """SyncGroup is under way."""
        self.preparing().joined()
        return self

    def stable(self, *partitions: int, **joined: Any) -> Member:
        """A member of generation 1, which owns these partitions and has read each up to offset 5."""
        self.preparing().joined(**joined)
        self.synced(*partitions)
        self.user_polls()
        for state in self.subscription.partitions.values():
            state.seek(FetchPosition(5, 0), 0)
        if partitions:
            nothing = OffsetFetchResponse.Group(group_id=GROUP, topics=[])
            self.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[nothing]))
        self.calls.clear()
        return self

    @property
    def owned(self) -> list[int]:
        return [key.partition for key in self.subscription.partitions]


def subscribed(request: JoinGroupRequest, number: int = 0) -> ConsumerProtocolSubscription:
    """What a member says in its JoinGroup, under the assignor of this number."""
    metadata = request.protocols[number].metadata
    assert metadata[:2] == b"\0\3"
    return ConsumerProtocolSubscription.decode(metadata, 3, 2)


def assigned(request: SyncGroupRequest) -> dict[str, list[TopicPartition]]:
    """What the leader's SyncGroup gives to each member."""
    found = {}
    for each in request.assignments:
        assignment = ConsumerProtocolAssignment.decode(each.assignment, 3, 2)
        found[each.member_id] = [
            TopicPartition(part.topic, number) for part in assignment.assigned_partitions for number in part.partitions
        ]
    return found
