"""What lab 15 asks of a rule for changing voters. Commits are compared with those of pykraft's own leader."""

import pytest

from pykraft.common.types import ReplicaKey, Uuid
from pykraft.raft.leader_state import LeaderState
from pykraft.raft.log.voters import Voter as RealVoter
from pykraft.raft.log.voters import VoterSet

START = 10


def voter(impl, number, disk="a"):
    return impl.Voter(number, disk)


def voters(impl, *numbers):
    return tuple(voter(impl, number) for number in numbers)


def leader(impl, **fields):
    """Node 1 leads voters 1, 2 and 3, all is committed, and 4 has caught up."""
    said = {"epoch_start": START, "high_watermark": 20, "voters": voters(impl, 1, 2, 3), "voters_offset": 5}
    return impl.Leader(**{**said, "pending": None, "caught_up": frozenset(voters(impl, 4)), **fields})


def add(impl, number, disk="a"):
    return impl.Change("add", voter(impl, number, disk))


def remove(impl, number, disk="a"):
    return impl.Change("remove", voter(impl, number, disk))


def expect(impl, known, change, wanted):
    found = impl.may_change(known, change)
    assert found == wanted, f"{change} at {known}: the answer is {wanted!r}, and you say {found!r}"


# --- task 15.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("15.1", points=2)
def test_a_change_that_is_possible_is_made(impl):
    """An observer that has caught up is added; each of three voters is removed, the leader too."""
    expect(impl, leader(impl), add(impl, 4), "ok")
    for number in (1, 2, 3):
        expect(impl, leader(impl), remove(impl, number), "ok")


@pytest.mark.task("15.1", points=2)
def test_one_change_at_a_time(impl):
    """Changes while another voter, or the same one, is being added or removed."""
    for busy in (voter(impl, 4), voter(impl, 2)):
        for change in (add(impl, 4), remove(impl, 2), remove(impl, 3)):
            expect(impl, leader(impl, pending=busy), change, "wait")


@pytest.mark.task("15.1", points=2)
def test_a_new_leader_first_commits_a_record_of_its_epoch(impl):
    """A leader that was elected just now, whose voter set is an old one."""
    for change in (add(impl, 4), remove(impl, 2)):
        expect(impl, leader(impl, high_watermark=None), change, "wait")


@pytest.mark.task("15.1", points=3)
def test_the_last_set_must_be_committed(impl):
    """Voter sets before, right at, and after the high watermark."""
    for offset, wanted in ((19, "ok"), (20, "wait"), (21, "wait")):
        for change in (add(impl, 4), remove(impl, 2)):
            expect(impl, leader(impl, voters_offset=offset), change, wanted)


@pytest.mark.task("15.1", points=2)
def test_a_removal_names_id_and_disk(impl):
    """A node that is no voter, an observer, and a voter's id with another disk."""
    for change in (remove(impl, 9), remove(impl, 4), remove(impl, 2, "b")):
        expect(impl, leader(impl), change, "not found")


@pytest.mark.task("15.1", points=1)
def test_the_last_voter_stays(impl):
    """The only voter is to be removed; one of two may go."""
    expect(impl, leader(impl, voters=voters(impl, 1)), remove(impl, 1), "not found")
    expect(impl, leader(impl, voters=voters(impl, 1, 2)), remove(impl, 2), "ok")


@pytest.mark.task("15.1", points=2)
def test_an_id_is_there_once(impl):
    """A voter is added again, and one with its id on another disk, which has caught up."""
    known = leader(impl, caught_up=frozenset([voter(impl, 2), voter(impl, 2, "b")]))
    for disk in ("a", "b"):
        expect(impl, known, add(impl, 2, disk), "duplicate")


@pytest.mark.task("15.1", points=2)
def test_an_observer_must_have_caught_up(impl):
    """One that lags, and one of which the other disk has caught up."""
    expect(impl, leader(impl), add(impl, 5), "wait")
    expect(impl, leader(impl), add(impl, 4, "b"), "wait")


# --- task 15.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("15.2", points=2)
def test_the_new_set_has_one_voter_more(impl):
    """A voter with a higher id, one with a lower id, and one between."""
    for before, number, after in (((1, 2), 4, (1, 2, 4)), ((2, 4), 1, (1, 2, 4)), ((1, 4), 2, (1, 2, 4))):
        found = impl.new_voters(voters(impl, *before), add(impl, number))
        wanted = voters(impl, *after)
        assert found == wanted, f"{number} joins {before}: the set is {wanted}, and you say {found}"


@pytest.mark.task("15.2", points=2)
def test_the_new_set_has_one_voter_less(impl):
    """Each of four voters leaves."""
    for number in (1, 2, 3, 4):
        found = impl.new_voters(voters(impl, 1, 2, 3, 4), remove(impl, number))
        wanted = tuple(each for each in voters(impl, 1, 2, 3, 4) if each.id != number)
        assert found == wanted, f"{number} leaves 1, 2, 3, 4: the set is {wanted}, and you say {found}"


# --- task 15.3 --------------------------------------------------------------------------------------------------------


def committed(impl, wanted, ends, **fields):
    known = leader(impl, **fields)
    found = impl.high_watermark(known, {impl.Voter(*key): end for key, end in ends.items()})
    assert found == wanted, (
        f"voters {sorted(known.voters)}, logs that end at {ends}, high watermark {known.high_watermark}, the epoch "
        f"starts at {known.epoch_start}: it is {wanted} then, and you say {found}"
    )


@pytest.mark.task("15.3", points=3)
def test_a_majority_of_the_newest_set_counts(impl):
    """One to four voters; some have not been heard from."""
    ends = {(1, "a"): 30, (2, "a"): 28, (3, "a"): 25}
    for numbers, wanted in (((1,), 30), ((1, 2), 28), ((1, 2, 3), 28), ((1, 2, 3, 4), 25), ((1, 4), 20)):
        committed(impl, wanted, ends, voters=voters(impl, *numbers))


@pytest.mark.task("15.3", points=2)
def test_observers_and_removed_voters_do_not_count(impl):
    """A removed voter and an observer that have everything; and a leader that has removed itself."""
    ends = {(1, "a"): 30, (2, "a"): 22, (3, "a"): 30, (9, "a"): 30}
    committed(impl, 22, ends, voters=voters(impl, 1, 2))
    committed(impl, 20, {**ends, (2, "a"): 20}, voters=voters(impl, 2, 3))


@pytest.mark.task("15.3", points=2)
def test_another_disk_is_another_voter(impl):
    """Node 2 fetches from a new disk, and the voter is the one on the old disk."""
    committed(impl, 20, {(1, "a"): 30, (2, "b"): 30}, voters=voters(impl, 1, 2))
    committed(impl, 25, {(1, "a"): 30, (2, "b"): 30, (2, "a"): 25}, voters=voters(impl, 1, 2))


@pytest.mark.task("15.3", points=2)
def test_nothing_is_committed_before_a_record_of_the_epoch(impl):
    """Majorities that end before, at and after the start of the epoch, which may be offset 0."""
    for end, wanted in ((9, None), (START, None), (START + 1, START + 1)):
        ends = {(1, "a"): 30, (2, "a"): end}
        committed(impl, wanted, ends, high_watermark=None)
    committed(impl, None, {(1, "a"): 30}, high_watermark=None, epoch_start=0)


@pytest.mark.task("15.3", points=2)
def test_the_high_watermark_never_goes_back(impl):
    """A new voter lags, so that the new majority has less than was committed."""
    committed(impl, 29, {(1, "a"): 30, (2, "a"): 22}, voters=voters(impl, 1, 2), high_watermark=29)


@pytest.mark.task("15.3", points=3)
def test_a_long_life_commits_what_kafkas_leader_does(impl, chance):
    """500 sets of one to six voters with logs of any length."""
    for _ in range(500):
        numbers = sorted(chance.sample(range(1, 8), chance.randrange(1, 7)))
        ends = {(number, "a"): chance.randrange(5, 30) for number in range(1, 8) if chance.random() < 0.8}
        start, before = chance.randrange(5, 15), chance.choice((None, chance.randrange(15, 25)))
        wanted = pykrafts(numbers, ends, start, before)
        committed(impl, wanted, ends, voters=voters(impl, *numbers), epoch_start=start, high_watermark=before)


def pykrafts(numbers, ends, start, before):
    keys = {number: ReplicaKey(number, Uuid(bytes(15) + bytes([number]))) for number in range(1, 8)}
    known = VoterSet({number: RealVoter(keys[number], {}) for number in numbers})
    state = LeaderState(keys[1], 3, start, known, 500, 0)
    state.high_watermark = before
    for (number, _), end in ends.items():
        if number in state.voters:
            state.voters[number].end_offset = end
    state._update_high_watermark()
    return state.high_watermark
