"""A request that waits for an acknowledgement waits no longer than its cause."""

from __future__ import annotations

import time

from pykraft import Cluster, Producer
from tests.harness.waiting import quickest, seconds


def test_a_record_in_flight_is_acknowledged_when_the_dead_replica_has_left_the_isr() -> None:
    """It leaves through the metadata log while the leader stays; the high watermark rises by that alone."""
    with Cluster(nodes=3) as cluster, cluster.admin() as admin:
        admin.create_topic("t", 1, 3, {"min.insync.replicas": 2})
        leader = cluster.wait_until(lambda view: len(view.isr("t", 0)) == 3).leader("t", 0)
        follower = next(node_id for node_id in cluster.broker_ids if node_id != leader)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=0) as producer:
            producer.send("t", b"before").result(10)
            cluster.kill(follower)
            started = time.monotonic()
            # Sent before anybody has missed the follower, so the leader appends it and waits.
            producer.send("t", b"after").result(60)
            assert time.monotonic() - started < 10, "answered by its own time limit, not by the smaller ISR"


def test_a_lone_record_is_sent_when_its_linger_is_over_not_when_the_thread_happens_to_wake() -> None:
    with Cluster(nodes=1) as cluster, cluster.admin() as admin:
        admin.create_topic("t", 1, 1)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5) as producer:
            producer.send("t", b"first, with the metadata").result(10)
            assert quickest(lambda: seconds(lambda: send_three(producer)), 1) < 1


def send_three(producer: Producer) -> None:
    """One after the other."""
    for _ in range(3):
        producer.send("t", b"lone").result(10)
