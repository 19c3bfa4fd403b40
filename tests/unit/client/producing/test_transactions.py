"""The transactions of a producer without a thread: what coordinators hear, in which order, and what an error means."""

from __future__ import annotations

from collections import defaultdict, deque
from random import Random
from typing import Any

import pytest

from pykraft.client.consuming.commits import ConsumerGroupMetadata, OffsetAndMetadata
from pykraft.client.errors import (
    ProducerFencedError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
)
from pykraft.client.metadata import TopicMetadata
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.client.producing.numbering import ProducerIdAndEpoch
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.client.producing.transactions import SOURCES, TransactionManager, TransactionManagerState
from pykraft.common.core import Failure, Outbound, Promise
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from pykraft.protocol.schema import Request
from pykraft.records.batch import RecordBatch
from tests.harness.scripted import HOST, Leaders, Script, described, settings
from tests.harness.scripted_log import ScriptedLog, refused

ID = "transfers-1"
LEADERS: Leaders = {"t": [(1, 0), (2, 0)]}
GROUP = ConsumerGroupMetadata("readers", 3, "member-1", None)
OFFSETS = {TopicPartition("in", 0): OffsetAndMetadata(7)}
VERSIONS = pytest.mark.parametrize("version", [0, 2], ids=["v1", "v2"])
STEPS = {
    InitProducerIdRequest: "init",
    AddPartitionsToTxnRequest: "add partitions",
    AddOffsetsToTxnRequest: "add offsets",
    TxnOffsetCommitRequest: "offsets",
    ProduceRequest: "produce",
    EndTxnRequest: "end",
}


class Transacting:
    """A transactional producer whose every request is answered well, but for the errors that a test prepares."""

    def __init__(self, version: int = 2, **given: object) -> None:
        """`version` is the cluster's transaction.version."""
        given = {"transactional_id": ID, "linger_ms": 0, "batch_size": 1, **given}
        self.core = ProducerCore(settings("producer", **given), Random(1))
        assert self.core.transactions is not None
        self.manager: TransactionManager = self.core.transactions
        self.script = Script(self.core)
        self.version = version
        self.leaders = LEADERS
        self.log = ScriptedLog()
        self.identity = ProducerIdAndEpoch(9, -1)
        self.errors: dict[type[Request], deque[ErrorCode | Failure]] = defaultdict(deque)
        self.held: set[type[Request]] = set()
        self.heard: list[Any] = []
        """The requests about the transaction, in the order of their answers."""
        self.told: dict[bytes, RecordMetadata | Exception | None] = {}
        self.core.metadata.add_topic("t")

    # --- the user -----------------------------------------------------------------------------------------------------

    def send(self, *values: bytes, partition: int = 0) -> None:
        for value in values:

            def on_delivery(place: RecordMetadata | None, error: Exception | None, value: bytes = value) -> None:
                assert value not in self.told, "told twice"
                self.told[value] = place if error is None else error

            record = Outgoing("t", None, value, (), partition, 5)
            assert self.core.try_append(record, on_delivery, self.script.now) is None

    def finish(self, promise: Promise[KafkaError | None]) -> KafkaError | None:
        self.run()
        return promise.value

    def ready(self) -> Transacting:
        assert self.finish(self.manager.initialize()) is None
        self.heard.clear()
        return self

    def begun(self) -> Transacting:
        self.ready().manager.begin()
        return self

    # --- the brokers --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Answer until nothing more is asked."""
        for _ in range(30):
            self.script.poll(200)
            for outbound in [each for each in self.script.sent if type(each.request) not in self.held]:
                self._answer(outbound)

    def _answer(self, outbound: Outbound) -> None:
        request = outbound.request
        if type(request) in STEPS:
            self.heard.append(request)
        queued = self.errors[type(request)]
        error = queued.popleft() if queued else ErrorCode.NONE
        self.script.answer(outbound, error if isinstance(error, Failure) else self._response(request, error))

    def _response(self, request: Any, error: ErrorCode) -> Any:
        match request:
            case MetadataRequest():
                return described(self.leaders)
            case ApiVersionsRequest():
                feature = ApiVersionsResponse.FinalizedFeature(
                    name="transaction.version", max_version_level=self.version, min_version_level=self.version
                )
                return ApiVersionsResponse(api_keys=[], finalized_features=[feature] if self.version else [])
            case FindCoordinatorRequest():
                broker = 1 if request.key_type == 1 else 2
                found = FindCoordinatorResponse.Coordinator(
                    key=request.key, node_id=broker, host=HOST, port=9000 + broker, error_code=error
                )
                return FindCoordinatorResponse(coordinators=[found])
            case InitProducerIdRequest():
                return self._init(error)
            case EndTxnRequest():
                return self._end(request, error)
            case ProduceRequest():
                return refused(request, error) if error else self.log.carry_out(request)
        return self._part_added(request, error)

    def _init(self, error: ErrorCode) -> InitProducerIdResponse:
        if error:
            return InitProducerIdResponse(error_code=error)
        self.identity = ProducerIdAndEpoch(9, self.identity.epoch + 1)
        return InitProducerIdResponse(producer_id=9, producer_epoch=self.identity.epoch)

    def _end(self, request: EndTxnRequest, error: ErrorCode) -> EndTxnResponse:
        if error or request.versions[1] < 5:
            return EndTxnResponse(error_code=error)
        self.identity = ProducerIdAndEpoch(9, self.identity.epoch + 1)
        return EndTxnResponse(producer_id=9, producer_epoch=self.identity.epoch)

    @staticmethod
    def _part_added(request: Any, error: ErrorCode) -> Any:
        if isinstance(request, AddOffsetsToTxnRequest):
            return AddOffsetsToTxnResponse(error_code=error)
        if isinstance(request, TxnOffsetCommitRequest):
            kind = TxnOffsetCommitResponse.Topic
            parts = [kind.Partition(partition_index=0, error_code=error)]
            topics = [kind(name=topic.name, topic_id=topic.topic_id, partitions=parts) for topic in request.topics]
            return TxnOffsetCommitResponse(topics=topics)
        assert isinstance(request, AddPartitionsToTxnRequest)
        topic_type = AddPartitionsToTxnResponse.Topic
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                topic_type(
                    name=topic.name,
                    results_by_partition=[
                        topic_type.Partition(partition_index=index, partition_error_code=error)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    @property
    def steps(self) -> list[str]:
        """What was heard, in words."""
        return [STEPS[type(request)] for request in self.heard]

    def last(self, kind: type[Request]) -> Any:
        return [request for request in self.heard if isinstance(request, kind)][-1]


def batches_of(request: ProduceRequest) -> list[RecordBatch]:
    return [
        RecordBatch(memoryview(bytes(partition.records or b"")))
        for topic in request.topic_data
        for partition in topic.partition_data
    ]


# --- the order of things ----------------------------------------------------------------------------------------------


def test_the_first_protocol_adds_partitions_and_groups_before_it_writes() -> None:
    some = Transacting(version=0).begun()
    some.send(b"a", partition=0)
    some.send(b"b", partition=1)
    assert some.finish(some.manager.send_offsets(OFFSETS, GROUP)) is None
    assert some.finish(some.manager.commit()) is None
    assert some.steps.index("add partitions") < some.steps.index("produce")
    assert some.steps.index("add offsets") < some.steps.index("offsets")
    assert some.steps[-1] == "end"
    versions = {STEPS[type(request)]: request.versions[1] for request in some.heard}
    assert versions == {"add partitions": 3, "add offsets": 4, "offsets": 4, "produce": 11, "end": 4}


def test_the_second_protocol_writes_at_once() -> None:
    some = Transacting(version=2).begun()
    some.send(b"a")
    assert some.finish(some.manager.send_offsets(OFFSETS, GROUP)) is None
    assert some.finish(some.manager.commit()) is None
    assert sorted(some.steps) == ["end", "offsets", "produce"]
    assert some.steps[-1] == "end"
    assert {STEPS[type(r)]: r.versions[1] for r in some.heard} == {"offsets": 5, "produce": 13, "end": 5}


@VERSIONS
def test_batches_say_that_they_belong_to_a_transaction(version: int) -> None:
    some = Transacting(version).begun()
    some.send(b"a")
    some.run()
    request = some.last(ProduceRequest)
    assert request.transactional_id == ID
    (batch,) = batches_of(request)
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 0, 0)


def test_the_first_protocol_keeps_epoch_and_numbers() -> None:
    some = Transacting(version=0).begun()
    for _ in range(2):
        some.send(b"%d" % len(some.told))
        assert some.finish(some.manager.commit()) is None
        some.manager.begin()
    (batch,) = batches_of(some.last(ProduceRequest))
    assert (batch.producer_epoch, batch.base_sequence) == (0, 1)


def test_the_second_protocol_numbers_each_transaction_from_0_under_a_new_epoch() -> None:
    some = Transacting(version=2).begun()
    for _ in range(2):
        some.send(b"%d" % len(some.told))
        assert some.finish(some.manager.commit()) is None
        some.manager.begin()
    (batch,) = batches_of(some.last(ProduceRequest))
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)
    assert some.last(EndTxnRequest).producer_epoch == 1


@VERSIONS
def test_a_commit_sends_what_lingers_and_ends_when_all_is_acknowledged(version: int) -> None:
    some = Transacting(version, linger_ms=60_000, batch_size=1000).begun()
    some.send(b"a")
    some.held.add(ProduceRequest)
    end = some.manager.commit()
    some.run()
    assert some.script.has_asked(ProduceRequest)
    assert "end" not in some.steps
    some.held.clear()
    assert some.finish(end) is None
    assert some.last(EndTxnRequest).committed
    some.manager.begin()
    some.send(b"b")
    some.script.poll()
    assert not some.script.has_asked(ProduceRequest), "it lingers again"


@VERSIONS
def test_an_abort_drops_what_waits_and_ends_when_all_under_way_is_answered(version: int) -> None:
    some = Transacting(version).begun()
    some.held.add(ProduceRequest)
    some.send(b"sent")
    some.run()
    some.send(b"waiting")
    end = some.manager.abort()
    some.run()
    assert isinstance(some.told.get(b"waiting"), TransactionError)
    assert "end" not in some.steps
    some.held.clear()
    assert some.finish(end) is None
    assert not some.last(EndTxnRequest).committed
    assert isinstance(some.told[b"sent"], RecordMetadata)


@VERSIONS
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_empty_transaction_is_a_matter_of_the_producer_alone(version: int, is_commit: bool) -> None:
    some = Transacting(version).begun()
    assert some.finish(some.manager.commit() if is_commit else some.manager.abort()) is None
    assert some.heard == []
    assert some.manager.state is TransactionManagerState.READY


def test_a_member_of_a_group_is_named_and_fenced_by_no_version_that_cannot_name_it() -> None:
    some = Transacting().begun()
    some.manager.send_offsets(OFFSETS, GROUP)
    some.run()
    request = some.last(TxnOffsetCommitRequest)
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("readers", 3, "member-1")
    assert request.versions[0] == 3
    some.manager.send_offsets(OFFSETS, ConsumerGroupMetadata("readers"))
    some.run()
    assert some.last(TxnOffsetCommitRequest).versions[0] == 0


def test_offsets_are_committed_by_topic_id_if_all_ids_are_known() -> None:
    some = Transacting().begun()
    for topic_id, newest in ((ZERO_UUID, 5), (Uuid(bytes(15) + b"\7"), 6)):
        some.core.metadata.topics = {key.topic: TopicMetadata(topic_id, {}, ErrorCode.NONE) for key in OFFSETS}
        some.manager.send_offsets(OFFSETS, GROUP)
        some.run()
        request = some.last(TxnOffsetCommitRequest)
        assert request.versions[1] == newest
        assert {topic.topic_id for topic in request.topics} == {topic_id}


# --- errors that pass -------------------------------------------------------------------------------------------------

PASSING = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    Failure.DISCONNECTED,
    Failure.TIMED_OUT,
]


@VERSIONS
@pytest.mark.parametrize(
    "kind", [InitProducerIdRequest, AddPartitionsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest]
)
@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.name)
def test_an_error_that_may_pass_is_waited_for(version: int, kind: type[Request], error: ErrorCode | Failure) -> None:
    some = Transacting(version)
    some.errors[kind].append(error)
    some.begun().send(b"a")
    assert some.finish(some.manager.send_offsets(OFFSETS, GROUP)) is None
    assert some.finish(some.manager.commit()) is None
    assert isinstance(some.told[b"a"], RecordMetadata)


def test_concurrent_transactions_are_a_short_pause() -> None:
    some = Transacting(version=0).begun()
    some.errors[AddPartitionsToTxnRequest].extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 5)
    some.send(b"a")
    some.script.poll()
    for _ in range(5):
        some._answer(some.script.outbound(AddPartitionsToTxnRequest))
        some.script.poll(20)
        assert some.script.has_asked(AddPartitionsToTxnRequest)


# --- errors that do not -----------------------------------------------------------------------------------------------


@VERSIONS
def test_after_a_failed_batch_the_transaction_can_only_be_aborted(version: int) -> None:
    some = Transacting(version).begun()
    some.errors[ProduceRequest].append(ErrorCode.INVALID_TIMESTAMP)
    some.send(b"a", b"b")
    some.run()
    assert isinstance(some.told[b"a"], TransactionAbortableError)
    assert some.told[b"b"] is some.told[b"a"], "it fails with the first"
    assert str(some.told[b"a"]) == (
        "INVALID_TIMESTAMP: transfers-1: INVALID_TIMESTAMP: a record's timestamp is outside of the allowed range. Call "
        "abort_transaction(); then the producer can begin another transaction"
    )
    for call in (some.manager.commit, lambda: some.send(b"c"), some.manager.begin):
        with pytest.raises(TransactionAbortableError):
            call()
    assert some.finish(some.manager.abort()) is None
    some.manager.begin()
    some.send(b"d")
    assert some.finish(some.manager.commit()) is None
    (batch,) = batches_of(some.last(ProduceRequest))
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0), "the numbers before are in doubt"


def test_in_the_first_protocol_the_producer_asks_for_the_epoch_itself() -> None:
    some = Transacting(version=0).begun()
    some.errors[ProduceRequest].append(ErrorCode.INVALID_TIMESTAMP)
    some.send(b"a")
    some.run()
    some.finish(some.manager.abort())
    assert some.steps[-2:] == ["end", "init"]
    request = some.last(InitProducerIdRequest)
    assert (request.producer_id, request.producer_epoch) == (9, 0)


def test_after_a_failure_the_producer_learns_that_the_cluster_was_upgraded() -> None:
    some = Transacting(version=0).begun()
    some.version = 2
    some.errors[ProduceRequest].append(ErrorCode.INVALID_TIMESTAMP)
    some.send(b"a")
    some.run()
    assert some.finish(some.manager.abort()) is None
    assert some.manager.is_v2
    some.manager.begin()
    some.send(b"b")
    assert some.finish(some.manager.commit()) is None
    assert some.last(EndTxnRequest).versions[1] == 5


def test_an_upgrade_brings_a_new_epoch() -> None:
    some = Transacting(version=0).begun()
    some.version = 2
    some.errors[TxnOffsetCommitRequest].append(ErrorCode.TRANSACTION_ABORTABLE)
    some.finish(some.manager.send_offsets(OFFSETS, GROUP))
    assert some.finish(some.manager.abort()) is None
    assert some.steps[-2:] == ["end", "init"]


@VERSIONS
def test_the_first_error_counts(version: int) -> None:
    some = Transacting(version).begun()
    some.held.add(ProduceRequest)
    some.send(b"a", partition=0)
    some.send(b"b", partition=1)
    some.run()
    some.errors[ProduceRequest].extend([ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD])
    some.held.clear()
    some.run()
    assert some.told[b"a"] is some.told[b"b"]
    with pytest.raises(TransactionAbortableError, match="INVALID_TIMESTAMP"):
        some.manager.commit()
    assert some.finish(some.manager.abort()) is None


@VERSIONS
def test_offsets_that_are_refused_after_the_error_or_the_abort_change_nothing(version: int) -> None:
    for has_failed in (True, False):
        some = Transacting(version).begun()
        some.send(b"ok")
        some.run()
        some.held.add(TxnOffsetCommitRequest)
        sent = some.manager.send_offsets(OFFSETS, GROUP)
        some.run()
        if has_failed:
            some.errors[ProduceRequest].append(ErrorCode.INVALID_TIMESTAMP)
            some.send(b"a")
            some.run()
        else:
            end = some.manager.abort()
            some.run()
            assert "end" not in some.steps
        some.errors[TxnOffsetCommitRequest].append(ErrorCode.UNKNOWN_MEMBER_ID)
        some.held.clear()
        assert isinstance(some.finish(sent), KafkaError)
        if has_failed:
            with pytest.raises(TransactionAbortableError, match="INVALID_TIMESTAMP"):
                some.manager.commit()
            end = some.manager.abort()
        assert some.finish(end) is None


@VERSIONS
def test_nothing_is_sent_in_the_poll_in_which_the_transaction_fails(version: int) -> None:
    some = Transacting(version, delivery_timeout_ms=10_000, request_timeout_ms=500)
    some.leaders = {"t": [None, (2, 0)]}
    some.begun()
    some.send(b"late", partition=0)
    some.send(b"sent", partition=1)
    some.run()
    some.script.now += 10_000
    some.send(b"waiting", partition=1)
    some.script.poll()
    assert isinstance(some.told[b"sent"], RecordMetadata)
    assert isinstance(some.told[b"late"], TransactionAbortableError)
    assert not some.script.has_asked(ProduceRequest)
    some.run()
    assert some.told[b"waiting"] is some.told[b"late"]


@VERSIONS
def test_a_batch_that_fails_during_the_commit_fails_the_commit(version: int) -> None:
    some = Transacting(version).begun()
    some.errors[ProduceRequest].append(ErrorCode.INVALID_TIMESTAMP)
    some.send(b"a")
    assert isinstance(some.finish(some.manager.commit()), TransactionAbortableError)
    assert "end" not in some.steps
    assert some.finish(some.manager.abort()) is None
    assert not some.last(EndTxnRequest).committed


@VERSIONS
def test_a_record_that_is_late_fails_the_transaction(version: int) -> None:
    some = Transacting(version, delivery_timeout_ms=1000, request_timeout_ms=500).begun()
    some.errors[ProduceRequest].extend([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100)
    some.send(b"a")
    some.run()
    assert isinstance(some.told[b"a"], TransactionAbortableError)
    assert "were not acknowledged in 1000 ms" in str(some.told[b"a"])
    some.errors.clear()
    assert some.finish(some.manager.abort()) is None


FENCES = [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]


@VERSIONS
@pytest.mark.parametrize("error", FENCES, ids=lambda error: error.name)
def test_a_fenced_producer_can_only_be_closed(version: int, error: ErrorCode) -> None:
    some = Transacting(version).begun()
    some.errors[EndTxnRequest].append(error)
    some.send(b"a")
    fenced = some.finish(some.manager.commit())
    assert isinstance(fenced, ProducerFencedError)
    assert str(fenced) == (
        "PRODUCER_FENCED: another producer with transactional.id=transfers-1 has called init_transactions(), or the "
        "coordinator has aborted the transaction after transaction.timeout.ms. Close this producer"
    )
    for call in (some.manager.abort, some.manager.begin, some.manager.initialize, lambda: some.send(b"c")):
        with pytest.raises(ProducerFencedError):
            call()


def test_a_leader_that_knows_a_newer_epoch_leaves_the_last_word_to_the_coordinator() -> None:
    some = Transacting().begun()
    some.errors[ProduceRequest].append(ErrorCode.INVALID_PRODUCER_EPOCH)
    some.errors[EndTxnRequest].append(ErrorCode.PRODUCER_FENCED)
    some.send(b"a")
    some.run()
    assert isinstance(some.told[b"a"], TransactionAbortableError)
    assert isinstance(some.finish(some.manager.abort()), ProducerFencedError)


@VERSIONS
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, TransactionAbortableError),
        (ErrorCode.ILLEGAL_GENERATION, TransactionAbortableError),
        (ErrorCode.FENCED_INSTANCE_ID, TransactionAbortableError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, TransactionAbortableError),
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionAbortableError),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, TransactionFatalError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TransactionFatalError),
    ],
    ids=str,
)
def test_offsets_that_are_refused(version: int, error: ErrorCode, kind: type[TransactionError]) -> None:
    some = Transacting(version).begun()
    some.errors[TxnOffsetCommitRequest].append(error)
    found = some.finish(some.manager.send_offsets(OFFSETS, GROUP))
    assert type(found) is kind
    with pytest.raises(kind):
        some.manager.commit()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TransactionAbortableError),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, TransactionAbortableError),
        (ErrorCode.UNKNOWN_PRODUCER_ID, TransactionAbortableError),
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionAbortableError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, TransactionAbortableError),
        (ErrorCode.INVALID_REQUEST, TransactionAbortableError),
        (ErrorCode.INVALID_TXN_STATE, TransactionFatalError),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, TransactionFatalError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TransactionFatalError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        (ErrorCode.PRODUCER_FENCED, ProducerFencedError),
        (Failure.UNSUPPORTED_VERSION, TransactionFatalError),
    ],
    ids=str,
)
def test_partitions_that_are_refused(error: ErrorCode | Failure, kind: type[TransactionError]) -> None:
    some = Transacting(version=0).begun()
    some.errors[AddPartitionsToTxnRequest].append(error)
    some.send(b"a")
    some.run()
    assert type(some.told[b"a"]) is kind
    with pytest.raises(kind):
        some.manager.commit()


def test_the_cause_counts_not_what_was_not_attempted_for_it() -> None:
    some = Transacting(version=0).begun()
    some.held.add(AddPartitionsToTxnRequest)
    some.send(b"a", partition=0)
    some.send(b"b", partition=1)
    some.run()
    topic_type = AddPartitionsToTxnResponse.Topic
    codes = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    parts = [topic_type.Partition(partition_index=n, partition_error_code=code) for n, code in enumerate(codes)]
    answer = AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[topic_type(name="t", results_by_partition=parts)]
    )
    some.script.answer(AddPartitionsToTxnRequest, answer)
    some.run()
    assert isinstance(some.told[b"a"], TransactionAbortableError)
    assert "t-1: not allowed on this topic" in str(some.told[b"a"])


def test_an_abort_that_is_refused_is_fatal() -> None:
    some = Transacting().begun()
    some.errors[EndTxnRequest].append(ErrorCode.TRANSACTION_ABORTABLE)
    some.send(b"a")
    assert type(some.finish(some.manager.abort())) is TransactionFatalError


def test_init_transactions_can_be_called_again_after_a_refusal_that_an_administrator_can_heal() -> None:
    some = Transacting()
    some.errors[InitProducerIdRequest].append(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    error = some.finish(some.manager.initialize())
    assert isinstance(error, TransactionError)
    assert str(error).endswith("not allowed on this transactional id. Call init_transactions() again")
    some.begun()


def test_a_timeout_that_the_broker_does_not_allow_is_fatal() -> None:
    some = Transacting()
    some.errors[InitProducerIdRequest].append(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    assert isinstance(some.finish(some.manager.initialize()), TransactionFatalError)


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_batch_that_is_too_large_share_its_numbers() -> None:
    some = Transacting(batch_size=10_000).begun()
    some.errors[ProduceRequest].append(ErrorCode.MESSAGE_TOO_LARGE)
    some.send(*(b"%d" % number * 100 for number in range(6)))
    assert some.finish(some.manager.commit()) is None
    parts = [batch for request in some.heard if isinstance(request, ProduceRequest) for batch in batches_of(request)]
    assert [(part.base_sequence, part.last_sequence, part.producer_epoch) for part in parts[:1]] == [(0, 5, 0)]
    assert parts[1].base_sequence == 0
    assert [part.base_sequence for part in parts[2:]] == [part.last_sequence + 1 for part in parts[1:-1]]
    assert parts[-1].last_sequence == 5
    assert all(isinstance(place, RecordMetadata) for place in some.told.values())


@VERSIONS
def test_a_batch_that_may_be_in_the_log_is_not_split(version: int) -> None:
    some = Transacting(version, batch_size=10_000).begun()
    some.errors[ProduceRequest].extend([Failure.DISCONNECTED, ErrorCode.MESSAGE_TOO_LARGE])
    some.send(b"a", b"b")
    assert isinstance(some.finish(some.manager.commit()), TransactionAbortableError)
    assert some.steps.count("produce") == 2


@VERSIONS
def test_a_batch_dropped_between_two_attempts_takes_the_epoch_with_it(version: int) -> None:
    some = Transacting(version, retry_backoff_ms=100_000, retry_backoff_max_ms=100_000).begun()
    some.errors[ProduceRequest].append(ErrorCode.NOT_ENOUGH_REPLICAS)
    some.send(b"a")
    some.run()
    assert some.finish(some.manager.abort()) is None
    assert isinstance(some.told[b"a"], TransactionError)
    some.manager.begin()
    some.send(b"b")
    some.run()
    (batch,) = batches_of(some.last(ProduceRequest))
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


# --- misuse -----------------------------------------------------------------------------------------------------------

CALLS = {
    "init": lambda some: some.manager.initialize(),
    "begin": lambda some: some.manager.begin(),
    "send": lambda some: some.send(b"x"),
    "offsets": lambda some: some.manager.send_offsets(OFFSETS, GROUP),
    "commit": lambda some: some.manager.commit(),
    "abort": lambda some: some.manager.abort(),
}
ALLOWED = {
    TransactionManagerState.UNINITIALIZED: {"init"},
    TransactionManagerState.INITIALIZING: set(),
    TransactionManagerState.READY: {"begin"},
    TransactionManagerState.IN_TRANSACTION: {"send", "offsets", "commit", "abort"},
    TransactionManagerState.COMMITTING: set(),
    TransactionManagerState.ABORTING: set(),
}


@pytest.mark.parametrize("state", ALLOWED, ids=lambda state: state.name)
@pytest.mark.parametrize("call", CALLS)
def test_each_call_has_its_states(state: TransactionManagerState, call: str) -> None:
    some = Transacting()
    some.run()
    if state is TransactionManagerState.INITIALIZING:
        some.manager.initialize()
    elif state is TransactionManagerState.READY:
        some.ready()
    elif state is not TransactionManagerState.UNINITIALIZED:
        some.begun()
        if state is not TransactionManagerState.IN_TRANSACTION:
            CALLS["commit" if state is TransactionManagerState.COMMITTING else "abort"](some)
    assert some.manager.state is state
    if call in ALLOWED[state]:
        CALLS[call](some)
        return
    with pytest.raises(RuntimeError, match=r"of transfers-1 is not possible now: ") as refusal:
        CALLS[call](some)
    assert str(refusal.value).endswith(state.value)
    assert some.manager.state is state


def test_every_state_has_a_row() -> None:
    assert set(SOURCES) == set(TransactionManagerState)


@pytest.mark.parametrize(
    "given", [{"acks": "1"}, {"enable_idempotence": "false"}, {"retries": 0}], ids=lambda given: next(iter(given))
)
def test_a_transactional_producer_is_idempotent(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Transacting(**given)
