"""The sender of markers alone: to whom, together with what, and again until each leader has written its own."""

from __future__ import annotations

from typing import Any

from pykraft.broker.coordination.transaction_markers import PARTITIONS_PER_REQUEST, RETRY_BACKOFF_MS, TransactionMarkers
from pykraft.common.core import FOREVER, Failure, Outbound
from pykraft.common.errors import ErrorCode
from pykraft.common.rooms import Room
from pykraft.common.types import Node, TopicPartition, Uuid
from pykraft.coordinator.transaction.shard import Ending
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.protocol.messages.records import (
    NO_LEADER,
    Endpoint,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from pykraft.protocol.messages.transactions import WriteTxnMarkersResponse
from tests.harness.transactions import said, written

T, U = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
IDS = {"t": T, "u": U}


def broker(number: int) -> RegisterBrokerRecord:
    endpoint = Endpoint(name="PLAINTEXT", host="h", port=9000 + number, security_protocol=0)
    return RegisterBrokerRecord(
        broker_id=number,
        incarnation_id=Uuid(bytes(15) + bytes([number])),
        broker_epoch=number,
        end_points=[endpoint],
        features=[],
        rack=None,
        fenced=False,
    )


def partition(topic: str, leader: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=0,
        topic_id=IDS[topic],
        replicas=[1, 2],
        isr=[1, 2],
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=0,
    )


class Sender:
    """Markers of a coordinator in epoch 7; broker 1 leads t, broker 2 leads u."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.now = 0
        self.done: list[str] = []
        self.markers = TransactionMarkers(
            image=lambda: self.image,
            listener="PLAINTEXT",
            request_timeout_ms=1000,
            trace=lambda *_, **__: None,
            room=Room("transactions"),
        )
        topics = [TopicRecord(name=name, topic_id=topic_id) for name, topic_id in IDS.items()]
        self.change(broker(1), broker(2), *topics, partition("t", 1), partition("u", 2))

    def change(self, *records: Any) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.provenance)
        self.markers.on_new_image()

    def send(self, *places: str, name: str = "x", producer_id: int = 5, state_partition: int = 0) -> None:
        partitions = frozenset(TopicPartition(topic, 0) for topic in places)
        ending = Ending(name, producer_id, 3, True, 2, partitions, 0)
        self.markers.send(state_partition, 7, ending, lambda ending, now: self.done.append(ending.transactional_id))

    def poll(self) -> list[Outbound]:
        return list(self.markers.poll(self.now).requests)

    def rest(self) -> list[Outbound]:
        """What is sent after the pause."""
        assert self.poll() == []
        self.now += RETRY_BACKOFF_MS
        return self.poll()

    def answer(self, outbound: Outbound, **codes: ErrorCode) -> None:
        outbound.on_response(written(outbound.request, codes), self.now)


def test_each_leader_gets_the_markers_of_its_partitions() -> None:
    sender = Sender()
    sender.send("t", "u")
    to_1, to_2 = sender.poll()
    assert (to_1.destination, to_2.destination) == (Node(1, "h", 9001), Node(2, "h", 9002))
    assert said([to_1, to_2]) == [((5, 3), True, ["t"]), ((5, 3), True, ["u"])]
    (marker,) = to_1.request.markers
    assert (marker.coordinator_epoch, marker.transaction_version) == (7, 2)
    sender.answer(to_1)
    assert sender.markers.unmarked("x") == {TopicPartition("u", 0)}
    sender.answer(to_2)
    assert (sender.done, sender.markers.unmarked("x")) == (["x"], None)


def test_one_request_at_a_time_goes_to_a_leader() -> None:
    sender = Sender()
    sender.send("t", name="x")
    (first,) = sender.poll()
    sender.send("t", name="y", producer_id=6)
    sender.send("t", name="z", producer_id=8)
    assert sender.poll() == []
    sender.answer(first)
    (second,) = sender.poll()
    assert [marker.producer_id for marker in second.request.markers] == [6, 8]


def test_a_partition_that_has_moved_gets_its_marker_from_the_new_leader() -> None:
    sender = Sender()
    sender.send("t")
    (first,) = sender.poll()
    sender.change(PartitionChangeRecord(partition_id=0, topic_id=T, leader=2, isr=[2]))
    sender.answer(first, t=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    (second,) = sender.rest()
    assert second.destination.id == 2


def test_what_is_queued_for_a_leader_that_is_lost_goes_to_the_next_at_once() -> None:
    sender = Sender()
    sender.send("t", name="x")
    sender.poll()
    sender.send("t", name="y", producer_id=6)
    sender.change(PartitionChangeRecord(partition_id=0, topic_id=T, leader=2, isr=[2]))
    (sent,) = sender.poll()
    assert (sent.destination.id, [marker.producer_id for marker in sent.request.markers]) == (2, [6])


def test_a_partition_without_a_leader_waits_for_one() -> None:
    sender = Sender()
    sender.change(PartitionChangeRecord(partition_id=0, topic_id=T, leader=NO_LEADER))
    sender.send("t")
    assert (sender.poll(), sender.markers.poll(0).deadline) == ([], FOREVER)
    sender.change(PartitionChangeRecord(partition_id=0, topic_id=T, leader=2))
    assert [sent.destination.id for sent in sender.poll()] == [2]


def test_a_leader_that_is_fenced_is_waited_for() -> None:
    sender = Sender()
    sender.change(FenceBrokerRecord(id=1, epoch=1))
    sender.send("t")
    assert sender.poll() == []
    sender.change(UnfenceBrokerRecord(id=1, epoch=1))
    assert [sent.destination.id for sent in sender.poll()] == [1]


def test_a_partition_that_is_deleted_while_it_waits_needs_no_marker() -> None:
    sender = Sender()
    sender.send("t", "u")
    to_t, to_u = sender.poll()
    sender.answer(to_t)
    sender.change(RemoveTopicRecord(topic_id=U))
    sender.answer(to_u, u=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert sender.rest() == []
    assert sender.done == ["x"]


def test_only_the_partitions_that_were_refused_are_sent_again() -> None:
    sender = Sender()
    sender.change(PartitionChangeRecord(partition_id=0, topic_id=U, leader=1))
    sender.send("t", "u")
    (sent,) = sender.poll()
    sender.answer(sent, u=ErrorCode.NOT_ENOUGH_REPLICAS)
    (again,) = sender.rest()
    assert said([again]) == [((5, 3), True, ["u"])]


def test_each_error_that_a_leader_may_answer_is_dealt_with() -> None:
    given_up = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    needless = {ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION}
    for code in ErrorCode:
        sender = Sender()
        sender.send("t")
        (sent,) = sender.poll()
        sender.answer(sent, t=code)
        again = sender.rest()
        assert (bool(again), sender.done) == (code not in given_up | needless, ["x"] if code in needless else []), code


def test_an_answer_that_leaves_out_a_marker_is_no_acknowledgement() -> None:
    sender = Sender()
    sender.send("t")
    (sent,) = sender.poll()
    sent.on_response(WriteTxnMarkersResponse(markers=[]), sender.now)
    assert said(sender.rest()) == [((5, 3), True, ["t"])]


def test_a_coordinator_that_resigns_sends_nothing_more_and_hears_no_answer() -> None:
    sender = Sender()
    sender.send("t", name="x", state_partition=1)
    sender.send("t", name="y", producer_id=6)
    (sent,) = sender.poll()
    sender.send("u", name="z", producer_id=7, state_partition=1)
    sender.markers.stop(1)
    sent.on_response(Failure.DISCONNECTED, sender.now)
    (again,) = sender.rest()
    assert [marker.producer_id for marker in again.request.markers] == [6]
    assert sender.done == []


def test_a_transaction_without_partitions_is_marked_at_once() -> None:
    sender = Sender()
    sender.send()
    assert (sender.poll(), sender.done) == ([], ["x"])


def test_a_request_has_a_limit() -> None:
    sender = Sender()
    for number in range(PARTITIONS_PER_REQUEST + 10):
        sender.send("t", name=f"x{number}", producer_id=number)
    (first,) = sender.poll()
    sender.answer(first)
    (second,) = sender.poll()
    assert [len(sent.request.markers) for sent in (first, second)] == [PARTITIONS_PER_REQUEST, 10]
