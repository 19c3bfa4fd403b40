"""``producer-perf-test``: how fast can records be sent? As kafka-producer-perf-test.sh does.

::

    producer-perf-test --bootstrap-server HOST:PORT --topic T --num-records 100000 --record-size 100 --throughput -1

Exactly one option says what a value is: ``--record-size`` bytes of random capital letters, a line of ``--payload-file``
drawn at random, or (``--payload-monotonic``) the record's number. ``--throughput`` limits records a second, -1 does
not. A line is printed every ``--reporting-interval`` milliseconds, and one at the end.

*Latency* runs from the call of ``send`` to the acknowledgement. Without a limit of the throughput it is mostly the time
that records wait in the producer's own buffer. The records of ``--warmup-records`` count in the first summary only; a
second one is for the rest.

With a transactional id, or ``--transaction-duration-ms``, records are sent in transactions.

Follows org.apache.kafka.tools.ProducerPerformance.
"""

import argparse
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pykraft.commands.common import CommandError, add_bootstrap_server, answers, bootstrap_server, pairs, read_text, say
from pykraft.common.settings.config import parse_properties
from pykraft.producer import Producer

_MOST_LATENCIES = 500_000
_PERCENTILES = (0.5, 0.95, 0.99, 0.999)
_MEGABYTE = 1024 * 1024
_USUAL_DURATION_MS = 3000
_LETTERS = bytes(65 + octet % 26 for octet in range(256))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_bootstrap_server(parser)
    add("--topic", required=True, metavar="NAME", help="where the records go")
    add("--num-records", required=True, type=int, metavar="N", help="this many")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, metavar="BYTES", help="values of this size, at random")
    payload.add_argument("--payload-file", type=Path, metavar="FILE", help="values out of this file, at random")
    payload.add_argument("--payload-monotonic", action="store_true", help="values 0, 1, 2, ...")
    add("--payload-delimiter", default="\\n", metavar="TEXT", help="what is between two values of the file (\\n)")
    add("--throughput", required=True, type=float, metavar="N", help="at most about N records a second; -1: no limit")
    for name in ("--command-property", "--producer-props"):
        help_text = "settings of the producer" if name == "--command-property" else argparse.SUPPRESS
        add(name, nargs="+", action="extend", dest="command_property", metavar="KEY=VALUE", help=help_text)
    add("--command-config", "--producer.config", type=Path, metavar="FILE", help="a properties file for the producer")
    add("--transactional-id", metavar="ID", help="send in transactions of this id")
    add("--transaction-duration-ms", type=int, metavar="MS", help="commit this often (3000)")
    add("--warmup-records", type=int, default=0, metavar="N", help="the first N count in the first summary only")
    add("--reporting-interval", type=int, default=5000, metavar="MS", help="print a line this often (5000)")


def run(options: argparse.Namespace) -> int:
    """Send the records, and print how fast that was."""
    _check(options)
    settings = _settings(options)
    payload = _payloads(options)
    with Producer(**settings) as producer, answers(producer):
        _PerformanceRun(producer, options, "transactional.id" in settings).send_all(payload)
    return 0


def _check(options: argparse.Namespace) -> None:
    positive = ("num_records", "record_size", "transaction_duration_ms", "reporting_interval")
    for name in positive:
        value = getattr(options, name)
        if value is not None and value <= 0:
            raise CommandError(f"--{name.replace('_', '-')} is {value}, but must be greater than zero")
    if options.throughput == 0:
        raise CommandError("--throughput is 0: no record would ever be sent; -1 is no limit")
    if options.warmup_records >= options.num_records:
        raise CommandError("--warmup-records must be smaller than --num-records")


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The producer's settings: the file's, then the properties', then those of the options."""
    said = parse_properties(read_text(options.command_config)) if options.command_config else {}
    said |= pairs("--command-property", options.command_property or [])
    settings: dict[str, Any] = {name.replace("_", "."): value for name, value in said.items()}
    settings.setdefault("client.id", "perf-producer-client")
    if options.bootstrap_server is not None:
        settings["bootstrap.servers"] = options.bootstrap_server
    if not settings.get("bootstrap.servers"):
        settings["bootstrap.servers"] = bootstrap_server(options)
    if options.transactional_id is not None:
        settings["transactional.id"] = options.transactional_id
    elif options.transaction_duration_ms is not None:
        settings.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    return settings


def _payloads(options: argparse.Namespace) -> Iterator[bytes]:
    """The values."""
    random = Random(0)
    if options.payload_monotonic:
        return (b"%d" % number for number in range(options.num_records))
    if options.record_size is not None:
        size = options.record_size
        return (random.randbytes(size).translate(_LETTERS) for _ in range(options.num_records))
    text = read_text(options.payload_file)
    delimiter = "\n" if options.payload_delimiter == "\\n" else options.payload_delimiter
    if not delimiter:
        raise CommandError("--payload-delimiter must not be empty")
    say(f"Reading payloads from: {options.payload_file.absolute()}")
    found = [part.encode() for part in text.removesuffix(delimiter).split(delimiter)] if text else []
    if not found:
        raise CommandError(f"{options.payload_file} is empty")
    say(f"Number of records read: {len(found)}")
    return (random.choice(found) for _ in range(options.num_records))


class _PerformanceRun:
    """One run. Acknowledgements come in the producer's thread, one after the other."""

    def __init__(self, producer: Producer, options: argparse.Namespace, is_transactional: bool) -> None:
        self._producer = producer
        self._options = options
        self._is_transactional = is_transactional
        self._failure: BaseException | None = None
        self._sums: list[Statistics] = []
        self._lines: deque[str] = deque()
        """To print: written by the producer's thread, printed by this one."""

    def send_all(self, payloads: Iterator[bytes]) -> None:
        options = self._options
        if options.warmup_records > 0:
            say(
                f"Warmup first {options.warmup_records} records. Steady state results will print after the complete"
                " test summary."
            )
        if self._is_transactional:
            self._producer.init_transactions()
        began = _now_ms()
        self._sums.append(Statistics(options.num_records, options.reporting_interval, began))
        committed_at: float | None = None
        for number, value in enumerate(payloads):
            if self._is_transactional and committed_at is None:
                self._producer.begin_transaction()
                committed_at = _now_ms()
            if number == options.warmup_records > 0:
                self._begin_steady_state(options.num_records - options.warmup_records)
            self._send(value)
            if committed_at is not None and _now_ms() - committed_at >= self._duration_ms:
                self._producer.commit_transaction()
                committed_at = None
            self._say()
            self._throttle(began, number + 1)
        if committed_at is not None:
            self._producer.commit_transaction()
        self._producer.flush()
        self._say()
        if self._failure is not None:
            raise self._failure
        for statistics in self._sums:
            say(statistics.total(_now_ms()))

    def _say(self) -> None:
        while self._lines:
            say(self._lines.popleft())

    @property
    def _duration_ms(self) -> int:
        return self._options.transaction_duration_ms or _USUAL_DURATION_MS

    def _begin_steady_state(self, records: int) -> None:
        self._sums[0].prints = False
        self._sums.append(Statistics(records, self._options.reporting_interval, _now_ms(), " steady state"))

    def _send(self, value: bytes) -> None:
        if self._failure is not None:
            raise self._failure
        sent, size, sums = _now_ms(), len(value), tuple(self._sums)

        def on_done(done: Any) -> None:
            error = done.exception()
            if error is not None:
                self._failure = self._failure or error
                return
            now = _now_ms()
            for statistics in sums:
                self._lines.extend(statistics.record(int(now - sent), size, now))

        self._producer.send(self._options.topic, value).add_done_callback(on_done)

    def _throttle(self, began: float, sent: int) -> None:
        if self._options.throughput > 0:
            ahead_ms = began + 1000 * sent / self._options.throughput - _now_ms()
            if ahead_ms > 1:
                time.sleep(ahead_ms / 1000)


def _now_ms() -> float:
    return time.monotonic() * 1000


@dataclass
class _Sums:
    """Over some records."""

    count: int = 0
    size: int = 0
    latency_ms: int = 0
    longest_ms: int = 0

    def add(self, latency_ms: int, size: int) -> None:
        self.count += 1
        self.size += size
        self.latency_ms += latency_ms
        self.longest_ms = max(self.longest_ms, latency_ms)

    @property
    def mean_ms(self) -> float:
        return self.latency_ms / self.count if self.count else 0.0

    def per_second(self, elapsed_ms: float) -> tuple[float, float]:
        """Records and megabytes."""
        return 1000 * self.count / elapsed_ms, 1000 * self.size / elapsed_ms / _MEGABYTE


class Statistics:
    """Counts acknowledged records, and keeps up to 500,000 of their latencies."""

    def __init__(self, records: int, interval_ms: int, now_ms: float, what: str = "") -> None:
        self._began_ms = self._window_began_ms = now_ms
        self._interval_ms = interval_ms
        self._what = what
        self._sampling = records // min(records, _MOST_LATENCIES)
        self._latencies: list[int] = []
        self._all, self._window = _Sums(), _Sums()
        self.prints = True

    def record(self, latency_ms: int, size: int, now_ms: float) -> Iterator[str]:
        """Count a record; the lines to print after it."""
        if self._all.count % self._sampling == 0:
            self._latencies.append(latency_ms)
        self._all.add(latency_ms, size)
        self._window.add(latency_ms, size)
        if now_ms - self._window_began_ms >= self._interval_ms:
            if self.prints:
                if self._what and self._all.count == self._window.count:
                    yield "In steady state."
                window = self._window
                rate, speed = window.per_second(now_ms - self._window_began_ms)
                yield (
                    f"{window.count} records sent, {rate:.1f} records/sec ({speed:.2f} MB/sec),"
                    f" {window.mean_ms:.1f} ms avg latency, {window.longest_ms:.1f} ms max latency."
                )
            self._window_began_ms = now_ms
            self._window = _Sums()

    def total(self, now_ms: float) -> str:
        """The summary."""
        rate, speed = self._all.per_second(max(1.0, now_ms - self._began_ms))
        high = ", ".join(
            f"{latency_ms} ms {100 * share:.4g}th"
            for share, latency_ms in zip(_PERCENTILES, percentiles(self._latencies, _PERCENTILES), strict=True)
        )
        return (
            f"{self._all.count}{self._what} records sent, {rate:.6f} records/sec ({speed:.2f} MB/sec),"
            f" {self._all.mean_ms:.2f} ms avg latency, {self._all.longest_ms:.2f} ms max latency, {high}."
        )


def percentiles(latencies: Sequence[int], shares: Sequence[float]) -> list[int]:
    """The latency that this share of the records did not exceed, for each share."""
    found = sorted(latencies) or [0]
    return [found[int(share * len(found))] for share in shares]
