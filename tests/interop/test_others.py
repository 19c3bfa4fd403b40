"""Clients of other hands against pykraft: what each writes, all read; what one makes, all see."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest

from pykraft import Admin, Cluster, ErrorCode, KafkaError
from tests.harness.moments import TODAY_MS
from tests.interop.clients import ALL, OTHERS, PATIENCE_S, Client, Row

T0 = TODAY_MS
EACH = pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
OTHER = pytest.mark.parametrize("client", OTHERS, ids=lambda client: client.name)
WRITER_AND_CODEC = pytest.mark.parametrize(
    ("client", "codec"), [pytest.param(c, codec, id=f"{c.name}-{codec}") for c in ALL for codec in c.codecs]
)


def make_topic(servers: str, name: str, partitions: int = 3, **configs: object) -> str:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(name, partitions, 3, configs={"min.insync.replicas": 2, **configs})

        def is_led() -> bool:
            try:
                return all(p.leader >= 0 for p in admin.describe_topics([name])[name].partitions)
            except KafkaError as error:
                assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return False

        wait_until(is_led)
    return name


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it took too long"


def in_order(rows: list[Row]) -> list[Row]:
    """Partition by partition; AssertionError if the records of one did not come in order."""
    for partition in {row.partition for row in rows}:
        offsets = [row.offset for row in rows if row.partition == partition]
        assert offsets == sorted(offsets), "the records of a partition did not come in order"
    return sorted((row._replace(headers=list(row.headers)) for row in rows), key=lambda row: row[:2])


def corpus() -> list[Row]:
    """Nulls, headers, emptiness, all bytes, little and much."""
    random = Random(1)
    contents: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"key", b"value", []),
        (None, b"no key", []),
        (b"no value", None, []),
        (b"", b"", []),
        (b"headers", b"v", [("one", b"1"), ("none", None), ("empty", b""), ("one", b"again"), ("größe", b"\xff")]),
        ("größe".encode(), bytes(range(256)), []),
        (b"much", random.randbytes(100_000), []),
        (b"much of the same", b"0123456789" * 10_000, [("h", bytes(1000))]),
        *[(b"%d" % number, b"value %d" % number, []) for number in range(200)],
    ]
    return [
        Row(number % 3, number // 3, T0 + number * 1000, key, value, headers)
        for number, (key, value, headers) in enumerate(contents)
    ]


# --- records ----------------------------------------------------------------------------------------------------------


@WRITER_AND_CODEC
def test_what_one_writes_all_read(servers: str, client: Client, codec: str) -> None:
    topic = make_topic(servers, f"codec-{client.name}-{codec}")
    rows = corpus()
    if not client.null_headers:
        rows = [row._replace(headers=[(key, value or b"") for key, value in row.headers]) for row in rows]
    acknowledged = client.write(servers, topic, iter(rows), compression_type=codec)
    assert sorted((row.partition, offset) for row, offset in acknowledged) == sorted(row[:2] for row in rows)
    for reader in ALL:
        if codec in reader.codecs:
            found = in_order(reader.read(servers, topic, dict.fromkeys(range(3), 0), len(rows)))
            assert found == sorted(rows, key=lambda row: row[:2]), reader.name


@pytest.fixture(scope="module")
def hundred(cluster: Cluster) -> str:
    """One partition with records 0 to 99, a second apart."""
    topic = make_topic(cluster.bootstrap_servers, "hundred", 1)
    rows = (Row(0, number, T0 + number * 1000, None, b"%d" % number) for number in range(100))
    ALL[-1].write(cluster.bootstrap_servers, topic, rows)
    return topic


@EACH
def test_a_reader_begins_where_it_wants_to(servers: str, hundred: str, client: Client) -> None:
    for start in (0, 37, 99):
        found = client.read(servers, hundred, {0: start}, 100 - start)
        assert [row.offset for row in found] == list(range(start, 100))
        assert [row.value for row in found] == [b"%d" % number for number in range(start, 100)]


@EACH
def test_a_log_says_where_it_begins_and_ends(servers: str, hundred: str, client: Client) -> None:
    assert client.ends(servers, hundred, 0) == (0, 100)


@EACH
def test_a_moment_has_an_offset(servers: str, hundred: str, client: Client) -> None:
    for after_ms, offset in ((-1, 0), (0, 0), (1, 1), (50_000, 50), (98_001, 99)):
        assert client.offset_at(servers, hundred, 0, T0 + after_ms) == offset
    assert client.offset_at(servers, hundred, 0, T0 + 99_001) is None


@EACH
def test_the_time_of_the_append_may_take_the_place_of_the_producers(servers: str, client: Client) -> None:
    topic = make_topic(servers, f"append-time-{client.name}", 1, **{"message.timestamp.type": "LogAppendTime"})
    before = time.time() * 1000
    client.write(servers, topic, iter([Row(0, 0, T0, b"k", b"v")]))
    for reader in ALL:
        (row,) = reader.read(servers, topic, {0: 0}, 1)
        assert before - 1000 <= row.timestamp <= time.time() * 1000 + 1000


# --- topics -----------------------------------------------------------------------------------------------------------


@EACH
def test_topics_are_made_listed_and_deleted(servers: str, client: Client) -> None:
    topic = f"made-by-{client.name}"
    client.create(servers, topic, 4, 2)
    for other in ALL:
        wait_until(lambda other=other: topic in other.topics(servers))  # type: ignore[misc]
    with Admin(bootstrap_servers=servers) as admin:
        partitions = admin.describe_topics([topic])[topic].partitions
    assert [len(partition.replicas) for partition in partitions] == [2] * 4
    client.delete(servers, topic)
    for other in ALL:
        wait_until(lambda other=other: topic not in other.topics(servers))  # type: ignore[misc]


@OTHER
def test_a_topic_that_there_is_cannot_be_made(servers: str, hundred: str, client: Client) -> None:
    with pytest.raises(Exception, match=r"(?i)exist"):
        client.create(servers, hundred, 1, 1)


@EACH
def test_a_topic_is_made_on_the_way(servers: str, client: Client) -> None:
    topic = f"on-the-way-{client.name}"
    assert client.write(servers, topic, iter([Row(0, 0, T0, None, b"first")])) == [(Row(0, 0, T0, None, b"first"), 0)]
    assert client.read(servers, topic, {0: 0}, 1)[0].value == b"first"
