"""Many partitions at once: made a few in each step, deleted together, and found by what has changed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import OffsetAndEpoch, TopicPartition, Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.records import PartitionChangeRecord, PartitionRecord, TopicRecord
from pykraft.server import replica_manager
from pykraft.storage import log_manager
from tests.harness.controllers import new_topic
from tests.harness.lone_node import LoneNode

COUNT = 3 * replica_manager._MADE_AT_ONCE + 7
TOPIC = Uuid(bytes(15) + b"\x01")


def create(node: LoneNode, name: str, count: int) -> None:
    topic = new_topic(name, assignment={number: [1] for number in range(count)})
    answer: Any = node.handle(CreateTopicsRequest(topics=[topic], timeout_ms=1000), ListenerKind.CONTROLLER)
    while not answer.kept:
        node.now += 1
        node.node.poll(node.now)
    assert not answer.value.response.topics[0].error_code


def made(node: LoneNode) -> int:
    return len(node.broker.replicas.partitions)


def test_logs_are_made_a_few_in_each_step_and_the_node_asks_to_go_on() -> None:
    node = LoneNode()
    create(node, "t", COUNT)
    steps = [made(node)]
    while steps[-1] < COUNT:
        poll = node.node.poll(node.now)
        steps.append(made(node))
        assert poll.deadline <= node.now or steps[-1] == COUNT, "it must not sleep while there is work"
    assert all(after - before <= replica_manager._MADE_AT_ONCE for before, after in pairwise(steps))
    assert len(steps) > 3 and all(partition.is_leader for partition in node.broker.replicas.partitions.values())


def test_a_partition_that_is_not_made_yet_is_led_elsewhere_for_now() -> None:
    node = LoneNode()
    create(node, "t", COUNT)
    waiting = TopicPartition("t", COUNT - 1)
    assert waiting in node.broker.replicas._to_make
    try:
        node.broker.replicas.partition(waiting)
    except Exception as error:
        assert getattr(error, "code", None) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        raise AssertionError("it cannot be there")
    node.run()
    assert node.broker.replicas.partition(waiting).is_leader


def test_a_topic_that_goes_before_all_of_it_was_made_is_gone() -> None:
    node = LoneNode()
    create(node, "t", COUNT)
    assert 0 < made(node) < COUNT
    node.ask(
        DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")], timeout_ms=1000), ListenerKind.CONTROLLER
    )
    node.run()
    assert made(node) == 0 and not node.broker.logs.logs and not node.broker.replicas._to_make
    assert all(name.endswith("-delete") for name in node.filesystem.list("/data") if name.startswith("t-"))


def test_many_logs_are_deleted_with_one_sync_of_their_folder() -> None:
    node = LoneNode()
    create(node, "t", COUNT)
    node.run()
    logs = node.broker.logs
    logs.write_checkpoints()
    before = node.filesystem.operations
    logs.delete_all(sorted(logs.logs))
    renames, rest = COUNT, node.filesystem.operations - before - COUNT
    assert rest < 30, f"{renames} renames, and {rest} other operations"


def test_a_delta_knows_which_partitions_of_a_topic_it_is_about() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(TopicRecord(name="t", topic_id=TOPIC))
    for number in range(5):
        delta.replay(PartitionRecord(partition_id=number, topic_id=TOPIC, replicas=[1], isr=[1], leader=1))
    image = delta.apply(OffsetAndEpoch(9, 1))
    assert delta.touched_partitions(image.topics[TOPIC]) == [0, 1, 2, 3, 4]
    change = MetadataDelta(image)
    for number in (4, 2, 4):
        change.replay(PartitionChangeRecord(partition_id=number, topic_id=TOPIC, leader=-1))
    after = change.apply(OffsetAndEpoch(12, 1))
    assert change.touched_partitions(after.topics[TOPIC]) == [2, 4]
    assert MetadataDelta.of_everything(after).touched_partitions(after.topics[TOPIC]) == [0, 1, 2, 3, 4]


def test_retention_looks_at_a_part_of_the_logs_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    node = LoneNode()
    create(node, "t", 25)
    node.run()
    logs = node.broker.logs
    monkeypatch.setattr(log_manager, "_LOOKED_AT_ONCE", 10)
    looked: list[TopicPartition] = []
    monkeypatch.setattr(log_manager, "delete_old_segments", lambda log, now_ms: looked.append(log.topic_partition) or 0)
    assert [logs.delete_old_segments() for _ in range(3)] == [True, True, False]
    assert sorted(looked) == sorted(logs.logs) and len(looked) == 25
    assert logs.delete_old_segments() and len(looked) == 35, "and it begins again"
