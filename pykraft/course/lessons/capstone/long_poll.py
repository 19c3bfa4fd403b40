"""A scenario: a consumer waits for a record, and we measure how late it hears of it.

::

    reader = nb.watch(WaitingReader(cluster, "news", fetch_max_wait_ms=1000))
    reader.hear()         milliseconds from send() to the return of poll(), for one record
    reader.hear(5)        the median of five
    reader.observe(1500, records_ms=(400, 900))      what the broker saw of its fetches meanwhile

A record is sent at a random moment, by a producer of its own and from another thread, while the consumer waits in
`poll`: so it arrives at any point of the fetch that waits at the broker. A consumer reads one partition, by assignment
and without a group, and was warm before the first measurement. The random moments come from `seed`.
"""

import itertools
import time
from collections.abc import Sequence
from random import Random
from statistics import median
from threading import Thread
from typing import TYPE_CHECKING, Any

from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.producer import Producer
from pykraft.viz.clients.fetch_chart import Fetches

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_PATIENCE_S = 20
_PAUSE_S = (0.01, 0.06)
"""How long after the beginning of `poll` a record is sent."""
_numbers = itertools.count(1)


class WaitingReader:
    """A consumer of one partition that waits for one record at a time, and the producer that sends them."""

    def __init__(self, cluster: "Cluster", topic: str, *, seed: int = 0, **settings: Any) -> None:
        """`settings` are the consumer's, such as ``fetch_max_wait_ms=1000``. The topic exists."""
        self._cluster = cluster
        self._topic = topic
        self._random = Random(f"{seed}/{topic}")
        self._values = itertools.count(1000)
        self._client_id = f"reader {next(_numbers)}"
        servers = cluster.bootstrap_servers
        self._producer = Producer(bootstrap_servers=servers, linger_ms=0)
        self._consumer = Consumer(
            bootstrap_servers=servers, client_id=self._client_id, auto_offset_reset="earliest", **settings
        )
        self._consumer.assign([TopicPartition(topic, 0)])
        self.hear()  # it looks up the leader and its offset once

    def hear(self, records: int = 1) -> float:
        """Milliseconds from `send` to the return of `poll`: the median of this many records."""
        return median(self._hear_one() for _ in range(records))

    def _hear_one(self) -> float:
        value = str(next(self._values)).encode()
        sent: list[float] = []

        def send() -> None:
            time.sleep(self._random.uniform(*_PAUSE_S))
            sent.append(time.perf_counter())
            self._producer.send(self._topic, value)

        sender = Thread(target=send, name="sender")
        sender.start()
        heard: list[bytes | None] = []
        deadline = time.perf_counter() + _PATIENCE_S
        while value not in heard and time.perf_counter() < deadline:  # some of `observe` may come before it
            heard = [record.value for some in self._consumer.poll(_PATIENCE_S * 1000).values() for record in some]
        at = time.perf_counter()
        sender.join()
        if value not in heard:
            raise TimeoutError(f"the consumer did not hear of a record within {_PATIENCE_S} s")
        return (at - sent[0]) * 1000

    def observe(self, span_ms: float, records_ms: Sequence[float] = ()) -> Fetches:
        """Watch the consumer's fetches at the broker for `span_ms`, while records are sent at these moments."""
        with (
            self._cluster.fault("Fetch", client_id=self._client_id) as fetches,
            self._cluster.fault("Produce", topic=self._topic) as produced,
        ):
            started = time.perf_counter()
            sender = Thread(target=self._send_at, args=(started, records_ms), name="sender")
            sender.start()
            while (left_ms := span_ms - (time.perf_counter() - started) * 1000) > 0:
                self._consumer.poll(left_ms)
            sender.join()
        arrived = [caught.time_ms for caught in fetches.caught]
        sent = [caught.time_ms for caught in produced.caught]
        # Both are on the broker's clock. Its start is where the first record was sent, or near the first fetch.
        start = sent[0] - records_ms[0] if sent else min(arrived, default=0)
        return Fetches([at - start for at in arrived], [at - start for at in sent], span_ms)

    def _send_at(self, started: float, moments_ms: Sequence[float]) -> None:
        for moment in moments_ms:
            time.sleep(max(0.0, started + moment / 1000 - time.perf_counter()))
            self._producer.send(self._topic, b"news")

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()
