"""Lab 24: which offsets does the next batch of a stream read?"""

from typing import NamedTuple

Partition = tuple[str, int]
"""A topic and the number of a partition."""
Offsets = dict[Partition, int]


class Position(NamedTuple):
    """Up to where a query has read. Spark keeps it in the checkpoint."""

    topic_ids: dict[str, str]
    offsets: Offsets


class Look(NamedTuple):
    """What the brokers said at one moment: the topics, and where each log begins and ends."""

    topic_ids: dict[str, str]
    firsts: Offsets
    ends: Offsets


class DataLossError(Exception):
    """Records were lost before the query has read them."""


# --- task 24.1: a limit, shared fairly ---
def limited(limit: int | None, begins: Offsets, ends: Offsets) -> Offsets:
    """Ends that leave about `limit` records in all, for partitions that could be read from `begins` to
    `ends`."""
    raise NotImplementedError("Task 24.1: how many records has a partition, and what is its share?")


# --- end of task 24.1 ---


# --- task 24.2: where a batch begins, and what was lost ---
def begins(start: Position, look: Look) -> Offsets:
    """Where the next batch begins in each partition that there is now."""
    raise NotImplementedError("Task 24.2: which partitions were read before, and are they the same?")


def losses(start: Position, look: Look) -> dict[Partition, str]:
    """The partitions of which records were lost, and why: "gone", "recreated", "truncated" or
    "deleted"."""
    raise NotImplementedError("Task 24.2: compare what the query has read with what there is now")


# --- end of task 24.2 ---


# --- task 24.3: one batch after the other ---
class StreamPlanner:
    """Plans the batches of one query. What must survive a crash is in the positions that it returns."""

    def __init__(self, limit: int | None = None, fail_on_data_loss: bool = True) -> None:
        """`limit` is about how many records a batch may have."""
        raise NotImplementedError("Task 24.3: keep the limit and the setting; no target is fixed yet")

    def fix_target(self, look: Look) -> None:
        """The query ends where the topics end in this look."""
        raise NotImplementedError("Task 24.3: keep the ends of this look")

    def latest(self, start: Position, look: Look) -> Position:
        """Where the batch that begins at `start` ends; DataLossError if records were lost, and that is
        an error."""
        raise NotImplementedError("Task 24.3: look for losses, find begins and ends, share the limit")

    def ranges(self, start: Position, end: Position, look: Look) -> dict[Partition, tuple[int, int]]:
        """What the batch between two positions reads: the first offset and the end of each partition
        that has any."""
        raise NotImplementedError("Task 24.3: begin where the query was, end where the batch shall end")


# --- end of task 24.3 ---
