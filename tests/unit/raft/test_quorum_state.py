"""The roles of the quorum: the table of legal moves, exhaustively, and what is on the disk before a move is made."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

import pytest

from pykraft.common.core import FOREVER
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import ReplicaKey
from pykraft.raft.election import ElectionState, QuorumStateFile
from pykraft.raft.log.voters import VOTERS_IN_LOG
from pykraft.raft.quorum_state import (
    TRANSITIONS,
    Candidate,
    Follower,
    Leader,
    Prospective,
    QuorumState,
    Resigned,
    Role,
    RoleName,
    Unattached,
    grants_vote,
)
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.checkpoint import DamagedFileError
from tests.harness.quorum import FOLDER, address, fresh_disk, key, voter_set

ELECTION_MS, FETCH_MS = 1000, 2000
NOW = 50_000


def quorum_state(filesystem: MemoryFileSystem, local: int = 1, voters: tuple[int, ...] = (1, 2, 3)) -> QuorumState:
    return QuorumState(
        local=key(local),
        voters=lambda: voter_set(voters),
        kraft_version=lambda: VOTERS_IN_LOG,
        file=QuorumStateFile(filesystem, FOLDER),
        election_timeout_ms=ELECTION_MS,
        fetch_timeout_ms=FETCH_MS,
        random=Random(1),
        trace=Tracer(local, Silence()),
    )


FIFTH = ElectionState(5)


def started(state: ElectionState = FIFTH, log_epoch: int = 0, local: int = 1) -> QuorumState:
    filesystem = fresh_disk()
    QuorumStateFile(filesystem, FOLDER).write(state)
    quorum = quorum_state(filesystem, local)
    quorum.start(log_epoch, lambda n: address(n) if n in (1, 2, 3) else None, NOW)
    return quorum


def candidate() -> QuorumState:
    quorum = started()
    quorum.become_prospective(NOW)
    quorum.become_candidate(NOW)
    return quorum


def leader() -> QuorumState:
    quorum = candidate()
    quorum.record_vote(2, True)
    quorum.become_leader()
    return quorum


def follower() -> QuorumState:
    quorum = started()
    quorum.become_follower(5, address(2), NOW)
    return quorum


def prospective() -> QuorumState:
    quorum = started()
    quorum.become_prospective(NOW)
    return quorum


def resigned() -> QuorumState:
    quorum = leader()
    quorum.become_resigned((key(2), key(3)), NOW)
    return quorum


IN_ROLE: dict[RoleName, Callable[[], QuorumState]] = {
    RoleName.UNATTACHED: started,
    RoleName.PROSPECTIVE: prospective,
    RoleName.CANDIDATE: candidate,
    RoleName.LEADER: leader,
    RoleName.FOLLOWER: follower,
    RoleName.RESIGNED: resigned,
}


def move(quorum: QuorumState, to: RoleName) -> None:
    """Go there by the method that leads there, in an epoch that does not stand in the way."""
    higher = quorum.epoch + 1
    match to:
        case RoleName.UNATTACHED:
            quorum.become_unattached(higher, None, NOW)
        case RoleName.PROSPECTIVE:
            quorum.become_prospective(NOW)
        case RoleName.CANDIDATE:
            quorum.become_candidate(NOW)
        case RoleName.LEADER:
            quorum.become_leader()
        case RoleName.FOLLOWER:
            quorum.become_follower(higher, address(2), NOW)
        case RoleName.RESIGNED:
            quorum.become_resigned((), NOW)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(RoleName, RoleName)))
def test_a_move_is_made_if_and_only_if_the_table_has_it(before: RoleName, after: RoleName) -> None:
    quorum = IN_ROLE[before]()
    assert quorum.role.name is before
    if after is RoleName.LEADER and before is RoleName.CANDIDATE:
        quorum.record_vote(3, True)
    if after is RoleName.PROSPECTIVE and before is RoleName.PROSPECTIVE:
        quorum.give_vote(key(2), NOW)  # the only way from prospective to prospective
        assert quorum.role.voted == key(2)
    elif after in TRANSITIONS[before]:
        move(quorum, after)
    else:
        on_disk = quorum._file.read()
        with pytest.raises(AssertionError):
            move(quorum, after)
        assert quorum.role.name is before
        assert quorum._file.read() == on_disk
        return
    assert quorum.role.name is after
    assert quorum._file.read() == quorum.role.election


# The comment that opens org.apache.kafka.raft.QuorumState in Kafka 4.2, as data, and two moves that its methods also
# make: a candidate follows a leader of its own epoch, and a prospective that votes becomes one again.
KAFKAS_TABLE = {
    "unattached": {"unattached", "prospective", "follower"},
    "prospective": {"unattached", "prospective", "candidate", "follower"},
    "candidate": {"unattached", "prospective", "leader", "follower"},
    "leader": {"unattached", "resigned", "follower"},
    "follower": {"unattached", "prospective", "follower"},
    "resigned": {"unattached", "follower"},
}


def test_the_table_is_kafkas() -> None:
    ours = {before.value: {after.value for after in row} for before, row in TRANSITIONS.items()}
    assert ours == KAFKAS_TABLE


def test_an_epoch_never_falls_whatever_the_role() -> None:
    for role in RoleName:
        quorum = IN_ROLE[role]()
        with pytest.raises(AssertionError, match="older epoch"):
            quorum.become_unattached(quorum.epoch - 1, None, NOW)
        with pytest.raises(AssertionError):
            quorum.become_follower(quorum.epoch - 1, address(2), NOW)
    with pytest.raises(AssertionError, match="follows"):
        (leading := leader()).become_follower(leading.epoch, address(2), NOW)


def test_nobody_follows_itself_and_no_observer_stands() -> None:
    with pytest.raises(AssertionError, match="itself"):
        started().become_follower(6, address(1), NOW)
    observer = started(local=9)
    assert isinstance(observer.role, Unattached) and observer.role.election_deadline == FOREVER
    with pytest.raises(AssertionError, match="observer"):
        observer.become_prospective(NOW)


def test_without_a_majority_there_is_no_leader() -> None:
    quorum = candidate()
    with pytest.raises(AssertionError, match="majority"):
        quorum.become_leader()
    quorum.record_vote(9, True)  # no voter
    with pytest.raises(AssertionError, match="majority"):
        quorum.become_leader()


def test_an_election_timeout_lies_between_one_and_two_timeouts_and_differs() -> None:
    deadlines = set()
    quorum = started()
    for epoch in range(6, 206):
        quorum.become_follower(epoch, address(2), NOW)
        quorum.become_prospective(NOW)
        assert isinstance(quorum.role, Prospective)
        deadlines.add(quorum.role.election_deadline - NOW)
    assert min(deadlines) >= ELECTION_MS and max(deadlines) < 2 * ELECTION_MS
    assert len(deadlines) > 100


def test_an_epoch_that_passes_by_does_not_put_off_the_own_election() -> None:
    quorum = started()
    assert isinstance(quorum.role, Unattached)
    deadline = quorum.role.election_deadline
    quorum.become_unattached(7, None, NOW + 900)
    assert isinstance(quorum.role, Unattached) and quorum.role.election_deadline == deadline


# --- the disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.CANDIDATE])
def test_a_crash_before_the_state_is_on_the_disk_is_a_crash_before_the_move(after: RoleName) -> None:
    """The write fails at each of its operations; the role must not have changed."""
    for allowed in itertools.count():
        filesystem = fresh_disk()
        quorum = quorum_state(filesystem)
        quorum.start(0, address, NOW)
        quorum.become_prospective(NOW)
        before = quorum.role
        filesystem.fail_after(allowed, OSError(5, "the disk fails"))
        try:
            move(quorum, after)
        except OSError:
            assert quorum.role is before
        else:
            break
    assert allowed >= 3, "writing takes a file, a rename and the sync of the folder"


def test_a_vote_survives_the_loss_of_power() -> None:
    for seed in range(30):
        filesystem = fresh_disk()
        quorum = quorum_state(filesystem)
        quorum.start(0, address, NOW)
        quorum.become_unattached(4, None, NOW)
        quorum.give_vote(key(3), NOW)
        filesystem.crash_power(Random(seed))
        assert QuorumStateFile(filesystem, FOLDER).read() == ElectionState(4, None, key(3))


def test_the_file_is_written_as_kafka_writes_it() -> None:
    filesystem = fresh_disk()
    file = QuorumStateFile(filesystem, FOLDER)
    assert file.read() == ElectionState(0)
    file.write(ElectionState(7, 1))
    assert filesystem.read(f"{FOLDER}/quorum-state") == (
        b'{"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert file.read() == ElectionState(7, 1)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b'{"leaderId":1}', b'{"leaderId":"x","leaderEpoch":1}', b"null", b"[" * 100_000),
        *(b'{"leaderId":1,"leaderEpoch":%b,"votedId":-1}' % each for each in (b"-1", b"2147483648", b"Infinity")),
        *(b'{"leaderId":1,"leaderEpoch":1,"votedId":-2}', b'{"leaderId":-7,"leaderEpoch":1,"votedId":-1}'),
    ],
)
def test_a_damaged_file_is_one_sentence(content: bytes) -> None:
    filesystem = fresh_disk()
    filesystem.write(f"{FOLDER}/quorum-state", content)
    with pytest.raises(DamagedFileError, match="quorum-state is damaged"):
        QuorumStateFile(filesystem, FOLDER).read()


@pytest.mark.parametrize(
    ("known", "log_epoch", "role"),
    [
        (ElectionState(0), 0, Unattached),
        (ElectionState(5, 2), 5, Follower),
        (ElectionState(5, 1), 5, Resigned),  # it led: it may have lost what it wrote in this epoch
        (ElectionState(5, None, key(1)), 5, Candidate),
        (ElectionState(5, None, key(2)), 5, Unattached),
        (ElectionState(5, 77), 5, Unattached),  # a leader whose address is unknown
        (ElectionState(5, 2), 6, Unattached),  # the log has seen a newer epoch
        (ElectionState(5, None, ReplicaKey(1, key(2).directory_id)), 5, Unattached),  # the vote of another disk
    ],
)
def test_a_node_takes_up_the_role_that_it_had(known: ElectionState, log_epoch: int, role: type[Role]) -> None:
    quorum = started(known, log_epoch)
    assert type(quorum.role) is role
    assert quorum.epoch == max(known.epoch, log_epoch)
    assert quorum._file.read() == quorum.role.election
    if quorum.epoch == known.epoch:
        assert quorum.role.voted == known.voted


# --- votes --------------------------------------------------------------------------------------------------------


def test_a_vote_is_remembered_as_long_as_its_epoch_lasts_and_no_longer() -> None:
    quorum = started()
    quorum.give_vote(key(3), NOW)
    for move_on in (
        lambda: quorum.become_prospective(NOW),
        lambda: quorum.become_unattached(5, None, NOW),
        lambda: quorum.become_follower(5, address(2), NOW),
        lambda: quorum.become_prospective(NOW),
    ):
        move_on()
        assert quorum.role.voted == quorum._file.read().voted == key(3)
    quorum.become_unattached(6, None, NOW)
    assert quorum.role.voted is None
    quorum.give_vote(key(2), NOW)
    quorum.become_follower(7, address(2), NOW)
    assert quorum.role.voted is None


def test_a_prospective_that_votes_asks_the_others_anew() -> None:
    quorum = prospective()
    quorum.record_vote(2, False)
    quorum.give_vote(key(3), NOW + 500)
    role = quorum.role
    assert isinstance(role, Prospective) and (role.granted, role.rejected) == ({1}, frozenset())
    assert role.election_deadline >= NOW + 500 + ELECTION_MS


HEARD = Follower(epoch=5, leader_id=2, leader=address(2), fetch_deadline=9, has_fetched=True)
UNHEARD = Follower(epoch=5, leader_id=2, leader=address(2), fetch_deadline=9)
FREE = Unattached(epoch=5, election_deadline=9)
PROSPECTIVE = Prospective(epoch=5, election_deadline=9, granted=frozenset([1]))
CANDIDATE = Candidate(epoch=5, voted=key(1), election_deadline=9, granted=frozenset([1]))
LEADER = Leader(epoch=5, leader_id=1, granted=frozenset([1, 2]))
RESIGNED = Resigned(epoch=5, leader_id=1, election_deadline=9)


@pytest.mark.parametrize(
    ("role", "up_to_date", "stale", "pre_up_to_date", "pre_stale"),
    [
        (FREE, True, False, True, False),
        (Unattached(epoch=5, election_deadline=9, voted=key(3)), True, True, True, False),
        (Unattached(epoch=5, election_deadline=9, voted=key(2)), False, False, True, False),
        (Unattached(epoch=5, election_deadline=9, leader_id=2), False, False, True, False),
        (PROSPECTIVE, True, False, True, False),
        (Prospective(epoch=5, election_deadline=9, granted=frozenset([1]), voted=key(3)), True, True, True, False),
        (Prospective(epoch=5, election_deadline=9, granted=frozenset([1]), voted=key(2)), False, False, True, False),
        (UNHEARD, False, False, True, False),
        (HEARD, False, False, False, False),
        (CANDIDATE, False, False, True, False),
        (LEADER, False, False, False, False),
        (RESIGNED, False, False, True, False),
    ],
)
def test_who_votes_for_replica_three(
    role: Role, up_to_date: bool, stale: bool, pre_up_to_date: bool, pre_stale: bool
) -> None:
    """Columns: a vote for an up-to-date log, for a stale one; a pre-vote for either."""
    asked = [
        grants_vote(role, key(3), log_is_up_to_date=log, pre_vote=pre) for pre in (False, True) for log in (True, False)
    ]
    assert asked == [up_to_date, stale, pre_up_to_date, pre_stale]
