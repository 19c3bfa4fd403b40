"""A quorum at kraft.version 0: controller.quorum.voters names its voters, and their directory ids are unknown."""

from __future__ import annotations

import pytest

from pykraft.common.core import finish
from pykraft.common.types import ZERO_UUID, ReplicaKey, Uuid
from pykraft.protocol.messages.control import LeaderChangeMessage
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import BeginQuorumEpochRequest, DescribeQuorumRequest, VoteRequest
from pykraft.raft import wire
from pykraft.raft.election import ElectionState, QuorumStateFile
from pykraft.raft.log.history import control_records
from pykraft.raft.log.voters import STATIC_VOTERS
from pykraft.records.batch import batches
from pykraft.sim.world.disk import MemoryFileSystem
from tests.harness.quorum import CLUSTER_ID, FOLDER, Quorum, directory_id, fresh_disk, key, replica, static_voters

OTHER_DISK = Uuid(b"another disk, 16")


def quorum(**more: object) -> Quorum:
    return Quorum(kraft_version=STATIC_VOTERS, **more)  # type: ignore[arg-type]


def test_static_voters_elect_a_leader_and_commit_without_voters_in_the_log() -> None:
    cluster = quorum()
    leader = cluster.elect()
    cluster.append(7)
    cluster.run_until(lambda: all(heard.levels == [7] for heard in cluster.heard.values()))
    raft = cluster.rafts[leader]
    assert raft.kraft_version == STATIC_VOTERS
    controls = [
        message
        for batch in batches(memoryview(cluster.contents(leader)))
        if batch.is_control
        for _, message in control_records(batch)
    ]
    assert [type(message) for message in controls] == [LeaderChangeMessage]


def test_requests_name_the_senders_directory_and_not_that_of_the_voter_they_are_for() -> None:
    cluster = quorum()
    cluster.elect()
    votes = [(sender, wire.only_partition(r)) for sender, _, r in cluster.asked if isinstance(r, VoteRequest)]
    begins = [wire.only_partition(r) for _, _, r in cluster.asked if isinstance(r, BeginQuorumEpochRequest)]
    fetches = [(sender, wire.only_partition(r)) for sender, _, r in cluster.asked if isinstance(r, FetchRequest)]
    assert votes and begins and fetches
    for sender, partition in votes:
        assert (partition.replica_directory_id, partition.voter_directory_id) == (directory_id(sender), ZERO_UUID)
    for sender, partition in fetches:
        assert partition.replica_directory_id == directory_id(sender)
    assert {partition.voter_directory_id for partition in begins} == {ZERO_UUID}


def test_the_quorums_state_is_written_in_its_older_form() -> None:
    cluster = quorum()
    leader = cluster.elect()
    follower = next(n for n in cluster.voters if n != leader)
    written = cluster.disks[leader].read(f"{FOLDER}/quorum-state").decode()
    assert written == (
        f'{{"clusterId":"","leaderId":{leader},"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
    )
    assert QuorumStateFile(cluster.disks[follower], FOLDER).read().leader_id == leader


def test_a_single_static_voter_leads_at_once() -> None:
    cluster = quorum(voters=(1,))
    assert cluster.leaders == [1]


def test_a_voter_that_came_back_on_another_disk_votes_and_is_counted() -> None:
    cluster = quorum()
    leader = cluster.elect()
    returned = next(n for n in cluster.voters if n != leader)
    silent = next(n for n in cluster.voters if n not in (leader, returned))
    cluster.kill(returned)
    cluster.kill(silent)
    cluster.disks[returned] = fresh_disk()
    cluster.keys[returned] = ReplicaKey(returned, OTHER_DISK)
    cluster.start(returned)
    cluster.append(8)
    cluster.run_until(lambda: cluster.heard[leader].levels == [8])


def test_tools_are_told_the_voters_without_directory_ids_and_the_observers_with_theirs() -> None:
    cluster = quorum(observers=(9,))
    leader = cluster.elect()
    topic = DescribeQuorumRequest.Topic(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequest.Topic.Partition(partition_index=0)]
    )
    answer = finish(cluster.rafts[leader].service.describe_quorum(DescribeQuorumRequest(topics=[topic]), cluster.now))
    partition = answer.topics[0].partitions[0]
    assert [(each.replica_id, each.replica_directory_id) for each in partition.current_voters] == [
        (voter, ZERO_UUID) for voter in (1, 2, 3)
    ]
    assert [(each.replica_id, each.replica_directory_id) for each in partition.observers] == [key(9)]
    assert all(each.last_fetch_timestamp >= 0 for each in partition.current_voters), "each fetches, or leads"


# --- votes ------------------------------------------------------------------------------------------------------------


def vote_of(filesystem: MemoryFileSystem, candidate: ReplicaKey, voter: ReplicaKey) -> bool:
    """Whether voter 1, on that disk, votes for the candidate in epoch 5."""
    raft = replica(1, filesystem=filesystem, kraft_version=STATIC_VOTERS)
    raft.start(0)
    request = wire.vote_request(CLUSTER_ID, 5, candidate, voter, raft.replica.log.end, pre_vote=False)
    partition = wire.only_partition(raft.service.vote(request, 1))
    assert partition is not None
    return bool(partition.vote_granted)


@pytest.mark.parametrize(
    ("candidate", "is_granted"),
    [
        (key(2), True),
        (ReplicaKey(2, OTHER_DISK), True),
        (ReplicaKey(2), True),
        (key(3), False),
    ],
)
def test_after_a_restart_a_vote_is_remembered_by_id_alone(candidate: ReplicaKey, is_granted: bool) -> None:
    disk = fresh_disk()
    QuorumStateFile(disk, FOLDER).write(ElectionState(5, None, key(2)), [1, 2, 3])
    assert vote_of(disk, candidate, ReplicaKey(1)) is is_granted


@pytest.mark.parametrize("voter", [ReplicaKey(1), key(1)])
def test_a_vote_request_may_name_the_voters_directory_or_leave_it_out(voter: ReplicaKey) -> None:
    assert vote_of(fresh_disk(), key(2), voter)


@pytest.mark.parametrize("voter", [ReplicaKey(1, OTHER_DISK), ReplicaKey(2)])
def test_a_vote_request_for_another_voter_is_refused(voter: ReplicaKey) -> None:
    assert not vote_of(fresh_disk(), key(2), voter)


@pytest.mark.parametrize("candidate", [ReplicaKey(1), ReplicaKey(1, OTHER_DISK)])
def test_a_voter_does_not_vote_for_a_candidate_with_its_own_id(candidate: ReplicaKey) -> None:
    assert not vote_of(fresh_disk(), candidate, ReplicaKey(1))


def test_a_candidate_goes_on_as_one_when_it_reads_its_vote_without_a_directory() -> None:
    disk = fresh_disk()
    QuorumStateFile(disk, FOLDER).write(ElectionState(5, None, key(1)), [1, 2, 3])
    raft = replica(1, filesystem=disk, kraft_version=STATIC_VOTERS)
    raft.start(0)
    assert (raft.replica.quorum.role.name.value, raft.replica.epoch) == ("candidate", 5)


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_a_snapshot_has_no_voters_and_a_follower_that_loads_it_keeps_the_static_ones() -> None:
    cluster = quorum()
    leader = cluster.elect()
    behind = next(n for n in cluster.voters if n != leader)
    cluster.kill(behind)
    for number in (1, 2, 3):
        cluster.append(number)
        cluster.run(1000)
        assert cluster.heard[leader].levels[-1] == number
        cluster.snapshot(leader)
    assert cluster.clean(leader)
    newest = cluster.rafts[leader].replica.log.snapshots.newest()
    assert newest is not None
    assert (newest.kraft_version, newest.voters.ids) == (STATIC_VOTERS, [])
    cluster.start(behind)
    cluster.run_until(lambda: cluster.heard[behind].levels == [1, 2, 3])
    raft = cluster.rafts[behind]
    assert (raft.kraft_version, raft.replica.control_records.voters) == (STATIC_VOTERS, static_voters([1, 2, 3]))
    cluster.kill(leader)
    assert cluster.elect() != leader
