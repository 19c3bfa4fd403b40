"""An unmodified client at full speed: librdkafka, through confluent-kafka, writes and reads records of 1 KB.

One broker, one partition, acks=all, batches of 16 KB and of 128 KB, not compressed. In each round every peer has its
turn: pykraft's broker, Apache Kafka's, a sink that keeps nothing (with it the client shows what it can do itself), a
plain file, a plain socket. A figure near the sink's says that the client was measured, not the broker; so the processor
time that the broker needed is a row of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench import raw, sink
from tests.bench.raw import other_side
from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, OURS, Side, fresh_topic, sides, warm_up, why_without_apache

RECORD_BYTES = 1024
RECORDS = 200_000
ROUNDS = 5
WARM_UP_S = 12.0
BATCH_SIZES = (16 << 10, 128 << 10)
TIMEOUT_S = 60.0
UNIT = "MB/s"
CPU_UNIT = "CPU s/GB"
_CHUNK = 1000
_TOTAL = RECORDS * RECORD_BYTES

Runs = dict[str, list[float]]


def measure() -> list[Row]:
    rows: list[Row] = []
    with sides(nodes=1, properties={"log.retention.ms": "-1"}) as both:
        for batch_bytes in BATCH_SIZES:
            with contextlib.ExitStack() as stack:
                port = stack.enter_context(other_side(str(batch_bytes), "tests.bench.sink"))
                peers = [*both, Side(sink.NAME, f"{raw.HOST}:{port}")]
                rows += _measured(peers, batch_bytes)
    return rows


def _measured(peers: Sequence[Side], batch_bytes: int) -> list[Row]:
    for side in peers:
        warm_up(side, lambda side: one_round(side, batch_bytes), WARM_UP_S)
    produced: Runs = {}
    consumed: Runs = {}
    produce_cpu: Runs = {}
    consume_cpu: Runs = {}
    for number in range(1, ROUNDS + 1):
        for side in peers:
            speeds, cpu = one_round(side, batch_bytes)
            for runs, figure in zip((produced, consumed, produce_cpu, consume_cpu), speeds + cpu, strict=True):
                runs.setdefault(side.name, []).append(figure)
        produced.setdefault(raw.FILE, []).append(raw.written(_TOTAL, batch_bytes))
        speed = raw.sent(_TOTAL, batch_bytes)
        for runs in (produced, consumed):
            runs.setdefault(raw.SOCKET, []).append(speed)
        said = ", ".join(f"{side.name} {produced[side.name][-1]:.0f}/{consumed[side.name][-1]:.0f}" for side in peers)
        progress(f"{batch_bytes >> 10} KB, round {number} of {ROUNDS}, MB/s written/read: {said}")
    size = f"1 KB records, batches of {batch_bytes >> 10} KB"
    rows = _rows(f"librdkafka produce, {size}", UNIT, produced, (APACHE, sink.NAME, raw.FILE, raw.SOCKET))
    rows += _rows(f"librdkafka consume, {size}", UNIT, consumed, (APACHE, sink.NAME, raw.SOCKET))
    rows += _rows(f"broker's processor time, produce, {size}", CPU_UNIT, produce_cpu, (APACHE,))
    rows += _rows(f"broker's processor time, consume, {size}", CPU_UNIT, consume_cpu, (APACHE,))
    return rows


def _rows(name: str, unit: str, runs: Runs, peers: Sequence[str]) -> list[Row]:
    missing = why_without_apache()
    return [
        beside(name, unit, runs[OURS], peer, runs.get(peer, ()), note=missing if peer == APACHE else "")
        for peer in peers
    ]


def one_round(side: Side, batch_bytes: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Write a topic and read it; (MB/s of both), (the broker's processor seconds per GB in both)."""
    with _topic(side) as topic:
        produce_speed, produce_cpu = _watched(side, lambda: produce(side.librdkafka(), topic, batch_bytes))
        consume_speed, consume_cpu = _watched(side, lambda: consume(side.librdkafka(), topic))
    return (produce_speed, consume_speed), (produce_cpu, consume_cpu)


@contextlib.contextmanager
def _topic(side: Side) -> Iterator[str]:
    if side.name == sink.NAME:
        yield "any"
        return
    with fresh_topic(side) as topic:
        yield topic


def _watched(side: Side, load: Callable[[], float]) -> tuple[float, float]:
    before = side.cpu_seconds()
    speed = load()
    return speed, (side.cpu_seconds() - before) / (_TOTAL / 1e9)


def produce(settings: Mapping[str, str], topic: str, batch_bytes: int, records: int = RECORDS) -> float:
    """MB/s from the first record to the last acknowledgement."""
    producer = Producer(
        {
            **settings,
            "batch.size": batch_bytes,
            "linger.ms": 5,
            "queue.buffering.max.messages": 100_000,
        }
    )
    value = bytes(RECORD_BYTES - 10)  # the rest is the record's own header
    messages = [{"value": value}] * _CHUNK
    began = time.monotonic()
    left = records
    while left:
        queued = producer.produce_batch(topic, messages[:left], 0)
        left -= queued
        if queued < _CHUNK and left:
            producer.poll(0.001)  # its queue is full
    assert producer.flush(TIMEOUT_S) == 0
    return records * RECORD_BYTES / (time.monotonic() - began) / 1e6


def consume(settings: Mapping[str, str], topic: str, records: int = RECORDS) -> float:
    """MB/s from the first record that has come to the last."""
    consumer = Consumer({**settings, "group.id": "bench", "enable.auto.commit": False, "log_level": 3})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.consume(1, TIMEOUT_S), "nothing came"
        began = time.monotonic()
        seen = 1
        while seen < records:
            messages = consumer.consume(min(10_000, records - seen), TIMEOUT_S)
            assert messages, f"{seen} of {records} records have come"
            seen += len(messages)
        return records * RECORD_BYTES / (time.monotonic() - began) / 1e6
    finally:
        consumer.close()
