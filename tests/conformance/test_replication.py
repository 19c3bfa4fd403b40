"""A broker dies, and comes back: what the others say meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.protocol.messages.cluster import DescribeClusterRequest, MetadataRequest
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import altered, batch, create, epoch_end, fetch, list_offsets, new_topic, produce

TWO, LED, ALONE = "replication-two", "replication-led", "replication-alone"
METADATA = 12
OFFSETS = 7


def metadata(*topics: str) -> MetadataRequest:
    asked = [MetadataRequest.Topic(name=topic) for topic in topics]
    return MetadataRequest(topics=asked, allow_auto_topic_creation=False)


def until(talk: Dialogue, topic: str, leader: int, in_sync: Sequence[int] | None) -> None:
    """Until broker 1 knows this leader, and these replicas in sync (in any order)."""

    def is_so(answer: Any) -> bool:
        partition = answer.topics[0].partitions[0]
        return partition.leader_id == leader and (in_sync is None or sorted(partition.isr_nodes) == list(in_sync))

    talk.until(1, metadata(topic), METADATA, is_so)


def until_the_leader_counts(talk: Dialogue, topic: str, is_enough: bool) -> None:
    """Until broker 1, as the leader, has enough replicas in sync for acks=all, or has not: it hears of that a moment
    after it tells. It is asked with a batch that it refuses in any case, but otherwise."""
    request = produce(topic, altered(batch(1), base_offset=1), acks=-1)

    def counts(answer: Any) -> bool:
        refusal = answer.responses[0].partition_responses[0].error_code
        assert refusal in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD)
        return (refusal == ErrorCode.INVALID_RECORD) == is_enough

    talk.until(1, request, 9, counts)


def test_a_replica_dies_and_comes_back(talk: Dialogue) -> None:
    two = talk.topic(TWO, [(1, 3)], {"min.insync.replicas": 2})
    led = talk.topic(LED, [(3, 1)])
    talk.topic(ALONE, [(3,)])
    talk.to(1).ask(produce(TWO, batch(2), acks=-1), 9)
    talk.to(3).ask(produce(LED, batch(3), acks=-1), 9)
    talk.to(3).ask(produce(ALONE, batch(1), acks=-1), 9)
    talk.to(3).close()
    talk.server.kill(3)
    try:
        until(talk, TWO, 1, [1])
        until(talk, LED, 1, [1])
        until(talk, ALONE, -1, None)
        until_the_leader_counts(talk, TWO, is_enough=False)
        talk.wait_for_leader(LED, 0, 1)
        without_it(talk, two, led)
    finally:
        talk.server.restart(3)
    until(talk, TWO, 1, [1, 3])
    until(talk, LED, 1, [1, 3])
    until(talk, ALONE, 3, [3])
    until_the_leader_counts(talk, TWO, is_enough=True)
    talk.wait_for_leader(ALONE, 0, 3)
    talk.say("broker 3 is back")
    with_it(talk)


def without_it(talk: Dialogue, two: bytes, led: bytes) -> None:
    talk.say("broker 3 is gone")
    for version in (0, 1, 9, 12):
        talk.to().ask(metadata(TWO, LED, ALONE), version)
    for wanted in (False, True):
        talk.to().ask(DescribeClusterRequest(include_fenced_brokers=wanted), 2, f"fenced ones {wanted}")

    talk.say("one replica is left of two that must be in sync")
    talk.to().ask(produce(TWO, batch(1), acks=-1), 9, "acks all")
    talk.to().ask(produce(TWO, batch(1), acks=1), 9, "acks 1")
    talk.to().ask(fetch(TWO, 0), 12)
    talk.to().ask(fetch(TWO, 3), 12, "at the end of the log")
    talk.to().ask(list_offsets(TWO, -1), OFFSETS)
    talk.to().ask(list_offsets(TWO, -1, replica_id=-2), OFFSETS, "of the log")

    talk.say("the leader is another, in a new epoch")
    talk.to().ask(produce(LED, batch(2), acks=-1), 9)
    for epoch in (-1, 0, 1, 2):
        talk.to().ask(epoch_end(LED, epoch), 4, f"epoch {epoch}")
    for epoch in (0, 1, 2):
        talk.to().ask(epoch_end(LED, 0, current_leader_epoch=epoch), 4, f"in epoch {epoch}")
        talk.to().ask(list_offsets(LED, -1, current_leader_epoch=epoch), OFFSETS, f"in epoch {epoch}")
        talk.to().ask(fetch(LED, {"fetch_offset": 0, "current_leader_epoch": epoch}), 12, f"in epoch {epoch}")
    for version in (9, 16, 18):
        request = fetch(LED, {"fetch_offset": 0, "current_leader_epoch": 0}, topic_id=led)
        talk.to().ask(request, version, "in epoch 0")
    for offset, epoch in ((3, 0), (4, 0), (5, 0), (5, 1), (6, 1), (3, 1), (1, 0), (5, 2), (9, 0)):
        said = {"fetch_offset": offset, "last_fetched_epoch": epoch}
        talk.to().ask(fetch(LED, said), 12, f"offset {offset} after epoch {epoch}")
    for timestamp in (-1, -2, -3, 0):
        talk.to().ask(list_offsets(LED, timestamp), OFFSETS, f"timestamp {timestamp}")

    talk.say("nobody leads")
    talk.to().ask(produce(ALONE, batch(1)), 9)
    talk.to().ask(fetch(ALONE, 0), 12)
    talk.to().ask(list_offsets(ALONE, -1), OFFSETS)
    talk.to().ask(epoch_end(ALONE, 0), 4)

    talk.say("new topics")
    for says, replicas in {"it would lead": [3, 1], "it would follow": [1, 3], "it would be alone": [3]}.items():
        topic = new_topic("replication-new", assignments=[(0, replicas)])
        talk.to().ask(create(topic, validate_only=True), 7, says)
    for factor in (2, 3):
        talk.to().ask(create(new_topic("replication-new", 3, factor), validate_only=True), 7, f"{factor} replicas")


def with_it(talk: Dialogue) -> None:
    talk.to().ask(metadata(TWO, LED, ALONE), METADATA)
    talk.to().ask(produce(TWO, batch(1), acks=-1), 9, "acks all")
    talk.to().ask(list_offsets(TWO, -1), OFFSETS)
    for epoch in (0, 1, 2):
        talk.to(3).ask(epoch_end(ALONE, epoch), 4, f"epoch {epoch}")
    talk.to(3).ask(produce(ALONE, batch(1), acks=-1), 9)
    talk.to(3).ask(fetch(ALONE, 0), 12)
    talk.to(3).ask(list_offsets(ALONE, -3), OFFSETS)
