"""Which partition a record goes to.

A record with a key goes where the hash of its key says, so that all records of a key are in one partition, in order.
The hash is murmur2, with the seed and the sign treatment of the Java client: clients in every language must come to the
same number, or the records of one key would be spread over two partitions by two producers.

A record without a key goes to the partition that is being filled at the moment (KIP-480, KIP-794): when about
``batch.size`` bytes went there, another one is chosen. That makes larger batches than going round record by record.

Follows org.apache.kafka.clients.producer.internals.BuiltInPartitioner and org.apache.kafka.common.utils.Utils.murmur2.
"""

from collections.abc import Sequence
from random import Random

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as an unsigned number of 32 bits."""
    length = len(data)
    value = _SEED ^ length
    whole = length - length % 4
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        value = (value * _M & _MASK) ^ k
    if length > whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ (value >> 13)) * _M & _MASK
    return value ^ (value >> 15)


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key. The sign bit is masked off, not the absolute value taken: that differs for negative
    numbers, and this is what the Java client does."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """The partition that records without a key go to, for each topic."""

    def __init__(self, random: Random, batch_bytes: int) -> None:
        self._random = random
        self._batch_bytes = max(1, batch_bytes)
        self._current: dict[str, tuple[int, int]] = {}

    def partition(self, topic: str, available: Sequence[int], size: int) -> int:
        """Where a record of `size` bytes goes; `available` are the partitions that have a leader."""
        partition, sent = self._current.get(topic, (-1, self._batch_bytes))
        if sent >= self._batch_bytes or partition not in available:
            others = [other for other in available if other != partition] or list(available)
            partition, sent = self._random.choice(others), 0
        self._current[topic] = (partition, sent + size)
        return partition
