"""``consumer-perf-test``: how fast can records be read? As kafka-consumer-perf-test.sh does.

::

    consumer-perf-test --bootstrap-server HOST:PORT --topic T --num-records 100000

It reads with a group of its own (``--group``) from the oldest record on, or (``--from-latest``) from the end, until it
has N records or none has come for ``--timeout`` milliseconds. A table in CSV says how much that was, in megabytes and
records, altogether and a second: over the whole time, and without the time that the group needed to share out its
partitions (``rebalance.time.ms``). ``--show-detailed-stats`` prints a row every ``--reporting-interval`` milliseconds
instead.

Follows org.apache.kafka.tools.ConsumerPerformance.
"""

import argparse
import re
import time
from datetime import datetime
from random import Random
from typing import Any

from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer, ConsumerRebalanceListener

_POLL_MS = 100
_MEGABYTE = 1024 * 1024
_COLUMNS = (
    *("data.consumed.in.MB", "MB.sec", "data.consumed.in.nMsg", "nMsg.sec"),
    *("rebalance.time.ms", "fetch.time.ms", "fetch.MB.sec", "fetch.nMsg.sec"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", metavar="NAME", help="the topic to read")
    what.add_argument("--include", metavar="PATTERN", help="a regular expression: read all topics that it fits")
    add("--num-records", "--messages", required=True, type=int, metavar="N", help="stop after this many")
    add("--group", metavar="GROUP", help="the group to read as (default: a new one)")
    add("--fetch-size", type=int, default=_MEGABYTE, metavar="BYTES", help="at most, of one partition (1048576)")
    add("--from-latest", action="store_true", help="begin at the end, where the group has committed nothing")
    add("--timeout", type=int, default=10_000, metavar="MS", help="stop when no record has come for this long (10000)")
    add("--reporting-interval", type=int, default=5000, metavar="MS", help="the time that a row is about (5000)")
    add("--show-detailed-stats", action="store_true", help="a row for each interval")
    add("--hide-header", action="store_true", help="without the first line")


def run(options: argparse.Namespace) -> int:
    """Read, and print how fast that was."""
    for name in ("num_records", "reporting_interval"):
        if getattr(options, name) <= 0:
            raise CommandError(f"--{name.replace('_', '-')} is {getattr(options, name)}, but must be greater than zero")
    pattern = None if options.include is None else _pattern(options.include)
    if not options.hide_header:
        first = ("time", "threadId") if options.show_detailed_stats else ("start.time", "end.time")
        say(", ".join((*first, *_COLUMNS)))
    settings = _settings(options)
    with Consumer(**settings) as consumer, answers(consumer):
        times = _JoinTimes()
        consumer.subscribe([] if options.topic is None else [options.topic], pattern, times)
        _read(consumer, options, times)
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings = {"client.id": "perf-consumer-client", **client_settings(options)}
    settings["group.id"] = options.group or f"perf-consumer-{Random().randrange(100_000)}"
    settings["max.partition.fetch.bytes"] = options.fetch_size
    settings["auto.offset.reset"] = "latest" if options.from_latest else "earliest"
    settings["check.crcs"] = False
    return settings


class _JoinTimes(ConsumerRebalanceListener):
    """How long the consumer had no partition."""

    def __init__(self) -> None:
        self.total_ms = 0
        self.since_report_ms = 0
        self._own: set[TopicPartition] = set()
        self._began_ms = _now_ms()

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._own -= revoked
        if not self._own:
            self._began_ms = _now_ms()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        if not self._own:
            elapsed_ms = _now_ms() - self._began_ms
            self.total_ms += elapsed_ms
            self.since_report_ms += elapsed_ms
        self._own |= assigned


def _read(consumer: Consumer, options: argparse.Namespace, times: _JoinTimes) -> None:
    began_ms = now_ms = reported_ms = arrived_ms = _now_ms()
    size = count = reported_size = reported_count = 0
    while count < options.num_records and now_ms - arrived_ms <= options.timeout:
        found = consumer.poll(_POLL_MS)
        now_ms = _now_ms()
        if found:
            arrived_ms = now_ms
        for records in found.values():
            count += len(records)
            size += sum(len(record.key or b"") + len(record.value or b"") for record in records)
        if found and now_ms - reported_ms >= options.reporting_interval:
            if options.show_detailed_stats:
                part = (size - reported_size, count - reported_count, now_ms - reported_ms, times.since_report_ms)
                say(", ".join((_clock(now_ms), "0", *_cells(size, count, *part))))
            times.since_report_ms = 0
            reported_ms, reported_size, reported_count = now_ms, size, count
    if count < options.num_records:
        say(
            "WARNING: Exiting before consuming the expected number of records: timeout"
            f" ({options.timeout} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    if not options.show_detailed_stats:
        ended_ms = _now_ms()
        part = (size, count, ended_ms - began_ms, times.total_ms)
        say(", ".join((_clock(began_ms), _clock(ended_ms), *_cells(size, count, *part))))


def _cells(
    size: int, count: int, part_bytes: int, part_count: int, elapsed_ms: int, join_ms: int
) -> tuple[str, str, str, str, str, str, str, str]:
    """The columns: how much it was in all, and the rates of a part of the time."""
    fetch_ms = elapsed_ms - join_ms
    megabytes = part_bytes / _MEGABYTE
    return (
        f"{size / _MEGABYTE:.4f}",
        f"{_rate(megabytes, elapsed_ms):.4f}",
        str(count),
        f"{_rate(part_count, elapsed_ms):.4f}",
        str(join_ms),
        str(fetch_ms),
        f"{_rate(megabytes, fetch_ms):.4f}",
        f"{_rate(part_count, fetch_ms):.4f}",
    )


def _rate(amount: float, elapsed_ms: int) -> float:
    """A second."""
    return 1000 * amount / elapsed_ms if elapsed_ms > 0 else 0.0


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise CommandError(f"{text} is no regular expression: {error}") from None
    return text


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _clock(milliseconds: int) -> str:
    """As the tool's own format has it: 2026-01-31 23:59:59:999."""
    return datetime.fromtimestamp(milliseconds // 1000).strftime("%Y-%m-%d %H:%M:%S") + f":{milliseconds % 1000:03}"
