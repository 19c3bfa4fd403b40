"""The memory of a thousand groups with a hundred committed offsets each, on one node.

Two figures. What the node's process grows by while the groups commit contains everything: the offsets, the groups, and
what the allocator and the log's indexes keep. What the offsets of one shard take is exact, and the same on each
run: `bytes_per_offset` lets Python count what is allocated while the records are replayed, as at the start of a
coordinator.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence

import psutil

from pykraft import Cluster
from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.group.offsets import CommittedOffset, commit_record
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    decode_coordinator_record,
    encode_coordinator_record,
)
from pykraft.runtime.process import NodeProcess
from tests.bench.groups import Committer, await_coordinator
from tests.bench.rows import Row, progress
from tests.bench.scripted_members import Line, Lines
from tests.bench.sides import Side, fresh_topic
from tests.harness.lone_shard import lone_shard

GROUPS, OFFSETS = 1000, 100
MOST_MB = 200.0
COMMITS = 3
"""Of each group: the later ones replace the offsets of the first, and leave garbage if anything does."""
MEGABYTE = 1e6
TIME_MS = 1_700_000_000_000


def measure() -> list[Row]:
    name = f"{GROUPS:,} groups with {OFFSETS} offsets each"
    grown_mb = node_growth_mb(GROUPS, OFFSETS)
    exact = bytes_per_offset(GROUPS // 10, OFFSETS)
    return [
        Row(f"{name}, the node grows by", "MB", grown_mb, "", None, "once", f"< {MOST_MB:g} MB", grown_mb < MOST_MB),
        Row("an offset in the coordinator's memory", "bytes", exact, "", None, "counted by tracemalloc"),
    ]


def node_growth_mb(groups: int, offsets: int) -> float:
    """What the node's process grows by while the groups commit."""
    with Cluster(nodes=1, mode="processes", timeouts="kafka") as cluster:
        side = Side("pykraft", cluster.bootstrap_servers)
        with fresh_topic(side, offsets) as topic:
            commit_all(side, topic, ["first"], offsets)
            process = next(
                psutil.Process(node.pid) for node in cluster._nodes.values() if isinstance(node, NodeProcess)
            )
            before = process.memory_info().rss
            commit_all(side, topic, [f"group-{number}" for number in range(groups)], offsets)
            grown_mb = (process.memory_info().rss - before) / MEGABYTE
    progress(f"{groups:,} groups with {offsets} offsets each: {grown_mb:.0f} MB")
    return float(grown_mb)


def commit_all(side: Side, topic: str, group_ids: Sequence[str], offsets: int) -> None:
    """Let each group commit for partitions 0, 1, ... `COMMITS` times, one group after the other."""
    with Lines() as lines:
        line = Line(lines, side.bootstrap_servers)
        for group_id in group_ids:
            await_coordinator(side.bootstrap_servers, group_id)
            committer = Committer(line, group_id, topic, offsets)
            committer.is_over = True
            for _ in range(COMMITS):
                committer.send()
            while committer.under_way:
                lines.poll(0.1)


def bytes_per_offset(groups: int, offsets: int) -> float:
    """What an offset takes in a shard after its record was replayed, with its part of the tables and of its group."""
    records = [
        encode_coordinator_record(commit_record(f"group-{group}", place, offset))
        for group in range(groups)
        for place, offset in _committed(offsets)
    ]
    shard = lone_shard()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for key_bytes, value_bytes in records:
            shard.replay(decode_coordinator_record(GROUP_RECORDS, key_bytes, value_bytes), -1)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / len(records)
    finally:
        tracemalloc.stop()


def _committed(offsets: int) -> list[tuple[TopicPartition, CommittedOffset]]:
    """Offsets in topics of ten partitions, all numbers too large for Python to keep one object for each."""
    found = []
    for number in range(offsets):
        topic_id = Uuid((1 + number // 10).to_bytes(16, "big"))
        offset = CommittedOffset(10**9 + number, 3, "", TIME_MS + number, topic_id=topic_id)
        found.append((TopicPartition(f"topic-{number // 10}", number % 10), offset))
    return found
