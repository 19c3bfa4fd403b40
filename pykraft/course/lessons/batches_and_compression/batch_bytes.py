"""Batches as notebook 03 looks at them: the fields of their bytes, what a leader changes, what a checksum notices, and
how small codecs make them.

::

    data = segment_of(cluster, "flights").read_bytes()
    draw_batch(data, title="...")                     the header and the first record, field by field

    sent = made(three)                                the batch as a producer makes it
    stored = appended(cluster, "flights", sent)       the same batch as the leader has it in its file
    changed_bytes(sent, stored)                       the places of the bytes that differ

    write(cluster, "t", some, 500, "lz4")             librdkafka sends (key, value, timestamp), 500 in a batch
    unnoticed(data)                                   the bits whose flip leaves the checksum right
    shrunk(some, (1, 10, 100))                        by codec: how much of the batches' bytes it saves
    codec_costs(some)                                 by codec: processor time and what it saves, in batches of 300
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer

from pykraft.course.rigs.deliveries import HandProducer
from pykraft.records.batch import ATTRIBUTES_OFFSET, HEADER, HEADER_BYTES, RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression, compress, decompress
from pykraft.records.varint import decode_varint
from pykraft.viz import Figure, hexdump, lines, points
from pykraft.viz.wire.hex_dump import Bracket, Field

if TYPE_CHECKING:
    from pathlib import Path

    from pykraft.cluster import Cluster

Events = Sequence[tuple[bytes, bytes, int]]
"""Key, value and timestamp."""
_NODE = 1
_SIZES = {"q": 8, "i": 4, "I": 4, "h": 2, "b": 1}
"""Bytes of a number, by its letter in `struct`."""
_HEADER_FIELDS = (
    ("base offset", "offset"),
    ("batch length", "length"),
    ("leader epoch", "id"),
    ("magic", "flags"),
    ("checksum", "checksum"),
    ("attributes", "flags"),
    ("last offset delta", "offset"),
    ("base timestamp", "time"),
    ("largest timestamp", "time"),
    ("producer id", "id"),
    ("producer epoch", "id"),
    ("base sequence", "id"),
    ("count of records", "length"),
)
"""Name and kind of each."""
_CODECS = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
_IN_A_BATCH, _TIMES = 300, 3
_NO_LARGER = 1.1
"""A tenth more is the same size."""


# --- the bytes of a batch ---------------------------------------------------------------------------------------------


def write(cluster: "Cluster", topic: str, events: Events, in_a_batch: int, codec: str = "none") -> None:
    """Send the events with librdkafka, this many in a batch, and wait until all are acknowledged."""
    batching = {"batch.num.messages": in_a_batch, "linger.ms": 10_000, "compression.type": codec}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **batching})
    for key, value, timestamp in events:
        producer.produce(topic, value, key, partition=0, timestamp=timestamp)
    while len(producer):
        producer.poll(0.01)


def segment_of(cluster: "Cluster", topic: str) -> "Path":
    """The file of the first segment of partition 0."""
    return cluster.partition_directory(_NODE, topic, 0) / f"{0:020d}.log"


def header_fields(batch: bytes) -> list[Field]:
    """The header's fields, with their values."""
    sizes = [_SIZES[letter] for letter in HEADER.format[1:]]
    ends, values = list(accumulate(sizes)), HEADER.unpack_from(batch)
    return [
        Field(name, end - size, end, f"{value:,}", kind)
        for (name, kind), size, end, value in zip(_HEADER_FIELDS, sizes, ends, values, strict=True)
    ]


def record_fields(batch: bytes, start: int) -> Iterator[Field]:
    """The fields of a record without headers that begins there."""
    at = start

    def number(name: str, kind: str) -> tuple[int, Field]:
        nonlocal at
        value, end = decode_varint(memoryview(batch), at)
        begin, at = at, end
        return value, Field(name, begin, end, f"{value}", kind)

    yield number("record length", "length")[1]
    at += 1
    yield Field("attributes", at - 1, at, "unused", "flags")
    yield number("timestamp delta", "time")[1]
    yield number("offset delta", "offset")[1]
    for part in ("key", "value"):
        size, field = number(f"{part} length", "length")
        yield field
        at += size
        yield Field(part, at - size, at, batch[at - size : at].decode(), "payload")
    yield number("count of headers", "length")[1]


def draw_batch(batch: bytes, *, title: str, note: str = "") -> Figure:
    """The header and the first record."""
    fields = [*header_fields(batch), *record_fields(batch, HEADER_BYTES)]
    return hexdump(batch[: fields[-1].end], fields, title=title, note=note)


def draw_header(batch: bytes, changed: Iterable[int], *, title: str) -> Figure:
    """The header, framed the bytes that changed, and a bracket beside what the checksum covers."""
    bracket = Bracket(
        ATTRIBUTES_OFFSET,
        HEADER_BYTES,
        f"covered by the checksum, and so is all that follows, up to byte {len(batch) - 1}",
    )
    note = "Framed: what the leader has changed."
    return hexdump(
        batch[:HEADER_BYTES], header_fields(batch), title=title, note=note, marked=set(changed), bracket=bracket
    )


# --- what a leader changes, and what a checksum notices ---------------------------------------------------------------


def made(events: Events, codec: Compression = Compression.NONE) -> bytes:
    """A batch of these events as a producer makes it: it knows neither offset nor leader epoch."""
    builder = RecordBatchBuilder(compression=codec)
    for key, value, timestamp in events:
        builder.append(timestamp, key, value)
    return bytes(builder.build())


def appended(cluster: "Cluster", topic: str, batch: bytes) -> bytes:
    """Send the batch to the leader, and return the last batch of the leader's file."""
    hand = HandProducer(cluster, topic)
    try:
        offset, error = hand.send_batch(batch)
    finally:
        hand.close()
    assert offset is not None, error
    stored = segment_of(cluster, topic).read_bytes()
    return bytes(next(one.buffer for one in batches(memoryview(stored)) if one.base_offset == offset))


def changed_bytes(sent: bytes, stored: bytes) -> list[int]:
    """Where the two differ."""
    return [at for at, (one, other) in enumerate(zip(sent, stored, strict=True)) if one != other]


def unnoticed(batch: bytes) -> list[int]:
    """The bits, by their number, whose flip leaves the checksum right."""
    found = []
    for bit in range(8 * len(batch)):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        if RecordBatch(memoryview(damaged)).is_valid:
            found.append(bit)
    return found


# --- how small, and at what price -------------------------------------------------------------------------------------


class CodecCost(NamedTuple):
    """For a record of a batch of 300: microseconds of processor time, and the percentage of its bytes that it saves."""

    pack_us: float
    unpack_us: float
    saved: float


def shrunk(events: Events, sizes: Iterable[int]) -> dict[str, list[tuple[int, float]]]:
    """By codec, for each number of records in a batch: the percentage of bytes that it saves. Headers count."""
    some = list(sizes)
    plain = {size: _bytes_in(events, size, Compression.NONE) for size in some}
    return {
        codec.name.lower(): [(size, 100 - 100 * _bytes_in(events, size, codec) / plain[size]) for size in some]
        for codec in _CODECS
    }


def _bytes_in(events: Events, size: int, codec: Compression) -> int:
    """Of the events in batches of this size."""
    return sum(map(len, _made_in(events, size, codec)))


def _made_in(events: Events, size: int, codec: Compression) -> Iterator[bytes]:
    """The events in batches of this size."""
    left = iter(events)
    while chunk := list(islice(left, size)):
        yield made(chunk, codec)


def codec_costs(events: Events) -> dict[str, CodecCost]:
    """What each codec costs and saves."""
    return {codec.name.lower(): _cost(events, codec) for codec in _CODECS}


def _cost(events: Events, codec: Compression) -> CodecCost:
    plain = [batch[HEADER_BYTES:] for batch in _made_in(events, _IN_A_BATCH, Compression.NONE)]
    packed = [compress(codec, records) for records in plain]
    return CodecCost(
        _cpu_us(lambda: [compress(codec, records) for records in plain]) / len(events),
        _cpu_us(lambda: [decompress(codec, memoryview(records)) for records in packed]) / len(events),
        100 - 100 * sum(map(len, packed)) / sum(map(len, plain)),
    )


def _cpu_us(work: Callable[[], object]) -> float:
    """Microseconds of processor time; the best of three."""
    found = []
    for _ in range(_TIMES):
        started = time.process_time()
        work()
        found.append((time.process_time() - started) * 1e6)
    return min(found)


def gzip_over_zstd(events: Events, costs: dict[str, CodecCost]) -> Callable[[], float]:
    """A measure: how many times the processor time of zstd gzip takes to pack; 0 if gzip makes much smaller batches.
    The first call takes the costs that were measured, every later one measures again."""
    known = [costs]

    def ratio() -> float:
        found = known.pop() if known else codec_costs(events)
        is_as_small = 100 - found["zstd"].saved <= _NO_LARGER * (100 - found["gzip"].saved)
        return found["gzip"].pack_us / found["zstd"].pack_us if is_as_small else 0.0

    return ratio


def draw_shrunk(saved: Mapping[str, Sequence[tuple[int, float]]]) -> Figure:
    """What codecs save, by how many records are in a batch."""
    (few, by_few), *_, (many, by_many) = saved["zstd"]
    return lines(
        saved,
        log_x=True,
        x_unit="flights in a batch",
        y_unit="% of the bytes saved",
        title=f"zstd saves {by_few:.0f} % of a batch of {few:,}, and {by_many:.0f} % of a batch of {many:,}",
        note="The header of each batch counts. It is never packed.",
    )


def draw_costs(costs: Mapping[str, CodecCost]) -> Figure:
    """What codecs save, by the time that they take."""
    times = costs["gzip"].pack_us / costs["zstd"].pack_us
    return points(
        {name: [(cost.pack_us, cost.saved)] for name, cost in costs.items()},
        log_x=True,
        x_unit="microseconds of processor time to pack a flight",
        y_unit="% of the bytes saved",
        title=f"gzip and zstd save the same; gzip takes {times:.0f} times the processor time",
        note=f"Batches of {_IN_A_BATCH} flights, with the levels that Kafka's clients use by default.",
    )


def on_disk(cluster: "Cluster", topic: str) -> tuple[int, set[str]]:
    """The bytes of the topic's file, and the codecs of its batches."""
    data = segment_of(cluster, topic).read_bytes()
    return len(data), {batch.compression.name.lower() for batch in batches(memoryview(data))}
