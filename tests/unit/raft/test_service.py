"""What a replica answers to votes, announcements and fetches: a table for each request, refusal by refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode
from pykraft.common.types import METADATA_TOPIC, OffsetAndEpoch, ReplicaKey, Uuid
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    ListenerEndpoint,
    VoteRequest,
)
from pykraft.raft import wire
from pykraft.raft.client import RaftClient
from pykraft.raft.election import ElectionState, QuorumStateFile
from pykraft.raft.quorum_state import Follower, RoleName
from pykraft.raft.service import HIGHEST_EPOCH
from pykraft.sim.world.disk import Crash, MemoryFileSystem
from tests.harness.quorum import CLUSTER_ID, FOLDER, HOST, LISTENER, Quorum, address, fresh_disk, key, replica

NOW = 1000
OTHER_DISK = Uuid(bytes(15) + b"\x63")


def voter(epoch: int = 5, filesystem: MemoryFileSystem | None = None) -> RaftClient:
    """Voter 1 of three, unattached in this epoch, with an empty log."""
    filesystem = filesystem or fresh_disk()
    QuorumStateFile(filesystem, FOLDER).write(ElectionState(epoch))
    raft = replica(1, filesystem=filesystem)
    raft.start(NOW)
    return raft


def vote(
    epoch: int = 6, end: tuple[int, int] = (0, 0), candidate: int = 2, pre_vote: bool = False, **fields: Any
) -> VoteRequest:
    request = wire.vote_request(CLUSTER_ID, epoch, key(candidate), key(1), OffsetAndEpoch(*end), pre_vote)
    partition = request.topics[0].partitions[0]
    for name, value in fields.items():
        setattr(request if name in ("cluster_id", "voter_id") else partition, name, value)
    return request


def elsewhere(request: Any) -> None:
    request.topics[0].topic_name = "elsewhere"


def of_partition_one(request: Any) -> None:
    request.topics[0].partitions[0].partition_index = 1


def of_two_partitions(request: Any) -> None:
    request.topics[0].partitions = [*request.topics[0].partitions, *request.topics[0].partitions]


def foreign(request: Any) -> None:
    request.cluster_id = "another-cluster"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (foreign, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (elsewhere, ErrorCode.INVALID_REQUEST),
        (of_partition_one, ErrorCode.INVALID_REQUEST),
        (of_two_partitions, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_for_another_quorum_is_refused_as_a_whole(change: Callable[[Any], None], error: ErrorCode) -> None:
    raft = voter()
    begin = wire.begin_request(CLUSTER_ID, 6, 2, [], key(1))
    end = wire.end_request(CLUSTER_ID, 6, 2, [], [])
    for request, answer in (
        (vote(), raft.service.vote),
        (begin, raft.service.begin_quorum_epoch),
        (end, raft.service.end_quorum_epoch),
    ):
        change(request)
        assert answer(request, NOW).error_code == error  # type: ignore[arg-type]
    assert raft.replica.epoch == 5


@pytest.mark.parametrize(
    ("request_", "error", "granted", "epoch_after"),
    [
        (vote(epoch=6), ErrorCode.NONE, True, 6),
        (vote(epoch=5), ErrorCode.NONE, True, 5),
        (vote(epoch=4), ErrorCode.FENCED_LEADER_EPOCH, False, 5),
        (vote(epoch=6, pre_vote=True), ErrorCode.NONE, True, 6),
        (vote(epoch=6, end=(-1, 0)), ErrorCode.INVALID_REQUEST, False, 5),
        (vote(epoch=6, end=(3, -1)), ErrorCode.INVALID_REQUEST, False, 5),
        (vote(epoch=6, end=(3, 6)), ErrorCode.INVALID_REQUEST, False, 5),  # a record of the epoch it stands for
        (vote(epoch=6, end=(3, 6), pre_vote=True), ErrorCode.NONE, True, 6),  # who only asks has raised no epoch
        (vote(epoch=6, end=(3, 7), pre_vote=True), ErrorCode.INVALID_REQUEST, False, 5),
        (vote(replica_id=-1), ErrorCode.INVALID_REQUEST, False, 5),
        (vote(epoch=HIGHEST_EPOCH + 1), ErrorCode.INVALID_REQUEST, False, 5),
        (vote(voter_directory_id=Uuid(bytes(16))), ErrorCode.NONE, True, 6),  # it knows the voter by its id alone
        (vote(candidate=1), ErrorCode.NONE, False, 6),  # itself
        (vote(voter_id=3), ErrorCode.INVALID_VOTER_KEY, False, 6),
        (vote(voter_directory_id=OTHER_DISK), ErrorCode.INVALID_VOTER_KEY, False, 6),
        (vote(voter_id=-1, voter_directory_id=Uuid(bytes(16))), ErrorCode.NONE, True, 6),  # version 0 names no voter
        (vote(cluster_id=None), ErrorCode.NONE, True, 6),
    ],
)
def test_the_answer_to_a_vote(request_: VoteRequest, error: ErrorCode, granted: bool, epoch_after: int) -> None:
    raft = voter()
    response = raft.service.vote(request_, NOW)
    answer = response.topics[0].partitions[0]
    assert (ErrorCode.of(answer.error_code), answer.vote_granted) == (error, granted)
    assert answer.leader_epoch == raft.replica.epoch == epoch_after
    assert answer.leader_id == -1


def test_one_vote_is_given_in_an_epoch_and_given_again_to_the_same() -> None:
    raft = voter()
    assert granted(raft, vote(candidate=2))
    assert not granted(raft, vote(candidate=3))
    assert granted(raft, vote(candidate=2))
    assert granted(raft, vote(candidate=3, epoch=7))


def granted(raft: RaftClient, request: VoteRequest) -> bool:
    answer: bool = raft.service.vote(request, NOW).topics[0].partitions[0].vote_granted
    return answer


def test_who_asks_for_votes_in_an_epoch_that_has_a_leader_changes_nothing() -> None:
    quorum = Quorum()
    leader, epoch = quorum.elect(), quorum.epoch(1)
    for n in (1, 2, 3):
        for pre_vote in (False, True):
            own = {"voter_id": n, "voter_directory_id": key(n).directory_id}
            assert not granted(quorum.rafts[n], vote(epoch, (99, epoch - 1), 9, pre_vote, **own))
        assert quorum.role(n) is (RoleName.LEADER if n == leader else RoleName.FOLLOWER)


def test_an_answer_says_who_leads_and_where() -> None:
    quorum = Quorum()
    leader, epoch = quorum.elect(), quorum.epoch(1)
    for n in (1, 2, 3):
        told = quorum.rafts[n].service.vote(vote(epoch, voter_id=n), quorum.now)
        (where,) = told.node_endpoints
        assert (where.node_id, where.host, where.port) == address(leader)[:3]
        assert told.topics[0].partitions[0].leader_id == leader


def test_a_pre_vote_is_no_vote_and_leaves_nothing_on_the_disk() -> None:
    filesystem = fresh_disk()
    raft = voter(filesystem=filesystem)
    before = filesystem.operations
    assert granted(raft, vote(epoch=5, pre_vote=True, candidate=2))
    assert granted(raft, vote(epoch=5, pre_vote=True, candidate=3))
    assert filesystem.operations == before
    assert granted(raft, vote(epoch=5, candidate=3))


def test_a_vote_is_on_the_disk_before_it_is_answered() -> None:
    """Wherever the machine stops while it votes: if the answer was given, the vote is found again."""
    for allowed in range(50):
        filesystem = fresh_disk()
        raft = voter(filesystem=filesystem)
        filesystem.crash_after(allowed)
        try:
            assert granted(raft, vote(candidate=2))
        except Crash:
            is_answered = False
        else:
            is_answered = True
            filesystem.spare()
        filesystem.crash_power(Random(allowed))
        again = replica(1, filesystem=filesystem)
        again.start(NOW)
        if is_answered:
            assert not granted(again, vote(candidate=3)), f"voted twice after {allowed} operations"
            return
    raise AssertionError("no vote was ever answered")


def test_only_a_log_that_is_as_good_gets_a_vote() -> None:
    """Longer in an older epoch is worse than shorter in a newer one."""
    quorum = Quorum()
    quorum.elect()
    end = quorum.end(1)
    other = next(n for n in (1, 2, 3) if n != quorum.leader)
    raft = quorum.rafts[other]
    epoch = raft.replica.epoch
    quorum.kill(quorum.leader)
    for ending, expected in [
        ((end.offset, end.epoch), True),
        ((end.offset - 1, end.epoch), False),
        ((end.offset + 9, end.epoch - 1), False),
        ((end.offset - 1, end.epoch + 1), True),
    ]:
        epoch += 3
        assert (
            granted(raft, vote(epoch, ending, 9, voter_id=other, voter_directory_id=key(other).directory_id))
            is expected
        ), ending


# --- announcements ----------------------------------------------------------------------------------------------------

ENDPOINTS = [ListenerEndpoint(name=LISTENER, host=HOST, port=9002)]


def begin(epoch: int = 6, leader: int = 2, target: ReplicaKey | None = None) -> BeginQuorumEpochRequest:
    return wire.begin_request(CLUSTER_ID, epoch, leader, ENDPOINTS, target or key(1))


@pytest.mark.parametrize(
    ("request_", "error", "role"),
    [
        (begin(), ErrorCode.NONE, RoleName.FOLLOWER),
        (begin(epoch=5), ErrorCode.NONE, RoleName.FOLLOWER),
        (begin(epoch=4), ErrorCode.FENCED_LEADER_EPOCH, RoleName.UNATTACHED),
        (begin(leader=-1), ErrorCode.INVALID_REQUEST, RoleName.UNATTACHED),
        (begin(leader=1), ErrorCode.INVALID_REQUEST, RoleName.UNATTACHED),  # it would know
        (begin(epoch=HIGHEST_EPOCH + 1), ErrorCode.INVALID_REQUEST, RoleName.UNATTACHED),
        (begin(target=ReplicaKey(1, OTHER_DISK)), ErrorCode.INVALID_VOTER_KEY, RoleName.FOLLOWER),
    ],
)
def test_the_answer_to_a_new_leader(request_: BeginQuorumEpochRequest, error: ErrorCode, role: RoleName) -> None:
    raft = voter()
    answer = raft.service.begin_quorum_epoch(request_, NOW).topics[0].partitions[0]
    assert (ErrorCode.of(answer.error_code), raft.replica.quorum.role.name) == (error, role)
    if role is RoleName.FOLLOWER:
        assert raft.leader_node == address(2)


def test_a_leader_is_reached_where_it_says_on_the_controllers_listener() -> None:
    raft = voter()
    endpoints = [ListenerEndpoint(name=name, host=HOST, port=port) for name, port in (("OTHER", 1), (LISTENER, 9999))]
    raft.service.begin_quorum_epoch(wire.begin_request(CLUSTER_ID, 6, 2, endpoints, key(1)), NOW)
    assert raft.leader_node == address(2)._replace(port=9999)


def test_a_resignation_that_comes_late_hastens_nothing() -> None:
    raft = voter()
    raft.service.begin_quorum_epoch(begin(), NOW)
    before = raft.replica.quorum.role
    outdated = wire.end_request(CLUSTER_ID, 5, 2, ENDPOINTS, [key(1)])
    answer = raft.service.end_quorum_epoch(outdated, NOW).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH and raft.replica.quorum.role == before
    raft.replica.become_prospective(NOW)
    late = wire.end_request(CLUSTER_ID, 6, 2, ENDPOINTS, [key(1)])
    answer = raft.service.end_quorum_epoch(late, NOW).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    assert raft.replica.quorum.role.name is RoleName.PROSPECTIVE, "it stands already"


def test_an_epoch_has_one_leader() -> None:
    raft = voter()
    raft.service.begin_quorum_epoch(begin(), NOW)
    answer = raft.service.begin_quorum_epoch(begin(leader=3), NOW).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert raft.leader_and_epoch == (2, 6)


@pytest.mark.parametrize(
    ("successors", "wait_ms"),
    [([1, 3], 0), ([3, 1], 500), ([3, 4, 1], 500), ([3, 4, 5, 1], 500), ([3, 1, 4, 5], 125), ([], 1000), ([3], 1000)],
)
def test_a_resigned_leader_is_succeeded_in_the_order_that_it_names(successors: list[int], wait_ms: int) -> None:
    """Kafka's strict exponential backoff: the first stands at once, the last waits half of the longest time."""
    raft = voter()
    raft.service.begin_quorum_epoch(begin(), NOW)
    request = wire.end_request(CLUSTER_ID, 6, 2, ENDPOINTS, [key(n) for n in successors])
    version = request.versions[1]
    request = EndQuorumEpochRequest.decode(request.to_bytes(version), version)
    answer = raft.service.end_quorum_epoch(request, NOW).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    role = raft.replica.quorum.role
    assert isinstance(role, Follower)
    assert role.fetch_deadline == NOW + wait_ms


def test_version_zero_names_successors_without_their_disks() -> None:
    raft = voter()
    raft.service.begin_quorum_epoch(begin(), NOW)
    request = wire.end_request(CLUSTER_ID, 6, 2, ENDPOINTS, [key(3), key(1)])
    old = EndQuorumEpochRequest.decode(request.to_bytes(0), 0)
    raft.service.end_quorum_epoch(old, NOW)
    role = raft.replica.quorum.role
    assert isinstance(role, Follower) and role.fetch_deadline == NOW + 500


# --- fetching ---------------------------------------------------------------------------------------------------------


def fetch(epoch: int, offset: int, last_epoch: int, replica_id: int = 2, max_wait_ms: int = 0) -> FetchRequest:
    return wire.fetch_request(
        CLUSTER_ID, key(replica_id), epoch, OffsetAndEpoch(offset, last_epoch), 0, max_wait_ms, 1 << 20
    )


def test_the_answers_to_a_fetch() -> None:
    quorum = Quorum()
    quorum.elect()
    raft, epoch = quorum.rafts[quorum.leader], quorum.epoch(1)
    end = quorum.end(1).offset
    table = [
        (fetch(epoch, 0, 0), ErrorCode.NONE, None),
        (fetch(epoch, end, epoch), ErrorCode.NONE, None),
        (fetch(epoch - 1, 0, 0), ErrorCode.FENCED_LEADER_EPOCH, None),
        (fetch(epoch + 1, 0, 0), ErrorCode.UNKNOWN_LEADER_EPOCH, None),
        (fetch(epoch, end + 4, epoch), ErrorCode.NONE, (epoch, end)),
        (fetch(epoch, -1, 0), ErrorCode.INVALID_REQUEST, None),
        (fetch(epoch, 1, epoch + 1), ErrorCode.INVALID_REQUEST, None),
        (fetch(epoch, 0, 0, max_wait_ms=-1), ErrorCode.INVALID_REQUEST, None),
    ]
    for request, error, diverging in table:
        answer = raft.service.fetch(request, quorum.now).value.responses[0].partitions[0]
        assert ErrorCode.of(answer.error_code) is error, request
        found = answer.diverging_epoch
        assert (found and (found.epoch, found.end_offset)) == diverging
        assert answer.current_leader.leader_epoch == epoch
    follower = quorum.rafts[next(n for n in (1, 2, 3) if n != quorum.leader)]
    answer = follower.service.fetch(fetch(epoch, 0, 0), quorum.now).value.responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == quorum.leader


def test_a_fetch_without_news_waits_until_its_time_is_up_or_there_is_some() -> None:
    quorum = Quorum()
    quorum.elect()
    raft, epoch, end = quorum.rafts[quorum.leader], quorum.epoch(1), quorum.end(1)
    patient = fetch(epoch, end.offset, end.epoch, replica_id=8, max_wait_ms=300)
    patient.topics[0].partitions[0].high_watermark = raft.high_watermark
    late, woken = raft.service.fetch(patient, quorum.now), raft.service.fetch(patient, quorum.now)
    assert not late.kept
    raft.poll(quorum.now + 299)
    assert not late.kept
    raft.poll(quorum.now + 300)
    assert late.kept and woken.kept
    assert late.value.responses[0].partitions[0].error_code == 0
    woken = raft.service.fetch(patient, quorum.now + 300)
    quorum.now += 300
    quorum.append(7)
    raft.poll(quorum.now + 100)
    assert len(woken.value.responses[0].partitions[0].records) > 0


def test_a_fetch_is_held_no_longer_than_its_time() -> None:
    """However many came and went: nothing of them is left, in a quorum that has no news."""
    quorum = Quorum()
    quorum.elect()
    raft, end = quorum.rafts[quorum.leader], quorum.end(1)
    request = fetch(end.epoch, end.offset, end.epoch, replica_id=8, max_wait_ms=300)
    request.topics[0].partitions[0].high_watermark = raft.high_watermark
    answers = [raft.service.fetch(request, quorum.now) for _ in range(200)]
    assert not any(answer.kept for answer in answers) and len(raft.replica.parked) >= 200
    raft.poll(quorum.now + 1000)
    assert all(answer.kept for answer in answers) and not raft.replica.parked


def test_nobody_fetches_as_the_leader() -> None:
    """A fetch in its name, with its directory or with another one, changes nothing of what the leader knows of
    itself."""
    quorum = Quorum()
    quorum.elect()
    raft, epoch = quorum.rafts[quorum.leader], quorum.epoch(1)
    leader = raft.replica.leader
    assert leader is not None
    before = replace(leader.voters[quorum.leader])
    for directory_of in (quorum.leader, 9):
        request = fetch(epoch, 0, 0, replica_id=quorum.leader)
        request.topics[0].partitions[0].replica_directory_id = key(directory_of).directory_id
        answer = raft.service.fetch(request, quorum.now).value.responses[0].partitions[0]
        assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert leader.voters[quorum.leader] == before and leader.observers == {}


def test_a_fetch_that_says_less_of_the_high_watermark_is_answered_at_once() -> None:
    quorum = Quorum()
    quorum.elect()
    raft, end = quorum.rafts[quorum.leader], quorum.end(1)
    request = fetch(end.epoch, end.offset, end.epoch, replica_id=8, max_wait_ms=300)
    request.topics[0].partitions[0].high_watermark = raft.high_watermark - 1
    assert raft.service.fetch(request, quorum.now).kept


def test_a_fetch_from_where_the_leaders_log_never_was_is_answered_at_once() -> None:
    quorum = Quorum()
    quorum.elect()
    raft, end = quorum.rafts[quorum.leader], quorum.end(1)
    request = fetch(end.epoch, end.offset + 4, end.epoch, replica_id=8, max_wait_ms=300)
    request.topics[0].partitions[0].high_watermark = raft.high_watermark
    assert raft.service.fetch(request, quorum.now).kept


def test_a_fetch_from_another_quorum_is_refused_as_a_whole() -> None:
    raft = voter()
    for change, error in (
        ({"cluster_id": "another-cluster"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"topics": []}, ErrorCode.INVALID_REQUEST),
    ):
        answer = raft.service.fetch(fetch(5, 0, 0).replace(**change), NOW).value
        assert answer.error_code == error and not answer.responses


@pytest.mark.costly
def test_the_quorum_describes_itself() -> None:
    quorum = Quorum(observers=[7])
    quorum.elect()
    topic = DescribeQuorumRequest.Topic
    request = DescribeQuorumRequest(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[topic.Partition(partition_index=0)])]
    )
    response = finish(quorum.rafts[quorum.leader].service.describe_quorum(request, quorum.now))
    described = response.topics[0].partitions[0]
    assert (described.leader_id, described.leader_epoch) == (quorum.leader, quorum.epoch(1))
    assert [state.replica_id for state in described.current_voters] == [1, 2, 3]
    assert [state.replica_id for state in described.observers] == [7]
    assert {state.log_end_offset for state in described.current_voters} == {described.high_watermark}
    assert [node.node_id for node in response.nodes] == [1, 2, 3]
    follower = quorum.rafts[next(n for n in (1, 2, 3) if n != quorum.leader)]
    answer = finish(follower.service.describe_quorum(request, quorum.now)).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    request.topics[0].topic_name = "elsewhere"
    answer = finish(quorum.rafts[quorum.leader].service.describe_quorum(request, quorum.now)).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
