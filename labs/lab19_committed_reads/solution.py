"""Lab 19: what does a reader of committed data see?"""

from collections.abc import Iterable

Batch = tuple[str, int, int, int]
"""Kind ("data", "transactional", "commit" or "abort"), producer id, first offset, last offset."""
Aborted = tuple[int, int, int]
"""Producer id, first offset of the transaction, offset of its abort marker."""


# --- task 19.1: how far may a reader read? ---
def last_stable_offset(log: Iterable[Batch], high_watermark: int) -> int:
    """The offset before which every transaction has ended."""
    open_since = {}
    for kind, producer_id, first, last in log:
        if last >= high_watermark:
            break
        if kind == "transactional":
            open_since.setdefault(producer_id, first)
        elif kind != "data":
            open_since.pop(producer_id, None)
    return min(open_since.values(), default=high_watermark)


# --- end of task 19.1 ---


# --- task 19.2: the index of aborted transactions ---
def aborted_transactions(log: Iterable[Batch]) -> list[Aborted]:
    """The aborted transactions of a log, in the order of their markers."""
    open_since, aborted = {}, []
    for kind, producer_id, first, _ in log:
        if kind == "transactional":
            open_since.setdefault(producer_id, first)
        elif kind != "data":
            begun = open_since.pop(producer_id, None)
            if kind == "abort" and begun is not None:
                aborted.append((producer_id, begun, first))
    return aborted


def overlapping(aborted: Iterable[Aborted], fetch_offset: int, end_offset: int) -> list[Aborted]:
    """Those of the aborted transactions that overlap what a fetch returns: offsets from fetch_offset to
    end_offset, which itself is not among them."""
    return [each for each in aborted if each[2] >= fetch_offset and each[1] < end_offset]


# --- end of task 19.2 ---


# --- task 19.3: the reader drops what was aborted ---
class CommittedReader:
    """What a read_committed consumer shows of one fetch."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        """`aborted` are the aborted transactions that overlap the fetch, in any order; the marker's
        offset is -1."""
        self.waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
        self.aborting = set()

    def shows(self, batch: Batch) -> bool:
        """Whether the application gets the records of this batch. Asked once for each batch, in
        order."""
        kind, producer_id, _, last = batch
        while self.waiting and self.waiting[-1][1] <= last:
            self.aborting.add(self.waiting.pop()[0])
        if kind == "abort":
            self.aborting.discard(producer_id)
        return kind == "data" or (kind == "transactional" and producer_id not in self.aborting)


# --- end of task 19.3 ---
