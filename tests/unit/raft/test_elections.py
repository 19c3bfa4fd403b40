"""Whole elections, in virtual time: who stands when, who is elected, and what one that was cut off may not disturb."""

from __future__ import annotations

import pytest

from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import OffsetAndEpoch
from pykraft.protocol.messages.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
    decode_control_record,
)
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest
from pykraft.raft import wire
from pykraft.raft.client import RaftClient
from pykraft.raft.election import ElectionState, QuorumStateFile
from pykraft.raft.quorum_state import Candidate, Prospective, RoleName
from tests.harness.quorum import (
    CLUSTER_ID,
    FOLDER,
    Heard,
    Quorum,
    address,
    fresh_disk,
    key,
    level,
    open_metadata_log,
    replica,
    serve,
)
from tests.harness.scripted import Script

ELECTION_MS = 1000
FETCH_MS = 2000


def voter(epoch: int = 5, leader: int | None = None) -> tuple[RaftClient, Script]:
    """Voter 1 of three, and the script that drives it."""
    filesystem = fresh_disk()
    QuorumStateFile(filesystem, FOLDER).write(ElectionState(epoch, leader))
    raft = replica(1, filesystem=filesystem)
    raft.start(1000)
    return raft, Script(raft)


def view(raft: RaftClient, leader: int | None = None, epoch: int | None = None) -> wire.View:
    return wire.View(raft.replica.epoch if epoch is None else epoch, leader, address(leader) if leader else None)


def destinations(script: Script, request: type) -> list[int]:
    return sorted(o.destination.id for o in script.sent if isinstance(o.request, request))


def until_the_deadline(script: Script) -> None:
    script.poll(max(0, script.deadline - script.now))


def stands(raft: RaftClient, script: Script) -> None:
    """Time passes until it asks whether it would be elected."""
    for _ in range(200):
        if raft.replica.quorum.role.name is RoleName.PROSPECTIVE:
            return
        while script.has_asked(FetchRequest):
            script.fail(FetchRequest)
        until_the_deadline(script)
    raise AssertionError("it never stands")


def is_elected(raft: RaftClient, script: Script) -> None:
    """Voter 1 stands, and is granted the pre-vote and the vote."""
    stands(raft, script)
    for _ in ("pre-vote", "vote"):
        script.answer(VoteRequest, wire.vote_response(view(raft), ErrorCode.NONE, granted=True))
        script.sent.clear()
        script.poll()


# --- one voter, word by word ------------------------------------------------------------------------------------------


def test_it_asks_before_it_raises_the_epoch() -> None:
    raft, script = voter()
    stands(raft, script)
    assert ELECTION_MS <= script.now - 1000 < 2 * ELECTION_MS
    assert raft.replica.epoch == 5
    assert destinations(script, VoteRequest) == [2, 3]
    asked = script.outbound(VoteRequest).request.topics[0].partitions[0]
    assert asked.pre_vote and asked.replica_epoch == 5 and asked.replica_id == 1
    script.answer(VoteRequest, wire.vote_response(view(raft), ErrorCode.NONE, granted=True))
    assert raft.replica.quorum.role.name is RoleName.CANDIDATE
    assert raft.replica.epoch == 6
    script.sent.clear()
    script.poll()
    asked = script.outbound(VoteRequest).request.topics[0].partitions[0]
    assert not asked.pre_vote and asked.replica_epoch == 6
    assert destinations(script, VoteRequest) == [2, 3]
    script.answer(VoteRequest, wire.vote_response(view(raft), ErrorCode.NONE, granted=True))
    assert raft.replica.quorum.role.name is RoleName.LEADER
    assert raft.replica.log.end == OffsetAndEpoch(3, 6)


def test_a_lost_pre_vote_changes_nothing() -> None:
    raft, script = voter()
    stands(raft, script)
    for _ in (2, 3):
        script.answer(VoteRequest, wire.vote_response(view(raft), ErrorCode.NONE, granted=False))
    assert raft.replica.quorum.role.name is RoleName.UNATTACHED
    assert raft.replica.epoch == 5


def test_a_lost_pre_vote_leads_back_to_the_leader_that_was_lost() -> None:
    raft, script = voter(leader=2)
    assert raft.replica.quorum.role.name is RoleName.FOLLOWER
    stands(raft, script)
    assert script.now - 1000 == FETCH_MS
    script.poll()
    for _ in (2, 3):
        script.answer(VoteRequest, wire.vote_response(view(raft, leader=2), ErrorCode.NONE, granted=False))
    assert raft.replica.quorum.role.name is RoleName.FOLLOWER
    assert raft.leader_and_epoch == (2, 5)


def asks_for_its_vote(candidate: int, raft: RaftClient, script: Script) -> bool:
    """A candidate of epoch 6 asks; whether it gets the vote."""
    request = wire.vote_request(CLUSTER_ID, 6, key(candidate), key(1), OffsetAndEpoch(0, 0), pre_vote=False)
    granted: bool = serve(raft, request, script.now).value.topics[0].partitions[0].vote_granted
    return granted


@pytest.mark.parametrize("voted_as", [RoleName.UNATTACHED, RoleName.PROSPECTIVE])
def test_a_prospective_that_has_voted_refuses_the_other_candidate_of_the_epoch(voted_as: RoleName) -> None:
    """Each candidate has its own vote. With this one as well, both would lead epoch 6."""
    raft, script = voter(epoch=6 if voted_as is RoleName.PROSPECTIVE else 5)
    if voted_as is RoleName.PROSPECTIVE:
        stands(raft, script)
    assert asks_for_its_vote(2, raft, script)
    assert raft.replica.quorum.role.name is voted_as and raft.replica.epoch == 6
    stands(raft, script)
    assert not asks_for_its_vote(3, raft, script)
    assert asks_for_its_vote(2, raft, script), "the same answer as before, if that was lost"
    assert raft.replica.quorum.role.voted == key(2)


def test_votes_of_an_older_role_do_not_count() -> None:
    raft, script = voter()
    stands(raft, script)
    late = script.outbound(VoteRequest)
    until_the_deadline(script)  # the pre-vote times out
    stands(raft, script)
    script.answer(late, wire.vote_response(view(raft), ErrorCode.NONE, granted=True))
    role = raft.replica.quorum.role
    assert isinstance(role, Prospective) and role.granted == {1}


def test_a_candidate_that_is_not_elected_asks_anew_after_its_timeout() -> None:
    raft, script = voter()
    stands(raft, script)
    script.answer(VoteRequest, wire.vote_response(view(raft), ErrorCode.NONE, granted=True))
    role = raft.replica.quorum.role
    assert isinstance(role, Candidate)
    script.poll(role.election_deadline - script.now)
    assert raft.replica.quorum.role.name is RoleName.PROSPECTIVE
    assert raft.replica.epoch == 6


def test_a_voter_that_does_not_answer_is_asked_again_after_a_pause() -> None:
    raft, script = voter()
    stands(raft, script)
    script.fail(VoteRequest, Failure.DISCONNECTED)
    assert script.poll(19) == []
    assert [type(outbound.request) for outbound in script.poll(1)] == [VoteRequest]


def test_who_knows_less_is_not_asked_again_at_once() -> None:
    raft, script = voter()
    script.poll()
    first = script.outbound(FetchRequest)
    refusal = wire.fetch_response(view(raft, epoch=4), ErrorCode.UNKNOWN_LEADER_EPOCH, 0)
    script.answer(first, refusal)
    (second,) = script.poll()
    assert second.destination != first.destination
    script.answer(second, refusal)
    assert script.poll(19) == []
    assert len(script.poll(1)) == 1


def test_a_higher_epoch_ends_any_election() -> None:
    for leader, role in [(None, RoleName.UNATTACHED), (3, RoleName.FOLLOWER)]:
        raft, script = voter()
        stands(raft, script)
        answer = wire.vote_response(view(raft, leader, epoch=9), ErrorCode.FENCED_LEADER_EPOCH, granted=False)
        script.answer(VoteRequest, answer)
        assert (raft.replica.quorum.role.name, raft.replica.epoch) == (role, 9)


def test_a_fetch_is_held_back_for_half_the_time_that_anybody_would_wait_for_it() -> None:
    for settings, wait_ms in (
        ({}, 500),
        ({"controller_quorum_fetch_timeout_ms": 100}, 50),
        ({"controller_quorum_request_timeout_ms": 80}, 40),
    ):
        raft = replica(1, **settings)
        raft.start(1000)
        script = Script(raft)
        script.poll()
        assert script.asked(FetchRequest).max_wait_ms == wait_ms


def test_a_leader_that_shuts_down_tells_each_of_the_others_once() -> None:
    raft, script = voter()
    is_elected(raft, script)
    raft.begin_shutdown(script.now)
    script.sent.clear()
    script.poll()
    assert destinations(script, EndQuorumEpochRequest) == [2, 3] and not raft.is_shut_down
    for _ in (2, 3):
        script.answer(EndQuorumEpochRequest, wire.end_response(view(raft, leader=1), ErrorCode.NONE))
    assert raft.is_shut_down and script.poll(100) == []


def test_a_single_voter_leads_at_once() -> None:
    raft = replica(1, voters=[1])
    raft.start(0)
    assert raft.replica.quorum.role.name is RoleName.LEADER
    assert raft.replica.epoch == 1
    raft.poll(0)
    assert raft.high_watermark == raft.replica.log.end_offset == 3


# --- a quorum ---------------------------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_quorum_elects_one_leader_and_stays_with_it(count: int) -> None:
    quorum = Quorum(range(1, count + 1), observers=[7])
    leader = quorum.elect()
    epoch = quorum.epoch(leader)
    quorum.run(30_000)
    assert quorum.leader == leader and quorum.epoch(leader) == epoch
    assert quorum.role(7) is RoleName.FOLLOWER
    assert not [asked for asked in quorum.asked if asked[1] == 7], "an observer is asked for nothing"


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(5))
def test_a_new_leader_is_found_within_a_fetch_timeout_and_two_elections(seed: int) -> None:
    quorum = Quorum(seed=seed)
    dead = quorum.elect()
    quorum.run(3000)
    before = quorum.now
    quorum.kill(dead)
    quorum.run_until(lambda: bool(quorum.leaders))
    assert quorum.now - before <= FETCH_MS + 3 * ELECTION_MS
    quorum.start(dead)
    assert quorum.elect() != dead
    assert quorum.role(dead) is RoleName.FOLLOWER


@pytest.mark.costly
def test_a_voter_that_was_cut_off_comes_back_without_an_election() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    lonely = next(n for n in (1, 2, 3) if n != leader)
    epoch = quorum.epoch(leader)
    quorum.isolate(lonely)
    quorum.run(20_000)
    assert quorum.role(lonely) is not RoleName.CANDIDATE
    assert quorum.epoch(lonely) == epoch, "pre-vote: it has not raised the epoch"
    quorum.heal()
    quorum.run(5000)
    assert (quorum.leader, quorum.epoch(lonely)) == (leader, epoch)
    assert quorum.role(lonely) is RoleName.FOLLOWER


@pytest.mark.costly
def test_a_voter_that_cannot_reach_the_leader_alone_is_not_elected() -> None:
    """The others hear from the leader: they grant no pre-vote."""
    quorum = Quorum()
    leader = quorum.elect()
    lonely, other = (n for n in (1, 2, 3) if n != leader)
    epoch = quorum.epoch(leader)
    quorum.run(1000)
    quorum.cut.add(frozenset((leader, lonely)))
    quorum.run(20_000)
    assert (quorum.leader, quorum.epoch(other)) == (leader, epoch)
    assert any(sender == lonely and isinstance(request, VoteRequest) for sender, _, request in quorum.asked)


def test_a_leader_without_a_majority_resigns_after_one_and_a_half_fetch_timeouts() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    epoch = quorum.epoch(leader)
    quorum.run(1000)
    quorum.isolate(leader)
    quorum.run(1000)
    assert quorum.role(leader) is RoleName.LEADER
    quorum.run(2001)
    assert quorum.role(leader) is not RoleName.LEADER
    with pytest.raises(KafkaError, match="does not lead"):
        quorum.rafts[leader].append(epoch, [b"x"], quorum.now)
    quorum.heal()
    quorum.elect()
    assert quorum.epoch(leader) > epoch


def test_what_a_cut_off_leader_wrote_is_truncated_by_its_successor() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    quorum.append(1)
    quorum.elect()
    quorum.isolate(leader)
    quorum.append(2, 3)
    quorum.run(100)
    lost = quorum.end(leader)
    quorum.run_until(lambda: bool(set(quorum.leaders) - {leader}))
    (successor,) = set(quorum.leaders) - {leader}
    raft = quorum.rafts[successor]
    raft.append(raft.replica.epoch, [level(7)], quorum.now)
    quorum.run(2000)
    assert quorum.heard[leader].levels == [1]
    quorum.heal()
    quorum.elect()
    assert quorum.end(leader).epoch > lost.epoch
    assert len({quorum.contents(n) for n in (1, 2, 3)}) == 1
    assert quorum.heard[leader].levels == [1, 7], "no listener heard what was lost"


def test_a_leader_that_shuts_down_is_succeeded_without_waiting_for_silence() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    quorum.run(1000)
    before = quorum.now
    quorum.rafts[leader].begin_shutdown(before)
    quorum.run_until(lambda: bool(quorum.leaders))
    assert quorum.leader != leader
    assert quorum.now - before < 500, "the first successor stands at once"
    assert quorum.rafts[leader].is_shut_down
    assert {request.topics[0].partitions[0].preferred_candidates[0].candidate_id for request in told(quorum)} == {
        quorum.leader
    }


def told(quorum: Quorum) -> list[EndQuorumEpochRequest]:
    return [request for _, _, request in quorum.asked if isinstance(request, EndQuorumEpochRequest)]


def test_a_node_that_shuts_down_stands_for_no_election() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    going, staying = (n for n in (1, 2, 3) if n != leader)
    quorum.rafts[going].begin_shutdown(quorum.now)
    quorum.kill(leader)
    quorum.asked.clear()
    quorum.run(10_000)
    assert {sender for sender, _, request in quorum.asked if isinstance(request, VoteRequest)} == {staying}


def test_who_had_led_does_not_lead_the_same_epoch_again() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    epoch = quorum.epoch(leader)
    for n in (1, 2, 3):
        quorum.kill(n)
    for n in (1, 2, 3):
        quorum.start(n)
    assert quorum.role(leader) is RoleName.RESIGNED
    quorum.elect()
    assert quorum.epoch(leader) > epoch


def test_a_silent_voter_is_told_who_leads() -> None:
    raft, script = voter()
    is_elected(raft, script)
    assert destinations(script, BeginQuorumEpochRequest) == [2, 3]
    for told in (2, 3):
        request = script.outbound(BeginQuorumEpochRequest).request
        partition = request.topics[0].partitions[0]
        assert (request.voter_id, partition.leader_id, partition.leader_epoch) == (told, 1, 6)
        script.answer(BeginQuorumEpochRequest, wire.begin_response(view(raft, leader=1), ErrorCode.NONE))
    script.poll(900)
    serve(raft, wire.fetch_request(CLUSTER_ID, key(2), 6, raft.replica.log.end, 0, 0, 1 << 20), script.now)
    script.poll(100)
    assert destinations(script, BeginQuorumEpochRequest) == [3]


def test_a_voter_on_a_new_disk_gets_no_say() -> None:
    """Its key is another one: what it says of the high watermark is not counted, and its votes are not asked for."""
    quorum = Quorum()
    leader = quorum.elect()
    end = quorum.end(leader)
    request = wire.fetch_request(
        CLUSTER_ID, key(2)._replace(directory_id=key(9).directory_id), end.epoch, end, 0, 0, 1 << 20
    )
    serve(quorum.rafts[leader], request, quorum.now)
    state = quorum.rafts[leader].replica.leader
    assert state is not None and [k.id for k in state.observers] == [2]


# --- the log ----------------------------------------------------------------------------------------------------------


def test_the_first_leader_writes_who_leads_the_version_and_the_voters() -> None:
    """kraft.version 1 and the voters with their directory ids stand in the log from its beginning."""
    quorum = Quorum()
    leader = quorum.elect()
    (batch,) = quorum.rafts[leader].replica.log.batches_between(0, 3)
    assert batch.is_control and batch.base_offset == 0
    records = [decode_control_record(r.key or b"", r.value or b"")[1] for r in batch.records()]
    change, version, voters = records
    assert isinstance(change, LeaderChangeMessage) and change.leader_id == leader
    assert len(change.granting_voters) >= 2
    assert isinstance(version, KRaftVersionRecord) and version.kraft_version == 1
    assert isinstance(voters, VotersRecord)
    assert [(v.voter_id, v.voter_directory_id) for v in voters.voters] == [tuple(key(n)) for n in (1, 2, 3)]
    quorum.kill(leader)
    quorum.run_until(lambda: bool(quorum.leaders))
    batches = quorum.rafts[quorum.leader].replica.log.batches_between(3, 99)
    assert [(batch.is_control, batch.count) for batch in batches] == [(True, 1)]


def test_everybody_hears_every_record_once_and_in_order() -> None:
    quorum = Quorum(observers=[7])
    quorum.elect()
    quorum.append(1)
    quorum.append(2, 3)
    quorum.run(1000)
    quorum.append(4)
    quorum.elect()
    for n in (1, 2, 3, 7):
        assert quorum.heard[n].levels == [1, 2, 3, 4]
    assert [len(batch.records) for batch in quorum.heard[7].batches] == [0, 3, 1], "writes within the linger share one"


def test_nothing_is_decided_without_a_majority() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    for n in {1, 2, 3} - {leader}:
        quorum.kill(n)
    quorum.append(1)
    quorum.run(1000)
    assert quorum.end(leader).offset == 4
    assert quorum.heard[leader].levels == []


def test_a_leader_is_told_that_it_leads_when_it_has_heard_all_that_was_decided_before() -> None:
    """Its own first record must be decided: until then it cannot know how much of the older ones is."""
    raft, script = voter()
    heard = Heard()
    raft.register(heard)
    is_elected(raft, script)
    assert raft.leads(6) and heard.batches == []
    assert raft.leader_and_epoch not in heard.leaders
    request = wire.fetch_request(CLUSTER_ID, key(2), 6, raft.replica.log.end, 0, 0, 1 << 20)
    serve(raft, request, script.now)
    script.poll()
    assert [batch.last_offset for batch in heard.batches] == [2]
    assert heard.leaders[-1] == raft.leader_and_epoch == (1, 6)


def test_a_fetch_from_where_the_leaders_log_never_was_decides_nothing() -> None:
    raft, script = voter()
    is_elected(raft, script)
    for place in (OffsetAndEpoch(9, 5), OffsetAndEpoch(9, 6)):
        serve(raft, wire.fetch_request(CLUSTER_ID, key(2), 6, place, 0, 0, 1 << 20), script.now)
    assert raft.high_watermark == 0
    assert raft.replica.leader is not None and raft.replica.leader.voters[2].end_offset is None


@pytest.mark.costly
def test_a_crash_of_the_power_everywhere_keeps_what_was_decided() -> None:
    for seed in range(4):
        quorum = Quorum(seed=seed)
        quorum.elect()
        quorum.append(1)
        quorum.append(2)
        quorum.elect()
        for n in (1, 2, 3):
            quorum.kill(n, power=True)
        for n in (1, 2, 3):
            quorum.start(n)
        quorum.elect()
        assert [quorum.heard[n].levels for n in (1, 2, 3)] == [[1, 2]] * 3


@pytest.mark.costly
def test_what_a_voter_has_said_to_have_survives_the_loss_of_its_power() -> None:
    """Its next fetch says that it has everything before, and that counts: so it was synced."""
    for seed in range(6):
        quorum = Quorum(seed=seed)
        quorum.elect()
        quorum.append(1)
        quorum.elect()
        for n in (1, 2, 3):
            before = quorum.end(n)
            quorum.kill(n, power=True)
            assert open_metadata_log(quorum.disks[n]).end == before


def test_only_the_leader_of_the_epoch_may_append() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    raft = quorum.rafts[leader]
    with pytest.raises(KafkaError) as refused:
        raft.append(raft.replica.epoch + 1, [b"x"], quorum.now)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
