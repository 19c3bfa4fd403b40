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
    raise NotImplementedError("Task 13.1: which of the two numbers decides first?")


# --- end of task 13.1 ---


# --- task 13.2: the answer ---
def answer(voter: Voter, request: VoteRequest) -> tuple[Voter, str]:
    """The voter as it is after the request, and its answer."""
    raise NotImplementedError("Task 13.2: the epoch first, then the role, then the log")


# --- end of task 13.2 ---


# --- task 13.3: enough votes, and how long to wait ---
def has_won(granted: Collection[int], voters: Collection[int]) -> bool:
    """Whether a majority of the voters has said yes."""
    raise NotImplementedError("Task 13.3: more than half of the voters")


def has_lost(refused: Collection[int], voters: Collection[int]) -> bool:
    """Whether so many have said no that a majority cannot be had."""
    raise NotImplementedError("Task 13.3: when can the others no longer be a majority?")


def election_timeout_ms(timeout_ms: int, random: Random) -> int:
    """How long a node waits for votes before it tries again."""
    raise NotImplementedError("Task 13.3: at least the timeout, and chance on top")


# --- end of task 13.3 ---
