"""Committed offsets: what is sent, what comes of it, and where partitions begin."""

from __future__ import annotations

import pytest

from pykraft.client.consuming.commits import OffsetAndMetadata, Offsets
from pykraft.client.consuming.membership import MemberState
from pykraft.client.consuming.subscription import FetchPosition, State
from pykraft.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
)
from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.cluster import FindCoordinatorRequest
from pykraft.protocol.messages.groups import JoinGroupRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse
from tests.harness.scripted import partition
from tests.harness.scripted_group import GROUP, PAUSE_MS, Member

T0, T1 = partition("t-0"), partition("t-1")
SOME = {T1: OffsetAndMetadata(7, "seven", 3), T0: OffsetAndMetadata(5)}
FOR_LONG = 60_000


def alone() -> Member:
    """It assigns its partitions itself, and knows its group's coordinator."""
    some = Member()
    some.subscription.assign([T0, T1])
    some.script.poll()
    some.coordinator_is()
    return some


def answer_committed(some: Member, *places: tuple[int, int, int], error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer the oldest OffsetFetch: (partition, offset, leader epoch)."""
    topic_type = OffsetFetchResponse.Group.Topic
    partitions = [
        topic_type.Partition(partition_index=number, committed_offset=offset, committed_leader_epoch=epoch)
        for number, offset, epoch in places
    ]
    group = OffsetFetchResponse.Group(
        group_id=GROUP, error_code=error, topics=[topic_type(name="t", partitions=partitions)]
    )
    some.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))
    some.script.poll()


# --- committing -------------------------------------------------------------------------------------------------------


def test_a_member_commits_under_its_generation() -> None:
    some = Member(group_instance_id="i").stable(0, 1)
    promise = some.commits.commit(SOME, some.script.now + FOR_LONG)
    some.script.poll()
    request = some.script.asked(OffsetCommitRequest)
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == (GROUP, 1, "m")
    assert request.group_instance_id == "i"
    (topic,) = request.topics
    assert topic.name == "t"
    assert [
        (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata)
        for p in topic.partitions
    ] == [(0, 5, -1, ""), (1, 7, 3, "seven")]
    assert request.versions == (2, 9), "version 10 has no names"
    some.committed()
    assert promise.value is None


def test_a_consumer_that_assigns_itself_commits_without_a_generation() -> None:
    some = alone()
    some.commits.commit(SOME, some.script.now + FOR_LONG)
    some.script.poll()
    request = some.script.asked(OffsetCommitRequest)
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (-1, "", None)


def test_no_offsets_are_committed_at_once() -> None:
    assert Member().commits.commit({}, 1).value is None


def test_how_far_everything_was_read_is_what_has_a_position() -> None:
    some = Member().stable(0, 1, 2)
    some.subscription.partitions[T0].check(4)
    some.subscription.partitions[T1].reset(-2)
    assert some.subscription.partitions[T0].state is State.AWAITING_VALIDATION
    assert some.commits.consumed() == {
        T0: OffsetAndMetadata(5, "", 0),
        TopicPartition("t", 2): OffsetAndMetadata(5, "", 0),
    }


@pytest.mark.parametrize("state", ["preparing", "completing"])
def test_nothing_is_committed_during_a_rebalance(state: str) -> None:
    some: Member = getattr(Member(), state)()
    assert isinstance(some.commits.commit(SOME, some.script.now + FOR_LONG).value, RebalanceInProgressError)
    some.script.poll()
    assert not some.script.has_asked(OffsetCommitRequest)


def test_nothing_is_committed_by_a_subscriber_that_is_no_member() -> None:
    some = Member()
    some.subscription.subscribe(["t"])
    assert isinstance(some.commits.commit(SOME, FOR_LONG).value, CommitFailedError)


@pytest.mark.parametrize(
    ("error", "raised", "state"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError, MemberState.UNJOINED),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError, MemberState.UNJOINED),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceIdError, MemberState.STABLE),
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgressError, MemberState.STABLE),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, KafkaError, MemberState.STABLE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, KafkaError, MemberState.STABLE),
    ],
)
def test_a_commit_that_is_refused_says_why(error: ErrorCode, raised: type[KafkaError], state: MemberState) -> None:
    some = Member(group_instance_id="i").stable(0, 1)
    promise = some.commits.commit(SOME, some.script.now + FOR_LONG)
    some.script.poll()
    some.committed(ErrorCode.NONE, error)
    assert type(promise.value) is raised
    assert promise.value.code is error
    assert some.membership.state is state


def test_a_commit_that_came_too_late_for_its_generation_raises_the_rebalance() -> None:
    some = Member().stable(0)
    promise = some.commits.commit({T0: OffsetAndMetadata(5)}, some.script.now + FOR_LONG)
    some.script.poll()
    some.membership.request_rejoin("a test")
    some.user_polls()
    some.membership.generation = some.membership.generation._replace(id=2)
    some.committed(ErrorCode.ILLEGAL_GENERATION)
    assert isinstance(promise.value, RebalanceInProgressError)
    assert some.script.has_asked(JoinGroupRequest), "the rebalance goes on"


def test_a_rebalance_that_a_commit_hears_of_is_joined() -> None:
    some = Member().stable(0)
    some.commits.commit(SOME, some.script.now + FOR_LONG)
    some.script.poll()
    some.committed(ErrorCode.REBALANCE_IN_PROGRESS)
    some.user_polls()
    assert some.script.has_asked(JoinGroupRequest)


def test_a_synchronous_commit_is_repeated_until_its_deadline() -> None:
    some = Member().stable(0)
    promise = some.commits.commit(SOME, some.script.now + 1000)
    some.script.poll()
    some.committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    some.script.poll(PAUSE_MS)
    some.script.fail(OffsetCommitRequest, Failure.DISCONNECTED)
    some.script.poll(2 * PAUSE_MS)
    some.coordinator_is(2)
    assert some.script.outbound(OffsetCommitRequest).destination.id == 2
    some.script.poll(1000)
    assert isinstance(promise.value, KafkaError)
    assert promise.value.code is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("failure", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Failure.DISCONNECTED])
def test_an_asynchronous_commit_is_sent_once(failure: ErrorCode | Failure) -> None:
    some = Member().stable(0)
    called: list[tuple[Offsets, KafkaError | None]] = []
    some.commits.commit_async(SOME, lambda offsets, error: called.append((offsets, error)), some.script.now)
    some.script.poll()
    if isinstance(failure, Failure):
        some.script.fail(OffsetCommitRequest, failure)
    else:
        some.committed(failure)
    some.script.poll(PAUSE_MS)
    assert not some.script.has_asked(OffsetCommitRequest)
    assert called == [], "it is the user's thread that calls back"
    assert some.group.has_news
    for callback, offsets, error in some.commits.take_completed():
        callback(offsets, error)
    ((offsets, error),) = called
    assert offsets == SOME
    assert isinstance(error, RetriableCommitFailedError)


def test_a_later_commit_does_not_overtake_one_whose_coordinator_is_still_looked_for() -> None:
    some = Member()
    some.subscription.assign([T0])
    some.subscription.partitions[T0].seek(FetchPosition(5, 0), 0)
    some.commits.commit_async({T0: OffsetAndMetadata(6)}, lambda offsets, error: None, some.script.now)
    some.script.poll()
    some.coordinator_is(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    some.commits.commit_async({T0: OffsetAndMetadata(7)}, lambda offsets, error: None, some.script.now)
    for after_ms in (0, PAUSE_MS):
        some.script.poll(after_ms)
        if some.script.has_asked(FindCoordinatorRequest):
            some.coordinator_is(1)
    sent = [each.request for each in some.script.sent if isinstance(each.request, OffsetCommitRequest)]
    assert [request.topics[0].partitions[0].committed_offset for request in sent] == [6, 7]


def test_an_asynchronous_commit_of_a_fenced_member_is_raised() -> None:
    some = Member(group_instance_id="i").stable(0)
    some.commits.commit_async(SOME, lambda offsets, error: None, some.script.now)
    some.script.poll()
    some.committed(ErrorCode.FENCED_INSTANCE_ID)
    with pytest.raises(FencedInstanceIdError, match=r"group\.instance\.id=i"):
        some.group.raise_error()


# --- automatic commits ------------------------------------------------------------------------------------------------


def test_positions_are_committed_by_the_polls_of_the_user_at_an_interval() -> None:
    some = Member(enable_auto_commit=True, auto_commit_interval_ms=1000).stable(0)
    some.script.poll(1000)
    assert not some.script.has_asked(OffsetCommitRequest), "the records may still be in the user's hands"
    some.user_polls()
    (topic,) = some.script.asked(OffsetCommitRequest).topics
    assert [p.committed_offset for p in topic.partitions] == [5]
    some.committed()
    some.user_polls(999)
    assert not some.script.has_asked(OffsetCommitRequest)
    some.user_polls(1)
    assert some.script.has_asked(OffsetCommitRequest)


def test_an_automatic_commit_that_failed_is_made_again_soon() -> None:
    some = Member(enable_auto_commit=True, auto_commit_interval_ms=5000).stable(0)
    some.user_polls(5000)
    some.committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for callback, offsets, error in some.commits.take_completed():
        callback(offsets, error)
    some.user_polls(PAUSE_MS)
    assert some.script.has_asked(OffsetCommitRequest)


def test_a_consumer_that_assigns_itself_commits_automatically_too() -> None:
    some = Member(enable_auto_commit=True)
    some.subscription.assign([T0])
    some.subscription.partitions[T0].seek(FetchPosition(5))
    some.user_polls()
    some.user_polls(5000)
    some.coordinator_is()
    assert some.script.has_asked(OffsetCommitRequest)


@pytest.mark.parametrize("is_automatic", [True, False])
def test_at_the_end_the_rest_is_committed_if_that_happens_automatically(is_automatic: bool) -> None:
    some = Member(enable_auto_commit=is_automatic).stable(0)
    some.group.commit_at_end(some.script.now + 1000)
    some.script.poll()
    assert some.script.has_asked(OffsetCommitRequest) == is_automatic


# --- committed offsets ------------------------------------------------------------------------------------------------


def test_the_request_for_committed_offsets_says_the_same_in_all_versions() -> None:
    request = alone().script.asked(OffsetFetchRequest)
    (group,) = request.groups
    assert (request.group_id, group.group_id, request.require_stable) == (GROUP, GROUP, True)
    assert [(topic.name, topic.partition_indexes) for topic in request.topics or ()] == [("t", [0, 1])]
    assert [(topic.name, topic.partition_indexes) for topic in group.topics or ()] == [("t", [0, 1])]
    assert request.versions == (1, 9)


def test_a_partition_begins_at_its_committed_offset_or_where_the_policy_says() -> None:
    some = alone()
    answer_committed(some, (0, 42, 3), (1, -1, -1))
    first, second = some.subscription.partitions.values()
    assert (first.state, first.position, first.checked_epoch) == (State.FETCHING, FetchPosition(42, 3), 3)
    assert (second.state, second.reset_timestamp) == (State.AWAITING_RESET, -2)


def test_a_leader_since_then_is_asked_whether_the_committed_offset_is_in_its_log() -> None:
    some = alone()
    answer_committed(some, (0, 42, 3), (1, 42, -1))
    first, second = some.subscription.partitions.values()
    first.check(4)
    second.check(4)
    assert first.state is State.AWAITING_VALIDATION
    assert second.state is State.FETCHING, "an old client committed no epoch"


def test_without_a_committed_offset_and_a_policy_a_partition_is_lost() -> None:
    some = Member(auto_offset_reset="none")
    some.subscription.assign([T0])
    some.script.poll()
    some.coordinator_is()
    answer_committed(some, (0, -1, -1))
    assert some.subscription.partitions[T0].is_lost


def test_a_seek_in_between_is_the_last_word() -> None:
    some = alone()
    some.subscription.partitions[T0].seek(FetchPosition(1))
    answer_committed(some, (0, 42, 3), (1, 42, 3))
    assert some.subscription.partitions[T0].position == FetchPosition(1)


def test_an_answer_from_before_a_partition_was_revoked_and_assigned_again_is_too_old() -> None:
    some = alone()
    some.subscription.assign([T1])
    some.subscription.assign([T0, T1])
    answer_committed(some, (0, 42, 3), (1, 42, 3))
    assert [state.state for state in some.subscription.partitions.values()] == [State.INITIALIZING, State.FETCHING]
    assert some.script.asked(OffsetFetchRequest).groups[0].topics[0].partition_indexes == [0]  # type: ignore[index]


@pytest.mark.parametrize("error", [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR])
def test_committed_offsets_are_asked_for_again_after_an_error_that_passes(error: ErrorCode) -> None:
    some = alone()
    answer_committed(some, error=error)
    some.script.poll(PAUSE_MS)
    if error is ErrorCode.NOT_COORDINATOR:
        some.coordinator_is()
    answer_committed(some, (0, 42, 3), (1, 43, 3))
    assert [state.position for state in some.subscription.partitions.values()] == [
        FetchPosition(42, 3),
        FetchPosition(43, 3),
    ]


def test_another_error_is_raised_and_then_they_are_asked_for_again() -> None:
    some = alone()
    answer_committed(some, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert some.group.has_news
    assert some.script.poll(PAUSE_MS) == []
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        some.group.raise_error()
    some.script.poll()
    assert some.script.has_asked(OffsetFetchRequest)


def test_committed_offsets_are_found_in_the_answers_of_old_brokers_too() -> None:
    some = alone()
    some.script.sent.clear()
    promise = some.commits.committed([T0, T1], some.script.now + FOR_LONG)
    some.script.poll()
    topic_type = OffsetFetchResponse.Topic
    place = topic_type.Partition(partition_index=0, committed_offset=42, metadata="x")
    some.script.answer(OffsetFetchRequest, OffsetFetchResponse(topics=[topic_type(name="t", partitions=[place])]))
    assert promise.value == {GROUP: {T0: OffsetAndMetadata(42, "x"), T1: None}}


def test_a_partition_whose_committed_offset_cannot_be_told_is_named() -> None:
    some = alone()
    some.script.sent.clear()
    promise = some.commits.committed([T0], some.script.now + FOR_LONG)
    some.script.poll()
    topic_type = OffsetFetchResponse.Topic
    place = topic_type.Partition(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    some.script.answer(OffsetFetchRequest, OffsetFetchResponse(topics=[topic_type(name="t", partitions=[place])]))
    assert str(promise.value).startswith("TOPIC_AUTHORIZATION_FAILED: t-0: ")
