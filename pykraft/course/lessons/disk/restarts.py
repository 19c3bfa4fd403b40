"""A broker whose log is warm or cold: it is killed and started, or the machine is, and a consumer reads everything.

::

    broker = nb.watch(BrokerWithLog(folder, megabytes=64))
    broker.read()                    # just written
    broker.restart_process()         # kill -9, and a new start
    broker.read()
    broker.restart_machine()         # stop, evict, start: a machine that starts has an empty page cache
    broker.read()

The broker is a process of its own, so the kernel counts for it what had to be fetched from the disk: since the last
reading, or, of a new process, since its start, so what it read to recover its log counts as well. The pages are looked
at before a start, when no process has the files open. The reader is librdkafka.
"""

import os
import tempfile
import time
from pathlib import Path

import confluent_kafka
import psutil

from pykraft.client.administration.admin import NewTopic
from pykraft.cluster import Cluster
from pykraft.course import kernel
from pykraft.course.lessons.disk.disk import Reading
from pykraft.producer import Producer

RECORD_BYTES = 8_000
_TOPIC = "old"
_NODE = 1
_PATIENCE_S = 30
_SETTINGS = {
    "replica.high.watermark.checkpoint.interval.ms": "3600000"  # a killed node finds no recent recovery point
}
_READER = {"group.id": "none", "enable.auto.commit": False, "log_level": 0}


class BrokerWithLog:
    """One broker, and a topic of random bytes in segments of 8 MB, until `close`."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._records = megabytes * 1_000_000 // RECORD_BYTES
        directory = tempfile.mkdtemp(dir=folder)
        self._cluster = Cluster(nodes=1, mode="processes", directory=directory, properties=_SETTINGS)
        self._before = b""
        try:
            self._write()
        except BaseException:
            self._cluster.close()
            raise
        self._counted_from = self._fetched()

    def _write(self) -> None:
        with self._cluster.admin() as admin:
            admin.create_topics([NewTopic(_TOPIC, 1, 1, topic_configs={"segment.bytes": str(8 << 20)})])
        with Producer(bootstrap_servers=self._cluster.bootstrap_servers, linger_ms=5, batch_size=200_000) as producer:
            for _ in range(self._records):
                producer.send(_TOPIC, os.urandom(RECORD_BYTES))

    def segments(self) -> list[Path]:
        """The files of the log, in order."""
        return sorted(self._cluster.partition_directory(_NODE, _TOPIC, 0).glob("*.log"))

    def pages(self) -> bytes:
        """For each page of the log, 1 if it is in memory."""
        return b"".join(kernel.pages_in_memory(path) for path in self.segments())

    def restart_process(self) -> None:
        """Kill the broker's process, and start it again."""
        self._cluster.kill(_NODE)
        self._start()

    def restart_machine(self) -> None:
        """What a restart of the machine does to the broker: it is stopped, the page cache is empty, it is started."""
        self._cluster.stop(_NODE)
        for path in self.segments():
            kernel.evict(path)
        self._start()

    def _start(self) -> None:
        self._before = self.pages()
        self._cluster.restart(_NODE)
        self._counted_from = 0  # a new process counts from its start

    def read(self) -> Reading:
        """Let a consumer read the whole topic. TimeoutError if it does not get all of it."""
        before, self._before = self._before or self.pages(), b""
        started = time.perf_counter()
        size = self._consume()
        seconds = time.perf_counter() - started
        fetched = self._fetched()
        moved, self._counted_from = fetched - self._counted_from, fetched
        return Reading(before, self.pages(), size, moved, seconds)

    def _consume(self) -> int:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._cluster.bootstrap_servers, **_READER})
        consumer.assign([confluent_kafka.TopicPartition(_TOPIC, 0, 0)])
        sizes: list[int] = []
        deadline = time.monotonic() + _PATIENCE_S
        try:
            while len(sizes) < self._records:
                found = consumer.consume(500, timeout=1)
                sizes += [len(message.value() or b"") for message in found if not message.error()]
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(sizes):,} of {self._records:,} records came within {_PATIENCE_S} s")
        finally:
            consumer.close()
        return sum(sizes)

    def _fetched(self) -> float:
        """What the kernel has fetched from the disk for the broker's process since its start; NaN if it does not
        tell."""
        process = next(child for child in psutil.Process().children() if "server" in child.cmdline())
        return kernel.counters(process.pid).get("read_bytes", float("nan"))

    def close(self) -> None:
        self._cluster.close()
