"""Changes of the controller that go a slice of time at a time: one after the other, each from the newest image."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.controller.partitions import brokers_to_isrs, replication_control
from pykraft.controller.partitions.brokers_to_isrs import BrokersToIsrs
from pykraft.metadata import delta
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.brokers import AssignReplicasToDirsRequest, BrokerHeartbeatRequest
from pykraft.protocol.messages.records import (
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from pykraft.raft.log import accumulator
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.world.slices import SeededSlice
from tests.harness.controllers import SESSION_MS, ControllerScript, make, new_topic, registration
from tests.harness.quorum import directory_id
from tests.harness.storage import CountedSlice

MANY = 60


def sliced(length: int = 5) -> ControllerScript:
    return ControllerScript(time_slice=CountedSlice(length))


def turns(script: ControllerScript, most: int = 1000) -> int:
    """How many calls the controller wanted at once."""
    for count in range(most):
        if script.controller.poll(script.now) > script.now:
            return count
    raise AssertionError(f"it wants more than {most} calls")


def many(name: str = "t") -> Any:
    return make(new_topic(name, assignment={number: [1, 2] for number in range(MANY)}))


def test_a_large_change_goes_in_slices_and_no_image_has_a_part_of_it() -> None:
    script = sliced()
    script.bring_up(1, 2)
    promise = script.controller.answer(many(), script.now)
    seen = [len(script.image.topics)]
    while script.controller.poll(script.now) <= script.now:
        seen.append(len(script.image.topics))
    assert seen == [0] * len(seen) and len(seen) >= 2 * MANY // 5 - 1
    assert len(script.image.topics) == 1
    assert script.answered(promise).topics[0].error_code == 0
    assert len(script.image.topics[script.image.topic_ids["t"]].partitions) == MANY


def test_what_is_planned_is_encoded_settled_and_indexed_in_slices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three thousand topics are a tenth of a second, if they go into the log and the newest image in one step."""
    monkeypatch.setattr(accumulator, "MANY_RECORDS", MANY // 2)
    monkeypatch.setattr(delta, "_TOPICS_AT_ONCE", 3)
    monkeypatch.setattr(brokers_to_isrs, "_PARTITIONS_AT_ONCE", 3)
    counts: dict[str, int] = {}
    for kind, name in ((RecordBatchBuilder, "append"), (BrokersToIsrs, "_add"), (delta, "replace")):
        _count(monkeypatch, kind, name, counts)
    script = sliced(3)
    script.bring_up(1, 2)
    script.raft.poll(script.now)
    topics = [new_topic(f"t{number}", assignment={0: [1, 2]}) for number in range(MANY)]
    counts.clear()
    promise = script.controller.answer(make(*topics), script.now)
    a_turn, is_done = [dict(counts)], False
    while not is_done:
        counts.clear()
        is_done = script.controller.poll(script.now) > script.now
        a_turn.append(dict(counts))
    sums = {name: sum(turn.get(name, 0) for turn in a_turn) for name in ("append", "_add", "replace")}
    assert sums == {"append": 2 * MANY, "_add": MANY, "replace": MANY + 1}, "each once; the image itself is one more"
    assert max(sum(turn.values()) for turn in a_turn) <= 10
    assert not any(topic.error_code for topic in script.answered(promise).topics)


def _count(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, counts: dict[str, int]) -> None:
    """Count the calls."""
    function = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        counts[name] = counts.get(name, 0) + 1
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, counted)


def test_changes_are_made_in_the_order_in_which_they_came_and_each_sees_the_one_before() -> None:
    script = sliced()
    script.bring_up(1, 2)
    answers: list[str] = []
    deletion = DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")], timeout_ms=1000)
    for name, request in (("made", many()), ("twice", many()), ("deleted", deletion), ("again", many())):
        script.controller.answer(request, script.now).then(
            lambda outcome, name=name: answers.append(f"{name} {_first_error(outcome.response).name}")
        )
    turns(script)
    script.run()
    assert answers == ["made NONE", "twice TOPIC_ALREADY_EXISTS", "deleted NONE", "again NONE"]


def _first_error(response: Any) -> ErrorCode:
    (topic,) = getattr(response, "topics", None) or response.responses
    return ErrorCode.of(topic.error_code)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_slices_the_image_is_the_same(seed: int) -> None:
    images = []
    for time_slice in (None, SeededSlice(Random(seed), 0.3)):
        script = ControllerScript(time_slice=time_slice)
        random = Random(seed)
        script.bring_up(1, 2, 3)
        for number in range(12):
            match random.randrange(4):
                case 0:
                    script.create(new_topic(f"t{number}", 5, 3), new_topic("u", 3, 2))
                case 1:
                    script.delete(DeleteTopicsRequest.Topic(name=f"t{random.randrange(12)}"))
                case 2:
                    script.heartbeat(random.randint(1, 3), want_fence=True)
                case _:
                    script.heartbeat(random.randint(1, 3))
        images.append(script.image)
    assert images[0] == images[1]


def test_a_leadership_that_is_lost_between_two_slices_takes_the_whole_queue_along() -> None:
    script = sliced()
    script.bring_up(1, 2)
    end = script.raft.next_append_offset
    promises = [script.controller.answer(many(name), script.now) for name in "tu"]
    script.controller.poll(script.now)
    leads = script.raft.leader_and_epoch
    script.controller.handle_leader_change(leads._replace(leader_id=-1))
    errors = [promise.value.error for promise in promises]
    assert [error and error.code for error in errors] == [ErrorCode.NOT_CONTROLLER] * 2
    assert not script.image.topics and script.raft.next_append_offset == end
    script.controller.handle_leader_change(leads)
    assert script.create(new_topic("v", assignment={0: [1]})) == {"v": ErrorCode.NONE}
    assert list(script.image.topic_ids) == ["v"]


def test_a_plan_that_fails_costs_its_request_and_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    script = sliced(3)
    script.bring_up(1, 2)
    first = script.controller.answer(many(), script.now)
    second = script.controller.answer(registration(3), script.now)
    monkeypatch.setattr(MetadataImage, "is_active", None)
    with pytest.raises(TypeError):
        turns(script)
    monkeypatch.undo()
    turns(script)
    script.run()
    assert first.value.error is not None and first.value.error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert second.value.error is None and 3 in script.image.brokers


def test_the_broker_epoch_is_the_offset_of_the_registration_though_raft_writes_between_two_slices() -> None:
    script = sliced(1)
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={number: [1, 2] for number in range(MANY)}))
    script.run(SESSION_MS + 1)
    promise = script.controller.answer(registration(1, life=2), script.now)
    assert not promise.kept
    gathered = script.raft.replica.accumulator
    assert gathered is not None
    gathered.next_offset += 1  # as for a record of its own, such as another voter set
    turns(script)
    at = script.raft.next_append_offset - 1
    assert script.image.brokers[1].epoch == at == script.image.provenance.offset
    assert any(isinstance(record, RegisterBrokerRecord) for record, _ in script.image.to_records())


def test_a_broker_with_many_partitions_is_fenced_in_slices_once() -> None:
    script = sliced()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={number: [1, 2] for number in range(MANY)}))
    script.live(2, SESSION_MS - 1500)
    before = script.image.provenance.offset
    script.now += 2000
    assert turns(script) > MANY // 5
    assert script.image.brokers[1].fenced and script.image.provenance.offset == before + MANY + 1
    assert {partition.leader for partition in script.image.topics[script.image.topic_ids["t"]].partitions.values()} == {
        2
    }


def test_a_fencing_in_several_pieces_pauses_within_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand partitions take ten seconds. The controller heard neither of its quorum nor of any broker."""
    monkeypatch.setattr("pykraft.controller.controller.MAX_RECORDS_PER_REQUEST", 7)
    script = sliced(2)
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={number: [1, 2] for number in range(6)}))
    script.create(new_topic("u", assignment={number: [1, 2] for number in range(6)}))
    script.create(*[new_topic(f"t{number}", assignment={0: [1, 2]}) for number in range(3)])
    script.live(2, SESSION_MS - 1500)
    before = script.image.provenance.offset
    script.now += 2000
    seen = []
    while script.controller.poll(script.now) <= script.now:
        seen.append(script.image.provenance.offset)
    assert script.image.brokers[1].fenced and script.image.provenance.offset == before + 16
    assert set(seen) >= {before, before + 7, before + 14}, "a piece is true by itself, and the thread is free between"
    assert seen.count(before + 7) >= 2


def test_a_registration_in_several_pieces_has_the_offset_of_its_record_though_raft_writes_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykraft.controller.controller.MAX_RECORDS_PER_REQUEST", 2)
    script = sliced(1)
    script.bring_up(1, 2, 3)
    for number in range(5):
        script.create(new_topic(f"t{number}", assignment={0: [1, 2, 3]}))
    script.run(SESSION_MS + 1)
    assert script.partition("t0").eligible_leader_replicas == (3,), "all are fenced, and the last one has everything"
    before = script.raft.next_append_offset
    promise = script.controller.answer(registration(3, life=2), script.now)
    gathered = script.raft.replica.accumulator
    assert gathered is not None
    while script.raft.next_append_offset == before:
        assert script.controller.poll(script.now) <= script.now
    gathered.next_offset += 1
    turns(script)
    assert not promise.kept
    at = script.raft.next_append_offset - 1
    assert script.image.brokers[3].epoch == at == script.image.provenance.offset
    assert script.partition("t0").eligible_leader_replicas == (), "its disk may have lost what was not synced"


def test_a_broker_whose_heartbeats_wait_behind_a_large_change_keeps_its_session() -> None:
    script = sliced()
    script.bring_up(1, 2)
    script.live(1, SESSION_MS - 1000)
    script.heartbeat(2)
    promise = script.controller.answer(many(), script.now)
    assert not promise.kept
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=script.image.brokers[1].epoch,
        current_metadata_offset=script.image.provenance.offset,
        want_fence=False,
        want_shut_down=False,
    )
    script.now += SESSION_MS - 1000
    beat = script.controller.answer(heartbeat, script.now)
    script.now += 2000
    assert not beat.kept
    turns(script)
    script.run()
    assert beat.value.error is None
    assert not script.image.brokers[1].fenced, "sessions are looked at when all that waits is done"
    assert script.image.brokers[2].fenced


# --- what a broker holds ----------------------------------------------------------------------------------------------


def test_the_index_of_what_a_broker_holds_is_what_the_image_says() -> None:
    script = ControllerScript()
    random = Random(5)
    script.bring_up(1, 2, 3)
    index = script.controller._replication.index
    for number in range(60):
        match random.randrange(5):
            case 0:
                script.create(new_topic(f"t{number}", random.randint(1, 4), random.randint(1, 3)))
            case 1:
                script.delete(DeleteTopicsRequest.Topic(name=f"t{random.randrange(60)}"))
            case 2:
                script.heartbeat(random.randint(1, 3), want_fence=True)
            case 3:
                with suppress(KafkaError):
                    script.register(random.randint(1, 3), number + 2)
            case _:
                script.heartbeat(random.randint(1, 3))
        image = script.image
        assert index._image is image, "it follows"
        for broker_id in (-1, 1, 2, 3):
            fresh = BrokersToIsrs()
            assert list(index.concerned(image, broker_id)) == list(fresh.concerned(image, broker_id))
            assert index.leads_any(image, broker_id) is fresh.leads_any(image, broker_id)
        assert list(index.imbalanced(image)) == list(BrokersToIsrs().imbalanced(image))


@pytest.mark.parametrize("cut", range(5))
def test_an_index_that_is_asked_while_it_follows_says_what_the_image_says(
    monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    monkeypatch.setattr(brokers_to_isrs, "_PARTITIONS_AT_ONCE", 7)
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={number: [1, 2] for number in range(10)}))
    index, before = script.controller._replication.index, script.image
    change = MetadataDelta(before)
    change.replay(RemoveTopicRecord(topic_id=before.topic_ids["t"]))
    topic_id = Uuid(bytes(16 * [7]))
    change.replay(TopicRecord(name="u", topic_id=topic_id))
    for number in range(20):
        record = PartitionRecord(partition_id=number, topic_id=topic_id, replicas=[2, 1], isr=[2, 1], leader=1)
        change.replay(record)
    after = change.apply(before.provenance)
    for number, _ in enumerate(index.follow(change, after)):
        if number == cut:
            assert list(index.concerned(before, 1)) == list(BrokersToIsrs().concerned(before, 1))
    for broker_id in (-1, 1, 2):
        assert list(index.concerned(after, broker_id)) == list(BrokersToIsrs().concerned(after, broker_id))
        assert index.leads_any(after, broker_id) is BrokersToIsrs().leads_any(after, broker_id)
    assert list(index.imbalanced(after)) == list(BrokersToIsrs().imbalanced(after))


@pytest.mark.parametrize("asked", [False, True], ids=["alone", "asked meanwhile"])
def test_an_index_that_counts_in_steps_says_what_the_image_says(monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    monkeypatch.setattr(brokers_to_isrs, "_PARTITIONS_AT_ONCE", 7)
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={number: [1, 2] for number in range(40)}))
    image, index, pauses = script.image, BrokersToIsrs(), 0
    for _ in index.turn_to(image):
        pauses += 1
        if asked and pauses == 3:
            assert index.leads_any(image, 1)
    assert pauses == (3 if asked else 5)
    assert [number for _, number, _ in index.concerned(image, 2)] == list(range(40))
    assert index.leads_any(image, 1) and not index.leads_any(image, 2)


def test_a_new_active_controller_counts_the_partitions_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million partitions take seconds: Raft's own requests come in between, and those of brokers after it."""
    monkeypatch.setattr(brokers_to_isrs, "_PARTITIONS_AT_ONCE", 3)
    script = sliced(3)
    script.bring_up(1, 2)
    promise = script.controller.answer(many(), script.now)
    turns(script)
    assert script.answered(promise).topics[0].error_code == 0
    script.controller._replication.index = BrokersToIsrs()  # as if another controller had been the active one
    script.controller._become_active(script.controller._epoch)
    counts: dict[str, int] = {}
    _count(monkeypatch, BrokersToIsrs, "_add", counts)
    beat = script.controller.answer(BrokerHeartbeatRequest(broker_id=1, broker_epoch=-1), script.now)
    a_turn, is_done = [counts.pop("_add", 0)], False
    while not is_done:
        assert not beat.kept
        is_done = script.controller.poll(script.now) > script.now
        a_turn.append(counts.pop("_add", 0))
    assert sum(a_turn) <= MANY and max(a_turn) <= 9
    assert beat.value.error is not None and beat.value.error.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_heartbeat_looks_at_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={number: [1, 2] for number in range(MANY)}))
    looked: list[object] = []
    monkeypatch.setattr(BrokersToIsrs, "_add", lambda *arguments: looked.append(arguments))
    for name in ("concerned", "without_leader", "imbalanced"):
        monkeypatch.setattr(BrokersToIsrs, name, lambda *arguments: looked.append(arguments) or iter(()))
    monkeypatch.setattr(replication_control, "plan_partition_change", lambda *arguments, **named: looked.append(named))
    for _ in range(3):
        script.heartbeat(1)
    script.heartbeat(1, want_shut_down=False, want_fence=False)
    assert not looked


def test_a_replica_that_is_named_again_and_again_is_noted_once_for_each_directory() -> None:
    script = ControllerScript()
    script.register(1, log_dirs=[directory_id(101), directory_id(102)])
    script.heartbeat(1)
    script.create(new_topic("t", assignment={0: [1]}))
    broker, topic_id = script.image.brokers[1], script.image.topic_ids["t"]
    directory = AssignReplicasToDirsRequest.Directory

    def named(where: Uuid, times: int) -> Any:
        partitions = [directory.Topic.Partition(partition_index=0)] * times
        return directory(id=where, topics=[directory.Topic(topic_id=topic_id, partitions=partitions)])

    before = script.image.provenance.offset
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=broker.epoch,
        directories=[named(broker.directories[0], 300), named(broker.directories[1], 300)],
    )
    response = script.answered(script.controller.answer(request, script.now))
    assert [len(each.topics[0].partitions) for each in response.directories] == [300, 300]
    assert script.image.provenance.offset == before + 2
    assert script.partition("t").directories == (broker.directories[1],)
