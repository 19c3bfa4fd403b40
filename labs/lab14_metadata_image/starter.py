"""Lab 14: what do the records of the metadata log say together?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

NO_CHANGE = -2
"""In the field `leader` of a PartitionChange: the leader stays."""


class Record(NamedTuple):
    """A record of the metadata log: its kind, and its fields by their names."""

    kind: str
    fields: dict[str, Any]


class Snapshot(NamedTuple):
    """A snapshot file: the state of all records before offset `end`, as records. A crash may have left
    half of it."""

    end: int
    is_complete: bool
    records: Sequence[Record]


def new_image() -> dict[str, dict]:
    """An image without anything in it."""
    return {"levels": {}, "brokers": {}, "topics": {}, "partitions": {}, "configs": {}}


# --- task 14.1: one record ---
def replay(image: dict[str, dict], record: Record) -> None:
    """Change the image as the record says."""
    raise NotImplementedError("Task 14.1: look at the record's kind, and change its row")


# --- end of task 14.1 ---


# --- task 14.2: what counts in a log ---
def replay_log(image: dict[str, dict], log: Iterable[tuple[int, Record]], high_watermark: int) -> None:
    """Replay what counts in the log, which are offsets with their records. ValueError if a transaction
    begins while one is open, or ends while none is."""
    raise NotImplementedError("Task 14.2: which records count, and which of them have to wait?")


# --- end of task 14.2 ---


# --- task 14.3: a snapshot ---
def snapshot_of(image: Mapping[str, Mapping]) -> list[Record]:
    """The records that make this image from nothing, one for each row. They share no list or dictionary
    with it."""
    raise NotImplementedError("Task 14.3: a record for each row, in an order that can be replayed")


# --- end of task 14.3 ---


# --- task 14.4: a start ---
def start(
    snapshots: Iterable[Snapshot],
    log: Sequence[tuple[int, Record]],
    high_watermark: int,
) -> dict[str, dict]:
    """The image of a node that starts with these files. ValueError if they do not reach each other."""
    raise NotImplementedError("Task 14.4: which snapshot, and which part of the log?")


# --- end of task 14.4 ---
