"""What releases of Apache Kafka do otherwise with groups of KIP-848, for a comparison that knows it.

* Up to 4.3 a new group is in epoch 0, and its first member brings it to 1; since 4.4 it is in epoch 1, and that member
  brings it to 2. All that follows is the same, one higher. pykraft begins as the release that it is compared with.
* Since 4.3 a target assignment is computed beside the heartbeats, once a second at most. `AT_ONCE` asks for it with the
  heartbeat, as before.
* Since 4.3 a description counts the partitions that a member is still to give up as assigned to it
  (`with_what_is_to_be_given_up`).
* Since 4.3 a group whose last member leaves is assigned its nothing at once: the target has the group's epoch.
* Since 4.3 a classic member of such a group is not sent to join again before there is a target for the group's epoch;
  it may commit in an older generation; and it hears INCONSISTENT_GROUP_PROTOCOL if its subscription cannot be read.
* Since 4.4 no classic member joins such a group if the policy of migration is `disabled`.
* Since 4.3 a member's record has the epoch of each partition, and a target's record the time when it was computed:
  `without_what_is_new` drops them, and the record of an empty group's target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pykraft.common.types import Uuid
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup, NamedPartitions
from pykraft.protocol.messages.coordinators import CoordinatorRecord
from tests.harness import apache_kafka

RELEASE = tuple(map(int, apache_kafka.VERSION.split(".")[:2]))
BEGINS_WITH_ONE = RELEASE >= (4, 4)
"""Whether a new group is in epoch 1."""
_MEMBER, _TARGET = 5, 6
EMPTY_IS_ASSIGNED = RELEASE >= (4, 3)
"""Whether the target of an empty group has the group's epoch."""
AT_ONCE = (
    {"group.consumer.assignment.interval.ms": "0", "group.consumer.assignor.offload.enable": "false"}
    if RELEASE >= (4, 3)
    else {}
)


def with_what_is_to_be_given_up(described: Any, group: ConsumerGroup | None, names: Mapping[Uuid, str]) -> None:
    """Change a description by pykraft to what the release that is asked would say."""
    for member in described.members if RELEASE >= (4, 3) and group is not None else ():
        held = {topic.topic_name: set(topic.partitions) for topic in member.assignment.topic_partitions}
        for topic_id, partitions in group.members[member.member_id].pending_revocation.items():
            held.setdefault(names[topic_id], set()).update(partitions)
        member.assignment.topic_partitions = [
            NamedPartitions(topic_name=name, partitions=sorted(partitions)) for name, partitions in held.items()
        ]


@pytest.fixture
def epochs_of_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """New groups of pykraft begin as those of the release that is asked."""
    if BEGINS_WITH_ONE:
        monkeypatch.setattr(ConsumerGroup, "new_group_epoch", 1)


def without_what_is_new(records: Sequence[CoordinatorRecord]) -> list[CoordinatorRecord]:
    """One group's records as a release before 4.3 would have written them."""
    members: set[str] = set()
    kept = []
    for record in records:
        value: Any = record.value
        if record.record_type == _MEMBER:
            (members.discard if value is None else members.add)(vars(record.key)["member_id"])
        if record.record_type == _TARGET and value is not None:
            value.assignment_timestamp = 0
        for name in ("assigned_partitions", "partitions_pending_revocation"):
            for topic in getattr(value, name, None) or ():
                topic.assignment_epochs = None
        if record.record_type != _TARGET or members or not EMPTY_IS_ASSIGNED:
            kept.append(record)
    return kept
