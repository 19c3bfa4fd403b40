"""What a leader does with transactional batches: it asks the coordinator first, and appends what belongs to an open
transaction (KIP-98, KIP-890). The test plays the coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.transactions import AddPartitionsToTxnRequest
from tests.harness import asking
from tests.harness.storage import produced
from tests.harness.transactional_node import T, TransactionalNode, produced_error

ADDING, VERIFYING, OLDER = 12, 11, 10
"""Versions of Produce: its client lets the leader add the partition; knows TRANSACTION_ABORTABLE; does not."""


def batch(sequence: int = 0, epoch: int = 0, producer_id: int = 7) -> Any:
    return produced(producer_id, sequence, epoch=epoch, transactional=True)


@pytest.fixture
def node() -> TransactionalNode:
    return TransactionalNode()


@pytest.mark.parametrize("version", [3, OLDER, VERIFYING, ADDING, 13])
def test_the_first_batch_waits_for_the_coordinator_and_the_next_ones_do_not(
    node: TransactionalNode, version: int
) -> None:
    first = node.produce(batch(0), version)
    question = node.asked()
    request: AddPartitionsToTxnRequest = question.request
    transaction = request.transactions[0]
    assert question.destination.id == 2
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("mine", 7, 0)
    assert transaction.verify_only is (version < ADDING)
    assert [(topic.name, list(topic.partitions)) for topic in transaction.topics] == [("t", [0])]
    assert not first.kept and node.log().log_end_offset == 0
    node.answer(question)
    assert produced_error(first) is ErrorCode.NONE
    assert produced_error(node.produce(batch(1), version)) is ErrorCode.NONE
    assert not node.is_asking
    assert node.log().log_end_offset == 2 and node.log().last_stable_offset == 0


def test_after_the_marker_the_next_transaction_is_verified_anew(node: TransactionalNode) -> None:
    node.produce(batch(0))
    node.answer(node.asked())
    assert set(node.markers((7, 1, True)).values()) == {ErrorCode.NONE}
    assert node.log().last_stable_offset == 2
    again = node.produce(batch(0, epoch=1))
    node.answer(node.asked())
    assert produced_error(again) is ErrorCode.NONE


@pytest.mark.costly
@pytest.mark.parametrize(
    ("error", "older", "verifying", "adding"),
    [
        ("INVALID_TXN_STATE", "INVALID_TXN_STATE", "INVALID_TXN_STATE", "INVALID_TXN_STATE"),
        ("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE"),
        ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH"),
        ("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH"),
        ("NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"),
        ("CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", None),
        ("INVALID_PRODUCER_ID_MAPPING", *["INVALID_PRODUCER_ID_MAPPING"] * 3),
    ],
)
def test_a_coordinators_no_is_told_in_words_that_the_client_knows(
    error: str, older: str, verifying: str, adding: str | None
) -> None:
    for version, expected in ((OLDER, older), (VERIFYING, verifying), (ADDING, adding)):
        if expected is None:
            continue
        node = TransactionalNode()
        answer = node.produce(batch(), version)
        node.answer(node.asked(), ErrorCode[error])
        assert produced_error(answer) is ErrorCode[expected], (version, error)
        assert node.log().log_end_offset == 0


def test_a_coordinator_that_cannot_be_reached_or_refuses_the_leader_means_try_again(node: TransactionalNode) -> None:
    lost = node.produce(batch())
    node.answer(node.asked(), Failure.DISCONNECTED)
    assert produced_error(lost) is ErrorCode.NOT_ENOUGH_REPLICAS
    refused = node.produce(batch())
    node.answer(node.asked(), whole=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert produced_error(refused) is ErrorCode.INVALID_TXN_STATE
    old = node.produce(batch())
    node.answer(node.asked(), Failure.UNSUPPORTED_VERSION)
    assert produced_error(old) is ErrorCode.NONE, "a coordinator that cannot verify is not asked"


def test_without_a_coordinator_nothing_is_appended() -> None:
    node = TransactionalNode()
    node.lone.run(70_000)
    assert node.lone.node.loader.image.brokers[2].fenced
    assert produced_error(node.produce(batch())) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_the_leader_asks_again_while_the_last_transaction_is_being_completed(node: TransactionalNode) -> None:
    answer = node.produce(batch())
    node.answer(node.asked(), ErrorCode.CONCURRENT_TRANSACTIONS)
    assert not answer.kept and not node.is_asking
    node.lone.run(20)
    node.answer(node.asked())
    assert produced_error(answer) is ErrorCode.NONE


def test_it_gives_up_asking_after_the_time_that_is_set(node: TransactionalNode) -> None:
    answer = node.produce(batch())
    began = node.lone.now
    while not answer.kept:
        node.answer(node.asked(), ErrorCode.CONCURRENT_TRANSACTIONS)
        node.lone.run(20)
        assert node.lone.now - began < 1000
    assert produced_error(answer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.lone.now - began >= 100


def test_a_late_answer_cannot_open_a_transaction_after_its_abort(node: TransactionalNode) -> None:
    late = node.produce(batch(0), VERIFYING)
    question = node.asked()
    node.markers((7, 0, False), transaction_version=0)
    node.answer(question)
    assert produced_error(late) is ErrorCode.INVALID_TXN_STATE
    assert node.log().producer_state.first_unstable_offset is None


def test_a_late_answer_does_not_serve_for_the_verification_of_the_next_transaction(node: TransactionalNode) -> None:
    late = node.produce(batch(0), VERIFYING)
    first = node.asked()
    node.markers((7, 0, False), transaction_version=0)
    node.produce(batch(1), VERIFYING)  # of the next transaction, which does not have the partition
    node.answer(first)
    assert produced_error(late) is ErrorCode.INVALID_TXN_STATE
    node.answer(node.asked(), ErrorCode.INVALID_TXN_STATE)
    assert node.log().producer_state.first_unstable_offset is None


def test_a_client_that_sends_again_replaces_its_question_and_a_lower_epoch_is_fenced(node: TransactionalNode) -> None:
    busy = node.produce(batch(producer_id=1), transactional_id="other")
    under_way = node.asked()  # one request at a time: the questions below wait for it
    first = node.produce(batch(epoch=1))
    again = node.produce(batch(epoch=1))
    assert produced_error(first) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert produced_error(node.produce(batch(epoch=0))) is ErrorCode.INVALID_PRODUCER_EPOCH
    newer = node.produce(batch(epoch=2))
    assert produced_error(again) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not node.is_asking
    node.answer(under_way)
    node.answer(node.asked())
    assert produced_error(busy) is produced_error(newer) is ErrorCode.NONE


def test_questions_that_come_up_meanwhile_go_into_one_request(node: TransactionalNode) -> None:
    answers = [node.produce(batch(producer_id=1), transactional_id="a")]
    under_way = node.asked()
    answers += [node.produce(batch(producer_id=n), transactional_id=f"b{n}") for n in (2, 3)]
    node.answer(under_way)
    question = node.asked()
    assert [each.transactional_id for each in question.request.transactions] == ["b2", "b3"]
    node.answer(question)
    assert {produced_error(answer) for answer in answers} == {ErrorCode.NONE}


def test_a_client_that_hangs_up_while_it_is_verified_leaves_nothing_behind(node: TransactionalNode) -> None:
    answer = node.produce(batch())
    question = node.asked()
    answer.abandon()
    node.answer(question)
    assert node.log().log_end_offset == 0
    assert len(node.lone.node.dispatcher.slices) == 0


def test_with_verification_off_only_new_clients_are_asked_about() -> None:
    node = TransactionalNode(transaction_partition_verification_enable="false")
    assert produced_error(node.produce(batch(), VERIFYING)) is ErrorCode.NONE
    assert not node.is_asking
    node.produce(batch(producer_id=8), ADDING)
    assert not node.asked().request.transactions[0].verify_only


def change(node: TransactionalNode, broker: str, name: str, value: str | None) -> None:
    """Set a setting of this broker, or of all; None takes it away."""
    answer = node.lone.ask(
        asking.change((asking.BROKER, broker, [(name, asking.DELETE if value is None else asking.SET, value)]))
    )
    assert not answer.responses[0].error_code, answer
    node.lone.run(10)


def test_verification_is_switched_while_the_broker_runs(node: TransactionalNode) -> None:
    name = "transaction.partition.verification.enable"
    for number, (resource, value, is_asked) in enumerate(
        [("", "false", False), ("1", "true", True), ("1", None, False), ("", None, True)], 7
    ):
        change(node, resource, name, value)
        node.produce(batch(producer_id=number), VERIFYING)
        assert node.is_asking is is_asked, (resource, value)
        if is_asked:
            node.answer(node.asked())


def test_producers_expire_by_what_is_set_while_the_broker_runs(node: TransactionalNode) -> None:
    name = "producer.id.expiration.ms"
    change(node, "", name, "7000")
    assert node.log().producer_state.expiration_ms == 7000
    node.lone.create("later")
    node.lone.run(10)
    assert node.log(TopicPartition("later", 0)).producer_state.expiration_ms == 7000
    change(node, "", name, None)
    assert node.log().producer_state.expiration_ms == 86_400_000


def test_a_higher_sequence_is_not_appended_before_a_lower_one_that_is_tried_again(node: TransactionalNode) -> None:
    first = node.produce(batch(0), VERIFYING)
    node.answer(node.asked(), ErrorCode.NOT_COORDINATOR)
    assert produced_error(first) is ErrorCode.NOT_ENOUGH_REPLICAS
    second = node.produce(batch(1), VERIFYING)
    node.answer(node.asked())
    assert produced_error(second) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again = node.produce(batch(0), VERIFYING)
    node.answer(node.asked())
    assert produced_error(again) is ErrorCode.NONE


def test_a_new_client_begins_each_transaction_with_sequence_zero(node: TransactionalNode) -> None:
    answer = node.produce(batch(5), ADDING)
    node.answer(node.asked())
    assert produced_error(answer) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_of_an_older_epoch_is_fenced_without_a_question(node: TransactionalNode) -> None:
    node.produce(batch(epoch=3))
    node.answer(node.asked())
    assert produced_error(node.produce(batch(1, epoch=2))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not node.is_asking


def test_a_repeated_batch_is_known_again_within_its_transaction(node: TransactionalNode) -> None:
    node.produce(batch(0))
    node.answer(node.asked())
    again = node.produce(batch(0))
    assert produced_error(again) is ErrorCode.NONE and node.log().log_end_offset == 1


def test_two_producers_in_one_request_are_refused_as_a_whole(node: TransactionalNode) -> None:
    node.lone.create("u")
    topic = ProduceRequest.Topic
    request = ProduceRequest(
        transactional_id="mine",
        acks=-1,
        timeout_ms=500,
        topic_data=[
            topic(name=name, partition_data=[topic.Partition(index=0, records=memoryview(bytearray(some.buffer)))])
            for name, some in (("t", batch(producer_id=7)), ("u", batch(producer_id=8)))
        ],
    )
    response = node.lone.ask(request, version=12)
    errors = {part.error_code for each in response.responses for part in each.partition_responses}
    assert errors == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert node.log().log_end_offset == 0 and not node.is_asking


def test_transactional_batches_need_a_transactional_id(node: TransactionalNode) -> None:
    answer = node.produce(batch(), transactional_id=None)
    assert produced_error(answer) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produced_error(node.produce(produced(7, 0), transactional_id="mine")) is ErrorCode.NONE
    assert not node.is_asking


def test_acks_zero_is_verified_too_and_its_failure_hangs_up(node: TransactionalNode) -> None:
    fine = node.produce(batch(0), acks=0)
    node.answer(node.asked())
    assert fine.value.response is None and not fine.value.hang_up
    assert node.log().log_end_offset == 1
    failed = node.produce(batch(producer_id=8), acks=0)
    node.answer(node.asked(), ErrorCode.INVALID_TXN_STATE)
    assert failed.value.hang_up


def test_a_partition_that_is_not_led_here_is_refused_beside_one_that_is(node: TransactionalNode) -> None:
    node.lone.create("far", (2,))
    topic = ProduceRequest.Topic
    request = ProduceRequest(
        transactional_id="mine",
        acks=-1,
        timeout_ms=500,
        topic_data=[
            topic(name=name, partition_data=[topic.Partition(index=0, records=memoryview(bytearray(batch().buffer)))])
            for name in ("far", "t")
        ],
    )
    answer = node.lone.handle(request, version=12)
    node.lone.run(0)
    question = node.asked()
    assert [topic.name for topic in question.request.transactions[0].topics] == ["t"]
    node.answer(question)
    response: Any = answer.value.response
    errors = [part.error_code for each in response.responses for part in each.partition_responses]
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    assert node.log(T).log_end_offset == 1
