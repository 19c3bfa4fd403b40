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
    found = {event.number: "unknown" for event in history if isinstance(event, Sent)}
    for event in history:
        if isinstance(event, Acknowledged):
            found[event.number] = "acknowledged"
        elif isinstance(event, Failed):
            found[event.number] = "failed"
    return found


def position(history: Sequence[Event]) -> int:
    """The offset that the reader asks for next."""
    return max((event.offset + 1 for event in history if isinstance(event, Read)), default=0)


# --- end of task 10.1 ---


# --- task 10.2: lost writes ---
def lost(history: Sequence[Event]) -> list[int]:
    """The numbers of the records that were acknowledged and are certainly gone, in order."""
    reached = position(history)
    is_complete = any(reached >= event.offset for event in history if isinstance(event, End))
    read = {event.number for event in history if isinstance(event, Read)}
    acknowledged = [event for event in history if isinstance(event, Acknowledged) and event.number not in read]
    return sorted(event.number for event in acknowledged if is_complete or 0 <= event.offset < reached)


# --- end of task 10.2 ---


# --- task 10.3: records where they should not be ---
def repeated(history: Sequence[Event]) -> list[int]:
    """The numbers of the records that were read more than once, in order."""
    numbers = [event.number for event in history if isinstance(event, Read)]
    return sorted({number for number in numbers if numbers.count(number) > 1})


def moved(history: Sequence[Event]) -> list[int]:
    """The numbers of the records that were acknowledged at an offset where another record was read, in
    order."""
    there = {event.offset: event.number for event in history if isinstance(event, Read)}
    acknowledged = [event for event in history if isinstance(event, Acknowledged)]
    return sorted(event.number for event in acknowledged if there.get(event.offset, event.number) != event.number)


# --- end of task 10.3 ---


# --- task 10.4: a verdict ---
def verdict(history: Sequence[Event]) -> str:
    """The word: "broken" if a record is lost or moved, "unknown" if one may be lost, and "fine"
    otherwise."""
    if lost(history) or moved(history):
        return "broken"
    read = {event.number for event in history if isinstance(event, Read)}
    known = outcomes(history)
    return "unknown" if any(known[number] == "acknowledged" for number in known if number not in read) else "fine"


# --- end of task 10.4 ---
