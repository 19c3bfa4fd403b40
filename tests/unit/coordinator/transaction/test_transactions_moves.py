"""The transaction coordinator is lost and comes back, in each state of a transaction; and records are not committed.

The node dies and starts again on the same disk. Where a second replica is in sync and silent, nothing is committed.
"""

from __future__ import annotations

import pytest

from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.messages.transactions import AddPartitionsToTxnRequest, EndTxnRequest
from tests.harness.transactions import NAME, Producer, TransactionNode, Transactions

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
PATIENT = {"broker_session_timeout_ms": "6000000"}


def moved(t: Transactions) -> Transactions:
    """The coordinator, after its node was killed and has started again."""
    t.node.filesystem.sync_all()
    t.node.node.abandon()
    return Transactions(TransactionNode(t.node.filesystem, **PATIENT))


# --- a failover in each state -----------------------------------------------------------------------------------------


def test_an_empty_transactional_id_goes_on() -> None:
    t = Transactions()
    producer_id, _ = t.producer()
    t = moved(t)
    assert t.state() == "Empty"
    assert t.producer() == (producer_id, 1)


def test_an_open_transaction_is_committed_after_the_move() -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer)
    t = moved(t)
    assert t.add_as_broker(producer, "u") == {"u": NONE}
    assert t.ended(producer) == (NONE, (producer[0], 1))
    assert t.marked() == [((producer[0], 1), True, ["t", "u"])]


def test_an_open_transaction_times_out_after_the_move() -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer)
    t = moved(t)
    t.pass_time(71_000)
    assert t.marked() == [((producer[0], 1), False, ["t"])]
    assert t.state() == "CompleteAbort"


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_is_carried_out_after_the_move(commit: bool) -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer, "t", "u")
    answer = t.ended(producer, commit)
    t = moved(t)
    assert t.ended(producer, commit)[0] == CONCURRENT
    assert t.marked() == [((producer[0], 1), commit, ["t", "u"])]
    assert t.ended(producer, commit) == answer


def test_a_fenced_producer_stays_fenced_after_the_move() -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer)
    assert t.init().error_code == CONCURRENT
    t = moved(t)
    assert t.init().error_code == CONCURRENT
    assert t.add_as_broker(producer) == {"t": CONCURRENT}
    assert t.marked() == [((producer[0], 1), False, ["t"])]
    assert t.add_as_broker(producer) == {"t": FENCED}
    assert t.producer() == (producer[0], 2)


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_complete_transaction_is_answered_the_same_after_the_move(commit: bool) -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer)
    answer = t.ended(producer, commit)
    t.marked()
    t = moved(t)
    assert (t.ended(producer, commit), t.node.markers) == (answer, [])
    assert t.add_as_broker(answer[1]) == {"t": NONE}


@pytest.mark.parametrize("moves", ["before the markers", "after them"])
def test_a_new_producer_id_in_place_of_exhausted_epochs_survives_the_move(moves: str) -> None:
    t = Transactions()
    old = t.aged((1 << 15) - 2)
    t.add_as_broker(old)
    answer = t.ended(old)
    assert answer == (NONE, (old[0] + 1, 0))
    if moves == "before the markers":
        t = moved(t)
    assert t.marked() == [((old[0], (1 << 15) - 1), True, ["t"])]
    if moves == "after them":
        t = moved(t)
    assert t.ended(old) == answer
    assert t.add_as_broker(answer[1]) == {"t": NONE}


def test_a_transactional_id_that_has_expired_stays_forgotten_after_the_move() -> None:
    t = Transactions(
        transactional_id_expiration_ms="1000", transaction_remove_expired_transaction_cleanup_interval_ms="1000"
    )
    t.producer()
    t.pass_time(3000)
    assert t.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert moved(t).describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize(("level", "versions"), [(0, [0, 0, 0, 0]), (1, [1, 1, 1, 1]), (2, [1, 1, 1, 1])])
def test_a_cluster_keeps_its_level_over_the_move_and_writes_its_version_of_records(
    level: int, versions: list[int]
) -> None:
    t = Transactions()
    t.set_level(level)
    t = moved(t)
    finalized = {each.name: each.max_version_level for each in t.ask(ApiVersionsRequest(), 3).finalized_features}
    assert finalized.get("transaction.version", 0) == level
    producer = t.producer()
    t.add(producer)
    t.ended(producer, version=4)
    t.marked()
    assert [record.version for record in t.records()] == versions
    assert moved(t).state() == "CompleteCommit"


def test_a_coordinator_that_resigns_sends_no_more_markers() -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer, "t", "u")
    t.ended(producer)
    coordinator = t.node.broker.transactions
    coordinator.runtime.resign(0)
    assert coordinator.markers.unmarked(NAME) is None
    t.marked(u=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    t.run(1000)
    assert t.node.markers == []
    assert t.ended(producer)[0] == ErrorCode.NOT_COORDINATOR


# --- records that are not committed -----------------------------------------------------------------------------------


class Replicated(Transactions):
    """__transaction_state has a replica on broker 2, which fetches only when the test says so."""

    def __init__(self, **settings: str) -> None:
        node = TransactionNode(**PATIENT, **settings)
        node.join(2)
        self.topic_id: Uuid = node.create(TRANSACTION_TOPIC, (1, 2), cleanup_policy="compact")
        node.create("t")
        super().__init__(node)
        self._answered: Promise[Answer] | None = None

    def replicate(self) -> None:
        """Broker 2 fetches to the end, twice: the second fetch acknowledges what the first brought."""
        end = self.node.broker.replicas.partition(TopicPartition(TRANSACTION_TOPIC, 0)).log.log_end_offset
        for offset in (max(0, end - 1), end):
            self.node.fetch(self.topic_id, offset, follower=2, last_epoch=0)
        self.run(1)

    def ask(self, request: object, version: int | None = None) -> object:
        """Each request of these tests but the one that is looked at is replicated at once."""
        promise = self.node.handle(request, version=version)  # type: ignore[arg-type]
        self.run(1)
        self.replicate()
        return promise.value.response

    def begin(self) -> Producer:
        producer = self.producer()
        assert self.add_as_broker(producer) == {"t": NONE}
        return producer


def test_markers_are_sent_and_the_producer_is_answered_once_the_decision_is_committed() -> None:
    t = Replicated()
    producer_id, epoch = t.begin()
    end = EndTxnRequest(transactional_id=NAME, producer_id=producer_id, producer_epoch=epoch, committed=True)
    answer = t.node.handle(end)
    t.run(5000)
    assert (answer.kept, t.node.markers) == (False, [])
    t.replicate()
    assert (answer.value.response.error_code, len(t.node.markers)) == (NONE, 1)


def test_a_decision_that_is_committed_late_is_carried_out_all_the_same() -> None:
    t = Replicated(replica_lag_time_max_ms="40000")
    producer_id, epoch = t.begin()
    end = EndTxnRequest(transactional_id=NAME, producer_id=producer_id, producer_epoch=epoch, committed=True)
    answer = t.node.handle(end)
    t.run(31_000)
    assert answer.value.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert t.node.markers == []
    t.run(30_000)  # broker 2 is not in sync any more: the record is committed
    assert t.marked() == [((producer_id, 1), True, ["t"])]
    t.run(1000)
    assert t.shard.transactions[NAME].state.title == "CompleteCommit"


def test_after_a_move_a_decision_waits_until_it_is_committed_before_its_markers_are_sent() -> None:
    t = Replicated()
    t.begin()
    t.node.handle(EndTxnRequest(transactional_id=NAME, producer_id=0, producer_epoch=0, committed=True))
    t.node.filesystem.sync_all()
    t.node.node.abandon()
    node = TransactionNode(t.node.filesystem, **PATIENT, replica_lag_time_max_ms="40000")
    assert node.broker.transactions.runtime.active(0).transactions[NAME].state.is_prepared
    node.run(5000)
    assert node.markers == []
    node.run(60_000)
    assert [len(sent.request.markers) for sent in node.markers] == [1]


def test_a_completion_that_is_written_again_does_not_complete_the_next_transaction() -> None:
    t = Replicated(replica_lag_time_max_ms="40000")
    producer_id, epoch = producer = t.producer()
    assert (t.add(producer), t.ended(producer, version=4)[0]) == (NONE, NONE)
    t.marked()
    topic = AddPartitionsToTxnRequest.Topic(name="t", partitions=[0])
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[topic],
    )
    end = EndTxnRequest(transactional_id=NAME, producer_id=producer_id, producer_epoch=epoch, committed=False)
    t.node.handle(add, version=3)
    t.run(10_000)
    t.node.handle(end, version=4)
    t.run(25_000)  # the record of the first completion was not replicated in time
    t.replicate()
    t.run(1)
    assert t.marked() == [(producer, False, ["t"])]
    t.replicate()
    assert t.state() == "CompleteAbort"
