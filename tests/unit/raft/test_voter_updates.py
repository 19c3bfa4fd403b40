"""UpdateRaftVoter: what a leader takes and refuses, which voters send it, and what is in the log then."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, Endpoint, Node, Uuid
from pykraft.protocol.messages.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from pykraft.protocol.messages.quorum import ListenerEndpoint, UpdateRaftVoterRequest
from pykraft.raft import wire
from pykraft.raft.log.history import control_records
from pykraft.raft.log.voters import STATIC_VOTERS, VOTERS_IN_LOG, VersionRange, Voter
from pykraft.records.batch import batches
from tests.harness.quorum import CLUSTER_ID, HOST, LISTENER, Quorum, address, key, static_voters, voter_set

OTHER_DISK = Uuid(b"another disk, 16")
ELSEWHERE = Endpoint("elsewhere", 1)


def spoken(low: int, high: int) -> UpdateRaftVoterRequest.KRaftVersionFeature:
    return UpdateRaftVoterRequest.KRaftVersionFeature(min_supported_version=low, max_supported_version=high)


def controls(cluster: Quorum, node_id: int) -> list[list[type]]:
    """The kinds of Raft's own records in a log, batch by batch."""
    return [
        [type(message) for _, message in control_records(batch)]
        for batch in batches(memoryview(cluster.contents(node_id)))
        if batch.is_control
    ]


def updates(cluster: Quorum) -> list[tuple[int, int]]:
    """(from, to) of each UpdateRaftVoter that arrived."""
    return [(sender, receiver) for sender, receiver, r in cluster.asked if isinstance(r, UpdateRaftVoterRequest)]


def update(cluster: Quorum, node_id: int, **fields: Any) -> UpdateRaftVoterRequest:
    """What a voter would send, with some fields changed."""
    replica = cluster.rafts[node_id].replica
    request = wire.update_request(CLUSTER_ID, replica.epoch, replica.local_voter)
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def refused(cluster: Quorum, level: int = VOTERS_IN_LOG) -> str:
    """Why the leader does not raise the level."""
    raft = cluster.rafts[cluster.leader]
    with pytest.raises(KafkaError) as raised:
        raft.upgrade_kraft_version(raft.leader_and_epoch.epoch, level, False)
    assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
    return raised.value.detail


# --- kraft.version 0 --------------------------------------------------------------------------------------------------


@pytest.fixture
def static() -> Quorum:
    """Three static voters, of which the leader has heard nothing yet."""
    cluster = Quorum(kraft_version=STATIC_VOTERS)
    cluster.elect()
    return cluster


def others(cluster: Quorum) -> list[int]:
    return [n for n in cluster.voters if n != cluster.leader]


def test_each_follower_tells_each_leader_once_what_it_is(static: Quorum) -> None:
    first, (second, third) = static.leader, others(static)
    static.run(20_000)
    assert sorted(updates(static)) == [(second, first), (third, first)]
    static.asked.clear()
    static.isolate(first)
    static.run_until(lambda: static.leaders not in ([], [first]) and len(static.leaders) == 1)
    static.heal()
    successor = static.elect()
    static.run(20_000)
    assert sorted(updates(static)) == sorted((n, successor) for n in static.voters if n != successor)


def test_the_upgrade_writes_the_level_and_the_voters_in_one_batch(static: Quorum) -> None:
    static.run(5000)
    raft = static.rafts[static.leader]
    epoch, before = raft.leader_and_epoch.epoch, static.end(static.leader).offset
    raft.upgrade_kraft_version(epoch, VOTERS_IN_LOG, True)
    assert (raft.kraft_version, static.end(static.leader).offset) == (STATIC_VOTERS, before)
    static.append(7)
    raft.upgrade_kraft_version(epoch, VOTERS_IN_LOG, False)
    raft.upgrade_kraft_version(epoch, VOTERS_IN_LOG, False)
    static.append(8)
    static.run(1000)
    assert {static.rafts[n].kraft_version for n in static.voters} == {VOTERS_IN_LOG}
    assert {str(static.rafts[n].replica.control_records.voters) for n in static.voters} == {str(voter_set([1, 2, 3]))}
    assert controls(static, static.leader) == [[LeaderChangeMessage], [KRaftVersionRecord, VotersRecord]]
    assert [heard.levels for heard in static.heard.values()] == 3 * [[7, 8]]


def test_after_the_upgrade_a_voter_on_another_disk_is_no_voter_any_more(static: Quorum) -> None:
    static.run(5000)
    raft = static.rafts[static.leader]
    raft.upgrade_kraft_version(raft.leader_and_epoch.epoch, VOTERS_IN_LOG, False)
    static.run(1000)
    leader = static.rafts[static.leader].replica.leader
    assert leader is not None
    assert [leader.voters[n].key for n in static.voters] == [key(n) for n in static.voters]
    assert all(leader.voters[n].end_offset == raft.high_watermark for n in static.voters), "what was known is kept"
    assert not leader.observers


def test_the_level_is_refused_to_a_quorum_one_of_whose_voters_does_not_support_it(static: Quorum) -> None:
    told, silent = others(static)
    assert f"not all of the voters support it: voters {told}, {silent} have not told" in refused(static)
    old = update(static, told, kraft_version_feature=spoken(0, 0))
    assert accepted(static, old) is ErrorCode.NONE
    assert accepted(static, update(static, silent)) is ErrorCode.NONE
    assert f"not all of the voters support it: voter {told} has not told" in refused(static)
    assert accepted(static, update(static, told)) is ErrorCode.NONE
    raft = static.rafts[static.leader]
    raft.upgrade_kraft_version(raft.leader_and_epoch.epoch, VOTERS_IN_LOG, False)
    assert "never goes down" in refused(static, STATIC_VOTERS)


def test_only_the_leader_of_the_epoch_raises_the_level(static: Quorum) -> None:
    for node_id, epoch in ((static.leader, 0), (others(static)[0], 1)):
        with pytest.raises(KafkaError) as raised:
            static.rafts[node_id].upgrade_kraft_version(epoch, VOTERS_IN_LOG, False)
        assert raised.value.code is ErrorCode.NOT_CONTROLLER


def test_a_voter_that_listens_on_all_addresses_is_reached_where_the_others_know_it(static: Quorum) -> None:
    replica = static.rafts[others(static)[0]].replica
    replica.local_endpoint = lambda: Node(replica.local.id, "0.0.0.0", 9000 + replica.local.id)
    assert replica.local_voter.endpoints == {LISTENER: address(replica.local.id).endpoint}


def accepted(cluster: Quorum, request: UpdateRaftVoterRequest) -> ErrorCode:
    """What the leader answers, which also names it and where it is reached."""
    answer = cluster.rafts[cluster.leader].service.update_raft_voter(request, cluster.now)
    current = answer.current_leader
    assert current is not None
    assert (current.leader_id, current.host, current.port) == (cluster.leader, HOST, 9000 + cluster.leader)
    return ErrorCode.of(answer.error_code)


BOTH = (STATIC_VOTERS, VOTERS_IN_LOG)
INVALID = ErrorCode.INVALID_REQUEST
ANSWERS: list[tuple[str, tuple[int, ...], dict[str, Any], ErrorCode]] = [
    ("another cluster", BOTH, {"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ("an older epoch", BOTH, {"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
    ("a newer epoch", BOTH, {"current_leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ("no voter id", BOTH, {"voter_id": -1}, INVALID),
    ("no directory", BOTH, {"voter_directory_id": ZERO_UUID}, INVALID),
    ("no voter", BOTH, {"voter_id": 9}, ErrorCode.VOTER_NOT_FOUND),
    ("another disk", (STATIC_VOTERS,), {"voter_directory_id": OTHER_DISK}, ErrorCode.NONE),
    ("another disk", (VOTERS_IN_LOG,), {"voter_directory_id": OTHER_DISK}, ErrorCode.VOTER_NOT_FOUND),
    ("no listeners", BOTH, {"listeners": []}, INVALID),
    ("another listener", BOTH, {"listeners": [ListenerEndpoint(name="OTHER", host="h", port=1)]}, INVALID),
    ("levels below 0", BOTH, {"kraft_version_feature": spoken(-1, 1)}, INVALID),
    ("levels the wrong way round", BOTH, {"kraft_version_feature": spoken(1, 0)}, INVALID),
    ("levels above", (STATIC_VOTERS,), {"kraft_version_feature": spoken(1, 1)}, INVALID),
    ("levels below", (VOTERS_IN_LOG,), {"kraft_version_feature": spoken(0, 0)}, INVALID),
    ("no cluster", BOTH, {"cluster_id": None}, ErrorCode.NONE),
    ("as it is", BOTH, {}, ErrorCode.NONE),
]


@pytest.mark.parametrize("level", BOTH)
def test_the_answer_to_an_update(level: int) -> None:
    cluster = Quorum(kraft_version=level)
    cluster.elect()
    for name, levels, fields, error in ANSWERS:
        if level in levels:
            assert accepted(cluster, update(cluster, others(cluster)[0], **fields)) is error, name
            cluster.run(10)  # a voter set is committed before the next


def test_a_leader_does_not_update_itself_by_a_request(static: Quorum) -> None:
    assert accepted(static, update(static, static.leader)) is ErrorCode.INVALID_REQUEST


def test_a_follower_answers_that_it_does_not_lead(static: Quorum) -> None:
    follower = others(static)[0]
    answer = static.rafts[follower].service.update_raft_voter(update(static, follower), static.now)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is not None and answer.current_leader.leader_id == static.leader


@pytest.mark.parametrize("level", [STATIC_VOTERS, VOTERS_IN_LOG])
def test_a_leader_that_has_committed_nothing_asks_for_patience(level: int) -> None:
    cluster = Quorum(kraft_version=level)
    leader = cluster.elect()
    follower = others(cluster)[0]
    cluster.isolate(leader)
    replica = cluster.rafts[leader].replica
    replica.become_resigned(cluster.now)
    replica.become_unattached(replica.epoch + 1, None, cluster.now)
    replica.become_prospective(cluster.now)
    for _ in ("pre-vote", "vote"):
        replica.quorum.record_vote(follower, True)
        replica.advance_nominee(cluster.now)
    assert cluster.leaders == [leader]
    request = update(cluster, follower, current_leader_epoch=replica.epoch)
    assert accepted(cluster, request) is ErrorCode.REQUEST_TIMED_OUT


# --- kraft.version 1 --------------------------------------------------------------------------------------------------


def moved(cluster: Quorum, node_id: int) -> None:
    """From its next start the voter says that it is reached elsewhere. (The test's network goes by the port.)"""
    cluster.endpoints[node_id] = Node(node_id, "elsewhere", 9000 + node_id)


def entry(cluster: Quorum, holder: int, node_id: int) -> Voter:
    return cluster.rafts[holder].replica.control_records.voters.voters[node_id]


def test_voters_that_are_as_the_log_has_them_have_nothing_to_tell() -> None:
    cluster = Quorum()
    cluster.elect()
    cluster.run(20_000)
    assert updates(cluster) == []


def test_a_follower_that_moved_tells_the_leader_and_the_log_has_its_new_endpoint() -> None:
    cluster = Quorum()
    leader = cluster.elect()
    follower = others(cluster)[0]
    cluster.kill(follower)
    moved(cluster, follower)
    cluster.start(follower)
    cluster.run(20_000)
    assert updates(cluster) == [(follower, leader)]
    for node_id in cluster.voters:
        assert entry(cluster, node_id, follower).endpoints == {LISTENER: Endpoint("elsewhere", 9000 + follower)}
        assert entry(cluster, node_id, leader).endpoints == {LISTENER: address(leader).endpoint}
    assert controls(cluster, leader)[1:] == [[VotersRecord]]
    assert cluster.rafts[leader].high_watermark == cluster.end(leader).offset


def test_a_leader_that_moved_writes_the_voters_with_the_first_records_of_its_epoch() -> None:
    cluster = Quorum(voters=(1,))
    assert controls(cluster, 1) == [[LeaderChangeMessage, KRaftVersionRecord, VotersRecord]]
    cluster.kill(1)
    cluster.start(1)
    assert controls(cluster, 1)[1:] == [[LeaderChangeMessage]]
    cluster.kill(1)
    moved(cluster, 1)
    cluster.start(1)
    assert controls(cluster, 1)[2:] == [[LeaderChangeMessage, KRaftVersionRecord, VotersRecord]]
    assert entry(cluster, 1, 1).endpoints == {LISTENER: Endpoint("elsewhere", 9001)}


def test_while_one_voter_set_is_not_committed_no_other_is_written() -> None:
    cluster = Quorum()
    leader = cluster.elect()
    second, third = others(cluster)
    cluster.isolate(leader)
    elsewhere = [ListenerEndpoint(name=LISTENER, host="elsewhere", port=1)]
    assert accepted(cluster, update(cluster, second, listeners=elsewhere)) is ErrorCode.NONE
    assert accepted(cluster, update(cluster, third, listeners=elsewhere)) is ErrorCode.REQUEST_TIMED_OUT
    assert entry(cluster, leader, second).endpoints == {LISTENER: ELSEWHERE}
    assert entry(cluster, leader, third).endpoints == {LISTENER: address(third).endpoint}


# --- what is kept over a start ----------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize("has_snapshot", [False, True], ids=["from the log", "from a snapshot"])
@pytest.mark.parametrize("level", [STATIC_VOTERS, VOTERS_IN_LOG])
def test_a_start_finds_the_level_that_it_had(static: Quorum, level: int, has_snapshot: bool) -> None:
    static.run(5000)
    leader = static.leader
    if level == VOTERS_IN_LOG:
        static.rafts[leader].upgrade_kraft_version(static.epoch(leader), level, False)
    for number in (1, 2):
        static.append(number)
        static.run(1000)
        if has_snapshot:
            static.snapshot(leader)
    if has_snapshot:
        assert static.clean(leader)
        assert static.rafts[leader].replica.log.start_offset > 2
    static.kill(leader, power=True)
    static.start(leader)
    raft = static.rafts[leader]
    expected = static_voters([1, 2, 3]) if level == STATIC_VOTERS else voter_set([1, 2, 3])
    assert (raft.kraft_version, raft.replica.control_records.voters) == (level, expected)
    kept = static.disks[leader].read("/metadata/__cluster_metadata-0/quorum-state").decode()
    assert f'"data_version":{level}' in kept


def test_the_log_says_which_levels_a_voter_supports() -> None:
    voter = Voter(key(1), {LISTENER: ELSEWHERE}, VersionRange(1, 1))
    record = voter_set([1]).with_voter(voter).to_record()
    assert type(voter_set([1])).from_record(record).voters[1] == voter
