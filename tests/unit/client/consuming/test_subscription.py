"""What a consumer reads: its two modes, and the states of a partition."""

from __future__ import annotations

import itertools
import re

import pytest

from pykraft.client.consuming.subscription import (
    TRANSITIONS,
    FetchPosition,
    Mode,
    PartitionState,
    State,
    SubscriptionState,
)
from pykraft.client.errors import NoOffsetError
from pykraft.common.errors import ConfigError
from tests.harness.scripted import partition, settings

T0, T1, U0 = partition("t-0"), partition("t-1"), partition("u-0")
EARLIEST, LATEST = -2, -1


def in_state(state: State) -> PartitionState:
    if state is State.INITIALIZING:
        return PartitionState(None, state)
    some = PartitionState(EARLIEST)
    if state is not State.AWAITING_RESET:
        some.seek(FetchPosition(5, 1), 1)
    if state is State.AWAITING_VALIDATION:
        some.check(2)
    assert some.state is state
    return some


EVENTS = {
    "seek": (lambda some: some.seek(FetchPosition(9)), dict.fromkeys(State, State.FETCHING)),
    "reset": (lambda some: some.reset(LATEST), dict.fromkeys(State, State.AWAITING_RESET)),
    "a newer leader epoch": (
        lambda some: some.check(2),
        {
            State.INITIALIZING: State.INITIALIZING,
            State.AWAITING_RESET: State.AWAITING_RESET,
            State.FETCHING: State.AWAITING_VALIDATION,
            State.AWAITING_VALIDATION: State.AWAITING_VALIDATION,
        },
    ),
    "the same leader epoch": (lambda some: some.check(1), {state: state for state in State}),
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, EVENTS)))
def test_each_event_in_each_state(state: State, event: str) -> None:
    act, becomes = EVENTS[event]
    some = in_state(state)
    act(some)
    assert some.state is becomes[state]
    assert some.state is state or (state, some.state) in TRANSITIONS


def test_only_a_check_that_was_asked_for_is_completed() -> None:
    some = in_state(State.AWAITING_VALIDATION)
    some.complete_check(2)
    assert (some.state, some.position, some.checked_epoch) == (State.FETCHING, FetchPosition(5, 1), 2)
    with pytest.raises(AssertionError):
        in_state(State.AWAITING_RESET).check(1) or in_state(State.AWAITING_RESET).advance(FetchPosition(1))


def test_a_position_under_an_unknown_epoch_cannot_be_gone() -> None:
    some = PartitionState(EARLIEST)
    some.seek(FetchPosition(5))
    some.check(3)
    assert (some.state, some.checked_epoch) == (State.FETCHING, 3)


@pytest.mark.parametrize(("state", "has_position"), [(state, state is State.FETCHING) for state in State])
def test_a_position_counts_only_when_it_is_known_to_be_right(state: State, has_position: bool) -> None:
    some = in_state(state)
    assert some.has_position == has_position
    assert some.is_fetchable == has_position
    some.is_paused = True
    assert some.has_position == has_position
    assert not some.is_fetchable


def test_who_may_not_choose_is_lost_until_somebody_seeks() -> None:
    some = PartitionState(None)
    assert some.is_lost
    some.seek(FetchPosition(0))
    assert not some.is_lost
    some.reset(LATEST)
    assert not some.is_lost, "the application said where to"


# --- modes ------------------------------------------------------------------------------------------------------------


def test_one_assigns_or_subscribes() -> None:
    some = SubscriptionState("earliest")
    some.assign([T0])
    with pytest.raises(ValueError, match=r"one of the two; unsubscribe\(\) first"):
        some.subscribe(["t"])
    some.unsubscribe()
    some.subscribe(["t"])
    with pytest.raises(ValueError, match=r"one of the two; unsubscribe\(\) first"):
        some.assign([T0])


@pytest.mark.parametrize("give_up", ["assign", "subscribe"])
def test_giving_up_everything_leaves_the_mode(give_up: str) -> None:
    some = SubscriptionState("earliest")
    getattr(some, give_up)([T0] if give_up == "assign" else ["t"])
    getattr(some, give_up)([])
    assert some.mode is Mode.NONE
    some.assign([U0])
    assert set(some.partitions) == {U0}


def test_what_is_still_read_keeps_its_position() -> None:
    some = SubscriptionState("earliest")
    some.assign([T0, T1])
    some.partitions[T1].seek(FetchPosition(7))
    some.assign([T1, U0])
    assert list(some.partitions) == [T1, U0]
    assert some.partitions[T1].position == FetchPosition(7)
    assert some.partitions[U0].position is None


def test_a_topic_that_is_not_subscribed_to_any_more_is_not_read() -> None:
    some = SubscriptionState("earliest")
    some.subscribe(["t", "u"])
    some.assign_from_subscription([T0, T1, U0])
    some.subscribe(["u"])
    assert list(some.partitions) == [U0]


@pytest.mark.parametrize(("policy", "timestamp"), [("earliest", EARLIEST), ("latest", LATEST)])
def test_a_missing_position_is_chosen_by_the_policy(policy: str, timestamp: int) -> None:
    some = SubscriptionState(policy)
    some.assign([T0])
    some.partitions[T0].seek(FetchPosition(7))
    some.reset(T0, 7)
    assert (some.partitions[T0].state, some.partitions[T0].reset_timestamp) == (State.AWAITING_RESET, timestamp)


def test_without_a_policy_nobody_chooses() -> None:
    some = SubscriptionState("none")
    some.assign([T0])
    assert some.partitions[T0].is_lost
    with pytest.raises(NoOffsetError, match="t-0: offset 7 is not in the log"):
        some.reset(T0, 7)


# --- groups, patterns, durations --------------------------------------------------------------------------------------


def test_in_a_group_a_partition_begins_with_its_committed_offset_and_stays_until_it_is_revoked() -> None:
    some = SubscriptionState("earliest", in_group=True)
    some.subscribe(["t"])
    some.assign_from_subscription([T0])
    assert some.partitions[T0].state is State.INITIALIZING
    some.subscribe(["u"])
    assert list(some.partitions) == [T0]
    some.assign_from_subscription([U0])
    assert list(some.partitions) == [U0]


def test_a_partition_that_waits_for_its_revocation_is_not_fetched() -> None:
    some = in_state(State.FETCHING)
    some.is_pending_revocation = True
    assert some.has_position
    assert not some.is_fetchable


def test_a_pattern_matches_whole_names() -> None:
    some = SubscriptionState("earliest")
    some.subscribe_pattern(re.compile("t[0-9]*"))
    some.match(["t", "t1", "t-1", "at1", "u"])
    assert some.topics == {"t", "t1"}
    assert some.covers("t22"), "a topic of the future"
    assert not some.covers("u")
    with pytest.raises(ValueError, match=r"one of the two; unsubscribe\(\) first"):
        some.subscribe(["t"])


@pytest.mark.parametrize(
    ("duration", "ms"),
    [("PT1H", 3_600_000), ("P1DT2H3M4.5S", 93_784_500), ("pt0s", 0), ("PT0.001S", 1), ("P10000D", 1_000_000_000)],
)
def test_by_duration_begins_so_long_ago_but_never_before_1970(duration: str, ms: int) -> None:
    some = SubscriptionState(f"by_duration:{duration}", lambda: 1_000_000_000)
    some.assign([T0])
    some.reset(T0)
    assert some.partitions[T0].reset_timestamp == max(0, 1_000_000_000 - min(ms, 1_000_000_000))


@pytest.mark.parametrize("text", ["P", "PT", "PT-1H", "-PT1H", "1H", "PT1H2H", "P1Y", "", "PT1.1H"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset is 'by_duration:.*', but must be one of earliest"):
        settings("consumer", auto_offset_reset=f"by_duration:{text}")
