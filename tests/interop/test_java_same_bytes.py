"""The same produce requests to a node of pykraft and to one of Apache Kafka: the same bytes in the folders of their
partitions, once both have stopped in order; but for what `MAY_DIFFER` names.
"""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Mapping

import pytest

from pykraft import Admin, Cluster, KafkaError, TopicPartition
from pykraft.common.errors import ErrorCode
from pykraft.protocol.messages.data import LATEST_TIMESTAMP
from pykraft.records.compression import Compression
from pykraft.storage.producer_state import decode_snapshot
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.asking import KEPT, PATIENT, T0, batch, produce
from tests.harness.connection import Connection
from tests.harness.waiting import wait_until

PRODUCE_VERSION = 9
SMALL = {**KEPT, "segment.bytes": str(1 << 20), "index.interval.bytes": "512", "segment.index.bytes": "1024"}
TOPICS = {
    "plain": SMALL,
    "short-index": {**SMALL, "segment.index.bytes": "32"},
    "sparse": {**KEPT, "segment.bytes": str(1 << 20), "segment.ms": "100000"},
}
MAY_DIFFER = {
    "partition.metadata": "each cluster gives a topic an id of its own",
    ".snapshot": "the producers are the same; their order is that of a hash table there",
}
"""Everything else is determined: the settings, the requests and the leader epoch are the same."""


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


def script() -> list[bytes]:
    """Batches, in the order in which they are sent, each in a request of its own."""
    found: list[bytes] = []
    sequences = dict.fromkeys((4001, 4002, 4003), 0)
    for turn in range(120):
        producer_id = 4001 + turn % 3
        codec = list(Compression)[turn % 5]
        count = 1 + turn % 7
        # Mostly later than the one before; each tenth is from long ago, each thirtieth a day ahead.
        timestamp = T0 + 2000 * turn - (50_000 if turn % 10 == 9 else 0) + (86_400_000 if turn % 30 == 29 else 0)
        producer = (-1, -1, -1) if turn % 4 == 3 else (producer_id, 0, sequences[producer_id])
        if producer[0] >= 0:
            sequences[producer_id] += count
        size = (10, 700, 100_000)[turn % 3]
        found.append(batch(count, codec=codec, producer=producer, timestamp=timestamp, size=size))
    return found


def make(servers: str, topic: str, settings: Mapping[str, str]) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, 1, 1, settings)
        wait_until(lambda: is_led(admin, topic), f"{topic} has a leader")


def is_led(admin: Admin, topic: str) -> bool:
    try:
        return bool(admin.list_offsets({TopicPartition(topic, 0): LATEST_TIMESTAMP}))
    except KafkaError:
        return False


def play(address: str, topic: str) -> list[int]:
    """Send the script; the offsets that came back."""
    offsets = []
    with Connection(address) as connection:
        for records in script():
            answer = connection.ask(produce(topic, records), PRODUCE_VERSION)
            (partition,) = answer.responses[0].partition_responses
            assert ErrorCode.of(partition.error_code) is ErrorCode.NONE
            offsets.append(partition.base_offset)
    return offsets


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_same_requests_make_the_same_files(tmp_path: pathlib.Path) -> None:
    with (
        Cluster(1, directory=tmp_path, properties=PATIENT) as cluster,
        ApacheKafka(java_options=QUICK_START, properties={"auto.create.topics.enable": "false"}) as kafka,
    ):
        for topic, settings in TOPICS.items():
            for servers in (cluster.bootstrap_servers, kafka.bootstrap_servers):
                make(servers, topic, settings)
            assert play(cluster.bootstrap_servers, topic) == play(kafka.bootstrap_servers, topic)
        cluster.stop(1)
        kafka.kill(1, signal.SIGTERM)
        for topic in TOPICS:
            ours = files(cluster.partition_directory(1, topic, 0))
            theirs = files(kafka.folder(1) / "data" / f"{topic}-0")
            assert sorted(ours) == sorted(theirs)
            assert len([name for name in ours if name.endswith(".log")]) > 1
            for name, content in theirs.items():
                assert not differs(name, ours[name], content), f"{topic}: {name} differs"


def differs(name: str, ours: bytes, theirs: bytes) -> bool:
    if name.endswith(".snapshot"):
        return sorted(map(repr, decode_snapshot(ours))) != sorted(map(repr, decode_snapshot(theirs)))
    return name not in MAY_DIFFER and ours != theirs
