"""A member of a classic consumer group: it joins, shows that it is alive, and leaves.

The group's coordinator, a broker, counts *generations*. Each begins with a rebalance of two rounds::

    UNJOINED --> PREPARING_REBALANCE --> COMPLETING_REBALANCE --> STABLE --> PREPARING_REBALANCE --> ...
                 JoinGroup sent          SyncGroup sent           heartbeats

* JoinGroup says what the member subscribes to, once for each assignor that it offers. The coordinator answers when all
  members have joined, names the new generation and the assignor that all members offer, and makes one member the
  leader. A new member is answered MEMBER_ID_REQUIRED first, and joins again with the id it got (KIP-394).
* SyncGroup brings the leader's assignment to the coordinator, and each member its own part.

Heartbeats go on from then, also while the member prepares to join again. They tell the member that a rebalance began
(REBALANCE_IN_PROGRESS), or that it was removed (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION). A member whose user does not
call `poll()` for ``max.poll.interval.ms`` leaves by itself, so that others get its partitions. A *static* member has a
``group.instance.id`` and never leaves: its place stays reserved for the session timeout (KIP-345).

This core speaks the protocol. What the member subscribes to, and what becomes of an assignment, its `Participant` says.
JoinGroup and SyncGroup may wait long at the broker; they have a connection of their own.

Follows org.apache.kafka.clients.consumer.internals.AbstractCoordinator.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver, ApiHandler
from pykraft.client.errors import CommitFailedError, FencedInstanceIdError, RebalanceInProgressError
from pykraft.common.core import FOREVER, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
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
from pykraft.protocol.messages.offsets import NO_GENERATION, NO_MEMBER
from pykraft.protocol.schema import Request

CHANNEL = "coordinator"
JOIN_CHANNEL = "join"
PROTOCOL_TYPE = "consumer"
_JOIN_LAPSE_MS = 5000
"""A JoinGroup is waited for this much longer than the rebalance may take."""


class MemberState(Enum):
    """How far the member is on its way into a generation."""

    UNJOINED = "no member, or removed: it must begin again"
    PREPARING_REBALANCE = "JoinGroup was sent"
    COMPLETING_REBALANCE = "JoinGroup is answered, SyncGroup is not"
    STABLE = "a member of the current generation"


TRANSITIONS = frozenset(
    [
        (MemberState.UNJOINED, MemberState.UNJOINED),
        (MemberState.UNJOINED, MemberState.PREPARING_REBALANCE),
        (MemberState.PREPARING_REBALANCE, MemberState.PREPARING_REBALANCE),
        (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE),
        (MemberState.PREPARING_REBALANCE, MemberState.UNJOINED),
        (MemberState.COMPLETING_REBALANCE, MemberState.STABLE),
        (MemberState.COMPLETING_REBALANCE, MemberState.PREPARING_REBALANCE),
        (MemberState.COMPLETING_REBALANCE, MemberState.UNJOINED),
        (MemberState.STABLE, MemberState.PREPARING_REBALANCE),
        (MemberState.STABLE, MemberState.UNJOINED),
    ]
)


class Generation(NamedTuple):
    """In which generation, and as which member, this consumer takes part."""

    id: int = NO_GENERATION
    member_id: str = NO_MEMBER
    assignor: str | None = None

    @property
    def is_lost(self) -> bool:
        """It is no member of any generation: what it owned, others may own by now."""
        return self.id == NO_GENERATION or self.member_id == NO_MEMBER


class Membership(Protocol):
    """What commits and the user need to know of a membership. `ClassicMembership` is one, `ConsumerMembership` the
    other. The interface is ours: Kafka has a consumer class for each protocol."""

    group_id: str
    instance_id: str | None

    @property
    def generation(self) -> Generation:
        """In a consumer group, the member epoch and the member id."""
        ...

    @property
    def has_error(self) -> bool: ...

    @property
    def may_have_lost(self) -> bool:
        """Other members may own this one's partitions by now."""
        ...

    def raise_error(self) -> None:
        """Raise what ended the membership, once."""
        ...

    def user_polled(self, now: int) -> None:
        """The user has called `poll()`."""
        ...

    def prepare_leave(self) -> None:
        """The user's listener is called next, then `leave`."""
        ...

    def leave(self, reason: str, deadline: int) -> "Promise[Any]":
        """Leave the group; the promise is kept when the coordinator has answered."""
        ...

    def poll(self, now: int) -> Poll: ...

    def commit_generation(self) -> "Generation | KafkaError":
        """Under which generation to commit, or why the member may not."""
        ...

    def renewed(self, generation: Generation) -> Generation:
        """The generation for another attempt of a commit that began under `generation`."""
        ...

    def fetch_generation(self) -> Generation:
        """Under which generation to look up committed offsets."""
        ...

    def commit_refused(self, error: KafkaError, generation: Generation, is_member: bool) -> KafkaError | None:
        """What the user hears when the coordinator refused a commit of this generation with `error`. None if the error
        says nothing about the membership."""
        ...


class MembershipBasis:
    """What the members of both protocols keep: the error that ended the membership, and when the user polled last."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None
        self._polled_at: int | None = None

    @property
    def has_error(self) -> bool:
        return self._error is not None

    def raise_error(self) -> None:
        """Raise what ended the membership, once; afterwards the member may join again."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def user_polled(self, now: int) -> None:
        """The user has called `poll()`: it is still reading."""
        self._polled_at = now


class Participant(Protocol):
    """The consumer that takes part as this member."""

    def protocols(self) -> Sequence[JoinGroupRequest.Protocol]:
        """Each assignor on offer, with what it needs to know of this member."""
        ...

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes] | None:
        """This member leads: the assignment of each member. None while the metadata lack a topic; then `assign` is
        called again."""
        ...


class ClassicMembership(MembershipBasis):
    """One member of one classic group. It is a RequestManager, whose requests the `ApiDriver` sends."""

    def __init__(self, config: Config, driver: ApiDriver, participant: Participant) -> None:
        self.group_id: str = config[keys.GROUP_ID]
        self.instance_id: str | None = config[keys.GROUP_INSTANCE_ID] or None
        self._session_timeout_ms: int = config[keys.SESSION_TIMEOUT_MS]
        self._heartbeat_interval_ms: int = config[keys.HEARTBEAT_INTERVAL_MS]
        self._max_poll_interval_ms: int = config[keys.MAX_POLL_INTERVAL_MS]
        self._request_timeout_ms: int = config[keys.REQUEST_TIMEOUT_MS]
        self._driver = driver
        self._participant = participant
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.rejoin_reason: str | None = "the consumer is new"
        """Why the member must join (again); None while it need not. The coordinator's journal shows it (KIP-800)."""
        self.assignment: bytes | None = None
        """What SyncGroup brought. The participant takes it away when it has carried it out."""
        super().__init__()
        self._rebalance: Promise[Any] | None = None
        self._heartbeat: Promise[Any] | None = None
        self._elected: JoinGroupResponse | None = None
        """The answer that made this member the leader, until its assignment is sent."""
        self._heartbeat_at: int | None = None
        """None: one interval after the next poll."""

    # --- what the participant calls -----------------------------------------------------------------------------------

    @property
    def may_join(self) -> bool:
        """No rebalance is under way: the participant may prepare one, and call `join`."""
        return self.state in (MemberState.UNJOINED, MemberState.STABLE) and self._error is None

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def may_have_lost(self) -> bool:
        return self.generation.is_lost or self.is_rebalancing

    def prepare_leave(self) -> None:
        """Nothing to do: heartbeats go on until `leave`."""

    def request_rejoin(self, reason: str) -> None:
        """Join again as soon as the participant has prepared it."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def join(self) -> None:
        """Join: what had to be given up before, was."""
        self._move(MemberState.PREPARING_REBALANCE)
        self._abandon()
        self.assignment = None
        timeout_ms = max(self._request_timeout_ms, self._max_poll_interval_ms + _JOIN_LAPSE_MS)
        self._rebalance = self._ask("{}: the group was not joined", self._join_request, _joined, timeout_ms)
        self._rebalance.then(self._on_joined)

    def leave(self, reason: str, deadline: int) -> "Promise[Any]":
        """Leave the group, if this is a dynamic member that its coordinator knows; whether it has heard, the promise
        says. In any case nothing is left of the membership here."""
        left: Promise[Any] = Promise.of(None)
        is_known = self.state is not MemberState.UNJOINED and self.generation.member_id != NO_MEMBER
        if self.instance_id is None and is_known and self._driver.group_coordinators.node_of(self.group_id) is not None:
            left = self._ask_to_leave(reason, deadline)
        self._reset(reason, True)
        return left

    # --- commits ------------------------------------------------------------------------------------------------------

    def commit_generation(self) -> Generation | KafkaError:
        if self.state is MemberState.STABLE:
            return self.generation
        if self.is_rebalancing:
            return RebalanceInProgressError()
        return CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID)

    def renewed(self, generation: Generation) -> Generation:
        """A commit belongs to the generation in which it began."""
        return generation

    def fetch_generation(self) -> Generation:
        """No generation: the coordinator lets any client look up a classic group's offsets."""
        return Generation()

    def commit_refused(self, error: KafkaError, generation: Generation, is_member: bool) -> KafkaError | None:
        """A member that was removed must begin again."""
        is_current = self.generation == generation
        match error.code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.request_rejoin("offset commit failed since group is already rebalancing")
                return RebalanceInProgressError()
            case ErrorCode.FENCED_INSTANCE_ID if is_current:
                return FencedInstanceIdError(self.instance_id)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION | ErrorCode.FENCED_INSTANCE_ID:
                if not is_current and self.state is MemberState.PREPARING_REBALANCE:
                    return RebalanceInProgressError()
                if is_current and is_member:
                    self.lost(error)
                return CommitFailedError(error.code)
        return None

    # --- time ---------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Send a heartbeat when it is due; leave when the user has stopped polling."""
        if self._elected is not None:
            self._sync_as_leader(self._elected)
        if self.state not in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE):
            return Poll()
        if self._polled_at is None:
            self._polled_at = now
        if self._heartbeat_at is None:
            self._heartbeat_at = now + self._heartbeat_interval_ms
        must_poll_by = self._polled_at + self._max_poll_interval_ms
        if now >= must_poll_by:
            self.leave("consumer poll timeout has expired.", now + self._request_timeout_ms)
            return Poll(now)
        if self._heartbeat is None and now >= self._heartbeat_at:
            self._send_heartbeat()
            self._heartbeat_at = now + self._heartbeat_interval_ms
        return Poll(min(must_poll_by, self._heartbeat_at if self._heartbeat is None else FOREVER))

    def _send_heartbeat(self) -> None:
        def request() -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.generation.id,
                member_id=self.generation.member_id,
                group_instance_id=self.instance_id,
            )

        # After a session without an answer another broker may be the coordinator: the driver looks it up.
        timeout_ms = min(self._request_timeout_ms, self._session_timeout_ms)
        self._heartbeat = self._ask("{}: the heartbeat was not answered", request, _checked, timeout_ms, CHANNEL)
        self._heartbeat.then(self._on_heartbeat)

    def _on_heartbeat(self, answer: object) -> None:
        self._heartbeat = None
        if not isinstance(answer, KafkaError):
            return
        if answer.code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing")
        elif not self.lost(answer):
            self._error = answer

    def lost(self, error: KafkaError) -> bool:
        """The coordinator refused this member: begin again if the error says that the member was removed. Returns
        whether it does."""
        if error.code not in _REMOVED:
            return False
        self._reset(f"the coordinator answered {error.code.name}", error.code is not ErrorCode.ILLEGAL_GENERATION)
        if error.code is ErrorCode.FENCED_INSTANCE_ID:
            self._error = error
        return True

    # --- the two rounds -----------------------------------------------------------------------------------------------

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._max_poll_interval_ms,
            member_id=self.generation.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._participant.protocols(),
            reason=self.rejoin_reason,
        )

    def _on_joined(self, answer: "dict[str, JoinGroupResponse] | KafkaError") -> None:
        self._rebalance = None
        if isinstance(answer, KafkaError):
            self._on_failed_rebalance(answer)
            return
        joined = answer[self.group_id]
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=joined.member_id)
            self.join()
            return
        self._move(MemberState.COMPLETING_REBALANCE)
        self.generation = Generation(joined.generation_id, joined.member_id, joined.protocol_name)
        self._heartbeat_at = None
        if joined.leader == joined.member_id:
            self._elected = joined
            self._sync_as_leader(joined)
        else:
            self._sync({})

    def _sync_as_leader(self, joined: JoinGroupResponse) -> None:
        try:
            assignments = self._participant.assign(joined)
        except KafkaError as error:
            self._on_failed_rebalance(error)
            return
        if assignments is not None:
            self._elected = None
            self._sync(assignments)

    def _sync(self, assignments: Mapping[str, bytes]) -> None:
        def request() -> SyncGroupRequest:
            return SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation.id,
                member_id=self.generation.member_id,
                group_instance_id=self.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=self.generation.assignor,
                assignments=[
                    SyncGroupRequest.Assignment(member_id=member, assignment=assignments[member])
                    for member in sorted(assignments)
                ],
            )

        timeout_ms = max(self._request_timeout_ms, self._max_poll_interval_ms + _JOIN_LAPSE_MS)
        self._rebalance = self._ask("{}: the assignment was not answered", request, _checked, timeout_ms)
        self._rebalance.then(self._on_synced)

    def _on_synced(self, answer: "dict[str, SyncGroupResponse] | KafkaError") -> None:
        self._rebalance = None
        if isinstance(answer, KafkaError):
            self._on_failed_rebalance(answer)
            return
        synced = answer[self.group_id]
        if synced.protocol_name not in (None, self.generation.assignor):
            detail = f"{self.group_id}: SyncGroup names {synced.protocol_name}, JoinGroup {self.generation.assignor}"
            self._on_failed_rebalance(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
            return
        self._move(MemberState.STABLE)
        self.rejoin_reason = None
        self.assignment = bytes(synced.assignment)

    def _on_failed_rebalance(self, error: KafkaError) -> None:
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin_reason = "rebalance failed due to RebalanceInProgressException"
            self.join()
        elif not self.lost(error):
            self._reset(f"rebalance failed due to {error.code.name}", False)
            self._error = error

    # --- the end ------------------------------------------------------------------------------------------------------

    def _ask_to_leave(self, reason: str, deadline: int) -> "Promise[Any]":
        member_id = self.generation.member_id

        def request() -> LeaveGroupRequest:
            member = LeaveGroupRequest.Member(member_id=member_id, reason=reason)
            return LeaveGroupRequest(group_id=self.group_id, member_id=member_id, members=[member])

        what = "{}: the group was not left"
        return self._ask(what, request, _left, None, CHANNEL, deadline, is_retried=False)

    def _reset(self, reason: str, with_member_id: bool) -> None:
        """Be no member any more; what was under way counts no more."""
        self._move(MemberState.UNJOINED)
        self._abandon()
        self.generation = Generation() if with_member_id else Generation(member_id=self.generation.member_id)
        self.assignment = None
        self.rejoin_reason = reason

    def _abandon(self) -> None:
        for promise in (self._rebalance, self._heartbeat):
            if promise is not None:
                promise.abandon()
        self._rebalance = self._heartbeat = self._elected = None

    def _move(self, state: MemberState) -> None:
        assert (self.state, state) in TRANSITIONS, f"a member went from {self.state} to {state}"
        self.state = state

    def _ask(
        self,
        what: str,
        request: Callable[[], Request],
        read: Callable[[Any], Any],
        timeout_ms: int | None,
        channel: str = JOIN_CHANNEL,
        deadline: int = FOREVER,
        is_retried: bool = True,
    ) -> "Promise[Any]":
        """Ask the coordinator, which is looked up if need be; again after errors that may pass."""
        handler = ApiHandler(
            what=what,
            lookup=self._driver.group_coordinators,
            request=lambda asked: request(),
            read=lambda asked, response: [(self.group_id, read(response))],
            channel=channel,
            timeout_ms=timeout_ms,
            is_retried=is_retried,
        )
        return self._driver.ask_all(handler, [self.group_id], deadline)


_REMOVED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)


def _joined(response: JoinGroupResponse) -> JoinGroupResponse | KafkaError:
    """The error of a new member is an answer: it brings the member's id."""
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return response
    if response.error_code == ErrorCode.NONE and response.protocol_type not in (None, PROTOCOL_TYPE):
        detail = f"this is a group of the type {response.protocol_type}, not {PROTOCOL_TYPE}"
        return KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
    found: JoinGroupResponse | KafkaError = _checked(response)
    return found


def _checked(response: JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse) -> Any:
    error = ErrorCode.of(response.error_code)
    return response if error is ErrorCode.NONE else KafkaError(error, error.text)


def _left(response: LeaveGroupResponse) -> Any:
    for member in response.members:
        if member.error_code:
            error = ErrorCode.of(member.error_code)
            return KafkaError(error, error.text)
    return _checked(response)
