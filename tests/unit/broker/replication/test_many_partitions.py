"""Many partitions at once: made a few in each step, deleted together, and found by what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from pykraft.broker.replication import replica_manager
from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode
from pykraft.common.types import OffsetAndEpoch, TopicPartition, Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.records import PartitionChangeRecord, PartitionRecord, TopicRecord
from pykraft.storage.upkeep import log_manager
from tests.harness.controllers import new_topic
from tests.harness.lone_node import LoneNode

MADE_AT_ONCE = 50
COUNT = 3 * MADE_AT_ONCE + 7
TOPIC = Uuid(bytes(15) + b"\x01")


@pytest.fixture(autouse=True)
def small_groups_of_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_manager, "_MADE_AT_ONCE", MADE_AT_ONCE)


def create(node: LoneNode, name: str, count: int) -> None:
    topic = new_topic(name, assignment={number: [1] for number in range(count)})
    answer: Any = node.handle(CreateTopicsRequest(topics=[topic], timeout_ms=1000), ListenerKind.CONTROLLER)
    while not answer.kept:
        node.now += 1
        node.node.poll(node.now)
    assert not answer.value.response.topics[0].error_code


def made(node: LoneNode) -> int:
    return len(node.broker.replicas.partitions)


def send(node: LoneNode, request: Any) -> Any:
    """Hand it to the controller, and no more."""
    return node.handle(request, ListenerKind.CONTROLLER)


def creation(name: str, count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[new_topic(name, assignment={number: [1] for number in range(count)})], timeout_ms=1000
    )


def deletion(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name)], timeout_ms=1000)


def turns(node: LoneNode, steps: int = 20) -> Iterator[None]:
    """Turns of the node's loop, a millisecond each, with short slices, until nothing is left to do soon. While there is
    more to do it must not sleep."""
    length, node.time_slice.length = node.time_slice.length, steps
    while True:
        poll = node.node.poll(node.now)
        for outbound in poll.requests:
            node._deliver(outbound)
        yield
        is_resting = poll.deadline > node.now
        assert not (is_resting and node.broker.replicas._to_make)
        if is_resting and poll.deadline > node.now + 50:
            break
        node.now += 1
    node.time_slice.length = length


def test_logs_are_made_a_slice_at_a_time_and_the_node_asks_to_go_on() -> None:
    node = LoneNode()
    answer = send(node, creation("t", COUNT))
    seen = [(made(node), len(node.broker.logs.logs)) for _ in turns(node)]
    for number in (0, 1):
        assert max(after[number] - before[number] for before, after in pairwise(seen)) <= 20
    assert seen[-1] == (COUNT, COUNT) and answer.value.response.topics[0].error_code == 0
    assert all(partition.is_leader for partition in node.broker.replicas.partitions.values())


def test_a_topic_is_deleted_a_slice_at_a_time_and_the_broker_says_that_it_knows_when_it_is_done() -> None:
    node = LoneNode()
    create(node, "t", COUNT)
    node.run()
    known = node.broker.lifecycle._metadata_offset
    before, logs = known(), node.broker.logs.online[0]
    send(node, deletion("t"))
    seen = [(made(node), len(logs.logs), known() > before) for _ in turns(node)]
    halves = [each for each in seen if 0 < each[0] < COUNT or 0 < each[1] < COUNT]
    assert len(halves) > COUNT // 20
    assert all((left, kept) == (0, 0) for left, kept, is_done in seen if is_done) and seen[-1] == (0, 0, True)


@pytest.mark.costly
def test_what_is_left_of_a_deleted_topic_does_not_come_into_the_one_that_is_made_under_its_name() -> None:
    """One image is applied whole before the next, however many slices it takes."""
    node = LoneNode()
    create(node, "t", COUNT)
    node.run()
    old = node.node.loader.image.topic_ids["t"]
    send(node, deletion("t"))
    send(node, creation("t", COUNT))
    known = set()
    for _ in turns(node):
        held = {partition.key.topic_id for partition in node.broker.replicas.partitions.values()}
        known.add(frozenset(held))
        assert not held or len(held) == 1
    new = node.node.loader.image.topic_ids["t"]
    assert known == {frozenset({old}), frozenset(), frozenset({new})}
    assert made(node) == len(node.broker.logs.logs) == COUNT
    assert {log.topic_id for log in node.broker.logs.logs.values()} == {new}


@pytest.mark.costly
@pytest.mark.parametrize("turn", range(1, 32, 3))
def test_a_topic_may_be_deleted_and_made_again_while_its_logs_are_being_made(turn: int) -> None:
    node = LoneNode()
    count, is_done = 300, False
    send(node, creation("t", count))
    for number, _ in enumerate(turns(node)):
        if number == turn:
            is_done = made(node) == count
            send(node, deletion("t"))
            send(node, creation("t", count - 50))
    assert not is_done
    new = node.node.loader.image.topic_ids["t"]
    assert made(node) == len(node.broker.logs.logs) == count - 50
    assert {log.topic_id for log in node.broker.logs.logs.values()} == {new}
    assert all(partition.is_leader for partition in node.broker.replicas.partitions.values())
    marks = node.broker.logs.online[0]._high_watermarks.offsets
    assert marks.keys() <= node.broker.logs.logs.keys(), "no mark of a log that is gone"


def test_the_marks_of_a_log_are_written_before_it_is_served() -> None:
    """Also if a change of the partition comes while its log is being made."""
    node = LoneNode()
    send(node, creation("t", COUNT))
    replicas, logs, changes = node.broker.replicas, node.broker.logs.online[0], 0
    for _ in turns(node):
        if len(logs.logs) > made(node):
            topic = replicas.image.topic_named("t")
            delta = MetadataDelta(replicas.image)
            for number in topic.partitions:
                delta.replay(PartitionChangeRecord(topic_id=topic.topic_id, partition_id=number, leader=1))
            finish(replicas.apply(delta, delta.apply(replicas.image.provenance), node.now))
            changes += 1
        assert replicas.partitions.keys() <= logs._recovery_points.offsets.keys()
    assert made(node) == COUNT and changes > 3


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
    logs = node.broker.logs.online[0]
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
    logs = node.broker.logs.online[0]
    monkeypatch.setattr(log_manager, "_LOOKED_AT_ONCE", 10)
    looked: list[TopicPartition] = []
    monkeypatch.setattr(log_manager, "delete_old_segments", lambda log, now_ms: looked.append(log.topic_partition) or 0)
    assert [logs.delete_old_segments() for _ in range(3)] == [True, True, False]
    assert sorted(looked) == sorted(logs.logs) and len(looked) == 25
    assert logs.delete_old_segments() and len(looked) == 35, "and it begins again"
