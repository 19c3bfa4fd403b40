"""A member of a consumer group (KIP-848): it joins, reports and leaves with one request, ConsumerGroupHeartbeat.

The coordinator assigns the partitions, and tells each member its part in the answer to a heartbeat. No member waits for
another; instead of generations, each has a *member epoch* of its own, which grows as it follows the assignment::

    UNSUBSCRIBED --> JOINING --> RECONCILING --> ACKNOWLEDGING --> STABLE --> RECONCILING --> ...
                     epoch 0     give up, then   a heartbeat says  heartbeats
                                 take over       what is owned     go on

A heartbeat that joins says everything: subscription, assignor, rebalance timeout, owned partitions (none). Later ones
only say what has changed since the last that was answered; after an error everything is said again. The coordinator
chooses the interval. A change of the subscription waits for it; to join, and to acknowledge, the member does not wait.

A member that the coordinator does not know, or whose epoch it does not accept, is FENCED: it gives up its partitions
and joins again with epoch 0. One whose user does not call `poll()` for ``max.poll.interval.ms`` leaves by itself and is
STALE until the next `poll()`. A member leaves with epoch -1; a static one, which may come back, with -2. An error that
another heartbeat would not cure is FATAL.

The id is the member's own, and stays the same for the life of the consumer (version 1; for version 0 too). What becomes
of an assignment on the user's thread, `Reconciliation` says.

Follows org.apache.kafka.clients.consumer.internals.{ConsumerMembershipManager,AbstractMembershipManager,
ConsumerHeartbeatRequestManager,AbstractHeartbeatRequestManager}. One difference: the pause after an error also holds
for heartbeats that join or acknowledge.
"""

from collections.abc import Mapping
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver, ApiHandler
from pykraft.client.consuming.membership import CHANNEL, Generation, MembershipBasis
from pykraft.client.consuming.subscription import SubscriptionPattern, SubscriptionState
from pykraft.client.errors import CommitFailedError, FencedInstanceIdError
from pykraft.common.core import FOREVER, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import Uuid
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
_WITH_PATTERN = 1
"""The first version of ConsumerGroupHeartbeat that has a field for a pattern."""


class MembershipState(Enum):
    """How far the member is on its way to its assignment."""

    UNSUBSCRIBED = "no member: it has not joined, or has left"
    JOINING = "heartbeats with epoch 0"
    RECONCILING = "its partitions are not those that it was assigned"
    ACKNOWLEDGING = "the next heartbeat says that they are"
    STABLE = "it owns what it was assigned"
    FENCED = "removed: it gives up its partitions, then joins again"
    FATAL = "an error ended the membership for good"
    PREPARE_LEAVING = "the user's listener is called before it leaves"
    LEAVING = "the next heartbeat says that it leaves"
    STALE = "it left because its user does not poll"


_BEFORE = {
    MembershipState.STABLE: "JOINING ACKNOWLEDGING RECONCILING",
    MembershipState.RECONCILING: "STABLE JOINING ACKNOWLEDGING RECONCILING",
    MembershipState.ACKNOWLEDGING: "RECONCILING",
    MembershipState.FATAL: "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING UNSUBSCRIBED",
    MembershipState.FENCED: "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING",
    MembershipState.JOINING: "FENCED UNSUBSCRIBED STALE",
    MembershipState.PREPARE_LEAVING: "JOINING STABLE RECONCILING ACKNOWLEDGING UNSUBSCRIBED",
    MembershipState.LEAVING: "PREPARE_LEAVING",
    MembershipState.UNSUBSCRIBED: "PREPARE_LEAVING LEAVING FENCED",
    MembershipState.STALE: "LEAVING",
}
TRANSITIONS = frozenset((MembershipState[name], after) for after, names in _BEFORE.items() for name in names.split())

_OUTSIDE = (MembershipState.UNSUBSCRIBED, MembershipState.FENCED, MembershipState.FATAL, MembershipState.STALE)
_AT_ONCE = (MembershipState.JOINING, MembershipState.ACKNOWLEDGING)
"""The member sends a heartbeat without waiting for the interval."""


class LocalAssignment(NamedTuple):
    """Partitions by topic id. The epoch is the member's own count of assignments: one that comes a second time, after
    another, is a new one. -1: there is none."""

    epoch: int = -1
    partitions: Mapping[Uuid, tuple[int, ...]] = {}

    def updated(self, partitions: Mapping[Uuid, tuple[int, ...]]) -> "LocalAssignment":
        if self.epoch >= 0 and partitions == self.partitions:
            return self
        return LocalAssignment(self.epoch + 1, partitions)


class _Fields(NamedTuple):
    """What a heartbeat says only when it has changed."""

    topics: frozenset[str]
    pattern: SubscriptionPattern | None
    assignment: LocalAssignment


class ConsumerMembership(MembershipBasis):
    """One member of one consumer group. It is a RequestManager, whose requests the `ApiDriver` sends, and a
    `Membership`."""

    def __init__(self, config: Config, subscription: SubscriptionState, driver: ApiDriver, random: Random) -> None:
        self.group_id: str = config[keys.GROUP_ID]
        self.instance_id: str | None = config[keys.GROUP_INSTANCE_ID] or None
        self._rack: str | None = config[keys.CLIENT_RACK] or None
        self._assignor: str | None = config[keys.GROUP_REMOTE_ASSIGNOR] or None
        self._max_poll_interval_ms: int = config[keys.MAX_POLL_INTERVAL_MS]
        self._request_timeout_ms: int = config[keys.REQUEST_TIMEOUT_MS]
        self._backoff_ms: int = config[keys.RETRY_BACKOFF_MS]
        self._backoff_max_ms: int = config[keys.RETRY_BACKOFF_MAX_MS]
        self._subscription = subscription
        self._driver = driver
        self.member_id = str(Uuid.random(random))
        self.epoch = JOIN_EPOCH
        self.state = MembershipState.UNSUBSCRIBED
        self.target = LocalAssignment()
        """What the coordinator assigned."""
        self.current = LocalAssignment()
        """What the member owns, as far as it was reconciled."""
        super().__init__()
        self._heartbeat: Promise[Any] | None = None
        self._built = _Fields(frozenset(), None, LocalAssignment())
        """What the heartbeat under way says, or would say."""
        self._answered: _Fields | None = None
        """What the coordinator knows; None: say everything."""
        self._interval_ms = 0
        self._failures = 0
        """How often the heartbeat has failed in a row."""
        self._heartbeat_at: int | None = None
        """None: one pause after the next poll."""

    # --- what the consumer asks, and says -----------------------------------------------------------------------------

    @property
    def generation(self) -> Generation:
        return Generation(self.epoch, self.member_id) if self.epoch > 0 else Generation()

    @property
    def may_have_lost(self) -> bool:
        return self.epoch <= 0

    def join(self) -> None:
        """Join, or join again: the member owns nothing."""
        self._move(MembershipState.JOINING)
        self._abandon()
        self.epoch = JOIN_EPOCH
        self.target = self.current = LocalAssignment()
        self._failures = 0

    def acknowledge(self, reconciled: LocalAssignment) -> None:
        """The member owns these partitions now."""
        self.current = reconciled
        self._move(MembershipState.ACKNOWLEDGING)

    def prepare_leave(self) -> None:
        if self.state not in (*_OUTSIDE, MembershipState.PREPARE_LEAVING):
            self._move(MembershipState.PREPARE_LEAVING)

    def leave(self, reason: str, deadline: int) -> "Promise[Any]":
        """Leave the group; a coordinator that is not known is not looked up for that. (The protocol has no place for
        the reason.)"""
        if self.state is MembershipState.FENCED:
            self._move(MembershipState.UNSUBSCRIBED)
        if self.state in _OUTSIDE:
            return Promise.of(None)
        self.prepare_leave()
        left = self._send_leave(deadline)
        self._move(MembershipState.UNSUBSCRIBED)
        return left

    # --- commits ------------------------------------------------------------------------------------------------------

    def commit_generation(self) -> Generation | KafkaError:
        """A member may always commit, also while it reconciles."""
        return CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID) if self.epoch <= 0 else self.generation

    def renewed(self, generation: Generation) -> Generation:
        """The newest epoch. The coordinator refuses a commit without one while the group has members."""
        return self.generation if generation.member_id else generation

    def fetch_generation(self) -> Generation:
        return self.generation

    def commit_refused(self, error: KafkaError, generation: Generation, is_member: bool) -> KafkaError | None:
        """Whether the member is still one, the next heartbeat says."""
        match error.code:
            case ErrorCode.FENCED_INSTANCE_ID:
                return FencedInstanceIdError(self.instance_id)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.STALE_MEMBER_EPOCH:
                return CommitFailedError(error.code)
        return None

    # --- time ---------------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Send a heartbeat when it is due; leave when the user has stopped polling."""
        if self.state in _OUTSIDE:
            return Poll()
        if self._polled_at is None:
            self._polled_at = now
        must_poll_by = self._polled_at + self._max_poll_interval_ms
        if self.state is MembershipState.PREPARE_LEAVING:
            must_poll_by = FOREVER
        elif now >= must_poll_by:
            self._become_stale(now)
            return Poll(now)
        if self._heartbeat is not None:
            return Poll(must_poll_by)
        if self._heartbeat_at is None:
            self._heartbeat_at = now + self._pause_ms()
        if now >= self._heartbeat_at or (self.state in _AT_ONCE and not self._failures):
            self._send_heartbeat(now)
            return Poll(must_poll_by)
        return Poll(min(must_poll_by, self._heartbeat_at))

    def _pause_ms(self) -> int:
        if not self._failures:
            return self._interval_ms
        doublings = min(self._failures - 1, 30)
        return min(self._backoff_max_ms, self._backoff_ms << doublings)

    def _become_stale(self, now: int) -> None:
        self._move(MembershipState.PREPARE_LEAVING)
        self._send_leave(now + self._request_timeout_ms)
        self._move(MembershipState.STALE)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def _send_heartbeat(self, now: int) -> None:
        self._heartbeat_at = now + self._interval_ms
        self._heartbeat = self._ask("{}: the heartbeat was not answered", self._request, FOREVER)
        if self.state is MembershipState.ACKNOWLEDGING:
            is_done = self.current == self.target
            self._move(MembershipState.STABLE if is_done else MembershipState.RECONCILING)
        self._heartbeat.then(self._on_heartbeat)

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        """Everything if the coordinator knows nothing, else what has changed. It is built when it is sent: to look up
        the coordinator may have taken long."""
        before = None if self.state is MembershipState.JOINING else self._answered
        subscription = self._subscription
        fields = self._built = _Fields(subscription.topics, subscription.coordinator_pattern, self.current)
        is_full = before is None
        is_new_pattern = fields.pattern is not None and (before is None or fields.pattern != before.pattern)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rack_id=self._rack if is_full else None,
            rebalance_timeout_ms=self._max_poll_interval_ms if is_full else -1,
            subscribed_topic_names=sorted(fields.topics) if before is None or fields.topics != before.topics else None,
            subscribed_topic_regex=fields.pattern.pattern if fields.pattern is not None and is_new_pattern else None,
            server_assignor=self._assignor if is_full else None,
            topic_partitions=_owned(fields.assignment)
            if before is None or fields.assignment != before.assignment
            else None,
        )
        return request if fields.pattern is None else request.at_least(_WITH_PATTERN)

    def _on_heartbeat(self, answer: "dict[str, ConsumerGroupHeartbeatResponse] | KafkaError") -> None:
        self._heartbeat = None
        if isinstance(answer, KafkaError):
            self._on_error(answer)
            return
        response = answer[self.group_id]
        self._answered = self._built
        if self._failures or response.heartbeat_interval_ms != self._interval_ms:
            self._failures = 0
            self._interval_ms = response.heartbeat_interval_ms
            self._heartbeat_at = None
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        if response.assignment is not None and self.state is not MembershipState.PREPARE_LEAVING:
            parts = response.assignment.topic_partitions
            self._on_assignment({part.topic_id: tuple(sorted(part.partitions)) for part in parts})

    def _on_assignment(self, partitions: Mapping[Uuid, tuple[int, ...]]) -> None:
        self.target = self.target.updated(partitions)
        if self.target != self.current:
            self._move(MembershipState.RECONCILING)
        elif self.state in (MembershipState.RECONCILING, MembershipState.JOINING):
            self._move(MembershipState.STABLE)

    def _on_error(self, error: KafkaError) -> None:
        self._answered = None
        self._heartbeat_at = None
        if error.retriable:
            self._failures += 1
        elif error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            is_leaving = self.state is MembershipState.PREPARE_LEAVING
            self._move(MembershipState.UNSUBSCRIBED if is_leaving else MembershipState.FENCED)
            self.epoch = JOIN_EPOCH
        else:
            self._move(MembershipState.FATAL)
            self.epoch = JOIN_EPOCH
            self._error = _explained(error)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _send_leave(self, deadline: int) -> "Promise[Any]":
        """From PREPARE_LEAVING: send the last heartbeat, if the coordinator is known."""
        self._move(MembershipState.LEAVING)
        self._abandon()
        self.epoch = LEAVE_EPOCH if self.instance_id is None else STATIC_LEAVE_EPOCH
        self.current = self.target = LocalAssignment()
        if self._driver.group_coordinators.node_of(self.group_id) is None:
            return Promise.of(None)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        return self._ask("{}: the group was not left", lambda: request, deadline)

    def _abandon(self) -> None:
        """What is under way counts no more."""
        if self._heartbeat is not None:
            self._heartbeat.abandon()
        self._heartbeat = self._heartbeat_at = self._answered = None

    def _move(self, state: MembershipState) -> None:
        assert (self.state, state) in TRANSITIONS, f"a member went from {self.state} to {state}"
        self.state = state

    def _ask(self, what: str, request: Any, deadline: int) -> "Promise[Any]":
        """Ask the coordinator once; it is looked up if need be."""
        handler = ApiHandler(
            what=what,
            lookup=self._driver.group_coordinators,
            request=lambda asked: request(),
            read=lambda asked, response: [(self.group_id, _checked(response))],
            channel=CHANNEL,
            is_retried=False,
        )
        return self._driver.ask_all(handler, [self.group_id], deadline)


def _owned(assignment: LocalAssignment) -> list[OwnedPartitions]:
    return [
        OwnedPartitions(topic_id=topic_id, partitions=assignment.partitions[topic_id])
        for topic_id in sorted(assignment.partitions)
    ]


def _checked(response: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse | KafkaError:
    error = ErrorCode.of(response.error_code)
    return response if error is ErrorCode.NONE else KafkaError(error, response.error_message or error.text)


def _explained(error: KafkaError) -> KafkaError:
    if error.code is not ErrorCode.UNSUPPORTED_VERSION:
        return error
    detail = (
        "the cluster does not support the consumer group protocol, or no SubscriptionPattern in it. Set "
        "group.protocol=classic until it does"
    )
    return KafkaError(error.code, detail)
