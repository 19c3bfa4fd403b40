"""The command line's own small languages: lines that become records, records that become lines, which topics and
partitions are meant, and at what time."""

from __future__ import annotations

import pytest

from pykraft.commands.common import CommandError, pairs, topic_filter
from pykraft.commands.records.consume import LineFormatter
from pykraft.commands.records.get_offsets import parse_time, partition_filter
from pykraft.commands.records.produce import Line, LineReader
from pykraft.common.types import TopicPartition
from pykraft.consumer import ConsumerRecord

KEY = {"parse.key": "true"}
HEADERS = {"parse.headers": "true"}
RECORD = ConsumerRecord("t", 3, 14, 1_700_000_000_000, 0, b"k", b"v", [("a", b"1"), ("b", None)], 5)


# --- lines that become records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "line", "record"),
    [
        ({}, "a\tb", Line(None, b"a\tb", [])),
        ({}, "", Line(None, b"", [])),
        ({}, "Grüße", Line(None, "Grüße".encode(), [])),
        (KEY, "k\tv\tw", Line(b"k", b"v\tw", [])),
        (KEY, "\tv", Line(b"", b"v", [])),
        ({**KEY, "key.separator": "=>"}, "k=>v", Line(b"k", b"v", [])),
        ({**KEY, "null.marker": "NULL"}, "NULL\tNULL", Line(None, None, [])),
        ({**KEY, "ignore.error": "true"}, "v", Line(None, b"v", [])),
        (HEADERS, "a:1,b:\tv", Line(None, b"v", [("a", b"1"), ("b", b"")])),
        ({**HEADERS, **KEY}, "a:x:y\tk\tv", Line(b"k", b"v", [("a", b"x:y")])),
        ({**HEADERS, "null.marker": "-"}, "a:-\tv", Line(None, b"v", [("a", None)])),
        ({**HEADERS, "null.marker": "-"}, "-\tv", Line(None, b"v", [])),
        (
            {**HEADERS, "headers.delimiter": "|", "headers.separator": ";", "headers.key.separator": "="},
            "a=1;b=2|v",
            Line(None, b"v", [("a", b"1"), ("b", b"2")]),
        ),
        ({**HEADERS, "ignore.error": "true"}, "a\tv", Line(None, b"v", [("a", None)])),
    ],
)
def test_a_line_is_taken_apart(properties: dict[str, str], line: str, record: Line) -> None:
    assert LineReader(properties).parse(1, line) == record


@pytest.mark.parametrize(
    ("properties", "line", "why"),
    [
        (KEY, "v", "line 7 has no key.separator '\\\\t': 'v'"),
        (HEADERS, "v", "line 7 has no headers.delimiter"),
        (HEADERS, "a\tv", "line 7 has a header without ':'"),
        ({**HEADERS, "null.marker": "-"}, "-:1\tv", "a key is never null"),
    ],
)
def test_a_line_that_cannot_be_taken_apart_is_named(properties: dict[str, str], line: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        LineReader(properties).parse(7, line)


@pytest.mark.parametrize(
    "properties",
    [
        {"parse.keys": "true"},
        {"key.separator": ""},
        {"headers.delimiter": ","},
        {"headers.separator": ":"},
        {"null.marker": "\t"},
    ],
)
def test_separators_that_could_not_be_told_apart_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(CommandError):
        LineReader(properties)


# --- records that become lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, b"v\n"),
        ({"print.key": "true"}, b"k\tv\n"),
        ({"print.key": "true", "print.value": "false"}, b"k\n"),
        ({"print.value": "false"}, b""),
        ({"print.key": "TRUE", "key.separator": " = ", "line.separator": ";"}, b"k = v;"),
        ({"print.timestamp": "true", "print.value": "false"}, b"CreateTime:1700000000000\n"),
        (
            {f"print.{name}": "true" for name in ("headers", "epoch", "offset", "partition")},
            b"Partition:3\tOffset:14\tEpoch:5\ta:1,b:null\tv\n",
        ),
        ({"print.headers": "true", "headers.separator": " ", "null.literal": "-"}, b"a:1 b:-\tv\n"),
        ({"line.separator": "\udcff\udcfe"}, b"v\xff\xfe"),  # no text, as a command line brings it
    ],
)
def test_a_record_becomes_a_line(properties: dict[str, str], line: bytes) -> None:
    assert LineFormatter(properties).line(RECORD) == line


def test_what_is_not_there_is_said() -> None:
    formatter = LineFormatter({"print.key": "true", "print.headers": "true"})
    assert formatter.line(RECORD._replace(key=None, value=None, headers=[])) == b"NO_HEADERS\tnull\tnull\n"


def test_the_time_of_the_append_is_called_so() -> None:
    formatter = LineFormatter({"print.timestamp": "true", "print.value": "false"})
    assert formatter.line(RECORD._replace(timestamp_type=1)) == b"LogAppendTime:1700000000000\n"


def test_a_property_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CommandError, match=r"print\.keys says nothing about lines; print\.timestamp, "):
        LineFormatter({"print.keys": "true"})


# --- topics, partitions, times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (None, {"flights", "seats", "my.flights"}),
        ("flights", {"flights"}),
        (".*flights", {"flights", "my.flights"}),
        ("flights, seats", {"flights", "seats"}),
        ("'seats'", {"seats"}),
        ("f.*|s.*", {"flights", "seats"}),
        ("nothing", set()),
    ],
)
def test_a_pattern_fits_whole_names(pattern: str | None, meant: set[str]) -> None:
    assert set(filter(topic_filter(pattern), ["flights", "seats", "my.flights"])) == meant


ALL = [TopicPartition(topic, partition) for topic in ("a", "b") for partition in range(4)]


@pytest.mark.parametrize(
    ("topic", "partitions", "rules", "meant"),
    [
        (None, None, None, "a0 a1 a2 a3 b0 b1 b2 b3"),
        ("a", "1,3", None, "a1 a3"),
        (None, "0", None, "a0 b0"),
        (None, None, "a:1", "a1"),
        (None, None, "a", "a0 a1 a2 a3"),
        (None, None, "a:", "a0 a1 a2 a3"),
        (None, None, ":1-3", "a1 a2 b1 b2"),
        (None, None, "a:2-,b:-1", "a2 a3 b0"),
        (None, None, "a:0,a:0-1", "a0"),
        (None, None, "[ab]:3", "a3 b3"),
    ],
)
def test_partitions_are_meant_by_name_and_range(
    topic: str | None, partitions: str | None, rules: str | None, meant: str
) -> None:
    found = filter(partition_filter(topic, partitions, rules), ALL)
    assert [f"{key.topic}{key.partition}" for key in found] == meant.split()


@pytest.mark.parametrize(
    ("topic", "partitions", "rules", "why"),
    [
        ("a", None, "a:1", "leave out --topic and --partitions"),
        (None, "one", None, "--partitions is one"),
        (None, None, "a:x", "--topic-partitions has a:x"),
        (None, None, "a:1:2", "--topic-partitions has a:1:2"),
        ("(", None, None, "no regular expression"),
    ],
)
def test_what_means_no_partitions_is_refused(
    topic: str | None, partitions: str | None, rules: str | None, why: str
) -> None:
    with pytest.raises(CommandError, match=why):
        partition_filter(topic, partitions, rules)


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [("latest", -1), ("-1", -1), ("earliest", -2), ("-2", -2), ("max-timestamp", -3), ("-3", -3), ("0", 0), ("17", 17)],
)
def test_times_have_names(text: str, timestamp: int) -> None:
    assert parse_time(text) == timestamp


@pytest.mark.parametrize("text", ["yesterday", "-4", "1.5", ""])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="but must be latest, earliest, max-timestamp or milliseconds since 1970"):
        parse_time(text)


def test_a_value_may_hold_an_equals_sign() -> None:
    assert pairs("--config", ["a=b=c", " d =", "a.b= e"]) == {"a": "b=c", "d": "", "a.b": " e"}
