"""``get-offsets``: print an offset of each partition, as kafka-get-offsets.sh does, as ``topic:partition:offset``.

``--time`` says which: ``latest`` (-1) the end, ``earliest`` (-2) the start, ``max-timestamp`` (-3) the record with the
largest timestamp, or milliseconds since 1970: the first record at or after then. Where there is none, there is no line.

Which partitions are meant is said in one of two ways: ``--topic`` and ``--partitions``, or ``--topic-partitions`` with
a list such as ``flights:0-3,seats:1,orders:2-,:0``, whose ranges leave out their upper end.

Follows org.apache.kafka.tools.GetOffsetShell.
"""

import argparse
import re
from collections.abc import Callable
from contextlib import suppress

from pykraft.admin import Admin
from pykraft.client.arguments import LARGEST_INT64
from pykraft.commands.as_json import add_json, say_json
from pykraft.commands.common import (
    INTERNAL_TOPICS,
    CommandError,
    add_client_arguments,
    answers,
    client_settings,
    say,
    tell,
    topic_filter,
)
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

MAX_TIMESTAMP = -3
_TIMES = {
    "latest": LATEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
}
_NO_LEADER = -1
_NO_OFFSET = -1
_RULE = re.compile(r"(?P<topic>[^:,]*)(:((?P<one>\d{1,10})|(?P<from>\d{0,10})-(?P<to>\d{0,10}))?)?")

PartitionFilter = Callable[[TopicPartition], bool]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument("--topic", metavar="PATTERN", help="a regular expression (default: all topics)")
    parser.add_argument("--partitions", metavar="N,...", help="only these partitions")
    parser.add_argument("--topic-partitions", metavar="PATTERN:RANGE,...", help="which partitions of which topics")
    parser.add_argument("--time", default="latest", help="latest, earliest, max-timestamp, or milliseconds since 1970")
    add_json(parser)
    parser.add_argument("--exclude-internal-topics", action="store_true", help="without Kafka's own topics")


def run(options: argparse.Namespace) -> int:
    """Print the offsets, sorted by the partitions' names."""
    timestamp = parse_time(options.time)
    is_meant = partition_filter(options.topic, options.partitions, options.topic_partitions)
    hidden = INTERNAL_TOPICS if options.exclude_internal_topics else frozenset()
    with Admin(**client_settings(options)) as admin, answers(admin):
        wanted = {
            key: partition.leader
            for topic in admin.describe_topics().values()
            for partition in topic.partitions
            if is_meant(key := TopicPartition(topic.name, partition.partition)) and topic.name not in hidden
        }
        if not wanted:
            raise CommandError("no partition fits what was asked for")
        for key, leader in sorted(wanted.items()):
            if leader == _NO_LEADER:
                tell(f"Skip getting offsets for topic-partition {key} due to error: it has no leader")
        led = {key: timestamp for key, leader in wanted.items() if leader != _NO_LEADER}
        found = admin.list_offsets(led)
    if options.json:
        say_json(offsets={key: place for key, place in sorted(found.items()) if place.offset != _NO_OFFSET})
        return 0
    for key, place in sorted(found.items(), key=lambda item: str(item[0])):
        if place.offset != _NO_OFFSET:
            say(f"{key.topic}:{key.partition}:{place.offset}")
    return 0


def parse_time(text: str) -> int:
    """The timestamp to ask for; CommandError if it is none."""
    if text in _TIMES:
        return _TIMES[text]
    with suppress(ValueError):
        if MAX_TIMESTAMP <= int(text) <= LARGEST_INT64:
            return int(text)
    raise CommandError(f"--time is {text}, but must be latest, earliest, max-timestamp or milliseconds since 1970")


def partition_filter(topic: str | None, partitions: str | None, rules: str | None) -> PartitionFilter:
    """Which partitions are meant; CommandError if what was said contradicts itself or cannot be read."""
    if rules is not None:
        if topic is not None or partitions is not None:
            raise CommandError("--topic-partitions says it all: leave out --topic and --partitions")
        filters = [_rule(rule) for rule in rules.split(",")]
        return lambda key: any(is_meant(key) for is_meant in filters)
    topic_is_meant = topic_filter(topic)
    try:
        numbers = {int(number) for number in partitions.split(",")} if partitions else set()
    except ValueError:
        raise CommandError(f"--partitions is {partitions}, but must be numbers with commas between them") from None
    return lambda key: topic_is_meant(key.topic) and (not numbers or key.partition in numbers)


def _rule(text: str) -> PartitionFilter:
    found = _RULE.fullmatch(text)
    if found is None:
        raise CommandError(
            f"--topic-partitions has {text}, but must have TOPIC, TOPIC:N, TOPIC:N-M, TOPIC:N- or TOPIC:-M"
        )
    topic_is_meant = topic_filter(found["topic"] or None)
    if found["one"]:
        only = int(found["one"])
        return lambda key: topic_is_meant(key.topic) and key.partition == only
    low = int(found["from"] or 0)
    high = int(found["to"]) if found["to"] else None
    return lambda key: topic_is_meant(key.topic) and low <= key.partition and (high is None or key.partition < high)
