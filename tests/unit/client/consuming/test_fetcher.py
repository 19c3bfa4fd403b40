"""Fetching ahead: what is asked of whom, what is handed out in which order, and what is skipped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pykraft.client.consuming.fetcher import Fetcher
from pykraft.client.consuming.subscription import FetchPosition, State, SubscriptionState
from pykraft.client.errors import NoOffsetError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import Failure, Outbound
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, LeaderIdAndEpoch, NodeEndpoint
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.filtering import emptied
from pykraft.records.markers import Marker, end_transaction_marker
from tests.harness.scripted import HOST, Leaders, Script, knowing, learn, partition, settings, topic_id

T0, T1, T2 = partition("t-0"), partition("t-1"), partition("t-2")
LEADERS: Leaders = {"t": [(1, 0), (1, 0), (2, 0)]}
PAUSE_MS = 200
Part = FetchResponse.Topic.Partition


class Fetching:
    """A fetcher under way, and what it has read."""

    def __init__(self, *assigned: TopicPartition, reset: str = "earliest", **given: object) -> None:
        config = settings("consumer", **given)
        self.metadata: ClusterMetadata = knowing(config, LEADERS)
        self.subscription = SubscriptionState(reset)
        self.subscription.assign(assigned or [T0])
        for state in self.subscription.partitions.values():
            state.seek(FetchPosition(0))
        self.fetcher = Fetcher(config, self.metadata, self.subscription)
        self.script = Script(self.fetcher)

    def poll(self, after_ms: int = 0) -> list[Outbound]:
        return self.script.poll(after_ms)

    def answer(
        self,
        *parts: Part,
        outbound: Outbound | None = None,
        session_id: int = 0,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        topic = FetchResponse.Topic(topic_id=topic_id("t"), topic="", partitions=list(parts))
        response = FetchResponse(error_code=error, session_id=session_id, responses=[topic] if parts else [])
        self.script.answer(outbound or FetchRequest, response)

    def take(self, limit: int = 500) -> list[tuple[int, int]]:
        """(partition, offset) of the next records."""
        return [(each.topic_partition.partition, each.record.offset) for each in self.fetcher.take(limit)]

    def position(self, key: TopicPartition = T0) -> int | None:
        position = self.subscription.partitions[key].position
        return None if position is None else position.offset


def asked(outbound: Outbound) -> dict[int, int]:
    """By partition the offset that is asked for."""
    return {p.partition: p.fetch_offset for topic in outbound.request.topics for p in topic.partitions}


def batch(first: int, count: int, epoch: int = 0, producer: int = -1, transactional: bool = False) -> bytes:
    builder = RecordBatchBuilder(
        base_offset=first, leader_epoch=epoch, producer_id=producer, producer_epoch=0, transactional=transactional
    )
    for number in range(count):
        builder.append(1000 + first + number, None, b"%d" % (first + number))
    return bytes(builder.build())


def marker(offset: int, producer: int, committed: bool) -> bytes:
    data = bytearray(end_transaction_marker(producer, 0, Marker(committed, 0), 1000))
    data[:8] = offset.to_bytes(8, "big")
    return bytes(data)


def part(number: int, *data: bytes, aborted: Sequence[tuple[int, int]] = (), high_watermark: int = 100) -> Part:
    return Part(
        partition_index=number,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        records=b"".join(data),
        aborted_transactions=[Part.AbortedTransaction(first_offset=first, producer_id=p) for first, p in aborted],
    )


def failed(number: int, error: ErrorCode) -> Part:
    return Part(partition_index=number, error_code=error, high_watermark=-1)


# --- asking -----------------------------------------------------------------------------------------------------------


def test_each_leader_is_asked_once_for_all_its_partitions() -> None:
    some = Fetching(T0, T1, T2)
    some.subscription.partitions[T1].seek(FetchPosition(7))
    assert {outbound.destination.id: asked(outbound) for outbound in some.poll()} == {1: {0: 0, 1: 7}, 2: {2: 0}}
    assert some.poll(10_000) == [], "one is under way to each"


def test_the_settings_are_in_the_request() -> None:
    some = Fetching(
        fetch_min_bytes=11,
        fetch_max_wait_ms=22,
        fetch_max_bytes=33,
        max_partition_fetch_bytes=44,
        isolation_level="read_committed",
    )
    (outbound,) = some.poll()
    request: FetchRequest = outbound.request
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes, request.isolation_level) == (11, 22, 33, 1)
    assert request.topics[0].partitions[0].partition_max_bytes == 44
    assert outbound.timeout_ms == 30_000 + 22, "the broker may hold it back for so long"


def test_only_what_has_a_position_and_is_not_paused_is_fetched() -> None:
    some = Fetching(T0, T1)
    some.subscription.partitions[T0].reset(-1)
    some.subscription.partitions[T1].is_paused = True
    assert some.poll() == []


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    some = Fetching()
    learn(some.metadata, {"t": [None]})
    assert some.poll() == []
    learn(some.metadata, {"t": [(3, 2)]})
    (outbound,) = some.poll()
    assert (outbound.destination.id, outbound.request.topics[0].partitions[0].current_leader_epoch) == (3, 2)


def test_what_is_not_taken_yet_is_not_fetched_again() -> None:
    some = Fetching()
    some.poll()
    some.answer(part(0, batch(0, 3)))
    assert some.poll(10_000) == []
    some.take()
    (outbound,) = some.poll()
    assert asked(outbound) == {0: 3}


def test_while_something_is_left_of_a_broker_it_is_not_asked_for_its_other_partitions() -> None:
    """That fetch might wait, and what is left would be read with no fetch under way for its partition."""
    some = Fetching(T0, T1)
    some.poll()
    some.answer(part(0, batch(0, 3)), part(1))
    assert some.poll(10_000) == []
    some.take()
    (outbound,) = some.poll()
    assert asked(outbound) == {0: 3, 1: 0}


def test_who_was_served_last_is_asked_for_last() -> None:
    """A broker fills an answer partition by partition, up to fetch.max.bytes: the first ones could starve the rest."""
    some = Fetching(T0, T1)
    (outbound,) = some.poll()
    assert list(asked(outbound)) == [0, 1]
    some.answer(part(0, batch(0, 1)), part(1))
    assert some.take() == [(0, 0)]
    (outbound,) = some.poll()
    assert list(asked(outbound)) == [1, 0]
    some.answer(part(1, batch(0, 1)), part(0))
    assert some.take() == [(1, 0)]
    (outbound,) = some.poll()
    assert list(asked(outbound)) == [0, 1]


def test_an_empty_answer_is_asked_again_at_once() -> None:
    """The broker has waited already."""
    some = Fetching()
    some.poll()
    some.answer(part(0))
    assert len(some.poll()) == 1


# --- in a session -----------------------------------------------------------------------------------------------------


def forgotten(outbound: Outbound) -> list[int]:
    return [number for topic in outbound.request.forgotten_topics_data for number in topic.partitions]


def test_in_a_session_the_partitions_that_were_read_are_named_again() -> None:
    some = Fetching(T0, T1)
    some.poll()
    some.answer(part(0, batch(0, 2)), part(1), session_id=77)
    some.take()
    (outbound,) = some.poll()
    assert (outbound.request.session_id, outbound.request.session_epoch, asked(outbound)) == (77, 1, {0: 2})
    some.answer(part(1, batch(0, 1)), session_id=77)
    assert some.take() == [(1, 0)]
    (outbound,) = some.poll()
    assert (outbound.request.session_epoch, asked(outbound), forgotten(outbound)) == (2, {1: 1}, [])


def test_a_partition_that_is_left_out_keeps_its_high_watermark() -> None:
    some = Fetching()
    some.poll()
    some.answer(part(0, high_watermark=7), session_id=77)
    some.poll()
    some.answer(session_id=77)
    assert some.subscription.partitions[T0].high_watermark == 7
    assert len(some.poll()) == 1, "it is fetched on"


def test_a_paused_partition_is_forgotten_until_it_is_read_again() -> None:
    some = Fetching(T0, T1)
    some.poll()
    some.answer(part(0), part(1), session_id=77)
    some.subscription.partitions[T0].is_paused = True
    (outbound,) = some.poll()
    assert (asked(outbound), forgotten(outbound)) == ({}, [0])
    some.answer(session_id=77)
    some.subscription.partitions[T0].is_paused = False
    (outbound,) = some.poll()
    assert (asked(outbound), forgotten(outbound)) == ({0: 0}, [])


def test_the_high_watermark_of_a_partition_that_is_given_up_and_taken_back_is_asked_for_again() -> None:
    some = Fetching()
    some.poll()
    some.answer(part(0, high_watermark=7), session_id=77)
    some.poll()
    some.subscription.assign([])
    some.subscription.assign([T0])
    some.subscription.partitions[T0].seek(FetchPosition(0))
    some.answer(session_id=77)
    (outbound,) = some.poll()
    assert (outbound.request.session_epoch, asked(outbound)) == (0, {0: 0})


def test_a_broker_without_the_session_is_asked_for_everything_at_once() -> None:
    some = Fetching(T0, T1)
    some.poll()
    some.answer(part(0), part(1), session_id=77)
    some.poll()
    some.answer(session_id=0, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    (outbound,) = some.poll()
    assert (outbound.request.session_id, asked(outbound)) == (0, {0: 0, 1: 0})
    some.fetcher.raise_error()


def test_each_broker_has_a_session_of_its_own() -> None:
    some = Fetching(T0, T2)
    for outbound, number, session_id in zip(some.poll(), (0, 2), (77, 78), strict=True):
        some.answer(part(number), outbound=outbound, session_id=session_id)
    assert [outbound.request.session_id for outbound in some.poll()] == [77, 78]


# --- handing out ------------------------------------------------------------------------------------------------------


def test_the_position_moves_with_what_is_taken() -> None:
    some = Fetching()
    some.poll()
    some.answer(part(0, batch(0, 3), batch(3, 2, epoch=5)))
    assert some.position() == 0
    assert some.take(2) == [(0, 0), (0, 1)]
    assert some.position() == 2
    assert some.take(2) == [(0, 2), (0, 3)]
    assert some.take(2) == [(0, 4)]
    assert some.subscription.partitions[T0].position == FetchPosition(5, 5), "and the epoch of the last record"
    assert some.subscription.partitions[T0].high_watermark == 100


def test_a_batch_comes_whole_but_is_read_from_the_position_on() -> None:
    some = Fetching()
    some.subscription.partitions[T0].seek(FetchPosition(2))
    some.poll()
    some.answer(part(0, batch(0, 4)))
    assert some.take() == [(0, 2), (0, 3)]


def test_what_was_fetched_before_a_seek_is_dropped() -> None:
    some = Fetching()
    some.poll()
    some.answer(part(0, batch(0, 3)))
    some.subscription.partitions[T0].seek(FetchPosition(50))
    assert some.take() == []
    (outbound,) = some.poll()
    assert asked(outbound) == {0: 50}


def test_an_answer_to_before_a_seek_is_dropped() -> None:
    some = Fetching()
    some.poll()
    some.subscription.partitions[T0].seek(FetchPosition(50))
    some.answer(part(0, batch(0, 3)))
    assert some.take() == []
    assert some.position() == 50


def test_what_was_fetched_of_a_partition_that_is_not_read_any_more_is_dropped() -> None:
    some = Fetching(T0, T1)
    some.poll()
    some.answer(part(0, batch(0, 3)), part(1, batch(0, 1)))
    some.subscription.assign([T1])
    assert some.take() == [(1, 0)]


def test_a_paused_partition_keeps_what_was_fetched() -> None:
    some = Fetching(T0, T1)
    some.poll()
    some.answer(part(0, batch(0, 2)), part(1, batch(0, 1)))
    some.subscription.partitions[T0].is_paused = True
    assert some.take() == [(1, 0)]
    assert some.take() == []
    some.subscription.partitions[T0].is_paused = False
    assert some.take() == [(0, 0), (0, 1)]


def test_what_was_fetched_of_a_paused_partition_is_no_news() -> None:
    some = Fetching()
    some.poll()
    some.answer(part(0, batch(0, 2)))
    assert some.fetcher.has_news
    some.subscription.partitions[T0].is_paused = True
    assert not some.fetcher.has_news, "who waits for news would be told again and again"
    some.subscription.partitions[T0].is_paused = False
    assert some.fetcher.has_news


def test_gaps_are_passed() -> None:
    """Cleaning leaves them, and batches without records."""
    some = Fetching()
    some.poll()
    some.answer(part(0, batch(10, 2), batch(40, 1)))
    assert some.take() == [(0, 10), (0, 11), (0, 40)]
    assert some.position() == 41


@pytest.mark.parametrize("limit", [2, 500])
def test_a_damaged_batch_is_told_after_what_comes_before_it(limit: int) -> None:
    some = Fetching()
    some.poll()
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    some.answer(part(0, batch(0, 2), bytes(damaged)))
    assert some.take(limit) == [(0, 0), (0, 1)]
    with pytest.raises(CorruptRecordError, match="t-0: the batch at offset 2"):
        some.take()
    assert some.position() == 2, "who wants to go on without it seeks"


def test_who_does_not_check_does_not_see_it() -> None:
    some = Fetching(check_crcs=False)
    some.poll()
    damaged = bytearray(batch(0, 2))
    damaged[17] ^= 1
    some.answer(part(0, bytes(damaged)))
    assert some.take() == [(0, 0), (0, 1)]


# --- transactions -----------------------------------------------------------------------------------------------------

MIXED = [
    batch(0, 2, producer=1, transactional=True),
    batch(2, 1),
    batch(3, 1, producer=2, transactional=True),
    marker(4, 1, committed=False),
    batch(5, 1, producer=1, transactional=True),
    marker(6, 2, committed=True),
    marker(7, 1, committed=True),
]


@pytest.mark.parametrize(("level", "seen"), [("read_uncommitted", [0, 1, 2, 3, 5]), ("read_committed", [2, 3, 5])])
def test_aborted_records_are_seen_by_those_who_want_to(level: str, seen: list[int]) -> None:
    some = Fetching(isolation_level=level)
    some.poll()
    some.answer(part(0, *MIXED, aborted=[(0, 1)]))
    assert some.take() == [(0, offset) for offset in seen]
    assert some.position() == (8 if not some.take() else None), "markers are passed and never seen"


def test_a_marker_that_compaction_has_emptied_is_passed() -> None:
    some = Fetching(isolation_level="read_committed")
    some.poll()
    spent = bytes(emptied(RecordBatch(memoryview(marker(1, 1, committed=False)))))
    some.answer(part(0, batch(0, 1), spent, batch(2, 1, producer=1, transactional=True)))
    assert some.take() == [(0, 0), (0, 2)]


@pytest.mark.parametrize(("level", "lag"), [("read_uncommitted", 5), ("read_committed", 2)])
def test_the_lag_ends_where_the_reader_must_stop(level: str, lag: int) -> None:
    some = Fetching(isolation_level=level)
    is_committed = level == "read_committed"
    state = some.subscription.partitions[T0]
    assert state.lag(is_committed) is None
    some.poll()
    answer = part(0, batch(0, 1))
    answer.high_watermark, answer.last_stable_offset = 6, 3
    some.answer(answer)
    some.take()
    assert state.lag(is_committed) == lag


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID],
    ids=lambda error: error.name,
)
def test_what_may_pass_is_asked_again_after_a_pause(error: ErrorCode) -> None:
    some = Fetching()
    some.poll()
    some.answer(failed(0, error))
    assert some.poll() == []
    learn(some.metadata, {"t": [(3, 1)]})
    assert [outbound.destination.id for outbound in some.poll(PAUSE_MS)] == [3]
    some.fetcher.raise_error()


def test_a_refusal_may_tell_who_leads_now() -> None:
    some = Fetching()
    (outbound,) = some.poll()
    refusal = failed(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    refusal.current_leader = LeaderIdAndEpoch(leader_id=4, leader_epoch=1)
    topic = FetchResponse.Topic(topic_id=topic_id("t"), topic="", partitions=[refusal])
    endpoint = NodeEndpoint(node_id=4, host=HOST, port=9004)
    some.script.answer(outbound, FetchResponse(responses=[topic], node_endpoints=[endpoint]))
    assert [outbound.destination.port for outbound in some.poll(PAUSE_MS)] == [9004]


def test_a_broker_that_does_not_answer_is_left_alone_for_a_while_and_others_are_not() -> None:
    some = Fetching(T0, T2)
    first, second = some.poll()
    some.script.fail(first)
    some.answer(part(2), outbound=second)
    assert [outbound.destination.id for outbound in some.poll()] == [2]
    assert [outbound.destination.id for outbound in some.poll(PAUSE_MS)] == [1]


def test_an_offset_that_is_gone_is_replaced_by_the_policys() -> None:
    some = Fetching()
    some.poll()
    some.answer(failed(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    state = some.subscription.partitions[T0]
    assert (state.state, state.reset_timestamp) == (State.AWAITING_RESET, -2)


def test_without_a_policy_it_is_told_once_and_asked_for_again_only_then() -> None:
    some = Fetching(reset="none")
    some.poll()
    some.answer(failed(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert some.fetcher.has_news
    assert some.poll(10_000) == []
    with pytest.raises(NoOffsetError, match="t-0: offset 0 is not in the log"):
        some.fetcher.raise_error()
    some.fetcher.raise_error()
    assert len(some.poll()) == 1


def test_who_has_sought_elsewhere_is_not_told_of_what_was_before() -> None:
    some = Fetching(reset="none")
    some.poll()
    some.answer(failed(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    some.subscription.partitions[T0].seek(FetchPosition(42))
    some.fetcher.raise_error()
    assert [asked(outbound) for outbound in some.poll()] == [{0: 42}]


def test_what_does_not_pass_is_told_with_its_partition() -> None:
    some = Fetching(T0, T1)
    some.poll()
    some.answer(failed(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED), part(1, batch(0, 1)))
    with pytest.raises(KafkaError, match="t-0") as error:
        some.fetcher.raise_error()
    assert error.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert some.take() == [(1, 0)]


def test_a_broker_that_does_not_speak_fetch_is_told() -> None:
    some = Fetching()
    some.poll()
    some.script.fail(FetchRequest, Failure.UNSUPPORTED_VERSION)
    with pytest.raises(KafkaError, match="broker 1 cannot be fetched from"):
        some.fetcher.raise_error()


# --- whole batches, for a reader that unpacks them itself -------------------------------------------------------------


def taken(some: Fetching) -> list[int]:
    """The base offsets of the batches that one answer brought."""
    found = some.fetcher.take_batches()
    return [] if found is None else [each.base_offset for each in found[1]]


def test_batches_are_handed_out_whole_and_the_position_moves_behind_them() -> None:
    some = Fetching(isolation_level="read_committed")
    some.poll()
    mine = batch(4, 2, producer=7, transactional=True)
    some.answer(part(0, batch(0, 2), batch(2, 2), mine, marker(6, 7, False), aborted=[(4, 7)]))
    assert taken(some) == [0, 2]
    assert some.position() == 7
    assert taken(some) == []


def test_a_leader_may_begin_before_the_position_and_that_does_not_turn_it_back() -> None:
    some = Fetching()
    some.subscription.partitions[T0].seek(FetchPosition(4))
    some.poll()
    some.answer(part(0, batch(0, 2), batch(2, 2), batch(4, 2)))
    assert taken(some) == [4]
    assert some.position() == 6


def test_batches_before_a_damaged_one_are_handed_out_and_then_the_error_is_raised() -> None:
    some = Fetching()
    some.poll()
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    some.answer(part(0, batch(0, 2), bytes(damaged)))
    assert taken(some) == [0]
    with pytest.raises(CorruptRecordError, match="t-0: the batch at offset 2"):
        taken(some)
    assert some.position() == 2


def test_an_answer_that_does_not_go_on_from_the_position_is_an_error() -> None:
    """Otherwise a reader would ask for ever."""
    some = Fetching()
    some.subscription.partitions[T0].seek(FetchPosition(4))
    some.poll()
    some.answer(part(0, batch(0, 2)))
    with pytest.raises(CorruptRecordError, match="t-0 at offset 4: what the broker sent does not go on from there"):
        some.take()


def test_a_batch_that_the_size_of_the_fetch_cuts_is_an_error_that_names_the_setting() -> None:
    some = Fetching(max_partition_fetch_bytes=70)
    some.poll()
    some.answer(part(0, batch(0, 2)[:70]))
    with pytest.raises(KafkaError, match=r"a batch is larger than max\.partition\.fetch\.bytes \(70\)"):
        some.take()


def test_of_a_topic_with_another_id_than_the_wanted_one_nothing_is_fetched() -> None:
    some = Fetching()
    some.fetcher.topic_ids["t"] = topic_id("another")
    assert some.poll() == []
    some.fetcher.topic_ids["t"] = topic_id("t")
    assert len(some.poll()) == 1


def test_why_the_last_answer_brought_nothing_can_be_asked_for() -> None:
    some = Fetching()
    some.poll()
    some.answer(failed(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert some.fetcher.obstacle.startswith("t-0: ")
    some.poll(PAUSE_MS)
    some.answer(part(0))
    assert some.fetcher.obstacle == ""


# --- the nearest replica ----------------------------------------------------------------------------------------------

MAX_AGE_MS = 60_000


def sent_to(replica: int) -> Part:
    """The leader's answer that names a follower to fetch from."""
    return Part(partition_index=0, high_watermark=100, last_stable_offset=100, preferred_read_replica=replica)


def near(*assigned: TopicPartition, replica: int = 3) -> Fetching:
    """A consumer that was sent to a replica, and fetches from it."""
    some = Fetching(*assigned, client_rack="r", metadata_max_age_ms=MAX_AGE_MS)
    some.poll()
    some.answer(sent_to(replica), *(part(key.partition) for key in assigned if key != T0))
    return some


def destinations(outbounds: Sequence[Outbound]) -> dict[int, dict[int, int]]:
    """By broker, what it is asked."""
    return {outbound.destination.id: asked(outbound) for outbound in outbounds}


def test_a_consumer_tells_its_rack_and_goes_at_once_to_the_replica_that_the_leader_names() -> None:
    some = Fetching(client_rack="r")
    (outbound,) = some.poll()
    assert (outbound.destination.id, outbound.request.rack_id) == (1, "r")
    some.answer(sent_to(3))
    (outbound,) = some.poll()
    assert (outbound.destination.id, asked(outbound)) == (3, {0: 0})
    some.answer(part(0, batch(0, 2)))
    assert some.take() == [(0, 0), (0, 1)]
    assert destinations(some.poll()) == {3: {0: 2}}, "it stays there"


def test_only_the_partition_that_was_sent_elsewhere_goes_there() -> None:
    some = near(T0, T1)
    assert destinations(some.poll()) == {3: {0: 0}, 1: {1: 0}}


def test_after_the_age_of_metadata_the_leader_is_asked_again_whatever_was_said_meanwhile() -> None:
    some = near()
    for _ in range(2):
        assert destinations(some.poll(MAX_AGE_MS // 2)) == {3: {0: 0}}
        some.answer(sent_to(3))
    assert destinations(some.poll(1)) == {1: {0: 0}}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
    ids=lambda error: error.name,
)
def test_after_an_error_the_leader_is_asked_again(error: ErrorCode) -> None:
    some = near()
    some.poll()
    some.answer(failed(0, error))
    assert destinations(some.poll(PAUSE_MS)) == {1: {0: 0}}


def test_after_a_broken_connection_the_leader_is_asked_again() -> None:
    some = near()
    some.poll()
    some.script.fail(FetchRequest, Failure.DISCONNECTED)
    assert destinations(some.poll()) == {1: {0: 0}}


def test_an_offset_that_a_follower_does_not_have_is_asked_of_the_leader_before_the_position_is_reset() -> None:
    some = near()
    some.poll()
    some.answer(failed(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert some.subscription.partitions[T0].state is State.FETCHING
    assert destinations(some.poll(PAUSE_MS)) == {1: {0: 0}}
    some.answer(failed(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert some.subscription.partitions[T0].state is State.AWAITING_RESET


def test_a_replica_that_is_gone_from_the_metadata_is_not_asked() -> None:
    some = near(replica=9)
    assert destinations(some.poll()) == {1: {0: 0}}
    assert some.metadata.poll(1_000_000_000).requests, "and the metadata are"


def test_a_new_leader_is_asked_itself() -> None:
    some = near()
    learn(some.metadata, {"t": [(2, 1)]})
    some.subscription.partitions[T0].check(1)
    assert destinations(some.poll()) == {2: {0: 0}}


def test_nothing_is_fetched_from_a_replica_while_something_of_it_is_left() -> None:
    some = near(T0, T1)
    some.poll()
    some.answer(part(0, batch(0, 2)), outbound=next(o for o in some.script.sent if o.destination.id == 3))
    some.subscription.partitions[T1].is_paused = True
    assert some.poll() == []
    some.take(1)
    assert some.poll() == []
    some.take()
    assert destinations(some.poll()) == {3: {0: 2}}
