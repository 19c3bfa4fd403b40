"""Transactions beside Apache Kafka: how many in a second, how long a commit takes, and reading while some are open.

The producer is librdkafka through confluent-kafka, on both sides the same; rows with pykraft's own Producer are beside
them. A transaction has 1 or 100 records of 100 bytes in one partition; the next begins when it is committed. The
commit's time is that of `commit_transaction`, which sends what is left and asks the coordinator.

The reader's topic has 300 transactions of 1,000 records of 1 KB. Every second one was aborted, and one more is open.
A read_committed reader gets half of the records and fetches all of them: the figure is megabytes of log in a second,
from the first record to the last.

All nodes get the same settings. Beside each figure is the processor time of the broker.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka import TopicPartition

from pykraft import Producer
from tests.bench.rows import Row
from tests.bench.sides import Side, fresh_topic, sides
from tests.bench.turns import Figures, in_turn, lasting_topics

SETTINGS = {"log.retention.ms": "-1", "transaction.state.log.num.partitions": "3"}
SIZES = (1, 100)
VALUE = b"v" * 100
SECONDS = 3.0
LOG_TRANSACTIONS, LOG_RECORDS, LOG_VALUE = 300, 1000, b"v" * 1024
"""Several times what librdkafka keeps fetched (`queued.max.messages.kbytes`): less would measure its memory."""
TIMEOUT_S = 60.0
_numbers = itertools.count(1)

Transact = Callable[[str, str, int], list[float]]
"""Of bootstrap servers, topic and records a transaction: transactions for `SECONDS`; how long each commit took."""


def measure() -> list[Row]:
    with sides(nodes=1, properties=SETTINGS) as both:
        return committing(both) + reading(both)


# --- committing -------------------------------------------------------------------------------------------------------


def committing(both: Sequence[Side]) -> list[Row]:
    """Transactions per second, and the times of their commits."""
    rows = []
    for client, transact in CLIENTS.items():
        for size in SIZES:
            name = f"transactions of {size} record{'s' if size > 1 else ''}, {client}"

            def rates(side: Side, name: str = name, transact: Transact = transact, size: int = size) -> Figures:
                times, cpu_s, seconds = _run(side, transact, size)
                return {name: len(times) / seconds, f"{name}, processor time": 1000 * cpu_s / len(times)}

            rows += in_turn(both, rates, "transactions/s")
    for client, transact in CLIENTS.items():

        def latencies(side: Side, client: str = client, transact: Transact = transact) -> Figures:
            times = _run(side, transact, 1)[0]
            cuts = statistics.quantiles(times, n=100)
            return {
                f"commit of 1 record, p50, {client}": 1000 * cuts[49],
                f"commit of 1 record, p99, {client}": 1000 * cuts[98],
            }

        rows += in_turn(both, latencies, "ms", lower_is_better=True)
    return rows


def _run(side: Side, transact: Transact, size: int) -> tuple[list[float], float, float]:
    """The times of the commits; the broker's processor time, and the seconds that all of it took."""
    with fresh_topic(side) as topic:
        cpu_s, began = side.cpu_seconds(), time.monotonic()
        times = transact(side.bootstrap_servers, topic, size)
        return times, side.cpu_seconds() - cpu_s, time.monotonic() - began


def with_librdkafka(servers: str, topic: str, size: int) -> list[float]:
    settings: dict[str, Any] = {"bootstrap.servers": servers, "transactional.id": f"bench-{next(_numbers)}"}
    producer = LibrdkafkaProducer({**settings, "linger.ms": 0, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    times, deadline = [], time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        producer.begin_transaction()
        for _ in range(size):
            producer.produce(topic, VALUE, partition=0)
        began = time.monotonic()
        producer.commit_transaction(TIMEOUT_S)
        times.append(time.monotonic() - began)
    return times


def with_ours(servers: str, topic: str, size: int) -> list[float]:
    times = []
    with Producer(bootstrap_servers=servers, transactional_id=f"bench-{next(_numbers)}") as producer:
        producer.init_transactions()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            producer.begin_transaction()
            for _ in range(size):
                producer.send(topic, VALUE, partition=0)
            began = time.monotonic()
            producer.commit_transaction()
            times.append(time.monotonic() - began)
    return times


CLIENTS: dict[str, Transact] = {"librdkafka": with_librdkafka, "pykraft's Producer": with_ours}


# --- reading ----------------------------------------------------------------------------------------------------------


def reading(both: Sequence[Side]) -> list[Row]:
    """The same log is read in each round, by new consumers."""
    rows: list[Row] = []
    with lasting_topics(both, 1) as topics:
        hanging = [fill(side.bootstrap_servers, topics[side.name]) for side in both]
        for level in ("read_committed", "read_uncommitted"):

            def load(side: Side, level: str = level) -> Figures:
                name = f"a reader consumes half aborted transactions, one open, {level}"
                cpu_s = side.cpu_seconds()
                total_bytes, seconds = read(side.bootstrap_servers, topics[side.name], level)
                cpu_s = side.cpu_seconds() - cpu_s
                return {name: total_bytes / seconds / 1e6, f"{name}, processor time": cpu_s / (total_bytes / 1e9)}

            rows += in_turn(both, load, "MB/s of log")
        for producer in hanging:
            producer.abort_transaction(TIMEOUT_S)
    return rows


def fill(servers: str, topic: str) -> LibrdkafkaProducer:
    """Every second transaction is aborted; the producer of the last one, which is open."""
    settings: dict[str, Any] = {"bootstrap.servers": servers, "transactional.id": f"fill-{next(_numbers)}"}
    producer = LibrdkafkaProducer({**settings, "transaction.timeout.ms": 900_000, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    for number in range(LOG_TRANSACTIONS + 1):
        producer.begin_transaction()
        for _ in range(LOG_RECORDS):
            producer.produce(topic, LOG_VALUE, partition=0)
        producer.flush(TIMEOUT_S)
        if number < LOG_TRANSACTIONS:
            (producer.commit_transaction if number % 2 else producer.abort_transaction)(TIMEOUT_S)
    return producer


def read(servers: str, topic: str, level: str) -> tuple[int, float]:
    """Bytes of values in the log that was gone through, and the seconds that it took."""
    seen = LOG_TRANSACTIONS * LOG_RECORDS
    wanted = seen // 2 if level == "read_committed" else seen
    settings: dict[str, Any] = {"bootstrap.servers": servers, "group.id": "none", "isolation.level": level}
    consumer = LibrdkafkaConsumer({**settings, "enable.auto.commit": False, "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        got = len(consumer.consume(1, TIMEOUT_S))
        began = time.monotonic()
        while got < wanted:
            messages = consumer.consume(min(10_000, wanted - got), TIMEOUT_S)
            assert messages, f"{got} of {wanted} records have come"
            got += len(messages)
        return seen * len(LOG_VALUE), time.monotonic() - began
    finally:
        consumer.close()
