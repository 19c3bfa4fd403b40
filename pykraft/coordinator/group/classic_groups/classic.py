"""What members of classic groups ask, and what their silence does: join, sync, heartbeat, leave, and the timers.

Four timers drive a group besides its members' requests::

    heartbeat   for each member: silent for its session timeout, it is removed
    join        a rebalance begins: members that have not joined again when it expires are removed. Before the very
                first one it is a delay instead, so that members that start together get one rebalance, not many
    sync        a generation begins: members that do not ask for their assignment in time are removed
    (a new member that waits in JoinGroup cannot send heartbeats, and is given five minutes)

A request that must wait returns a promise. Members wait in JoinGroup until all have joined, and in SyncGroup until the
leader's assignment is committed. Members and promises are soft state; only an assignment is written. The records here
are therefore not replayed on the coordinator that plans them (`is_replayed`): it has the group already.

A group is new when its first member joins: an empty group is written at once, so that a coordinator that takes over
knows the group, and its deletion has something to forget. If it cannot be written, there is no group.

Follows org.apache.kafka.coordinator.group.GroupMetadataManager (its classicGroup methods).
"""

from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import Uuid
from pykraft.coordinator.group import config as keys
from pykraft.coordinator.group.classic_groups.classic_group import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    answer_join,
    answer_sync,
    empty_record,
    refused_join,
)
from pykraft.coordinator.group.classic_groups.followed_writes import FirstRecord, LeadersAssignment, StaticReturn
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer, timer_key
from pykraft.protocol.messages.coordinators import CoordinatorRecord
from pykraft.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pykraft.protocol.messages.offsets import NO_MEMBER

NEW_MEMBER_TIMEOUT_MS = 300_000
_FIRST_MEMBER_ID_REQUIRED = 4

T = TypeVar("T")
Write = CoordinatorResult[None]
"""What a step of a group has to have written. Most steps have nothing, and return None."""


class ClassicGroups:
    """Handles the requests of classic members. Holds the groups together with the shard."""

    def __init__(
        self,
        *,
        groups: MutableMapping[str, Any],
        timer: CoordinatorTimer,
        config: Config,
        random: Random,
        time_ms: Callable[[], int],
    ) -> None:
        self._groups = groups
        self._timer = timer
        self._config = config
        self._random = random
        self._time_ms = time_ms

    def group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this name, if there is one."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _classic_groups(self) -> list[ClassicGroup]:
        return [each for each in self._groups.values() if isinstance(each, ClassicGroup)]

    def make(self, group_id: str) -> ClassicGroup:
        """A new, empty group."""
        group = self._groups[group_id] = ClassicGroup(group_id, self._time_ms())
        return group

    def on_loaded(self) -> None:
        """Sessions begin again: no record says how long a member has been silent."""
        for group in self._classic_groups():
            for member in group.members.values():
                self.expect_heartbeat(group, member)
            if len(group.members) > self.max_size:  # the limit is lower now: in a rebalance some find no room
                self.rebalance(group)

    def on_unloaded(self) -> None:
        """Answer all that wait: the coordinator is elsewhere."""
        for group in self._classic_groups():
            for member in group.members.values():
                answer_join(member, refused_join(member.member_id, ErrorCode.NOT_COORDINATOR))
                answer_sync(member, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))

    # --- a group changes its protocol ---------------------------------------------------------------------------------

    @property
    def max_size(self) -> int:
        """The most members of a classic group."""
        return self._config[keys.GROUP_MAX_SIZE]

    def dissolve(self, group: ClassicGroup) -> None:
        """A consumer group has taken this group's place. Members that wait here join that one."""
        for member in group.members.values():
            answer_join(member, refused_join(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
            answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        for member_id in (*group.members, *group.pending_members):  # in any order
            self._timer.cancel(heartbeat_key(group.group_id, member_id))
        self._timer.cancel(join_key(group.group_id))
        self._timer.cancel(sync_key(group.group_id))

    def adopt(self, group: ClassicGroup, must_rebalance: bool) -> None:
        """This group takes the place of a consumer group. No member has joined it yet, so a rebalance waits for all."""
        self._groups[group.group_id] = group
        for member in group.members.values():
            self.expect_heartbeat(group, member)
        if must_rebalance:
            self.rebalance(group)

    # --- join ---------------------------------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, version: int, client_id: str, client_host: str
    ) -> CoordinatorResult[JoinGroupResponse | Promise[JoinGroupResponse]]:
        """Let a member into the group. The response is a promise if it has to wait for the others."""
        answer: Promise[JoinGroupResponse] = Promise()
        before, group = self._groups.get(request.group_id), self.group(request.group_id)
        is_new = group is None
        tombstones: Sequence[CoordinatorRecord] = ()
        if group is None:
            assert before is None or before.is_empty, f"{request.group_id} has members that are not classic"
            if request.member_id != NO_MEMBER:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {request.group_id}")
            if before is not None:  # an empty consumer group makes room
                tombstones = before.tombstones()
            group = self.make(request.group_id)
        if not self._has_room(group, request.member_id):
            group.remove(request.member_id)
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{request.group_id} is full")
        member = _member(request, client_id, client_host)
        if request.member_id == NO_MEMBER:
            write = self._join_new(group, member, request, version, answer)
        else:
            write = self._join_known(group, member, request, answer)
        write = write or self._complete_join_if_all_are_there(group)
        if write is None and is_new:
            first = FirstRecord(self, self._groups, group, before, answer)
            records = [*tombstones, empty_record(group)]
            write = CoordinatorResult(None, records, first.on_written, first.on_end, is_replayed=False)
        return _answering(answer, write)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """While the members join again, those that have are counted: so those that come last are turned away if the
        limit was lowered."""
        most = self._config[keys.GROUP_MAX_SIZE]
        if group.state is ClassicState.PREPARING_REBALANCE:
            member = group.members.get(member_id)
            return (member is not None and member.joining is not None) or group.awaiting_join < most
        if group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return member_id in group.members or len(group.members) < most
        return True

    def _join_new(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroupRequest,
        version: int,
        answer: Promise[JoinGroupResponse],
    ) -> Write | None:
        """A member without an id."""
        if not group.supports(request.protocol_type, [name for name, _ in member.protocols]):
            answer.keep(refused_join(NO_MEMBER, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return None
        member.member_id = f"{member.instance_id or member.client_id}-{_random_id(self._random)}"
        if member.instance_id is not None:
            old_id = group.static_members.get(member.instance_id)
            if old_id is not None:
                return self._join_static_again(group, member, old_id, version, answer)
        elif version >= _FIRST_MEMBER_ID_REQUIRED:
            group.pending_members.add(member.member_id)
            self._schedule_expiry(group, member.member_id, member.session_timeout_ms)
            answer.keep(refused_join(member.member_id, ErrorCode.MEMBER_ID_REQUIRED))
            return None
        return self._add(group, member, request.protocol_type, answer)

    def _join_known(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroupRequest,
        answer: Promise[JoinGroupResponse],
    ) -> Write | None:
        """A member with an id: one that was just given it, or one that joins again."""
        if not group.supports(request.protocol_type, [name for name, _ in member.protocols]):
            answer.keep(refused_join(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return None
        if request.member_id in group.pending_members and member.instance_id is None:
            return self._add(group, member, request.protocol_type, answer)
        try:
            known = group.validate(request.member_id, request.group_instance_id)
        except KafkaError as error:
            answer.keep(refused_join(request.member_id, error.code))
            return None
        is_same = list(known.protocols) == list(member.protocols)
        if group.state is ClassicState.EMPTY:
            answer.keep(refused_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            return None
        # The answer to its last JoinGroup may have got lost; or a follower only wants to know. The leader joins again
        # to have a rebalance: something that it assigns by has changed.
        asks_again = group.state is ClassicState.COMPLETING_REBALANCE or (
            group.state is ClassicState.STABLE and group.leader_id != known.member_id
        )
        if asks_again and is_same:
            answer.keep(group.joined(known, group.leader_id))
            return None
        self._update(known, member, answer)
        return self._rebalance_if_possible(group)

    def _add(
        self, group: ClassicGroup, member: ClassicMember, protocol_type: str, answer: Promise[JoinGroupResponse]
    ) -> Write | None:
        member.is_new = True
        member.joining = answer
        if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
            group.new_member_added = True
        group.add(member, protocol_type)
        self._schedule_expiry(group, member.member_id, NEW_MEMBER_TIMEOUT_MS)
        return self._rebalance_if_possible(group)

    @staticmethod
    def _update(known: ClassicMember, joins: ClassicMember, answer: Promise[JoinGroupResponse]) -> None:
        known.protocols = joins.protocols
        known.rebalance_timeout_ms = joins.rebalance_timeout_ms
        known.session_timeout_ms = joins.session_timeout_ms
        if known.joining is not None:  # the same member on a new connection: it has given up the old one
            answer_join(known, refused_join(known.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
        known.joining = answer

    def _join_static_again(
        self,
        group: ClassicGroup,
        joins: ClassicMember,
        old_id: str,
        version: int,
        answer: Promise[JoinGroupResponse],
    ) -> Write | None:
        """A static member that was away. If the protocol stays, so does its assignment, without a rebalance."""
        assert joins.instance_id is not None
        leader_before = group.leader_id
        self._timer.cancel(heartbeat_key(group.group_id, old_id))
        member = group.replace_static(joins.instance_id, old_id, joins.member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._update(member, joins, answer)
        self.expect_heartbeat(group, member)
        if group.state is not ClassicState.STABLE or group.select_protocol() != group.protocol_name:
            can_begin = group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE)
            return self.rebalance(group) if can_begin else self._complete_join_if_all_are_there(group)

        back = StaticReturn(self, group, member, old_id, before, group.generation, leader_before, version)
        return CoordinatorResult(None, [group.record(group.assignments())], on_end=back.on_end, is_replayed=False)

    # --- a rebalance --------------------------------------------------------------------------------------------------

    def _rebalance_if_possible(self, group: ClassicGroup) -> Write | None:
        return self.rebalance(group) if group.can_rebalance else self._complete_join_if_all_are_there(group)

    def rebalance(self, group: ClassicGroup) -> Write | None:
        """Ask the members to join again."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            self.answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._timer.cancel(sync_key(group.group_id))
        is_first = group.is_empty
        group.move(ClassicState.PREPARING_REBALANCE, self._time_ms())
        if is_first:
            delay_ms = self._config[keys.GROUP_INITIAL_REBALANCE_DELAY_MS]
            self._delay_first_rebalance(group, delay_ms, max(0, group.rebalance_timeout_ms - delay_ms))
            return None
        if group.have_all_joined:
            return self._complete_join(group.group_id)
        self._schedule(
            join_key(group.group_id), group.rebalance_timeout_ms, partial(self._complete_join, group.group_id)
        )
        return None

    def _delay_first_rebalance(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def expire() -> Write | None:
            if self.group(group.group_id) is not group:
                return None
            if not group.new_member_added or not remaining_ms:
                return self._complete_join(group.group_id)
            group.new_member_added = False
            again_ms = min(self._config[keys.GROUP_INITIAL_REBALANCE_DELAY_MS], remaining_ms)
            self._delay_first_rebalance(group, again_ms, max(0, remaining_ms - delay_ms))
            return None

        self._schedule(join_key(group.group_id), delay_ms, expire)

    def _complete_join_if_all_are_there(self, group: ClassicGroup) -> Write | None:
        """Not in the first rebalance of a group that was empty, which ends with its delay."""
        is_first = group.previous_state is ClassicState.EMPTY
        is_due = group.state is ClassicState.PREPARING_REBALANCE and group.have_all_joined and not is_first
        return self._complete_join(group.group_id) if is_due else None

    def _complete_join(self, group_id: str) -> Write | None:
        """Begin a generation with the members that have joined, and the static ones that may still come."""
        group = self.group(group_id)
        self._timer.cancel(join_key(group_id))
        if group is None or group.state is not ClassicState.PREPARING_REBALANCE:
            return None
        for member in [each for each in group.members.values() if each.joining is None and not each.is_static]:
            group.remove(member.member_id)
            self._timer.cancel(heartbeat_key(group_id, member.member_id))
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has come back: until their sessions end they may. Not at once,
            # whatever they ask for: a timer that is always due would keep the node from everything else.
            pause_ms = max(1, group.rebalance_timeout_ms)
            self._schedule(join_key(group_id), pause_ms, partial(self._complete_join, group_id))
            return None
        group.begin_generation(self._time_ms())
        if group.is_empty:
            return CoordinatorResult(None, [group.record({})], is_replayed=False)
        for member in group.members.values():
            answer_join(member, group.joined(member, group.leader_id))
            self.expect_heartbeat(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        expire = partial(self._expire_sync, group_id, group.generation)
        self._schedule(sync_key(group_id), group.rebalance_timeout_ms, expire)
        return None

    def _expire_sync(self, group_id: str, generation: int) -> Write | None:
        """Remove the members that have not asked for their assignment."""
        group = self.group(group_id)
        is_over = group is None or group.generation != generation or not group.pending_sync
        if group is None or is_over or group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return None
        for member_id in sorted(group.pending_sync):
            group.remove(member_id)
            self._timer.cancel(heartbeat_key(group_id, member_id))
        return self.rebalance(group)

    # --- sync ---------------------------------------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest) -> CoordinatorResult[SyncGroupResponse | Promise[SyncGroupResponse]]:
        """Give a member its assignment; a promise while the leader has not assigned."""
        group = self.group(request.group_id)
        if group is None or group.state is ClassicState.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no member in {request.group_id}")
        member = _sender(group, request)
        named = request.protocol_type or group.protocol_type, request.protocol_name or group.protocol_name
        if named != (group.protocol_type, group.protocol_name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group's is {group.protocol_name}")
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._timer.cancel(sync_key(group.group_id))
        if group.state is ClassicState.STABLE:
            return CoordinatorResult(group.synced(member))
        answer: Promise[SyncGroupResponse] = Promise()
        answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        member.syncing = answer
        if group.leader_id != member.member_id:
            return CoordinatorResult(answer)
        assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
        written = LeadersAssignment(self, group, assignments, group.generation)
        return CoordinatorResult(answer, [group.record(assignments)], on_end=written.on_end, is_replayed=False)

    def answer_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        """A session may have run out while its member waited; it begins again with the answer."""
        for member in group.members.values():
            if answer_sync(member, group.synced(member, error)):
                self.expect_heartbeat(group, member)

    def settle(self, group: ClassicGroup) -> None:
        """The leader's assignment is committed: the members get their parts."""
        group.move(ClassicState.STABLE, self._time_ms())
        self.answer_syncs(group, ErrorCode.NONE)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Note that a member lives; REBALANCE_IN_PROGRESS tells it to join again."""
        group = self.group(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {request.group_id}")
        member = _sender(group, request)
        self.expect_heartbeat(group, member)
        is_rebalancing = group.state is ClassicState.PREPARING_REBALANCE
        return CoordinatorResult(
            HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE)
        )

    def refresh_session(self, group: ClassicGroup, member_id: str) -> None:
        """A commit of offsets is a sign of life, too."""
        member = group.members.get(member_id)
        if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            self.expect_heartbeat(group, member)

    def has_session(self, group_id: str, member_id: str) -> bool:
        """Whether the member is removed if it stays silent."""
        return self._timer.is_scheduled(heartbeat_key(group_id, member_id))

    def expect_heartbeat(self, group: ClassicGroup, member: ClassicMember) -> None:
        self._schedule_expiry(group, member.member_id, member.session_timeout_ms)

    def _schedule_expiry(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        key = heartbeat_key(group.group_id, member_id)
        self._schedule(key, timeout_ms, partial(self._expire_member, group.group_id, member_id))

    def _expire_member(self, group_id: str, member_id: str) -> Write | None:
        """A member, or an id that was given away, has been silent for too long."""
        group = self.group(group_id)
        if group is None:
            return None
        if member_id in group.pending_members:
            group.remove(member_id)
            return self._complete_join_if_all_are_there(group)
        member = group.members.get(member_id)
        if member is None or member.is_awaiting_answer:
            return None
        return self._remove(group, member)

    def _remove(self, group: ClassicGroup, member: ClassicMember) -> Write | None:
        """A new member may be gone while its JoinGroup waits: if it is not, it will join again."""
        self._dismiss(group, member)
        return self._after_removal(group)

    def _dismiss(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Take the member out of the group; its requests that wait are refused."""
        self._timer.cancel(heartbeat_key(group.group_id, member.member_id))
        answer_join(member, refused_join(NO_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID))
        answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    def _after_removal(self, group: ClassicGroup) -> Write | None:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            return self.rebalance(group)
        return self._complete_join_if_all_are_there(group)

    # --- leave --------------------------------------------------------------------------------------------------------

    def leave(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove members that say so, or that an administrator names."""
        group = self.group(request.group_id)
        leaving = request.members or [LeaveGroupRequest.Member(member_id=request.member_id)]
        if group is None:
            errors, write = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving), None
        else:
            errors = [self._leave(group, each) for each in leaving]
            write = self._after_removal(group) if ErrorCode.NONE in errors else None
        response = LeaveGroupResponse(
            error_code=errors[0] if not request.members else ErrorCode.NONE,
            members=[
                LeaveGroupResponse.Member(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error
                )
                for each, error in zip(leaving, errors, strict=True)
            ],
        )
        return _answering(response, write)

    def _leave(self, group: ClassicGroup, leaving: LeaveGroupRequest.Member) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == NO_MEMBER:
            member_id = group.static_members.get(leaving.group_instance_id or "", NO_MEMBER)
        if member_id in group.pending_members:
            group.remove(member_id)
            self._timer.cancel(heartbeat_key(group.group_id, member_id))
            return ErrorCode.NONE
        try:
            member = group.validate(member_id, leaving.group_instance_id)
        except KafkaError as error:
            return error.code
        self._dismiss(group, member)
        return ErrorCode.NONE

    def _schedule(self, key: str, delay_ms: int, step: Callable[[], Write | None]) -> None:
        self._timer.schedule(key, delay_ms, lambda _: step() or CoordinatorResult(None))


def _answering(response: T, write: Write | None) -> CoordinatorResult[T]:
    """This response, once what there is to write is committed."""
    return CoordinatorResult(response) if write is None else write.answering(response)


def _member(request: JoinGroupRequest, client_id: str, client_host: str) -> ClassicMember:
    is_old = request.rebalance_timeout_ms < 0
    return ClassicMember(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=request.session_timeout_ms if is_old else request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=[(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols],
    )


def _sender(group: ClassicGroup, request: SyncGroupRequest | HeartbeatRequest) -> ClassicMember:
    """The member that sent the request. KafkaError if it is none, or not of this generation."""
    member = group.validate(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"the generation is {group.generation}")
    return member


def _random_id(random: Random) -> str:
    """As Java writes a random UUID."""
    digits = bytes(Uuid.random(random)).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def heartbeat_key(group_id: str, member_id: str) -> str:
    return timer_key("heartbeat", group_id, member_id)


def join_key(group_id: str) -> str:
    return timer_key("join", group_id)


def sync_key(group_id: str) -> str:
    return timer_key("sync", group_id)
