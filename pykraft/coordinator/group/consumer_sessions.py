"""How long a consumer group waits for its members, and how it removes one.

Each heartbeat restarts its member's session. The coordinator removes a member without a heartbeat for a whole session
timeout. It also removes a member that has partitions to revoke and is in the same epoch after its rebalance timeout,
because others wait for those partitions. Removal deletes the member's records and raises the group's epoch; the next
heartbeat of another member computes the new target.

Both timers are soft: a coordinator that loads the group starts them again, with the whole timeout.

Follows org.apache.kafka.coordinator.group.GroupMetadataManager.{scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout,consumerGroupFenceMembers}.
"""

from collections.abc import Callable

from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.coordinator.group.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_group_member import ConsumerGroupMember, MemberState
from pykraft.coordinator.group.consumer_group_records import epoch_record, member_tombstones, pattern_tombstone
from pykraft.coordinator.group.topics import Topics, metadata_hash
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer
from pykraft.protocol.messages.coordinators import CoordinatorRecord


def plan_removal(group: ConsumerGroup, member: ConsumerGroupMember, topics: Topics) -> list[CoordinatorRecord]:
    """The records that remove this member and raise the group's epoch."""
    records = member_tombstones(group.group_id, member.member_id)
    pattern = member.subscribed_topic_regex
    if pattern and group.subscribed_patterns()[pattern] == 1:
        records.append(pattern_tombstone(group.group_id, pattern))
    new_hash = metadata_hash(group.subscribed_topics([member]), topics)
    return [*records, epoch_record(group.group_id, group.group_epoch + 1, new_hash)]


class MemberSessions:
    """The timers of a shard's consumer groups."""

    def __init__(
        self,
        topics: Topics,
        timer: CoordinatorTimer,
        config_of: Callable[[str], ConsumerGroupConfig],
        find_group: Callable[[str], ConsumerGroup | None],
    ) -> None:
        self._topics = topics
        self._timer = timer
        self._config_of = config_of
        self._find_group = find_group

    def start(self, group_id: str, member_id: str) -> None:
        """Restart the member's session: a heartbeat came."""
        timeout_ms = self._config_of(group_id).session_timeout_ms
        key = _session_key(group_id, member_id)
        self._timer.schedule(key, timeout_ms, lambda now: self._remove(group_id, member_id))

    def watch_rebalance(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Start the rebalance timeout of a member that must revoke partitions, and cancel that of any other."""
        key = _rebalance_key(group_id, member.member_id)
        if member.state != MemberState.UNREVOKED_PARTITIONS:
            self._timer.cancel(key)
            return
        self._timer.schedule(
            key,
            member.rebalance_timeout_ms,
            lambda now: self._remove(group_id, member.member_id, only_in_epoch=member.member_epoch),
        )

    def cancel(self, group_id: str, member_id: str) -> None:
        self._timer.cancel(_session_key(group_id, member_id))
        self._timer.cancel(_rebalance_key(group_id, member_id))

    def _remove(self, group_id: str, member_id: str, only_in_epoch: int | None = None) -> CoordinatorResult[None]:
        """Remove the member, if it is still there and, for a rebalance timeout, has not gone on."""
        group = self._find_group(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or only_in_epoch not in (None, member.member_epoch):
            return CoordinatorResult(None)
        records = plan_removal(group, member, self._topics)
        return CoordinatorResult(None, records, lambda now: self.cancel(group_id, member_id))


def _session_key(group_id: str, member_id: str) -> str:
    return f"session-timeout-{group_id}-{member_id}"


def _rebalance_key(group_id: str, member_id: str) -> str:
    return f"rebalance-timeout-{group_id}-{member_id}"
