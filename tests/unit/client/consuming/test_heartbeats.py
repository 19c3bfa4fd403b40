"""A member of a consumer group (KIP-848): what its heartbeats say, and what it does with an assignment."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.client.consuming.heartbeats import TRANSITIONS, MembershipState
from pykraft.client.consuming.membership import Generation
from pykraft.client.consuming.reconciliation import Reconciliation
from pykraft.client.consuming.subscription import FetchPosition, SubscriptionPattern, SubscriptionState
from pykraft.client.errors import CommitFailedError
from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.harness.scripted import HOST, Leaders, Script, knowing, learn, partition, settings, topic_id

GROUP = "g"
INTERVAL_MS = 5000
MAX_POLL_MS = 300_000
FOR_LONG = 60_000
T0 = partition("t-0")
State = MembershipState
COMMITS: dict[str, object] = {"enable_auto_commit": True, "auto_commit_interval_ms": FOR_LONG}


class Member:
    """One consumer; its coordinator is broker 1. `calls` are those of its listener."""

    def __init__(self, leaders: Leaders | None = None, **given: object) -> None:
        protocol = {"group_id": GROUP, "group_protocol": "consumer", "enable_auto_commit": False}
        config = settings("consumer", **{**protocol, **given})
        self.metadata = knowing(config, leaders or {"t": [(1, 0), (1, 0), (1, 0)]})
        self.subscription = SubscriptionState("earliest", in_group=True)
        self.driver = ApiDriver(config, self.metadata, Random(1))
        self.group = Reconciliation(config, self.subscription, self.driver, Random(2))
        self.membership = self.group.membership
        self.script = Script(self.group, self.driver, now=10_000_000)
        self.calls: list[tuple[str, list[int]]] = []

    def user_polls(self) -> None:
        while (call := self.group.advance(self.script.now)) is not None:
            self.calls.append((call.method.removeprefix("on_partitions_"), [key.partition for key in call.partitions]))
        self.script.poll()

    @property
    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that waits for its answer."""
        return self.script.asked(ConsumerGroupHeartbeatRequest)

    @property
    def is_silent(self) -> bool:
        return not self.script.has_asked(ConsumerGroupHeartbeatRequest)

    def answered(self, epoch: int, assigned: Sequence[int] | None = None, topic: str = "t") -> None:
        """The coordinator answers the heartbeat, perhaps with partitions of a topic."""
        parts = [OwnedPartitions(topic_id=topic_id(topic), partitions=list(assigned))] if assigned else []
        assignment_type = ConsumerGroupHeartbeatResponse.Assignment
        response = ConsumerGroupHeartbeatResponse(
            member_id=self.heartbeat.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=None if assigned is None else assignment_type(topic_partitions=parts),
        )
        self.script.answer(ConsumerGroupHeartbeatRequest, response)
        self.script.poll()

    def refused(self, error: ErrorCode, message: str | None = None) -> None:
        response = ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)
        self.script.answer(ConsumerGroupHeartbeatRequest, response)
        self.script.poll()

    def committed(self, error: ErrorCode = ErrorCode.NONE) -> None:
        topic_type = OffsetCommitResponse.Topic
        topic = topic_type(name="t", partitions=[topic_type.Partition(partition_index=0, error_code=error)])
        self.script.answer(OffsetCommitRequest, OffsetCommitResponse(topics=[topic]))
        self.script.poll()

    # --- the way to a state -------------------------------------------------------------------------------------------

    def joining(self) -> Member:
        """The first heartbeat is under way."""
        self.subscription.subscribe(["t"])
        self.join()
        return self

    def join(self) -> None:
        """The user polls, and the coordinator is found."""
        self.user_polls()
        found = FindCoordinatorResponse.Coordinator(key=GROUP, node_id=1, host=HOST, port=9001)
        self.script.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[found]))
        self.script.poll()

    def stable(self, *partitions: int) -> Member:
        """A member of epoch 1, which owns these partitions and has read each up to offset 5."""
        self.joining().answered(1, partitions)
        self.user_polls()
        if partitions:
            nothing = OffsetFetchResponse.Group(group_id=GROUP, topics=[])
            self.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[nothing]))
        self.answered(1)
        for state in self.subscription.partitions.values():
            state.seek(FetchPosition(5, 0), 0)
        assert self.membership.state is State.STABLE
        self.calls.clear()
        return self

    @property
    def owned(self) -> list[int]:
        return [key.partition for key in self.subscription.partitions]


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[Uuid, list[int]] | None:
    """The partitions that a heartbeat says are owned."""
    if request.topic_partitions is None:
        return None
    return {part.topic_id: list(part.partitions) for part in request.topic_partitions}


# --- what heartbeats say ----------------------------------------------------------------------------------------------


def test_the_first_heartbeat_says_everything_and_later_ones_what_has_changed() -> None:
    some = Member(group_remote_assignor="range", client_rack="r").joining()
    first = some.heartbeat
    assert Uuid.parse(first.member_id), "the member chooses its id"
    assert (first.member_epoch, first.rebalance_timeout_ms, first.server_assignor) == (0, MAX_POLL_MS, "range")
    assert (first.subscribed_topic_names, first.rack_id, owned(first)) == (["t"], "r", {})
    some.answered(1, [0, 2])
    assert some.membership.state is State.RECONCILING
    assert (some.owned, some.is_silent) == ([], True), "the user has not polled yet"
    some.user_polls()
    assert (some.owned, some.calls) == ([0, 2], [("assigned", [0, 2])])
    acknowledgement = some.heartbeat
    assert (acknowledgement.member_id, acknowledgement.member_epoch) == (first.member_id, 1)
    assert owned(acknowledgement) == {topic_id("t"): [0, 2]}
    said = (acknowledgement.rebalance_timeout_ms, acknowledgement.subscribed_topic_names, acknowledgement.rack_id)
    assert (*said, acknowledgement.server_assignor) == (-1, None, None, None), "nothing else has changed"
    some.answered(1)
    assert some.membership.state is State.STABLE
    some.script.poll(INTERVAL_MS - 1)
    assert some.is_silent
    some.script.poll(1)
    assert (some.heartbeat.subscribed_topic_names, owned(some.heartbeat)) == (None, None)


def test_a_changed_subscription_goes_with_the_next_heartbeat() -> None:
    some = Member().stable(0)
    some.subscription.subscribe(["t", "u"])
    some.user_polls()
    assert some.is_silent
    some.script.poll(INTERVAL_MS)
    assert some.heartbeat.subscribed_topic_names == ["t", "u"]


def test_a_subscription_pattern_is_sent_once_and_the_coordinator_says_what_matches() -> None:
    some = Member()
    some.subscription.subscribe_coordinator_pattern(SubscriptionPattern("t.*"))
    some.join()
    assert (some.heartbeat.subscribed_topic_regex, some.heartbeat.subscribed_topic_names) == ("t.*", [])
    assert some.heartbeat.versions == (1, 1), "version 0 has no field for it"
    some.answered(1, [1])
    some.user_polls()
    assert (some.owned, some.heartbeat.subscribed_topic_regex) == ([1], None)


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None])
def test_after_an_error_that_may_pass_the_member_pauses_and_says_everything_again(error: ErrorCode | None) -> None:
    some = Member().stable(0)
    some.script.poll(INTERVAL_MS)
    if error is None:
        some.script.fail(ConsumerGroupHeartbeatRequest, Failure.TIMED_OUT)
        some.script.poll()
    else:
        some.refused(error)
    assert some.is_silent, "it pauses first"
    some.script.poll(100)
    if error is None:
        assert some.script.has_asked(FindCoordinatorRequest), "another broker may be the coordinator"
        return
    again = some.heartbeat
    assert (again.member_epoch, again.rebalance_timeout_ms, again.subscribed_topic_names) == (1, MAX_POLL_MS, ["t"])
    assert owned(again) == {topic_id("t"): [0]}


# --- reconciling ------------------------------------------------------------------------------------------------------


def test_a_member_commits_gives_up_takes_over_and_acknowledges_in_this_order() -> None:
    some = Member(**COMMITS).stable(0, 1)
    some.script.poll(INTERVAL_MS)
    some.answered(2, [1, 2])
    some.user_polls()
    request = some.script.asked(OffsetCommitRequest)
    assert (request.member_id, request.generation_id_or_member_epoch) == (some.membership.member_id, 2)
    assert (some.calls, some.group.has_news) == ([], False), "the commit is under way"
    assert not some.subscription.partitions[T0].is_fetchable
    some.committed()
    some.user_polls()
    assert some.calls == [("revoked", [0]), ("assigned", [2])]
    assert owned(some.heartbeat) == {topic_id("t"): [1, 2]}


def test_an_assignment_that_comes_during_a_reconciliation_is_carried_out_after_it() -> None:
    some = Member(**COMMITS).stable(0)
    some.script.poll(INTERVAL_MS)
    some.answered(2, [])
    some.user_polls()
    some.script.poll(INTERVAL_MS)
    some.answered(3, [0])
    some.committed()
    some.user_polls()
    assert some.calls == [("revoked", [0]), ("assigned", [])]
    assert (owned(some.heartbeat), some.membership.state) == ({}, State.RECONCILING)
    some.user_polls()
    assert some.calls[2:] == [("assigned", [0])]
    some.answered(3)
    assert owned(some.heartbeat) == {topic_id("t"): [0]}


def test_partitions_of_a_topic_that_the_metadata_lack_come_when_they_have_it() -> None:
    some = Member().stable()
    some.subscription.subscribe(["t", "u"])
    some.metadata.add_topic("u")
    some.script.poll(INTERVAL_MS)
    some.answered(2, [0], topic="u")
    some.user_polls()
    assert (some.calls, some.owned, some.group.has_news) == ([], [], False)
    learn(some.metadata, {"t": [(1, 0)], "u": [(1, 0)]})
    assert some.group.has_news
    some.user_polls()
    assert list(some.subscription.partitions) == [partition("u-0")]


# --- the end of a membership ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_its_partitions_and_joins_again_with_epoch_0(error: ErrorCode) -> None:
    some = Member().stable(0, 1)
    member_id = some.membership.member_id
    some.script.poll(INTERVAL_MS)
    some.refused(error)
    assert (some.membership.state, some.is_silent, some.owned) == (State.FENCED, True, [0, 1])
    assert some.membership.generation == Generation()
    some.user_polls()
    assert (some.calls, some.owned) == ([("lost", [0, 1])], [])
    assert (some.heartbeat.member_id, some.heartbeat.member_epoch) == (member_id, 0)
    assert (some.heartbeat.subscribed_topic_names, owned(some.heartbeat)) == (["t"], {})


@pytest.mark.parametrize("error", [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.UNSUPPORTED_ASSIGNOR])
def test_an_error_that_no_heartbeat_cures_is_raised_once_and_ends_the_membership(error: ErrorCode) -> None:
    some = Member().joining()
    some.refused(error, "so it is")
    with pytest.raises(KafkaError, match="so it is") as raised:
        some.group.raise_error()
    assert raised.value.code is error
    some.group.raise_error()
    some.user_polls()
    some.script.poll(INTERVAL_MS)
    assert some.is_silent
    assert not some.group.has_news


def test_a_cluster_without_the_protocol_is_said_to_have_none() -> None:
    some = Member().joining()
    some.script.fail(ConsumerGroupHeartbeatRequest, Failure.UNSUPPORTED_VERSION)
    with pytest.raises(KafkaError, match=r"Set group\.protocol=classic"):
        some.group.raise_error()


@pytest.mark.parametrize(("given", "epoch"), [({}, -1), ({"group_instance_id": "i"}, -2)])
def test_a_member_leaves_with_an_epoch_of_its_own_after_its_listener_was_called(
    given: dict[str, object], epoch: int
) -> None:
    some = Member(**given).stable(0)
    call = some.group.depart()
    assert call == ("on_partitions_revoked", (T0,))
    some.script.poll(INTERVAL_MS)
    assert some.heartbeat.member_epoch == 1, "heartbeats go on while the listener is called"
    some.script.sent.clear()
    left = some.group.leave("closing", some.script.now + FOR_LONG)
    some.script.poll()
    assert (some.heartbeat.member_epoch, some.membership.state) == (epoch, State.UNSUBSCRIBED)
    some.answered(epoch)
    assert left.kept


def test_a_member_whose_user_does_not_poll_leaves_and_joins_again_when_the_user_does() -> None:
    some = Member(max_poll_interval_ms=6000).stable(0)
    some.script.poll(5999)
    assert some.heartbeat.member_epoch == 1
    some.script.sent.clear()
    some.script.poll(1)
    assert (some.heartbeat.member_epoch, some.membership.state) == (-1, State.STALE)
    some.answered(-1)
    some.script.poll(INTERVAL_MS)
    assert (some.is_silent, some.calls) == (True, [])
    some.user_polls()
    assert (some.calls, some.heartbeat.member_epoch) == ([("lost", [0])], 0)


def test_every_state_can_be_reached_and_left_but_for_the_fatal_one() -> None:
    assert {after for _, after in TRANSITIONS} == set(State)
    assert {before for before, _ in TRANSITIONS} == set(State) - {State.FATAL}


# --- offsets ----------------------------------------------------------------------------------------------------------


def test_a_commit_with_a_stale_epoch_is_sent_again_with_the_new_one() -> None:
    some = Member().stable(0)
    promise = some.group.commits.commit({T0: OffsetAndMetadata(7)}, some.script.now + FOR_LONG)
    some.script.poll(INTERVAL_MS)
    some.answered(2)
    some.committed(ErrorCode.STALE_MEMBER_EPOCH)
    some.script.poll(200)
    assert some.script.asked(OffsetCommitRequest).generation_id_or_member_epoch == 2
    some.committed()
    assert promise.value is None


def test_an_asynchronous_commit_with_a_stale_epoch_has_failed() -> None:
    some = Member().stable(0)
    promise = some.group.commits.commit({T0: OffsetAndMetadata(7)}, some.script.now + FOR_LONG, is_retried=False)
    some.script.poll()
    some.committed(ErrorCode.STALE_MEMBER_EPOCH)
    assert isinstance(promise.value, CommitFailedError)


def test_a_consumer_that_is_no_member_cannot_commit() -> None:
    some = Member().joining()
    promise = some.group.commits.commit({T0: OffsetAndMetadata(7)}, some.script.now + FOR_LONG)
    assert isinstance(promise.value, CommitFailedError)


def test_a_member_looks_up_committed_offsets_under_its_epoch_and_again_if_that_is_stale() -> None:
    some = Member().joining()
    some.answered(1, [0])
    some.user_polls()
    (group,) = some.script.asked(OffsetFetchRequest).groups
    assert (group.member_id, group.member_epoch) == (some.membership.member_id, 1)
    some.answered(2)
    stale = OffsetFetchResponse.Group(group_id=GROUP, error_code=ErrorCode.STALE_MEMBER_EPOCH)
    some.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[stale]))
    some.script.poll(200)
    (group,) = some.script.asked(OffsetFetchRequest).groups
    assert group.member_epoch == 2
    some.group.raise_error()


def test_a_lookup_by_a_member_that_was_removed_waits_until_a_heartbeat_says_so() -> None:
    some = Member().joining()
    some.answered(1, [0])
    some.user_polls()
    some.answered(1)
    unknown = OffsetFetchResponse.Group(group_id=GROUP, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    some.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[unknown]))
    some.script.poll()
    some.group.raise_error()
    some.script.poll(200)
    some.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[unknown]))
    some.script.poll(INTERVAL_MS)
    some.refused(ErrorCode.UNKNOWN_MEMBER_ID)
    some.user_polls()
    some.group.raise_error()
    assert (some.calls[-1], some.heartbeat.member_epoch) == (("lost", [0]), 0)
