"""Scenes: floods that a client of good will may send, or whose figures were known before the node took slices.

Each is a function of a prepared `Bench` that returns the row of what it has measured. They are named, so that figures
of today can be compared with those of another day.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.cluster import FindCoordinatorRequest
from pykraft.protocol.messages.configs import DescribeConfigsRequest, ResourceType
from pykraft.protocol.messages.data import FetchRequest, ListOffsetsRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from pykraft.protocol.messages.transactions import DescribeProducersRequest
from tests.flood.judge import Bench, Row
from tests.flood.prepared import GROUP, HEAVY_PARTITIONS, LARGE, heartbeat
from tests.harness.asking import batch, create, describe, fetch, new_topic, produce
from tests.harness.connection import Connection

SCENES: dict[str, Callable[[Bench], Row]] = {}
Scene = Callable[[Bench], Row]
QUICK = (
    "ListOffsets",
    "OffsetFetch",
    "DescribeConfigs",
    "DescribeProducers",
    "OffsetCommit",
    "OffsetDelete",
    "Produce",
)
"""The scenes whose names begin so take a second or less, once the node takes slices."""
_LONGEST_NAME = 32_767
_PARTITIONS = 300
_PRODUCE, _FETCH, _COMMIT = 9, 12, 9
"""Versions in which topics go by name."""


def scene(name: str) -> Callable[[Scene], Scene]:
    def enter(function: Scene) -> Scene:
        SCENES[name] = function
        return function

    return enter


# --- what one small request asks for ----------------------------------------------------------------------------------


@scene("ListOffsets by time, 40 partitions with large batches")
def list_offsets(bench: Bench) -> Row:
    topic_type = ListOffsetsRequest.Topic
    asked = [topic_type.Partition(partition_index=n, timestamp=bench.state.time_ms) for n in range(HEAVY_PARTITIONS)]
    request = ListOffsetsRequest(topics=[topic_type(name=LARGE, partitions=asked)])
    return bench.measure("", request, 6, len(asked))


@scene("OffsetFetch, one group of 500 offsets, 2,000 times")
def offset_fetch(bench: Bench) -> Row:
    groups = [OffsetFetchRequest.Group(group_id=GROUP, topics=None)] * 2000
    return bench.measure("", OffsetFetchRequest(groups=groups), 9, len(groups))


@scene("DescribeConfigs, one broker, 1,000 times")
def describe_configs(bench: Bench) -> Row:
    request: DescribeConfigsRequest = describe(*[(ResourceType.BROKER, "1")] * 1000)
    return bench.measure("", request, 4, 1000)


@scene("DescribeProducers, one partition with 300 producers, 2,000 times")
def describe_producers(bench: Bench) -> Row:
    topic = DescribeProducersRequest.Topic(name=LARGE, partition_indexes=[0] * 2000)
    return bench.measure("", DescribeProducersRequest(topics=[topic]), 0, 2000)


@scene("FindCoordinator, 82 MB of keys")
def find_coordinator(bench: Bench) -> Row:
    keys = [f"{number:06}".ljust(_LONGEST_NAME, "k") for number in range(2500)]
    return bench.measure("", FindCoordinatorRequest(key_type=0, coordinator_keys=keys), 4, len(keys))


# --- groups -----------------------------------------------------------------------------------------------------------


def _commit(bench: Bench, group: str, entries: int) -> OffsetCommitRequest:
    """Offsets of so many partitions, each of which there is; those of the largest topic first."""
    topic_type = OffsetCommitRequest.Topic

    def offsets(count: int) -> list[OffsetCommitRequest.Topic.Partition]:
        return [topic_type.Partition(partition_index=n, committed_offset=1) for n in range(count)]

    large = len(bench.state.names["partition"])
    others = bench.state.names["topic"][1 : max(1, entries - large + 1)]
    topics = [topic_type(name=LARGE, partitions=offsets(min(large, entries)))]
    topics += [topic_type(name=name, partitions=offsets(1)) for name in others]
    return OffsetCommitRequest(group_id=group, topics=topics)


@scene("OffsetCommit of 10,000 entries")
def offset_commit(bench: Bench) -> Row:
    request = _commit(bench, "scene-committed", 5000)
    request = request.replace(topics=[*request.topics, *request.topics])
    entries = sum(len(topic.partitions) for topic in request.topics)
    return bench.measure("", request, _COMMIT, entries)


@scene("OffsetDelete of 3,000 partitions")
def offset_delete(bench: Bench) -> Row:
    committed = _commit(bench, "scene-deleted", 3000)
    bench.ask(committed, _COMMIT)
    topic_type = OffsetDeleteRequest.Topic
    topics = [
        topic_type(
            name=topic.name,
            partitions=[topic_type.Partition(partition_index=p.partition_index) for p in topic.partitions],
        )
        for topic in committed.topics
    ]
    entries = sum(len(topic.partitions) for topic in topics)
    return bench.measure("", OffsetDeleteRequest(group_id="scene-deleted", topics=topics), 0, entries)


@scene("ConsumerGroupHeartbeat, joins of 60 members with 10,000 topics each")
def consumer_group_heartbeat(bench: Bench) -> Row:
    topics = [*bench.state.names["topic"], *(f"absent-{number}" for number in range(10_000))][:10_000]
    rows = [
        bench.measure("", heartbeat("scene-consumers", f"member-{number}", topics), 1, len(topics))
        for number in range(60)
    ]
    return max(rows, key=lambda row: row.longest_wait_ms)


# --- many partitions --------------------------------------------------------------------------------------------------


@scene("Produce to 300 partitions with segment.ms=1")
def produce_rolls(bench: Bench) -> Row:
    topic = bench.make_topic("scene-rolls", _PARTITIONS, ("segment.ms", "1"))
    bench.ask(produce(topic, *[batch(1)] * _PARTITIONS), _PRODUCE)
    later = batch(1, timestamp=time.time_ns() // 1_000_000)
    return bench.measure("", produce(topic, *[later] * _PARTITIONS), _PRODUCE, _PARTITIONS)


@scene("Produce beside 100 parked fetches of 300 partitions")
def parked_fetches(bench: Bench) -> Row:
    topic = bench.make_topic("scene-parked", _PARTITIONS)
    waiting: FetchRequest = fetch(topic, *[0] * _PARTITIONS, max_wait_ms=60_000, min_bytes=1 << 30)
    with ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(Connection(bench.address(ListenerKind.BROKER)))
            connection.send(waiting, _FETCH)
        bench.settle()
        rows = [bench.measure("", produce(topic, batch(1)), _PRODUCE, 100) for _ in range(10)]
    bench.settle()
    return max(rows, key=lambda row: row.longest_wait_ms)


def _created(bench: Bench, partitions: int, afterwards_s: float) -> Row:
    bench.state.salt += 1
    topic = new_topic(f"scene-created-{bench.state.salt}", partitions, 1)
    return bench.measure("", create(topic), 7, partitions, afterwards_s=afterwards_s)


def _deleted(bench: Bench, partitions: int, afterwards_s: float) -> Row:
    name = bench.make_topic("scene-dropped", partitions)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name)])
    return bench.measure("", request, 6, partitions, afterwards_s=afterwards_s)


@scene("a topic of 1,000 partitions is created")
def creation(bench: Bench) -> Row:
    return _created(bench, 1000, 5.0)


@scene("a topic of 5,000 partitions is created")
def large_creation(bench: Bench) -> Row:
    return _created(bench, 5000, 15.0)


@scene("a topic of 1,000 partitions is deleted")
def deletion(bench: Bench) -> Row:
    return _deleted(bench, 1000, 3.0)


@scene("a topic of 5,000 partitions is deleted")
def large_deletion(bench: Bench) -> Row:
    return _deleted(bench, 5000, 5.0)


@scene("nothing is asked for 15 s")
def idle(bench: Bench) -> Row:
    return bench.measure("", create(), 7, 0, afterwards_s=15.0)
