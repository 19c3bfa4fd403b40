"""A node dies in mid-stream. What a client was told is written is there, once, and in order; and a reader that was
reading meanwhile has seen just that."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from pykraft import Admin, Cluster, ErrorCode, KafkaError, NewTopic
from tests.interop.clients import ALL, PATIENCE_S, Client, Row
from tests.interop.test_others import T0, in_order, wait_until

# The others leave connections that could not be made to the garbage collector. (Ours would be of proto=0.)
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket .* proto=6:ResourceWarning"),
]

RECORDS = 6000
KILL_AFTER = 1500


class Stream:
    """Rows that keep coming; when a number of them is under way, a callback is called."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.is_killed = threading.Event()

    def rows(self) -> Iterator[Row]:
        for number in range(RECORDS):
            if number == KILL_AFTER:
                self.has_begun.set()
            if number > KILL_AFTER and number % 20 == 0:
                # Until the node is dead not all are sent, however fast the writer; and it never stands still.
                self.is_killed.wait(0.02)
            yield Row(number % 3, -1, T0 + number, b"%d" % (number % 3), b"%d" % number)


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
def test_nothing_acknowledged_is_missing_doubled_or_out_of_order(cluster: Cluster, client: Client) -> None:
    servers = cluster.bootstrap_servers
    topic, victim = make_led_topic(cluster, f"kill-{client.name}")
    stream = Stream()
    results: dict[str, list[object]] = {}
    readers = [reader for reader in ALL if reader.name in (client.name, "confluent-kafka")]

    def write() -> None:
        results["written"] = list(client.write(servers, topic, stream.rows()))

    def read(reader: Client) -> None:
        results[reader.name] = list(reader.read(servers, topic, dict.fromkeys(range(3), 0), RECORDS))

    threads = [threading.Thread(target=write)]
    threads += [threading.Thread(target=read, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        assert stream.has_begun.wait(PATIENCE_S)
        cluster.kill(victim)
        stream.is_killed.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    finally:
        stream.is_killed.set()
        if victim not in cluster.alive:
            cluster.restart(victim)
    assert not any(thread.is_alive() for thread in threads)
    acknowledged = {(row.partition, offset): row.value for row, offset in results["written"]}  # type: ignore[misc]
    assert len(acknowledged) == RECORDS, "two records were told the same place"
    late = ALL[-1].read(servers, topic, dict.fromkeys(range(3), 0), RECORDS)
    for found in (late, *(results[reader.name] for reader in readers)):
        rows = in_order(found)  # type: ignore[arg-type]
        assert {(row.partition, row.offset): row.value for row in rows} == acknowledged
        for partition in range(3):
            numbers = [int(row.value or b"") for row in rows if row.partition == partition]
            assert numbers == list(range(partition, RECORDS, 3))
    with Admin(bootstrap_servers=servers) as admin:
        wait_until(lambda: is_whole(admin, topic))
    gc.collect()


def make_led_topic(cluster: Cluster, name: str) -> tuple[str, int]:
    """A topic whose first partition is led by the active controller: the worst node to lose. And that node."""
    view = cluster.wait_until(lambda view: view.active_controller is not None, what="there is a controller")
    first = view.active_controller or 1
    nodes = [1 + (first - 1 + number) % 3 for number in range(3)]
    assignments = {number: nodes[number:] + nodes[:number] for number in range(3)}
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics(
            [NewTopic(name, replica_assignments=assignments, topic_configs={"min.insync.replicas": "2"})]
        )
        wait_until(lambda: is_whole(admin, name))
    return name, first


def is_whole(admin: Admin, topic: str) -> bool:
    """Every partition has its leader, and all its replicas are in sync."""
    try:
        partitions = admin.describe_topics([topic])[topic].partitions
    except KafkaError as error:
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return False
    return all(len(partition.isr) == 3 and partition.leader > 0 for partition in partitions)
