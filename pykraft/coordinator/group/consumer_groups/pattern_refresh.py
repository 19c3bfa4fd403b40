"""When the patterns of a consumer group are resolved, and what follows from it.

Resolving looks at every topic of the cluster, so a heartbeat does not wait for it: it schedules a refresh of all the
group's patterns, and the result is a write of its own, with a record for each pattern and a new group epoch if the
topics differ. Until then a new pattern matches no topic.

A heartbeat schedules a refresh if the group has patterns, none is under way, the last one is more than 10 s ago, and

* a pattern is not resolved yet, or
* topics were created since the last one, or
* the last one is older than `group.consumer.regex.refresh.interval.ms` (10 minutes).

Deleted topics need none: the topic's disappearance changes the metadata hash.

A pattern matches only topics that the client may DESCRIBE. The client is the one whose heartbeat scheduled the refresh,
for all patterns of the group: members of one group are expected to have the same rights.

Follows org.apache.kafka.coordinator.group.GroupMetadataManager.{maybeUpdateRegularExpressions,
handleRegularExpressionsResult,filterTopicDescribeAuthorizedTopics}.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import ConsumerGroupMember
from pykraft.coordinator.group.consumer_groups.consumer_group_records import (
    epoch_record,
    pattern_record,
    pattern_tombstone,
)
from pykraft.coordinator.group.consumer_groups.subscription_patterns import NOT_RESOLVED, compile_pattern, resolve
from pykraft.coordinator.group.topics import Topics
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer, timer_key
from pykraft.protocol.messages.coordinators import CoordinatorRecord

MIN_REFRESH_INTERVAL_MS = 10_000

Describable = Callable[[Collection[str]], Collection[str]]
"""Those of these topics that a client may describe."""


def all_of(names: Collection[str]) -> Collection[str]:
    """The answer to a client that may describe everything."""
    return names


class PatternChange(NamedTuple):
    """What a heartbeat does to its member's pattern."""

    changed: bool = False
    takes_effect_now: bool = False
    """The topics of the new pattern are known, so the group's epoch may rise at once."""
    is_new: bool = False
    """No other member has the new pattern: it is to be resolved."""


def plan_pattern_change(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    updated: ConsumerGroupMember,
    records: list[CoordinatorRecord],
) -> PatternChange:
    """What changes; KafkaError INVALID_REGULAR_EXPRESSION if the new pattern cannot be read."""
    old, new = member.subscribed_topic_regex, updated.subscribed_topic_regex
    if old == new:
        return PatternChange()
    subscribers = group.subscribed_patterns()
    if old and subscribers[old] == 1:
        records.append(pattern_tombstone(group.group_id, old))
    if not new:
        return PatternChange(changed=True, takes_effect_now=bool(old))
    if not subscribers[new]:
        compile_pattern(new)
        return PatternChange(changed=True, is_new=True)
    return PatternChange(changed=True, takes_effect_now=new in group.resolved_patterns)


class PatternRefresher:
    """Resolves the patterns of a shard's groups. Its state is soft."""

    def __init__(
        self,
        topics: Topics,
        timer: CoordinatorTimer,
        time_ms: Callable[[], int],
        find_group: Callable[[str], ConsumerGroup | None],
        on_new_metadata: Callable[[str, int], None],
    ) -> None:
        self._topics = topics
        self._timer = timer
        self._time_ms = time_ms
        self._find_group = find_group
        self._on_new_metadata = on_new_metadata
        self._version_with_new_topics = topics.version

    def on_topics_created(self) -> None:
        self._version_with_new_topics = self._topics.version

    def patterns_to_refresh(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        change: PatternChange,
        refresh_interval_ms: int,
    ) -> list[str]:
        """The patterns to resolve now; empty if it is not time."""
        if not (change.is_new or group.has_patterns) or self._timer.is_scheduled(_key(group.group_id)):
            return []
        last = next(iter(group.resolved_patterns.values()), None)
        since_ms = None if last is None else self._time_ms() - last.timestamp_ms
        if since_ms is not None and since_ms <= MIN_REFRESH_INTERVAL_MS:
            return []
        patterns = sorted(group.subscribed_patterns([member], [updated]))
        is_due = (
            change.is_new
            or len(patterns) != len(group.resolved_patterns)
            or (0 if last is None else last.version) < self._version_with_new_topics
            or since_ms is None
            or since_ms > refresh_interval_ms
        )
        return patterns if is_due else []

    def schedule(self, group_id: str, patterns: list[str], describable: Describable) -> None:
        """Resolve these patterns as soon as the shard has time."""
        self._timer.schedule(_key(group_id), 0, lambda now: self._refresh(group_id, patterns, describable))

    def _refresh(self, group_id: str, patterns: list[str], describable: Describable) -> CoordinatorResult[None]:
        group = self._find_group(group_id)
        if group is None:
            return CoordinatorResult(None)
        version, timestamp_ms = self._topics.version, self._time_ms()
        subscribers = group.subscribed_patterns()
        patterns = [pattern for pattern in patterns if subscribers[pattern]]
        matched = resolve(patterns, self._topics.names())
        visible = frozenset(describable(frozenset[str]().union(*matched.values())))
        resolved = {pattern: names & visible for pattern, names in matched.items()}
        records = [pattern_record(group_id, pattern, resolved[pattern], version, timestamp_ms) for pattern in patterns]
        before = {pattern: group.resolved_patterns.get(pattern, NOT_RESOLVED).topics for pattern in patterns}
        topics = group.subscribed_topics(resolved=resolved)
        new_hash = group.subscriptions.metadata_hash(topics, self._topics)
        if resolved == before and new_hash == group.metadata_hash:
            return CoordinatorResult(None, records)
        records.append(epoch_record(group_id, group.group_epoch + 1, new_hash))
        return CoordinatorResult(None, records, lambda now: self._on_new_metadata(group_id, now))


def _key(group_id: str) -> str:
    return timer_key("patterns", group_id)
