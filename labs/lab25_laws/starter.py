"""Lab 25: laws of a replicated log."""

from collections.abc import Sequence
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
    raise NotImplementedError("Task 25.1: leader, ISR, log ends")


# --- end of task 25.1 ---


# --- task 25.2: logs that match ---
def log_matching(state: State) -> str:
    """What breaks the law in words, or "": where two logs have the same epoch at an offset, they are
    equal up to it."""
    raise NotImplementedError("Task 25.2: the last offset with the same epoch")


# --- end of task 25.2 ---


# --- task 25.3: what is committed stays ---
def committed_stays(before: State, after: State) -> str:
    """What breaks the law in words, or "": a leader of `after` has what a leader of `before` had
    committed."""
    raise NotImplementedError("Task 25.3: up to the old leader's high watermark")


# --- end of task 25.3 ---


# --- task 25.4: a judge ---
def judge(history: Sequence[State]) -> int | None:
    """The index of the first state that breaks a law; None if all are kept."""
    raise NotImplementedError("Task 25.4: the first state that breaks a law")


# --- end of task 25.4 ---
