"""Where a consumer reads: positions that are missing are looked up, positions that are in doubt are compared."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.offsets import OffsetLookups
from pykraft.client.consuming.positions import Positions
from pykraft.client.consuming.subscription import FetchPosition, State, SubscriptionState
from pykraft.client.errors import ClientTimeoutError, LogTruncationError, NoOffsetError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.data import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tests.harness.scripted import Script, knowing, learn, partition, settings

T0 = partition("t-0")
PAUSE_MS = 200


class Positioning:
    """One partition, its leader in epoch 0."""

    def __init__(self, reset: str = "earliest") -> None:
        config = settings("consumer", auto_offset_reset=reset)
        self.metadata: ClusterMetadata = knowing(config, {"t": [(1, 0)]})
        self.subscription = SubscriptionState(reset)
        self.subscription.assign([T0])
        driver = ApiDriver(config, self.metadata, Random(1))
        self.positions = Positions(config, self.subscription, driver, OffsetLookups(config, driver), 0)
        self.script = Script(self.positions, driver)

    @property
    def state(self) -> State:
        return self.subscription.partitions[T0].state

    @property
    def position(self) -> FetchPosition | None:
        return self.subscription.partitions[T0].position

    def seek(self, offset: int, epoch: int = -1, checked: int = -1) -> None:
        self.subscription.partitions[T0].seek(FetchPosition(offset, epoch), checked)
        self.positions.forget(T0)

    def found(self, offset: int, epoch: int = 0, error: ErrorCode = ErrorCode.NONE) -> None:
        topic_type = ListOffsetsResponse.Topic
        place = topic_type.Partition(
            partition_index=0, offset=offset, timestamp=-1, leader_epoch=epoch, error_code=error
        )
        self.script.answer(ListOffsetsRequest, ListOffsetsResponse(topics=[topic_type(name="t", partitions=[place])]))

    def ends(self, offset: int, epoch: int, error: ErrorCode = ErrorCode.NONE) -> None:
        topic_type = OffsetForLeaderEpochResponse.Topic
        end = topic_type.Partition(partition=0, end_offset=offset, leader_epoch=epoch, error_code=error)
        response = OffsetForLeaderEpochResponse(topics=[topic_type(topic="t", partitions=[end])])
        self.script.answer(OffsetForLeaderEpochRequest, response)

    def after_a_new_leader(self) -> Positioning:
        """The position was read under epoch 0, and now another broker leads in epoch 1."""
        self.seek(50, epoch=0, checked=0)
        learn(self.metadata, {"t": [(2, 1)]})
        self.script.poll()
        return self


# --- missing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reset", "timestamp"), [("earliest", -2), ("latest", -1)])
def test_a_missing_position_is_looked_up(reset: str, timestamp: int) -> None:
    some = Positioning(reset)
    some.script.poll()
    assert some.script.asked(ListOffsetsRequest).topics[0].partitions[0].timestamp == timestamp
    assert some.script.poll(1000) == [], "once"
    some.found(7, epoch=0)
    assert (some.state, some.position) == (State.FETCHING, FetchPosition(7, 0))


def test_a_seek_in_between_is_the_last_word() -> None:
    some = Positioning()
    some.script.poll()
    some.seek(50)
    some.found(7)
    assert some.position == FetchPosition(50)


def test_another_reset_in_between_is_the_last_word() -> None:
    some = Positioning("earliest")
    some.script.poll()
    some.subscription.partitions[T0].reset(-1)
    some.positions.forget(T0)
    some.script.poll()
    some.found(7)  # the start, which is not wanted any more
    assert some.state is State.AWAITING_RESET
    some.found(99)
    assert some.position == FetchPosition(99, 0)


def test_a_moment_after_the_last_record_is_the_end() -> None:
    some = Positioning()
    some.subscription.partitions[T0].reset(123_456)
    some.script.poll()
    some.found(-1)
    some.script.poll()
    assert some.script.asked(ListOffsetsRequest).topics[0].partitions[0].timestamp == -1


def test_what_cannot_be_found_is_told_and_tried_again() -> None:
    some = Positioning()
    learn(some.metadata, {"t": [None]})
    some.script.poll()
    some.script.poll(60_000)
    assert some.positions.has_error
    with pytest.raises(ClientTimeoutError, match="the offsets of t-0 were not found"):
        some.positions.raise_error()
    learn(some.metadata, {"t": [(1, 3)]})
    assert len(some.script.poll()) == 1


def test_after_a_refusal_nothing_is_looked_up_until_the_user_has_seen_it() -> None:
    some = Positioning()
    some.script.poll()
    some.found(-1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert some.script.poll(PAUSE_MS) == []
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: t-0: not allowed on this topic"):
        some.positions.raise_error()
    assert not some.positions.has_error
    assert len(some.script.poll()) == 1


def test_one_error_of_many_partitions_is_raised_once() -> None:
    some = Positioning()
    some.subscription.assign([T0, partition("t-1")])
    learn(some.metadata, {"t": [None, None]})
    some.script.poll()
    some.script.poll(60_000)
    with pytest.raises(ClientTimeoutError, match="the offsets of t-0, t-1 were not found: no leader is known"):
        some.positions.raise_error()
    assert not some.positions.has_error


def test_who_has_sought_meanwhile_is_not_told_that_nothing_was_found() -> None:
    some = Positioning()
    learn(some.metadata, {"t": [None]})
    some.script.poll()
    some.seek(5)
    some.script.poll(60_000)
    assert not some.positions.has_error


def test_where_nobody_may_choose_it_is_told_until_somebody_seeks() -> None:
    some = Positioning("none")
    assert some.script.poll() == []
    for _ in range(2):
        assert some.positions.has_error
        with pytest.raises(NoOffsetError, match=r"t-0: no position is set, and auto\.offset\.reset is none"):
            some.positions.raise_error()
    some.seek(3)
    assert not some.positions.has_error
    some.positions.raise_error()


# --- in doubt ---------------------------------------------------------------------------------------------------------


def test_a_new_leader_is_asked_where_the_epoch_of_the_last_record_ends() -> None:
    some = Positioning().after_a_new_leader()
    assert some.state is State.AWAITING_VALIDATION
    assert some.script.outbound(OffsetForLeaderEpochRequest).destination.id == 2
    asked = some.script.asked(OffsetForLeaderEpochRequest).topics[0].partitions[0]
    assert (asked.current_leader_epoch, asked.leader_epoch) == (1, 0)
    assert some.script.poll(1000) == [], "once"


@pytest.mark.parametrize("end", [50, 80])
def test_a_log_that_goes_on_is_read_on(end: int) -> None:
    some = Positioning().after_a_new_leader()
    some.ends(end, 0)
    assert (some.state, some.position) == (State.FETCHING, FetchPosition(50, 0))
    assert some.script.poll() == [], "it is asked once for each epoch"


def test_a_log_that_was_cut_is_read_from_where_it_parts() -> None:
    some = Positioning("earliest").after_a_new_leader()
    some.ends(30, 0)
    assert (some.state, some.position) == (State.FETCHING, FetchPosition(30, 0))
    some.positions.raise_error()


def test_without_a_policy_the_cut_is_told_and_nothing_is_read_until_somebody_seeks() -> None:
    some = Positioning("none").after_a_new_leader()
    some.ends(30, 0)
    with pytest.raises(LogTruncationError, match="truncated to offset 30, this consumer had read up to 50") as error:
        some.positions.raise_error()
    assert (error.value.topic_partition, error.value.diverging_offset) == (T0, 30)
    with pytest.raises(NoOffsetError):
        some.positions.raise_error()
    some.seek(30)
    some.positions.raise_error()


@pytest.mark.parametrize("end", [(-1, -1), (-1, 0), (30, -1)])
def test_where_the_leader_does_not_know_the_epoch_the_policy_says_what_is_read(end: tuple[int, int]) -> None:
    some = Positioning("earliest").after_a_new_leader()
    some.ends(*end)
    assert some.state is State.AWAITING_RESET
    some.script.poll()
    some.found(7)
    assert some.position == FetchPosition(7, 0)


def test_or_the_offset_is_unknown() -> None:
    some = Positioning("none").after_a_new_leader()
    some.ends(-1, -1)
    with pytest.raises(LogTruncationError, match="truncated at an unknown offset, this consumer had read up to 50"):
        some.positions.raise_error()
    with pytest.raises(NoOffsetError):
        some.positions.raise_error()


@pytest.mark.parametrize("failure", [Failure.DISCONNECTED, Failure.TIMED_OUT])
def test_a_lost_answer_is_asked_for_again_after_a_pause(failure: Failure) -> None:
    some = Positioning().after_a_new_leader()
    some.script.fail(OffsetForLeaderEpochRequest, failure)
    assert some.script.poll() == []
    assert len(some.script.poll(PAUSE_MS)) == 1
    some.ends(80, 0)
    assert some.state is State.FETCHING


def test_an_old_broker_cannot_be_asked() -> None:
    some = Positioning().after_a_new_leader()
    some.script.fail(OffsetForLeaderEpochRequest, Failure.UNSUPPORTED_VERSION)
    assert some.state is State.FETCHING
    assert some.script.poll(PAUSE_MS) == []


def test_a_leader_that_has_moved_on_is_asked_again() -> None:
    some = Positioning().after_a_new_leader()
    some.ends(-1, -1, ErrorCode.FENCED_LEADER_EPOCH)
    learn(some.metadata, {"t": [(3, 2)]})
    (outbound,) = some.script.poll(PAUSE_MS)
    assert outbound.destination.id == 3
    some.positions.raise_error()


def test_what_does_not_pass_is_told() -> None:
    some = Positioning().after_a_new_leader()
    some.ends(-1, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        some.positions.raise_error()


def test_after_a_refusal_nothing_is_compared_until_the_user_has_seen_it() -> None:
    some = Positioning().after_a_new_leader()
    some.ends(-1, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert some.script.poll(PAUSE_MS) == []
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        some.positions.raise_error()
    assert len(some.script.poll()) == 1


def test_a_comparison_without_an_answer_goes_on_and_the_user_hears_nothing() -> None:
    some = Positioning().after_a_new_leader()
    for _ in range(100):
        some.script.fail(OffsetForLeaderEpochRequest)
        some.script.poll(2000)
        if not some.script.sent:  # default.api.timeout.ms is over
            assert some.script.deadline == some.script.now
            some.script.poll()
    assert not some.positions.has_error
    some.ends(80, 0)
    assert some.state is State.FETCHING


def test_an_answer_about_a_position_before_a_seek_says_nothing_of_the_new_one() -> None:
    some = Positioning().after_a_new_leader()
    some.seek(10, epoch=0, checked=0)
    some.script.poll()
    some.ends(30, 0)
    assert some.state is State.AWAITING_VALIDATION
    some.ends(30, 0)
    assert (some.state, some.position) == (State.FETCHING, FetchPosition(10, 0))


def test_a_seek_ends_the_doubt() -> None:
    some = Positioning().after_a_new_leader()
    some.seek(10)
    some.ends(30, 0)
    assert some.position == FetchPosition(10)
