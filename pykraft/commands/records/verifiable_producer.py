"""``verifiable-producer``: send 0, 1, 2, ... and say of each record in a line of JSON whether it was acknowledged.

For tests of a whole system: what was acknowledged must be there afterwards, as ``verifiable-consumer`` says. It sends
until it is interrupted, or ``--max-messages``. Like kafka-verifiable-producer.sh it sends each record once
(``retries=0``); a file of settings may say otherwise.

Follows org.apache.kafka.tools.VerifiableProducer.
"""

import argparse
import itertools
import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykraft.commands.common import add_bootstrap_server, bootstrap_server, pairs, read_text, say
from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import parse_properties
from pykraft.producer import Producer, RecordFuture

_MS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_bootstrap_server(parser)
    add("--topic", required=True, metavar="NAME", help="where the records go")
    add("--max-messages", type=int, default=-1, metavar="N", help="this many; -1: until it is interrupted (-1)")
    add("--throughput", type=int, default=-1, metavar="N", help="at most about N records a second; -1: no limit (-1)")
    add("--acks", type=int, default=-1, choices=[0, 1, -1], help="which replicas acknowledge a record (-1)")
    add("--message-create-time", type=int, default=-1, metavar="MS", help="timestamps from here on (-1: now)")
    add("--value-prefix", type=int, metavar="N", help="values are N.0, N.1, ...")
    add("--repeating-keys", type=int, metavar="N", help="keys are 0 to N-1, again and again")
    add("--command-config", "--producer.config", type=Path, metavar="FILE", help="a properties file for the producer")
    add("--command-property", action="append", default=[], metavar="KEY=VALUE", help=argparse.SUPPRESS)


def event(name: str, **fields: Any) -> None:
    """Print what has happened."""
    say(json.dumps({"timestamp": time.time_ns() // _MS, "name": name, **fields}, separators=(",", ":")))


def run(options: argparse.Namespace) -> int:
    """Send until the last one, or until a signal."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap_server(options), "acks": options.acks, "retries": 0}
    if options.command_config:
        settings |= parse_properties(read_text(options.command_config))
    settings |= pairs("--command-property", options.command_property)
    begun_ms = time.time_ns() // _MS
    producer = Producer(**settings)
    sending = _Sending(producer, options, begun_ms)
    try:
        event("startup_complete")
        sending.run()
    except KeyboardInterrupt:
        pass
    finally:
        producer.close()
        event("shutdown_complete")
    took_ms = max(1, time.time_ns() // _MS - begun_ms)
    event(
        "tool_data",
        sent=sending.sent,
        acked=sending.acknowledged,
        target_throughput=options.throughput,
        avg_throughput=1000 * sending.acknowledged / took_ms,
    )
    return 0


class _Sending:
    def __init__(self, producer: Producer, options: argparse.Namespace, begun_ms: int) -> None:
        self._producer, self._options, self._begun_ms = producer, options, begun_ms
        self._lock = threading.Lock()
        self._created: int | None = None if options.message_create_time < 0 else options.message_create_time
        self.sent = self.acknowledged = 0

    def run(self) -> None:
        most = self._options.max_messages
        for number in itertools.count() if most < 0 else range(most):
            self._send(number)
            self._wait(number + 1)

    def _wait(self, sent: int) -> None:
        if self._options.throughput > 0:
            ahead_s = sent / self._options.throughput - (time.time_ns() // _MS - self._begun_ms) / 1000
            if ahead_s > 0:
                time.sleep(ahead_s)

    def _send(self, number: int) -> None:
        prefix, keys = self._options.value_prefix, self._options.repeating_keys
        value = str(number) if prefix is None else f"{prefix}.{number}"
        key = None if keys is None else str(number % keys if keys > 0 else number)
        self.sent += 1
        try:
            future = self._producer.send(
                self._options.topic,
                value.encode(),
                None if key is None else key.encode(),
                timestamp_ms=self._created,
            )
        except (KafkaError, ValueError) as error:
            self._failed(key, value, error)
            return
        if self._created is not None:
            self._created += time.time_ns() // _MS - self._begun_ms
        future.add_done_callback(self._done(key, value))

    def _done(self, key: str | None, value: str) -> Callable[[Any], None]:
        def done(future: RecordFuture) -> None:
            error = future.exception()
            if error is not None:
                self._failed(key, value, error)
                return
            place = future.result()
            with self._lock:
                self.acknowledged += 1
                where = {"offset": place.offset, "topic": place.topic, "partition": place.partition}
                event("producer_send_success", key=key, value=value, **where)

        return done

    def _failed(self, key: str | None, value: str, error: BaseException) -> None:
        kind = type(error).__name__
        with self._lock:
            said = {"exception": kind, "message": str(error)}
            event("producer_send_error", key=key, value=value, topic=self._options.topic, **said)
