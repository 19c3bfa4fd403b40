"""Lab 11: when does a leader count a record as committed?"""

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Fetch(NamedTuple):
    """A follower's Fetch request: from which offset, where the leader's log ended then, and when it
    was."""

    offset: int
    leader_end: int
    at_ms: int


# --- task 11.1: the high watermark ---
def high_watermark(
    known: int, ends: Mapping[int, int], isr: Collection[int], joining: Collection[int], min_insync: int
) -> int:
    """The leader's high watermark, after `known`. `ends` are the log ends by broker, the leader's among
    them; `joining` are brokers outside the ISR that are in it soon, or perhaps already."""
    raise NotImplementedError("Task 11.1: for which logs do you wait, and when does nothing move?")


# --- end of task 11.1 ---


# --- task 11.2: who leaves, and who comes back ---
def caught_up_at(known: int, fetch: Fetch, before: Fetch | None) -> int:
    """When the follower was last caught up, after `known`. `before` is its Fetch request before this
    one."""
    raise NotImplementedError("Task 11.2: it may have all there is now, or all there was a request ago")


def lagging(
    isr: Collection[int],
    ends: Mapping[int, int],
    caught_up: Mapping[int, int],
    leader: int,
    now: int,
    max_lag_ms: int,
) -> set[int]:
    """The brokers that must leave the ISR. `caught_up` says of each follower when it was last caught
    up."""
    raise NotImplementedError("Task 11.2: a follower leaves if it has lacked something for too long")


def may_return(end: int, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower whose log ends here may come back into the ISR. The leader's epoch began at
    `epoch_start`."""
    raise NotImplementedError("Task 11.2: two offsets must be reached")


# --- end of task 11.2 ---


# --- task 11.3: what the producer hears ---
def may_append(acks: int, in_sync: int, min_insync: int) -> bool:
    """Whether the leader appends a producer's batch, with this many replicas in sync."""
    raise NotImplementedError("Task 11.3: only acks=all asks for others")


def verdict(acks: int, end: int, high_watermark: int, in_sync: int, min_insync: int) -> str:
    """What a producer hears whose batch is in the leader's log and ends before offset `end`:
    "acknowledge" it, "wait", or "too few": it is committed, and the ISR has shrunk meanwhile."""
    raise NotImplementedError("Task 11.3: is it committed, and are there enough replicas still?")


# --- end of task 11.3 ---
