"""Requests that are lists: a slice of their items in each turn, with the time of that turn; and what becomes of the
rest when a client leaves, a leader changes, or a handler fails."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer, Dispatcher, Handled
from pykraft.broker.requests.long_answers import ENCODED_AT_ONCE
from pykraft.broker.turns.slices import MAX_ANSWER_BYTES, ItemByItem, Weights
from pykraft.common.core import Promise, Steps, finish, gather
from pykraft.common.errors import ErrorCode
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.time_slice import SLICE_US, ClockSlice
from pykraft.common.trace import RingBuffer, Tracer
from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProduceRequest
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.protocol.messages.transactions import AddPartitionsToTxnRequest
from pykraft.protocol.schema import Request, encode_in_steps
from pykraft.records.compression import Compression
from pykraft.transport.server_channel import InboundRequest, RequestContext
from tests.harness.controllers import make, new_topic
from tests.harness.lone_node import LoneNode
from tests.harness.storage import CountedSlice, ManualClock, batch
from tests.harness.transactional_node import TransactionalNode


def respond(answers: list[Any], now: int) -> MetadataResponse:
    return MetadataResponse(brokers=[], topics=[], cluster_id=",".join(map(str, answers)))


class Asked:
    """A dispatcher whose only handler returns what the test wants, and the answers to its requests. A slice is over
    after two items."""

    def __init__(self, length: int = 2) -> None:
        self.journal = RingBuffer()
        self.now = 0
        self.dispatcher = Dispatcher(
            None,
            ManualClock(),
            now=lambda: self.now,
            time_slice=CountedSlice(length),
            fault_handler=FaultHandler(Tracer(1, self.journal)),
        )
        self.dispatcher.serve(ListenerKind.BROKER, self, {MetadataRequest: Asked.handle})
        self._handled: Any = None

    def handle(self, request: Request, context: RequestContext, now: int) -> Handled:
        handled: Handled = self._handled
        return handled

    def ask(self, handled: Handled) -> Promise[Answer]:
        self._handled = handled
        context = RequestContext("c", "L", ListenerKind.BROKER, "User:u", "me", "127.0.0.1", 3, 12, 1, 200)
        answer = self.dispatcher.handle(InboundRequest(context, MetadataRequest(topics=[])), self.now)
        return answer if isinstance(answer, Promise) else Promise.of(answer)

    def turn(self) -> None:
        self.now += 10
        self.dispatcher.slices.go_on(self.now)


def text(answer: Promise[Answer]) -> str | None:
    """What the answers of the items were put together to; None while there is no answer."""
    response: Any = answer.value.response if answer.kept else None
    return None if response is None else response.cluster_id


def test_a_list_that_fits_into_a_slice_is_answered_at_once() -> None:
    asked = Asked(length=3)
    assert text(asked.ask(ItemByItem("abc", lambda item, now: item * 2, respond))) == "aa,bb,cc"
    assert text(asked.ask(ItemByItem((), lambda item, now: item, respond))) == ""
    assert len(asked.dispatcher.slices) == 0


def test_a_longer_list_goes_on_in_the_next_turn_with_the_time_of_that_turn() -> None:
    asked = Asked()
    answer = asked.ask(ItemByItem("abcde", lambda item, now: f"{item}{now}", respond))
    assert not answer.kept and len(asked.dispatcher.slices) == 1
    asked.turn()
    assert not answer.kept
    asked.turn()
    assert (text(answer), len(asked.dispatcher.slices)) == ("a0,b0,c10,d10,e20", 0)


def test_all_interrupted_requests_together_have_one_slice_in_a_turn_and_take_turns() -> None:
    asked, done = Asked(), []
    for name in "xyz":
        asked.ask(ItemByItem(range(6), lambda item, now, name=name: done.append(name), respond))
    del done[:]
    for _ in range(6):
        asked.turn()
    assert "".join(done) == "xxyyzzxxyyzz"


def test_a_slice_is_over_when_its_time_is() -> None:
    clock = ManualClock()
    time_slice = ClockSlice(clock)
    time_slice.begin()
    clock.now_us += SLICE_US - 1
    assert not time_slice.is_over()
    clock.now_us += 1
    assert time_slice.is_over()
    time_slice.begin()
    assert not time_slice.is_over()


def in_steps(count: int, seen: list[int]) -> Steps[str]:
    for _ in range(count):
        now = yield
        seen.append(now)
    return "done"


def test_an_item_may_take_steps_and_is_interrupted_between_them() -> None:
    asked, seen = Asked(), []
    answer = asked.ask(ItemByItem((5, 0), lambda count, now: in_steps(count, seen), respond))
    turns = 0
    while not answer.kept:
        asked.turn()
        turns += 1
    assert (text(answer), turns) == ("done,done", 3)
    assert seen == [0, 10, 10, 20, 20]


def test_what_is_put_together_may_be_a_list_or_a_promise_again() -> None:
    asked, question = Asked(), Promise[str]()
    second = ItemByItem("xyz", lambda item, now: f"{item}{now}", respond)
    answer = asked.ask(ItemByItem("ab", lambda item, now: item, lambda _, now: question.map(lambda _: second)))
    assert not answer.kept and len(asked.dispatcher.slices) == 0, "a node with nothing to do must not be woken"
    asked.now = 5
    question.keep("yes")
    asked.turn()
    assert text(answer) == "x5,y15,z15"


def test_a_client_that_hangs_up_takes_the_rest_of_a_read_along() -> None:
    asked, done, question = Asked(), [], Promise[Any]()
    pausing, waiting = (
        asked.ask(ItemByItem(range(9), lambda item, now: done.append(item), respond)),
        asked.ask(question),
    )
    pausing.abandon()
    waiting.abandon()
    asked.turn()
    assert (done, len(asked.dispatcher.slices), question.abandoned) == ([0, 1], 0, True)


def test_a_write_is_done_to_its_end_though_its_client_hangs_up() -> None:
    asked, done = Asked(), []
    answer = asked.ask(ItemByItem(range(9), lambda item, now: done.append(item), respond, is_write=True))
    answer.abandon()
    for _ in range(9):
        asked.turn()
    assert (done, len(asked.dispatcher.slices), answer.kept) == (list(range(9)), 0, False)


@pytest.mark.survives_faults
@pytest.mark.parametrize("place", ["handler", "item", "step", "later item", "gather", "promise", "one promise of two"])
def test_a_fault_costs_its_request_and_nothing_else(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("planted")

    def broken_step() -> Steps[None]:
        yield
        broken()

    source: Promise[int] = Promise()
    later = source.map(broken if "promise" in place else str)
    other = asked.ask(ItemByItem("abc", lambda item, now: item, respond))
    if place == "handler":
        monkeypatch.setattr(asked, "_handled", None)
        asked.dispatcher._handlers[ListenerKind.BROKER, MetadataRequest] = broken
        answer = asked.ask(None)
    else:
        handled = {
            "item": ItemByItem((1,), broken, respond),
            "step": ItemByItem((1,), lambda *_: broken_step(), respond),
            "later item": ItemByItem(range(4), lambda item, _: broken() if item == 3 else item, respond),
            "gather": ItemByItem((1, 2, 3), lambda item, _: item, broken),
            "promise": later,
            "one promise of two": later if place == "promise" else gather([Promise(), later]),
        }[place]
        answer = asked.ask(handled)
        source.keep(7)
    for _ in range(3):
        asked.turn()
    response: Any = answer.value.response
    assert response is not None and text(other) == "a,b,c" and len(asked.dispatcher.slices) == 0
    (event,) = [event for event in asked.journal.events if event.name == "fault"]
    assert "planted" in str(event) and "ZeroDivisionError" in event.fields["traceback"]


def test_an_answer_that_would_be_too_large_is_refused_before_the_rest_of_it_is_built() -> None:
    asked, built = Asked(length=100), []

    def build(item: int, now: int) -> int:
        built.append(item)
        return item

    half = MAX_ANSWER_BYTES // 2
    answer = asked.ask(ItemByItem(range(100), build, respond, weigh=lambda _: half))
    assert answer.kept and built == [0, 1, 2]
    assert text(asked.ask(ItemByItem(range(2), build, respond, weigh=lambda _: half))) == "0,1"


def test_an_answer_about_many_items_is_encoded_in_slices_to_the_same_bytes() -> None:
    asked = Asked(length=250)

    def together(answers: list[int], now: int) -> MetadataResponse:
        topics = [MetadataResponse.Topic(name=f"t{number}", partitions=[]) for number in answers]
        return MetadataResponse(brokers=[], topics=topics)

    answer = asked.ask(ItemByItem(range(8_000), lambda item, now: item, together))
    for _ in range(31):
        asked.turn()
    assert not answer.kept, "the items are answered, and the bytes are not all there"
    for _ in range(10):
        asked.turn()
    found = answer.value
    assert found.body is not None and found.response is not None
    assert b"".join(found.body) == found.response.to_bytes(12)


@pytest.mark.costly
def test_an_answer_with_ids_is_encoded_into_few_parts() -> None:
    topics = [
        MetadataResponse.Topic(name=f"t{number}", topic_id=Uuid(number.to_bytes(16, "big")), partitions=[])
        for number in range(3_000)
    ]
    answer = MetadataResponse(brokers=[], topics=topics)
    parts = finish(encode_in_steps(answer, 12))
    assert len(parts) < 300 and b"".join(parts) == answer.to_bytes(12)


MANY = range(1500)


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


def test_a_heartbeat_that_names_many_topics_looks_them_up_in_slices() -> None:
    lone = TransactionalNode().lone
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t", *map(str, MANY)],
        topic_partitions=[],
    )
    answer = lone.handle(heartbeat, version=1)
    assert not answer.kept and len(lone.node.dispatcher.slices) == 1
    lone.run()
    response: Any = answer.value.response
    assert (response.error_code, response.member_epoch) == (0, 1)
    assert [part.partitions for part in response.assignment.topic_partitions] == [[0]]


@pytest.mark.parametrize("version", [3, 5])
def test_the_partitions_of_a_transaction_are_looked_at_in_slices_and_added_whole_or_not_at_all(version: int) -> None:
    lone = LoneNode()
    lone.create(TRANSACTION_TOPIC)
    lone.create()
    lone.run(50)
    topics = [AddPartitionsToTxnRequest.Topic(name="t", partitions=[0, *MANY])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="mine",
        v3_and_below_topics=topics,
        transactions=[AddPartitionsToTxnRequest.Transaction(transactional_id="mine", topics=topics)],
    )
    answer: Any = lone.handle(request, version=version)
    assert not answer.kept and len(lone.node.dispatcher.slices) == 1
    lone.run(50)
    response = answer.value.response
    topic_results = response.results_by_transaction[0].topic_results if version > 3 else None
    (found,) = topic_results or response.results_by_topic_v3_and_below
    codes = [each.partition_error_code for each in found.results_by_partition]
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (len(MANY) - 1)


def test_members_that_leave_by_the_thousand_leave_some_at_a_time() -> None:
    lone = LoneNode(
        offsets_topic_num_partitions="1",
        offsets_topic_replication_factor="1",
        group_initial_rebalance_delay_ms="0",
    )
    lone.handle(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), version=4)
    lone.run(2000)
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    join = JoinGroupRequest(group_id="g", session_timeout_ms=60_000, protocol_type="consumer", protocols=[protocol])
    member = lone.ask(join, version=3).member_id
    lone.time_slice.length = 1
    leaving = LeaveGroupRequest.Member
    names = [*(f"stranger-{number}" for number in range(1200)), member]
    answer: Any = lone.handle(LeaveGroupRequest(group_id="g", members=[leaving(member_id=name) for name in names]))
    assert not answer.kept and len(lone.node.dispatcher.slices) == 1
    lone.run(500)
    response = answer.value.response
    assert [each.member_id for each in response.members] == names
    assert [each.error_code for each in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 1200 + [ErrorCode.NONE]
    (group,) = lone.ask(DescribeGroupsRequest(groups=["g"])).groups
    assert not group.members and group.group_state == "Empty"


def test_a_list_of_very_many_groups_is_encoded_in_steps() -> None:
    lone = LoneNode(offsets_topic_num_partitions="2", offsets_topic_replication_factor="1")
    lone.create()
    lone.handle(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), version=4)
    lone.run(2000)
    topic = OffsetCommitRequest.Topic
    offset = topic(name="t", partitions=[topic.Partition(partition_index=0, committed_offset=1)])
    for number in range(ENCODED_AT_ONCE + 1):
        lone.handle(OffsetCommitRequest(group_id=f"group-{number}", topics=[offset]), version=9)
    lone.run()
    answer: Any = lone.handle(ListGroupsRequest())
    lone.run(500)
    assert len(answer.value.response.groups) == ENCODED_AT_ONCE + 1 and answer.value.body is not None


def test_replicas_lost_while_a_batch_is_checked_refuse_the_batch() -> None:
    lone = LoneNode(broker_session_timeout_ms="60000")
    lone.join(2)
    topic = lone.create(replicas=(1, 2), min_insync_replicas="2")
    large = batch(2, size=1 << 20, key=b"k", compression=Compression.ZSTD)
    lone.time_slice.length = 1
    answer: Any = lone.produce(topic, large.buffer)
    assert not answer.kept and len(lone.node.dispatcher.slices) == 1, "the check pauses"
    partition = lone.broker.replicas.partitions[TopicPartition("t", 0)]
    partition.accept_isr(frozenset({1}), partition.partition_epoch + 1, lone.now)
    lone.run()
    (part,) = answer.value.response.responses[0].partition_responses
    assert (part.error_code, partition.log.log_end_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, 0)


def large_batch() -> Any:
    """A batch whose check takes steps."""
    return batch(2, size=1 << 20, key=b"k", compression=Compression.ZSTD)


def produce_error(answer: Any) -> ErrorCode:
    (part,) = answer.value.response.responses[0].partition_responses
    return ErrorCode.of(part.error_code)


def test_a_leader_epoch_that_changes_while_a_batch_is_checked_refuses_the_batch() -> None:
    lone = LoneNode()
    topic = lone.create()
    lone.time_slice.length = 1
    answer: Any = lone.produce(topic, large_batch().buffer)
    assert not answer.kept, "the check pauses"
    partition = lone.broker.replicas.partitions[TopicPartition("t", 0)]
    partition.leader_epoch += 1
    lone.run()
    assert (produce_error(answer), partition.log.log_end_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


def test_a_batch_for_a_topic_that_is_made_again_while_it_is_checked_is_not_appended_to_the_new_one() -> None:
    lone = LoneNode()
    lone.time_slice.length = 1
    answer: Any = lone.produce(lone.create(), large_batch().buffer)
    assert not answer.kept, "the check pauses"
    lone.time_slice.length = 500
    waiting = list(lone.node.dispatcher.slices._paused)
    lone.node.dispatcher.slices._paused.clear()
    lone.ask(DeleteTopicsRequest(topic_names=["t"]), version=5)
    lone.create()
    for work in waiting:
        lone.node.dispatcher.slices.pause(work)
    lone.run()
    log = lone.broker.replicas.partitions[TopicPartition("t", 0)].log
    assert (produce_error(answer), log.log_end_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, 0)


def test_a_produce_to_many_partitions_is_appended_whole_though_its_client_leaves_in_the_middle() -> None:
    lone = LoneNode()
    topic_made = new_topic("t", assignment={number: [1] for number in range(9)})
    assert not lone.ask(make(topic_made), ListenerKind.CONTROLLER).topics[0].error_code
    lone.run()
    parts = [ProduceRequest.Topic.Partition(index=number, records=batch().buffer) for number in range(9)]
    topic = ProduceRequest.Topic(name="t", partition_data=parts)
    lone.time_slice.length = 4
    answer = lone.handle(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), version=9)
    partitions = lone.broker.replicas.partitions
    ends = [0]
    while sum(ends) == 0:
        lone.node.poll(lone.now)
        ends = [partitions[TopicPartition("t", number)].log.log_end_offset for number in range(9)]
    assert 0 < sum(ends) < 9
    answer.abandon()
    lone.run()
    assert [partitions[TopicPartition("t", number)].log.log_end_offset for number in range(9)] == [1] * 9


def test_the_same_part_of_an_answer_weighs_the_same_each_time_and_about_as_much_as_its_bytes() -> None:
    weights = Weights()
    topics = [MetadataResponse.Topic(name=f"topic {number}", partitions=[]) for number in range(50)]
    response = MetadataResponse(brokers=[], topics=topics)
    size = len(response.to_bytes(8))
    assert size / 2 < weights(response) < size * 2
    assert sum(weights(response) for _ in range(3)) == 3 * weights(response)


def test_a_group_that_is_named_again_and_again_is_described_once_and_too_large_an_answer_is_refused() -> None:
    lone = LoneNode()
    found = lone.ask(DescribeGroupsRequest(groups=["g"] * 2_000))
    assert len(found.groups) == 2_000 and len({id(group) for group in found.groups}) == 1
