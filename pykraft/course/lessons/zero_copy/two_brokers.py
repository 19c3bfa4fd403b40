"""Two brokers that differ in one thing: how the bytes of a log get into the socket.

A broker does not know what a disk is: it is handed a *file system*, and a file gives it a `FileRegion` to send. So
`BrokerApart` takes the class of the regions. pykraft's own one calls `sendfile`; a notebook writes another one, which
copies. Each broker runs in a process of its own, so that the system counts what it uses, and counts its calls by name
(`counted_calls`).

The reader is librdkafka, which knows nothing of this course. Its processor time is that of the notebook's process,
where it runs.
"""

import inspect
import json
import textwrap
import time
from collections.abc import Mapping, Sequence

import confluent_kafka

from pykraft.course.lessons.zero_copy.counted_calls import between
from pykraft.course.lessons.zero_copy.programs import Program
from pykraft.course.lessons.zero_copy.transfers import Transfer, best_of
from pykraft.storage.disk.filesystem import OsFileRegion

ROUNDS = 4
_READER = {
    "group.id": "reader",
    "enable.auto.commit": False,
    "log_level": 0,
    "check.crcs": True,
    "fetch.message.max.bytes": 4 << 20,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 2,  # a reader that pauses for a second lets the broker's idle work count
}
_PATIENCE_S = 20
_BROKER = """
import json
import os
import sys

from pykraft.cluster import Cluster
from pykraft.course.lessons.zero_copy.counted_calls import count_calls
from pykraft.storage.disk.filesystem import OsFile, OsFileRegion, OsFileSystem

counts = count_calls()

{region}


class SampleFile(OsFile):
    def region(self, position, length):
        return {name}(self, position, length)


class SampleFileSystem(OsFileSystem):
    def open(self, path):
        return SampleFile(path)


with Cluster(nodes=1, filesystem=SampleFileSystem()) as cluster:
    print(cluster.bootstrap_servers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(counts), flush=True)
"""


class BrokerApart:
    """A broker in a process of its own, whose files are sent by regions of the given class. `OsFileRegion` calls
    sendfile; a class of the notebook is handed over by its source."""

    def __init__(self, region: type[OsFileRegion]) -> None:
        self._program = Program(_BROKER.format(region=_source_of(region), name=region.__name__))
        self.address = self._program.hear()

    def read(self, topic: str, records: Sequence[bytes]) -> Transfer:
        """Let librdkafka read the topic, which holds this many records, once. `gigabytes` are those of the records, as
        they were before any compression. KafkaException or TimeoutError if something else comes."""
        counts, before, own = self._calls(), self._program.usage(), time.process_time()
        started = time.perf_counter()
        size = read_all(self.address, topic, len(records))
        seconds, own = time.perf_counter() - started, time.process_time() - own
        used = self._program.usage().since(before)
        return Transfer(size / 1e9, seconds, used, between(counts, self._calls()), own)

    def _calls(self) -> dict[str, list[int]]:
        self._program.say("counts")
        found: dict[str, list[int]] = json.loads(self._program.hear())
        return found

    def close(self) -> None:
        self._program.close()


def _source_of(region: type[OsFileRegion]) -> str:
    """The class as text, put together from its methods: of a class that a notebook defines, Python finds no source."""
    if region is OsFileRegion:
        return ""
    methods = [textwrap.dedent(inspect.getsource(each)) for each in vars(region).values() if inspect.isfunction(each)]
    return f"class {region.__name__}(OsFileRegion):\n" + textwrap.indent("\n".join(methods), "    ")


def best_reading(
    brokers: Mapping[str, BrokerApart], topic: str, records: Sequence[bytes], rounds: int = ROUNDS
) -> dict[str, Transfer]:
    """Read the topic from each broker in turn, several times; of each broker the best of its numbers."""
    found = [{way: broker.read(topic, records) for way, broker in brokers.items()} for _ in range(rounds)]
    return {way: best_of(*(one[way] for one in found)) for way in brokers}


def read_all(address: str, topic: str, wanted: int) -> int:
    """Read a topic's one partition from its beginning, and check each batch; how many bytes of values came.
    KafkaException if a batch is damaged, TimeoutError if less comes than is wanted."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, **_READER})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    count, size, deadline = 0, 0, time.monotonic() + _PATIENCE_S
    try:
        while count < wanted:
            for message in consumer.consume(min(200, wanted - count), 1):
                if message.error():
                    raise confluent_kafka.KafkaException(message.error())
                size += len(message.value() or b"")
                count += 1
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count:,} of {wanted:,} records of {topic!r} came within {_PATIENCE_S} s")
        return size
    finally:
        consumer.close()
