"""librdkafka and kafkajs meet errors that a cluster answers of its own accord: the same at Apache Kafka and here.

What `test_clients_survive_faults` injects, a cluster is brought to here: its partition moves away, too few replicas are
in sync, a broker dies, a topic is not there yet. A request of our own, for another topic that shares the trouble, sees
that the error is really answered. At both clusters the clients write each record once, and read it once, in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from pykraft import Admin, NewTopic, TopicPartition
from pykraft.common.errors import ErrorCode
from tests.conformance.servers import ApacheServer, PykraftServer, Server
from tests.harness import apache_kafka
from tests.harness.asking import batch, produce
from tests.harness.connection import Connection
from tests.harness.waiting import wait_until
from tests.judges.test_clients_survive_faults import VALUES, described, librdkafka, node

pytestmark = pytest.mark.limit(300)

MENDED_AFTER_S = 2.0
PROBED = "probed"
Mend = Callable[[], object]


@pytest.fixture(scope="module", params=[PykraftServer, ApacheServer], ids=["pykraft", "apache"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with closing(request.param()) as running:
        yield running


def answered(server: Server, broker: int, topic: str) -> ErrorCode:
    """What this broker says to a record for the topic, written with acks=all."""
    with Connection(server.address(broker)) as connection:
        answer = connection.ask(produce(topic, batch(1), acks=-1), 9)
    return ErrorCode.of(answer.responses[0].partition_responses[0].error_code)


def moves_away(server: Server, topic: str) -> Mend:
    """Broker 1 leads the partition no more, and has none of it."""
    probed = f"{PROBED}-{topic}"
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        admin.alter_partition_reassignments({TopicPartition(name, 0): [2] for name in (probed, topic)})
        wait_until(lambda: not admin.list_partition_reassignments(), "the partitions have moved", timeout_s=30)
    wait_until(
        lambda: answered(server, 1, probed) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "broker 1 refuses it", timeout_s=30
    )
    return lambda: None


def lacks_replicas(server: Server, topic: str) -> Mend:
    """Two replicas must be in sync, and one is dead."""
    server.kill(2)
    wait_until(
        lambda: answered(server, 1, f"{PROBED}-{topic}") is ErrorCode.NOT_ENOUGH_REPLICAS,
        "broker 1 refuses it",
        timeout_s=60,
    )
    return lambda: server.restart(2)


def loses_its_leader(server: Server, topic: str) -> Mend:
    """The connection to the leader breaks, and another replica leads."""
    server.kill(1)
    with pytest.raises(OSError):
        Connection(server.address(1))
    return lambda: server.restart(1)


TROUBLES: list[tuple[Callable[[Server, str], Mend], list[int]]] = [
    (moves_away, [1]),
    (lacks_replicas, [1, 2]),
    (loses_its_leader, [1, 2, 3]),
]


@pytest.mark.parametrize("client", [librdkafka, node], ids=described)
@pytest.mark.parametrize(("trouble", "replicas"), TROUBLES, ids=[trouble.__name__ for trouble, _ in TROUBLES])
def test_every_record_is_written_and_read_once_in_spite_of_trouble(
    server: Server,
    trouble: Callable[[Server, str], Mend],
    replicas: list[int],
    client: Callable[[str, str, Callable[[], object]], list[str]],
) -> None:
    topic = f"{trouble.__name__}-{client.__name__}"
    configs = {"min.insync.replicas": min(2, len(replicas))}
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        names = (topic, f"{PROBED}-{topic}")
        admin.create_topics(
            [NewTopic(name, replica_assignments={0: replicas}, topic_configs=configs) for name in names]
        )
    mending: list[threading.Timer] = []

    def begin() -> None:
        mending.append(threading.Timer(MENDED_AFTER_S, trouble(server, topic)))
        mending[0].start()

    try:
        assert client(server.bootstrap_servers, topic, begin) == VALUES
    finally:
        for timer in mending:
            timer.join(60)
    assert mending, "nothing happened"


@pytest.mark.parametrize("client", [librdkafka, node], ids=described)
def test_a_topic_that_is_not_there_yet_is_made_and_waited_for(
    server: Server, client: Callable[[str, str], list[str]]
) -> None:
    """The first answer to Metadata says UNKNOWN_TOPIC_OR_PARTITION."""
    assert client(server.bootstrap_servers, f"made-by-{client.__name__}") == VALUES
