"""A node on real sockets that is handed quotas: it answers at once, says for how long it throttles, and keeps to it."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from pykraft import Cluster
from pykraft.broker.requests.quotas import Used
from pykraft.broker.settings.config import read_node_config
from pykraft.common.trace import RingBuffer
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.threaded import NodeThread
from pykraft.transport.server_channel import RequestContext
from tests.harness import asking
from tests.harness.connection import Connection
from tests.harness.waiting import wait_until

THROTTLE_MS = 1000
METADATA = MetadataRequest(topics=[])


class ChargedProduces:
    """Quotas that throttle each client that produces."""

    def record(self, context: RequestContext, used: Used, now: int) -> int:
        return THROTTLE_MS if context.api_key == ProduceRequest.api else 0


def leader(connection: Connection) -> int:
    asked = MetadataRequest(topics=[MetadataRequest.Topic(name="t")])
    known: int = connection.ask(asked, 9).topics[0].partitions[0].leader_id
    return known


def test_a_charged_produce_is_answered_at_once_and_its_connection_alone_is_muted_for_the_time_it_tells(
    tmp_path: Path,
) -> None:
    with Cluster(1, directory=tmp_path) as cluster:
        with cluster.admin() as admin:
            admin.create_topic("t", 1, 1)
        cluster.stop(1)
        config = read_node_config(cluster.properties(1))
        node = NodeThread(config, MonotonicClock(), Random(), RingBuffer(), quotas=ChargedProduces())
        node.start()
        try:
            address = cluster.bootstrap_servers
            with Connection(address) as greedy, Connection(address) as modest:
                wait_until(lambda: leader(modest) == 1, "the node leads again")
                began = time.monotonic()
                answer = greedy.ask(asking.produce("t", asking.batch(1)), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
                assert answer.throttle_time_ms == THROTTLE_MS
                number = greedy.send(METADATA, 9)
                assert modest.ask(METADATA, 9).throttle_time_ms == 0
                muted_s = THROTTLE_MS / 1000 - (time.monotonic() - began)
                assert muted_s > 0, "neither of the answers waited for the end of the time"
                greedy.receive(METADATA, 9, number)
                assert time.monotonic() - began >= THROTTLE_MS / 1000 - 0.002, "clocks count whole milliseconds"
        finally:
            node.stop()
