"""DeleteRecords, DescribeLogDirs, AlterReplicaLogDirs: what may be deleted, what is described then, what is on the
disk, and where a replica may be."""

from __future__ import annotations

from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP
from pykraft.protocol.messages.logs import (
    HIGH_WATERMARK,
    AlterReplicaLogDirsRequest,
    DeleteRecordsRequest,
    DescribeLogDirsRequest,
)
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import batch, fetch, keep, list_offsets, produce, versions

ALL = ((1, 2, 3),)


def delete(*asked: tuple[str, int, int], timeout_ms: int = 15_000) -> DeleteRecordsRequest:
    """(topic, partition, offset)."""
    topic = DeleteRecordsRequest.Topic
    return DeleteRecordsRequest(
        topics=[
            topic(name=name, partitions=[topic.Partition(partition_index=partition, offset=offset)])
            for name, partition, offset in asked
        ],
        timeout_ms=timeout_ms,
    )


def describe(*asked: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    topic = DescribeLogDirsRequest.Topic
    return DescribeLogDirsRequest(topics=[topic(topic=name, partitions=partitions) for name, partitions in asked])


def fill(talk: Dialogue, topic: str, times: int = 5) -> None:
    for _ in range(times):
        talk.to().connection.ask(produce(topic, batch(), acks=-1), 9)


def test_each_version_deletes(talk: Dialogue) -> None:
    talk.topic("logs-versions", ALL)
    fill(talk, "logs-versions")
    for version in versions(DeleteRecordsRequest):
        talk.to().ask(delete(("logs-versions", 0, version + 1)), version)
    talk.to().ask(list_offsets("logs-versions", EARLIEST_TIMESTAMP), 7)
    for offset in (2, 3):
        talk.to().ask(fetch("logs-versions", offset), 12, f"from {offset}")


def test_what_may_be_deleted(talk: Dialogue) -> None:
    talk.topic("logs-offsets")
    fill(talk, "logs-offsets")
    for offset in (-2, 0, 3, 3, 1, 100, HIGH_WATERMARK, HIGH_WATERMARK):
        talk.to().ask(delete(("logs-offsets", 0, offset)), 2, f"before {offset}")


def test_policies(talk: Dialogue) -> None:
    for number, policy in enumerate(("compact", "delete", "compact,delete")):
        name = f"logs-policy-{number}"
        talk.topic(name, configs={"cleanup.policy": policy})
        talk.to().connection.ask(produce(name, batch(key=b"key"), acks=-1), 9)
        talk.to().ask(delete((name, 0, 1)), 2, policy)


def test_partitions_that_cannot_be_deleted(talk: Dialogue) -> None:
    talk.topic("logs-elsewhere", ((2, 3), (2, 1)))
    talk.to().ask(delete(("logs-elsewhere", 0, 0)), 2, "no replica here")
    talk.to().ask(delete(("logs-elsewhere", 1, 0)), 2, "a follower here")
    talk.to().ask(delete(("logs-elsewhere", 7, 0)), 2, "no such partition")
    talk.to().ask(delete(("logs-nobody", 0, 0)), 2, "no such topic")
    talk.to().ask(delete(), 2, "nothing")
    talk.topic("logs-here")
    talk.to().ask(delete(("logs-here", 0, 0), ("logs-elsewhere", 1, 0), ("logs-nobody", 0, 0)), 2, "some of each")


def test_followers_come_after(talk: Dialogue) -> None:
    talk.topic("logs-followers", ALL)
    fill(talk, "logs-followers")
    talk.to().ask(delete(("logs-followers", 0, HIGH_WATERMARK)), 2)
    for node in (2, 3):
        request = list_offsets("logs-followers", EARLIEST_TIMESTAMP).replace(replica_id=-2)
        talk.to(node).ask(request, 7, "what the follower has")
    talk.to().ask(delete(("logs-followers", 0, HIGH_WATERMARK), timeout_ms=0), 2, "with no time, and nothing to do")


def test_each_version_describes(talk: Dialogue) -> None:
    talk.topic("logs-described", ((1, 2), (2, 3)))
    fill(talk, "logs-described", 2)
    for version in versions(DescribeLogDirsRequest):
        talk.to().ask(describe(("logs-described", [0, 1, 9])), version)
    talk.to(2).ask(describe(("logs-described", [0, 1])), 4)
    talk.to().ask(describe(("logs-nobody", [0])), 4, "no such topic")
    talk.to().ask(describe(("__cluster_metadata", [0])), 4, "the metadata log")
    talk.to().ask(describe(), 4, "nothing")


def test_a_replica_stays_in_the_only_directory(talk: Dialogue) -> None:
    talk.topic("logs-kept", [[1, 2], [2, 3]])
    (described,) = talk.to().connection.ask(describe(), 4).results
    for version in versions(AlterReplicaLogDirsRequest):
        talk.to().ask(keep(described.log_dir, ("logs-kept", [0])), version)
    talk.to().ask(keep(described.log_dir, ("logs-kept", [1, 0, 7]), ("logs-nowhere", [0])), 2, "not all are here")
    talk.to().ask(keep("/elsewhere", ("logs-kept", [0, 1]), ("logs-nowhere", [0])), 2, "another directory")
    talk.to().ask(keep("relative", ("logs-kept", [0])), 2, "no path")
    talk.to().ask(keep(described.log_dir), 2, "nothing")
