"""What would become of groups, were their members gone or their coordinator another one: supposed when a history ends.

Few members of a history are static and come again under another id, few groups are empty when their coordinator
changes, and few coordinators change just when a member has to revoke. So each of these is supposed of a copy of the
groups that there are:

* A static member comes again with another member id: it has the target assignment that it had before.
* A classic group whose members are gone is loaded from its record: its generation goes on from where it was.
* A consumer group is loaded whose member has to revoke partitions: the member has its rebalance timeout to do so, and
  is removed after it, whatever its heartbeats say. Else the others would wait for ever.
* A topic is created: the groups that subscribe to patterns look whether it matches.
* A topic is deleted for which a transaction has an offset pending: the offset is deleted, too.

Follows org.apache.kafka.coordinator.group.GroupMetadataManager and OffsetMetadataManager.
"""

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import Any

from pykraft.common.core import Promise
from pykraft.common.timer import Timer
from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import MemberState
from pykraft.coordinator.group.consumer_groups.consumer_group_records import member_record
from pykraft.coordinator.group.consumer_groups.consumer_membership import replaced_static_member
from pykraft.coordinator.group.consumer_groups.consumer_replay import replay_consumer_record
from pykraft.coordinator.group.consumer_groups.consumer_sessions import rebalance_key
from pykraft.coordinator.group.consumer_groups.pattern_refresh import MIN_REFRESH_INTERVAL_MS, PatternChange
from pykraft.coordinator.group.consumer_groups.subscription_patterns import ResolvedPattern
from pykraft.coordinator.group.offsets import OffsetStore
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.shard_timer import ShardTimer
from pykraft.protocol.messages.coordinators import OffsetCommitKey, OffsetCommitValue
from pykraft.sim.laws.foreign_names import is_foreign
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.hosts import SimulatedNode

_HEIR, _TOPIC, _PATTERN = "a-member-that-comes-again", "supposed", "s.*"
_PRODUCER = 1 << 40
_TOPIC_ID = Uuid(b"a-deleted-topic!")
_NEVER = 1 << 62


def check_supposed_groups(machines: Mapping[int, SimulatedNode]) -> None:
    """Suppose all of it, of every coordinator. They have settled."""
    for node_id, machine in machines.items():
        broker = None if machine.node is None else machine.node.broker
        for number in () if broker is None else broker.groups.runtime.active_partitions():
            assert broker is not None
            shard = broker.groups.runtime.active(number)
            for group_id, group in sorted(shard.groups.items()):
                name = f"node {node_id}, group {group_id}"
                if is_foreign(group_id):
                    continue
                _check_deleted_topic(name, shard, group_id)
                if isinstance(group, ClassicGroup):
                    _check_emptied(name, group)
                elif isinstance(group, ConsumerGroup) and group.members:
                    _check_heir(name, group)
                    _check_loaded(name, shard, group)
                    _check_patterns(name, shard, group)


def _check_heir(name: str, group: ConsumerGroup) -> None:
    having = [each for each in sorted(group.members) if group.target_assignment.get(each)]
    for member_id in having[:1]:
        twins: dict[str, Any] = {group.group_id: deepcopy(group)}
        twin = twins[group.group_id]
        had = group.target_assignment.get(member_id, {})
        _, records = replaced_static_member(twin, twin.members[member_id], _HEIR)
        for record in records:
            replay_consumer_record(twins, record.record_type, record.key, record.value)
        has = twins[group.group_id].target_assignment.get(_HEIR, {})
        require(has == had, f"{name}: were {member_id} static and came again, its target were {has}; it is {had}")


def _check_emptied(name: str, group: ClassicGroup) -> None:
    value: Any = copy(group.record(group.assignments()).value)
    value.members = []
    found = ClassicGroup.from_record(group.group_id, value)
    require(
        found.generation == group.generation,
        f"{name}: were its members gone and it loaded, its generation were {found.generation}; it is "
        f"{group.generation}",
    )


def _refuse(plan: object, now: int) -> Promise[Any]:
    raise AssertionError("a shard that is only supposed writes")


def _check_loaded(name: str, shard: GroupShard, group: ConsumerGroup) -> None:
    group, first = copy(group), min(group.members)
    member = group.members[first]._replace(state=MemberState.UNREVOKED_PARTITIONS)
    group.members = {first: member}
    consumer, timer = copy(shard.consumer), ShardTimer(Timer(), _refuse)
    consumer._groups, consumer.sessions = {group.group_id: group}, copy(consumer.sessions)
    consumer.sessions._timer = timer
    consumer.on_loaded(0)
    require(
        timer.is_scheduled(rebalance_key(group.group_id, member.member_id)),
        f"{name}: were it loaded while {member.member_id} has to revoke partitions, that member might take for ever",
    )


def _check_patterns(name: str, shard: GroupShard, group: ConsumerGroup) -> None:
    consumer, topics = copy(shard.consumer), shard.consumer.topics
    patterns = consumer._patterns = copy(consumer._patterns)
    patterns._version_with_new_topics, patterns._timer = 0, ShardTimer(Timer(), _refuse)
    consumer._groups = {}
    groups: dict[str, Any] = {group.group_id: deepcopy(group)}
    record = member_record(group.group_id, group.members[min(group.members)]._replace(subscribed_topic_regex=_PATTERN))
    replay_consumer_record(groups, record.record_type, record.key, record.value)
    group = groups[group.group_id]
    member = group.members[min(group.members)]
    long_ago = patterns._time_ms() - 2 * MIN_REFRESH_INTERVAL_MS
    group.resolved_patterns = {_PATTERN: ResolvedPattern(frozenset(), topics.version - 1, long_ago)}
    consumer.on_metadata_changed(created=(_TOPIC,))
    found = patterns.patterns_to_refresh(group, member, member, PatternChange(), _NEVER)
    require(
        _PATTERN in found,
        f"{name}: were its members to subscribe to the pattern {_PATTERN}, and a topic created, it would resolve "
        f"{found} again",
    )


def _check_deleted_topic(name: str, shard: GroupShard, group_id: str) -> None:
    twin, store, place = copy(shard), OffsetStore(), TopicPartition(_TOPIC, 0)
    key = OffsetCommitKey(group=group_id, topic=_TOPIC, partition=0)
    for producer_id, topic_id in ((-1, Uuid(b"another-topic-id")), (_PRODUCER, _TOPIC_ID)):
        value = OffsetCommitValue(offset=0, metadata="", commit_timestamp=0, topic_id=topic_id)
        store.replay(key, value, producer_id)
    twin.offsets = store
    records = twin.forget_topics({_TOPIC: [_TOPIC_ID]}, [group_id]).records
    gone = [(record.key.topic, record.key.partition) for record in records if isinstance(record.key, OffsetCommitKey)]
    require(
        gone == [tuple(place)],
        f"{name}: were a topic deleted for which a transaction has an offset pending, the offsets of {gone} would be "
        f"deleted with it",
    )
