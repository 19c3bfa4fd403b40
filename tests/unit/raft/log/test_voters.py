"""Who may vote, what a leader knows of them, and the records that wait to be written."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.core import FOREVER, finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ReplicaKey
from pykraft.raft.leader_state import OBSERVER_SESSION_MS, LeaderState
from pykraft.raft.log.accumulator import MANY_RECORDS, BatchAccumulator
from pykraft.raft.log.voters import NO_VOTERS, VoterSet, VoterSetHistory
from pykraft.records.batch import RecordBatch
from tests.harness.quorum import LISTENER, address, key, voter_set

FETCH_MS = 2000


def test_a_voter_is_known_by_its_id_and_its_disk() -> None:
    voters = voter_set([1, 2, 3])
    assert voters.is_voter(key(2))
    assert not voters.is_voter(ReplicaKey(2, key(3).directory_id))
    assert not voters.is_voter(key(4))
    assert voters.node(2, LISTENER) == address(2)
    assert voters.node(2, "OTHER") is None and voters.node(9, LISTENER) is None


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_more_than_half_decide(count: int, majority: int) -> None:
    assert voter_set(range(count)).majority == majority


def test_a_voter_set_survives_its_record() -> None:
    voters = voter_set([3, 1, 2])
    record = voters.to_record()
    assert [voter.voter_id for voter in record.voters] == [1, 2, 3]
    assert VoterSet.from_record(type(record).decode(record.to_bytes(0), 0)) == voters


def test_a_truncated_voter_set_gives_way_to_the_one_before() -> None:
    history = VoterSetHistory(NO_VOTERS)
    history.add(2, voter_set([1, 2]))
    history.add(7, voter_set([1, 2, 3]))
    assert history.latest_offset == 7
    history.truncate_to(8)
    assert history.latest.ids == [1, 2, 3]
    history.truncate_to(7)
    assert history.latest.ids == [1, 2]
    history.truncate_to(0)
    assert history.latest == NO_VOTERS
    with pytest.raises(AssertionError, match="follows"):
        history.add(-1, NO_VOTERS)


# --- a leadership -------------------------------------------------------------------------------------------------


def leadership(voters: tuple[int, ...] = (1, 2, 3), start: int = 10, now: int = 0) -> LeaderState:
    return LeaderState(key(1), 4, start, voter_set(voters), FETCH_MS, now)


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 30)), max_size=40),
    st.integers(0, 20),
)
def test_the_high_watermark_is_the_largest_offset_that_a_majority_has_beyond_the_epochs_start(
    voter_count: int, fetches: list[tuple[int, int]], start: int
) -> None:
    leader = leadership(tuple(range(1, voter_count + 1)), start)
    ends = dict.fromkeys(range(1, voter_count + 1), -1)
    expected = None
    for now, (replica, offset) in enumerate(fetches):
        if replica == 1:
            leader.update_local(offset)
        else:
            leader.update_replica(key(replica), offset, 30, now)
        if replica in ends:
            ends[replica] = offset
        reached = max(o for o in range(-1, 31) if sum(end >= o for end in ends.values()) > voter_count // 2)
        if reached > start and (expected is None or reached > expected):
            expected = reached
        assert leader.high_watermark == expected


def test_a_majority_with_an_older_epoch_alone_commits_nothing() -> None:
    """Figure 8 of the Raft paper: records of older epochs are committed with the first of the leader's own."""
    leader = leadership(start=10)
    assert not leader.update_local(11)
    assert not leader.update_replica(key(2), 10, 11, 1)
    assert leader.high_watermark is None
    assert leader.update_replica(key(2), 11, 11, 2)
    assert leader.high_watermark == 11


def test_a_replica_on_another_disk_does_not_count_for_the_voter() -> None:
    leader = leadership()
    leader.update_local(20)
    stranger = ReplicaKey(2, key(3).directory_id)
    assert not leader.update_replica(stranger, 20, 20, 1)
    assert leader.high_watermark is None
    assert list(leader.observers) == [stranger]


def test_a_leader_that_no_majority_fetches_from_must_resign_after_one_and_a_half_fetch_timeouts() -> None:
    leader = leadership((1, 2, 3, 4, 5))
    assert leader.check_quorum_deadline == 3000
    leader.update_replica(key(2), 0, 20, 1000)
    assert leader.check_quorum_deadline == 3000, "itself and one more are no majority of five"
    leader.update_replica(key(2), 0, 20, 1100)
    assert leader.check_quorum_deadline == 3000, "the same one twice is still one"
    leader.update_replica(key(7), 0, 20, 1200)
    assert leader.check_quorum_deadline == 3000, "an observer does not count"
    leader.update_replica(ReplicaKey(3, key(7).directory_id), 0, 20, 1200)
    assert leader.check_quorum_deadline == 3000, "nor does a voter's id on another disk"
    leader.update_replica(key(3), 0, 20, 1500)
    assert leader.check_quorum_deadline == 4500
    leader.update_replica(key(3), 0, 20, 1600)
    assert leader.check_quorum_deadline == 4500, "the count begins again"
    assert leadership((1,)).check_quorum_deadline == FOREVER


def test_a_replica_is_caught_up_as_of_its_last_fetch_from_where_the_log_had_ended_at_the_fetch_before() -> None:
    leader = leadership()
    # (now, where it fetches, where the leader's log ends): caught up as of
    for now, offset, end, caught_up in (
        (0, 0, 8, -1),
        (100, 8, 12, 0),
        (200, 12, 12, 200),
        (300, 12, 20, 200),
        (400, 20, 25, 300),
        (500, 21, 30, 300),
    ):
        leader.update_replica(key(2), offset, end, now)
        assert leader.voters[2].last_caught_up == caught_up


def test_voters_that_do_not_fetch_are_told_who_leads() -> None:
    leader = leadership()
    assert leader.silent_voters(0) == [key(2), key(3)]
    assert leader.begin_quorum_deadline == 1000
    leader.update_replica(key(2), 0, 20, 900)
    assert leader.silent_voters(1000) == [key(3)]
    assert leader.silent_voters(1900) == [key(2), key(3)]


def test_successors_are_ordered_by_how_much_they_have() -> None:
    leader = leadership((1, 2, 3, 4))
    leader.update_replica(key(2), 5, 20, 1)
    leader.update_replica(key(4), 15, 20, 1)
    assert leader.successors() == (key(4), key(2), key(3))


def test_observers_are_forgotten_after_five_minutes() -> None:
    leader = leadership()
    leader.update_replica(key(7), 0, 20, 0)
    leader.update_replica(key(8), 0, 20, 100_000)
    leader.forget_silent_observers(300_000)
    assert list(leader.observers) == [key(8)]


def test_silent_observers_make_room_for_new_ones_though_nobody_asks_about_them() -> None:
    leader = leadership()
    for n in range(300):
        leader.update_replica(key(1000 + n), 0, 20, now=n * OBSERVER_SESSION_MS // 10)
    assert len(leader.observers) == 10


def test_who_has_no_id_only_reads() -> None:
    leader = leadership()
    assert not leader.update_replica(key(7)._replace(id=-1), 20, 20, 1)
    assert leader.observers == {}


def test_a_new_voter_set_keeps_what_is_known() -> None:
    leader = leadership((1, 2))
    leader.update_replica(key(2), 12, 20, 1)
    leader.update_replica(key(3), 13, 20, 1)
    leader.update_voters(voter_set([1, 3]))
    assert leader.voters[3].end_offset == 13
    assert leader.observers[key(2)].end_offset == 12


# --- the accumulator ----------------------------------------------------------------------------------------------


def test_the_records_of_a_batch_are_of_one_time() -> None:
    """Apache Kafka reads no other batches of the metadata log."""
    accumulator = BatchAccumulator(4, 10, linger_ms=25, max_batch_bytes=1000)
    accumulator.append([b"a"], timestamp=1000, now=100)
    accumulator.append([b"b"], timestamp=1014, now=114)
    (data,) = accumulator.drain()
    assert [record.timestamp for record in RecordBatch(memoryview(data)).records()] == [1000, 1000]
    accumulator.append([b"c"], timestamp=1030, now=130)
    (data,) = accumulator.drain()
    assert [record.timestamp for record in RecordBatch(memoryview(data)).records()] == [1030]


def drained(accumulator: BatchAccumulator) -> list[tuple[int, list[bytes | None]]]:
    batches = [RecordBatch(memoryview(data)) for data in accumulator.drain()]
    return [(batch.base_offset, [bytes(r.value or b"") for r in batch.records()]) for batch in batches]


def test_writes_wait_a_little_and_share_a_batch() -> None:
    accumulator = BatchAccumulator(4, 10, linger_ms=25, max_batch_bytes=1000)
    assert accumulator.deadline == FOREVER
    assert accumulator.append([b"a", b"b"], 0, 100) == 11
    assert accumulator.append([b"c"], 0, 120) == 12
    assert accumulator.deadline == 125
    assert drained(accumulator) == [(10, [b"a", b"b", b"c"])]
    assert accumulator.deadline == FOREVER and drained(accumulator) == []
    assert accumulator.append([b"d"], 0, 200) == 13


def test_one_write_stays_in_one_batch_or_is_refused() -> None:
    accumulator = BatchAccumulator(4, 0, linger_ms=25, max_batch_bytes=300)
    accumulator.append([b"x" * 60], 0, 0)
    accumulator.append([b"y" * 70, b"z" * 70], 0, 0)
    for much in ([b"w" * 300], [b"w" * 100] * 3):
        with pytest.raises(KafkaError) as refused:
            accumulator.append(much, 0, 0)
        assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    accumulator.append([b"v"], 0, 0)
    assert [(base, len(values)) for base, values in drained(accumulator)] == [(0, 1), (1, 3)]


def test_a_write_of_many_records_is_encoded_a_record_at_a_time_and_has_a_batch_of_its_own() -> None:
    accumulator = BatchAccumulator(4, 10, linger_ms=25, max_batch_bytes=100_000)
    accumulator.append([b"before"], 1000, 100)
    values = [bytes([number % 256]) for number in range(MANY_RECORDS + 1)]
    steps = accumulator.encoded(values, 1014)
    assert sum(1 for _ in steps) == len(values), "it has no offset yet: another write may come first"
    accumulator.append([b"meanwhile"], 1014, 114)
    last = accumulator.append(finish(accumulator.encoded(values, 1014)), 1030, 130)
    assert last == 11 + len(values)
    accumulator.append([b"after"], 1031, 131)
    batches = [RecordBatch(memoryview(data)) for data in accumulator.drain()]
    assert [{record.timestamp for record in batch.records()} for batch in batches] == [{1000}, {1014}, {1031}]
    assert [(batch.base_offset, batch.last_offset) for batch in batches] == [(10, 11), (12, last), (last + 1, last + 1)]
    assert [bytes(record.value or b"") for record in batches[1].records()] == values


def test_a_write_of_few_records_is_left_as_it_is() -> None:
    accumulator = BatchAccumulator(4, 10, linger_ms=25, max_batch_bytes=100_000)
    values = [b"a"] * MANY_RECORDS
    assert list(accumulator.encoded(values, 0)) == [] and finish(accumulator.encoded(values, 0)) is values


def test_a_write_of_many_records_that_is_too_large_is_refused_before_it_has_an_offset() -> None:
    accumulator = BatchAccumulator(4, 10, linger_ms=25, max_batch_bytes=2000)
    with pytest.raises(KafkaError) as refused:
        finish(accumulator.encoded([b"x" * 10] * (MANY_RECORDS + 1), 0))
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert accumulator.next_offset == 10 and not accumulator.drain()


@given(st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=5), max_size=20), st.integers(200, 600))
def test_no_batch_is_larger_than_the_limit(writes: list[list[bytes]], limit: int) -> None:
    accumulator = BatchAccumulator(4, 0, linger_ms=25, max_batch_bytes=limit)
    for values in writes:
        with suppress(KafkaError):
            accumulator.append(values, 0, 0)
    assert all(len(data) <= limit for data in accumulator.drain())
