"""What leaders and group coordinators answer transactional producers, and readers of committed data (KIP-98, 890)."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.messages.cluster import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, FindCoordinatorRequest
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.offsets import OffsetFetchRequest
from pykraft.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from pykraft.protocol.schema import Request
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import batch, fetch, list_offsets, produce, versions

READ_COMMITTED = 1
MADE_UP = 987_654
"""The id of a producer that there is not."""


def coordinator(talk: Dialogue, kind: int, name: str) -> int:
    request = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=[name])
    found = talk.until(1, request, 4, lambda answer: not answer.coordinators[0].error_code)
    node: int = found.coordinators[0].node_id
    return node


class Transactional:
    """A producer with a transactional id, and its coordinator. What it says to that is not written down."""

    def __init__(self, talk: Dialogue, name: str) -> None:
        self.talk, self.name = talk, name
        self.node = coordinator(talk, TRANSACTION_COORDINATOR, name)
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        given = talk.until(self.node, request, 5, lambda answer: not answer.error_code)
        self.producer_id, self.epoch = given.producer_id, given.producer_epoch

    def ask(self, request: Request, version: int) -> Any:
        return self.talk.until(self.node, request, version, lambda answer: not answer.error_code)

    def add(self, topic: str) -> None:
        kind = AddPartitionsToTxnRequest.Topic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[kind(name=topic, partitions=[0])],
        )

        def is_added(answer: Any) -> bool:
            topics = answer.results_by_topic_v3_and_below
            return not topics[0].results_by_partition[0].partition_error_code

        self.talk.until(self.node, request, 3, is_added)

    def add_offsets(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
        )
        self.ask(request, 4)

    def end(self, committed: bool, version: int = 5) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        given = self.ask(request, version)
        if version >= 5:
            self.producer_id, self.epoch = given.producer_id, given.producer_epoch

    def batch(self, topic: str, sequence: int = 0, **fields: Any) -> ProduceRequest:
        """A request with one transactional batch of two records."""
        producer = fields.pop("producer", (self.producer_id, self.epoch, sequence))
        name = fields.pop("transactional_id", self.name)
        return produce(topic, batch(2, producer=producer, transactional=True), transactional_id=name, acks=-1)


def wait_until_stable(talk: Dialogue, topic: str, offset: int) -> None:
    request = list_offsets(topic, -1, isolation_level=READ_COMMITTED)
    talk.until(1, request, 7, lambda answer: answer.topics[0].partitions[0].offset == offset)


def show_reads(talk: Dialogue, topic: str) -> None:
    """What readers find, and the aborted transactions in their answers; a producer's id differs from run to run."""
    for isolation_level in (0, READ_COMMITTED):
        talk.to().ask(list_offsets(topic, -1, isolation_level=isolation_level), 7, f"isolation {isolation_level}")
    answer = talk.until(1, fetch(topic, 0, isolation_level=READ_COMMITTED), 12, lambda _: True)
    part = answer.responses[0].partitions[0]
    aborted = [each.first_offset for each in part.aborted_transactions or ()]
    size = len(part.records or b"")
    talk.say(f"{size} bytes, stable up to {part.last_stable_offset} of {part.high_watermark}, aborted {aborted}")


def test_a_leader_adds_the_partition_for_new_clients(talk: Dialogue) -> None:
    talk.topic("txn-adds", configs={"segment.ms": 1 << 60})  # markers are years younger than the records
    me = Transactional(talk, "txn-adds")
    talk.to().ask(me.batch("txn-adds"), 12, "the first batch")
    talk.to().ask(me.batch("txn-adds", 2), 12, "the second")
    talk.to().ask(me.batch("txn-adds", 0), 12, "the first again")
    talk.to().ask(me.batch("txn-adds", 7), 12, "a gap")
    show_reads(talk, "txn-adds")
    me.end(committed=True)
    wait_until_stable(talk, "txn-adds", 5)
    show_reads(talk, "txn-adds")
    talk.to().ask(me.batch("txn-adds", 3), 12, "not from 0 on in the next transaction")
    talk.to().ask(me.batch("txn-adds"), 12, "the next transaction")
    me.end(committed=False)
    wait_until_stable(talk, "txn-adds", 8)
    show_reads(talk, "txn-adds")


def test_older_clients_add_their_partitions_themselves(talk: Dialogue) -> None:
    talk.topic("txn-verified")
    for version in (3, 7, 9, 10, 11):
        me = Transactional(talk, f"txn-verified-{version}")
        talk.to().ask(me.batch("txn-verified"), version, "not added")
        me.add("txn-verified")
        talk.to().ask(me.batch("txn-verified"), version, "added")
        talk.to().ask(me.batch("txn-verified", 2), version, "the second batch")
        me.end(committed=False, version=3)


def test_what_belongs_to_no_transaction_is_refused(talk: Dialogue) -> None:
    talk.topic("txn-refused")
    me, other = Transactional(talk, "txn-refused"), Transactional(talk, "txn-other")
    for version in (11, 12):
        talk.to().ask(me.batch("txn-refused", transactional_id=None), version, "no transactional id")
        talk.to().ask(
            me.batch("txn-refused", producer=(other.producer_id, other.epoch, 0)), version, "another's producer id"
        )
        talk.to().ask(me.batch("txn-refused", producer=(me.producer_id, me.epoch + 1, 0)), version, "a higher epoch")
        talk.to().ask(me.batch("txn-refused", producer=(MADE_UP, 0, 0)), version, "an id that there is not")
        talk.to().ask(me.batch("unknown"), version, "a topic that there is not")
    talk.to().ask(produce("txn-refused", batch(1), transactional_id="txn-refused"), 12, "no transactional batch")
    plain = batch(1, producer=(me.producer_id, me.epoch, 0))
    talk.to().ask(me.batch("txn-refused"), 12, "a transaction")
    talk.to().ask(produce("txn-refused", plain, transactional_id="txn-refused"), 12, "a batch outside of it")


def test_a_zombie_is_fenced_by_its_leader(talk: Dialogue) -> None:
    talk.topic("txn-zombie")
    zombie = Transactional(talk, "txn-zombie")
    talk.to().ask(zombie.batch("txn-zombie"), 12, "before")
    Transactional(talk, "txn-zombie")
    wait_until_stable(talk, "txn-zombie", 3)
    for version in (10, 11, 12):
        talk.to().ask(zombie.batch("txn-zombie", 2), version, "after")


def markers(producer_id: int, epoch: int, *topics: tuple[str, list[int]], **fields: Any) -> WriteTxnMarkersRequest:
    kind = WriteTxnMarkersRequest.Marker
    marker = kind(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=True,
        topics=[kind.Topic(name=name, partition_indexes=numbers) for name, numbers in topics],
        coordinator_epoch=0,
    )
    return WriteTxnMarkersRequest(markers=[marker.replace(**fields)])


def test_markers_are_written_where_they_can_be(talk: Dialogue) -> None:
    talk.topic("txn-markers", ((1,), (2,)))
    here = ("txn-markers", [0])
    for version in (1, 2):
        talk.to().ask(WriteTxnMarkersRequest(markers=[]), version, "none")
        talk.to().ask(markers(MADE_UP, 0, here), version, "one")
        talk.to().ask(markers(MADE_UP, 0, ("txn-markers", [1])), version, "led elsewhere")
        talk.to().ask(markers(MADE_UP, 0, ("txn-markers", [9])), version, "no such partition")
        talk.to().ask(markers(MADE_UP, 0, ("unknown", [0])), version, "no such topic")
    talk.to().ask(markers(MADE_UP, 3, here, coordinator_epoch=5), 1, "a higher epoch")
    talk.to().ask(markers(MADE_UP, 2, here, coordinator_epoch=5), 1, "a lower epoch")
    talk.to().ask(markers(MADE_UP, 3, here, coordinator_epoch=4), 1, "a lower coordinator epoch")
    talk.to().ask(markers(MADE_UP, 3, here, coordinator_epoch=5, transaction_version=2), 2, "repeated, version 2")
    talk.to().ask(markers(MADE_UP, 2, here, coordinator_epoch=5, transaction_version=2), 2, "late, version 2")
    talk.to().ask(list_offsets("txn-markers", -1), 7)


def test_a_marker_must_have_a_higher_epoch_than_the_records(talk: Dialogue) -> None:
    talk.topic("txn-epochs")
    me = Transactional(talk, "txn-epochs")
    talk.to().ask(me.batch("txn-epochs"), 12)
    for version, transaction_version in ((2, 2), (2, 1)):
        request = markers(me.producer_id, me.epoch, ("txn-epochs", [0]), transaction_version=transaction_version)
        answer = talk.until(1, request, version, lambda _: True)
        code = answer.markers[0].topics[0].partitions[0].error_code
        talk.say(f"transaction.version {transaction_version}: {ErrorCode.of(code).name}")
    talk.to().ask(list_offsets("txn-epochs", -1, isolation_level=READ_COMMITTED), 7)


def test_producers_are_described_by_the_leader(talk: Dialogue) -> None:
    talk.topic("txn-described", ((1,), (2,)))
    kind = DescribeProducersRequest.Topic

    def asked(name: str, *numbers: int) -> DescribeProducersRequest:
        return DescribeProducersRequest(topics=[kind(name=name, partition_indexes=list(numbers))])

    talk.to().ask(asked("txn-described", 0), 0, "none yet")
    talk.to().ask(markers(MADE_UP, 2, ("txn-described", [0]), coordinator_epoch=4), 1)
    described = talk.until(1, asked("txn-described", 0), 0, lambda _: True)
    (one,) = described.topics[0].partitions[0].active_producers
    talk.say(f"epoch {one.producer_epoch}, sequence {one.last_sequence}, coordinator epoch {one.coordinator_epoch}")
    talk.say(f"open since {one.current_txn_start_offset}")
    for name, number in (("txn-described", 1), ("txn-described", 9), ("unknown", 0), ("a b", 0)):
        response = talk.until(1, asked(name, number), 0, lambda _: True)
        part = response.topics[0].partitions[0]
        talk.say(f"{name} {number}: {ErrorCode.of(part.error_code).name}, a producer: {bool(part.active_producers)}")


def offsets(me: Transactional, topic: str, offset: int, **fields: Any) -> TxnOffsetCommitRequest:
    kind = TxnOffsetCommitRequest.Topic
    part = kind.Partition(partition_index=0, committed_offset=offset, committed_metadata=fields.pop("metadata", ""))
    request = TxnOffsetCommitRequest(
        transactional_id=me.name,
        group_id=fields.pop("group", "txn-group"),
        producer_id=me.producer_id,
        producer_epoch=me.epoch,
        topics=[kind(name=topic, topic_id=fields.pop("topic_id", ZERO_UUID), partitions=[part])],
    )
    return request.replace(**fields)


def committed(group: str, topic: str, require_stable: bool) -> OffsetFetchRequest:
    kind = OffsetFetchRequest.Group
    asked = kind(group_id=group, topics=[kind.Topic(name=topic, partition_indexes=[0])])
    return OffsetFetchRequest(groups=[asked], require_stable=require_stable)


def commit(talk: Dialogue, node: int, request: TxnOffsetCommitRequest, version: int) -> str:
    """The name of the error, once the group's coordinator is loaded."""

    def error_of(answer: Any) -> ErrorCode:
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)

    loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    return error_of(talk.until(node, request, version, lambda answer: error_of(answer) not in loading)).name


def fetched(talk: Dialogue, node: int, group: str, topic: str) -> Any:
    """What is committed for partition 0, or why that is not known yet."""

    def is_loaded(answer: Any) -> bool:
        return bool(answer.groups[0].topics)

    answer = talk.until(node, committed(group, topic, True), 9, is_loaded)
    part = answer.groups[0].topics[0].partitions[0]
    return ErrorCode.of(part.error_code).name if part.error_code else part.committed_offset


@pytest.mark.newest
def test_offsets_of_a_transaction(talk: Dialogue) -> None:
    topic_id = talk.topic("txn-offsets")
    group = "txn-group"
    node = coordinator(talk, GROUP_COORDINATOR, group)
    for version in versions(TxnOffsetCommitRequest):
        me = Transactional(talk, f"txn-offsets-{version}")
        if version < 5:
            talk.say(f"version {version}, not added: {commit(talk, node, offsets(me, 'txn-offsets', 1), version)}")
            me.add_offsets(group)
        request = offsets(me, "txn-offsets", version + 10, topic_id=topic_id)
        talk.say(f"version {version}: {commit(talk, node, request, version)}")
        talk.say(f"version {version}, before the end: {fetched(talk, node, group, 'txn-offsets')}")
        me.end(committed=version % 2 == 1, version=3 if version < 5 else 5)
        answer_that_is_stable(talk, node, group)
        talk.say(f"version {version}, after the end: {fetched(talk, node, group, 'txn-offsets')}")


def answer_that_is_stable(talk: Dialogue, node: int, group: str) -> None:
    """Wait for the marker."""

    def is_stable(answer: Any) -> bool:
        topics = answer.groups[0].topics
        return bool(topics) and not topics[0].partitions[0].error_code

    talk.until(node, committed(group, "txn-offsets", True), 9, is_stable)


@pytest.mark.newest
def test_offsets_that_are_refused(talk: Dialogue) -> None:
    topic_id = talk.topic("txn-bad-offsets")
    node = coordinator(talk, GROUP_COORDINATOR, "txn-bad")
    me = Transactional(talk, "txn-bad-offsets")
    said = {
        "a generation without a group": {"generation_id_or_member_epoch": 5, "member_id": "m"},
        "an empty group id": {"group": ""},
        "a long text": {"metadata": "x" * 5000},
        "another's producer id": {"producer_id": MADE_UP},
        "a higher epoch": {"producer_epoch": me.epoch + 1},
        "an unknown transactional id": {"transactional_id": "txn-nobody"},
    }
    for says, fields in said.items():
        for version in (3, 4, 5, 6):
            request = offsets(me, "txn-bad-offsets", 1, topic_id=topic_id, **{"group": "txn-bad", **fields})
            talk.say(f"{says}, version {version}: {commit(talk, node, request, version)}")
    request = offsets(me, "unknown", 1, group="txn-bad")
    talk.say(f"no such topic: {commit(talk, node, request, 5)}")
    for says, unknown in (("no such id", Uuid(bytes(15) + b"\x07")), ("no id", ZERO_UUID)):
        request = offsets(me, "txn-bad-offsets", 1, group="txn-bad", topic_id=unknown)
        talk.say(f"{says}: {commit(talk, node, request, 6)}")
