"""Requests that pause: each step in a turn of its own, with the time of that turn, and dropped with their client."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.core import Promise, Steps
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProduceRequest
from pykraft.protocol.schema import Request
from pykraft.records.compression import Compression
from pykraft.server.turns import PARTS_PER_TURN, Turns
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch


def counting(count: int, seen: list[int], result: Any = "done") -> Steps[Any]:
    """Pauses `count` times, and notes the time of each turn."""
    for _ in range(count):
        now = yield
        seen.append(now)
    return result


def test_a_handler_that_does_not_pause_is_answered_as_a_plain_one() -> None:
    turns = Turns()
    assert turns.run(object(), counting(0, [])) == "done"
    assert len(turns) == 0


def test_each_step_has_a_turn_and_the_time_of_that_turn() -> None:
    turns, seen, other = Turns(), [], []
    answer, second = turns.run(object(), counting(2, seen)), turns.run(object(), counting(3, other))
    assert isinstance(answer, Promise) and isinstance(second, Promise)
    for now in (10, 20):
        assert not answer.kept
        turns.go_on(now)
    assert (answer.value, seen, other, second.kept) == ("done", [10, 20], [10, 20], False)
    turns.go_on(30)
    assert (second.value, len(turns)) == ("done", 0)


def test_a_handler_that_waits_after_its_last_step_is_answered_then() -> None:
    turns, waits = Turns(), Promise[str]()
    answer = turns.run(object(), counting(1, [], waits))
    turns.go_on(10)
    assert isinstance(answer, Promise) and not answer.kept and len(turns) == 0
    waits.keep("late")
    assert answer.value == "late"


def asking(question: Promise[str], seen: list[Any]) -> Steps[str]:
    """Waits for another's answer in the middle."""
    now = yield
    if not question.kept:
        now = yield question
    seen += [now, question.value]
    yield
    return "done"


def test_a_handler_goes_on_in_the_turn_after_its_question_is_answered() -> None:
    turns, question = Turns(), Promise[str]()
    seen: list[Any] = []
    answer = turns.run(object(), asking(question, seen))
    turns.go_on(10)
    assert len(turns) == 0, "a node with nothing to do must not be woken again and again"
    turns.go_on(20)
    assert not seen
    question.keep("yes")
    assert len(turns) == 1 and not seen
    turns.go_on(30)
    turns.go_on(40)
    assert isinstance(answer, Promise)
    assert (seen, answer.value) == ([30, "yes"], "done")


def test_a_client_that_hangs_up_does_not_want_the_answer_to_the_handlers_question() -> None:
    turns, question = Turns(), Promise[str]()
    seen: list[Any] = []
    answer = turns.run(object(), asking(question, seen))
    turns.go_on(10)
    assert isinstance(answer, Promise)
    answer.abandon()
    assert question.abandoned
    question.keep("yes")
    turns.go_on(20)
    assert not seen and len(turns) == 0


def test_a_client_that_hangs_up_takes_the_rest_of_its_request_along() -> None:
    turns, seen, waits = Turns(), [], Promise[str]()
    pausing, waiting = turns.run(object(), counting(5, seen)), turns.run(object(), counting(1, [], waits))
    turns.go_on(10)
    for answer in (pausing, waiting):
        assert isinstance(answer, Promise)
        answer.abandon()
    turns.go_on(20)
    assert (seen, len(turns), waits.abandoned) == ([10], 0, True)


def test_an_error_of_ours_is_not_swallowed() -> None:
    def broken() -> Steps[str]:
        yield
        raise AssertionError("impossible")

    turns = Turns()
    turns.run(object(), broken())
    with pytest.raises(AssertionError):
        turns.go_on(10)


MANY = range(3 * PARTS_PER_TURN)


def list_offsets() -> Request:
    partition = ListOffsetsRequest.Topic.Partition
    partitions = [partition(partition_index=number, timestamp=-1) for number in MANY]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name="t", partitions=partitions)])


def epochs() -> Request:
    topic = OffsetForLeaderEpochRequest.Topic
    partitions = [topic.Partition(partition=number, leader_epoch=0) for number in MANY]
    return OffsetForLeaderEpochRequest(topics=[topic(topic="t", partitions=partitions)])


def fetch() -> Request:
    partitions = [FetchRequest.Topic.Partition(partition=number, partition_max_bytes=1) for number in MANY]
    return FetchRequest(max_wait_ms=1000, min_bytes=1, topics=[FetchRequest.Topic(topic="t", partitions=partitions)])


def produce() -> Request:
    partitions = [ProduceRequest.Topic.Partition(index=number, records=memoryview(b"")) for number in MANY]
    return ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[ProduceRequest.Topic(name="t", partition_data=partitions)]
    )


@pytest.mark.parametrize(
    ("request_", "version", "answers"),
    [
        (list_offsets(), 7, lambda response: response.topics[0].partitions),
        (epochs(), 4, lambda response: response.topics[0].partitions),
        (fetch(), 12, lambda response: response.responses[0].partitions),
        (produce(), 9, lambda response: response.responses[0].partition_responses),
    ],
    ids=["list offsets", "epochs", "fetch", "produce"],
)
def test_a_request_for_many_partitions_lets_others_come_between(request_: Request, version: int, answers: Any) -> None:
    lone = LoneNode()
    slow = lone.handle(request_, version=version)
    assert not slow.kept and lone.node.poll(lone.now).deadline == lone.now, "it goes on at once"
    assert lone.handle(list_offsets().replace(topics=[])).kept
    lone.run()
    assert len(answers(slow.value.response)) == len(MANY)
    assert all(answer.error_code for answer in answers(slow.value.response))


def test_replicas_lost_while_a_batch_is_checked_refuse_the_batch() -> None:
    lone = LoneNode(broker_session_timeout_ms="60000")
    lone.join(2)
    topic = lone.create(replicas=(1, 2), min_insync_replicas="2")
    large = batch(2, size=1 << 20, key=b"k", compression=Compression.ZSTD)
    answer: Any = lone.produce(topic, large.buffer)
    assert not answer.kept and len(lone.node.dispatcher.turns) == 1, "the check pauses"
    partition = lone.broker.replicas.partitions[TopicPartition("t", 0)]
    partition.accept_isr(frozenset({1}), partition.partition_epoch + 1, lone.now)
    lone.run()
    (part,) = answer.value.response.responses[0].partition_responses
    assert (part.error_code, partition.log.log_end_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, 0)
