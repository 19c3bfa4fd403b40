"""Unmodified libraries copy between topics exactly once on three nodes, with an abort and a zombie that is fenced.

With `--long` Apache Kafka is asked for the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from pykraft import Cluster
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.interop.members import why_not
from tests.interop.test_others import make_topic
from tests.interop.test_transactions_of_others import PATIENCE_S, PROPERTIES, send, values
from tests.interop.transactional_copies import LIBRARIES, copy

pytestmark = pytest.mark.limit(240)

COUNT = 60
NAMED = {name: str(value) for name, value in PROPERTIES.items()}
SERVERS: dict[str, Callable[[], Cluster | ApacheKafka]] = {
    "pykraft": lambda: Cluster(3, properties=NAMED),
    "apache": lambda: ApacheKafka(3, NAMED, java_options=QUICK_START),
}
COMPLAINTS = {
    "kafka-python": "ProducerFencedError",
    "aiokafka": "ProducerFenced",
    "kafkajs": "INVALID_PRODUCER_EPOCH",
    "java": "ProducerFencedException",
}
"""What each library says to its zombie."""


@pytest.fixture(scope="module", params=["pykraft", pytest.param("apache", marks=pytest.mark.long)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "apache" and (reason := apache_kafka.available()):
        pytest.skip(reason)
    with SERVERS[request.param]() as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_copy_reads_each_record_once_and_its_zombie_is_fenced(library: str, servers: str) -> None:
    if reason := why_not(library):
        pytest.skip(reason)
    source, target = make_topic(servers, f"{library}-source"), make_topic(servers, f"{library}-target")
    numbers = [f"{number:03}" for number in range(COUNT)]
    plain = confluent_kafka.Producer({"bootstrap.servers": servers})
    send(plain, source, *numbers)
    plain.flush(PATIENCE_S)
    assert copy(library, servers, f"{library}-copier", source, target, COUNT) == COMPLAINTS[library]
    assert values(servers, target, "read_committed") == numbers
    uncommitted = values(servers, target, "read_uncommitted")
    assert "zombie" in uncommitted
    assert len(uncommitted) > COUNT + 1, "what was aborted is in the log"
    assert ends(servers, f"{library}-copier", source) == [COUNT // 3] * 3


def ends(servers: str, group: str, topic: str) -> list[int]:
    """The group's offsets of the topic's partitions."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [confluent_kafka.TopicPartition(topic, number) for number in range(3)]
    try:
        return [place.offset for place in consumer.committed(places, PATIENCE_S)]
    finally:
        consumer.close()
