"""A member of a classic group: it joins, beats, rebalances and leaves, word by word."""

from __future__ import annotations

import pytest

from pykraft.client.consuming.group_part import ListenerCall
from pykraft.client.consuming.membership import TRANSITIONS, Generation, MemberState
from pykraft.common.assignors import assignor
from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.cluster import FindCoordinatorRequest
from pykraft.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from tests.harness.scripted import partition
from tests.harness.scripted_group import GROUP, PAUSE_MS, Member, assigned, subscribed

T0, T1, T2 = partition("t-0"), partition("t-1"), partition("t-2")
HEARTBEAT_MS = 3000
MAX_POLL_MS = 300_000


# --- joining ----------------------------------------------------------------------------------------------------------


def test_a_new_member_joins_a_second_time_with_the_id_it_was_given() -> None:
    some = Member()
    some.subscription.subscribe(["t"])
    assert some.script.poll() == [], "the user has not polled yet"
    some.user_polls()
    assert some.script.asked(FindCoordinatorRequest).coordinator_keys == [GROUP]
    some.coordinator_is()
    first = some.script.asked(JoinGroupRequest)
    assert (first.member_id, first.session_timeout_ms, first.rebalance_timeout_ms) == ("", 45_000, MAX_POLL_MS)
    assert [each.name for each in first.protocols] == ["range", "cooperative-sticky"]
    assert [list(subscribed(first, number).topics) for number in (0, 1)] == [["t"], ["t"]]
    assert [subscribed(first, number).user_data for number in (0, 1)] == [
        None,
        assignor("cooperative-sticky").user_data([], -1),
    ]
    some.refuses_join(ErrorCode.MEMBER_ID_REQUIRED, "m")
    assert some.script.asked(JoinGroupRequest).member_id == "m"
    some.joined(generation=7)
    request = some.script.asked(SyncGroupRequest)
    assert (request.generation_id, request.member_id, request.protocol_name) == (7, "m", "range")
    assert request.assignments == [], "this member does not lead"
    some.synced(0, 2)
    assert some.membership.state is MemberState.STABLE
    assert some.owned == [], "the user has not polled yet"
    some.user_polls()
    assert some.owned == [0, 2]
    assert some.calls == [("assigned", [0, 2])]
    assert some.membership.generation == Generation(7, "m", "range")


def test_join_and_sync_have_a_connection_of_their_own() -> None:
    some = Member().preparing()
    join = some.script.outbound(JoinGroupRequest)
    some.joined()
    sync = some.script.outbound(SyncGroupRequest)
    some.script.poll(HEARTBEAT_MS)
    assert join.channel == sync.channel != some.script.outbound(HeartbeatRequest).channel
    assert join.timeout_ms > MAX_POLL_MS, "a rebalance may take that long"


def test_the_leader_assigns_the_partitions_of_all_topics_that_members_subscribe_to() -> None:
    some = Member().preparing()
    some.joined(leader="m", members={"m": ["t"], "n": ["t"]})
    assert assigned(some.script.asked(SyncGroupRequest)) == {"m": [T0, T1], "n": [T2]}


def test_the_leader_first_learns_the_partitions_of_topics_that_only_others_subscribe_to() -> None:
    some = Member().preparing()
    some.joined(leader="m", members={"m": ["t"], "n": ["u"]})
    assert not some.script.has_asked(SyncGroupRequest)
    some.knows_more({"t": [(1, 0)], "u": [(1, 0)]})
    some.script.poll()
    assert assigned(some.script.asked(SyncGroupRequest)) == {"m": [T0], "n": [partition("u-0")]}


def test_a_leader_whose_assignment_is_skipped_sends_none() -> None:
    some = Member(group_instance_id="i").preparing()
    some.joined(leader="m", members={"m": ["t"]}, skip_assignment=True)
    assert some.script.asked(SyncGroupRequest).assignments == []


def test_an_old_coordinator_lets_a_new_member_in_at_once() -> None:
    some = Member()
    some.subscription.subscribe(["t"])
    some.user_polls()
    some.coordinator_is()
    some.joined()
    assert some.script.asked(SyncGroupRequest).member_id == "m"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
    ],
)
def test_a_join_that_can_never_succeed_is_raised_once_and_tried_again_by_the_next_poll(error: ErrorCode) -> None:
    some = Member().preparing()
    some.refuses_join(error)
    assert some.group.has_news
    some.user_polls(PAUSE_MS)
    assert not some.script.has_asked(JoinGroupRequest), "the user does not know yet"
    with pytest.raises(KafkaError) as raised:
        some.group.raise_error()
    assert raised.value.code is error
    some.group.raise_error()
    some.user_polls()
    assert some.script.has_asked(JoinGroupRequest)


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_has_moved_is_looked_up_again(error: ErrorCode) -> None:
    some = Member().preparing()
    some.refuses_join(error)
    some.script.poll(PAUSE_MS)
    some.coordinator_is(2)
    assert some.script.outbound(JoinGroupRequest).destination.id == 2
    assert some.script.asked(JoinGroupRequest).member_id == "m"


def test_a_coordinator_that_is_loading_is_asked_again() -> None:
    some = Member().preparing()
    some.refuses_join(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    some.script.poll(PAUSE_MS)
    assert some.script.outbound(JoinGroupRequest).destination.id == 1


def test_a_rebalance_that_another_one_overtakes_begins_again_without_the_user() -> None:
    some = Member().completing()
    some.synced(error=ErrorCode.REBALANCE_IN_PROGRESS)
    assert some.script.asked(JoinGroupRequest).member_id == "m"


def test_an_assignment_that_is_not_of_the_subscription_is_not_taken() -> None:
    some = Member().completing()
    some.subscription.subscribe(["u"])
    some.synced(0)
    some.user_polls()
    assert some.owned == []
    assert list(subscribed(some.script.asked(JoinGroupRequest)).topics) == ["u"]


def test_a_subscription_that_cannot_be_read_is_an_error_of_the_leader() -> None:
    some = Member().preparing()
    unreadable = JoinGroupResponse.Member(member_id="n", metadata=b"\0\3\0\0\0\7")
    joined = JoinGroupResponse(generation_id=1, protocol_name="range", leader="m", member_id="m", members=[unreadable])
    some.script.answer(JoinGroupRequest, joined)
    with pytest.raises(KafkaError, match="the subscription of n cannot be read"):
        some.group.raise_error()


# --- heartbeats -------------------------------------------------------------------------------------------------------


def test_heartbeats_go_on_one_at_a_time() -> None:
    some = Member().stable(0)
    some.script.poll(HEARTBEAT_MS - 1)
    assert not some.script.has_asked(HeartbeatRequest)
    some.script.poll(1)
    request = some.script.asked(HeartbeatRequest)
    assert (request.group_id, request.generation_id, request.member_id) == (GROUP, 1, "m")
    some.script.poll(HEARTBEAT_MS)
    some.script.asked(HeartbeatRequest)
    some.heartbeat_answered()
    some.script.asked(HeartbeatRequest)


def test_a_heartbeat_that_is_not_answered_has_another_broker_looked_up() -> None:
    some = Member(session_timeout_ms=6000).stable(0)
    some.script.poll(HEARTBEAT_MS)
    assert some.script.outbound(HeartbeatRequest).timeout_ms == 6000
    some.script.fail(HeartbeatRequest, Failure.TIMED_OUT)
    some.script.poll(PAUSE_MS)
    some.coordinator_is(2)
    assert some.script.outbound(HeartbeatRequest).destination.id == 2
    assert some.owned == [0], "it may still own them"


def test_a_rebalance_revokes_everything_when_the_user_polls_and_not_before() -> None:
    some = Member().stable(0, 1)
    some.script.poll(HEARTBEAT_MS)
    some.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    some.script.poll(HEARTBEAT_MS)
    assert not some.script.has_asked(JoinGroupRequest)
    some.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    some.user_polls()
    assert some.calls == [("revoked", [0, 1])]
    request = some.script.asked(JoinGroupRequest)
    assert (request.member_id, request.reason) == ("m", "group is already rebalancing")
    assert subscribed(request).owned_partitions == []
    some.script.poll(HEARTBEAT_MS)
    assert not some.script.has_asked(HeartbeatRequest), "JoinGroup shows that the member lives"
    some.joined(generation=2)
    some.synced(1)
    some.user_polls()
    assert some.calls[1:] == [("assigned", [1])]


@pytest.mark.parametrize(
    ("error", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m")]
)
def test_a_member_that_was_removed_has_lost_its_partitions_and_begins_again(error: ErrorCode, member_id: str) -> None:
    some = Member().stable(0, 1)
    some.script.poll(HEARTBEAT_MS)
    some.heartbeat_answered(error)
    assert some.membership.state is MemberState.UNJOINED
    some.script.poll(HEARTBEAT_MS)
    assert some.script.sent == [], "it is silent until the user polls"
    some.user_polls()
    assert some.calls == [("lost", [0, 1])]
    assert some.script.asked(JoinGroupRequest).member_id == member_id


def test_a_member_whose_name_another_has_taken_over_says_so() -> None:
    some = Member(group_instance_id="i").stable(0)
    some.script.poll(HEARTBEAT_MS)
    assert some.script.asked(HeartbeatRequest).group_instance_id == "i"
    some.heartbeat_answered(ErrorCode.FENCED_INSTANCE_ID)
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        some.group.raise_error()


def test_a_heartbeat_between_the_two_rounds_may_be_told_of_the_rebalance() -> None:
    some = Member().completing()
    some.script.poll(HEARTBEAT_MS)
    some.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    some.synced(0)
    some.user_polls()
    assert not some.script.has_asked(JoinGroupRequest)


# --- leaving ----------------------------------------------------------------------------------------------------------


def left(some: Member) -> None:
    some.script.answer(LeaveGroupRequest, LeaveGroupResponse())


def test_a_member_whose_user_does_not_poll_leaves_and_comes_back_when_it_does() -> None:
    some = Member().stable(0, 1)
    some.script.poll(MAX_POLL_MS - 1)
    assert not some.script.has_asked(LeaveGroupRequest)
    some.script.poll(1)
    some.script.poll()
    (member,) = some.script.asked(LeaveGroupRequest).members
    assert (member.member_id, member.reason) == ("m", "consumer poll timeout has expired.")
    left(some)
    some.user_polls()
    assert some.calls == [("lost", [0, 1])]
    assert some.script.asked(JoinGroupRequest).member_id == ""


def test_a_static_member_whose_user_does_not_poll_falls_silent() -> None:
    some = Member(group_instance_id="i").stable(0)
    some.script.poll(MAX_POLL_MS)
    some.script.sent.clear()
    some.script.poll(MAX_POLL_MS)
    assert some.script.sent == []


@pytest.mark.parametrize("state", ["preparing", "completing", "stable"])
def test_a_member_leaves_in_any_state_and_forgets_what_was_under_way(state: str) -> None:
    some: Member = getattr(Member(), state)()
    before = list(some.script.sent)
    promise = some.group.leave("the consumer is being closed", some.script.now + 1000)
    assert some.membership.state is MemberState.UNJOINED
    some.script.poll()
    left(some)
    assert promise.kept
    for outbound in before:
        some.script.answer(outbound, Failure.DISCONNECTED)
    some.script.poll(PAUSE_MS)
    assert some.script.sent == []


def test_a_static_member_and_one_without_a_coordinator_leave_without_a_word() -> None:
    for some in (Member(group_instance_id="i").stable(0), Member()):
        assert some.group.leave("the consumer is being closed", some.script.now + 1000).kept
        some.script.poll()
        assert not some.script.has_asked(LeaveGroupRequest)


def test_a_leave_that_is_not_answered_is_not_repeated() -> None:
    some = Member().stable(0)
    promise = some.group.leave("the consumer is being closed", some.script.now + 1000)
    some.script.poll()
    some.script.fail(LeaveGroupRequest)
    assert promise.kept
    some.script.poll(PAUSE_MS)
    assert some.script.sent == []


def test_what_was_polled_belongs_to_the_membership_of_then_also_when_that_is_lost() -> None:
    some = Member().stable(0, 1)
    held = some.group.held_as
    assert (held.generation_id, held.member_id) == (1, "m")
    some.script.poll(HEARTBEAT_MS)
    some.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID)
    assert some.group.held_as == held, "a transaction with offsets of then must be fenced"
    some.user_polls()
    assert some.group.held_as.member_id == ""


@pytest.mark.parametrize(("state", "method"), [("stable", "on_partitions_revoked"), ("removed", "on_partitions_lost")])
def test_a_member_that_departs_gives_up_what_it_owns(state: str, method: str) -> None:
    some = Member().stable(0)
    if state == "removed":
        some.script.poll(HEARTBEAT_MS)
        some.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID)
    call = some.group.depart()
    assert call is not None
    assert (call.method, call.partitions) == (method, (T0,))


# --- reasons to join again --------------------------------------------------------------------------------------------


def test_another_subscription_joins_again() -> None:
    some = Member().stable(0)
    some.subscription.subscribe(["t", "u"])
    assert some.group.has_news
    some.user_polls()
    assert list(subscribed(some.script.asked(JoinGroupRequest)).topics) == ["t", "u"]


@pytest.mark.parametrize("leads", [True, False])
def test_the_leader_joins_again_when_a_topic_gets_more_partitions(leads: bool) -> None:
    some = Member().stable(0, leader="m" if leads else "other", members={"m": ["t"]})
    some.knows_more({"t": [(2, 1), (1, 0), (1, 0)]})
    assert not some.group.has_news, "another leader of a partition is no reason"
    some.knows_more({"t": [(1, 0)] * 4})
    assert some.group.has_news == leads
    some.user_polls()
    assert some.script.has_asked(JoinGroupRequest) == leads


def test_what_changes_during_a_rebalance_leads_to_another_one() -> None:
    some = Member().preparing()
    some.joined(leader="m", members={"m": ["t"]})
    some.knows_more({"t": [(1, 0)] * 4})
    assert not some.group.has_news
    some.synced(0, 1, 2)
    some.user_polls()
    assert some.script.asked(JoinGroupRequest).reason == "cached metadata has changed"


# --- cooperative ------------------------------------------------------------------------------------------------------


def cooperative(**given: object) -> Member:
    some = Member(partition_assignment_strategy="cooperative-sticky", **given)
    return some.stable(0, 1, protocol="cooperative-sticky")


def test_a_cooperative_member_keeps_its_partitions_while_it_joins() -> None:
    some = cooperative()
    some.membership.request_rejoin("a test")
    some.user_polls()
    assert some.calls == []
    assert some.owned == [0, 1]
    said = subscribed(some.script.asked(JoinGroupRequest))
    assert said.generation_id == 1
    assert [(part.topic, list(part.partitions)) for part in said.owned_partitions] == [("t", [0, 1])]


def test_a_sticky_member_has_given_up_its_partitions_and_says_which_they_were() -> None:
    some = Member(partition_assignment_strategy="sticky").stable(0, 1, protocol="sticky")
    some.membership.request_rejoin("a test")
    some.user_polls()
    said = subscribed(some.script.asked(JoinGroupRequest))
    assert said.owned_partitions == []
    assert said.user_data == assignor("sticky").user_data([T0, T1], 1)


def test_a_cooperative_member_gives_up_what_it_must_and_joins_once_more() -> None:
    some = cooperative()
    state = some.subscription.partitions[T0]
    some.membership.request_rejoin("a test")
    some.user_polls()
    some.joined(generation=2, protocol="cooperative-sticky")
    some.synced(0)
    some.user_polls()
    assert some.calls == [("revoked", [1]), ("assigned", [])]
    assert some.owned == [0]
    assert some.subscription.partitions[T0] is state, "it reads on where it was"
    assert some.script.asked(JoinGroupRequest).reason == "need to revoke partitions and re-join"


def test_a_cooperative_member_gives_up_topics_it_does_not_want_any_more_before_it_joins() -> None:
    some = cooperative()
    some.subscription.subscribe(["u"])
    some.user_polls()
    assert some.calls == [("revoked", [0, 1])]


def test_a_member_that_also_offers_an_eager_assignor_is_eager() -> None:
    some = Member(partition_assignment_strategy="cooperative-sticky,range").stable(0, protocol="cooperative-sticky")
    some.membership.request_rejoin("a test")
    some.user_polls()
    assert some.calls == [("revoked", [0])]


# --- commits around a rebalance ---------------------------------------------------------------------------------------


def test_what_was_read_is_committed_before_it_is_revoked_and_not_read_further() -> None:
    some = Member(enable_auto_commit=True).stable(0, 1)
    some.membership.request_rejoin("a test")
    some.user_polls()
    assert some.script.has_asked(OffsetCommitRequest)
    assert (some.calls, some.script.has_asked(JoinGroupRequest)) == ([], False)
    assert not any(state.is_fetchable for state in some.subscription.partitions.values())
    assert not some.group.has_news, "there is nothing to do but wait"
    some.committed()
    assert some.group.has_news
    some.user_polls()
    assert some.calls == [("revoked", [0, 1])]
    assert some.script.has_asked(JoinGroupRequest)


def test_a_rebalance_does_not_wait_for_ever_for_the_commit() -> None:
    some = Member(enable_auto_commit=True).stable(0)
    some.membership.request_rejoin("a test")
    some.user_polls()
    some.user_polls(MAX_POLL_MS)
    assert some.calls == [("revoked", [0])]


def test_a_cooperative_member_commits_what_it_gives_up() -> None:
    some = cooperative(enable_auto_commit=True)
    some.membership.request_rejoin("a test")
    some.user_polls()
    some.committed()
    some.user_polls()
    some.joined(generation=2, protocol="cooperative-sticky")
    some.synced(0)
    some.user_polls()
    assert some.script.asked(OffsetCommitRequest).generation_id_or_member_epoch == 2
    assert some.calls == []
    assert [key for key, state in some.subscription.partitions.items() if state.is_fetchable] == [T0]
    some.committed()
    some.user_polls()
    assert some.calls == [("revoked", [1]), ("assigned", [])]


def giving_up() -> Member:
    """It commits before it gives up partition 1."""
    some = cooperative(enable_auto_commit=True)
    some.membership.request_rejoin("a test")
    some.user_polls()
    some.committed()
    some.user_polls()
    some.joined(generation=2, protocol="cooperative-sticky")
    some.synced(0)
    some.user_polls()
    return some


def test_a_member_that_is_removed_before_it_gives_up_a_partition_loses_all() -> None:
    some = giving_up()
    some.membership.lost(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID))
    some.committed()
    some.user_polls()
    assert some.calls == [("lost", [0, 1])]


def test_a_member_that_is_removed_while_it_gives_up_a_partition_loses_the_others() -> None:
    some = giving_up()
    some.committed()
    assert some.group.advance(some.script.now) == ListenerCall("on_partitions_revoked", (T1,))
    some.membership.lost(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID))
    some.user_polls()
    assert some.calls == [("lost", [0])]


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_state_is_reached_and_left_and_only_a_sync_makes_a_member_stable() -> None:
    assert {before for before, _ in TRANSITIONS} == {after for _, after in TRANSITIONS} == set(MemberState)
    assert {before for before, after in TRANSITIONS if after is MemberState.STABLE} == {
        MemberState.COMPLETING_REBALANCE
    }


def test_a_transition_that_is_not_in_the_table_is_a_bug() -> None:
    some = Member().preparing()
    with pytest.raises(AssertionError, match="a member went from"):
        some.membership._move(MemberState.STABLE)
