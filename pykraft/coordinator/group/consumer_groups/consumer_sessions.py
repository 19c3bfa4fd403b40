"""How long a consumer group waits for its members.

Each heartbeat restarts its member's session. The coordinator removes a member without a heartbeat for a whole session
timeout. It also removes a member that has partitions to revoke and is in the same epoch after its rebalance timeout,
because others wait for those partitions.

A member that speaks the classic protocol says itself how long its session is. It revokes by joining again, so in the
place of the rebalance timeout it has two others, both as long::

    join    from the first REBALANCE_IN_PROGRESS that it gets, until it joins again
    sync    from its JoinGroup until its SyncGroup

All timers are soft: a coordinator that loads the group starts the first two again, with the whole timeout.

Follows org.apache.kafka.coordinator.group.GroupMetadataManager.{scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout,scheduleConsumerGroupJoinTimeoutIfAbsent,scheduleConsumerGroupSyncTimeout}.
"""

from collections.abc import Callable

from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import ConsumerGroupMember, MemberState
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer, timer_key

Remove = Callable[[ConsumerGroup, ConsumerGroupMember], CoordinatorResult[None]]


class MemberSessions:
    """The timers of a shard's consumer groups."""

    def __init__(
        self,
        timer: CoordinatorTimer,
        config_of: Callable[[str], ConsumerGroupConfig],
        find_group: Callable[[str], ConsumerGroup | None],
        remove: Remove,
    ) -> None:
        """`remove` plans the removal of a member whose time is over."""
        self._timer = timer
        self._config_of = config_of
        self._find_group = find_group
        self._plan_removal = remove

    def start(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """Restart the member's session: a heartbeat came. The group's timeout holds unless the member has its own."""
        if timeout_ms is None:
            timeout_ms = self._config_of(group_id).session_timeout_ms
        key = session_key(group_id, member_id)
        self._timer.schedule(key, timeout_ms, lambda now: self._remove(group_id, member_id))

    def is_running(self, group_id: str, member_id: str) -> bool:
        """Whether the member's session ends by itself."""
        return self._timer.is_scheduled(session_key(group_id, member_id))

    def watch_rebalance(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Start the rebalance timeout of a member that must revoke partitions, and cancel that of any other."""
        key = rebalance_key(group_id, member.member_id)
        if member.state != MemberState.UNREVOKED_PARTITIONS:
            self._timer.cancel(key)
            return
        self._timer.schedule(
            key,
            member.rebalance_timeout_ms,
            lambda now: self._remove(group_id, member.member_id, only_in_epoch=member.member_epoch),
        )

    def expect_join(self, group_id: str, member: ConsumerGroupMember) -> None:
        """An answer has asked the classic member to join again. Only the first time counts."""
        key = _join_key(group_id, member.member_id)
        if not self._timer.is_scheduled(key):
            self._schedule_removal(key, group_id, member.member_id, member.rebalance_timeout_ms)

    def expect_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """The classic member has joined: it is to ask for its partitions."""
        self._timer.cancel(_join_key(group_id, member_id))
        self._schedule_removal(_sync_key(group_id, member_id), group_id, member_id, timeout_ms)

    def note_sync(self, group_id: str, member_id: str) -> None:
        """The classic member has asked for its partitions."""
        self._timer.cancel(_sync_key(group_id, member_id))

    def cancel(self, group_id: str, member_id: str) -> None:
        """The member is gone, or its group is a classic one now."""
        for key_of in (session_key, rebalance_key, _join_key, _sync_key):
            self._timer.cancel(key_of(group_id, member_id))

    def _schedule_removal(self, key: str, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._timer.schedule(key, timeout_ms, lambda now: self._remove(group_id, member_id))

    def _remove(self, group_id: str, member_id: str, only_in_epoch: int | None = None) -> CoordinatorResult[None]:
        """Remove the member, if it is still there and, for a rebalance timeout, has not gone on."""
        group = self._find_group(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or only_in_epoch not in (None, member.member_epoch):
            return CoordinatorResult(None)
        return self._plan_removal(group, member)


def session_key(group_id: str, member_id: str) -> str:
    return timer_key("member-session", group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> str:
    return timer_key("member-rebalance", group_id, member_id)


def _join_key(group_id: str, member_id: str) -> str:
    return timer_key("member-join", group_id, member_id)


def _sync_key(group_id: str, member_id: str) -> str:
    return timer_key("member-sync", group_id, member_id)
