"""Lab 09 in a live cluster: your accumulator is in pykraft's producer.

The producer sends numbers to three partitions, and the broker refuses every third of its first requests. Which batch a
record joins, when a batch is ready, which ones share a request, where a refused one waits and which is too late: your
code says it. The batches themselves, their bytes and the requests are pykraft's. librdkafka, which has never heard of
this course, reads what came of it: each number once, and in order.
"""

import math
import time
from collections import deque
from concurrent.futures import wait
from contextlib import ExitStack
from weakref import WeakKeyDictionary

from confluent_kafka import Consumer, TopicPartition

from pykraft import Cluster, Producer
from pykraft.client import config as keys
from pykraft.client.producing.accumulator import ProducerBatch
from pykraft.common.core import FOREVER
from pykraft.course.labs.plug import Outcome, at_least, plugged
from pykraft.records.builder import estimated_size
from pykraft.surroundings import pick
from pykraft.viz import log_orders
from pykraft.viz.clients.batch_chart import MOST_CELLS, trouble_in

TOPIC, PARTITIONS = "numbers", 3
REFUSED = 8
BATCH_BYTES, LINGER_MS, BACKOFF_MS, BACKOFF_MAX_MS = 400, 5, 10, 200
FEW = 5
"""Fewer records in a batch, in the mean, are no batching."""
LIMIT_S, DELIVERY_MS = 15, 10_000
SETTINGS = {
    "enable_idempotence": False, "max_in_flight_requests_per_connection": 1, "batch_size": BATCH_BYTES,
    "linger_ms": LINGER_MS, "retry_backoff_ms": BACKOFF_MS, "retry_backoff_max_ms": BACKOFF_MAX_MS,
    "request_timeout_ms": 3_000, "delivery_timeout_ms": DELIVERY_MS,
}  # fmt: skip
"""One request in flight: without numbers, order and duplicates depend on the accumulator alone."""
ACCUMULATOR = "pykraft.client.producing.accumulator.RecordAccumulator."
DRAIN = "pykraft.client.producing.sender.Sender._drain"


def run(work):
    """Send with the accumulator of `work`; it agrees if each number is there once, in order, and in real batches."""
    count = pick(small=1_500, full=6_000)
    yours = Yours(work)
    with Cluster(nodes=1, timeouts="kafka") as cluster, plugged(yours.places()) as plugs:
        cluster.create_topic(TOPIC, PARTITIONS, 1)
        requests, refused = send(cluster, count)
        found = read(cluster, count)
    troubles = [trouble_in(order) for order in found]
    late = sum(len(each.late) for each in troubles)
    twice = sum(len(each.again) for each in troubles)
    missing = count - sum(len(set(order)) for order in found)
    mean = count / max(1, yours.batches)
    lines = (
        f"{count:,} numbers were sent in {requests} requests and {yours.batches} batches of {mean:.0f} in the mean; "
        f"{refused} requests were refused.",
        f"{missing} numbers are missing, {twice} are there more than once, {late} are late.",
    )
    figure = log_orders(
        {f"partition {number}": order[:MOST_CELLS] for number, order in enumerate(found)},
        title=f"{late} numbers of {count:,} are late, {missing} are missing",
        note="The first records of each partition; the producer sent them in the order of their numbers",
    ) if all(found) else None  # fmt: skip
    facts = {"missing": missing, "twice": twice, "late": late, "requests": requests, "mean": mean}
    compared = {
        "numbers missing": (missing, 0),
        "numbers that are there more than once": (twice, 0),
        "numbers that are late": (late, 0),
        "records in a batch, in the mean": (round(mean, 1), at_least(FEW)),
    }
    return Outcome(compared, lines, tuple(plugs.values()), figure, facts)


class Yours:
    """Your queues in the place of pykraft's. For each of your batches there is one of pykraft's, which has the bytes.
    Whenever your queues have changed, pykraft's are made like them."""

    def __init__(self, work):
        self._work = work
        self._queues = WeakKeyDictionary()
        self._pairs = {}
        """By number, pykraft's batch."""
        self._sent = {}
        """By number, yours that were sent."""
        self.batches = 0
        """Those that were sent for the first time."""

    def places(self):
        """Your code where the producer asks its accumulator."""
        names = {"append": self._append, "_ready_at": self._ready_at, "deadline": self._deadline}
        names |= {"put_back": self._put_back, "take_older": self._take_older}
        return {ACCUMULATOR + name: code for name, code in names.items()} | {DRAIN: self._drain}

    def _append(self, accumulator, key, timestamp, value_key, value, headers, on_delivery, now):
        queue, size = self._of(accumulator).setdefault(key.partition, []), estimated_size(value_key, value, headers)
        accumulator._count += 1
        record = timestamp, value_key, value, headers, on_delivery
        wakes = self._work.append(queue, record, size, now, BATCH_BYTES, accumulator._count)
        batch = queue[-1]
        if batch.number not in self._pairs:
            place = (batch.number,)
            self._pairs[batch.number] = ProducerBatch(key, accumulator._compression, batch.created_ms, place)
        theirs = self._pairs[batch.number]
        if theirs.data is not None:
            raise ValueError(f"batch {batch.number} was sent before: its bytes are made, and nothing can be added")
        before = theirs.size if theirs.count else 0
        theirs.append(*record)
        accumulator.used_bytes += theirs.size - before
        self._follow(accumulator, key)
        return bool(wakes)

    def _ready_at(self, accumulator, queue):
        mine = self._of(accumulator)[queue[0].topic_partition.partition]
        return moment(self._work.ready_at(mine, BATCH_BYTES, LINGER_MS, hurries(accumulator)))

    def _deadline(self, accumulator):
        return moment(self._work.next_look(self._of(accumulator), BATCH_BYTES, LINGER_MS, hurries(accumulator)))

    def _drain(self, sender, topic_partitions, now):
        accumulator, queues = sender._accumulator, self._of(sender._accumulator)
        partitions = {key.partition: key for key in topic_partitions if accumulator.is_ready(key, now)}
        ready = [partition for partition in queues if partition in partitions]
        drained = []
        for batch in self._work.drain(queues, ready, sender._config[keys.MAX_REQUEST_SIZE]) if ready else ():
            theirs = self._pairs[batch.number]
            self._follow(accumulator, theirs.topic_partition)
            if theirs.data is None:
                self.batches += 1
                sender._numbering.number(theirs)
            theirs.attempts += 1
            sender._under_way.setdefault(theirs.topic_partition, []).append(theirs)
            drained.append(theirs)
            self._sent[batch.number] = batch
        return drained

    def _put_back(self, accumulator, theirs):
        queue = self._of(accumulator)[theirs.topic_partition.partition]
        batch = self._sent[theirs.place[0]]
        self._work.put_back(queue, batch, theirs.not_before - BACKOFF_MS, BACKOFF_MS, BACKOFF_MAX_MS)
        self._follow(accumulator, theirs.topic_partition)

    def _take_older(self, accumulator, limit):
        late = []
        for queue in self._of(accumulator).values():
            for batch in self._work.expire(queue, limit - 1 + DELIVERY_MS, DELIVERY_MS):
                late.append(self._pairs[batch.number])
                self._follow(accumulator, late[-1].topic_partition)
        return late

    def _of(self, accumulator):
        return self._queues.setdefault(accumulator, {})

    def _follow(self, accumulator, key):
        """Make pykraft's queue of a partition like yours."""
        theirs = accumulator._queues.setdefault(key, deque())
        theirs.clear()
        theirs.extend(self._pairs[batch.number] for batch in self._of(accumulator)[key.partition])


def moment(found):
    """A time as pykraft has it. TypeError if it is none."""
    return FOREVER if found == math.inf else int(found)


def hurries(accumulator):
    return bool(accumulator.flushes or accumulator.is_wanting)


def send(cluster, count):
    """Send the numbers; how many requests there were, and how many of them the broker refused."""
    with ExitStack() as faults:
        some, seen = [], []
        for _ in range(REFUSED):  # a fault that refuses one request, and one that lets two pass
            fault = cluster.fault("Produce", topic=TOPIC, error="NOT_ENOUGH_REPLICAS", count=1)
            some.append(faults.enter_context(fault))
            seen.append(faults.enter_context(cluster.fault("Produce", topic=TOPIC, count=2)))
        rest = faults.enter_context(cluster.fault("Produce", topic=TOPIC))
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers, **SETTINGS)
        futures = [producer.send(TOPIC, str(n).encode(), partition=n % PARTITIONS) for n in range(count)]
        wait(futures, LIMIT_S)
        producer.kill()
    return sum(len(fault.caught) for fault in (*some, *seen, rest)), sum(len(fault.caught) for fault in some)


def read(cluster, count):
    """The numbers of each partition in the order of their offsets, by librdkafka."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "lab", "enable.auto.commit": False}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    ends = {p: consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=LIMIT_S)[1] for p in range(PARTITIONS)}
    found, deadline = [[] for _ in range(PARTITIONS)], time.monotonic() + LIMIT_S
    while sum(map(len, found)) < sum(ends.values()) and time.monotonic() < deadline:
        for message in consumer.consume(1_000, timeout=0.2):
            if not message.error():
                found[message.partition()].append(int(message.value()))
    consumer.close()
    return found
