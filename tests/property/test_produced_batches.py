"""Whatever a producer sends under a right checksum is refused, and leaves no trace; or it can be read afterwards.

The batches are made as a client makes them, and then some bytes are changed: in the header, in the records before they
are packed, or in what the codec has made of them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from pykraft.common.errors import KafkaError
from pykraft.common.settings.topic_config import FOREVER_MS
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression, compress, decompress
from pykraft.records.overview import look_over, record_facts
from pykraft.records.record import NO_TIMESTAMP, decode_records, encode_record, wrapped
from pykraft.storage.log import UnifiedLog
from pykraft.storage.validator import only_batch
from tests.harness.asking import altered, with_records
from tests.harness.storage import NOW_MS, open_log, read_batches, settings

OCTETS = st.none() | st.binary(max_size=5) | st.binary(min_size=60, max_size=70)
HEADERS = st.lists(st.tuples(st.text(max_size=5), OCTETS), max_size=2)
STAMPS = st.sampled_from([NOW_MS, NOW_MS + 1, NOW_MS + 9000, NOW_MS - 5, -1, -2, 0])
ROWS = st.lists(st.tuples(STAMPS, OCTETS, OCTETS, HEADERS), min_size=1, max_size=8)
PATCHES = st.lists(
    st.tuples(
        st.integers(0, 1 << 12),
        st.integers(0, 3),
        st.binary(max_size=3)
        | st.sampled_from([b"\x80\x00", b"\x01", b"\x03", b"\xff" * 5, b"\x7e", b"\x80" * 4 + b"\x70"]),
    ),
    max_size=3,
)
"""Each puts some bytes in the place of others; the place counts modulo the length."""
TIMES = st.integers(-2, 9) | st.sampled_from([NOW_MS, NOW_MS + 7, NOW_MS + (1 << 40), -(1 << 63), (1 << 63) - 1])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "attributes": st.sampled_from([0x08, 0x20, 0x40, 0x48, 0x80, 0x100]),
        "last_offset_delta": st.integers(-1, 9),
        "base_timestamp": TIMES,
        "max_timestamp": TIMES,
        "count": st.integers(-1, 9),
    },
)
CONFIGS: list[dict[str, Any]] = [
    {},
    {"cleanup_policy": ("compact",)},
    {"compression_type": "gzip"},
    {"compression_type": "uncompressed"},
    {"message_timestamp_type": "LogAppendTime"},
    {"message_timestamp_before_max_ms": 10_000, "message_timestamp_after_max_ms": FOREVER_MS},
]


def patched(data: bytes, patches: list[tuple[int, int, bytes]]) -> bytes:
    for place, removed, patch in patches:
        at = place % (len(data) + 1)
        data = data[:at] + patch + data[at + removed :]
    return data


@st.composite
def produced(draw: st.DrawFn) -> bytes:
    builder = RecordBatchBuilder()
    for row in draw(ROWS):
        builder.append(*row)
    batch = bytes(builder.build())
    codec = draw(st.sampled_from([Compression.NONE, Compression.NONE, *Compression]))
    packed = patched(compress(codec, patched(batch[HEADER_BYTES:], draw(PATCHES))), draw(st.just([]) | PATCHES))
    fields = draw(st.just({}) | FIELDS)
    if codec and "attributes" in fields:
        fields["attributes"] |= codec
    return altered(with_records(batch, packed, attributes=codec), **fields)


def trace(log: UnifiedLog) -> Any:
    return log.log_end_offset, log.size, [bytes(some.buffer) for some in read_batches(log)]


@given(produced(), st.sampled_from(CONFIGS), st.booleans())
def test_a_batch_is_refused_without_a_trace_or_can_be_read(
    data: bytes, config: dict[str, Any], has_first: bool
) -> None:
    log = open_log(config=settings(**config))
    if has_first:
        log.append_as_leader(RecordBatch(memoryview(bytearray(with_key()))), 0)
    before = trace(log)
    try:
        sent = only_batch(memoryview(bytearray(data)))
        log.append_as_leader(sent, 0)
    except KafkaError as error:
        event(f"refused: {error.code.name}")
        assert trace(log) == before
        return
    event("appended")
    end, _, found = trace(log)
    appended = RecordBatch(memoryview(found[-1]))
    assert found[:-1] == before[2] and appended.is_valid
    assert (appended.base_offset, appended.next_offset) == (before[0], end)
    judge(appended, RecordBatch(memoryview(data)))


def with_key() -> bytes:
    builder = RecordBatchBuilder()
    builder.append(NOW_MS, b"key", b"value")
    return bytes(builder.build())


def judge(batch: RecordBatch, sent: RecordBatch) -> None:
    """It decodes as a whole, and its header tells the truth of its records."""
    data = decompress(batch.compression, batch.buffer[HEADER_BYTES:])
    facts = list(record_facts([data], batch.count, is_strict=False))
    if batch.compression:
        assert [each.offset_delta for each in facts] == list(range(batch.count))
    if not batch.uses_log_append_time:
        stamps = [wrapped(batch.base_timestamp + each.timestamp_delta) for each in facts]
        if sent.uses_log_append_time:  # Kafka clears the mark, and believes the time that came with it
            stamps = [sent.max_timestamp]
        assert batch.max_timestamp == max(NO_TIMESTAMP, *stamps)
    if not batch.compression or batch.compression is not sent.compression:
        assert len(list(decode_records(data, batch.count, 0, batch.base_timestamp))) == batch.count
    # In a compressed batch that stayed as it was, Kafka does not compare a record's length with its fields.


# --- the two ways to go over records ----------------------------------------------------------------------------------

WAYS = st.sampled_from(
    [
        {"is_strict": True, "is_stream": False},
        {"is_strict": True, "is_stream": True},
        {"is_strict": False, "is_stream": True},
    ]
)


@given(ROWS, PATCHES, st.integers(-1, 1), WAYS, st.integers(1, 200))
def test_an_overview_says_what_the_records_say_one_by_one(
    rows: list[Any], patches: list[tuple[int, int, bytes]], more: int, way: dict[str, bool], chunk_bytes: int
) -> None:
    """However the data are cut; and of regular records it is true that they are as a client writes them."""
    builder = RecordBatchBuilder()
    for row in rows:
        builder.append(*row)
    data = patched(bytes(builder.build()[HEADER_BYTES:]), patches)
    count = max(1, len(rows) + more)
    expected = told_one_by_one([data], count, way)
    size = chunk_bytes if way["is_stream"] else len(data) or 1
    assert told_together([data[at : at + size] for at in range(0, len(data), size)], count, way) == expected
    if isinstance(expected, tuple) and look_over([data], count, **way).is_regular:
        event("regular")
        records = list(decode_records(memoryview(data), count, 0, 0))
        if not any("\ufffd" in name for record in records for name, _ in record.headers):
            again = bytearray()
            for number, record in enumerate(records):
                assert record.offset == number
                encode_record(again, number, record.timestamp, record.key, record.value, record.headers)
            assert bytes(again) == data


def told_one_by_one(chunks: list[bytes], count: int, way: dict[str, bool]) -> Any:
    try:
        facts = list(record_facts(chunks, count, **way))
    except KafkaError as error:
        return error.code
    deltas = [each.timestamp_delta for each in facts]
    is_numbered = [each.offset_delta for each in facts] == list(range(count))
    return min(deltas), max(deltas), sum(not each.has_key for each in facts), is_numbered


def told_together(chunks: list[bytes], count: int, way: dict[str, bool]) -> Any:
    try:
        found = look_over(chunks, count, **way)
    except KafkaError as error:
        return error.code
    return found.smallest_delta, found.largest_delta, found.without_key, found.is_numbered
