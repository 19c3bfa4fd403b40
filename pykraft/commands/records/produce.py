"""``produce``: send each line of standard input as a record, as kafka-console-producer.sh does.

A line is a value. With ``--reader-property parse.key=true`` it is a key, a tab and a value, with ``parse.headers=true``
there are headers and a tab in front::

    source:a1,kind:test	JFK	delayed

An option such as ``--batch-size`` is a setting of the producer by the name that Kafka's tool has for it; a
``--command-property`` is weaker.

``key.separator``, ``headers.delimiter`` (after the headers), ``headers.separator`` (between two) and
``headers.key.separator`` (within one) say other separators, ``null.marker`` the text that means null, and
``ignore.error=true`` takes a line without separator as a value.

Follows org.apache.kafka.tools.{ConsoleProducer,LineMessageReader}.
"""

import argparse
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, pairs, read_text
from pykraft.common.settings.config import parse_properties
from pykraft.producer import Producer
from pykraft.records.record import Header

_DEFAULTS = {
    "parse.key": "false",
    "parse.headers": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "ignore.error": "false",
}
_SEPARATORS = ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
_NULL_MARKER = "null.marker"
_SETTINGS = {
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "max-memory-bytes": "buffer.memory",
    "timeout": "linger.ms",
    "max-block-ms": "max.block.ms",
    "message-send-max-retries": "retries",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "retry-backoff-ms": "retry.backoff.ms",
}
"""Options of Kafka's tool that are settings of the producer under other names. A later one is stronger."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser, ["--producer.config"], ["--producer-property"])
    parser.add_argument("--topic", required=True, metavar="NAME", help="where the records go")
    parser.add_argument("--sync", action="store_true", help="wait for each record before the next one is sent")
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        choices=["none", "gzip", "snappy", "lz4", "zstd"],
        help="compress the batches (gzip if none is named)",
    )
    for option, setting in _SETTINGS.items():
        parser.add_argument(f"--{option}", metavar="VALUE", help=f"the producer's {setting}")
    parser.add_argument("--reader-config", type=Path, metavar="FILE", help="a properties file of --reader-property's")
    parser.add_argument(
        "--reader-property",
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"how a line is read: {', '.join([*_DEFAULTS, _NULL_MARKER])}; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Send all lines. A record that fails ends the command with its reason; those before it are sent."""
    of_file = parse_properties(read_text(options.reader_config)) if options.reader_config else {}
    reader = LineReader(of_file | pairs("--reader-property", options.reader_property))
    settings = client_settings(options)
    if settings.get("transactional.id"):
        raise CommandError("transactional.id is set, but produce begins no transaction: leave it out")
    if options.compression_codec:
        settings["compression.type"] = options.compression_codec
    for option, setting in _SETTINGS.items():
        value = getattr(options, option.replace("-", "_"))
        if value is not None:
            settings[setting] = value
    with Producer(**settings) as producer, answers(producer):
        _send(producer, reader, options)
    return 0


def _send(producer: Producer, reader: "LineReader", options: argparse.Namespace) -> None:
    failed: list[BaseException] = []
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline=None)
    try:
        for line in reader.read(lines):
            future = producer.send(options.topic, line.value, line.key, line.headers)
            future.add_errback(failed.append)
            if options.sync:
                future.result()
            if failed:
                break
        producer.flush()
    finally:
        lines.detach()
    if failed:
        raise failed[0]


class Line(NamedTuple):
    """One line, taken apart."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LineReader:
    """Takes lines apart."""

    def __init__(self, properties: dict[str, str]) -> None:
        """CommandError if a property is not known, or two separators are the same."""
        unknown = sorted(properties.keys() - _DEFAULTS.keys() - {_NULL_MARKER})
        if unknown:
            raise CommandError(f"{unknown[0]} says nothing about lines; {', '.join([*_DEFAULTS, _NULL_MARKER])} do")
        values = {**_DEFAULTS, **properties}
        self._parses_key = values["parse.key"].strip().lower() == "true"
        self._parses_headers = values["parse.headers"].strip().lower() == "true"
        self._ignores_errors = values["ignore.error"].strip().lower() == "true"
        self._key_separator, self._delimiter, self._separator, self._key_of_header = (
            values[name] for name in _SEPARATORS
        )
        self._null = properties.get(_NULL_MARKER)
        for name in _SEPARATORS:
            if not values[name] or values[name] == self._null:
                raise CommandError(f"{name} must not be {'empty' if not values[name] else 'the null.marker'}")
        for one, other in (("headers.delimiter", "headers.separator"), ("headers.delimiter", "headers.key.separator")):
            if values[one] == values[other]:
                raise CommandError(f"{one} and {other} must not be the same")
        if self._separator == self._key_of_header:
            raise CommandError("headers.separator and headers.key.separator must not be the same")

    def read(self, lines: io.TextIOBase) -> Iterator[Line]:
        """The lines, taken apart; CommandError says which cannot be."""
        for number, line in enumerate(lines, start=1):
            yield self.parse(number, line.removesuffix("\n"))

    def parse(self, number: int, line: str) -> Line:
        """One line; its number is for the error."""
        headers: str | None = None
        key: str | None = None
        rest = line
        if self._parses_headers:
            headers, rest = self._split(number, rest, self._delimiter, "headers.delimiter")
        if self._parses_key:
            key, rest = self._split(number, rest, self._key_separator, "key.separator")
        is_bare = headers is None or headers == self._null
        return Line(self._bytes(key), self._bytes(rest), [] if is_bare else self._headers(number, headers or ""))

    def _split(self, number: int, text: str, separator: str, name: str) -> tuple[str | None, str]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._ignores_errors:
            return None, text
        raise CommandError(f"line {number} has no {name} {separator!r}: {text!r}")

    def _headers(self, number: int, text: str) -> list[Header]:
        headers: list[Header] = []
        for pair in text.split(self._separator):
            name, found, content = pair.partition(self._key_of_header)
            if not found and not self._ignores_errors:
                raise CommandError(f"line {number} has a header without {self._key_of_header!r}: {pair!r}")
            if name == self._null:
                raise CommandError(f"line {number} has a header whose key is the null.marker; a key is never null")
            headers.append((name, self._bytes(content) if found else None))
        return headers

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode()
