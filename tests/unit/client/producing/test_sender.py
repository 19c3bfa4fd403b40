"""Getting batches acknowledged: how many are under way, what is sent again, and that numbers stay right."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from pykraft.client.api_driver import ApiDriver
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import ClusterMetadata
from pykraft.client.producing.accumulator import RecordAccumulator, RecordMetadata
from pykraft.client.producing.numbering import Numbering
from pykraft.client.producing.sender import Sender
from pykraft.common.core import Failure, Outbound
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import LeaderIdAndEpoch, NodeEndpoint, ProduceRequest
from pykraft.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.harness.scripted import HOST, Leaders, Script, knowing, learn, partition, settings
from tests.harness.scripted_log import ScriptedLog, refused, sequences

T0, T1 = partition("t-0"), partition("t-1")
TWO: Leaders = {"t": [(1, 0), (2, 0)]}
PAUSE_MS = 200
"""Longer than the first pause before a retry, whatever the dice say."""


class Sending:
    """A sender under way, its log, and what became of each record."""

    def __init__(self, leaders: Leaders = TWO, **given: object) -> None:
        config = settings("producer", **{"linger_ms": 0, "batch_size": 1, **given})
        self.metadata: ClusterMetadata = knowing(config, leaders)
        self.accumulator = RecordAccumulator(config)
        random = Random(1)
        driver = ApiDriver(config, self.metadata, random)
        numbering = Numbering(config, driver, self.accumulator)
        self.sender = Sender(config, self.metadata, self.accumulator, numbering, random)
        self.script = Script(self.sender, driver)
        self.log = ScriptedLog()
        self.told: dict[bytes, RecordMetadata | Exception | None] = {}
        self._next_id = 70

    def append(self, *values: bytes, key: TopicPartition = T0) -> None:
        for value in values:

            def on_delivery(metadata: RecordMetadata | None, error: Exception | None, value: bytes = value) -> None:
                assert value not in self.told, "told twice"
                self.told[value] = metadata if error is None else error

            self.accumulator.append(key, 0, None, value, (), on_delivery, self.script.now)

    def poll(self, after_ms: int = 0) -> list[Outbound]:
        return [outbound for outbound in self.script.poll(after_ms) if isinstance(outbound.request, ProduceRequest)]

    def give_id(self) -> None:
        self.script.poll()
        self.script.answer(InitProducerIdRequest, InitProducerIdResponse(producer_id=self._next_id, producer_epoch=0))
        self._next_id += 1

    def begin(self, *values: bytes) -> list[Outbound]:
        """The first records, and the id that they need; what is sent of them."""
        self.append(*values)
        self.give_id()
        return self.poll()

    def establish(self, key: TopicPartition = T0) -> None:
        """One record is written, so the broker knows the producer."""
        self.append(b"first of %d" % key.partition, key=key)
        if not self.poll():
            self.give_id()
        self.take_all(self.poll() or self.under_way)

    @property
    def under_way(self) -> list[Outbound]:
        return [outbound for outbound in self.script.sent if isinstance(outbound.request, ProduceRequest)]

    def take(self, outbound: Outbound) -> None:
        """The broker gets it, and its answer arrives."""
        self.script.answer(outbound, self.log.carry_out(outbound.request))

    def take_all(self, outbounds: Sequence[Outbound]) -> None:
        for outbound in list(outbounds):
            self.take(outbound)

    def lose_answer(self, outbound: Outbound) -> None:
        """The broker gets it, but its answer is lost."""
        self.log.carry_out(outbound.request)
        self.script.fail(outbound)

    def refuse(self, outbound: Outbound, error: ErrorCode) -> None:
        self.script.answer(outbound, refused(outbound.request, error))

    def finish(self) -> None:
        """From now on everything works."""
        for _ in range(100):
            self.script.poll(PAUSE_MS)
            if self.script.has_asked(InitProducerIdRequest):
                self.give_id()
            self.take_all(self.under_way)
            if not self.accumulator.has_unsent and not self.under_way:
                return
        raise AssertionError("it never ends")

    @property
    def errors(self) -> list[ErrorCode]:
        return [result.code for result in self.told.values() if isinstance(result, KafkaError)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# --- what is under way ------------------------------------------------------------------------------------------------


def test_nothing_is_sent_before_there_is_a_producer_id() -> None:
    some = Sending()
    some.append(b"a")
    assert some.poll() == []
    some.give_id()
    (outbound,) = some.poll()
    assert sequences(outbound.request) == {0: (70, 0)}
    assert (outbound.destination.id, outbound.request.acks) == (1, -1)


def test_a_producer_with_nothing_to_send_asks_for_no_id() -> None:
    assert Sending().script.poll() == []


@pytest.mark.parametrize(("request_timeout_ms", "waited"), [(30_000, 5000), (1000, 1000)])
def test_a_broker_has_five_seconds_for_a_producer_id(request_timeout_ms: int, waited: int) -> None:
    some = Sending(request_timeout_ms=request_timeout_ms)
    some.append(b"a")
    (asked,) = some.script.poll()
    assert asked.timeout_ms == waited


def test_an_id_that_is_refused_is_asked_for_again_after_a_pause() -> None:
    some = Sending()
    some.append(b"a")
    some.poll()
    refusal = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    some.script.answer(InitProducerIdRequest, refusal)
    assert some.script.poll(10) == []
    assert len(some.script.poll(PAUSE_MS)) == 1


@pytest.mark.parametrize(
    "answer",
    [InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), Failure.UNSUPPORTED_VERSION],
    ids=["refused", "not spoken"],
)
def test_a_producer_id_that_is_refused_for_good_is_asked_for_until_the_records_are_late(answer: Any) -> None:
    some = Sending()
    some.append(b"a")
    some.poll()
    for _ in range(3):
        some.script.answer(InitProducerIdRequest, answer)
        assert some.script.poll(10) == []
        (asked,) = some.script.poll(some.script.deadline - some.script.now)
        assert isinstance(asked.request, InitProducerIdRequest)
    assert some.told == {}
    some.give_id()
    some.finish()
    assert some.log.values[T0] == [b"a"]


def test_without_idempotence_there_is_no_id_and_no_number() -> None:
    some = Sending(enable_idempotence=False)
    some.append(b"a")
    (outbound,) = some.poll()
    assert sequences(outbound.request) == {0: (-1, -1)}


def test_one_request_to_a_broker_has_a_batch_of_each_of_its_partitions() -> None:
    some = Sending({"t": [(1, 0), (2, 0), (1, 0)]}, enable_idempotence=False)
    for number in range(3):
        some.append(b"%d" % number, key=TopicPartition("t", number))
    sent = {outbound.destination.id: set(sequences(outbound.request)) for outbound in some.poll()}
    assert sent == {1: {0, 2}, 2: {1}}


def test_a_request_is_not_larger_than_max_request_size() -> None:
    some = Sending({"t": [(1, 0)] * 4}, enable_idempotence=False, max_request_size=1000)
    for number in range(4):
        some.append(bytes([number]) * 400, key=TopicPartition("t", number))
    assert [len(sequences(outbound.request)) for outbound in some.poll()] == [2, 2]


def test_partitions_that_do_not_fit_into_one_request_take_turns() -> None:
    some = Sending(
        {"t": [(1, 0)] * 3}, enable_idempotence=False, max_request_size=500, max_in_flight_requests_per_connection=1
    )
    for number in range(3):
        some.append(*(bytes([number, each]) * 200 for each in range(2)), key=TopicPartition("t", number))
    turns = []
    for _ in range(6):
        (outbound,) = some.poll()
        turns += list(sequences(outbound.request))
        some.take(outbound)
    assert turns == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("limit", [1, 3, 5])
def test_so_many_requests_are_under_way_to_a_broker_and_no_more(limit: int) -> None:
    some = Sending(max_in_flight_requests_per_connection=limit)
    some.establish()
    some.append(*numbers(10))
    sent = some.poll()
    assert len(sent) == limit
    assert [sequences(outbound.request)[0][1] for outbound in sent] == list(range(1, 1 + limit))
    some.take(sent[0])
    assert len(some.poll()) == 1


def test_of_one_partition_no_more_are_under_way_even_to_two_leaders() -> None:
    """A broker knows an idempotent producer's last five batches again, and no older one."""
    some = Sending()
    some.establish()
    some.append(*numbers(3))
    assert len(some.poll()) == 3
    learn(some.metadata, {"t": [(3, 1), (2, 0)]})
    some.append(*numbers(10)[3:])
    assert [outbound.destination.id for outbound in some.poll()] == [3, 3]
    some.take(some.under_way[0])
    assert len(some.poll()) == 1
    some.finish()
    assert some.log.values[T0][1:] == numbers(10)


def test_brokers_are_counted_alone() -> None:
    some = Sending(max_in_flight_requests_per_connection=1)
    some.establish(T0)
    some.establish(T1)
    some.append(b"a", b"b")
    some.append(b"c", b"d", key=T1)
    assert sorted(outbound.destination.id for outbound in some.poll()) == [1, 2]


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    some = Sending({"t": [None, (2, 0)]}, enable_idempotence=False)
    some.append(b"a")
    assert some.poll() == []
    learn(some.metadata, {"t": [(3, 1), (2, 0)]})
    (outbound,) = some.poll()
    assert outbound.destination.id == 3


def test_with_acks_0_a_record_is_gone_when_it_is_sent() -> None:
    some = Sending(acks="0", enable_idempotence=False)
    some.append(b"a")
    (outbound,) = some.poll()
    some.script.answer(outbound, None)
    assert some.told == {b"a": RecordMetadata("t", 0, -1, 0)}


# --- again ------------------------------------------------------------------------------------------------------------

PASSING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
]
LASTING = [
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_REQUIRED_ACKS,
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.name)
def test_what_may_pass_is_sent_again_after_a_pause(error: ErrorCode) -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    some.refuse(outbound, error)
    assert some.told == {}
    assert some.poll() == []
    (again,) = some.poll(PAUSE_MS)
    assert sequences(again.request) == sequences(outbound.request), "under its old number"
    some.take(again)
    assert some.told == {b"a": RecordMetadata("t", 0, 0, 0)}


@pytest.mark.parametrize("error", LASTING, ids=lambda error: error.name)
def test_what_does_not_pass_fails_at_once_and_what_follows_gets_through(error: ErrorCode) -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    some.append(b"b")
    some.refuse(outbound, error)
    assert some.errors == [error]
    some.finish()
    assert some.log.values[T0] == [b"b"]


@pytest.mark.parametrize("failure", [Failure.DISCONNECTED, Failure.TIMED_OUT])
def test_an_answer_that_is_lost_doubles_nothing(failure: Failure) -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    some.log.carry_out(outbound.request)
    some.script.fail(outbound, failure)
    some.finish()
    assert some.log.values[T0] == [b"a"]
    assert some.told == {b"a": RecordMetadata("t", 0, 0, 0)}


def test_without_idempotence_it_may() -> None:
    some = Sending(enable_idempotence=False)
    some.append(b"a")
    (outbound,) = some.poll()
    some.lose_answer(outbound)
    some.finish()
    assert some.log.values[T0] == [b"a", b"a"]


def test_a_broker_that_does_not_speak_produce_is_no_use() -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    some.script.fail(outbound, Failure.UNSUPPORTED_VERSION)
    assert some.errors == [ErrorCode.UNSUPPORTED_VERSION]


def test_when_an_earlier_one_is_lost_the_later_ones_follow_it_in_order() -> None:
    some = Sending()
    some.establish()
    some.append(*numbers(5))
    sent = some.poll()
    some.script.fail(sent[0])
    some.take_all(sent[1:])  # each is out of order
    assert some.told.keys() == {b"first of 0"}
    some.finish()
    assert some.log.values[T0] == [b"first of 0", *numbers(5)]
    assert [some.told[value].offset for value in numbers(5)] == list(range(1, 6))  # type: ignore[union-attr]


def test_while_one_is_sent_again_nothing_passes_it() -> None:
    some = Sending()
    some.establish()
    some.append(*numbers(2))
    first, second = some.poll()
    some.script.fail(first)
    some.script.fail(second)
    some.append(b"new")
    (again,) = some.poll(PAUSE_MS)
    assert sequences(again.request)[0][1] == 1
    assert some.poll(PAUSE_MS) == []
    some.take(again)
    (then,) = some.poll(PAUSE_MS)
    assert sequences(then.request)[0][1] == 2


def test_other_partitions_go_on_meanwhile() -> None:
    some = Sending()
    some.establish(T0)
    some.establish(T1)
    some.append(b"a")
    (lost,) = some.poll()
    some.script.fail(lost)
    some.append(b"b", key=T1)
    (outbound,) = some.poll()
    assert set(sequences(outbound.request)) == {1}


def test_a_new_leader_gets_what_the_old_one_refused() -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    some.refuse(outbound, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    learn(some.metadata, {"t": [(3, 1), (2, 0)]})
    (again,) = some.poll(PAUSE_MS)
    assert again.destination.id == 3


def test_a_pause_is_for_the_leader_that_failed_and_not_for_its_successor() -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    some.script.fail(outbound)
    learn(some.metadata, {"t": [(1, 0), (2, 0)]})
    assert not some.poll(), "it is the same leader"
    learn(some.metadata, {"t": [(3, 1), (2, 0)]})
    (again,) = some.poll()
    assert again.destination.id == 3
    some.script.fail(again)
    assert not some.poll(), "now the successor has failed too"


def test_during_a_pause_the_leader_is_looked_for_again_and_again() -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    some.script.fail(outbound)
    learn(some.metadata, {"t": [(1, 0), (2, 0)]})
    assert not some.poll(), "it is the same leader"
    (asked,) = Script(some.metadata, now=1_000_000 * some.metadata.version + PAUSE_MS).poll()
    assert isinstance(asked.request, MetadataRequest)


def test_a_refusal_may_tell_who_leads_now() -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    response = refused(outbound.request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response.responses[0].partition_responses[0].current_leader = LeaderIdAndEpoch(leader_id=4, leader_epoch=1)
    response.node_endpoints = [NodeEndpoint(node_id=4, host=HOST, port=9004)]
    some.script.answer(outbound, response)
    (again,) = some.poll(PAUSE_MS)
    assert again.destination.port == 9004


def test_topics_are_found_by_their_ids_in_an_answer_without_names() -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    response: Any = some.log.carry_out(outbound.request)
    response.responses[0].name = ""
    some.script.answer(outbound, response)
    assert some.told == {b"a": RecordMetadata("t", 0, 0, 0)}


# --- giving up --------------------------------------------------------------------------------------------------------


def test_a_record_has_delivery_timeout_ms() -> None:
    some = Sending({"t": [None]}, delivery_timeout_ms=40_000, enable_idempotence=False)
    some.append(b"a")
    some.poll(39_999)
    assert some.told == {}
    assert some.script.deadline == some.script.now + 1
    some.poll(1)
    (error,) = some.told.values()
    assert isinstance(error, ClientTimeoutError)
    assert "40000 ms" in str(error)
    assert some.accumulator.used_bytes == 0


def test_what_fails_when_its_time_is_up_is_late_and_says_what_it_failed_of() -> None:
    some = Sending()
    (outbound,) = some.begin(b"x")
    some.script.now += 120_000
    some.script.fail(outbound)
    assert isinstance(some.told[b"x"], ClientTimeoutError)
    assert str(some.told[b"x"]) == (
        "REQUEST_TIMED_OUT: 1 records for t-0 were not acknowledged in 120000 ms: "
        "the connection broke before the answer came"
    )


def test_retries_are_counted() -> None:
    some = Sending(retries=2)
    (outbound,) = some.begin(b"a")
    for _ in range(2):
        some.refuse(outbound, ErrorCode.NOT_ENOUGH_REPLICAS)
        (outbound,) = some.poll(PAUSE_MS * 3)
    some.refuse(outbound, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert some.errors == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_after_a_batch_was_given_up_the_partition_goes_on_under_another_id() -> None:
    """It is not known whether the batch is in the log, so its number, and those after it, cannot be used again."""
    some = Sending()
    some.establish(T0)
    some.establish(T1)
    some.append(b"bad")
    (outbound,) = some.poll()
    some.append(b"after")
    some.append(b"other", key=T1)
    some.refuse(outbound, ErrorCode.INVALID_RECORD)
    some.poll()
    some.give_id()
    some.poll()
    numbered = {key: found for o in some.under_way for key, found in sequences(o.request).items()}
    assert numbered == {0: (71, 0), 1: (70, 1)}, "the other partition goes on under its old id"
    some.finish()
    assert some.log.values == {T0: [b"first of 0", b"after"], T1: [b"first of 1", b"other"]}


def test_until_a_first_batch_is_written_no_other_is_sent() -> None:
    """The broker takes any first number: were the first refused and the second taken, the order would be lost."""
    some = Sending()
    (first,) = some.begin(*numbers(3))
    assert some.poll(PAUSE_MS) == []
    some.refuse(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    (again,) = some.poll(PAUSE_MS)
    assert sequences(again.request)[0][1] == 0
    some.take(again)
    assert len(some.poll()) == 2
    some.finish()
    assert some.log.values[T0] == numbers(3)


def test_what_was_written_behind_a_batch_that_was_given_up_is_not_written_again() -> None:
    some = Sending(delivery_timeout_ms=1000, request_timeout_ms=500)
    some.establish()
    some.append(b"given up")
    (first,) = some.poll()
    some.script.poll(600)
    some.append(b"behind")
    (second,) = some.poll()
    some.lose_answer(first)
    some.lose_answer(second)
    some.script.poll(400)
    assert isinstance(some.told[b"given up"], ClientTimeoutError)
    some.finish()
    assert some.log.values[T0] == [b"first of 0", b"given up", b"behind"]
    assert isinstance(some.told[b"behind"], RecordMetadata)


def test_a_batch_that_is_too_large_is_split_and_stays_in_order() -> None:
    some = Sending(batch_size=10_000, linger_ms=5)
    values = numbers(20)
    some.append(*values)
    some.poll(5)
    some.give_id()
    (outbound,) = some.poll()
    some.refuse(outbound, ErrorCode.MESSAGE_TOO_LARGE)
    some.append(b"later")
    some.finish()
    assert some.log.values[T0] == [*values, b"later"]
    assert [some.told[value].offset for value in values] == list(range(20))  # type: ignore[union-attr]


def test_a_record_that_is_too_large_alone_fails() -> None:
    some = Sending()
    (outbound,) = some.begin(b"a")
    some.refuse(outbound, ErrorCode.MESSAGE_TOO_LARGE)
    assert some.errors == [ErrorCode.MESSAGE_TOO_LARGE]
