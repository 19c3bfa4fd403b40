"""A group that is deleted and made again under its name, in any form: without members, classic, or a consumer group.

One client is all its members, one after the other. In each life of the group it joins, commits a few offsets, leaves,
and deletes the group. Some commits it sends late, when the group may have another life: as a process does that was held
up, or a network. Another client reads the committed offsets all the time. What both hear is held against
`recreated_group_laws`.
"""

from random import Random
from typing import Any

from pykraft.client.api_driver import ApiHandler
from pykraft.common.core import Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.coordinators import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest
from pykraft.protocol.schema import Request
from pykraft.sim.laws.invariants import RECREATED
from pykraft.sim.laws.invariants import RECREATED_GROUP as GROUP
from pykraft.sim.laws.recreated_group_laws import NO_MEMBER, RecreatedGroupLaws
from pykraft.sim.workloads.scripted import Script, Scripted
from pykraft.sim.workloads.workload import TOPIC

_PLACES = (TopicPartition(TOPIC, 0), TopicPartition(RECREATED, 0))
"""For which offsets are committed; one of the topics is deleted, too."""
_NO_GENERATION = -1
_LEAVE_EPOCH = -1
_BY_NAME = 9
"""The newest version of OffsetCommit and OffsetFetch in which topics have names."""
_SESSION_MS = 1_000
_PATIENCE_MS = 1_500
_READ_EVERY_MS = 25
_DELETIONS = 3
"""So often it tries to delete a group before it goes on with what is there."""
_PROTOCOL = "range"
_SUBSCRIPTION = b"\0\0" + ConsumerProtocolSubscription(topics=[TOPIC]).to_bytes(0)
_ASSIGNMENT = b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=[]).to_bytes(0)

Member = tuple[str, int]
"""A member's id, and its generation or epoch."""


class _Scripted(Scripted):
    """A client of the group."""

    def __init__(self, bootstrap_servers: str, laws: RecreatedGroupLaws, random: Random) -> None:
        super().__init__(bootstrap_servers, random)
        self._laws = laws

    def _ask(self, request: Request, channel: str = "groups") -> Promise[Any]:
        """The answer of the group's coordinator, or a KafkaError. It is sent once."""
        handler: ApiHandler[str, Any] = ApiHandler(
            what="{}: no answer",
            lookup=self._driver.group_coordinators,
            request=lambda keys: request,
            read=lambda keys, response: [(GROUP, _read(response))],
            channel=channel,
            is_retried=False,
        )
        answer: Promise[Any] = Promise()
        asked = self._driver.ask_all(handler, [GROUP], self._now + _PATIENCE_MS)
        asked.then(lambda found: answer.keep(found if isinstance(found, KafkaError) else found[GROUP]))
        return answer


class GroupRecreator(_Scripted):
    """The members of all lives of the group, and who deletes it."""

    def __init__(self, bootstrap_servers: str, laws: RecreatedGroupLaws, late_ms: int, random: Random) -> None:
        """Some commits are late by up to `late_ms`."""
        super().__init__(bootstrap_servers, laws, random)
        self._late_ms = late_ms
        self._late: list[tuple[int, int, Request]] = []
        """Commits to send at a time, with their offsets."""
        self._offset = 0

    def poll(self, now: int) -> Poll:
        self._now = now
        for late in [each for each in self._late if each[0] <= now]:
            self._late.remove(late)
            self._send(late[1], late[2], "late")
        return super().poll(now)

    def _deadline(self) -> int:
        return min([super()._deadline(), *(due for due, _, _ in self._late)])

    def _life(self) -> Script:
        join, leave = self._random.choice(
            (
                (self._join_nothing, self._leave_nothing),
                (self._join_classic_group, self._leave_classic_group),
                (self._join_consumer_group, self._leave_consumer_group),
            )
        )
        member = yield from join()
        if member is not None:
            for _ in range(self._random.randint(1, 3)):
                yield self._send(*self._commit(member))
                yield self._pause_ms()
            if self._random.random() < 0.7:
                self._late.append((self._now + self._random.randint(0, self._late_ms), *self._commit(member)))
            yield from leave(member)
        for _ in range(_DELETIONS):
            asked = self._laws.ask_deletion()
            answer = yield self._ask(DeleteGroupsRequest(groups_names=[GROUP]))
            if not isinstance(answer, KafkaError):
                self._laws.hear_deletion(asked)
                return
            if answer.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return
            yield self._pause_ms()

    # --- commits ------------------------------------------------------------------------------------------------------

    def _commit(self, member: Member) -> tuple[int, OffsetCommitRequest]:
        """The next offset, and the request that commits it for this member."""
        self._offset += 1
        member_id, generation = member
        self._laws.send_commit(self._offset, member_id)
        topic = OffsetCommitRequest.Topic
        topics = [
            topic(
                name=place.topic,
                partitions=[topic.Partition(partition_index=place.partition, committed_offset=self._offset)],
            )
            for place in _PLACES
        ]
        request = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
        )
        return self._offset, request.at_most(_BY_NAME)

    def _send(self, offset: int, request: Request, channel: str = "groups") -> Promise[Any]:
        answer = self._ask(request, channel)
        answer.then(lambda found: self._laws.hear_commit(offset, _committed(found)))
        return answer

    # --- members ------------------------------------------------------------------------------------------------------

    def _join_nothing(self) -> Script:
        yield self._pause_ms()
        return NO_MEMBER, _NO_GENERATION

    def _leave_nothing(self, member: Member) -> Script:
        yield self._pause_ms()

    def _join_classic_group(self) -> Script:
        member_id = NO_MEMBER
        for _ in range(2):  # the first answer gives it an id
            request = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_SESSION_MS,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequest.Protocol(name=_PROTOCOL, metadata=_SUBSCRIPTION)],
            )
            joined = yield self._ask(request)
            if isinstance(joined, KafkaError):
                return None
            member_id = joined.member_id
            if joined.error_code == ErrorCode.NONE:
                break
        assignment = SyncGroupRequest.Assignment(member_id=member_id, assignment=_ASSIGNMENT)
        synced = yield self._ask(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=joined.generation_id,
                member_id=member_id,
                protocol_type="consumer",
                protocol_name=_PROTOCOL,
                assignments=[assignment],
            )
        )
        return None if isinstance(synced, KafkaError) else (member_id, joined.generation_id)

    def _leave_classic_group(self, member: Member) -> Script:
        leaving = LeaveGroupRequest.Member(member_id=member[0])
        yield self._ask(LeaveGroupRequest(group_id=GROUP, member_id=member[0], members=[leaving]))

    def _join_consumer_group(self) -> Script:
        member_id = str(Uuid.random(self._random))
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=_SESSION_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        joined = yield self._ask(request)
        return None if isinstance(joined, KafkaError) else (member_id, joined.member_epoch)

    def _leave_consumer_group(self, member: Member) -> Script:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member[0], member_epoch=_LEAVE_EPOCH)
        yield self._ask(request)


class GroupReader(_Scripted):
    """Asks for the committed offsets."""

    def _life(self) -> Script:
        told = self._laws.ask_offsets()
        group = OffsetFetchRequest.Group(group_id=GROUP)
        answer = yield self._ask(OffsetFetchRequest(group_id=GROUP, topics=None, groups=[group]).at_most(_BY_NAME))
        if not isinstance(answer, KafkaError):
            offsets = {
                TopicPartition(topic.name, part.partition_index): part.committed_offset
                for topic in answer.groups[0].topics
                for part in topic.partitions
            }
            self._laws.hear_offsets(told, offsets)
        yield self._random.randint(0, 2 * _READ_EVERY_MS)


def _read(response: Any) -> Any:
    """The response, or the error that it has for the whole request."""
    code = ErrorCode.of(_error_code(response))
    is_answer = code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
    return response if is_answer else KafkaError(code)


def _error_code(response: Any) -> int:
    if isinstance(response, OffsetCommitResponse):
        codes = {part.error_code for topic in response.topics for part in topic.partitions}
        return codes.pop() if len(codes) == 1 else ErrorCode.NONE  # any order: it is one
    for name in ("results", "groups"):
        if hasattr(response, name):
            (only,) = getattr(response, name)
            return int(only.error_code)
    return int(response.error_code)


def _committed(answer: Any) -> list[TopicPartition]:
    """The partitions whose commit was acknowledged."""
    if isinstance(answer, KafkaError):
        return []
    return [
        TopicPartition(topic.name, part.partition_index)
        for topic in answer.topics
        for part in topic.partitions
        if not part.error_code
    ]
