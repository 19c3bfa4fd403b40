"""Lab 18: which batches of a producer may a leader append?"""

from collections.abc import Iterable

LARGEST_SEQUENCE = 2**31 - 1
REMEMBERED = 5


# --- task 18.1: what comes next ---
def next_sequence(sequence: int) -> int:
    """The sequence number that follows this one."""
    raise NotImplementedError("Task 18.1: one more, until the numbers end")


def last_sequence(first: int, records: int) -> int:
    """The sequence number of the last record of a batch that begins with `first`."""
    raise NotImplementedError("Task 18.1: count from the first record, and mind where the numbers end")


# --- end of task 18.1 ---


# --- task 18.2: append, acknowledge, or refuse ---
class SequenceWindow:
    """What a leader remembers of one producer id in one partition."""

    def __init__(self) -> None:
        """Nothing is known of the producer yet."""
        raise NotImplementedError("Task 18.2: what must it remember? The epoch, and some batches")

    def check(self, epoch: int, first: int, records: int) -> int | str:
        """What to do with a batch of so many records: "append" it, "refuse" it because it is out of
        order, "fence" the producer, or the base offset of the batch that it repeats."""
        raise NotImplementedError("Task 18.2: first the epoch, then a repetition, then the order")

    def append(self, epoch: int, first: int, records: int, base_offset: int) -> None:
        """The batch is in the log, at this offset."""
        raise NotImplementedError("Task 18.2: remember the batch, and forget what is too old")


# --- end of task 18.2 ---


# --- task 18.3: after a restart ---
def windows_of(log: Iterable[tuple[int, int, int, int, int]]) -> dict[int, SequenceWindow]:
    """The windows of all producers of a log, by producer id. A batch of the log is (producer id, epoch,
    first sequence, records, base offset); the producer id of a batch without one is -1."""
    raise NotImplementedError("Task 18.3: read from the beginning, and append each batch to its window")


# --- end of task 18.3 ---
