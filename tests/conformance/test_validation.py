"""What a leader makes of each record of a produced batch: refused, and how; appended unchanged; or repaired, and what
is then in the log, to the byte.

Each case is sent uncompressed and compressed: Kafka has two ways to read records, and they do not refuse the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from pykraft.common.errors import ErrorCode
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.records.compression import Compression, compress
from pykraft.records.record import wrapped
from pykraft.records.varint import encode_varint
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import T0, altered, batch, fetch, list_offsets, produce, with_records

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FOREVER_MS = (1 << 63) - 1
OLDEST = -(1 << 63)
CREATE_TIME, LOG_APPEND_TIME = 0, 8
NONE, GZIP, LZ4 = Compression.NONE, Compression.GZIP, Compression.LZ4
ENDLESS = b"\xff" * 11

Made = Callable[[Compression], bytes]
"""A batch in this codec."""


def send(talk: Dialogue, topic: str, cases: Mapping[str, Made], *codecs: Compression, has_crc: bool = True) -> None:
    """Produce each case in each codec, and write down what came of it."""
    for says, made in cases.items():
        outcomes: dict[str, list[str]] = {}
        for codec in codecs:
            outcome = outcome_of(talk, topic, made(codec), has_crc)
            outcomes.setdefault(outcome, []).append(codec.name)
        talk.write(f"> {topic}: {says}", *(f"  {', '.join(names)}: {text}" for text, names in outcomes.items()))
    talk.to().ask(list_offsets(topic, -1), 7)


def outcome_of(talk: Dialogue, topic: str, sent: bytes, has_crc: bool) -> str:
    """The error and the records that are blamed; or how the batch in the log differs from the one that was sent, but
    for its place there."""
    connection = talk.to().connection
    answer = connection.ask(produce(topic, sent), 9).responses[0].partition_responses[0]
    if answer.error_code:
        blamed = [error.batch_index for error in answer.record_errors]
        return f"{ErrorCode.of(answer.error_code).name}{f' of records {blamed}' if blamed else ''}"
    found = bytes(connection.ask(fetch(topic, answer.base_offset), 12).responses[0].partitions[0].records)
    before, after = RecordBatch(memoryview(sent)), RecordBatch(memoryview(found))
    assert after.is_valid and after.size == len(found)
    place = {"base_offset": after.base_offset, "partition_leader_epoch": after.partition_leader_epoch}
    if altered(sent, with_crc=False, **place) == found:
        return "as it came"
    names = [name for name in RecordBatch.__annotations__ if name not in (*place, "crc")]
    changes = [(name, getattr(before, name), getattr(after, name)) for name in names]
    words = [f"{name} {when(old)} -> {when(new)}" for name, old, new in changes if old != new]
    if sent[HEADER_BYTES:] != found[HEADER_BYTES:]:
        words.append(f"other records: {[(r.offset - after.base_offset, when(r.timestamp)) for r in after.records()]}")
    return "; ".join([*words, f"crc {after.crc:08x}"] if has_crc else words)


def when(value: int) -> str:
    """A timestamp, unless it differs from run to run."""
    now = time.time_ns() // 1_000_000
    if abs(value - now) < DAY_MS:
        return "today"
    return "long ago" if abs(value - OLDEST - now) < DAY_MS else str(value)


def record(
    *,
    attributes: bytes = b"\x00",
    timestamp: bytes = b"\x00",
    offset: bytes = b"\x00",
    key: bytes = b"\x06key",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
    more: bytes = b"",
    length: bytes | None = None,
) -> bytes:
    """One record, whose fields are given as they are written."""
    body = attributes + timestamp + offset + key + value + headers + more
    return (encode_varint(len(body)) if length is None else length) + body


def raw(records: bytes, count: int = 1, **fields: int) -> Made:
    """A batch with these bytes for records, packed with the codec."""

    def made(codec: Compression) -> bytes:
        data = altered(batch(1), count=count, last_offset_delta=count - 1)
        return with_records(data, compress(codec, records), attributes=codec, **fields)

    return made


def stamped(
    *records: int | tuple[int, bytes | None],
    base: int | None = None,
    largest: int | None = None,
    attributes: int = 0,
    offsets: tuple[int, ...] = (),
) -> Made:
    """A batch of records with these timestamps, or timestamps and keys; perhaps with another base timestamp, largest
    timestamp, or offset deltas than they should have."""
    pairs = [each if isinstance(each, tuple) else (each, b"k") for each in records]
    stamps = [timestamp for timestamp, _ in pairs]
    base_timestamp = stamps[0] if base is None else base
    out = b"".join(
        record(
            timestamp=encode_varint(wrapped(timestamp - base_timestamp)),
            offset=encode_varint(offsets[number] if offsets else number),
            key=b"\x01" if key is None else encode_varint(len(key)) + key,
        )
        for number, (timestamp, key) in enumerate(pairs)
    )
    fields = {"base_timestamp": base_timestamp, "max_timestamp": max(stamps) if largest is None else largest}

    def made(codec: Compression) -> bytes:
        return altered(raw(out, len(pairs), **fields)(codec), attributes=attributes | codec)

    return made


# --- fields -----------------------------------------------------------------------------------------------------------

FIELDS = {
    "in order": raw(record()),
    "no record at all": raw(b""),
    "a length too small by 1": raw(record(length=encode_varint(9))),
    "a length too large by 1": raw(record(length=encode_varint(11))),
    "a length of 0": raw(record(length=encode_varint(0))),
    "a length of -1": raw(record(length=encode_varint(-1))),
    "a length of -50": raw(record(length=encode_varint(-50))),
    "a length without an end": raw(record(length=ENDLESS)),
    "a length of five bytes without an end": raw(record(length=b"\xff" * 5)),
    "four bytes of a length": raw(b"\xff" * 4),
    "a length in more bytes than it takes": raw(record(length=b"\x94\x80\x80\x80\x00")),
    "a length with more than 32 bits": raw(record(length=b"\x94\x80\x80\x80\x70")),
    "a key beyond the record": raw(record(key=b"\x7ekey")),
    "a key of 2^31 - 1 bytes": raw(record(key=encode_varint((1 << 31) - 1))),
    "a key length of -2": raw(record(key=b"\x03")),
    "a key length without an end": raw(record(key=ENDLESS)),
    "a key length with more than 32 bits": raw(record(key=b"\x86\x80\x80\x80\x70key")),
    "no key": raw(record(key=b"\x01")),
    "a value beyond the record": raw(record(value=b"\x7ev")),
    "a value that takes the number of headers": raw(record(value=b"\x04v")),
    "a value length of -2": raw(record(value=b"\x03")),
    "a value length without an end": raw(record(value=ENDLESS)),
    "no value": raw(record(value=b"\x01")),
    "-1 headers": raw(record(headers=b"\x01")),
    "a header that is not there": raw(record(headers=b"\x02")),
    "63 headers that are not there": raw(record(headers=b"\x7e")),
    "2 headers, one is there": raw(record(headers=b"\x04\x02k\x01")),
    "headers without an end": raw(record(headers=ENDLESS)),
    "a header": raw(record(headers=b"\x02\x02k\x02v")),
    "a header without a key": raw(record(headers=b"\x02\x01\x01")),
    "a header with a key length of -2": raw(record(headers=b"\x02\x03\x01")),
    "a header with an empty key": raw(record(headers=b"\x02\x00\x01")),
    "a header with a key that is no UTF-8": raw(record(headers=b"\x02\x02\xff\x01")),
    "a header's key beyond the record": raw(record(headers=b"\x02\x20k\x01")),
    "a header's value beyond the record": raw(record(headers=b"\x02\x02k\x20v")),
    "a header's value length of -2": raw(record(headers=b"\x02\x02k\x03")),
    "attributes 255": raw(record(attributes=b"\xff")),
    "a timestamp without an end": raw(record(timestamp=ENDLESS)),
    "a timestamp with more than 64 bits": raw(record(timestamp=b"\x80" * 9 + b"\x7e")),
    "an offset without an end": raw(record(offset=ENDLESS)),
    "an offset with more than 32 bits": raw(record(offset=b"\x80\x80\x80\x80\x70")),
    "offset delta 5": raw(record(offset=b"\x0a")),
    "offset delta -1": raw(record(offset=b"\x01")),
    "fields that end too soon": raw(record(more=b"\x00")),
    "a byte after the last record": raw(record() + b"\x00"),
    "rubbish after the last record": raw(record() + b"rubbish"),
    "a record too few": raw(record(), 2),
    "a record too many": raw(record() + record(offset=b"\x02"), 1),
    "a record cut before its value": raw(record()[:7]),
    "a record cut in its timestamp": raw(record()[:2] + b"\x80"),
    "nothing but a length": raw(record()[:1]),
    "a torn record between others": raw(record() + record(offset=b"\x02", value=b"\x04v") + record(offset=b"\x04"), 3),
    "lengths that make up for each other": raw(
        record(length=encode_varint(11)) + record(offset=b"\x02", length=encode_varint(9)), 2
    ),
}


def test_the_fields_of_a_record_fill_it(talk: Dialogue) -> None:
    talk.topic("validation-fields")
    send(talk, "validation-fields", FIELDS, NONE, GZIP, LZ4)


def test_the_fields_of_a_record_fill_it_where_it_is_packed_again(talk: Dialogue) -> None:
    talk.topic("validation-gzip", configs={"compression.type": "gzip"})
    talk.topic("validation-unpacked", configs={"compression.type": "uncompressed"})
    send(talk, "validation-gzip", FIELDS, NONE, LZ4)
    send(talk, "validation-unpacked", FIELDS, NONE, GZIP)


# --- the header -------------------------------------------------------------------------------------------------------

LARGEST = {
    "in order": stamped(T0, T0 + 5),
    "a largest timestamp that is too large": stamped(T0, T0 + 5, largest=T0 + 10**9),
    "a largest timestamp of 2^62": stamped(T0, T0 + 5, largest=1 << 62),
    "a largest timestamp that is too small": stamped(T0, T0 + 5, largest=T0 - 100),
    "a largest timestamp that is the first": stamped(T0, T0 + 5, T0 + 1, largest=T0),
    "a largest timestamp of -1": stamped(T0, T0 + 5, largest=-1),
    "a largest timestamp of -2": stamped(T0, T0 + 5, largest=-2),
    "no timestamps": stamped(-1, -1),
    "no timestamps, and a largest one": stamped(-1, -1, largest=T0),
    "no timestamps, base 0": stamped(-1, -1, base=0),
    "timestamps -2 and -3": stamped(-2, -3),
    "timestamps -2 and -1": stamped(-2, -1),
    "timestamp -2, then one": stamped(-2, T0),
    "a timestamp, then -2": stamped(T0, -2),
    "a timestamp, then none": stamped(T0, -1),
    "timestamp 0": stamped(0, 5),
    "the oldest timestamp": stamped(OLDEST, largest=0),
    "the youngest timestamp": stamped(FOREVER_MS),
    "base 77": stamped(T0, T0 + 5, base=77),
    "base -5": stamped(T0, T0 + 5, base=-5),
    "the oldest base": stamped(T0, T0 + 5, base=OLDEST),
    "the youngest base": stamped(T0, T0 + 5, base=FOREVER_MS),
}
OFFSETS = {
    "offset deltas 0 and 0": stamped(T0, T0 + 5, offsets=(0, 0)),
    "offset deltas 1 and 0": stamped(T0, T0 + 5, offsets=(1, 0)),
    "offset deltas 0 and 2": stamped(T0, T0 + 5, offsets=(0, 2)),
    "offset deltas 0 and -1": stamped(T0, T0 + 5, offsets=(0, -1)),
    "offset deltas 0 and 0, and another largest timestamp": stamped(T0, T0 + 5, offsets=(0, 0), largest=3),
}
MARKED = {
    "marked": stamped(T0, T0 + 5, attributes=0x08),
    "marked, with another largest timestamp": stamped(T0, T0 + 5, attributes=0x08, largest=T0 + 9),
    "marked, with largest timestamp 0": stamped(T0, T0 + 5, attributes=0x08, largest=0),
    "marked, with largest timestamp -1": stamped(T0, T0 + 5, attributes=0x08, largest=-1),
    "marked, with largest timestamp -2": stamped(T0, T0 + 5, attributes=0x08, largest=-2),
    "marked, and offset deltas 0 and 0": stamped(T0, T0 + 5, attributes=0x08, largest=T0, offsets=(0, 0)),
}
ATTRIBUTES = {
    f"attributes {attributes:#x}{word}": stamped(T0, T0 + 5, attributes=attributes, largest=T0 + more)
    for attributes in (0x40, 0x48, 0x80, 0x100, 0x7F00, 0xC0, -0x8000)
    for word, more in ((", in order", 5), (", and another largest timestamp", 9))
}


def test_a_header_tells_the_truth_of_the_records(talk: Dialogue) -> None:
    talk.topic("validation-header")
    send(talk, "validation-header", LARGEST | OFFSETS | MARKED | ATTRIBUTES, NONE, GZIP, LZ4)
    for timestamp in (T0, T0 + 5, T0 + 6, 0, -3):
        talk.to().ask(list_offsets("validation-header", timestamp), 7, f"at {timestamp}")


def test_a_header_tells_the_truth_where_the_records_are_packed_again(talk: Dialogue) -> None:
    talk.topic("validation-header-gzip", configs={"compression.type": "gzip"})
    send(talk, "validation-header-gzip", LARGEST | OFFSETS | MARKED | ATTRIBUTES, NONE, GZIP, LZ4)


def test_a_header_gets_the_brokers_time(talk: Dialogue) -> None:
    time_of_append = {"message.timestamp.type": "LogAppendTime"}
    talk.topic("validation-append-time", configs=time_of_append)
    talk.topic("validation-append-time-gzip", configs=time_of_append | {"compression.type": "gzip"})
    send(talk, "validation-append-time", LARGEST | OFFSETS | MARKED | ATTRIBUTES, NONE, GZIP, has_crc=False)
    send(talk, "validation-append-time-gzip", LARGEST | OFFSETS | MARKED, NONE, GZIP, has_crc=False)


# --- single records ---------------------------------------------------------------------------------------------------


def limits(now: int) -> dict[str, Made]:
    return {
        "old, none, young, now without a key": stamped(
            (now - 2 * HOUR_MS, b"k"), (-1, b"k"), (now + 2 * HOUR_MS, b"k"), (now, None)
        ),
        "no timestamp": stamped(-1, -1),
        "timestamp -2": stamped(-2),
        "timestamp 0": stamped(0),
        "two hours old": stamped(now - 2 * HOUR_MS),
        "half an hour old": stamped(now - HOUR_MS // 2),
        "in half an hour": stamped(now + HOUR_MS // 2),
        "in two hours": stamped(now + 2 * HOUR_MS),
        "the youngest": stamped(FOREVER_MS),
        "the oldest": stamped(OLDEST),
        "so old that its age wraps": stamped(OLDEST + now - 1_000_000),
        "nearly so old": stamped(OLDEST + now + 1_000_000),
        "a sum that wraps": stamped(now - HOUR_MS // 2, base=OLDEST),
        "a largest timestamp that is too young": stamped(now - HOUR_MS // 2, largest=now + 2 * HOUR_MS),
        "marked two hours ago": stamped(now, largest=now - 2 * HOUR_MS, attributes=0x08),
        "marked in two hours": stamped(now, largest=now + 2 * HOUR_MS, attributes=0x08),
    }


def a_moment_ago() -> int:
    """Surely before the broker's present millisecond: where nothing may be late, it is late."""
    return time.time_ns() // 1_000_000 - 10


def test_records_may_be_too_old_or_too_young(talk: Dialogue) -> None:
    for name, allowed in (("hour", HOUR_MS), ("ever", FOREVER_MS), ("none", 0)):
        settings = {f"message.timestamp.{side}.max.ms": allowed for side in ("before", "after")}
        talk.topic(f"validation-{name}", configs=settings)
        send(talk, f"validation-{name}", limits(a_moment_ago()), NONE, GZIP, has_crc=False)
    talk.topic("validation-usual")
    send(talk, "validation-usual", limits(a_moment_ago()), NONE, GZIP, has_crc=False)


def test_records_of_a_compacted_topic_have_keys(talk: Dialogue) -> None:
    young = time.time_ns() // 1_000_000 + 2 * HOUR_MS
    torn = record(key=b"\x01") + record(offset=b"\x02", headers=b"\x01")
    cases = {
        "the first and the third of four": stamped((T0, None), (T0, b"k"), (T0, None), (T0, b"")),
        "one, and another is numbered wrongly": stamped((T0, None), (T0, b"k"), offsets=(0, 5)),
        "a key length of -2": raw(record(key=b"\x03")),
        "one, and another is torn": raw(torn, 2),
        "one, and another is missing": raw(record(key=b"\x01"), 2),
        "one, and rubbish": raw(record(key=b"\x01") + b"x"),
        "one that is too young": stamped((young, None)),
        "one, and another is too young": stamped((T0, None), (young, b"k")),
        "one, marked without a time": stamped((T0, None), (T0, b"k"), attributes=0x08, largest=-1),
        "all, marked without a time": stamped((T0, None), attributes=0x08, largest=-1),
        "none": stamped((T0, b"k"), (T0, b"")),
    }
    talk.topic("validation-keys", configs={"cleanup.policy": "compact"})
    talk.topic("validation-keys-gzip", configs={"cleanup.policy": "compact", "compression.type": "gzip"})
    send(talk, "validation-keys", cases, NONE, GZIP, LZ4)
    send(talk, "validation-keys-gzip", cases, NONE, GZIP, LZ4)
