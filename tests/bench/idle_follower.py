"""What a follower of a thousand idle partitions costs, with fetch sessions (KIP-227) and without, beside Apache Kafka.

Two nodes; one leads all partitions, the other follows them, and nothing is written. Every 500 ms the follower fetches.
Without sessions (the leader has no slot for one) each request and each answer names all partitions.

The bytes of one such fetch and its answer are counted as they are encoded. The bytes per second are those of the
follower's connection in both directions, as the kernel counts them (`ss`, where there is one), for Kafka's nodes too.
The CPU time is that of both nodes together, while nothing else happens.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time

from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.header import encode_request, encode_response
from pykraft.protocol.messages.data import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from pykraft.transport.fetch_session import FetchSessionHandler, Wanted
from tests.bench.rows import Row, beside, progress
from tests.bench.sides import APACHE, OURS, Side, sides, why_without_apache
from tests.harness.asking import batch, create, new_topic, produce
from tests.harness.connection import Connection, answer_that

PARTITIONS = 1000
ROUNDS = 2
SECONDS = 10.0
SLOTS = "max.incremental.fetch.session.cache.slots"
SETTINGS = {"log.retention.ms": "-1"}
WITHOUT = "no sessions"
NO_SS = "no ss to ask for the connection's bytes"
_SESSION = 1_000_000_007
_PATIENCE_S = 120.0
_BYTES = re.compile(r"bytes_(?:sent|received):(\d+)")


def measure() -> list[Row]:
    name = f"a follower of {PARTITIONS:,} idle partitions"
    request, answer = frames(in_session=True)
    full_request, full_answer = frames(in_session=False)
    cpu: dict[tuple[int, str], list[float]] = {}
    wire: dict[tuple[int, str], list[float]] = {}
    for number in range(1, ROUNDS + 1):
        for slots in (1000, 0):
            for side, (share, bytes_per_second) in idle(slots).items():
                cpu.setdefault((slots, side), []).append(share)
                wire.setdefault((slots, side), []).extend([] if bytes_per_second is None else [bytes_per_second])
                said = f"{share:.1f} % of a core, {bytes_per_second or 0:,.0f} bytes/s"
                progress(f"{name}, round {number} of {ROUNDS}: {slots} slots, {side}: {said}")
    note = why_without_apache()
    rows = [
        beside(f"{name}, request", "bytes", [request], WITHOUT, [full_request]),
        beside("the same, answer", "bytes", [answer], WITHOUT, [full_answer]),
        beside("the same, CPU of both nodes", "% of a core", cpu[1000, OURS], WITHOUT, cpu[0, OURS]),
    ]
    for slots, how in ((1000, "with sessions"), (0, "without sessions")):
        ours, theirs = (slots, OURS), (slots, APACHE)
        wire_note = note if wire[ours] else NO_SS
        rows += [
            beside(f"the same, {how}, CPU", "% of a core", cpu[ours], APACHE, cpu.get(theirs, ()), note=note),
            beside(f"the same, {how}, wire", "bytes/s", wire[ours], APACHE, wire.get(theirs, ()), note=wire_note),
        ]
    return rows


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


def idle(slots: int) -> dict[str, tuple[float, float | None]]:
    """By side: the share of a core that two nodes take while nothing is written, in percent, and the bytes per second
    between follower and leader."""
    found: dict[str, tuple[float, float | None]] = {}
    with sides(nodes=2, properties={SLOTS: str(slots), **SETTINGS}) as both:
        for side in both:
            topic = new_topic("t", assignments=[(number, [1, 2]) for number in range(PARTITIONS)])
            with Connection(leader(side), patience_s=_PATIENCE_S) as connection:
                assert not connection.ask(create(topic), 7).topics[0].error_code
            answer_that(is_written, leader(side), records_for_all(), 9, _PATIENCE_S)
        for side in both:
            before, bytes_before, began = side.cpu_seconds(), bytes_with(leader(side)), time.monotonic()
            time.sleep(SECONDS)
            took = time.monotonic() - began
            bytes_after = bytes_with(leader(side))
            rate = None if bytes_before is None or bytes_after is None else (bytes_after - bytes_before) / took
            found[side.name] = (100 * (side.cpu_seconds() - before) / took, rate)
    return found


def leader(side: Side) -> str:
    """Node 1's broker, which leads all partitions: only its follower has a connection to it."""
    return side.bootstrap_servers.split(",")[0]


def bytes_with(address: str) -> int | None:
    """Bytes, sent and received, of all connections that are open to this address; None if there is no `ss`."""
    if shutil.which("ss") is None:
        return None
    port = address.rpartition(":")[2]
    asked = ["ss", "-tinH", "state", "established", f"( dport = :{port} )"]
    said = subprocess.run(asked, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    return sum(map(int, _BYTES.findall(said)))


def records_for_all() -> ProduceRequest:
    """A record for each partition, with acks=all: the follower then has made all logs, which takes seconds."""
    return produce("t", *[batch(1)] * PARTITIONS, acks=-1, timeout_ms=int(1000 * _PATIENCE_S))


def is_written(answer: ProduceResponse) -> bool:
    """Not until the leader has heard of all that it leads."""
    written = answer.responses[0].partition_responses
    return len(written) == PARTITIONS and not any(each.error_code for each in written)
