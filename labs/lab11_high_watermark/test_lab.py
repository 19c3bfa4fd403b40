"""What lab 11 asks of a leader's rules. When a follower was last caught up is compared with pykraft's own leader."""

import pytest

from pykraft.broker.replication.follower_state import FollowerState

LEADER, FIRST, SECOND = 1, 2, 3
ALL = {LEADER, FIRST, SECOND}
FEW = 2


def ends_of(leader, first, second):
    return {LEADER: leader, FIRST: first, SECOND: second}


# --- task 11.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("11.1", points=1)
def test_the_slowest_in_sync_replica_decides(impl, chance):
    """Three replicas in sync, their log ends in any order."""
    for _ in range(20):
        first, second = chance.randrange(5, 50), chance.randrange(5, 50)
        found = impl.high_watermark(0, ends_of(60, first, second), ALL, (), FEW)
        wanted = min(first, second)
        assert found == wanted, f"log ends 60, {first} and {second} give {found}, and the slowest log ends at {wanted}"


@pytest.mark.task("11.1", points=1)
def test_the_leader_counts_too(impl):
    """A leader that was elected a moment ago may have the shortest log of all; a leader alone, where one is enough."""
    found = impl.high_watermark(0, ends_of(7, 9, 9), ALL, (), FEW)
    assert found == 7, f"the leader's own log ends at 7, so the high watermark is 7 at most, and yours is {found}"
    found = impl.high_watermark(3, ends_of(7, 5, 5), {LEADER}, (), 1)
    assert found == 7, f"the leader is the whole ISR, and one replica is enough: 7 is committed, and you say {found}"


@pytest.mark.task("11.1", points=2)
def test_a_follower_outside_the_isr_does_not_hold_it_back(impl):
    """The second follower lacks everything, and is not in sync."""
    found = impl.high_watermark(0, ends_of(9, 8, 0), {LEADER, FIRST}, (), FEW)
    assert found == 8, f"brokers 1 and 2 are in sync and both have 8 records, and yet the high watermark is {found}"


@pytest.mark.task("11.1", points=2)
def test_a_follower_that_is_about_to_join_is_waited_for(impl):
    """The second follower is caught up, or the leader has asked for it: it might be in the ISR already. Then one whose
    log ends below the high watermark: a new process of its broker has lost records."""
    isr, joining = {LEADER, FIRST}, {SECOND}
    found = impl.high_watermark(4, ends_of(9, 8, 5), isr, joining, FEW)
    assert found == 5, (
        f"broker 3, whose log ends at 5, is about to come into the ISR, or in it already: the high watermark is 5, and "
        f"yours is {found}"
    )
    found = impl.high_watermark(6, ends_of(9, 8, 5), isr, joining, FEW)
    assert found == 6, (
        f"broker 3, which may be in the ISR already, ends at 5, below the high watermark of 6: it stays at 6, and "
        f"yours is {found}"
    )
    assert (isr, joining) == ({LEADER, FIRST}, {SECOND}), (
        f"your function has changed what it was given: {isr}, {joining}"
    )


@pytest.mark.task("11.1", points=2)
def test_it_never_falls(impl, chance):
    """A follower came back with a shorter log; a leader was elected that knows a higher one."""
    for _ in range(10):
        known = chance.randrange(20, 40)
        found = impl.high_watermark(known, ends_of(50, 10, 45), ALL, (), FEW)
        assert found == known, f"no log allows more than {known}, which it was before; now it is {found}"


@pytest.mark.task("11.1", points=2)
def test_with_too_few_in_sync_it_stands_still(impl):
    """The leader alone is in sync, and two are demanded. With a broker that is about to join they would be two."""
    for joining in ((), {SECOND}):
        found = impl.high_watermark(4, ends_of(9, 6, 9), {LEADER}, joining, FEW)
        assert found == 4, f"one replica is in sync, 2 are demanded, and the high watermark rises to {found}"


# --- task 11.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("11.2", points=1)
def test_who_has_everything_is_caught_up_now(impl):
    """A fetch at the leader's log end, as the first one and as a later one; and beyond it, at a new leader."""
    for offset in (9, 11):
        for before in (None, impl.Fetch(3, 9, 500)):
            found = impl.caught_up_at(100, impl.Fetch(offset, 9, 700), before)
            assert found == 700, (
                f"a fetch from {offset} at 700 ms, where the log ends at 9, says {found} ms, and not 700"
            )


@pytest.mark.task("11.2", points=2)
def test_who_has_what_there_was_a_request_ago_was_caught_up_then(impl):
    """A busy leader: its log grew by two records since the follower asked last."""
    found = impl.caught_up_at(100, impl.Fetch(9, 11, 700), impl.Fetch(5, 9, 500))
    assert found == 500, f"it has all that there was at 500 ms, when the log ended at 9: 500 ms, and you say {found} ms"


@pytest.mark.task("11.2", points=1)
def test_who_lacks_both_was_caught_up_when_it_was(impl):
    """A slow follower, and one that asks for the first time."""
    for before in (impl.Fetch(5, 9, 500), None):
        found = impl.caught_up_at(100, impl.Fetch(7, 11, 700), before)
        assert found == 100, (
            f"it has 7 of 11 records, and lacked some at 500 ms, too: still 100 ms, and you say {found} ms"
        )


@pytest.mark.task("11.2", points=1)
def test_the_time_never_goes_back(impl):
    """What is known is newer than what a request says."""
    found = impl.caught_up_at(650, impl.Fetch(9, 11, 700), impl.Fetch(5, 9, 500))
    assert found == 650, f"it was caught up at 650 ms, and an earlier time changes nothing: you say {found} ms"
    found = impl.caught_up_at(800, impl.Fetch(9, 9, 700), None)
    assert found == 800, f"it was caught up at 800 ms, and the clock was set back to 700 ms: you say {found} ms"


@pytest.mark.task("11.2", points=2)
def test_a_long_chase_is_seen_as_pykrafts_leader_sees_it(impl, chance):
    """200 fetches of a follower that is sometimes fast and sometimes slow, at a leader that keeps writing."""
    ours, known, before, at_ms, offset, end = FollowerState(FIRST, 0), 0, None, 0, 0, 0
    for _ in range(200):
        at_ms += chance.randrange(1, 50)
        end += chance.randrange(0, 4)
        offset = min(end, offset + chance.randrange(0, 5))
        ours.record_fetch(offset, 0, end, -1, at_ms)
        fetch = impl.Fetch(offset, end, at_ms)
        known = impl.caught_up_at(known, fetch, before)
        assert known == ours.last_caught_up, (
            f"after {fetch}, before it {before}: you say {known} ms, and it is {ours.last_caught_up} ms"
        )
        before = fetch


@pytest.mark.task("11.2", points=2)
def test_who_lags_for_too_long_leaves(impl):
    """Exactly as long as is allowed, and one millisecond longer."""
    for now, wanted in ((600, set()), (601, {SECOND})):
        found = impl.lagging(ALL, ends_of(9, 9, 8), {FIRST: 590, SECOND: 100}, LEADER, now, 500)
        assert found == wanted, (
            f"broker 3 was caught up at 100 ms; at {now} ms, with 500 ms allowed, {wanted} leave, and you say {found}"
        )


@pytest.mark.task("11.2", points=2)
def test_who_has_everything_stays_however_long_it_was_silent(impl):
    """No producer writes, so no follower falls behind; one has even more than its new leader."""
    found = impl.lagging(ALL, ends_of(9, 9, 9), {FIRST: 0, SECOND: 0}, LEADER, 10_000, 500)
    assert found == set(), f"all logs end at 9, so none lags, and you say that {found} leave"
    found = impl.lagging(ALL, ends_of(7, 9, 7), {FIRST: 0, SECOND: 0}, LEADER, 10_000, 500)
    assert found == set(), f"the leader's log ends at 7, and all have that: none lags, and you say that {found} leave"


@pytest.mark.task("11.2", points=2)
def test_only_members_leave_and_never_the_leader(impl):
    """A follower outside the ISR; a leader whose entry is old."""
    found = impl.lagging({LEADER, FIRST}, ends_of(9, 3, 2), {FIRST: 0, SECOND: 0, LEADER: 0}, LEADER, 10_000, 500)
    assert found == {FIRST}, (
        f"broker 2 lags, broker 3 is outside already, broker 1 leads: {{2}} leaves, and you say {found}"
    )


@pytest.mark.task("11.2", points=2)
def test_both_offsets_must_be_reached_to_come_back(impl):
    """At, above and below the high watermark and the beginning of the leader's epoch."""
    for end, high_watermark, start, wanted in ((5, 5, 3, True), (9, 5, 9, True), (4, 5, 3, False), (7, 5, 8, False)):
        found = impl.may_return(end, high_watermark, start)
        said = f"log end {end}, high watermark {high_watermark}, the epoch began at {start}"
        assert found is wanted, f"{said}: you say {found}, and it is {wanted}"


# --- task 11.3 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("11.3", points=2)
def test_only_acks_all_asks_for_enough_replicas(impl):
    """acks 0, 1 and all, with one, two and three replicas in sync."""
    for acks in (0, 1, -1):
        for in_sync in (1, 2, 3):
            wanted = acks != -1 or in_sync >= FEW
            found = impl.may_append(acks, in_sync, FEW)
            assert found is wanted, (
                f"acks {acks}, {in_sync} in sync, {FEW} demanded: you say {found}, and it is {wanted}"
            )


@pytest.mark.task("11.3", points=1)
def test_acks_1_waits_for_nothing(impl):
    """The record is not committed, and the leader is alone; acks 0 and 1."""
    for acks in (1, 0):
        found = impl.verdict(acks, 9, 3, 1, FEW)
        assert found == "acknowledge", f"acks={acks} asks for the leader's log only, not for {found!r}"


@pytest.mark.task("11.3", points=2)
def test_acks_all_waits_until_the_last_record_is_committed(impl):
    """A batch of four records, offsets 5 to 8: the high watermark reaches its middle, then its end."""
    for high_watermark, wanted in ((5, "wait"), (8, "wait"), (9, "acknowledge"), (12, "acknowledge")):
        found = impl.verdict(-1, 9, high_watermark, 3, FEW)
        assert found == wanted, (
            f"the batch ends before 9 and the high watermark is {high_watermark}: {wanted!r}, and you say {found!r}"
        )


@pytest.mark.task("11.3", points=2)
def test_what_is_committed_with_too_few_left_is_no_success(impl):
    """The ISR shrank while the batch was on its way."""
    found = impl.verdict(-1, 9, 9, 1, FEW)
    assert found == "too few", (
        f"it is committed, but of 2 demanded replicas one is left: 'too few', and you say {found!r}"
    )
    found = impl.verdict(-1, 9, 9, FEW, FEW)
    assert found == "acknowledge", f"it is committed, and {FEW} of {FEW} replicas are in sync; you say {found!r}"
    found = impl.verdict(-1, 9, 8, 1, FEW)
    assert found == "wait", f"the record is not committed yet, so the producer must 'wait', and you say {found!r}"
