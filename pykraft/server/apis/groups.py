"""The group APIs on a broker's listener.

JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4, LeaveGroup 0 to 5, OffsetCommit 2 to 10, OffsetFetch 1 to 10,
OffsetDelete 0, DescribeGroups 0 to 6, ListGroups 0 to 5, DeleteGroups 0 to 2, ConsumerGroupHeartbeat 0 to 1,
ConsumerGroupDescribe 0 to 1.

Only the broker that leads the group's partition of __consumer_offsets answers; any other says NOT_COORDINATOR, and
while the partition is loaded COORDINATOR_LOAD_IN_PROGRESS. Behaviour to know:

* READ on the group lets a client be a member, commit and fetch; DESCRIBE lets it look; DELETE delete.
* Offsets need READ on their topic as well, to look at them DESCRIBE. A topic that there is not, or not for this client,
  is refused alone. Of all of a group's offsets the client sees those of topics that it may DESCRIBE.
* A member of a consumer group needs DESCRIBE on each topic that it names; its pattern matches only those that it may
  DESCRIBE. A client that looks at such a group needs it on each topic that a member has.
* A cluster whose group.version is 0 has no consumer groups: UNSUPPORTED_VERSION.
* From SyncGroup 5 on a member must say the group's protocol.
* A request about several groups asks a coordinator for each, and is answered when all have answered.

Follows kafka.server.KafkaApis and org.apache.kafka.coordinator.group.GroupCoordinatorService.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.coordinator.group import config as keys
from pykraft.coordinator.group.pattern_refresh import Describable
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.result import CoordinatorResult
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
)
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pykraft.protocol.schema import Request, Response
from pykraft.server.apis.dispatch import Handled, Handlers
from pykraft.server.authorizer import Authorizer, allows_on_cluster, authorized_operations
from pykraft.server.coordinators import GroupCoordinator
from pykraft.server.slices import ItemByItem, Weights
from pykraft.transport.server_channel import RequestContext

_FIRST_COMMIT_BY_ID = 10
_FIRST_FETCH_OF_SEVERAL = 8
_FIRST_FETCH_BY_ID = 10
_FIRST_FETCH_WITH_ERROR = 2
_FIRST_NULL_PROTOCOL = 7
_FIRST_MANDATORY_PROTOCOL = 5
_OFFSETS_AT_ONCE = 500
"""So many offsets are committed in one piece: 20 ms. A consumer of more partitions is rare."""
Plan = Callable[[GroupShard], CoordinatorResult[Any]]


class GroupApis:
    """Answers members of groups, and those who look at groups."""

    def __init__(
        self, coordinator: GroupCoordinator, image: Callable[[], MetadataImage], authorizer: Authorizer
    ) -> None:
        self._coordinator = coordinator
        self._image = image
        self._authorizer = authorizer

    # --- members ------------------------------------------------------------------------------------------------------

    def join_group(self, request: JoinGroupRequest, context: RequestContext, now: int) -> Promise[Response]:
        config = self._coordinator.config
        self._check_member(context, request.group_id)
        least, most = config[keys.GROUP_MIN_SESSION_TIMEOUT_MS], config[keys.GROUP_MAX_SESSION_TIMEOUT_MS]
        if not least <= request.session_timeout_ms <= most:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT, f"a session lasts from {least} to {most} ms")
        version, host = context.api_version, f"/{context.client_address}"
        describable = self._describable_by(context)
        answer = self._write(
            request,
            lambda shard: shard.join(request, version, context.client_id or "", host, now, describable),
            now,
        )

        def without_protocol(response: Any) -> Response:
            if response.error_code and version >= _FIRST_NULL_PROTOCOL:
                response.protocol_name = None
            return response  # type: ignore[no-any-return]

        return answer.map(without_protocol)

    def sync_group(self, request: SyncGroupRequest, context: RequestContext, now: int) -> Promise[Response]:
        is_named = request.protocol_type is not None and request.protocol_name is not None
        if context.api_version >= _FIRST_MANDATORY_PROTOCOL and not is_named:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "SyncGroup does not name the group's protocol")
        self._check_member(context, request.group_id)
        return self._write(request, lambda shard: shard.sync(request), now)

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext, now: int) -> Promise[Response]:
        self._check_member(context, request.group_id)
        answer = self._write(request, lambda shard: shard.heartbeat(request), now)

        def patient(response: Any) -> Response:
            """While the group loads, a heartbeat succeeds: the session of its member has not begun to run yet."""
            if response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                response.error_code = ErrorCode.NONE
            return response  # type: ignore[no-any-return]

        return answer.map(patient)

    def leave_group(self, request: LeaveGroupRequest, context: RequestContext, now: int) -> Promise[Response]:
        self._check_member(context, request.group_id)
        return self._write(request, lambda shard: shard.leave(request), now)

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: int
    ) -> Promise[Response]:
        self._check_consumer_groups()
        self._check(context, AclOperation.READ, request.group_id)
        _check_not_empty(request.group_id, ErrorCode.INVALID_REQUEST)
        named = set(request.subscribed_topic_names or ())
        if len(self._describable_by(context)(named)) < len(named):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        client_id, host, version = context.client_id or "", f"/{context.client_address}", context.api_version

        def plan(shard: GroupShard) -> CoordinatorResult[Any]:
            return shard.consumer.heartbeat(request, client_id, host, version, now, self._describable_by(context))

        return self._write(request, plan, now)

    def _check_consumer_groups(self) -> None:
        if not self._coordinator.has_consumer_groups:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "group.version is 0: there are no consumer groups")

    def _describable_by(self, context: RequestContext) -> Describable:
        """Tells which topics this client may describe."""
        return lambda names: self._authorizer.allowed(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names)

    # --- committed offsets --------------------------------------------------------------------------------------------

    def offset_commit(self, request: OffsetCommitRequest, context: RequestContext, now: int) -> Handled:
        """A commit of many offsets is written in pieces. Each piece asks again whether the member may commit."""
        self._check(context, AclOperation.READ, request.group_id)
        by_id = context.api_version >= _FIRST_COMMIT_BY_ID
        names = [self._name(topic, by_id) for topic in request.topics]
        known = {name for name in names if name is not None}
        allowed = self._authorizer.allowed(context, AclOperation.READ, AclResourceType.TOPIC, known)
        errors = [self._why_not(name, allowed, by_id) for name in names]
        asked = []
        for topic, name, error in zip(request.topics, names, errors, strict=True):
            if error is None:
                there = [each for each in topic.partitions if self._is_there(name or "", each.partition_index)]
                asked.append(topic.replace(name=name or "", partitions=there))
        pieces = _pieces(asked)
        kept = [request.replace(topics=[topic for _, topic in piece]) for piece in pieces]

        def merged(responses: Sequence[Any]) -> OffsetCommitResponse:
            codes: list[dict[int, int]] = [{} for _ in asked]
            for piece, response in zip(pieces, responses, strict=True):
                for (number, _), topic in zip(piece, response.topics, strict=True):
                    codes[number] |= {each.partition_index: each.error_code for each in topic.partitions}
            return self._merged(request, errors, codes)

        def commit(piece: OffsetCommitRequest, now: int) -> Promise[Response]:
            return self._write(piece, lambda shard: shard.commit(piece, context.api_version), now)

        if not kept:
            return merged([])
        if len(kept) == 1:
            return commit(kept[0], now).map(lambda response: merged([response]))
        return ItemByItem(kept, commit, lambda answers, _: gather(answers).map(merged), is_write=True)

    def _name(self, topic: Any, by_id: bool) -> str | None:
        if not by_id:
            name: str = topic.name
            return name
        found = self._image().topics.get(topic.topic_id)
        return None if found is None else found.name

    def _why_not(self, name: str | None, allowed: Collection[str], by_id: bool) -> ErrorCode | None:
        """Why an offset in this topic is not committed; None if it is."""
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if name not in allowed:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None if self._image().topic_named(name) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _is_there(self, name: str, partition: int) -> bool:
        topic = self._image().topic_named(name)
        return topic is not None and partition in topic.partitions

    @staticmethod
    def _merged(
        request: OffsetCommitRequest, errors: Sequence[ErrorCode | None], answered: Sequence[Mapping[int, int]]
    ) -> OffsetCommitResponse:
        """The answers of the coordinator, and the refusals of what it was not asked, in the order of the request."""
        rest = iter(answered)
        topic_type = OffsetCommitResponse.Topic
        topics = []
        for topic, error in zip(request.topics, errors, strict=True):
            codes = {} if error is not None else next(rest)
            missing = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions = [
                topic_type.Partition(
                    partition_index=partition.partition_index, error_code=codes.get(partition.partition_index, missing)
                )
                for partition in topic.partitions
            ]
            topics.append(topic_type(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        return OffsetCommitResponse(topics=topics)

    def offset_fetch(self, request: OffsetFetchRequest, context: RequestContext, now: int) -> Handled:
        version = context.api_version
        if version >= _FIRST_FETCH_OF_SEVERAL:
            fetched: dict[tuple[str, str | None, int], Promise[OffsetFetchResponse.Group]] = {}

            def fetch(group: OffsetFetchRequest.Group, now: int) -> Promise[OffsetFetchResponse.Group]:
                """A group that is named again gets the same answer again, if all its offsets are asked for."""
                if group.topics is not None:
                    return self._fetch(group, request.require_stable, context, now)
                reader = group.group_id, group.member_id, group.member_epoch
                if reader not in fetched:
                    fetched[reader] = self._fetch(group, request.require_stable, context, now)
                return fetched[reader]

            return ItemByItem(
                request.groups,
                fetch,
                lambda answers, _: put_together(answers, lambda groups: OffsetFetchResponse(groups=groups)),
            )
        group_type = OffsetFetchRequest.Group
        topics = None
        if request.topics is not None:
            topics = [
                group_type.Topic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
            ]
        asked = group_type(group_id=request.group_id, topics=topics)
        answer = self._fetch(asked, request.require_stable, context, now)
        return answer.map(lambda group: _of_one(request, group, version))

    def _fetch(
        self, asked: OffsetFetchRequest.Group, require_stable: bool, context: RequestContext, now: int
    ) -> Promise[OffsetFetchResponse.Group]:
        group_type = OffsetFetchResponse.Group
        if not self._may(context, AclOperation.DESCRIBE, asked.group_id):
            return Promise.of(group_type(group_id=asked.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        by_id = context.api_version >= _FIRST_FETCH_BY_ID
        named = asked
        if asked.topics is not None:
            topics = [topic.replace(name=self._name(topic, by_id) or "") for topic in asked.topics]
            named = asked.replace(topics=topics)

        def answered(group: Any) -> OffsetFetchResponse.Group:
            if isinstance(group, KafkaError):
                return group_type(group_id=asked.group_id, error_code=group.code)
            return self._visible(group, asked.topics is None, by_id, context)

        if require_stable:  # the newest offsets, once they are committed
            newest = self._coordinator.write(
                asked.group_id, lambda shard: CoordinatorResult(shard.fetch(named, True)), now
            )
            return newest.map(answered)
        found = self._coordinator.read(asked.group_id, lambda committed, _: committed.fetch(named, False), now)
        return found.map(answered)

    def _visible(
        self, group: OffsetFetchResponse.Group, is_all: bool, by_id: bool, context: RequestContext
    ) -> OffsetFetchResponse.Group:
        """What of a group's offsets this client may see."""
        image = self._image()
        names = {topic.name for topic in group.topics if topic.name}
        allowed = self._authorizer.allowed(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
        topics = []
        for topic in group.topics:
            error = None
            if by_id and is_all:
                found = image.topic_named(topic.name)
                topic.topic_id = ZERO_UUID if found is None else found.topic_id
            if by_id and (topic.topic_id == ZERO_UUID or not topic.name):
                error = ErrorCode.UNKNOWN_TOPIC_ID
            elif topic.name not in allowed:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if error is not None and is_all:
                continue
            if error is not None:
                partition_type = OffsetFetchResponse.Group.Topic.Partition
                topic.partitions = [
                    partition_type(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ]
            topics.append(topic)
        return group.replace(topics=topics)

    def offset_delete(self, request: OffsetDeleteRequest, context: RequestContext, now: int) -> Promise[Response]:
        self._check(context, AclOperation.DELETE, request.group_id)
        _check_not_empty(request.group_id)
        names = {topic.name for topic in request.topics}
        allowed = self._authorizer.allowed(context, AclOperation.READ, AclResourceType.TOPIC, names)
        partition_type = OffsetDeleteResponse.Topic.Partition
        refused: dict[str, list[OffsetDeleteResponse.Topic.Partition]] = {}
        kept = []
        for topic in request.topics:
            error = self._why_not(topic.name, allowed, False)
            known = self._image().topic_named(topic.name)
            numbers = {} if known is None else known.partitions
            there = [each for each in topic.partitions if each.partition_index in numbers]
            if error is None and there:
                kept.append(topic.replace(partitions=there))
            code = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused[topic.name] = [
                partition_type(partition_index=each.partition_index, error_code=code)
                for each in topic.partitions
                if error is not None or each.partition_index not in numbers
            ]

        def merged(response: Any) -> OffsetDeleteResponse:
            if response.error_code:
                return response  # type: ignore[no-any-return]
            answered = {topic.name: topic.partitions for topic in response.topics}
            return OffsetDeleteResponse(
                topics=[
                    OffsetDeleteResponse.Topic(name=name, partitions=[*refusals, *answered.get(name, ())])
                    for name, refusals in refused.items()
                ]
            )

        asked = request.replace(topics=kept)
        return self._write(asked, lambda shard: shard.delete_offsets(asked), now).map(merged)

    # --- seen from outside --------------------------------------------------------------------------------------------

    def describe_groups(self, request: DescribeGroupsRequest, context: RequestContext, now: int) -> ItemByItem:
        group_type = DescribeGroupsResponse.Group

        def described(group_id: str, now: int) -> Promise[DescribeGroupsResponse.Group]:
            if not self._may(context, AclOperation.DESCRIBE, group_id):
                return Promise.of(group_type(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))

            def answered(found: Any) -> DescribeGroupsResponse.Group:
                if isinstance(found, KafkaError):
                    return group_type(group_id=group_id, error_code=found.code)
                group: DescribeGroupsResponse.Group = found
                if request.include_authorized_operations and not group.error_code:
                    group.authorized_operations = authorized_operations(
                        self._authorizer, context, AclResourceType.GROUP, group_id
                    )
                return group

            def look(committed: GroupShard, live: GroupShard) -> DescribeGroupsResponse.Group:
                return committed.describe(group_id, context.api_version, live)

            return self._coordinator.read(group_id, look, now).map(answered)

        return ItemByItem(
            request.groups,
            once_each(described),
            lambda answers, _: put_together(answers, lambda groups: DescribeGroupsResponse(groups=groups)),
        )

    def consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, context: RequestContext, now: int
    ) -> ItemByItem:
        self._check_consumer_groups()
        group_type = ConsumerGroupDescribeResponse.Group

        def described(group_id: str, now: int) -> Promise[ConsumerGroupDescribeResponse.Group]:
            if not self._may(context, AclOperation.DESCRIBE, group_id):
                return Promise.of(group_type(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))

            def answered(found: Any) -> ConsumerGroupDescribeResponse.Group:
                if isinstance(found, KafkaError):
                    return group_type(group_id=group_id, error_code=found.code, error_message=found.detail or None)
                return self._shown(found[0], request.include_authorized_operations, context)

            look = self._coordinator.read(group_id, lambda committed, _: committed.consumer.describe([group_id]), now)
            return look.map(answered)

        return ItemByItem(
            request.group_ids,
            once_each(described),
            lambda answers, _: put_together(answers, lambda groups: ConsumerGroupDescribeResponse(groups=groups)),
        )

    def _shown(
        self, group: ConsumerGroupDescribeResponse.Group, with_operations: bool, context: RequestContext
    ) -> ConsumerGroupDescribeResponse.Group:
        """A consumer group as this client may see it: not at all if a member has a topic that is hidden from it."""
        if group.error_code:
            return group
        names = {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
        if len(self._describable_by(context)(names)) < len(names):
            return ConsumerGroupDescribeResponse.Group(
                group_id=group.group_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="The group has described topic(s) that the client is not authorized to describe.",
            )
        if with_operations:
            group.authorized_operations = authorized_operations(
                self._authorizer, context, AclResourceType.GROUP, group.group_id
            )
        return group

    def list_groups(self, request: ListGroupsRequest, context: RequestContext, now: int) -> ItemByItem:
        """DESCRIBE on the cluster shows all groups; else those that the client may DESCRIBE."""
        runtime = self._coordinator.runtime
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if runtime.is_loading else ErrorCode.NONE

        def look(committed: GroupShard, live: GroupShard) -> list[ListGroupsResponse.Group]:
            return committed.listed(states, types, live)

        def listed(found: Sequence[Any]) -> ListGroupsResponse:
            # A partition whose coordinator has moved has no groups here any more.
            groups = [group for groups in found if not isinstance(groups, KafkaError) for group in groups]
            if not allows_on_cluster(self._authorizer, context, AclOperation.DESCRIBE):
                names = {group.group_id for group in groups}
                shown = self._authorizer.allowed(context, AclOperation.DESCRIBE, AclResourceType.GROUP, names)
                groups = [group for group in groups if group.group_id in shown]
            return ListGroupsResponse(error_code=code, groups=groups)

        return ItemByItem(
            runtime.active_partitions(),
            lambda partition, now: runtime.read(partition, look, now),
            lambda reads, _: gather(reads).map(listed),
        )

    def delete_groups(self, request: DeleteGroupsRequest, context: RequestContext, now: int) -> ItemByItem:
        result_type = DeleteGroupsResponse.Result

        def deleted(group_id: str, now: int) -> Promise[DeleteGroupsResponse.Result]:
            if not self._may(context, AclOperation.DELETE, group_id):
                return Promise.of(result_type(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            done = self._coordinator.write(group_id, lambda shard: shard.delete_groups([group_id]), now)
            return done.map(
                lambda found: (
                    result_type(group_id=group_id, error_code=found.code) if isinstance(found, KafkaError) else found[0]
                )
            )

        return ItemByItem(
            list(dict.fromkeys(request.groups_names)),
            deleted,
            lambda answers, _: gather(answers).map(lambda results: DeleteGroupsResponse(results=results)),
            is_write=True,
        )

    # --- how all of them ask ------------------------------------------------------------------------------------------

    def _may(self, context: RequestContext, operation: AclOperation, group_id: str) -> bool:
        return self._authorizer.allows(context, operation, AclResourceType.GROUP, group_id)

    def _check(self, context: RequestContext, operation: AclOperation, group_id: str) -> None:
        if not self._may(context, operation, group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _check_member(self, context: RequestContext, group_id: str) -> None:
        self._check(context, AclOperation.READ, group_id)
        _check_not_empty(group_id)

    def _write(self, request: Any, plan: Plan, now: int) -> Promise[Response]:
        """Let the group's shard plan; a refusal becomes the answer that says so."""
        answer = self._coordinator.write(request.group_id, plan, now)
        return answer.map(lambda found: _response(request, found))


def _check_not_empty(group_id: str, error: ErrorCode = ErrorCode.INVALID_GROUP_ID) -> None:
    """Only offsets may be kept under the empty name, and looked at and deleted: Kafka's first consumers did."""
    if not group_id:
        raise KafkaError(error, "GroupId can't be empty.")


def _response(request: Request, found: Any) -> Response:
    if not isinstance(found, KafkaError):
        response: Response = found
        return response
    refusal = request.refusal(found)
    assert refusal is not None, "every request about groups is answered"
    return refusal


def _pieces(topics: Sequence[OffsetCommitRequest.Topic]) -> list[list[tuple[int, OffsetCommitRequest.Topic]]]:
    """The topics of a commit, with their numbers, in pieces of at most `_OFFSETS_AT_ONCE` partitions."""
    pieces: list[list[tuple[int, OffsetCommitRequest.Topic]]] = []
    room = 0
    for number, topic in enumerate(topics):
        start, count = 0, len(topic.partitions)
        while start < count:
            if not room:
                pieces.append([])
                room = _OFFSETS_AT_ONCE
            part = topic.partitions[start : start + room]
            pieces[-1].append((number, topic if len(part) == count else topic.replace(partitions=part)))
            start, room = start + len(part), room - len(part)
    return pieces


def once_each(describe: Callable[[str, int], Promise[Any]]) -> Callable[[str, int], Promise[Any]]:
    """The same for what may be named again and again: what is named again gets the same answer again."""
    described: dict[str, Promise[Any]] = {}

    def describe_once(name: str, now: int) -> Promise[Any]:
        if name not in described:
            described[name] = describe(name, now)
        return described[name]

    return describe_once


def put_together(answers: Sequence[Promise[Any]], respond: Callable[[list[Any]], Response]) -> Promise[ItemByItem]:
    """The response, once all answers are there. They are weighed first, for few bytes of a request can bring many."""
    return gather(answers).map(
        lambda found: ItemByItem(found, lambda answer, _: answer, lambda found, _: respond(found), weigh=Weights())
    )


def _of_one(request: OffsetFetchRequest, group: OffsetFetchResponse.Group, version: int) -> OffsetFetchResponse:
    """The answer about one group, as versions up to 7 have it."""
    if group.error_code and version < _FIRST_FETCH_WITH_ERROR:
        answer: Any = request.refusal(KafkaError(ErrorCode.of(group.error_code)))
        return answer  # type: ignore[no-any-return]
    topic_type = OffsetFetchResponse.Topic
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            topic_type(
                name=topic.name,
                partitions=[
                    topic_type.Partition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def gather(promises: Sequence[Promise[Any]]) -> Promise[list[Any]]:
    """The values of all promises, when all are kept."""
    gathered: Promise[list[Any]] = Promise()
    if all(promise.kept for promise in promises):
        return Promise.of([promise.value for promise in promises])
    left = [len(promises)]

    def on_one(_: Any) -> None:
        left[0] -= 1
        if not left[0]:
            gathered.keep([promise.value for promise in promises])

    for promise in promises:
        gathered.on_abandoned(promise.abandon)
    for promise in promises:
        promise.then(on_one)
    return gathered


HANDLERS: Handlers = {
    JoinGroupRequest: GroupApis.join_group,
    SyncGroupRequest: GroupApis.sync_group,
    HeartbeatRequest: GroupApis.heartbeat,
    LeaveGroupRequest: GroupApis.leave_group,
    OffsetCommitRequest: GroupApis.offset_commit,
    OffsetFetchRequest: GroupApis.offset_fetch,
    OffsetDeleteRequest: GroupApis.offset_delete,
    DescribeGroupsRequest: GroupApis.describe_groups,
    ListGroupsRequest: GroupApis.list_groups,
    DeleteGroupsRequest: GroupApis.delete_groups,
    ConsumerGroupHeartbeatRequest: GroupApis.consumer_group_heartbeat,
    ConsumerGroupDescribeRequest: GroupApis.consumer_group_describe,
}
