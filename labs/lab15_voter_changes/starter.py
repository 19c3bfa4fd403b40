"""Lab 15: when may a leader change the voters, to which set, and who counts for the commit?"""

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Voter(NamedTuple):
    """A controller on its disk: the same id on another disk is another voter."""

    id: int
    disk: str


class Change(NamedTuple):
    """What an administrator asks for: "add" or "remove", and whom."""

    kind: str
    voter: Voter


class Leader(NamedTuple):
    """What the leader knows. `epoch_start` is the offset of its epoch's first record; `high_watermark`
    is None until a record of its epoch is committed. `voters` is the newest set in its log, the record
    at `voters_offset`. `pending` is the voter of a change under way, if any; `caught_up` are the
    observers that have all that the leader has."""

    epoch_start: int
    high_watermark: int | None
    voters: tuple[Voter, ...]
    voters_offset: int
    pending: Voter | None
    caught_up: Collection[Voter]


ADD, REMOVE = "add", "remove"
OK, WAIT, DUPLICATE, NOT_FOUND = "ok", "wait", "duplicate", "not found"


# --- task 15.1: may the leader do it now ---
def may_change(leader: Leader, change: Change) -> str:
    """OK, or why the leader appends no new voter set: WAIT, DUPLICATE or NOT_FOUND."""
    raise NotImplementedError("Task 15.1: first the leader's own state, then the voter")


# --- end of task 15.1 ---


# --- task 15.2: the new voter set ---
def new_voters(voters: tuple[Voter, ...], change: Change) -> tuple[Voter, ...]:
    """The voters after the change, in the order of their ids."""
    raise NotImplementedError("Task 15.2: one voter more, or one less")


# --- end of task 15.2 ---


# --- task 15.3: who counts ---
def high_watermark(leader: Leader, ends: Mapping[Voter, int]) -> int | None:
    """Up to where the leader's log is committed; `ends` are the log end offsets of all replicas it
    knows of."""
    raise NotImplementedError("Task 15.3: a majority of the newest set, beyond the start of the epoch")


# --- end of task 15.3 ---
