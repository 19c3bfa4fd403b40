"""Lab 19: what does a reader of committed data see?"""

from collections.abc import Iterable

Batch = tuple[str, int, int, int]
"""Kind ("data", "transactional", "commit" or "abort"), producer id, first offset, last offset."""
Aborted = tuple[int, int, int]
"""Producer id, first offset of the transaction, offset of its abort marker."""


# --- task 19.1: how far may a reader read? ---
def last_stable_offset(log: Iterable[Batch], high_watermark: int) -> int:
    """The offset before which every transaction has ended."""
    raise NotImplementedError("Task 19.1: which transactions are open, and where did the first begin?")


# --- end of task 19.1 ---


# --- task 19.2: the index of aborted transactions ---
def aborted_transactions(log: Iterable[Batch]) -> list[Aborted]:
    """The aborted transactions of a log, in the order of their markers."""
    raise NotImplementedError("Task 19.2: remember where each transaction began; look at its marker")


def overlapping(aborted: Iterable[Aborted], fetch_offset: int, end_offset: int) -> list[Aborted]:
    """Those of the aborted transactions that overlap what a fetch returns: offsets from fetch_offset to
    end_offset, which itself is not among them."""
    raise NotImplementedError("Task 19.2: when do two ranges of offsets overlap?")


# --- end of task 19.2 ---


# --- task 19.3: the reader drops what was aborted ---
class CommittedReader:
    """What a read_committed consumer shows of one fetch."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        """`aborted` are the aborted transactions that overlap the fetch, in any order; the marker's
        offset is -1."""
        raise NotImplementedError("Task 19.3: which producers are aborting, and which will be?")

    def shows(self, batch: Batch) -> bool:
        """Whether the application gets the records of this batch. Asked once for each batch, in
        order."""
        raise NotImplementedError("Task 19.3: know which producers are aborting here, then decide")


# --- end of task 19.3 ---
