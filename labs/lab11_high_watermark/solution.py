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
    if len(isr) < min_insync:
        return known
    return max(known, min(ends[broker] for broker in {*isr, *joining}))


# --- end of task 11.1 ---


# --- task 11.2: who leaves, and who comes back ---
def caught_up_at(known: int, fetch: Fetch, before: Fetch | None) -> int:
    """When the follower was last caught up, after `known`. `before` is its Fetch request before this
    one."""
    if fetch.offset >= fetch.leader_end:
        return max(known, fetch.at_ms)
    if before is not None and fetch.offset >= before.leader_end:
        return max(known, before.at_ms)
    return known


def lagging(
    isr: Collection[int], ends: Mapping[int, int], caught_up: Mapping[int, int], leader: int, now: int, max_lag_ms: int
) -> set[int]:
    """The brokers that must leave the ISR. `caught_up` says of each follower when it was last caught
    up."""
    return {
        broker for broker in set(isr) - {leader} if ends[broker] < ends[leader] and now - caught_up[broker] > max_lag_ms
    }


def may_return(end: int, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower whose log ends here may come back into the ISR. The leader's epoch began at
    `epoch_start`."""
    return end >= max(high_watermark, epoch_start)


# --- end of task 11.2 ---


# --- task 11.3: what the producer hears ---
def may_append(acks: int, in_sync: int, min_insync: int) -> bool:
    """Whether the leader appends a producer's batch, with this many replicas in sync."""
    return acks != -1 or in_sync >= min_insync


def verdict(acks: int, end: int, high_watermark: int, in_sync: int, min_insync: int) -> str:
    """What a producer hears whose batch is in the leader's log and ends before offset `end`:
    "acknowledge" it, "wait", or "too few": it is committed, and the ISR has shrunk meanwhile."""
    if acks != -1:
        return "acknowledge"
    if high_watermark < end:
        return "wait"
    return "acknowledge" if in_sync >= min_insync else "too few"


# --- end of task 11.3 ---
