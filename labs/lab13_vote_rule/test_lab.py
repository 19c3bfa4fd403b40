"""What lab 13 asks of a vote rule. Answers are compared with those of pykraft's own rule for the same role."""

import itertools
from random import Random

import pytest

from pykraft.common.types import Node, ReplicaKey
from pykraft.raft.quorum_state import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    grants_vote,
)

ME, OTHER, THIRD, FOURTH = 1, 2, 3, 4
ROLES = ("unattached", "prospective", "candidate", "leader", "follower", "resigned")


def end(impl, epoch=3, offset=10):
    return impl.LogEnd(epoch, offset)


def voter(impl, role="unattached", epoch=5, voted=None, leader=None, has_fetched=False, log=None):
    return impl.Voter(ME, role, epoch, voted, leader, has_fetched, log or end(impl))


def request(impl, candidate=OTHER, epoch=5, log=None, pre_vote=False):
    return impl.VoteRequest(candidate, epoch, log or end(impl), pre_vote)


def pykrafts(voter, asked):
    """The voter after the request, and the answer, by pykraft's own rule."""
    if asked.epoch < voter.epoch:
        return voter, "fenced"
    if asked.epoch > voter.epoch:
        voter = voter._replace(role="unattached", epoch=asked.epoch, voted=None, leader=None, has_fetched=False)
    candidate = ReplicaKey(asked.candidate)
    is_good = (asked.log.epoch, asked.log.offset) >= (voter.log.epoch, voter.log.offset)
    granted = asked.candidate != voter.id and grants_vote(role_of(voter), candidate, is_good, asked.pre_vote)
    if granted and not asked.pre_vote:
        voter = voter._replace(voted=asked.candidate)
    return voter, "granted" if granted else "refused"


def role_of(voter):
    told = {"epoch": voter.epoch, "voted": None if voter.voted is None else ReplicaKey(voter.voted)}
    told["leader_id"] = voter.leader
    match voter.role:
        case "unattached":
            return Unattached(**told, election_deadline=0)
        case "prospective":
            return Prospective(**told, election_deadline=0, granted=frozenset([ME]))
        case "candidate":
            return Candidate(**told, election_deadline=0, granted=frozenset([ME]))
        case "leader":
            return Leader(**told, granted=frozenset([ME, OTHER]))
        case "follower":
            leader = Node(voter.leader, "localhost", 9093)
            return Follower(**told, leader=leader, fetch_deadline=0, has_fetched=voter.has_fetched)
    return Resigned(**told, election_deadline=0)


def check(impl, asked, *voters):
    """Compare the answers of these voters; AssertionError at the first difference."""
    for known in voters:
        wanted_voter, wanted = pykrafts(known, asked)
        found_voter, found = impl.answer(known, asked)
        kind = "pre-vote" if asked.pre_vote else "vote"
        about = f"a {kind} for {asked.candidate} in epoch {asked.epoch} with {asked.log}, asked of {known}"
        assert found == wanted, f"the answer is {wanted!r}, and you say {found!r}: {about}"
        for name, value in wanted_voter._asdict().items():
            mine = getattr(found_voter, name, "no such field")
            assert mine == value, f"after the answer {name} is {value!r}, and yours is {mine!r}: {about}"
        assert found_voter == wanted_voter, (
            f"after the answer it is {wanted_voter}, and yours is {found_voter}: {about}"
        )


# --- task 13.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("13.1", points=2)
def test_the_epoch_of_the_last_record_decides_before_the_offset(impl):
    """A longer log of an older epoch, and a shorter one of a newer epoch."""
    for mine, wanted in (((4, 9), True), ((2, 99), False), ((4, 99), True), ((2, 9), False)):
        found = impl.is_up_to_date(impl.LogEnd(*mine), end(impl))
        assert found is wanted, (
            f"is a log that ends at {mine} up to date beside one that ends at (3, 10)? {wanted}, and you say {found}"
        )


@pytest.mark.task("13.1", points=1)
def test_in_one_epoch_the_offset_decides_and_equal_logs_are_good_enough(impl):
    """The same epoch, and an end before, at and after the own one."""
    for offset, wanted in ((9, False), (10, True), (11, True)):
        found = impl.is_up_to_date(end(impl, offset=offset), end(impl))
        assert found is wanted, (
            f"is a log up to {offset} up to date beside one up to 10 of the same epoch? {wanted}, and you say {found}"
        )


# --- task 13.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("13.2", points=2)
def test_an_old_epoch_is_fenced_and_changes_nothing(impl):
    """Requests of epoch 4 at voters of epoch 5, in each role."""
    check(impl, request(impl, epoch=4), *(voter(impl, role, leader=OTHER) for role in ROLES))


@pytest.mark.task("13.2", points=3)
def test_a_new_epoch_is_taken_over_before_anything_else(impl):
    """Votes and pre-votes of epoch 6, with a good log and a bad one, at voters of epoch 5 in each role."""
    for log, pre_vote in itertools.product((end(impl), end(impl, offset=9)), (False, True)):
        asked = request(impl, epoch=6, log=log, pre_vote=pre_vote)
        check(impl, asked, *(voter(impl, role, voted=THIRD, leader=THIRD, has_fetched=True) for role in ROLES))


@pytest.mark.task("13.2", points=3)
def test_a_voter_has_one_vote_in_an_epoch(impl):
    """Two candidates ask the same voter, one after the other; and then both in the next epoch."""
    for role in ("unattached", "prospective"):
        known, said = voter(impl, role), []
        for candidate, epoch in ((OTHER, 5), (THIRD, 5), (THIRD, 6), (OTHER, 6)):
            known, told = impl.answer(known, request(impl, candidate, epoch))
            said.append(told)
        wanted = ["granted", "refused", "granted", "refused"]
        assert said == wanted, (
            f"2 and 3 ask in epoch 5, then 3 and 2 in epoch 6: the answers are {wanted}, and you say {said}"
        )


@pytest.mark.task("13.2", points=1)
def test_the_same_candidate_is_answered_again(impl):
    """The answer was lost, and the candidate repeats its request, perhaps with a log that looks worse."""
    check(impl, request(impl), voter(impl, voted=OTHER), voter(impl, "prospective", voted=OTHER))
    check(impl, request(impl, log=end(impl, offset=2)), voter(impl, voted=OTHER))


@pytest.mark.task("13.2", points=2)
def test_a_log_that_misses_records_gets_no_vote(impl):
    """A log that is a record shorter asks a voter that is free."""
    for pre_vote in (False, True):
        check(
            impl, request(impl, log=end(impl, offset=9), pre_vote=pre_vote), *(voter(impl, role) for role in ROLES[:2])
        )


@pytest.mark.task("13.2", points=2)
def test_a_voter_that_is_not_free_refuses(impl):
    """A candidate, a leader, a follower, a resigned leader, one that knows of a leader, and the node itself."""
    check(impl, request(impl), *(voter(impl, role, voted=ME, leader=THIRD) for role in ROLES[2:]))
    check(impl, request(impl), voter(impl, leader=THIRD), voter(impl, "prospective", leader=THIRD))
    check(impl, request(impl, ME), voter(impl))
    check(impl, request(impl, ME, pre_vote=True), voter(impl))


@pytest.mark.task("13.2", points=2)
def test_a_pre_vote_does_not_bind(impl):
    """Pre-votes for two nodes, and a vote for a third one afterwards; also from a voter that has voted."""
    known, said = voter(impl), []
    for candidate, pre_vote in ((OTHER, True), (THIRD, True), (THIRD, False), (OTHER, True)):
        known, told = impl.answer(known, request(impl, candidate, pre_vote=pre_vote))
        said.append(told)
    assert said == ["granted"] * 4, (
        f"two pre-votes, a vote, a pre-vote for another: all are granted, and you say {said}"
    )
    assert known.voted == THIRD, f"the only vote was for 3, and the voter has noted {known.voted}"


@pytest.mark.task("13.2", points=2)
def test_a_follower_that_hears_its_leader_grants_no_pre_vote(impl):
    """Followers that have had an answer of their leader and that have not; and leaders."""
    asked = request(impl, pre_vote=True)
    followers = [voter(impl, "follower", leader=THIRD, has_fetched=has_fetched) for has_fetched in (True, False)]
    check(impl, asked, *followers, voter(impl, "leader", leader=ME), voter(impl, "candidate"), voter(impl, "resigned"))


@pytest.mark.task("13.2", points=3)
def test_a_long_dialogue_gets_kafkas_answers(impl, chance):
    """1,000 requests of all kinds at voters in all roles, with lower and higher ids than the candidates."""
    for _ in range(1000):
        role = chance.choice(ROLES)
        leader = THIRD if role == "follower" else chance.choice((None, None, THIRD))
        log = end(impl, chance.randrange(2, 5), chance.randrange(9, 12))
        known = voter(impl, role, 5, chance.choice((None, OTHER, THIRD)), leader, chance.random() < 0.5)
        known = known._replace(id=chance.choice((ME, FOURTH)))
        asked = request(impl, chance.choice((known.id, OTHER, THIRD)), chance.choice((4, 5, 5, 5, 6)), log)
        check(impl, asked._replace(pre_vote=chance.random() < 0.4), known)


# --- task 13.3 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("13.3", points=2)
@pytest.mark.parametrize("count", range(1, 8))
def test_more_than_half_win(impl, count):
    """One to seven voters, and every number of votes."""
    voters = list(range(1, count + 1))
    for votes in range(count + 1):
        found, wanted = impl.has_won(set(voters[:votes]), voters), 2 * votes > count
        assert found is wanted, f"has a candidate with {votes} of {count} votes won? {wanted}, and you say {found}"


@pytest.mark.task("13.3", points=2)
@pytest.mark.parametrize("count", range(1, 8))
def test_a_candidate_has_lost_when_the_others_cannot_be_a_majority(impl, count):
    """One to seven voters, and every number of refusals."""
    voters = list(range(1, count + 1))
    for refused in range(count + 1):
        found, wanted = impl.has_lost(set(voters[:refused]), voters), 2 * (count - refused) <= count
        assert found is wanted, f"has a candidate lost that {refused} of {count} refuse? {wanted}, and you say {found}"


@pytest.mark.task("13.3", points=1)
def test_only_voters_count(impl):
    """Answers of nodes that are no voters, and a node that answers twice."""
    strangers = {7, 8, 9}
    assert not impl.has_won({1, *strangers}, [1, 2, 3]), "7, 8 and 9 are no voters, and their votes were counted"
    assert not impl.has_lost({1, *strangers}, [1, 2, 3]), "7, 8 and 9 are no voters, and their refusals were counted"
    assert not impl.has_won([1, 1], [1, 2, 3]), (
        "node 1 has said yes twice, and its two answers were counted as two votes"
    )
    assert not impl.has_lost([1, 1], [1, 2, 3]), "node 1 has said no twice, and its two answers were counted as two"


@pytest.mark.task("13.3", points=2)
def test_a_node_waits_at_least_the_timeout_and_less_than_twice(impl, chance):
    """1,000 timeouts of 300 ms, and what they have in common; 5,000 of 10 ms, which give ten values equally often."""
    found = [impl.election_timeout_ms(300, chance) for _ in range(1000)]
    assert min(found) >= 300, f"{min(found)} ms is less than the timeout of 300 ms"
    assert max(found) < 600, f"{max(found)} ms is not less than twice the timeout of 300 ms"
    assert max(found) - min(found) > 250, f"1,000 waits from {min(found)} to {max(found)} ms: use the whole second half"
    assert len(set(found)) > 100, f"1,000 waits have {len(set(found))} values: two nodes would often wait alike"
    short = [impl.election_timeout_ms(10, chance) for _ in range(5000)]
    counts = {wait: short.count(wait) for wait in range(10, 20)}
    assert min(counts.values()) > 350, f"5,000 waits of 10 to 19 ms: each comes about 500 times; yours are {counts}"
    assert sum(counts.values()) == 5000, f"a timeout of 10 ms waits 10 to 19 ms, in whole numbers: {sorted(set(short))}"


@pytest.mark.task("13.3", points=1)
def test_chance_comes_from_what_is_given(impl, seed):
    """The same generator gives the same waits: a simulated run must be the same each time."""
    one, two = ([impl.election_timeout_ms(300, random) for _ in range(9)] for random in (Random(seed), Random(seed)))
    assert one == two, f"twice the same generator, and the waits are {one} and {two}"
    assert impl.election_timeout_ms(1, Random(seed)) == 1, "of a timeout of 1 ms there is nothing to add"
