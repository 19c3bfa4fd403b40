"""Lab 12: from which offset on is a follower's log another one than its leader's?"""

from collections.abc import Sequence

Entries = Sequence[tuple[int, int]]
"""The leader epochs of a log, oldest first, each with the offset of its first record."""
End = tuple[int, int]
"""A leader epoch, and the offset after its last record."""


# --- task 12.1: the epochs of a log ---
def assigned(entries: Entries, epoch: int, offset: int) -> list[tuple[int, int]]:
    """The entries, after a record of this epoch was appended at this offset."""
    raise NotImplementedError("Task 12.1: only the first record of an epoch is news")


def truncated(entries: Entries, end: int) -> list[tuple[int, int]]:
    """The entries, after the log was truncated to this end."""
    raise NotImplementedError("Task 12.1: which epochs have no record left?")


def end_of_epoch(entries: Entries, log_end: int, epoch: int) -> End | None:
    """The largest epoch of the log up to this one, and where it ends. An epoch below the first one ends
    where the log begins; None for one above the last."""
    raise NotImplementedError("Task 12.1: an epoch ends where the next one begins")


# --- end of task 12.1 ---


# --- task 12.2: the leader's answer ---
def diverging(entries: Entries, log_end: int, fetch_offset: int, last_epoch: int) -> End | None:
    """What a leader answers to a follower whose log ends at `fetch_offset` with a record of
    `last_epoch`: None if that log is a part of its own, else the end of the largest epoch up to
    `last_epoch` that it has."""
    raise NotImplementedError("Task 12.2: two things may be wrong with the follower's log")


# --- end of task 12.2 ---


# --- task 12.3: the follower truncates ---
def truncation_offset(entries: Entries, log_end: int, answer: End) -> int:
    """To which offset a follower truncates its log after the leader's answer."""
    raise NotImplementedError("Task 12.3: to where both logs may agree, within its own epoch")


def last_epoch(entries: Entries) -> int:
    """The epoch of the log's last record; -1 if the log is empty."""
    raise NotImplementedError("Task 12.3: the last entry has it")


def agreed(leader: Entries, leader_end: int, follower: Entries, follower_end: int) -> tuple[int, int]:
    """Let a follower ask and truncate until the leader finds nothing to object: the offset where its
    log ends then, and how many times it truncated."""
    raise NotImplementedError("Task 12.3: ask, truncate, and ask again")


# --- end of task 12.3 ---
