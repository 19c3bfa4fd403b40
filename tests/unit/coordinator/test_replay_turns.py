"""Shards that are loaded share a turn of the node's loop, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykraft.coordinator import runtime as module
from pykraft.coordinator.replay_turn import RECORDS_PER_TURN
from pykraft.protocol.messages.cluster import FindCoordinatorRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from tests.harness.asking import create, new_topic
from tests.harness.lone_node import LoneNode

GROUPS, OFFSETS = 24, 250
RECORDS = GROUPS * OFFSETS


@pytest.fixture(scope="module")
def lone() -> LoneNode:
    """A node with offsets of many groups, in many partitions."""
    node = LoneNode(offsets_topic_num_partitions="8", offsets_topic_replication_factor="1")
    node.handle(create(new_topic("t", OFFSETS, 1)))
    node.handle(FindCoordinatorRequest(key_type=0, coordinator_keys=["group-0"]), version=4)
    node.run(3000)
    topic = OffsetCommitRequest.Topic
    offsets = [topic.Partition(partition_index=number, committed_offset=1) for number in range(OFFSETS)]
    for number in range(GROUPS):
        request = OffsetCommitRequest(group_id=f"group-{number}", topics=[topic(name="t", partitions=offsets)])
        assert {p.error_code for p in node.ask(request, version=9).topics[0].partitions} == {0}
    return node


def replayed_by_turn(lone: LoneNode, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Load all shards again: how many records each turn replays."""
    count, changes = 0, module.changes

    def counted(*args: Any) -> Iterator[Any]:
        nonlocal count
        for change in changes(*args):
            count += 1
            yield change

    monkeypatch.setattr(module, "changes", counted)
    runtime = lone.broker.groups.runtime
    for partition in runtime.partitions:
        epoch = runtime.epoch(partition)
        runtime.resign(partition)
        runtime.lead(partition, epoch, lone.now)
    turns = []
    while runtime.is_loading:
        before = count
        runtime.poll(lone.now)
        turns.append(count - before)
    return turns


@pytest.mark.costly
def test_all_shards_together_replay_no_more_than_a_few_thousand_records_in_a_turn(
    lone: LoneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = replayed_by_turn(lone, monkeypatch)
    assert sum(turns) >= RECORDS and max(turns) <= RECORDS_PER_TURN
    assert len(turns) <= RECORDS // RECORDS_PER_TURN + 2, "none is idle"
    assert lone.broker.groups.runtime.active_partitions() == lone.broker.groups.runtime.partitions
