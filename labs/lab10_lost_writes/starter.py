"""Lab 10: what a history says about a cluster."""

from collections.abc import Sequence
from typing import NamedTuple


class Sent(NamedTuple):
    """The program has handed a record to its producer."""

    number: int


class Acknowledged(NamedTuple):
    """The producer has said that the record is written: at which offset, or -1 if it does not know."""

    number: int
    offset: int


class Failed(NamedTuple):
    """The producer has given the record up."""

    number: int


class Read(NamedTuple):
    """A reader that began at the beginning has got this record."""

    offset: int
    number: int


class End(NamedTuple):
    """The log ends at this offset, and nothing is written any more. A history may end without it."""

    offset: int


Event = Sent | Acknowledged | Failed | Read | End


# --- task 10.1: what the program knows ---
def outcomes(history: Sequence[Event]) -> dict[int, str]:
    """For each record that was sent: "acknowledged", "failed", or "unknown" if the producer has said
    nothing."""
    raise NotImplementedError("Task 10.1: what has the producer said of each")


def position(history: Sequence[Event]) -> int:
    """The offset that the reader asks for next."""
    raise NotImplementedError("Task 10.1: one after the last that was read")


# --- end of task 10.1 ---


# --- task 10.2: lost writes ---
def lost(history: Sequence[Event]) -> list[int]:
    """The numbers of the records that were acknowledged and are certainly gone, in order."""
    raise NotImplementedError("Task 10.2: acknowledged, not read, and nothing is left to read")


# --- end of task 10.2 ---


# --- task 10.3: records where they should not be ---
def repeated(history: Sequence[Event]) -> list[int]:
    """The numbers of the records that were read more than once, in order."""
    raise NotImplementedError("Task 10.3: more than once")


def moved(history: Sequence[Event]) -> list[int]:
    """The numbers of the records that were acknowledged at an offset where another record was read, in
    order."""
    raise NotImplementedError("Task 10.3: what is at the offset that was named")


# --- end of task 10.3 ---


# --- task 10.4: a verdict ---
def verdict(history: Sequence[Event]) -> str:
    """The word: "broken" if a record is lost or moved, "unknown" if one may be lost, and "fine"
    otherwise."""
    raise NotImplementedError("Task 10.4: broken, fine, or unknown")


# --- end of task 10.4 ---
