"""Arrow rows to record batches, without a step of Python for each record.

It is `decode` backwards. A record is a few small numbers (lengths, deltas) around bytes that Arrow has already. So the
numbers of all records are made at once with numpy, and Arrow joins the pieces of each record; the joined records follow
each other, as in a record batch:

    length, attributes, deltas, length of the key | key | length of the value | value | headers

1. Each row gets its partition: its own, or the one that murmur2 of its key says, or for a row without a key the one
   that is being filled. The hash goes over all keys in step, four bytes at a time.
2. Rows are sorted by partition, and keep their order within each. Each partition's rows are cut where ``batch.size`` is
   full, by Kafka's estimate of their size.
3. Numbers are made, pieces joined, and each batch is compressed and gets its header.

All records of one call have one timestamp, so their deltas are 0. Rows wait until there are 4 MiB of them, because a
call costs about a millisecond, and because the rows of many partitions make small batches. So there may be smaller
batches than a producer's own, with the same records.

Follows org.apache.kafka.common.record.{DefaultRecord,MemoryRecordsBuilder} and
org.apache.kafka.common.utils.Utils.murmur2.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pykraft.client import config as keys
from pykraft.client.arguments import topic_name
from pykraft.client.producing.partitioner import StickyPartitioner, murmur2
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.records.batch import (
    HEADER_BYTES,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    packed_batch,
)
from pykraft.records.compression import Compression, compress
from pykraft.spark.writing.sink_rows import Columns, RowReader

Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]

WAITING_BYTES = 4 << 20
_RECORD_OVERHEAD = 21
"""As in `records.builder`."""
_SEED, _M = 0x9747B28C, np.uint32(0x5BD1E995)
_LONG_KEY = 256
"""Keys from here on are hashed one by one: there are few of them, and each would make the others wait."""
_VARINT = 5


class RowEncoder:
    """Makes record batches of the rows of one task."""

    def __init__(
        self, config: Config, rows: RowReader, partitions_of: Callable[[str], Sequence[int]], random: Random
    ) -> None:
        """`partitions_of` says a topic's partitions, or raises a KafkaError."""
        self._rows = rows
        self._partitions_of = partitions_of
        self._compression = Compression.named(config[keys.COMPRESSION_TYPE])
        self._batch_bytes: int = config[keys.BATCH_SIZE]
        self._largest_record: int = config[keys.MAX_REQUEST_SIZE]
        self._partitioner = StickyPartitioner(random, self._batch_bytes)
        self._partitions: dict[str, Sequence[int]] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def encode(self, rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, bytes]]:
        """Take these rows; the record batches that are finished. KafkaError if a row can be no record."""
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= WAITING_BYTES:
            yield from self.finish()

    def finish(self) -> Iterator[tuple[TopicPartition, bytes]]:
        """The record batches of all rows that wait."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if waiting:
            for rows in pa.Table.from_batches(waiting).combine_chunks().to_batches():
                yield from self._encode(self._rows.columns(rows))

    def _encode(self, columns: Columns) -> Iterator[tuple[TopicPartition, bytes]]:
        sizes = np.full(len(columns.values), _RECORD_OVERHEAD, np.int64)
        for column in (columns.keys, columns.values, columns.headers):
            sizes += np.maximum(lengths_of(column), 0)
        largest = int(sizes.max(initial=0))
        if largest > self._largest_record:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the record has {largest} bytes, max.request.size allows {self._largest_record}",
            )
        places, place_of = self._places(columns, sizes)
        order = np.argsort(place_of, kind="stable")
        starts = self._cut(place_of[order], sizes[order])
        data, begins = joined(columns, order, starts)
        for first, end in zip(starts, [*starts[1:], len(order)], strict=True):
            batch = packed_batch(
                compress(self._compression, bytes(data[begins[first] : begins[end]])),
                base_offset=0,
                leader_epoch=NO_LEADER_EPOCH,
                attributes=int(self._compression),
                last_offset_delta=end - first - 1,
                base_timestamp=columns.timestamp,
                max_timestamp=columns.timestamp,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=NO_PRODUCER_EPOCH,
                base_sequence=NO_SEQUENCE,
                count=end - first,
            )
            yield places[place_of[order[first]]], bytes(batch)

    def _cut(self, place_of: Numbers, sizes: Numbers) -> list[int]:
        """Where a record batch begins, in rows that are sorted by their place."""
        ends = np.cumsum(sizes)
        room = self._batch_bytes - HEADER_BYTES
        starts: list[int] = []
        changes = np.flatnonzero(np.diff(place_of)) + 1
        runs = [0, *changes.tolist(), len(place_of)] if len(place_of) else []
        for first, end in pairwise(runs):
            while first < end:
                starts.append(first)
                before = ends[first] - sizes[first]
                fits = int(np.searchsorted(ends, before + room, side="right"))
                first = min(end, max(fits, first + 1))
        return starts

    # --- partitions ---------------------------------------------------------------------------------------------------

    def _places(self, columns: Columns, sizes: Numbers) -> tuple[list[TopicPartition], Numbers]:
        """The partitions that rows go to, and for each row which of them."""
        places: list[TopicPartition] = []
        place_of = np.zeros(len(sizes), np.int64)
        for topic, chosen in columns.topics():
            partitions = self._partitions.get(topic)
            if partitions is None:
                partitions = self._partitions[topic] = self._partitions_of(topic_name(topic))
            numbers = self._numbers(topic, partitions, columns, sizes, chosen)
            used, which = np.unique(numbers, return_inverse=True)
            place_of[chosen] = which + len(places)
            places += [TopicPartition(topic, int(number)) for number in used]
        return places, place_of

    def _numbers(
        self, topic: str, partitions: Sequence[int], columns: Columns, sizes: Numbers, chosen: Numbers
    ) -> Numbers:
        """The partitions of the chosen rows, all of one topic."""
        numbers = columns.partitions[chosen]
        is_given = columns.has_partition[chosen]
        wrong = numbers[is_given & ~np.isin(numbers, partitions)]
        if len(wrong):
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"a row cannot be written: {topic} has partitions 0 to {partitions[-1]}, not {wrong[0]}",
            )
        has_key = lengths_of(columns.keys)[chosen] >= 0
        hashed = np.flatnonzero(~is_given & has_key)
        if len(hashed):
            hashes = murmur2_of(columns.keys.take(pa.array(chosen[hashed])))
            numbers[hashed] = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % len(partitions)
        free = np.flatnonzero(~is_given & ~has_key)
        ends = np.cumsum(sizes[chosen[free]])
        first = 0
        while first < len(free):  # as many rows as fill a batch go to one partition
            before = int(ends[first - 1]) if first else 0
            end = min(len(free), int(np.searchsorted(ends, before + self._batch_bytes)) + 1)
            size = int(ends[end - 1]) - before
            numbers[free[first:end]] = self._partitioner.partition(topic, partitions, size)
            first = end
        return numbers


# --- records ----------------------------------------------------------------------------------------------------------


def joined(columns: Columns, order: Numbers, starts: Sequence[int]) -> tuple[memoryview, Numbers]:
    """The records of these rows end to end, in this order, and where each begins (and the last one ends). Offset deltas
    count from the row at which its record batch starts."""
    count = len(order)
    indices = pa.array(order)
    key, value, headers = (column.take(indices) for column in (columns.keys, columns.values, columns.headers))
    key_length, value_length = lengths_of(key), lengths_of(value)
    delta = np.arange(count) - np.repeat(starts, np.diff([*starts, count]))
    in_front = Pieces(count, 3 * _VARINT + 2)
    between = Pieces(count, _VARINT)
    between.put(value_length)
    length = 2 + varint_sizes(delta) + varint_sizes(key_length) + np.maximum(key_length, 0)
    length += between.sizes + np.maximum(value_length, 0) + lengths_of(headers)
    in_front.put(length)
    in_front.sizes += 2  # attributes and timestamp delta, both 0
    in_front.put(delta)
    in_front.put(key_length)
    options = pc.JoinOptions(null_handling="replace", null_replacement="")
    separator = pa.scalar(b"", pa.large_binary())
    records = pc.binary_join_element_wise(
        in_front.as_array(), key, between.as_array(), value, headers, separator, options=options
    )
    begins = offsets_of(records)
    return memoryview(records.buffers()[2] or b""), begins


class Pieces:
    """A few bytes for each of many records, written number by number."""

    def __init__(self, count: int, most: int) -> None:
        self._octets: Octets = np.zeros((count, most), np.uint8)
        self._rows = np.arange(count)
        self.sizes: Numbers = np.zeros(count, np.int64)

    def put(self, numbers: Numbers) -> None:
        """Write a varint for each record."""
        zigzag = ((numbers << 1) ^ (numbers >> 63)).astype(np.int64)
        sizes = varint_sizes(numbers)
        for place in range(int(sizes.max(initial=0))):
            some = np.flatnonzero(sizes > place) if place else self._rows
            octets = (zigzag[some] >> (7 * place)) & 127
            octets |= np.where(sizes[some] > place + 1, 128, 0)
            self._octets[some, self.sizes[some] + place] = octets
        self.sizes += sizes

    def as_array(self) -> pa.Array:
        """The bytes of each record, as a column."""
        data = self._octets[np.arange(self._octets.shape[1]) < self.sizes[:, None]]
        offsets = np.concatenate(([0], np.cumsum(self.sizes)))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self.sizes), buffers)


def varint_sizes(numbers: Numbers) -> Numbers:
    """How many bytes each number takes."""
    zigzag = (numbers << 1) ^ (numbers >> 63)
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, 35, 7):
        sizes += zigzag >= 1 << bits
    return sizes


def offsets_of(column: pa.Array) -> Numbers:
    """Where the bytes of each row begin in the column's data, and those of the last one end."""
    found = np.frombuffer(column.buffers()[1], np.int64)
    return found[column.offset : column.offset + len(column) + 1]


def lengths_of(column: pa.Array) -> Numbers:
    """The length of each row's bytes; -1 for null."""
    lengths = np.diff(offsets_of(column))
    if column.null_count:
        lengths = np.where(column.is_null().to_numpy(zero_copy_only=False), -1, lengths)
    return lengths


def murmur2_of(column: pa.Array) -> Hashes:
    """murmur2 of each row's bytes; there are no nulls."""
    offsets = offsets_of(column)
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    begins, lengths = offsets[:-1], np.diff(offsets)
    hashes = (np.uint32(_SEED) ^ lengths.astype(np.uint32)).astype(np.uint32)
    words = np.where(lengths < _LONG_KEY, lengths // 4, 0)
    for step in range(int(words.max(initial=0))):
        some = np.flatnonzero(words > step)
        word = _word(data, begins[some] + 4 * step, 4) * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        hashes[some] = (hashes[some] * _M) ^ word
    for left in (1, 2, 3):
        some = np.flatnonzero(lengths % 4 == left)
        hashes[some] = (hashes[some] ^ _word(data, begins[some] + 4 * words[some], left)) * _M
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    hashes ^= hashes >> np.uint32(15)
    for row in np.flatnonzero(lengths >= _LONG_KEY):
        hashes[row] = murmur2(data[begins[row] : offsets[row + 1]].tobytes())
    return hashes


def _word(data: Octets, places: Numbers, count: int) -> Hashes:
    """`count` bytes from each place on, the first one lowest."""
    word = np.zeros(len(places), np.uint32)
    for number in range(count):
        word |= data[places + number].astype(np.uint32) << np.uint32(8 * number)
    return word
