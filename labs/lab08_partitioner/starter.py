"""Lab 08: which partition does a record go to?"""

from collections.abc import Sequence
from random import Random


# --- task 8.1: the hash of a key ---
def murmur2(data: bytes) -> int:
    """The hash of some bytes as a number from 0 to 2**32 - 1."""
    raise NotImplementedError("Task 8.1: mix in every four bytes, then the rest, then finish")


# --- end of task 8.1 ---


# --- task 8.2: from the hash to the partition ---
def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key, from 0 to partitions - 1."""
    raise NotImplementedError("Task 8.2: drop the sign bit of the hash, then take the remainder")


# --- end of task 8.2 ---


# --- task 8.3: records without a key ---
class StickyPartitioner:
    """The partition that records without a key go to, for each topic."""

    def __init__(self, random: Random, batch_bytes: int) -> None:
        """`random` draws the next partition; about `batch_bytes` go to one before that."""
        raise NotImplementedError("Task 8.3: remember what you need from one record to the next")

    def partition(self, topic: str, available: Sequence[int], size: int) -> int:
        """Where a record of `size` bytes goes; `available` are the partitions that have a leader."""
        raise NotImplementedError("Task 8.3: stay with a partition until a batch is full, then draw")


# --- end of task 8.3 ---
