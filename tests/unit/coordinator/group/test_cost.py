"""What one request of a group costs: it does not grow with the square of the request, nor with what other members
subscribe to. Comparisons, hashes and look-ups are counted, not time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from pykraft.common.settings.config import ConfigDef
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.config import (
    GROUP_KEYS,
    OFFSETS_RETENTION_CHECK_INTERVAL_MS,
    ConsumerGroupConfig,
)
from pykraft.coordinator.group.offsets import CommittedOffset, commit_record
from pykraft.coordinator.group.shard import _EXPIRE_OFFSETS as EXPIRE
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.group.topics import TopicInfo
from pykraft.coordinator.result import CoordinatorResult
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pykraft.protocol.messages.offsets import OffsetDeleteRequest
from tests.harness.consumer_groups import CLIENT, GROUP, TopicsInTest
from tests.harness.lone_shard import NoTimer, lone_shard

MEMBERS, NAMES = 20, 300


class Counted(int):
    """A number that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return int(self) == other

    __hash__ = int.__hash__


class CountedTopics(TopicsInTest):
    """Topics that count how often they are looked up by name."""

    lookups = 0

    def named(self, name: str) -> TopicInfo | None:
        self.lookups += 1
        return super().named(name)


class CountedName(str):
    """A topic's name that counts how often a set or a table is asked for it."""

    hashes = 0
    __slots__ = ()

    def __hash__(self) -> int:
        CountedName.hashes += 1
        return str.__hash__(self)

    __eq__ = str.__eq__


def test_to_forget_offsets_takes_a_comparison_for_each_and_not_for_each_pair() -> None:
    count = 1000
    shard = lone_shard()
    for number in range(count):
        shard.replay(commit_record("g", TopicPartition("t", number), CommittedOffset(1, -1, "", 0)), -1)
    topic = OffsetDeleteRequest.Topic
    asked = [topic.Partition(partition_index=Counted(number)) for number in range(count)]
    Counted.comparisons = 0
    result = shard.delete_offsets(OffsetDeleteRequest(group_id="g", topics=[topic(name="t", partitions=asked)]))
    assert len(result.records) == count
    assert Counted.comparisons <= 4 * count


class DueTimer(NoTimer):
    """Keeps what is scheduled."""

    def __init__(self) -> None:
        self.due: dict[str, tuple[int, Callable[[int], CoordinatorResult[None]]]] = {}

    def schedule(self, *scheduled: Any) -> None:
        key, delay_ms, plan = scheduled
        self.due[key] = delay_ms, plan


def test_old_offsets_of_many_groups_are_forgotten_a_few_groups_in_a_turn() -> None:
    timer, config = DueTimer(), ConfigDef(GROUP_KEYS).resolve({})
    shard = lone_shard(timer=timer, time_ms=lambda: 1 << 50)
    for group in range(100):
        for number in range(100):
            place = TopicPartition("t", number)
            shard.replay(commit_record(f"g{group}", place, CommittedOffset(1, -1, "", 0)), -1)
    shard.on_loaded(0)
    pauses, sizes = [], []
    while shard.offsets.count:
        pause_ms, plan = timer.due[EXPIRE]
        pauses.append(pause_ms)
        records = plan(0).records
        sizes.append(len(records))
        for record in records:
            shard.replay(record, -1)
    assert sum(sizes) == 100 * (100 + 1) and max(sizes) <= 2 * 1000 + 200
    interval_ms = config[OFFSETS_RETENTION_CHECK_INTERVAL_MS]
    assert pauses == [interval_ms] + [1] * (len(pauses) - 1)
    assert timer.due[EXPIRE][0] == interval_ms, "the next time all groups are looked at again"


class _Group:
    """A shard with one group whose members all subscribe to the same topics."""

    def __init__(self) -> None:
        self.topics = CountedTopics({})
        self.shard = GroupShard(
            timer=NoTimer(),
            config=ConfigDef(GROUP_KEYS).resolve({}),
            topics=self.topics,
            config_of=lambda _: ConsumerGroupConfig(),
            random=Random(1),
            time_ms=lambda: 0,
        )
        self.names = [CountedName(f"t{number}") for number in range(NAMES)]
        for number in range(MEMBERS):
            self.beat(f"m{number}", 0, self.names)

    def beat(self, member_id: str, epoch: int, names: list[CountedName] | None) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=60_000 if names is not None else -1,
            subscribed_topic_names=names,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=[] if names is not None else None,
        )
        CountedName.hashes = self.topics.lookups = 0
        result = self.shard.consumer.heartbeat(request, *CLIENT, 1, 0)
        for record in result.records:
            self.shard.replay(record, -1)
        assert result.after is not None
        result.after(0)
        return result.response


def test_a_member_that_joins_costs_its_own_names_and_not_those_of_the_other_members() -> None:
    group = _Group()
    group.beat("another", 0, group.names)
    assert group.topics.lookups == 0, "the topics of this subscription are known"
    assert 0 < CountedName.hashes <= 8 * NAMES


def test_members_with_equal_subscriptions_share_one_object() -> None:
    members = _Group().shard.groups[GROUP].members.values()
    assert len({id(member.subscribed_topic_names) for member in members}) == 1


def test_a_new_subscription_is_looked_up_once() -> None:
    group = _Group()
    group.beat("another", 0, group.names[1:])
    assert group.topics.lookups <= 2 * NAMES
    assert CountedName.hashes <= 12 * NAMES


def test_a_heartbeat_that_takes_a_step_looks_at_no_name() -> None:
    group = _Group()
    epoch = group.shard.groups[GROUP].target_epoch
    assert group.beat("m0", 1, None).member_epoch == epoch, "the member comes to the newest epoch"
    assert (group.topics.lookups, CountedName.hashes) == (0, 0)


def test_a_new_version_of_the_metadata_is_looked_at_again() -> None:
    group = _Group()
    group.topics.put("t7", 3)
    group.shard.consumer.on_metadata_changed(created=["t7"])
    epoch = group.shard.groups[GROUP].group_epoch
    group.beat(f"m{MEMBERS - 1}", epoch, None)
    found = group.shard.groups[GROUP]
    assert found.group_epoch == epoch + 1
    assert sum(len(part) for target in found.target_assignment.values() for part in target.values()) == 3
