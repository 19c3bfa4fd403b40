"""Bugs in groups whose topics come and go, and whose members are removed: a coordinator that does not look again, and a
member that does not let go."""

from __future__ import annotations

from typing import Any

from pykraft.client.consuming.group_part import LOST, ListenerCall, Script
from pykraft.client.consuming.heartbeats import MembershipState
from pykraft.client.consuming.reconciliation import Reconciliation
from pykraft.common.xxh3 import xxh3_64
from pykraft.coordinator.group import topics
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.pattern_refresh import PatternRefresher
from pykraft.sim.bugs.planting import bug, put


@bug
def a_pattern_that_is_resolved_once() -> None:
    """A coordinator looks for the topics of a pattern when a member brings it, and not again."""
    to_refresh = PatternRefresher.patterns_to_refresh

    def once(self: PatternRefresher, group: ConsumerGroup, *about: Any) -> list[str]:
        return [] if group.resolved_patterns else to_refresh(self, group, *about)

    put(PatternRefresher, "patterns_to_refresh", once)


@bug
def a_topic_hash_without_its_partitions() -> None:
    """The hash of a topic is over its name and id: a group does not notice that the topic has more partitions."""
    put(topics, "topic_hash", lambda topic: xxh3_64(bytes(topic.topic_id) + topic.name.encode()))


@bug
def a_fenced_member_that_reads_on() -> None:
    """A consumer that was removed from its group joins again, and keeps the partitions that it had."""

    def lose(self: Reconciliation) -> Script:
        yield None
        owned = tuple(self._subscription.partitions)
        if owned:
            yield ListenerCall(LOST, owned)
        if self.membership.state in (MembershipState.FENCED, MembershipState.STALE):
            self.membership.join()
        else:
            self._subscription.assign_from_subscription(())

    put(Reconciliation, "_lose", lose)
