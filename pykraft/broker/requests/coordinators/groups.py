"""The group APIs on a broker's listener.

JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4, LeaveGroup 0 to 5, DescribeGroups 0 to 6, ListGroups 0 to 5,
DeleteGroups 0 to 3, ConsumerGroupHeartbeat 0 to 1, ConsumerGroupDescribe 0 to 1. Offsets are in `group_offsets`.

Only the broker that leads the group's partition of __consumer_offsets answers; any other says NOT_COORDINATOR, and
while the partition is loaded COORDINATOR_LOAD_IN_PROGRESS. Behaviour to know:

* READ on the group lets a client be a member; DESCRIBE lets it look; DELETE delete.
* A member of a consumer group needs DESCRIBE on each topic that it names; its pattern matches only those that it may
  DESCRIBE. A client that looks at such a group needs it on each topic that a member has.
* A cluster whose group.version is 0 has no consumer groups: UNSUPPORTED_VERSION.
* From SyncGroup 5 on a member must say the group's protocol.
* A request about several groups asks a coordinator for each, and is answered when all have answered.

Follows kafka.server.KafkaApis and org.apache.kafka.coordinator.group.GroupCoordinatorService.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pykraft.broker.coordination.coordinators import GroupCoordinator
from pykraft.broker.requests.authorizer import Authorizer, allows_on_cluster, authorized_operations
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.requests.long_answers import Long
from pykraft.broker.turns.slices import ItemByItem, Weights
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise, gather
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.coordinator.group import config as keys
from pykraft.coordinator.group.consumer_groups.pattern_refresh import Describable
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
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
)
from pykraft.protocol.schema import Request, Response
from pykraft.transport.server_channel import RequestContext

_FIRST_NULL_PROTOCOL = 7
_FIRST_MANDATORY_PROTOCOL = 5
_NAMES_AT_ONCE = 500
_LEAVE_AT_ONCE = 500
"""A heartbeat may name so many topics without pausing."""
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

    def leave_group(self, request: LeaveGroupRequest, context: RequestContext, now: int) -> Handled:
        """Very many members, which only an administrator can name, leave some at a time."""
        self._check_member(context, request.group_id)
        members = request.members
        if len(members) <= _LEAVE_AT_ONCE:
            return self._leave(request, now)

        def left(answers: list[Any]) -> Long:
            refused = next((answer for answer in answers if answer.error_code), None)
            return Long(refused or LeaveGroupResponse(members=[each for answer in answers for each in answer.members]))

        return ItemByItem(
            range(0, len(members), _LEAVE_AT_ONCE),
            lambda start, now: self._leave(request.replace(members=members[start : start + _LEAVE_AT_ONCE]), now),
            lambda answers, _: gather(answers).map(left),
            is_write=True,
        )

    def _leave(self, request: LeaveGroupRequest, now: int) -> Promise[Response]:
        return self._write(request, lambda shard: shard.leave(request), now)

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: int
    ) -> Handled:
        self._check_consumer_groups()
        self._check(context, AclOperation.READ, request.group_id)
        check_not_empty(request.group_id, ErrorCode.INVALID_REQUEST)
        named = dict.fromkeys(request.subscribed_topic_names or ())
        describable = self._describable_by(context)
        if len(describable(named)) < len(named):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        client_id, host, version = context.client_id or "", f"/{context.client_address}", context.api_version

        def beat(then: int) -> Promise[Response]:
            return self._write(
                request,
                lambda shard: shard.consumer.heartbeat(request, client_id, host, version, then, describable),
                then,
            )

        if len(named) <= _NAMES_AT_ONCE:
            return beat(now)
        # What the heartbeat needs to know of each topic is looked up ahead, so that it finds it.
        return ItemByItem(list(named), lambda name, _: self._coordinator.look_at(name), lambda _, then: beat(then))

    def _check_consumer_groups(self) -> None:
        if not self._coordinator.has_consumer_groups:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "group.version is 0: there are no consumer groups")

    def _describable_by(self, context: RequestContext) -> Describable:
        """Tells which topics this client may describe."""
        return lambda names: self._authorizer.allowed(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names)

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
            lambda reads, _: gather(reads).map(lambda found: Long(listed(found))),
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
        check_not_empty(group_id)

    def _write(self, request: Any, plan: Plan, now: int) -> Promise[Response]:
        """Let the group's shard plan; a refusal becomes the answer that says so."""
        answer = self._coordinator.write(request.group_id, plan, now)
        return answer.map(lambda found: written(request, found))


def check_not_empty(group_id: str, error: ErrorCode = ErrorCode.INVALID_GROUP_ID) -> None:
    """Only offsets may be kept under the empty name, and looked at and deleted: Kafka's first consumers did."""
    if not group_id:
        raise KafkaError(error, "GroupId can't be empty.")


def written(request: Request, found: Any) -> Any:
    """The answer of a shard; a refusal as the answer that says so."""
    if not isinstance(found, KafkaError):
        return found
    refusal = request.refusal(found)
    assert refusal is not None, "every request about groups is answered"
    return refusal


def once_each(describe: Callable[[str, int], Promise[Any]]) -> Callable[[str, int], Promise[Any]]:
    """The same for what may be named again and again: what is named again gets the same answer again."""
    described: dict[str, Promise[Any]] = {}

    def describe_once(name: str, now: int) -> Promise[Any]:
        if name not in described:
            described[name] = describe(name, now)
        return described[name]

    return describe_once


def put_together(answers: Sequence[Promise[Any]], respond: Callable[[list[Any]], Response]) -> Promise[ItemByItem]:
    """The response, once all answers are there."""
    return gather(answers).map(lambda found: weighed(found, respond))


def weighed(answers: Sequence[Any], respond: Callable[[list[Any]], Handled]) -> ItemByItem:
    """The response. The answers are weighed first, for few bytes of a request can bring many."""
    return ItemByItem(
        answers,
        lambda answer, _: answer,
        lambda found, _: respond(found),
        weigh=Weights(),
    )


HANDLERS: Handlers = {
    JoinGroupRequest: GroupApis.join_group,
    SyncGroupRequest: GroupApis.sync_group,
    HeartbeatRequest: GroupApis.heartbeat,
    LeaveGroupRequest: GroupApis.leave_group,
    DescribeGroupsRequest: GroupApis.describe_groups,
    ListGroupsRequest: GroupApis.list_groups,
    DeleteGroupsRequest: GroupApis.delete_groups,
    ConsumerGroupHeartbeatRequest: GroupApis.consumer_group_heartbeat,
    ConsumerGroupDescribeRequest: GroupApis.consumer_group_describe,
}
