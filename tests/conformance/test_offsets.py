"""ListOffsets and OffsetForLeaderEpoch: offsets by timestamp, by the marks for start and end, and by leader epoch."""

from __future__ import annotations

from pykraft.protocol.messages.data import ListOffsetsRequest, OffsetForLeaderEpochRequest
from pykraft.records.compression import Compression
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import T0, batch, epoch_end, list_offsets, produce, versions
from tests.harness.connection import Connection

MARKS = {"the end": -1, "the start": -2, "the youngest": -3, "the local start": -4, "in tiers": -5, "to be tiered": -6}


def filled(talk: Dialogue, name: str, *batches: bytes) -> None:
    with Connection(talk.server.address(1)) as connection:
        for data in batches:
            assert not connection.ask(produce(name, data, acks=-1), 9).responses[0].partition_responses[0].error_code


def test_each_version_knows_its_marks(talk: Dialogue) -> None:
    talk.topic("offsets-marks")
    filled(talk, "offsets-marks", batch(3), batch(2))
    for version in versions(ListOffsetsRequest):
        for says, mark in MARKS.items():
            talk.to().ask(list_offsets("offsets-marks", mark), version, says)


def test_an_empty_log_has_its_marks_too(talk: Dialogue) -> None:
    talk.topic("offsets-empty")
    for says, mark in {**MARKS, "a moment": T0, "-7": -7, "long ago": -(2**63)}.items():
        talk.to().ask(list_offsets("offsets-empty", mark), 11, says)


def test_a_moment_finds_the_first_record_that_is_not_older(talk: Dialogue) -> None:
    topic = "offsets-times"
    talk.topic(topic)
    filled(
        talk,
        topic,
        batch(3),
        batch(2, timestamp=T0 - 5000),
        batch(2, timestamp=T0 + 10_000, codec=Compression.ZSTD),
        batch(1, timestamp=T0 + 10_500),
    )
    for after_ms in (-10_000, -5000, -4999, -4000, 0, 1, 1000, 2000, 2001, 10_000, 10_001, 10_500, 11_000, 11_001):
        talk.to().ask(list_offsets(topic, T0 + after_ms), 7, f"{after_ms} ms after T0")
    for says, timestamp in {"the beginning of time": 0, "the end of time": 2**63 - 1, "the youngest": -3}.items():
        talk.to().ask(list_offsets(topic, timestamp), 7, says)


def test_records_without_a_timestamp_are_not_found(talk: Dialogue) -> None:
    talk.topic("offsets-timeless")
    filled(talk, "offsets-timeless", batch(2, timestamp=-1, step_ms=0))
    for timestamp in (-3, 0):
        talk.to().ask(list_offsets("offsets-timeless", timestamp), 7, f"timestamp {timestamp}")


def test_the_time_of_the_append_is_a_batchs_own(talk: Dialogue) -> None:
    talk.topic("offsets-append-time", configs={"message.timestamp.type": "LogAppendTime"})
    filled(talk, "offsets-append-time", batch(3))
    for timestamp in (-3, 0, T0):
        talk.to().ask(list_offsets("offsets-append-time", timestamp), 7, f"timestamp {timestamp}")


def test_isolation_bounds_the_end(talk: Dialogue) -> None:
    talk.topic("offsets-isolation")
    filled(talk, "offsets-isolation", batch(3))
    for level in (0, 1, 2):
        for timestamp in (-1, -3, T0):
            talk.to().ask(list_offsets("offsets-isolation", timestamp, isolation_level=level), 7, f"level {level}")


def test_only_the_leader_says(talk: Dialogue) -> None:
    talk.topic("offsets-leader", [(1, 2)])
    filled(talk, "offsets-leader", batch(3))
    for version in (1, 7, 11):
        for node in (2, 3):
            talk.to(node).ask(list_offsets("offsets-leader", -1), version)
    talk.to(2).ask(list_offsets("offsets-leader", -1, replica_id=-2), 7, "one who debugs, of a follower")
    talk.to(1).ask(list_offsets("offsets-leader", -1, replica_id=2), 7, "a follower, of its leader")
    talk.to(1).ask(list_offsets("offsets-leader", -1, replica_id=99), 7, "replica 99")
    for epoch in (0, 1, -2):
        talk.to().ask(list_offsets("offsets-leader", -1, current_leader_epoch=epoch), 7, f"in epoch {epoch}")


def test_topics_and_partitions_must_exist(talk: Dialogue) -> None:
    talk.topic("offsets-where")
    for version in (1, 7):
        talk.to().ask(list_offsets("offsets-nowhere", -1), version, "an unknown topic")
        talk.to().ask(list_offsets("offsets-where", -1, partition=1), version, "an unknown partition")
        talk.to().ask(list_offsets("offsets-where", -1, partition=-1), version, "partition -1")
        talk.to().ask(list_offsets("a/b", -1), version, "a name that is not allowed")


def test_a_partition_is_asked_for_once(talk: Dialogue) -> None:
    talk.topic("offsets-twice")
    talk.to().ask(list_offsets("offsets-twice", -1, -2), 7)
    twice = [list_offsets("offsets-twice", mark).topics[0] for mark in (-1, -2)]
    talk.to().ask(ListOffsetsRequest(topics=twice), 7, "as two topics")


def test_a_request_may_be_empty(talk: Dialogue) -> None:
    talk.topic("offsets-nothing")
    talk.to().ask(ListOffsetsRequest(topics=[]), 7)
    talk.to().ask(list_offsets("offsets-nothing"), 7, "a topic without partitions")
    talk.to().ask(OffsetForLeaderEpochRequest(topics=[]), 4)
    empty = OffsetForLeaderEpochRequest.Topic(topic="offsets-nothing", partitions=[])
    talk.to().ask(OffsetForLeaderEpochRequest(topics=[empty]), 4, "a topic without partitions")


def test_each_version_says_where_an_epoch_ends(talk: Dialogue) -> None:
    topic = "offsets-epochs"
    talk.topic(topic, [(1, 2)])
    talk.to().ask(epoch_end(topic, 0), 4, "of an empty log")
    filled(talk, topic, batch(3))
    for version in versions(OffsetForLeaderEpochRequest):
        for epoch in (-1, 0, 1, 2**31 - 1, -2):
            talk.to().ask(epoch_end(topic, epoch), version, f"epoch {epoch}")
        for current in (0, 1, -2):
            talk.to().ask(epoch_end(topic, 0, current_leader_epoch=current), version, f"in epoch {current}")
        for node in (2, 3):
            talk.to(node).ask(epoch_end(topic, 0), version)
    for replica in (-1, -2, 2, 99):
        talk.to().ask(epoch_end(topic, 0, replica_id=replica), 4, f"replica {replica}")


def test_an_epoch_is_of_a_partition(talk: Dialogue) -> None:
    talk.topic("offsets-epoch-where")
    for version in versions(OffsetForLeaderEpochRequest):
        talk.to().ask(epoch_end("offsets-nowhere", 0), version, "an unknown topic")
        talk.to().ask(epoch_end("offsets-epoch-where", 0, partition=1), version, "an unknown partition")
        talk.to().ask(epoch_end("offsets-epoch-where", 0, partition=-1), version, "partition -1")
