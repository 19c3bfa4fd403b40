"""``e2e-latency``: how long does a record take from a producer to a consumer? As kafka-e2e-latency.sh measures it.

::

    e2e-latency --bootstrap-server HOST:PORT --topic T --num-records 1000 --producer-acks all --record-size 100

Each record is sent alone: the next one leaves when the one before has been read. A line is printed every 1,000
records, and the average and percentiles at the end, in milliseconds. The topic is made, with one partition, if it is
not there.

Follows org.apache.kafka.tools.EndToEndLatency.
"""

import argparse
import time
from pathlib import Path
from random import Random
from typing import Any

from pykraft.admin import Admin
from pykraft.commands.common import CommandError, add_bootstrap_server, answers, bootstrap_server, read_text, say
from pykraft.common.settings.config import parse_properties
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.producer import Producer

_POLL_MS = 60_000
_NANOSECONDS = 1_000_000
_LINE_EVERY = 1000
_LETTERS = 26


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_bootstrap_server(parser)
    add("--topic", required=True, metavar="NAME", help="where the records go")
    add("--num-records", required=True, type=int, metavar="N", help="this many")
    add("--producer-acks", required=True, metavar="ACKS", help="1 or all: which replicas acknowledge a record")
    add("--record-size", required=True, type=int, metavar="BYTES", help="of a record's value")
    add("--record-key-size", type=int, default=0, metavar="BYTES", help="of its key (0: no key)")
    add("--num-headers", type=int, default=0, metavar="N", help="headers of each record (0)")
    add("--record-header-key-size", type=int, default=0, metavar="BYTES", help="of a header's name (0)")
    add("--record-header-size", type=int, default=0, metavar="BYTES", help="of a header's value (0)")
    add("--command-config", type=Path, metavar="FILE", help="a properties file for the clients")


def run(options: argparse.Namespace) -> int:
    """Send record by record, and print how long each took."""
    _check(options)
    settings: dict[str, Any] = parse_properties(read_text(options.command_config)) if options.command_config else {}
    settings["bootstrap.servers"] = bootstrap_server(options)
    _make_topic(settings, options.topic)
    of_consumer = {"group.id": f"test-group-{time.time_ns() // _NANOSECONDS}", "enable.auto.commit": "false"}
    of_consumer |= {"auto.offset.reset": "latest", "fetch.max.wait.ms": "0"}
    of_producer = {"linger.ms": "0", "acks": options.producer_acks}
    settings_of_both = settings | of_producer, settings | of_consumer
    with Producer(**settings_of_both[0]) as producer, Consumer(**settings_of_both[1]) as consumer, answers(consumer):
        _begin_at_the_end(consumer, options.topic)
        _Measurement(options).run(producer, consumer)
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.producer_acks not in ("1", "all"):
        raise CommandError(
            f"--producer-acks is {options.producer_acks}, but must be 1 or all: each record is waited for"
        )
    if options.num_records < 1:
        raise CommandError(f"--num-records is {options.num_records}, but must be at least 1")
    for name in ("record_size", "record_key_size", "num_headers", "record_header_key_size", "record_header_size"):
        if getattr(options, name) < 0:
            raise CommandError(f"--{name.replace('_', '-')} is {getattr(options, name)}, but must be 0 or more")


def _make_topic(settings: dict[str, Any], topic: str) -> None:
    with Admin(**settings) as admin, answers(admin):
        if topic not in admin.list_topics():
            say(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
            admin.create_topic(topic, 1, 1)


def _begin_at_the_end(consumer: Consumer, topic: str) -> None:
    numbers = consumer.partitions_for_topic(topic)
    while numbers is None:  # a broker has not heard of the new topic yet
        numbers = consumer.partitions_for_topic(topic)
    partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
    consumer.assign(partitions)
    consumer.seek_to_end(*partitions)
    for partition in partitions:
        consumer.position(partition)


class _Measurement:
    """Sends and reads, one record at a time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._random = Random(0)

    def run(self, producer: Producer, consumer: Consumer) -> None:
        """Print as it goes, and the result."""
        latencies = []
        for number in range(self._options.num_records):
            took = self._once(producer, consumer)
            if number % _LINE_EVERY == 0:
                say(f"{number}\t{took / _NANOSECONDS}")
            latencies.append(took)
        say(f"Avg latency: {sum(latencies) / len(latencies) / _NANOSECONDS:.4f} ms")
        latencies.sort()
        p50, p99, p999 = (latencies[int(len(latencies) * share)] // _NANOSECONDS for share in (0.5, 0.99, 0.999))
        say(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")

    def _once(self, producer: Producer, consumer: Consumer) -> int:
        """How many nanoseconds one record takes. CommandError if it is not the one that comes."""
        said = self._options
        key = self._some(said.record_key_size) if said.record_key_size else None
        value = self._some(said.record_size)
        sizes = said.record_header_key_size, said.record_header_size
        named = [(self._some(sizes[0]).decode(), self._some(sizes[1])) for _ in range(said.num_headers)]
        begun = time.perf_counter_ns()
        producer.send(said.topic, value, key, named).result()
        records = [record for some in consumer.poll(_POLL_MS).values() for record in some]
        took = time.perf_counter_ns() - begun
        if len(records) != 1:
            raise CommandError(f"{len(records)} records came in {_POLL_MS} ms where one was sent")
        found = records[0]
        if (found.key, found.value, list(found.headers)) != (key, value, named):
            raise CommandError(f"the record at offset {found.offset} is not the one that was sent: does another write?")
        return took

    def _some(self, size: int) -> bytes:
        return bytes([ord("A") + self._random.randrange(_LETTERS)]) * size
