"""Lab 13: who gets a vote, when are there enough, and how long does a node wait?"""

from collections.abc import Collection
from random import Random
from typing import NamedTuple


class LogEnd(NamedTuple):
    """Where a log ends: the epoch of its last record, and the offset after it."""

    epoch: int
    offset: int


class Voter(NamedTuple):
    """A node that is asked for its vote. `role` is "unattached", "prospective", "candidate", "leader",
    "follower" or "resigned"; `voted` is the node that it has voted for in this epoch, `leader` this
    epoch's leader, if known."""

    id: int
    role: str
    epoch: int
    voted: int | None
    leader: int | None
    has_fetched: bool
    log: LogEnd


class VoteRequest(NamedTuple):
    """What a candidate sends, or, with `pre_vote`, a prospective."""

    candidate: int
    epoch: int
    log: LogEnd
    pre_vote: bool


GRANTED, REFUSED, FENCED = "granted", "refused", "fenced"


# --- task 13.1: which log is as good ---
def is_up_to_date(candidate: LogEnd, own: LogEnd) -> bool:
    """Whether the candidate's log may have everything that is committed in this one."""
    return (candidate.epoch, candidate.offset) >= (own.epoch, own.offset)


# --- end of task 13.1 ---


# --- task 13.2: the answer ---
def answer(voter: Voter, request: VoteRequest) -> tuple[Voter, str]:
    """The voter as it is after the request, and its answer."""
    if request.epoch < voter.epoch:
        return voter, FENCED
    if request.epoch > voter.epoch:
        voter = voter._replace(role="unattached", epoch=request.epoch, voted=None, leader=None, has_fetched=False)
    if request.candidate == voter.id or not grants(voter, request):
        return voter, REFUSED
    if not request.pre_vote:
        voter = voter._replace(voted=request.candidate)
    return voter, GRANTED


def grants(voter: Voter, request: VoteRequest) -> bool:
    """Whether a voter of the request's epoch says yes."""
    is_free = voter.role in ("unattached", "prospective")
    if not request.pre_vote and voter.voted is not None:
        return is_free and voter.voted == request.candidate
    if not request.pre_vote:
        return is_free and voter.leader is None and is_up_to_date(request.log, voter.log)
    if voter.role == "leader" or (voter.role == "follower" and voter.has_fetched):
        return False
    return is_up_to_date(request.log, voter.log)


# --- end of task 13.2 ---


# --- task 13.3: enough votes, and how long to wait ---
def has_won(granted: Collection[int], voters: Collection[int]) -> bool:
    """Whether a majority of the voters has said yes."""
    return len(set(granted) & set(voters)) > len(voters) // 2


def has_lost(refused: Collection[int], voters: Collection[int]) -> bool:
    """Whether so many have said no that a majority cannot be had."""
    return len(voters) - len(set(refused) & set(voters)) <= len(voters) // 2


def election_timeout_ms(timeout_ms: int, random: Random) -> int:
    """How long a node waits for votes before it tries again."""
    return timeout_ms + random.randrange(timeout_ms)


# --- end of task 13.3 ---
