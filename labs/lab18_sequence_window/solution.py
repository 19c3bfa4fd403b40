"""Lab 18: which batches of a producer may a leader append?"""

from collections.abc import Iterable

LARGEST_SEQUENCE = 2**31 - 1
REMEMBERED = 5


# --- task 18.1: what comes next ---
def next_sequence(sequence: int) -> int:
    """The sequence number that follows this one."""
    return 0 if sequence == LARGEST_SEQUENCE else sequence + 1


def last_sequence(first: int, records: int) -> int:
    """The sequence number of the last record of a batch that begins with `first`."""
    return (first + records - 1) % (LARGEST_SEQUENCE + 1)


# --- end of task 18.1 ---


# --- task 18.2: append, acknowledge, or refuse ---
class SequenceWindow:
    """What a leader remembers of one producer id in one partition."""

    def __init__(self) -> None:
        """Nothing is known of the producer yet."""
        self.epoch = None
        self.batches = []  # (first sequence, records, base offset), oldest first

    def check(self, epoch: int, first: int, records: int) -> int | str:
        """What to do with a batch of so many records: "append" it, "refuse" it because it is out of
        order, "fence" the producer, or the base offset of the batch that it repeats."""
        if self.epoch is None:
            return "append"
        if epoch < self.epoch:
            return "fence"
        if epoch > self.epoch:
            return "append" if first == 0 else "refuse"
        for known, count, offset in self.batches:
            if (known, count) == (first, records):
                return offset
        known, count, _ = self.batches[-1]
        return "append" if first == next_sequence(last_sequence(known, count)) else "refuse"

    def append(self, epoch: int, first: int, records: int, base_offset: int) -> None:
        """The batch is in the log, at this offset."""
        kept = self.batches if epoch == self.epoch else []
        self.epoch = epoch
        self.batches = [*kept, (first, records, base_offset)][-REMEMBERED:]


# --- end of task 18.2 ---


# --- task 18.3: after a restart ---
def windows_of(log: Iterable[tuple[int, int, int, int, int]]) -> dict[int, SequenceWindow]:
    """The windows of all producers of a log, by producer id. A batch of the log is (producer id, epoch,
    first sequence, records, base offset); the producer id of a batch without one is -1."""
    windows = {}
    for producer_id, epoch, first, records, base_offset in log:
        if producer_id != -1:
            windows.setdefault(producer_id, SequenceWindow()).append(epoch, first, records, base_offset)
    return windows


# --- end of task 18.3 ---
