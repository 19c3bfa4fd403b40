"""Apache Kafka's own tools, which are its Java clients, against pykraft: where Java and Maven are."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.harness import apache_kafka
from tests.harness.apache_kafka import java_command
from tests.interop.clients import ALL, Row
from tests.interop.test_others import T0, make_topic

LIMIT_S = 60


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


def tool(servers: str, main: str, *arguments: str, words: str = "") -> str:
    """Run one of the tools; what it printed."""
    done = subprocess.run(
        java_command(apache_kafka.VERSION, f"org.apache.kafka.tools.{main}", "--bootstrap-server", servers, *arguments),
        check=False,
        input=words,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_topics(servers: str) -> None:
    made = ("--topic", "java-made", "--partitions", "2", "--replication-factor", "3")
    assert "Created topic java-made" in tool(servers, "TopicCommand", "--create", *made)
    assert "java-made" in tool(servers, "TopicCommand", "--list").split()
    tool(servers, "TopicCommand", "--delete", "--topic", "java-made")


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_java_writes_the_others_read(servers: str, codec: str) -> None:
    topic = make_topic(servers, f"java-writes-{codec}", 1)
    parsed = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    words = "".join(f"h:{number}\tkey {number}\tvalue {number}\n" for number in range(1000))
    tool(servers, "ConsoleProducer", "--topic", topic, "--compression-codec", codec, *parsed, words=words)
    for reader in ALL:
        found = reader.read(servers, topic, {0: 0}, 1000)
        assert [(row.key, row.value, list(row.headers)) for row in found] == [
            (b"key %d" % number, b"value %d" % number, [("h", b"%d" % number)]) for number in range(1000)
        ], reader.name


def test_java_reads_what_the_others_write(servers: str) -> None:
    topic = make_topic(servers, "java-reads", 1)
    count = 0
    for writer in ALL:
        for codec in writer.codecs:
            writer.write(servers, topic, rows(count), compression_type=codec)
            count += 100
    wanted = ("print.key", "print.timestamp", "print.headers", "print.offset")
    shown = [part for name in wanted for part in ("--formatter-property", f"{name}=true")]
    where = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", str(count))
    lines = tool(servers, "consumer.ConsoleConsumer", *where, *shown).splitlines()
    assert lines == [
        f"CreateTime:{T0 + number}\tOffset:{number}\th:{number}\tkey {number}\tvalue {number}"
        for number in range(count)
    ]


def rows(start: int) -> Iterator[Row]:
    for number in range(start, start + 100):
        yield Row(0, -1, T0 + number, b"key %d" % number, b"value %d" % number, [("h", b"%d" % number)])


def test_offsets_and_the_quorum_are_told(servers: str) -> None:
    topic = make_topic(servers, "java-offsets", 1)
    ALL[-1].write(servers, topic, rows(0))
    for time, offset in (("-1", 100), (str(T0 + 50), 50)):
        assert tool(servers, "GetOffsetShell", "--topic", topic, "--time", time).split() == [f"{topic}:0:{offset}"]
    assert re.search(r"LeaderId:\s+[123]\n", tool(servers, "MetadataQuorumCommand", "describe", "--status"))
