"""AddRaftVoter and RemoveRaftVoter: the leader's steps, each error, and what every replica makes of a voter set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.common.core import Outbound, Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, ReplicaKey, Uuid
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.messages.control import VotersRecord
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    ListenerEndpoint,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
)
from pykraft.raft import wire
from pykraft.raft.log.history import control_records
from pykraft.raft.log.voters import STATIC_VOTERS
from pykraft.raft.quorum_state import RoleName
from pykraft.records.batch import batches
from tests.harness import quorum as harness
from tests.harness.quorum import CLUSTER_ID, HOST, LISTENER, Quorum, directory_id, fresh_disk, key, versions

OTHER_DISK = Uuid(b"another disk, 16")
OTHER_CLUSTER = "another-cluster-000000"


def addition(node_id: int, **fields: Any) -> AddRaftVoterRequest:
    said = {
        "cluster_id": CLUSTER_ID,
        "timeout_ms": 1000,
        "voter_id": node_id,
        "voter_directory_id": directory_id(node_id),
        "listeners": [ListenerEndpoint(name=LISTENER, host=HOST, port=9000 + node_id)],
    }
    return AddRaftVoterRequest(**{**said, **fields})


def removal(node_id: int, **fields: Any) -> RemoveRaftVoterRequest:
    said = {"cluster_id": CLUSTER_ID, "voter_id": node_id, "voter_directory_id": directory_id(node_id)}
    return RemoveRaftVoterRequest(**{**said, **fields})


Change = AddRaftVoterRequest | RemoveRaftVoterRequest
Changed = AddRaftVoterResponse | RemoveRaftVoterResponse


def ask(cluster: Quorum, request: Change, node_id: int | None = None) -> Promise[Changed]:
    """Ask the leader, or this node."""
    asked = cluster.rafts[cluster.leader if node_id is None else node_id]
    answer: Promise[Changed] = harness.serve(asked, request, cluster.now)
    return answer


def outcome(cluster: Quorum, request: Change, node_id: int | None = None) -> ErrorCode:
    """What becomes of it, in the end."""
    answer = ask(cluster, request, node_id)
    cluster.run_until(lambda: answer.kept)
    error = ErrorCode.of(answer.value.error_code)
    assert error is ErrorCode.NONE or error is ErrorCode.NOT_LEADER_OR_FOLLOWER or answer.value.error_message
    return error


def ids(cluster: Quorum, node_id: int) -> list[int]:
    return cluster.rafts[node_id].replica.control_records.voters.ids


def others(cluster: Quorum) -> list[int]:
    return [n for n in cluster.voters if n != cluster.leader]


def written(cluster: Quorum, node_id: int) -> list[list[int]]:
    """The voter sets in its log."""
    return [
        [voter.voter_id for voter in message.voters]
        for batch in batches(memoryview(cluster.contents(node_id)))
        if batch.is_control
        for _, message in control_records(batch)
        if isinstance(message, VotersRecord)
    ]


@pytest.fixture
def cluster() -> Quorum:
    """Three voters and an observer, 4, which has caught up."""
    cluster = Quorum(observers=[4])
    cluster.elect()
    cluster.run(3000)
    return cluster


class WithoutFetches(Quorum):
    """The replicas elect, and nothing is committed."""

    def _deliver(self, sender: int, outbound: Outbound) -> None:
        if not isinstance(outbound.request, FetchRequest):
            super()._deliver(sender, outbound)


# --- a change that is made --------------------------------------------------------------------------------------------


def test_an_observer_becomes_a_voter_and_the_answer_waits_for_the_commit(cluster: Quorum) -> None:
    answer = ask(cluster, addition(4))
    assert not answer.kept
    cluster.run_until(lambda: answer.kept)
    leader = cluster.rafts[cluster.leader]
    assert answer.value.error_code == ErrorCode.NONE
    assert leader.high_watermark > leader.replica.control_records.history.latest_offset
    cluster.run(1000)
    assert [ids(cluster, n) for n in (1, 2, 3, 4)] == 4 * [[1, 2, 3, 4]]
    assert cluster.rafts[4].replica.quorum.is_voter
    assert written(cluster, 4) == [[1, 2, 3], [1, 2, 3, 4]]


def test_a_new_voter_counts_for_the_majority(cluster: Quorum) -> None:
    outcome(cluster, addition(4))
    leader, (second, third) = cluster.leader, others(cluster)
    cluster.isolate(third)
    cluster.kill(4)
    before = cluster.rafts[leader].high_watermark
    cluster.append(1)
    cluster.run(400)
    assert cluster.rafts[leader].high_watermark == before, "two of four are no majority"
    cluster.start(4)
    cluster.run(1000)
    assert cluster.rafts[cluster.leader].high_watermark > before, f"{leader}, {second} and 4 are one"


def test_without_ack_when_committed_the_answer_comes_when_the_record_is_appended(cluster: Quorum) -> None:
    for n in others(cluster):
        cluster.isolate(n)
    cluster.cut.discard(frozenset((cluster.leader, 4)))
    leader = cluster.rafts[cluster.leader]
    answer = ask(cluster, addition(4, ack_when_committed=False))
    cluster.run_until(lambda: answer.kept)
    assert answer.value.error_code == ErrorCode.NONE
    assert leader.high_watermark <= leader.replica.control_records.history.latest_offset


@pytest.mark.costly
def test_a_removed_voter_follows_and_neither_votes_nor_stands(cluster: Quorum) -> None:
    gone, stays = others(cluster)
    assert outcome(cluster, removal(gone)) is ErrorCode.NONE
    cluster.run(1000)
    leader = cluster.leader
    assert ids(cluster, gone) == sorted([leader, stays])
    epoch = cluster.epoch(leader)
    cluster.kill(leader)
    cluster.run(8000)
    assert not cluster.leaders, f"{stays} has its own vote, and that of {gone} does not count"
    assert cluster.role(gone) in (RoleName.UNATTACHED, RoleName.FOLLOWER)
    assert cluster.epoch(gone) == epoch, "it never stood"


def test_a_voter_may_be_removed_and_added_until_one_is_left_and_that_one_stays() -> None:
    cluster = Quorum()
    cluster.elect()
    for gone in (others(cluster)[0], others(cluster)[1]):
        assert outcome(cluster, removal(gone)) is ErrorCode.NONE
    assert ids(cluster, cluster.leader) == [cluster.leader]
    assert outcome(cluster, removal(cluster.leader)) is ErrorCode.VOTER_NOT_FOUND
    cluster.run(3000)
    for back in others(cluster):
        assert outcome(cluster, addition(back)) is ErrorCode.NONE
    assert ids(cluster, cluster.leader) == [1, 2, 3]


def test_a_quorum_grows_from_one_voter_and_no_new_one_stands_before_it_has_caught_up() -> None:
    cluster = Quorum(voters=[1], observers=[2, 3])
    cluster.elect()
    cluster.run(3000)
    assert [outcome(cluster, addition(n)) for n in (2, 3)] == 2 * [ErrorCode.NONE]
    cluster.voters = [1, 2, 3]
    cluster.run(1000)
    cluster.kill(1)
    cluster.run_until(lambda: bool(cluster.leaders))
    assert cluster.leader in (2, 3)


# --- removal of the leader --------------------------------------------------------------------------------------------


def test_a_leader_that_is_removed_resigns_when_that_is_committed_by_the_others(cluster: Quorum) -> None:
    old, (second, third) = cluster.leader, others(cluster)
    epoch = cluster.epoch(old)
    assert outcome(cluster, removal(old), old) is ErrorCode.NONE
    cluster.run_until(lambda: cluster.leaders in ([second], [third]))
    assert cluster.epoch(cluster.leader) == epoch + 1
    cluster.run(5000)
    assert cluster.role(old) is RoleName.FOLLOWER
    assert ids(cluster, old) == sorted([second, third])


def test_a_leader_that_is_removed_does_not_count_itself(cluster: Quorum) -> None:
    old, (silent, second) = cluster.leader, others(cluster)
    cluster.kill(silent)
    answer = ask(cluster, removal(old))
    before = cluster.rafts[old].high_watermark
    cluster.run(1500)
    assert cluster.rafts[old].high_watermark == before, f"{old} and {second} are no majority of two voters"
    assert not answer.kept
    cluster.start(silent)
    cluster.run_until(lambda: answer.kept)
    assert answer.value.error_code == ErrorCode.NONE


@pytest.mark.costly
def test_a_removal_that_is_committed_after_its_time_is_up_makes_the_leader_resign_as_well(cluster: Quorum) -> None:
    old, (silent, _) = cluster.leader, others(cluster)
    cluster.kill(silent)
    answer = ask(cluster, removal(old))
    cluster.run_until(lambda: answer.kept)
    assert answer.value.error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.start(silent)
    cluster.run_until(lambda: old not in cluster.leaders and len(cluster.leaders) == 1)


@pytest.mark.costly
def test_a_removed_leader_that_starts_again_follows(cluster: Quorum) -> None:
    old = cluster.leader
    outcome(cluster, removal(old))
    cluster.kill(old)
    cluster.start(old)
    cluster.run_until(lambda: bool(cluster.leaders) and cluster.role(old) is RoleName.FOLLOWER)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (addition(4, cluster_id=OTHER_CLUSTER), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (addition(4, voter_id=-1), ErrorCode.INVALID_REQUEST),
        (addition(4, voter_directory_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (addition(4, listeners=[]), ErrorCode.INVALID_REQUEST),
        (addition(4, listeners=[ListenerEndpoint(name="", host=HOST, port=9004)]), ErrorCode.INVALID_REQUEST),
        (addition(1), ErrorCode.DUPLICATE_VOTER),
        (addition(1, voter_directory_id=OTHER_DISK), ErrorCode.DUPLICATE_VOTER),
        (addition(4, voter_directory_id=OTHER_DISK), ErrorCode.REQUEST_TIMED_OUT),
        (addition(9), ErrorCode.REQUEST_TIMED_OUT),
        (addition(4, cluster_id=None), ErrorCode.NONE),
        (removal(1, cluster_id=OTHER_CLUSTER), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (removal(1, voter_id=-1), ErrorCode.INVALID_REQUEST),
        (removal(1, voter_directory_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (removal(1, voter_directory_id=OTHER_DISK), ErrorCode.VOTER_NOT_FOUND),
        (removal(4), ErrorCode.VOTER_NOT_FOUND),
    ],
    ids=str,
)
def test_what_the_leader_makes_of_a_request(cluster: Quorum, request_: Change, error: ErrorCode) -> None:
    before = written(cluster, cluster.leader)
    assert outcome(cluster, request_) is error
    assert (written(cluster, cluster.leader) == before) is (error is not ErrorCode.NONE)


def test_a_node_that_does_not_lead_refuses(cluster: Quorum) -> None:
    for n in (*others(cluster), 4):
        assert outcome(cluster, addition(4), n) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert outcome(cluster, removal(1), n) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_at_kraft_version_0_no_voter_comes_or_goes() -> None:
    cluster = Quorum(observers=[4], kraft_version=STATIC_VOTERS)
    cluster.elect()
    cluster.run(3000)
    assert outcome(cluster, addition(4)) is ErrorCode.UNSUPPORTED_VERSION
    assert outcome(cluster, removal(1)) is ErrorCode.UNSUPPORTED_VERSION


def test_while_nothing_of_the_leaders_epoch_is_committed_it_refuses() -> None:
    cluster = WithoutFetches()
    cluster.run_until(lambda: bool(cluster.leaders))
    leader = cluster.leader
    for request in (removal(others(cluster)[0]), addition(4)):
        answer = ask(cluster, request)
        assert answer.kept
        assert answer.value.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "nothing yet in its epoch" in (answer.value.error_message or "")
    assert written(cluster, leader) == [[1, 2, 3]]


@pytest.mark.costly
@pytest.mark.parametrize("first", [addition(4), removal(2), removal(3)], ids=str)
@pytest.mark.parametrize("second", [addition(4), removal(2), removal(3)], ids=str)
def test_one_change_at_a_time(cluster: Quorum, first: Change, second: Change) -> None:
    leader = cluster.leader
    for n in others(cluster):
        cluster.isolate(n)
    ask(cluster, first)
    assert outcome(cluster, second, leader) is ErrorCode.REQUEST_TIMED_OUT


def test_while_a_voter_set_is_not_committed_the_next_change_is_refused_though_the_last_has_no_time_left(
    cluster: Quorum,
) -> None:
    leader, (gone, stays) = cluster.leader, others(cluster)
    cluster.kill(stays)
    answer = ask(cluster, removal(gone))
    cluster.run_until(lambda: answer.kept)
    assert answer.value.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.leaders == [leader]
    assert outcome(cluster, removal(stays)) is ErrorCode.REQUEST_TIMED_OUT
    assert outcome(cluster, addition(4)) is ErrorCode.REQUEST_TIMED_OUT
    assert written(cluster, leader) == [[1, 2, 3], sorted([leader, stays])]


def test_a_voter_that_moves_waits_for_the_change_under_way(cluster: Quorum) -> None:
    second = others(cluster)[0]
    raft = cluster.rafts[cluster.leader]
    cluster.kill(4)
    ask(cluster, addition(4))
    moved = wire.update_request(CLUSTER_ID, raft.leader_and_epoch.epoch, cluster.rafts[second].replica.local_voter)
    assert isinstance(moved, UpdateRaftVoterRequest)
    moved.listeners = [ListenerEndpoint(name=LISTENER, host="elsewhere", port=1)]
    assert raft.service.update_raft_voter(moved, cluster.now).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_an_observer_that_has_not_caught_up_is_not_added(cluster: Quorum) -> None:
    cluster.kill(4)
    cluster.disks[4] = fresh_disk()
    leader = cluster.rafts[cluster.leader].replica.leader
    assert leader is not None
    leader.observers.clear()
    answer = ask(cluster, addition(4))
    cluster.rafts[cluster.leader].poll(cluster.now)
    leader_replica = cluster.rafts[cluster.leader].replica
    assert not leader.is_caught_up(key(4), cluster.now)
    cluster.run_until(lambda: answer.kept)
    assert answer.value.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert leader_replica.control_records.voters.ids == [1, 2, 3]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("answered", "error"),
    [
        (versions(0, 0), ErrorCode.INVALID_REQUEST),
        (versions(2, 3), ErrorCode.INVALID_REQUEST),
        (ApiVersionsResponse(api_keys=[]), ErrorCode.INVALID_REQUEST),
        (ApiVersionsResponse(api_keys=[], error_code=ErrorCode.UNSUPPORTED_VERSION), ErrorCode.REQUEST_TIMED_OUT),
        (versions(0, 1), ErrorCode.NONE),
        (versions(1, 9), ErrorCode.NONE),
    ],
    ids=str,
)
def test_the_new_voter_must_support_the_level(
    cluster: Quorum, monkeypatch: pytest.MonkeyPatch, answered: ApiVersionsResponse, error: ErrorCode
) -> None:
    monkeypatch.setattr(harness, "versions", lambda: answered)
    assert outcome(cluster, addition(4)) is error
    assert [receiver for _, receiver, r in cluster.asked if isinstance(r, ApiVersionsRequest)] == [4]


# --- what is appended holds, what is truncated does not ---------------------------------------------------------------


@pytest.mark.costly
def test_a_leader_that_loses_its_change_answers_and_truncates_it(cluster: Quorum) -> None:
    old, (second, third) = cluster.leader, others(cluster)
    cluster.isolate(old)
    answer = ask(cluster, removal(second))
    cluster.run(10)
    assert ids(cluster, old) == sorted([old, third]), "it holds from when it is appended"
    cluster.run_until(lambda: answer.kept)
    cluster.run_until(lambda: old not in cluster.leaders and len(cluster.leaders) == 1)
    cluster.heal()
    cluster.elect()
    assert ids(cluster, old) == [1, 2, 3]


def test_a_change_under_way_is_answered_when_the_leader_leads_no_more(cluster: Quorum) -> None:
    old = cluster.leader
    cluster.isolate(4)
    answer = ask(cluster, addition(4))
    cluster.rafts[old].begin_shutdown(cluster.now)
    assert answer.kept
    assert answer.value.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_voter_set_comes_back_with_a_restart_and_is_in_the_snapshot_of_its_offset(cluster: Quorum) -> None:
    outcome(cluster, addition(4))
    cluster.append(1)
    cluster.run(1000)
    before = cluster.rafts[4].replica.control_records.history.latest_offset
    records = cluster.rafts[4].replica.control_records
    assert records.voters_in_log(before).ids == [1, 2, 3]  # type: ignore[union-attr]
    assert records.voters_in_log(before + 1).ids == [1, 2, 3, 4]  # type: ignore[union-attr]
    cluster.snapshot(4)
    assert cluster.clean(4)
    cluster.kill(4)
    cluster.start(4)
    assert ids(cluster, 4) == [1, 2, 3, 4]


@pytest.mark.costly
def test_what_an_observer_has_fetched_is_on_its_disk_when_it_becomes_a_voter(cluster: Quorum) -> None:
    cluster.append(1)
    cluster.run(1000)
    end = cluster.end(4)
    cluster.kill(4, power=True)
    cluster.start(4)
    assert cluster.end(4) == end


# --- joining by itself ------------------------------------------------------------------------------------------------


def test_a_controller_that_joins_by_itself_becomes_a_voter() -> None:
    cluster = Quorum(observers=[4], controller_quorum_auto_join_enable=True)
    cluster.elect()
    cluster.run_until(lambda: cluster.rafts[4].replica.quorum.is_voter)
    cluster.run(1000)
    assert ids(cluster, 1) == [1, 2, 3, 4]
    assert [r.ack_when_committed for _, _, r in cluster.asked if isinstance(r, AddRaftVoterRequest)] == [False]


def test_without_the_setting_an_observer_stays_one(cluster: Quorum) -> None:
    cluster.run(5000)
    assert not [r for _, _, r in cluster.asked if isinstance(r, AddRaftVoterRequest)]


def on_another_disk(cluster: Quorum, node_id: int) -> ReplicaKey:
    """Its disk is wiped: it starts on a new one, which has another directory id, and no voters."""
    cluster.kill(node_id)
    cluster.disks[node_id] = fresh_disk()
    cluster.keys[node_id] = ReplicaKey(node_id, OTHER_DISK)
    cluster.blank.add(node_id)
    cluster.start(node_id)
    return cluster.keys[node_id]


def test_a_voter_with_a_wiped_disk_is_removed_and_added() -> None:
    cluster = Quorum()
    cluster.elect()
    cluster.run(1000)
    wiped = others(cluster)[0]
    on_another_disk(cluster, wiped)
    cluster.run(5000)
    assert not cluster.rafts[wiped].replica.quorum.is_voter
    added = addition(wiped, voter_directory_id=OTHER_DISK)
    assert outcome(cluster, added) is ErrorCode.DUPLICATE_VOTER
    assert outcome(cluster, removal(wiped)) is ErrorCode.NONE
    cluster.run(100)  # the leader waits a little after the node has answered that it is not the voter it was
    assert outcome(cluster, added) is ErrorCode.NONE
    cluster.run(1000)
    assert cluster.rafts[wiped].replica.quorum.is_voter


def test_a_controller_with_a_wiped_disk_that_joins_by_itself_removes_its_old_key_first() -> None:
    cluster = Quorum(controller_quorum_auto_join_enable=True)
    cluster.elect()
    cluster.run(1000)
    wiped = others(cluster)[0]
    on_another_disk(cluster, wiped)
    cluster.run_until(lambda: cluster.rafts[wiped].replica.quorum.is_voter)
    sent: list[Callable[[], object] | type] = [type(r) for _, _, r in cluster.asked if isinstance(r, Change)]
    assert sent == [RemoveRaftVoterRequest, AddRaftVoterRequest]
