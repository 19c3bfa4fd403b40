"""Lab 25: laws of a replicated log."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple


class Record(NamedTuple):
    """One record of a log."""

    epoch: int
    """The leader epoch in which it was written."""
    value: str


class Replica(NamedTuple):
    """What one node knows of a partition at one moment. Two nodes may both believe that they lead."""

    node: int
    leads: bool
    epoch: int
    """The leader epoch that the node knows."""
    isr: frozenset[int]
    """The replicas in sync, as the leader knows them; empty at a follower."""
    log: tuple[Record, ...]
    """Its records by offset, from 0 on."""
    high_watermark: int


State = tuple[Replica, ...]
"""The replicas whose nodes are alive, at one moment."""


# --- task 25.1: committed too early ---
def high_watermark(state: State) -> str:
    """What breaks the law in words, or "" where it is kept: no leader's high watermark is above an
    in-sync log."""
    for leader in state:
        for other in state:
            if leader.leads and other.node in leader.isr and len(other.log) < leader.high_watermark:
                return (
                    f"node {leader.node} commits up to {leader.high_watermark}, node {other.node} has {len(other.log)}"
                )
    return ""


# --- end of task 25.1 ---


# --- task 25.2: logs that match ---
def log_matching(state: State) -> str:
    """What breaks the law in words, or "": where two logs have the same epoch at an offset, they are
    equal up to it."""
    for one, other in combinations(state, 2):
        pairs = list(zip(one.log, other.log, strict=False))
        same = [offset for offset, (mine, yours) in enumerate(pairs) if mine.epoch == yours.epoch]
        if any(mine != yours for mine, yours in pairs[: max(same, default=-1) + 1]):
            return f"the logs of node {one.node} and node {other.node} differ before offset {max(same) + 1}"
    return ""


# --- end of task 25.2 ---


# --- task 25.3: what is committed stays ---
def committed_stays(before: State, after: State) -> str:
    """What breaks the law in words, or "": a leader of `after` has what a leader of `before` had
    committed."""
    for old in before:
        for new in after:
            if old.leads and new.leads and new.epoch >= old.epoch:
                committed = old.log[: old.high_watermark]
                if new.log[: old.high_watermark] != committed:
                    return f"node {new.node} leads epoch {new.epoch} without what was committed up to {len(committed)}"
    return ""


# --- end of task 25.3 ---


# --- task 25.4: a judge ---
def judge(history: Sequence[State]) -> int | None:
    """The index of the first state that breaks a law; None if all are kept."""
    for index, state in enumerate(history):
        if high_watermark(state) or log_matching(state):
            return index
        if any(committed_stays(before, state) for before in history[:index]):
            return index
    return None


# --- end of task 25.4 ---
