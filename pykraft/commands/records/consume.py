"""``consume``: print records as lines, as kafka-console-consumer.sh does.

It begins at the end of the partitions, with ``--from-beginning`` at their start, or with ``--partition N --offset M``
at that offset, and goes on until it is interrupted, has printed ``--max-messages``, or has waited ``--timeout-ms`` for
the next one; a negative limit is none.

A line is the value. ``--formatter-property`` puts more in front of it: ``print.timestamp``, ``print.partition``,
``print.offset``, ``print.epoch``, ``print.headers``, ``print.key``, each ``=true``, in this order and with a tab
(``key.separator``) between; ``print.value=false`` leaves the value out. ``line.separator``, ``headers.separator`` and
``null.literal`` say other texts.

With ``--group`` the consumers of that group share the partitions, and each goes on where the group has committed; what
is printed is committed at the end, and every ``auto.commit.interval.ms`` before. Without it, positions are not kept
from one run to the next.

Follows org.apache.kafka.tools.consumer.{ConsoleConsumer,DefaultMessageFormatter}.
"""

import argparse
import re
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pykraft.admin import Admin
from pykraft.client.administration.admin import TopicDescription
from pykraft.client.arguments import LARGEST_INT64
from pykraft.client.config import COMMON_CONFIG
from pykraft.commands.common import (
    CommandError,
    add_client_arguments,
    answers,
    client_settings,
    pairs,
    read_text,
    tell,
    topic_filter,
)
from pykraft.common.settings.config import parse_properties
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer, ConsumerRecord

_DEFAULTS = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.epoch": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
_TEXTS = ("key.separator", "line.separator", "headers.separator", "null.literal")
_PATIENCE_MS = 1000
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser, ["--consumer.config"], ["--consumer-property"])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", metavar="NAME", help="the topic to read")
    what.add_argument("--include", metavar="PATTERN", help="a regular expression: read all topics that it fits now")
    parser.add_argument("--group", metavar="GROUP", help="share the partitions with this group, and commit")
    parser.add_argument("--partition", type=int, metavar="N", help="only this partition of the topic")
    parser.add_argument("--offset", metavar="M", help="with --partition: earliest, latest, or the offset to begin with")
    parser.add_argument("--from-beginning", action="store_true", help="begin with the oldest records")
    parser.add_argument("--max-messages", type=int, metavar="N", help="stop after this many records")
    parser.add_argument("--timeout-ms", type=int, metavar="MS", help="stop when no record has come for this long")
    parser.add_argument(
        "--isolation-level",
        choices=["read_uncommitted", "read_committed"],
        help="read_committed leaves out the records of open and aborted transactions",
    )
    parser.add_argument(
        "--formatter-config", type=Path, metavar="FILE", help="a properties file of --formatter-property's"
    )
    parser.add_argument(
        "--formatter-property",
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"what a line shows: {', '.join(_DEFAULTS)}; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Print until interrupted. The number of records goes to standard error."""
    of_file = parse_properties(read_text(options.formatter_config)) if options.formatter_config else {}
    formatter = LineFormatter(of_file | pairs("--formatter-property", options.formatter_property))
    offset = _offset(options)
    settings = _group_settings(options)
    if options.from_beginning:
        settings["auto.offset.reset"] = "earliest"
    if options.isolation_level:
        settings["isolation.level"] = options.isolation_level
    with Consumer(**settings) as consumer, answers(consumer):
        _begin(consumer, _topics(settings, options), options.partition, offset)
        _print(consumer, formatter, options)
    return 0


def _group_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The client's settings, and as which group's member it reads."""
    settings = client_settings(options)
    named = {group for group in (options.group, settings.get("group.id")) if group is not None}
    if len(named) > 1:
        raise CommandError(f"--group is {options.group}, and the settings name another group: {settings['group.id']}")
    if named and options.partition is not None:
        raise CommandError("--group and --partition exclude each other: a group shares out all partitions")
    if options.group is not None:
        settings["group.id"] = options.group
    return settings


def _print(consumer: Consumer, formatter: "LineFormatter", options: argparse.Namespace) -> None:
    count = 0
    try:
        with closing(_records(consumer, options.timeout_ms, options.max_messages)) as records:
            for record in records:
                sys.stdout.buffer.write(formatter.line(record))
                sys.stdout.buffer.flush()
                count += 1
    except KeyboardInterrupt:  # the usual end
        pass
    finally:
        tell(f"Processed a total of {count} messages")


def _offset(options: argparse.Namespace) -> str | int | None:
    if options.partition is not None and options.topic is None:
        raise CommandError("--partition needs --topic")
    if options.offset is None or options.offset in ("earliest", "latest"):
        offset: str | int | None = options.offset
    elif re.fullmatch("[0-9]{1,19}", options.offset) and int(options.offset) <= LARGEST_INT64:
        offset = int(options.offset)
    else:
        raise CommandError(f"--offset is {options.offset}, but must be earliest, latest or 0 to {LARGEST_INT64}")
    if offset is not None and options.partition is None:
        raise CommandError("--offset needs --partition")
    if offset is not None and options.from_beginning:
        raise CommandError("--from-beginning and --offset both say where to begin: leave one out")
    return offset


def _topics(settings: Mapping[str, Any], options: argparse.Namespace) -> list[TopicDescription]:
    """The topics to read. An administrator asks for them: a consumer's question would make a topic that is missing."""
    named = {key: value for key, value in settings.items() if key in COMMON_CONFIG.keys}
    with Admin(**named) as admin, answers(admin):
        if options.topic is not None:
            return list(admin.describe_topics([options.topic]).values())
        is_meant = topic_filter(options.include)
        found = [topic for name, topic in sorted(admin.describe_topics().items()) if is_meant(name)]
    if not found:
        raise CommandError(f"no topic fits {options.include}")
    return found


def _begin(consumer: Consumer, topics: list[TopicDescription], partition: int | None, offset: str | int | None) -> None:
    if partition is None:
        consumer.subscribe([topic.name for topic in topics])
        return
    (topic,) = topics
    if partition not in [each.partition for each in topic.partitions]:
        raise CommandError(f"{topic.name} has no partition {partition}: it has {len(topic.partitions)}")
    key = TopicPartition(topic.name, partition)
    consumer.assign([key])
    if isinstance(offset, int):
        consumer.seek(key, offset)
    elif offset == "earliest":
        consumer.seek_to_beginning(key)
    elif offset == "latest":
        consumer.seek_to_end(key)


def _records(consumer: Consumer, timeout_ms: int | None, limit: int | None) -> Generator[ConsumerRecord, None, None]:
    left = sys.maxsize if limit is None or limit < 0 else limit
    if timeout_ms is not None and timeout_ms < 0:
        timeout_ms = None
    while left > 0:
        found = consumer.poll(_PATIENCE_MS if timeout_ms is None else timeout_ms, max_records=min(left, 500))
        if not found and timeout_ms is not None:
            return
        waiting = [record for records in found.values() for record in records]
        try:
            while waiting:
                yield waiting[0]
                del waiting[0]
        finally:
            _go_back(consumer, waiting)
        left -= sum(map(len, found.values()))


def _go_back(consumer: Consumer, records: Sequence[ConsumerRecord]) -> None:
    """These were not printed, so they are not to be committed as read either."""
    own = consumer.assignment()
    for record in reversed(records):
        if record.topic_partition in own:
            consumer.seek(record.topic_partition, record.offset)


class LineFormatter:
    """Makes a line of a record."""

    def __init__(self, properties: dict[str, str]) -> None:
        """CommandError if a property is not known."""
        unknown = sorted(properties.keys() - _DEFAULTS.keys())
        if unknown:
            raise CommandError(f"{unknown[0]} says nothing about lines; {', '.join(_DEFAULTS)} do")
        values = {**_DEFAULTS, **properties}
        self._shown = {name for name, value in values.items() if value.strip().lower() == "true"}
        # Bytes that are no text stay what they were on the command line, as those of keys and values do.
        self._key_separator, self._line_separator, self._headers_separator, self._null = (
            values[name].encode(errors="surrogateescape") for name in _TEXTS
        )

    def line(self, record: ConsumerRecord) -> bytes:
        """The record's line, with its end. Keys and values go out as the bytes that they are."""
        columns = {
            "print.timestamp": f"{_TIMESTAMP_TYPES[record.timestamp_type]}:{record.timestamp}".encode(),
            "print.partition": f"Partition:{record.partition}".encode(),
            "print.offset": f"Offset:{record.offset}".encode(),
            "print.epoch": f"Epoch:{record.leader_epoch}".encode(),
            "print.headers": self._headers(record.headers),
            "print.key": self._bytes(record.key),
            "print.value": self._bytes(record.value),
        }
        shown = [content for name, content in columns.items() if name in self._shown]
        return self._key_separator.join(shown) + self._line_separator if shown else b""

    def _headers(self, headers: Iterable[tuple[str, bytes | None]]) -> bytes:
        texts = [name.encode() + b":" + self._bytes(content) for name, content in headers]
        return self._headers_separator.join(texts) or b"NO_HEADERS"

    def _bytes(self, data: bytes | None) -> bytes:
        return self._null if data is None else data
