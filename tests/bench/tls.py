"""What TLS costs, here and in Apache Kafka. librdkafka writes and reads records of 1 KB in batches of 128 KB, on a
listener without TLS and on one with it.

All four brokers live at the same time, and each round asks all of them. With TLS, each client shows a certificate. A
plain listener sends the log by sendfile, and no byte of it passes through the broker's memory; with TLS all bytes do,
and the broker encrypts them. The last rows say by how much TLS multiplies the processor time of either broker.
"""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import psutil

from pykraft import Cluster
from pykraft.runtime.secure_files import SecureFiles
from tests.bench.librdkafka import CPU_UNIT, RECORD_BYTES, UNIT, consume, produce
from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, HEAP, OURS, Side, children, children_since, fresh_topic, why_without_apache
from tests.harness import apache_kafka
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.java_broker import secured_kafka

RECORDS = 100_000
TOTAL = RECORDS * RECORD_BYTES
BATCH_BYTES = 128 << 10
ROUNDS, WARM_UP_ROUNDS = 5, 3
PLAIN, TLS = "without TLS", "with TLS"
WRITES, READS = "produce", "consume"

Key = tuple[str, str, str]
"""Whose broker, its listener, and what was done."""
Runs = dict[Key, list[float]]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, brokers(pathlib.Path(folder)) as four:
        speeds, cpu = measured(four)
    return rows(speeds, cpu)


@contextlib.contextmanager
def brokers(folder: pathlib.Path) -> Iterator[dict[tuple[str, str], Side]]:
    """One of each kind with each listener. Apache Kafka's are missing if it cannot be had here."""
    found = {}
    with contextlib.ExitStack() as stack:
        for listener in (PLAIN, TLS):
            before = children()
            security = "SSL" if listener == TLS else None
            cluster = stack.enter_context(
                Cluster(1, mode="processes", timeouts="kafka", security=security)  # type: ignore[arg-type]
            )
            nodes = children_since(before)
            found[OURS, listener] = Side(OURS, cluster.bootstrap_servers, nodes, cluster.secure_files)
        if not apache_kafka.available():
            files = SecureFiles(folder / "security", [1])
            plain = stack.enter_context(ApacheKafka(heap=HEAP))
            secured = stack.enter_context(secured_kafka(files, java_options=(), heap=HEAP))
            found[APACHE, PLAIN] = _side(plain)
            found[APACHE, TLS] = _side(secured, files)
        yield found


def _side(kafka: ApacheKafka, files: SecureFiles | None = None) -> Side:
    return Side(APACHE, kafka.bootstrap_servers, [psutil.Process(kafka.pid(1))], files)


def measured(four: Mapping[tuple[str, str], Side]) -> tuple[Runs, Runs]:
    """The speed, and the processor seconds a gigabyte, of each round after those that warm the JVMs."""
    speeds: Runs = {}
    cpu: Runs = {}
    for number in range(-WARM_UP_ROUNDS, ROUNDS):
        for (name, listener), side in four.items():
            if name == OURS and number < -1:
                continue  # one round warms it
            with fresh_topic(side) as topic:
                for what, load in _loads(side, topic).items():
                    before = side.cpu_seconds()
                    speed = load()
                    used = (side.cpu_seconds() - before) / (TOTAL / 1e9)
                    if number >= 0:
                        speeds.setdefault((name, listener, what), []).append(speed)
                        cpu.setdefault((name, listener, what), []).append(used)
        if number >= 0:
            said = ", ".join(f"{' '.join(key)} {figures[-1]:.2f}" for key, figures in cpu.items())
            progress(f"round {number + 1} of {ROUNDS}, {CPU_UNIT}: {said}")
    return speeds, cpu


def _loads(side: Side, topic: str) -> dict[str, Callable[[], float]]:
    return {
        WRITES: lambda: produce(side.librdkafka(), topic, BATCH_BYTES, RECORDS),
        READS: lambda: consume(side.librdkafka(), topic, RECORDS),
    }


def rows(speeds: Runs, cpu: Runs) -> list[Row]:
    """Ours beside Apache Kafka's in each, and by how much TLS multiplies the processor time of both."""
    missing, found = why_without_apache(), []
    for what in (WRITES, READS):
        for listener in (PLAIN, TLS):
            for runs, unit in ((speeds, UNIT), (cpu, CPU_UNIT)):
                name = f"{what} {listener}" if unit == UNIT else f"broker's processor time, {what} {listener}"
                theirs = runs.get((APACHE, listener, what), ())
                found.append(beside(name, unit, runs[OURS, listener, what], APACHE, theirs, note=missing))
    for what in (WRITES, READS):
        name = f"processor time with TLS over that without it, {what}"
        found.append(beside(name, "times", times(cpu, OURS, what), APACHE, times(cpu, APACHE, what), note=missing))
    return found


def times(cpu: Runs, name: str, what: str) -> Sequence[float]:
    """Round by round."""
    with_tls, without = (cpu.get((name, listener, what), []) for listener in (TLS, PLAIN))
    return [one / other for one, other in zip(with_tls, without, strict=True)]
