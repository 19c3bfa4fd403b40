"""A producer and a consumer that a live board switches on and off: records flow while the reader breaks something.

Each runs in a thread of its own with the cluster's own clients, and counts what happens to its records. `stop` ends it,
and waits a moment for that; a client that waits for a cluster that is gone is left to its thread, which ends with the
process. An error of a client is kept as text, and the flow goes on: a cluster without a leader is what is to be seen.
"""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.producer import Producer

INTERVAL_S = 0.05
"""Between two records: slow enough to be seen in the cells of a board."""
_KEYS = 24
_STOP_S = 3.0
_BLOCK_MS = 1000


class Flow:
    """A client that runs until it is stopped. `counts` has what it did, in words."""

    name = "client"

    def __init__(self, bootstrap_servers: str, topic: str, counts: Counter[str], **settings: Any) -> None:
        """`counts` goes on from what an earlier one has; `settings` are the client's."""
        self._settings = {"bootstrap_servers": bootstrap_servers, **settings}
        self.topic = topic
        self.counts = counts
        self.error: str | None = None
        """Its newest error, in words."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"board-{self.name}", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """End it, and wait a moment for its client to close."""
        self._stop.set()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._flow()
            except (KafkaError, OSError, RuntimeError) as error:
                self.error = str(error)
                self._stop.wait(10 * INTERVAL_S)  # then with a client of its own again

    def _flow(self) -> None:
        raise NotImplementedError


class ProducerFlow(Flow):
    """Sends one small record after the other, with keys that go to all partitions."""

    name = "producer"

    def _flow(self) -> None:
        producer = Producer(**self._settings, max_block_ms=_BLOCK_MS, linger_ms=0)
        try:
            while not self._stop.wait(INTERVAL_S):
                number = self.counts["sent"]
                try:
                    future = producer.send(self.topic, value=b"record %d" % number, key=b"key-%d" % (number % _KEYS))
                except KafkaError as error:
                    self.error = str(error)
                    continue
                self.counts["sent"] += 1
                future.add_callback(self._count("acknowledged"))
                future.add_errback(self._count("failed"))
        finally:
            producer.close(timeout=1)

    def _count(self, what: str) -> Callable[[object], None]:
        def counted(_: object) -> None:
            self.counts[what] += 1

        return counted


class ConsumerFlow(Flow):
    """Reads what comes from now on; it is in no group."""

    name = "consumer"

    def _flow(self) -> None:
        consumer = Consumer(**self._settings, enable_auto_commit=False)
        try:
            numbers = consumer.partitions_for_topic(self.topic) or set()
            partitions = [TopicPartition(self.topic, number) for number in sorted(numbers)]
            consumer.assign(partitions)
            consumer.seek_to_end(*partitions)
            while not self._stop.is_set():
                polled = consumer.poll(timeout_ms=100)
                self.counts["consumed"] += sum(map(len, polled.values()))
        finally:
            consumer.close(timeout=1)
