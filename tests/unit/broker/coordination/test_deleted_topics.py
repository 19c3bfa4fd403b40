"""What the group coordinator does when many topics are deleted: a part of a shard at a time, each name a few times."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.coordination import coordinators
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.common.core import Steps, finish
from pykraft.common.types import OffsetAndEpoch, TopicPartition, Uuid
from pykraft.coordinator.group import shard
from pykraft.coordinator.group.offsets import OffsetStore
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.protocol.messages.records import MetadataRecord, RemoveTopicRecord, TopicRecord
from tests.harness.controllers import new_topic
from tests.harness.lone_node import LoneNode
from tests.unit.coordinator.group.test_cost import CountedName

SHARDS, NAMES = 20, 300
GROUPS, OFFSETS = 8, 6


def node_with(shards: int) -> LoneNode:
    """A node that coordinates the groups in this many shards."""
    node = LoneNode()
    topics = [
        new_topic(GROUP_TOPIC, assignment={number: [1] for number in range(shards)}),
        new_topic("t", assignment={number: [1] for number in range(OFFSETS)}),
    ]
    node.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), ListenerKind.CONTROLLER)
    node.run(200)
    assert len(node.broker.groups.runtime.active_partitions()) == shards
    return node


def commit_all(node: LoneNode) -> None:
    """Every group commits an offset in each partition of t, as a client that knows no topic ids."""
    topic = OffsetCommitRequest.Topic
    parts = [topic.Partition(partition_index=number, committed_offset=7) for number in range(OFFSETS)]
    for number in range(GROUPS):
        request = OffsetCommitRequest(group_id=f"g{number}", topics=[topic(name="t", partitions=parts)])
        answer = node.ask(request, version=9)
        assert not any(each.error_code for each in answer.topics[0].partitions)


def change(base: MetadataImage, *records: MetadataRecord) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    return delta, delta.apply(OffsetAndEpoch(base.provenance.offset + len(records), 1))


def deletion_of_t(node: LoneNode) -> Steps[None]:
    """The steps of the group coordinator when the topic t is deleted."""
    image = node.node.loader.image
    record = RemoveTopicRecord(topic_id=image.topic_ids["t"])
    steps: Steps[None] = node.broker.groups.apply(*change(image, record), node.now)
    return steps


def kept(node: LoneNode) -> set[TopicPartition]:
    """The partitions that a group still has an offset for."""
    offsets = node.broker.groups.runtime.active(0).offsets
    return {place for group in offsets.groups() for place in offsets.places_of(group)}


def test_a_name_is_looked_at_a_few_times_however_many_shards_there_are() -> None:
    node = node_with(SHARDS)
    groups = node.broker.groups
    for number in range(SHARDS):
        groups.runtime.resign(number)
        groups.runtime.lead(number, 9, node.now)
    assert groups.runtime.partitions and not groups.runtime.active_partitions(), "they are loading"
    ids = [Uuid(number.to_bytes(16, "big")) for number in range(1, NAMES + 1)]
    names = [CountedName(f"name-{number}") for number in range(NAMES)]
    created = [TopicRecord(name=name, topic_id=topic_id) for name, topic_id in zip(names, ids, strict=True)]
    _, image = change(node.node.loader.image, *created)
    deleted = change(image, *(RemoveTopicRecord(topic_id=topic_id) for topic_id in ids))
    CountedName.hashes = 0
    finish(groups.apply(*deleted, node.now))
    assert 0 < CountedName.hashes <= 6 * NAMES


def test_offsets_are_forgotten_a_turns_worth_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "_OFFSETS_A_TURN", 10)
    node = node_with(1)
    commit_all(node)
    looked_at = []
    places_of = OffsetStore.places_of

    def counted(self: OffsetStore, group_id: str) -> list[TopicPartition]:
        places = places_of(self, group_id)
        looked_at.append(len(places))
        return places

    monkeypatch.setattr(OffsetStore, "places_of", counted)
    a_turn = []
    for _ in deletion_of_t(node):
        a_turn.append(sum(looked_at))
        looked_at.clear()
    assert sum(a_turn) == GROUPS * OFFSETS and max(a_turn) <= 2 * OFFSETS
    assert not kept(node)


@pytest.mark.parametrize("cut", range(GROUPS // 2 + 1))
def test_a_shard_that_is_loaded_again_between_two_steps_forgets_the_rest(
    monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    monkeypatch.setattr(shard, "_OFFSETS_A_TURN", 10)
    node = node_with(1)
    commit_all(node)
    runtime = node.broker.groups.runtime
    for number, _ in enumerate(deletion_of_t(node)):
        if number == cut:
            runtime.resign(0)
            runtime.lead(0, 9, node.now)
            assert not runtime.active_partitions()
    node.run(200)
    assert runtime.active_partitions() == [0]
    assert not kept(node)


def test_many_groups_hear_of_changed_topics_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "_GROUPS_A_TURN", 3)
    node = node_with(SHARDS)
    for number in range(2 * SHARDS):
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"g{number}",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t", "u"],
            topic_partitions=[],
        )
        assert not node.ask(request).error_code
    image = node.node.loader.image
    topic = TopicRecord(name="u", topic_id=Uuid(bytes(15) + b"\x07"))
    told = _refreshed(node)
    a_turn = []
    for _ in node.broker.groups.apply(*change(image, topic), node.now):
        a_turn.append(_refreshed(node) - told)
        told = _refreshed(node)
    assert _refreshed(node) == 2 * SHARDS
    most = max(len(node.broker.groups.runtime.active(number).groups) for number in range(SHARDS))
    assert len(a_turn) > 3 and max(a_turn) < 3 + most


def _refreshed(node: LoneNode) -> int:
    """How many groups are to look at their topics at the next heartbeat."""
    runtime = node.broker.groups.runtime
    groups: list[Any] = [each for number in range(SHARDS) for each in runtime.active(number).groups.values()]
    return sum(each.metadata_refresh_deadline_ms is None for each in groups)
