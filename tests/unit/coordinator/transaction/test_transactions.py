"""Transactions on a whole node in virtual time: what each request is answered in each state, and when markers go out.

A test is a dialogue of producers with their coordinator; the test plays the leaders that write the markers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.cluster import TRANSACTION_COORDINATOR, FindCoordinatorRequest
from pykraft.protocol.messages.configs import DescribeConfigsRequest, ResourceType
from pykraft.protocol.messages.transactions import AddPartitionsToTxnRequest, DescribeTransactionsRequest
from tests.harness.transactions import NAME, Producer, TransactionNode, Transactions

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
CONCURRENT, INVALID = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE
UNKNOWN_ID, ABORTABLE = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE
LAST = (1 << 15) - 2
"""The last epoch that a producer gets."""
MINUTE_MS = 60_000


def open_transaction(t: Transactions, **fields: int) -> Producer:
    """A producer that has written to t."""
    producer = t.producer(**fields)
    assert t.add_as_broker(producer) == {"t": NONE}
    return producer


# --- one transaction --------------------------------------------------------------------------------------------------


def test_a_transaction_is_committed_once_every_marker_is_acknowledged() -> None:
    t = Transactions()
    assert (t.producer(), t.state()) == ((0, 0), "Empty")
    assert t.add_as_broker((0, 0), "t", "u") == {"t": NONE, "u": NONE}
    assert t.state() == "Ongoing"
    assert t.ended((0, 0)) == (NONE, (0, 1))
    assert t.state() == "PrepareCommit"
    assert t.marked(u=ErrorCode.NOT_LEADER_OR_FOLLOWER) == [((0, 1), True, ["t", "u"])]
    assert (t.state(), [topic.topic for topic in t.describe().topics]) == ("PrepareCommit", ["u"])
    t.run(100)
    assert t.marked() == [((0, 1), True, ["u"])]
    assert (t.state(), t.describe().topics) == ("CompleteCommit", [])
    assert [record.value.transaction_status for record in t.records()] == [0, 1, 2, 4]
    assert t.add_as_broker((0, 1)) == {"t": NONE}


def test_up_to_transaction_version_1_the_epoch_stays_the_same() -> None:
    t = Transactions()
    producer = t.producer()
    assert t.add(producer, "t", "u") == NONE
    assert t.ended(producer, commit=False, version=4) == (NONE, (-1, -1))
    assert t.marked() == [(producer, False, ["t", "u"])]
    assert t.state() == "CompleteAbort"
    assert t.add(producer) == NONE
    assert (t.state(), t.describe().producer_epoch) == ("Ongoing", 0)


def test_the_partition_of_a_group_is_part_of_the_transaction() -> None:
    t = Transactions(offsets_topic_num_partitions="3")
    producer = t.producer()
    assert t.add_offsets(producer, "g") == NONE
    (topic,) = t.describe().topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", [1])  # 'g' is 103


def test_a_partition_that_is_not_there_or_the_brokers_own_refuses_the_others() -> None:
    t = Transactions()
    producer = t.producer()
    not_tried = ErrorCode.OPERATION_NOT_ATTEMPTED
    gone = {"t": not_tried, "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert t.add_as_broker(producer, "t", "gone") == gone
    assert t.add(producer, TRANSACTION_TOPIC) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert t.state() == "Empty"


def test_the_leader_of_a_partition_learns_whether_it_is_in_the_transaction() -> None:
    t = Transactions()
    producer = open_transaction(t)
    assert t.add_as_broker(producer, "t", "u", verify_only=True) == {"t": NONE, "u": ABORTABLE}
    assert t.add_as_broker((producer[0], 7), "t", verify_only=True) == {"t": FENCED}
    assert t.add_as_broker((9, 0), "t", verify_only=True) == {"t": UNKNOWN_ID}
    assert t.add_as_broker(producer, "t", name="nobody", verify_only=True) == {"t": UNKNOWN_ID}
    assert t.add_as_broker(producer, "t", name="", verify_only=True) == {"t": ErrorCode.INVALID_REQUEST}
    _, producer = t.ended(producer)
    assert t.add_as_broker(producer, "t", verify_only=True) == {"t": CONCURRENT}


def test_while_a_transaction_ends_its_producer_waits() -> None:
    t = Transactions()
    first = open_transaction(t)
    _, second = t.ended(first)
    assert t.add_as_broker(second) == {"t": CONCURRENT}
    assert t.init(second).error_code == CONCURRENT
    assert t.init().error_code == CONCURRENT
    assert t.ended(first)[0] == CONCURRENT
    assert t.ended(first, commit=False)[0] == CONCURRENT
    assert t.ended(second)[0] == t.ended(second, commit=False)[0] == CONCURRENT
    t.marked()
    assert t.ended(first, commit=False)[0] == INVALID
    assert t.add_as_broker(second) == {"t": NONE}


def test_partitions_that_are_in_the_transaction_already_are_not_written_again() -> None:
    t = Transactions()
    producer = open_transaction(t)
    before = len(t.records())
    assert t.add_as_broker(producer) == {"t": NONE}
    assert len(t.records()) == before


# --- EndTxn, once more or where there is no transaction ---------------------------------------------------------------


def test_an_end_that_is_repeated_is_answered_as_the_first_time() -> None:
    t = Transactions()
    first = open_transaction(t)
    answer = t.ended(first)
    t.marked()
    assert answer == t.ended(first) == (NONE, (first[0], 1))
    assert t.ended(first, commit=False)[0] == INVALID
    assert t.node.markers == []


def test_an_abort_without_a_transaction_raises_the_epoch() -> None:
    t = Transactions()
    producer = t.producer()
    assert t.ended(producer)[0] == INVALID
    assert t.ended(producer, commit=False) == (NONE, (producer[0], 1))
    assert (t.state(), t.node.markers) == ("CompleteAbort", [])
    assert t.ended(producer, commit=False) == (NONE, (producer[0], 1))  # again
    assert t.ended((producer[0], 1), commit=False) == (NONE, (producer[0], 2))


def test_old_clients_hear_of_an_invalid_epoch_instead_of_a_fenced_producer() -> None:
    t = Transactions()
    producer_id, _ = t.producer()
    assert t.producer() == (producer_id, 1)
    old, code = (producer_id, 0), ErrorCode.INVALID_PRODUCER_EPOCH
    assert t.add(old, version=1) == t.add_offsets(old, version=1) == t.ended(old, version=1)[0] == code
    assert t.add(old, version=2) == t.add_offsets(old, version=2) == t.ended(old, version=2)[0] == FENCED
    stranger = (producer_id + 500, 0)
    assert t.init(stranger, version=3).error_code == code
    assert t.init(stranger, version=4).error_code == FENCED


# --- InitProducerId ---------------------------------------------------------------------------------------------------


def test_a_new_producer_fences_the_one_before_it_and_aborts_its_transaction() -> None:
    t = Transactions()
    old = open_transaction(t)
    assert t.init().error_code == CONCURRENT
    assert t.state() == "PrepareAbort"
    assert t.add_as_broker(old) == {"t": CONCURRENT}
    assert t.init().error_code == CONCURRENT
    assert t.marked() == [((old[0], 1), False, ["t"])]
    assert t.add_as_broker(old) == {"t": FENCED}
    assert t.producer() == (old[0], 2)
    assert t.ended(old)[0] == FENCED


def test_a_producer_that_goes_on_after_an_error_may_repeat_its_request() -> None:
    t = Transactions()
    producer_id, epoch = t.producer()
    for _ in range(2):
        assert t.producer(expected=(producer_id, epoch)) == (producer_id, 1)
    assert t.producer(expected=(producer_id, 1)) == (producer_id, 2)
    assert t.init((producer_id, 0)).error_code == FENCED
    assert t.producer() == (producer_id, 3)
    assert t.init((producer_id, 2)).error_code == FENCED  # another one has begun since
    assert t.init((producer_id, -1)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1, 15 * MINUTE_MS + 1])
def test_a_timeout_has_limits(timeout_ms: int) -> None:
    t = Transactions()
    assert t.init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_transactional_id_has_a_name_that_a_record_can_hold() -> None:
    t = Transactions()
    assert t.init(name="").error_code == t.init(name="é" * 16384).error_code == ErrorCode.INVALID_REQUEST
    name = "é" * 16383
    assert t.producer(name) == (0, 0)
    assert t.describe(name).transaction_state == "Empty"


# --- exhausted epochs -------------------------------------------------------------------------------------------------


def test_a_producer_that_ends_its_last_epoch_goes_on_with_a_new_producer_id() -> None:
    t = Transactions()
    old = t.aged(LAST)
    assert t.add_as_broker(old) == {"t": NONE}
    error, new = t.ended(old)
    assert (error, new) == (NONE, (old[0] + 1, 0))
    assert t.marked() == [((old[0], LAST + 1), True, ["t"])]
    assert t.ended(old) == (NONE, new)  # again
    assert t.ended(old, commit=False)[0] == INVALID
    assert t.add_as_broker(new) == {"t": NONE}
    assert t.ended(old)[0] == UNKNOWN_ID


@pytest.mark.parametrize("level", [1, 2])
def test_a_transaction_that_another_coordinator_let_begin_in_the_largest_epoch_is_aborted(level: int) -> None:
    t = Transactions()
    t.set_level(level)
    old = t.aged(LAST)
    assert t.add_as_broker(old) == {"t": NONE}
    t.shard.transactions[NAME] = replace(t.shard.transactions[NAME], producer_epoch=LAST + 1)
    assert t.init().error_code == CONCURRENT
    assert t.marked() == [((old[0], LAST + 1), False, ["t"])]
    assert t.producer() == (old[0] + 1, 0)


def test_a_producer_with_its_new_producer_id_waits_while_markers_of_the_old_one_are_written() -> None:
    t = Transactions()
    old = t.aged(LAST)
    assert t.add_as_broker(old) == {"t": NONE}
    _, new = t.ended(old)
    assert t.init(new).error_code == CONCURRENT
    t.marked()
    assert t.producer(expected=new) == (new[0], 1)


def test_a_producer_that_begins_after_the_last_epoch_gets_a_new_producer_id() -> None:
    t = Transactions()
    old = t.aged(LAST)
    new = t.producer(expected=old)
    assert new == t.producer(expected=old) == (old[0] + 1, 0)
    assert t.init((old[0], LAST - 1)).error_code == FENCED
    t.aged(LAST)
    assert t.producer() == (new[0] + 1, 0)


def test_a_fenced_producer_in_its_last_epoch_is_replaced_by_one_with_a_new_producer_id() -> None:
    t = Transactions()
    old = t.aged(LAST)
    assert t.add_as_broker(old) == {"t": NONE}
    assert t.init().error_code == CONCURRENT
    assert t.marked() == [((old[0], LAST + 1), False, ["t"])]
    assert t.init(old).error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka says
    assert t.producer() == (old[0] + 1, 0)


def test_no_producer_gets_the_epoch_that_is_kept_for_fencing() -> None:
    t = Transactions()
    old = t.aged(LAST)
    assert t.add_as_broker(old) == {"t": NONE}
    t.pass_time(71_000)
    assert t.marked() == [((old[0], LAST + 1), False, ["t"])]
    assert t.ended(old, commit=False)[0] == FENCED
    assert t.ended((old[0], LAST + 1), commit=False)[0] == FENCED
    assert t.add_as_broker((old[0], LAST + 1)) == {"t": FENCED}
    assert t.producer() == (old[0] + 1, 0)


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_transaction_that_lasts_too_long_is_aborted_with_a_new_epoch(level: int) -> None:
    t = Transactions()
    t.set_level(level)
    old = open_transaction(t) if level == 2 else t.producer()
    if level < 2:
        assert t.add(old) == NONE
    t.pass_time(59_000)
    assert t.state() == "Ongoing"
    t.pass_time(12_000)
    assert t.state() == "PrepareAbort"
    assert t.marked() == [((old[0], 1), False, ["t"])]
    assert (t.state(), t.describe().producer_epoch) == ("CompleteAbort", 1)
    assert t.add_as_broker(old) == {"t": FENCED}
    assert t.ended(old, version=5 if level == 2 else 4)[0] == (INVALID if level == 2 else FENCED)
    assert t.producer() == (old[0], 2)


@pytest.mark.costly
def test_transactions_that_time_out_together_are_aborted_in_several_turns() -> None:
    t = Transactions()
    open_transaction(t)
    found = t.shard.transactions[NAME]
    for number in range(350):
        name = f"y{number}"
        t.shard.transactions[name] = replace(found, transactional_id=name, producer_id=1000 + number)
    t.node.clock.now_ms += 61_000
    counts = {0}
    while max(counts) < 351:
        t.run(1)
        counts.add(sum(each.state.is_prepared for each in t.shard.transactions.values()))
    assert sorted(counts) == [0, 100, 200, 300, 351]


def test_a_producer_of_two_phase_commits_has_no_timeout() -> None:
    t = Transactions()
    open_transaction(t)
    t.shard.transactions[NAME] = replace(t.shard.transactions[NAME], timeout_ms=(1 << 31) - 1)
    t.node.clock.now_ms += 1 << 31
    t.run(21_000)
    assert t.state() == "Ongoing"


def test_a_transactional_id_that_is_not_used_for_long_is_forgotten() -> None:
    t = Transactions(
        transactional_id_expiration_ms="30000", transaction_remove_expired_transaction_cleanup_interval_ms="1000"
    )
    t.producer("other")
    open_transaction(t)
    t.pass_time(32_000)
    gone = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (t.describe("other").error_code, t.state()) == (gone, "Ongoing")
    assert t.records()[-1].value is None
    t.pass_time(39_000)
    t.marked()
    t.pass_time(25_000)
    assert t.state() == "CompleteAbort"
    t.pass_time(7000)
    assert t.describe().error_code == gone
    assert t.add_as_broker((0, 0)) == {"t": UNKNOWN_ID}


# --- markers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", list(Failure))
def test_markers_that_have_no_answer_are_sent_again(failure: Failure) -> None:
    t = Transactions()
    t.ended(open_transaction(t))
    for _ in range(3):
        assert t.lose(failure) == [((0, 1), True, ["t"])]
        assert t.node.markers == []
        t.run(100)
    assert t.marked() == [((0, 1), True, ["t"])]
    assert t.state() == "CompleteCommit"


def test_a_topic_that_is_deleted_needs_no_marker() -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer, "t", "u")
    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="u")], timeout_ms=1000)
    t.node.ask(gone, ListenerKind.CONTROLLER)
    t.run(100)
    t.ended(producer)
    assert t.marked() == [((0, 1), True, ["t"])]
    assert t.state() == "CompleteCommit"


def test_a_partition_without_a_leader_gets_its_marker_when_it_has_one() -> None:
    t = Transactions(broker_session_timeout_ms="9000")
    t.node.join(2)
    t.node.create("w", (2,))
    producer = t.producer()
    t.add_as_broker(producer, "w")
    t.run(12_000)  # broker 2 sends no heartbeat
    t.ended(producer)
    assert t.node.markers == []
    t.node.heartbeat(2)
    assert t.marked() == [((0, 1), True, ["w"])]
    assert t.state() == "CompleteCommit"


def test_the_markers_of_several_transactions_go_to_a_leader_together() -> None:
    t = Transactions()
    names = [f"x{number}" for number in range(3)]
    producers = {name: t.producer(name) for name in names}
    for name, producer in producers.items():
        t.add_as_broker(producer, name=name)
        t.ended(producer, name=name)
    assert [len(sent.request.markers) for sent in t.node.markers] == [1]
    t.marked()
    assert [len(sent.request.markers) for sent in t.node.markers] == [2]
    t.marked()
    assert [t.state(name) for name in names] == ["CompleteCommit"] * 3


@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_coordinator_that_was_replaced_sends_no_more_markers(code: ErrorCode) -> None:
    t = Transactions()
    producer = t.producer()
    t.add_as_broker(producer, "t", "u")
    t.ended(producer)
    t.marked(t=code)
    t.run(1000)
    assert (t.node.markers, t.state()) == ([], "PrepareCommit")


def test_markers_say_by_which_rules_the_transaction_was_ended() -> None:
    t = Transactions()
    producer = open_transaction(t)
    t.ended(producer)
    (marker,) = t.node.markers[0].request.markers
    assert (marker.transaction_version, marker.coordinator_epoch) == (2, 0)
    t.marked()
    t.add((producer[0], 1))
    t.end((producer[0], 1), version=4)
    (marker,) = t.node.markers[0].request.markers
    assert marker.transaction_version == 0
    assert t.node.markers[0].destination.port == 9092


# --- seen from outside ------------------------------------------------------------------------------------------------


def test_transactions_are_listed_by_state_producer_time_and_pattern() -> None:
    t = Transactions()
    for name in ("a-1", "a-2", "b-1"):
        t.producer(name)
    t.add_as_broker((1, 0), name="a-2")
    t.pass_time(5000)

    def names(**filters: object) -> list[str]:
        return [state.transactional_id for state in t.listed(**filters).transaction_states]

    assert names() == ["a-1", "a-2", "b-1"]
    assert names(state_filters=["Ongoing", "Dead"]) == ["a-2"]
    assert names(producer_id_filters=[0, 2]) == ["a-1", "b-1"]
    assert names(duration_filter=4999) == ["a-1", "a-2", "b-1"]  # an id without a transaction began at -1
    assert names(duration_filter=5000, state_filters=["Ongoing"]) == []
    assert names(transactional_id_pattern="a-.") == ["a-1", "a-2"]
    assert names(transactional_id_pattern="a") == []
    assert names(transactional_id_pattern="") == ["a-1", "a-2", "b-1"]
    assert t.listed(state_filters=["ongoing"]).unknown_state_filters == ["ongoing"]
    assert t.listed(transactional_id_pattern="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_is_described() -> None:
    t = Transactions()
    open_transaction(t)
    state = t.describe()
    assert (state.transaction_timeout_ms, state.transaction_start_time_ms) == (60_000, t.node.clock.now_ms)
    assert (state.producer_id, state.producer_epoch) == (0, 0)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("t", [0])]
    assert t.describe("nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# --- the coordinator --------------------------------------------------------------------------------------------------


def test_a_request_about_many_transactions_takes_several_turns() -> None:
    t = Transactions()
    names = [f"y{number}" for number in range(1200)]
    answer = t.node.handle(DescribeTransactionsRequest(transactional_ids=names))
    assert not answer.kept
    t.run(10)
    assert [each.transactional_id for each in answer.value.response.transaction_states] == names


def test_a_transaction_gets_many_partitions_in_several_turns() -> None:
    t = Transactions()
    producer = t.producer()
    topic = AddPartitionsToTxnRequest.Topic(name="t", partitions=list(range(1200)))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[topic],
    )
    answer = t.node.handle(request, version=3)
    assert not answer.kept and len(t.node.node.dispatcher.slices) == 1
    t.run(10)
    response: Any = answer.value.response
    errors = [part.partition_error_code for part in response.results_by_topic_v3_and_below[0].results_by_partition]
    assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 1199


def test_the_first_lookup_of_a_coordinator_has_the_internal_topic_made() -> None:
    node = TransactionNode(
        transaction_state_log_num_partitions="2",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        transaction_state_log_segment_bytes=str(1 << 20),
    )
    find = FindCoordinatorRequest(key_type=TRANSACTION_COORDINATOR, coordinator_keys=["x"])
    assert node.ask(find).coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.run(500)
    found = node.ask(find).coordinators[0]
    assert (found.error_code, found.node_id, found.port) == (NONE, 1, 9092)
    assert len(node.node.loader.image.topic_named(TRANSACTION_TOPIC).partitions) == 2  # type: ignore[union-attr]
    resource = DescribeConfigsRequest.Resource(resource_type=ResourceType.TOPIC, resource_name=TRANSACTION_TOPIC)
    configs = node.ask(DescribeConfigsRequest(resources=[resource])).results[0].configs
    assert {each.name: each.value for each in configs if each.config_source == 1} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": str(1 << 20),
        "unclean.leader.election.enable": "false",
    }


def test_a_client_sees_the_topics_and_transactional_ids_that_it_may_describe() -> None:
    t = Transactions(TransactionNode(authorizer=Shows("x", "u")))
    for topic in (TRANSACTION_TOPIC, "t", "u"):
        t.node.create(topic)
    for name in ("x", "y"):
        t.add_as_broker(t.producer(name), "t", "u", name=name)
    assert [state.transactional_id for state in t.listed().transaction_states] == ["x"]
    assert [topic.topic for topic in t.describe().topics] == ["u"]
    assert t.describe("y").error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class Shows:
    """Lets clients DESCRIBE the resources of these names, and do all else."""

    allows_all = False

    def __init__(self, *names: str) -> None:
        self._names = names

    def allows(self, context: object, operation: AclOperation, resource_type: AclResourceType, name: str) -> bool:
        return operation is not AclOperation.DESCRIBE or name in self._names

    def allowed(
        self, context: object, operation: AclOperation, resource_type: AclResourceType, names: Collection[str]
    ) -> Collection[str]:
        return [name for name in names if self.allows(context, operation, resource_type, name)]

    def allows_some(self, context: object, operation: AclOperation, resource_type: AclResourceType) -> bool:
        return True


def test_a_broker_that_does_not_coordinate_says_so() -> None:
    t = Transactions(TransactionNode())
    assert t.init().error_code == t.ended((0, 0))[0] == ErrorCode.NOT_COORDINATOR
    assert t.describe().error_code == ErrorCode.NOT_COORDINATOR
    assert t.listed().transaction_states == []
