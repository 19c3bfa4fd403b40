"""A partition's folder as notebook 02 looks into it: segments, index entries, batches, and what a lookup reads.

::

    ticks = Partition(cluster, "ticks")
    looks = write_ticks(ticks, 1_250_000)    a record each 10 ms, in batches of 1,000; looks at the folder meanwhile
    ticks.bases()                            the offsets that the segments are named after
    ticks.entries(base)                      the index of one segment, as (last offset of a batch, where it begins)
    log = ticks.log(base)                    one segment's file, which counts what is read from it
    log.header(position), log.batch(position, size)
    ticks.cost(offset, with_index=True)      calls, pages and bytes that a lookup reads from the log

A lookup reads headers until it has the batch, and then the batch. With the index it begins at the last entry at or
below the offset, without it at the beginning of the segment. Entries are not counted: a broker has them in memory.
"""

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer

from pykraft.client.administration.configs import ConfigResource, ConfigResourceType
from pykraft.client.consuming.offsets import OffsetAndTimestamp
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.producer import Producer as PlainProducer
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.viz import Figure, file_strips, hexdump
from pykraft.viz.logs.file_chart import Piece
from pykraft.viz.logs.lookup_chart import Batch, Segment, lookup_chart

if TYPE_CHECKING:
    from pathlib import Path

    from pykraft.cluster import Cluster

BEGIN = 1_357_000_000_000
"""Milliseconds since 1970: the first days of 2013."""
STEP_MS = 10
ENTRY = struct.Struct(">ii")
"""An index entry: offset, counted from the segment's base offset, and position."""
PAGE = 4096
_NODE = 1
_EVERY = 250_000
_KEY = {"plain": "full segment, by its base offset", "strong": "active segment"}


class Cost(NamedTuple):
    """What was read from a segment's log file."""

    calls: int
    pages: int
    bytes: int


class SegmentLog:
    """The .log file of one segment. It counts what is read from it."""

    def __init__(self, path: "Path") -> None:
        self._path = path
        self._calls = self._bytes = 0
        self._pages: set[int] = set()

    def header(self, position: int) -> RecordBatch:
        """The header of the batch that begins there, without its records."""
        return RecordBatch(memoryview(self._read(position, HEADER_BYTES)))

    def batch(self, position: int, size: int) -> RecordBatch:
        """The whole batch that begins there."""
        return RecordBatch(memoryview(bytearray(self._read(position, size))))

    @property
    def cost(self) -> Cost:
        """What was read so far."""
        return Cost(self._calls, len(self._pages), self._bytes)

    def _read(self, position: int, size: int) -> bytes:
        with open(self._path, "rb") as file:
            file.seek(position)
            data = file.read(size)
        self._calls += 1
        self._bytes += len(data)
        self._pages |= set(range(position // PAGE, (position + len(data) - 1) // PAGE + 1))
        return data


class Partition:
    """Partition 0 of a topic on node 1: what is in its folder."""

    def __init__(self, cluster: "Cluster", topic: str) -> None:
        self.cluster, self.topic = cluster, topic
        self.folder = cluster.partition_directory(_NODE, topic, 0)

    def file(self, base: int, ending: str) -> "Path":
        return self.folder / f"{base:020d}.{ending}"

    def sizes(self, ending: str = "log") -> dict[int, int]:
        """The files with this ending: the offset in the name -> bytes."""
        return {int(file.stem): file.stat().st_size for file in sorted(self.folder.glob(f"*.{ending}"))}

    def bases(self) -> list[int]:
        """The base offsets of the segments, in order."""
        return list(self.sizes())

    def look(self) -> list[Piece]:
        """The segments as they are now; the last one is active."""
        sizes = self.sizes()
        return [Piece(size, "strong" if base == max(sizes) else "plain", f"{base:,}") for base, size in sizes.items()]

    def entries(self, base: int) -> list[tuple[int, int]]:
        """The entries of a segment's index: the last offset of a batch, and where it begins."""
        data = self.file(base, "index").read_bytes()
        return [(base + offset, position) for offset, position in ENTRY.iter_unpack(data)]

    def indexes(self) -> dict[str, bytes]:
        """All index files, by offset and by time: what is in them."""
        return {file.name: file.read_bytes() for file in sorted(self.folder.glob("*index"))}

    def log(self, base: int) -> SegmentLog:
        return SegmentLog(self.file(base, "log"))

    def batches(self, base: int) -> Iterator[Batch]:
        """The batches of a segment, from header to header."""
        log, position, end = self.log(base), 0, self.sizes()[base]
        while position < end:
            header = log.header(position)
            yield Batch(header.base_offset, header.last_offset, position, header.size)
            position += header.size

    def cost(self, offset: int, *, with_index: bool) -> Cost:
        """What a lookup of the offset reads from the log."""
        base = max(base for base in self.bases() if base <= offset)
        below = [entry for entry in self.entries(base) if entry[0] <= offset]
        log, position = self.log(base), below[-1][1] if below and with_index else 0
        while (header := log.header(position)).last_offset < offset:
            position += header.size
        log.batch(position, header.size)
        return log.cost

    def most_calls(self, base: int) -> int:
        """The calls of the dearest lookup in a segment."""
        return max(self.cost(batch.base_offset, with_index=True).calls for batch in self.batches(base))

    def draw_index(self, base: int, count: int = 2, *, title: str) -> Figure:
        """The bytes of the first entries of an index."""
        data = self.file(base, "index").read_bytes()[: count * ENTRY.size]
        fields = []
        for at, (offset, position) in zip(range(0, len(data), ENTRY.size), ENTRY.iter_unpack(data), strict=True):
            fields.append(("last offset", at, at + 4, f"{offset:,} after {base:,}: {base + offset:,}", "offset"))
            fields.append(("where its batch begins", at + 4, at + 8, f"byte {position:,} of the log", "position"))
        return hexdump(data, fields, title=title)

    def draw_lookup(self, offset: int, *, title: str) -> Figure:
        """Where the offset is, in three steps."""
        base = max(base for base in self.bases() if base <= offset)
        segments = [Segment(base, size) for base, size in self.sizes().items()]
        return lookup_chart(segments, list(self.batches(base)), self.entries(base), offset, title=title)

    def lose_indexes(self, **settings: object) -> None:
        """Kill the node, delete all its indexes of this topic, and start it again, with other settings if there are
        any."""
        if settings:
            changes = {name.replace("_", "."): str(value) for name, value in settings.items()}
            with self.cluster.admin() as admin:
                admin.incremental_alter_configs({ConfigResource(ConfigResourceType.TOPIC, self.topic): changes})
        self.cluster.kill(_NODE)
        for file in self.folder.glob("*.index"):
            file.unlink()
        self.cluster.restart(_NODE)

    def first_at(self, moment_ms: int) -> OffsetAndTimestamp:
        """What a broker answers to a lookup by time."""
        place = TopicPartition(self.topic, 0)
        with Consumer(bootstrap_servers=self.cluster.bootstrap_servers) as consumer:
            found = consumer.offsets_for_times({place: moment_ms})[place]
        assert found is not None
        return found


def write_ticks(ticks: Partition, count: int, in_a_batch: int = 1_000) -> dict[str, list[Piece]]:
    """Write that many records, one for each 10 ms, whose values are their offsets; looks at the segments meanwhile."""
    batching = {"batch.num.messages": in_a_batch, "linger.ms": 10_000}  # however fast this machine is
    producer = Producer({"bootstrap.servers": ticks.cluster.bootstrap_servers, "log_level": 0, **batching})
    looks = {}
    for number in range(count):
        while True:
            try:
                producer.produce(ticks.topic, b"%d" % number, timestamp=BEGIN + STEP_MS * number, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        if (number + 1) % _EVERY == 0:
            producer.flush()
            looks[f"{number + 1:,} records"] = ticks.look()
    producer.flush()
    return looks


def write_clocks(clocks: Partition, ahead: int, count: int) -> None:
    """Write that many records, one for each 10 ms; the clock of number `ahead` is a day fast."""
    with PlainProducer(bootstrap_servers=clocks.cluster.bootstrap_servers) as producer:
        for number in range(count):
            moment = BEGIN + STEP_MS * number + (86_400_000 if number == ahead else 0)
            producer.send(clocks.topic, b"%d" % number, timestamp_ms=moment)


def draw_growth(looks: dict[str, list[Piece]], *, title: str, note: str = "") -> Figure:
    """The segments at each look."""
    ends = {name: f"{sum(piece.size for piece in look) / 1e6:.1f} MB" for name, look in looks.items()}
    return file_strips(looks, title=title, note=note, key=_KEY, ends=ends)
