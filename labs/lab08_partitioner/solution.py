"""Lab 08: which partition does a record go to?"""

from collections.abc import Sequence
from random import Random


# --- task 8.1: the hash of a key ---
def murmur2(data: bytes) -> int:
    """The hash of some bytes as a number from 0 to 2**32 - 1."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * m & mask
        value = (value * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if len(data) > whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * m & mask
    value = (value ^ value >> 13) * m & mask
    return value ^ value >> 15


# --- end of task 8.1 ---


# --- task 8.2: from the hash to the partition ---
def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key, from 0 to partitions - 1."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


# --- end of task 8.2 ---


# --- task 8.3: records without a key ---
class StickyPartitioner:
    """The partition that records without a key go to, for each topic."""

    def __init__(self, random: Random, batch_bytes: int) -> None:
        """`random` draws the next partition; about `batch_bytes` go to one before that."""
        self.random = random
        self.batch_bytes = batch_bytes
        self.current = {}

    def partition(self, topic: str, available: Sequence[int], size: int) -> int:
        """Where a record of `size` bytes goes; `available` are the partitions that have a leader."""
        partition, sent = self.current.get(topic, (None, self.batch_bytes))
        if sent >= self.batch_bytes:
            partition, sent = self.random.choice(available), 0
        self.current[topic] = (partition, sent + size)
        return partition


# --- end of task 8.3 ---
