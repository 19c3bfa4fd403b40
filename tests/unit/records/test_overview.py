"""Going over records without decoding them: what is refused as Apache Kafka 4.4 refuses it, and what is found.

`IN_PLACE` is how a leader reads a compressed batch that stays as it is, `PLAIN` one that is not compressed, `UNPACKED`
a compressed one that is to be packed again.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.records import overview
from pykraft.records.batch import HEADER_BYTES
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.overview import Overview, look_over, record_facts
from pykraft.records.record import encode_record
from pykraft.records.varint import encode_varint

INVALID, UNKNOWN, ACCEPTED = ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE

PLAIN = {"is_strict": True, "is_stream": False}
IN_PLACE = {"is_strict": False, "is_stream": True}
UNPACKED = {"is_strict": True, "is_stream": True}

ZERO, NULL = b"\x00", b"\x01"
ENDLESS = b"\xff" * 11


def record(
    *,
    attributes: bytes = ZERO,
    timestamp: bytes = ZERO,
    offset: bytes = ZERO,
    key: bytes = b"\x06key",
    value: bytes = b"\x02v",
    headers: bytes = ZERO,
    more: bytes = b"",
    length: bytes | None = None,
) -> bytes:
    """One record, whose fields are given as they are written."""
    body = attributes + timestamp + offset + key + value + headers + more
    return (encode_varint(len(body)) if length is None else length) + body


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def verdict(data: bytes, count: int = 1, size: int = 1 << 20, **way: bool) -> ErrorCode:
    """What is answered to these bytes, which come in pieces of this size; the same by both functions."""
    verdicts = set()
    for read in (look_over, lambda *args, **way: list(record_facts(*args, **way))):
        try:
            read(pieces(data, size), count, **way)
            verdicts.add(ACCEPTED)
        except KafkaError as error:
            verdicts.add(error.code)
    assert len(verdicts) == 1, f"the two ways do not agree: {verdicts}"
    return verdicts.pop()


@pytest.mark.parametrize(
    ("data", "plain", "in_place", "unpacked"),
    [
        (record(), ACCEPTED, ACCEPTED, ACCEPTED),
        (b"", INVALID, INVALID, INVALID),
        # the record's length: Kafka does not compare it with the fields of a batch that it keeps compressed
        (record(length=encode_varint(9)), INVALID, ACCEPTED, INVALID),
        (record(length=encode_varint(11)), INVALID, ACCEPTED, INVALID),
        (record(length=encode_varint(0)), INVALID, ACCEPTED, INVALID),
        (record(length=encode_varint(-1)), INVALID, INVALID, INVALID),
        (record(length=encode_varint(-50)), INVALID, INVALID, INVALID),
        (record(length=b"\xff" * 5), UNKNOWN, INVALID, INVALID),
        (record(length=b"\xff" * 6), UNKNOWN, INVALID, INVALID),
        (b"\xff" * 4, INVALID, INVALID, INVALID),
        (record(length=b"\x94\x80\x80\x80\x00"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(length=b"\x94\x80\x80\x80\x70"), ACCEPTED, ACCEPTED, ACCEPTED),
        # key and value
        (record(key=b"\x7ekey"), INVALID, INVALID, INVALID),
        (record(key=NULL), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(key=b"\x03"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(key=encode_varint((1 << 31) - 1)), INVALID, INVALID, INVALID),
        (record(key=b"\x86\x80\x80\x80\x70key"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(key=ENDLESS), INVALID, INVALID, INVALID),
        (record(value=b"\x7ev"), INVALID, INVALID, INVALID),
        (record(value=b"\x04v"), INVALID, INVALID, INVALID),
        (record(value=NULL), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(value=b"\x03"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(value=ENDLESS), INVALID, INVALID, INVALID),
        # headers
        (record(headers=NULL), INVALID, INVALID, INVALID),
        (record(headers=b"\x02"), INVALID, INVALID, INVALID),
        (record(headers=b"\x7e"), INVALID, INVALID, INVALID),
        (record(headers=encode_varint(1 << 30)), INVALID, INVALID, INVALID),
        (record(headers=ENDLESS), INVALID, INVALID, INVALID),
        (record(headers=b"\x02\x02k\x02v"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(headers=b"\x02\x02k\x01"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(headers=b"\x02\x02k\x03"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(headers=b"\x02\x00\x01"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(headers=b"\x02\x02\xff\x01"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(headers=b"\x02\x01\x01"), INVALID, INVALID, INVALID),
        (record(headers=b"\x02\x03\x01"), INVALID, INVALID, INVALID),
        (record(headers=b"\x02\x20k\x01"), INVALID, INVALID, INVALID),
        (record(headers=b"\x02\x02k\x20v"), INVALID, INVALID, INVALID),
        (record(headers=b"\x04\x02k\x01"), INVALID, INVALID, INVALID),
        # the other fields
        (record(attributes=b"\xff"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(timestamp=ENDLESS), INVALID, INVALID, INVALID),
        (record(timestamp=b"\x80" * 9 + b"\x7e"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(offset=ENDLESS), INVALID, INVALID, INVALID),
        (record(offset=b"\x80\x80\x80\x80\x70"), ACCEPTED, ACCEPTED, ACCEPTED),
        (record(offset=b"\x0a"), ACCEPTED, ACCEPTED, ACCEPTED),
        # what is missing, or too much
        (record()[:7], INVALID, INVALID, INVALID),
        (record()[:3] + b"\x80", INVALID, INVALID, INVALID),
        (record()[:1], INVALID, INVALID, INVALID),
        (record(more=b"\x00"), INVALID, INVALID, INVALID),
        (record() + b"\x00", INVALID, INVALID, INVALID),
        (record() + b"rubbish", INVALID, INVALID, INVALID),
    ],
)
def test_fields_that_do_not_fit_are_answered_as_apache_kafka_answers_them(
    data: bytes, plain: ErrorCode, in_place: ErrorCode, unpacked: ErrorCode
) -> None:
    assert verdict(data, **PLAIN) is plain
    for size in (1, 2, 3, 7, 100):
        assert verdict(data, size=size, **IN_PLACE) is in_place
        assert verdict(data, size=size, **UNPACKED) is unpacked
    # The same as the second of three records.
    three = record() + data + record()
    if data and plain is not ACCEPTED:
        assert verdict(three, 3, **PLAIN) is not ACCEPTED


# --- what is found ----------------------------------------------------------------------------------------------------


def encoded(*fields: tuple[Any, ...]) -> bytes:
    """Records of (offset delta, timestamp delta, key, value, headers)."""
    out = bytearray()
    for each in fields:
        encode_record(out, *each)
    return bytes(out)


@pytest.mark.parametrize(
    ("data", "count", "found"),
    [
        (encoded((0, 0, b"k", b"v")), 1, Overview(0, 0)),
        (encoded((0, 0, None, b"v"), (1, 0, b"", b"v"), (2, 0, b"key", None)), 3, Overview(0, 0, without_key=1)),
        (encoded((0, 5, b"k", b"v"), (1, -3, b"k", b"v"), (2, 4, b"k", b"v")), 3, Overview(-3, 5)),
        (encoded((0, 7, b"k", b"v"), (1, 9, b"k", b"v")), 2, Overview(7, 9)),
        (encoded((0, -9, b"k", b"v"), (1, -7, b"k", b"v")), 2, Overview(-9, -7)),
        (encoded((0, 0, b"k", b"v", [("h", None), ("i", b"i")])), 1, Overview(0, 0, headers=2)),
        (encoded((0, 0, b"k", b"v"), (0, 0, b"k", b"v")), 2, Overview(0, 0, is_numbered=False, is_regular=False)),
        (encoded((1, 0, b"k", b"v"), (0, 0, b"k", b"v")), 2, Overview(0, 0, is_numbered=False, is_regular=False)),
        (record(attributes=b"\x01"), 1, Overview(0, 0, is_regular=False)),
        (record(length=b"\x94\x00"), 1, Overview(0, 0, is_regular=False)),
        (record(timestamp=b"\x82\x00"), 1, Overview(1, 1, is_regular=False)),
        (record(timestamp=b"\x82\x80\x00"), 1, Overview(1, 1, is_regular=False)),
        (record(offset=b"\x80\x00"), 1, Overview(0, 0, is_regular=False)),
        (record(key=b"\x86\x00key"), 1, Overview(0, 0, is_regular=False)),
        (record(key=b"\x03"), 1, Overview(0, 0, without_key=1, is_regular=False)),
        (record(value=b"\x03"), 1, Overview(0, 0, is_regular=False)),
        (record(value=b"\x82\x00v"), 1, Overview(0, 0, is_regular=False)),
        (record(headers=b"\x80\x00"), 1, Overview(0, 0, is_regular=False)),
    ],
)
def test_an_overview_tells_what_all_records_say_together(data: bytes, count: int, found: Overview) -> None:
    for way in (PLAIN, IN_PLACE, UNPACKED):
        assert look_over([data], count, **way) == found


def test_an_offset_delta_of_two_bytes_is_not_taken_for_one_of_three() -> None:
    """80 00 is the number 0. With the 01 after it, the length of no key, three bytes seem to number record 8192; and
    then the last two bytes of a record that has one too many seem to be the length of no value and no headers."""
    builder = RecordBatchBuilder()
    for number in range(8192):
        builder.append(number, b"key", b"value")
    good = bytes(builder.build()[HEADER_BYTES:])
    last = {"offset": b"\x80\x00", "key": b"\x01", "value": b"\x06val"}
    assert look_over([good + record(**last)], 8193, **PLAIN).is_numbered is False
    assert verdict(good + record(**last, more=b"\x00"), 8193, **PLAIN) is INVALID
    assert verdict(good + record(**last, headers=b"\x01", more=b"\x00"), 8193, **PLAIN) is INVALID


@pytest.mark.parametrize(
    "delta", [0, -1, 63, -64, 64, 8191, -8192, 8192, 1 << 20, -(1 << 41), (1 << 62) - 1, -(1 << 62)]
)
@pytest.mark.parametrize("size", [3, 40, 54, 55, 56, 60, 63, 64, 8000, 8070])
def test_records_as_clients_write_them_are_regular(delta: int, size: int) -> None:
    """Lengths of one and two bytes, and timestamps of up to nine."""
    data = encoded(*[(number, delta if number % 3 else 0, b"k" * (size % 97), b"v" * size) for number in range(3)])
    assert look_over([data], 3, **PLAIN) == Overview(min(0, delta), max(0, delta))


@pytest.mark.parametrize("some", [(None, None), (b"k", b"v" * 8192), (b"k" * 9000, None)])
def test_the_shortest_records_and_long_ones_are_regular(some: tuple[bytes | None, bytes | None]) -> None:
    without_key = 0 if some[0] else 2
    found = look_over([encoded((0, 0, *some), (1, 1, *some))], 2, **PLAIN)
    assert found == Overview(0, 1, without_key=without_key)


def test_offset_deltas_of_every_width_are_numbered() -> None:
    builder = RecordBatchBuilder()
    for number in range(9000):
        builder.append(number, b"key", b"value")
    data = bytes(builder.build()[HEADER_BYTES:])
    assert look_over([data], 9000, **PLAIN) == Overview(0, 8999)


@pytest.mark.costly
@pytest.mark.parametrize("every", [1, 2, 3, 700])
def test_regular_records_and_others_may_take_turns(every: int) -> None:
    def one(number: int) -> bytes:
        attributes = b"\x01" if number % every == 0 or 1000 < number < 1500 else b"\x00"
        key = b"\x01" if number % 5 == 0 else b"\x06key"
        return record(attributes=attributes, timestamp=encode_varint(number), offset=encode_varint(number), key=key)

    data = b"".join(map(one, range(3000)))
    for way in (PLAIN, IN_PLACE, UNPACKED):
        for size in (50, 1 << 20):
            found = look_over(pieces(data, size), 3000, **way)
            assert found == Overview(0, 2999, without_key=600, is_regular=False)


def test_the_fields_of_each_record_are_told() -> None:
    data = encoded((0, 5, None, b"v"), (7, -(1 << 62), b"", None), (-1, 0, b"k", b"v", [("h", b"h")]))
    expected = [(0, 5, False), (7, -(1 << 62), True), (-1, 0, True)]
    for size in (1, 5, 1000):
        assert [tuple(facts) for facts in record_facts(pieces(data, size), 3)] == expected


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 1000])
def test_records_are_counted_however_the_stream_is_cut(size: int) -> None:
    builder = RecordBatchBuilder()
    for number in range(40):
        builder.append(
            0, None, b"x" * (number * number % 200 if number != 20 else 10_000)
        )  # 1, 2 and 3 bytes of length
    data = bytes(builder.build()[HEADER_BYTES:])
    look_over(iter(pieces(data, size)), 40)
    for stream, count in ((data, 39), (data, 41), (data[:-1], 40), (data + b"\x00", 40), (data + b"\x80", 40)):
        with pytest.raises(KafkaError) as refused:
            look_over(iter(pieces(stream, size)), count)
        assert refused.value.code is INVALID
    with pytest.raises(KafkaError, match="bytes follow the last of 3 records"):  # at once, whatever else would come
        look_over(iter(pieces(data, size)), 3)


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (encode_varint(-1), "claims a length of -1"),
        (encode_varint(-50), "claims a length of -50"),
        (b"\x00", "claims a length of 0"),
        (encode_varint(5) + bytes(5), "claims a length of 5"),
        (b"\xff" * 5, "more than 5 bytes"),
        (b"\xff" * 4, "announces 1 records, 0 begin"),
        (encode_varint(100) + b"x", "announces 1 records, 1 begin"),
    ],
)
def test_a_length_that_no_record_has_is_refused(stream: bytes, complaint: str) -> None:
    for size in (1, 100):
        with pytest.raises(KafkaError, match=complaint):
            look_over(iter(pieces(stream, size)), 1)


@pytest.mark.parametrize("per_record", [1, 50, 1000])
def test_a_stream_of_too_many_headers_is_refused(per_record: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a moment of the node's time, and a few kilobytes could hold a hundred million."""
    monkeypatch.setattr(overview, "MAX_HEADERS", 1000)
    records = [(number, 0, b"k", None, [("", None)] * per_record) for number in range(1000 // per_record)]
    data = encoded(*records)
    for size in (100, 1 << 20):
        for way in (IN_PLACE, UNPACKED):
            assert look_over(pieces(data, size), len(records), **way).headers == 1000
            more = data + encoded((len(records), 0, b"k", None, [("", None)]))
            assert verdict(more, len(records) + 1, size=size, **way) is ErrorCode.MESSAGE_TOO_LARGE
    assert look_over([more], len(records) + 1, **PLAIN).headers == 1001, "its own size bounds a batch as it is"
