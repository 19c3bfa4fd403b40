"""What a follower of a thousand idle partitions costs, with fetch sessions (KIP-227) and without.

Two nodes; one leads all partitions, the other follows them, and nothing is written. Every 500 ms the follower fetches.
Without sessions (the leader has no slot for one) each request and each answer names all partitions.

The bytes are those of one such fetch and its answer, as they are encoded. The CPU time is that of both nodes together,
while nothing else happens.
"""

from __future__ import annotations

import time

import psutil

from pykraft import Cluster
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.header import encode_request, encode_response
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import INITIAL_EPOCH, NO_SESSION, FetchRequest, FetchResponse
from pykraft.runtime.process import NodeProcess
from pykraft.transport.fetch_session import FetchSessionHandler, Wanted
from tests.bench.rows import Row, beside, progress
from tests.harness.asking import create, new_topic
from tests.harness.connection import Connection, answer_that

PARTITIONS = 1000
ROUNDS = 2
SECONDS = 10.0
SLOTS = "max.incremental.fetch.session.cache.slots"
WITHOUT = "no sessions"
_SESSION = 1_000_000_007


def measure() -> list[Row]:
    name = f"a follower of {PARTITIONS:,} idle partitions"
    request, answer = frames(in_session=True)
    full_request, full_answer = frames(in_session=False)
    runs: dict[int, list[float]] = {1000: [], 0: []}
    for number in range(1, ROUNDS + 1):
        for slots, shares in runs.items():
            shares.append(cpu_percent(slots))
            progress(f"{name}, round {number} of {ROUNDS}: {slots} slots, {shares[-1]:.1f} % of a core")
    return [
        beside(f"{name}, request", "bytes", [request], WITHOUT, [full_request]),
        beside("the same, answer", "bytes", [answer], WITHOUT, [full_answer]),
        beside("the same, CPU of both nodes", "% of a core", runs[1000], WITHOUT, runs[0]),
    ]


def frames(in_session: bool) -> tuple[int, int]:
    """The bytes of a fetch in which nothing has changed, and of its answer."""
    topic_id = Uuid(bytes(15) + b"\x01")
    wanted = {
        TopicPartition("t", number): Wanted(topic_id, 0, 1 << 20, 0, log_start_offset=0) for number in range(PARTITIONS)
    }
    handler, part = FetchSessionHandler(), FetchResponse.Topic.Partition
    parts = [
        part(partition_index=number, high_watermark=0, last_stable_offset=0, log_start_offset=0)
        for number in range(PARTITIONS)
    ]
    full = FetchResponse(
        session_id=_SESSION if in_session else NO_SESSION,
        responses=[FetchResponse.Topic(topic="t", topic_id=topic_id, partitions=parts)],
    )
    for _ in range(2):
        request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[])
        handler.fill(request, wanted)
        is_full = request.session_epoch == INITIAL_EPOCH
        response = full if is_full else FetchResponse(session_id=_SESSION, responses=[])
        handler.take(response)
    version = FetchRequest.versions[1]
    return (
        sum(map(len, encode_request(request, version, 1, "follower"))),
        sum(map(len, encode_response(response, version, 1))),
    )


def cpu_percent(slots: int) -> float:
    """The share of a core that two nodes take while nothing is written."""
    with Cluster(nodes=2, mode="processes", timeouts="kafka", properties={SLOTS: str(slots)}) as cluster:
        topic = new_topic("t", assignments=[(number, [1, 2]) for number in range(PARTITIONS)])
        address = cluster.bootstrap_servers.split(",")[0]
        with Connection(address, patience_s=60) as connection:
            assert not connection.ask(create(topic), 7).topics[0].error_code
        answer_that(is_in_sync, address, MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 9, 60)
        processes = [psutil.Process(node.pid) for node in cluster._nodes.values() if isinstance(node, NodeProcess)]
        before, began = cpu_s(processes), time.monotonic()
        time.sleep(SECONDS)
        return 100 * (cpu_s(processes) - before) / (time.monotonic() - began)


def is_in_sync(answer: MetadataResponse) -> bool:
    partitions = answer.topics[0].partitions
    return len(partitions) == PARTITIONS and all(len(partition.isr_nodes) == 2 for partition in partitions)


def cpu_s(processes: list[psutil.Process]) -> float:
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))
