"""Lab 12: from which offset on is a follower's log another one than its leader's?"""

from collections.abc import Sequence

Entries = Sequence[tuple[int, int]]
"""The leader epochs of a log, oldest first, each with the offset of its first record."""
End = tuple[int, int]
"""A leader epoch, and the offset after its last record."""


# --- task 12.1: the epochs of a log ---
def assigned(entries: Entries, epoch: int, offset: int) -> list[tuple[int, int]]:
    """The entries, after a record of this epoch was appended at this offset."""
    if entries and entries[-1][0] == epoch:
        return list(entries)
    return [*entries, (epoch, offset)]


def truncated(entries: Entries, end: int) -> list[tuple[int, int]]:
    """The entries, after the log was truncated to this end."""
    return [entry for entry in entries if entry[1] < end]


def end_of_epoch(entries: Entries, log_end: int, epoch: int) -> End | None:
    """The largest epoch of the log up to this one, and where it ends. An epoch below the first one ends
    where the log begins; None for one above the last."""
    if not entries or epoch > entries[-1][0]:
        return None
    for number in range(len(entries) - 1, -1, -1):
        known = entries[number][0]
        if known <= epoch:
            is_last = number == len(entries) - 1
            return known, log_end if is_last else entries[number + 1][1]
    return epoch, entries[0][1]


# --- end of task 12.1 ---


# --- task 12.2: the leader's answer ---
def diverging(entries: Entries, log_end: int, fetch_offset: int, last_epoch: int) -> End | None:
    """What a leader answers to a follower whose log ends at `fetch_offset` with a record of
    `last_epoch`: None if that log is a part of its own, else the end of the largest epoch up to
    `last_epoch` that it has."""
    found = end_of_epoch(entries, log_end, last_epoch)
    return found if found[0] < last_epoch or found[1] < fetch_offset else None


# --- end of task 12.2 ---


# --- task 12.3: the follower truncates ---
def truncation_offset(entries: Entries, log_end: int, answer: End) -> int:
    """To which offset a follower truncates its log after the leader's answer."""
    epoch, end = answer
    ours = end_of_epoch(entries, log_end, epoch)
    return min(end, ours[1])


def last_epoch(entries: Entries) -> int:
    """The epoch of the log's last record; -1 if the log is empty."""
    return entries[-1][0] if entries else -1


def agreed(leader: Entries, leader_end: int, follower: Entries, follower_end: int) -> tuple[int, int]:
    """Let a follower ask and truncate until the leader finds nothing to object: the offset where its
    log ends then, and how many times it truncated."""
    times = 0
    while follower_end > 0:
        answer = diverging(leader, leader_end, follower_end, last_epoch(follower))
        if answer is None:
            break
        follower_end = truncation_offset(follower, follower_end, answer)
        follower = truncated(follower, follower_end)
        times += 1
    return follower_end, times


# --- end of task 12.3 ---
