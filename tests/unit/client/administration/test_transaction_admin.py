"""What an administrator asks about transactions: which broker is asked for what, and how the answers read."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.client.administration.transaction_admin import (
    AbortTransactionSpec,
    ProducerState,
    TransactionAdminCalls,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from pykraft.client.api_driver import ApiDriver
from pykraft.client.producing.numbering import ProducerIdAndEpoch
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykraft.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.harness.scripted import HOST, Leaders, Script, knowing, partition, settings

LEADERS: Leaders = {"t": [(1, 0), (2, 0)]}
T0, T1 = partition("t-0"), partition("t-1")
DEADLINE = 60_000
SPEC = AbortTransactionSpec(T0, 7, 3, 5)


class Asking:
    """The calls, by hand. Transactional ids are coordinated by the broker that their last letter names."""

    def __init__(self) -> None:
        config = settings("admin")
        driver = ApiDriver(config, knowing(config, LEADERS), Random(1))
        self.ask = TransactionAdminCalls(driver)
        self.script = Script(driver)

    def poll(self) -> None:
        """Ask, and find every coordinator."""
        self.script.poll(200)
        while self.script.has_asked(FindCoordinatorRequest):
            request = self.script.asked(FindCoordinatorRequest)
            assert request.key_type == 1
            kind = FindCoordinatorResponse.Coordinator
            found = [
                kind(key=key, node_id=int(key[-1]), host=HOST, port=9000 + int(key[-1]))
                for key in request.coordinator_keys
            ]
            self.script.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=found))
            self.script.poll()

    def tell_brokers(self) -> None:
        self.script.poll()
        brokers = [DescribeClusterResponse.Broker(broker_id=n, host=HOST, port=9000 + n) for n in (1, 2)]
        self.script.answer(DescribeClusterRequest, DescribeClusterResponse(cluster_id="c", brokers=brokers))
        self.script.poll()

    def list_transactions(self, **filters: Any) -> Promise[list[TransactionListing] | KafkaError]:
        given = {"states": [], "producer_ids": [], "duration_ms": None, "pattern": None, **filters}
        promise = self.ask.list_transactions(**given, deadline=DEADLINE)
        self.tell_brokers()
        return promise


def listed(*found: tuple[str, int, str], error: ErrorCode = ErrorCode.NONE) -> ListTransactionsResponse:
    kind = ListTransactionsResponse.TransactionState
    states = [kind(transactional_id=name, producer_id=pid, transaction_state=state) for name, pid, state in found]
    return ListTransactionsResponse(error_code=error, transaction_states=states)


def described(name: str, error: ErrorCode = ErrorCode.NONE, start_ms: int = 500) -> DescribeTransactionsResponse:
    kind = DescribeTransactionsResponse.TransactionState
    state = kind(
        error_code=error,
        transactional_id=name,
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=start_ms,
        producer_id=7,
        producer_epoch=3,
        topics=[kind.Topic(topic="t", partitions=[0, 1])],
    )
    return DescribeTransactionsResponse(transaction_states=[state])


def produced(
    number: int, coordinator_epoch: int = -1, start: int = -1, error: ErrorCode = ErrorCode.NONE
) -> DescribeProducersResponse:
    topic_type = DescribeProducersResponse.Topic
    producer = topic_type.Partition.Producer(
        producer_id=7,
        producer_epoch=3,
        last_sequence=9,
        last_timestamp=500,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=start,
    )
    part = topic_type.Partition(partition_index=number, error_code=error, active_producers=[producer])
    return DescribeProducersResponse(topics=[topic_type(name="t", partitions=[part])])


def marked(error: ErrorCode) -> WriteTxnMarkersResponse:
    marker_type = WriteTxnMarkersResponse.Marker
    part = marker_type.Topic.Partition(partition_index=0, error_code=error)
    marker = marker_type(producer_id=7, topics=[marker_type.Topic(name="t", partitions=[part])])
    return WriteTxnMarkersResponse(markers=[marker])


# --- transactional ids ------------------------------------------------------------------------------------------------


def test_every_broker_is_asked_for_its_transactional_ids() -> None:
    some = Asking()
    promise = some.list_transactions()
    assert [outbound.destination.id for outbound in some.script.sent] == [1, 2]
    some.script.answer(ListTransactionsRequest, listed(("b", 1, "Ongoing"), ("a", 2, "Strange")))
    some.script.answer(ListTransactionsRequest, listed(("ab", 3, "CompleteCommit")))
    assert promise.value == [
        TransactionListing("a", 1, 2, TransactionState.UNKNOWN),
        TransactionListing("ab", 2, 3, TransactionState.COMPLETE_COMMIT),
        TransactionListing("b", 1, 1, TransactionState.ONGOING),
    ]


@pytest.mark.parametrize(
    ("filters", "oldest"),
    [
        ({}, 0),
        ({"states": [TransactionState.ONGOING], "producer_ids": [4]}, 0),
        ({"duration_ms": 5}, 1),
        ({"pattern": "a.*", "duration_ms": 5}, 2),
    ],
)
def test_a_broker_that_does_not_know_a_filter_is_not_asked(filters: dict[str, Any], oldest: int) -> None:
    some = Asking()
    some.list_transactions(**filters)
    request = some.script.outbound(ListTransactionsRequest).request
    assert request.versions == (oldest, 2)
    assert request.state_filters == filters.get("states", [])
    assert request.producer_id_filters == filters.get("producer_ids", [])
    assert request.duration_filter == filters.get("duration_ms", -1)
    assert request.transactional_id_pattern == filters.get("pattern")


def test_a_list_that_is_refused_by_one_broker_is_refused() -> None:
    some = Asking()
    promise = some.list_transactions()
    some.script.answer(ListTransactionsRequest, listed(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    some.script.answer(ListTransactionsRequest, listed())
    some.script.poll(1000)
    assert not promise.kept
    some.script.answer(ListTransactionsRequest, listed(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert isinstance(promise.value, KafkaError)
    assert promise.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_coordinator_describes_a_transactional_id() -> None:
    some = Asking()
    promise = some.ask.describe_transactions(["x1", "y2", "z2"], DEADLINE)
    some.poll()
    asked = {outbound.destination.id: outbound.request.transactional_ids for outbound in some.script.sent}
    assert asked == {1: ["x1"], 2: ["y2", "z2"]}
    some.script.answer(DescribeTransactionsRequest, described("x1"))
    some.script.answer(DescribeTransactionsRequest, described("y2", start_ms=-1))
    some.poll()
    some.script.answer(DescribeTransactionsRequest, described("z2", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    found = promise.value
    assert not isinstance(found, KafkaError)
    assert found["x1"] == TransactionDescription(1, TransactionState.ONGOING, 7, 3, 60_000, 500, (T0, T1))
    y2, z2 = found["y2"], found["z2"]
    assert isinstance(y2, TransactionDescription)
    assert (y2.coordinator_id, y2.transaction_start_time_ms) == (2, None)
    assert isinstance(z2, KafkaError) and z2.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_producers_are_fenced_by_an_epoch_that_nobody_uses() -> None:
    some = Asking()
    promise = some.ask.fence_producers(["x1", "y1"], 30_000, DEADLINE)
    for name in ("x1", "y1"):
        some.poll()
        request = some.script.asked(InitProducerIdRequest)
        assert (request.transactional_id, request.transaction_timeout_ms) == (name, 30_000)
        assert (request.producer_id, request.producer_epoch) == (-1, -1)
        some.script.answer(InitProducerIdRequest, InitProducerIdResponse(error_code=51))
        some.poll()
        answer = InitProducerIdResponse(producer_id=7, producer_epoch=4)
        some.script.answer(InitProducerIdRequest, answer)
    assert promise.value == {"x1": ProducerIdAndEpoch(7, 4), "y1": ProducerIdAndEpoch(7, 4)}


# --- partitions -------------------------------------------------------------------------------------------------------


def test_the_leader_of_a_partition_describes_its_producers() -> None:
    some = Asking()
    promise = some.ask.describe_producers([T0, T1], None, DEADLINE)
    some.poll()
    assert [outbound.destination.id for outbound in some.script.sent] == [1, 2]
    some.script.answer(DescribeProducersRequest, produced(0, coordinator_epoch=5, start=11))
    some.script.answer(DescribeProducersRequest, produced(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    some.poll()
    some.script.answer(DescribeProducersRequest, produced(1))
    assert promise.value == {
        T0: [ProducerState(7, 3, 9, 500, 5, 11)],
        T1: [ProducerState(7, 3, 9, 500, None, None)],
    }


def test_a_replica_that_is_asked_by_its_id_is_asked_once() -> None:
    some = Asking()
    promise = some.ask.describe_producers([T0, T1], 3, DEADLINE)
    some.poll()
    assert [outbound.destination.id for outbound in some.script.sent] == [3]
    answer = produced(0)
    answer.topics = [*answer.topics, *produced(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER).topics]
    some.script.answer(DescribeProducersRequest, answer)
    found = promise.value
    assert not isinstance(found, KafkaError)
    assert isinstance(found[T0], list)
    assert str(found[T1]).endswith("t-1: this broker does not lead, or does not hold, the partition (broker 3)")


def test_the_leader_writes_the_marker_that_is_missing() -> None:
    some = Asking()
    promise = some.ask.abort_transaction(SPEC, DEADLINE)
    some.poll()
    (marker,) = some.script.asked(WriteTxnMarkersRequest).markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 5)
    assert not marker.transaction_result
    assert [(topic.name, list(topic.partition_indexes)) for topic in marker.topics] == [("t", [0])]
    some.script.answer(WriteTxnMarkersRequest, marked(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    some.script.poll(1000)
    some.script.answer(WriteTxnMarkersRequest, marked(ErrorCode.NONE))
    assert promise.kept and promise.value is None


def test_a_marker_that_is_refused_is_an_error() -> None:
    some = Asking()
    promise = some.ask.abort_transaction(SPEC, DEADLINE)
    some.poll()
    some.script.answer(WriteTxnMarkersRequest, marked(ErrorCode.TRANSACTION_COORDINATOR_FENCED))
    assert isinstance(promise.value, KafkaError)
    assert promise.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
