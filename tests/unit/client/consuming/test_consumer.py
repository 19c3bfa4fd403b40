"""A consumer without a thread: from a topic's name to its records, and what a leader change does to it."""

from __future__ import annotations

import re
from random import Random

import pytest

from pykraft.client import config as keys
from pykraft.client.config import consumer_config
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.subscription import State
from pykraft.common.errors import ConfigError, ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from pykraft.records.builder import RecordBatchBuilder
from tests.harness.scripted import Leaders, Script, described, partition, settings, topic_id

T0, T1 = partition("t-0"), partition("t-1")


class Reading:
    """A consumer core, and brokers that have so many records of each partition, in leader epoch 0."""

    def __init__(self, **given: object) -> None:
        self.core = ConsumerCore(settings("consumer", **{"auto_offset_reset": "earliest", **given}), Random(1))
        self.script = Script(self.core)
        self.leaders: Leaders = {"t": [(1, 0), (2, 0)]}
        self.end = 10
        self.is_known = True
        """Whether the brokers that are asked for metadata have heard of the topic."""
        self.id = topic_id("t")

    def run(self, rounds: int = 3) -> None:
        """Everything that is asked for is answered."""
        for _ in range(rounds):
            self.script.poll(200)
            for outbound in list(self.script.sent):
                self.script.answer(outbound, self._answer(outbound.request))

    def _answer(self, request: object) -> object:
        match request:
            case MetadataRequest():
                if not self.is_known:
                    return described({}, errors={"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
                answer = described(self.leaders)
                answer.topics[0].topic_id = self.id
                return answer
            case ListOffsetsRequest():
                return self._offsets(request)
            case OffsetForLeaderEpochRequest():
                return self._epoch_ends(request)
            case FetchRequest():
                return self._records(request)
        raise AssertionError(f"unexpected: {request}")

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topic_type = ListOffsetsResponse.Topic
        places = [
            topic_type.Partition(
                partition_index=p.partition_index, offset=0 if p.timestamp == -2 else self.end, leader_epoch=0
            )
            for p in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[topic_type(name="t", partitions=places)])

    def _epoch_ends(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        topic_type = OffsetForLeaderEpochResponse.Topic
        ends = [
            topic_type.Partition(partition=p.partition, end_offset=self.end, leader_epoch=0)
            for p in request.topics[0].partitions
        ]
        return OffsetForLeaderEpochResponse(topics=[topic_type(topic="t", partitions=ends)])

    def _records(self, request: FetchRequest) -> FetchResponse:
        part_type = FetchResponse.Topic.Partition
        parts = []
        for asked in request.topics[0].partitions:
            part = part_type(partition_index=asked.partition, high_watermark=self.end)
            leader = self.leaders["t"][asked.partition]
            if leader is None or asked.current_leader_epoch < leader[1]:
                part.error_code = ErrorCode.FENCED_LEADER_EPOCH
            elif asked.fetch_offset > self.end:
                part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            elif asked.fetch_offset < self.end:
                builder = RecordBatchBuilder(base_offset=asked.fetch_offset, leader_epoch=0)
                for offset in range(asked.fetch_offset, self.end):
                    builder.append(offset, None, b"%d" % offset)
                part.records = bytes(builder.build())
            parts.append(part)
        topic = FetchResponse.Topic(topic="", topic_id=self.id, partitions=parts)
        return FetchResponse(responses=[topic])

    def take(self) -> dict[TopicPartition, list[int]]:
        found: dict[TopicPartition, list[int]] = {}
        for each in self.core.take(500):
            found.setdefault(each.topic_partition, []).append(each.record.offset)
        return found


def test_a_topic_is_read_from_its_start() -> None:
    some = Reading()
    some.core.subscribe(["t"])
    some.run()
    assert some.core.has_news
    assert some.take() == {T0: list(range(10)), T1: list(range(10))}
    assert some.take() == {}


def test_or_from_its_end() -> None:
    some = Reading(auto_offset_reset="latest")
    some.core.subscribe(["t"])
    some.run()
    assert some.take() == {}
    some.end = 12
    some.run()
    assert some.take() == {T0: [10, 11], T1: [10, 11]}


def test_only_what_was_assigned_is_read() -> None:
    some = Reading()
    some.core.assign([T1])
    some.run()
    assert some.take() == {T1: list(range(10))}


def test_partitions_that_come_later_are_read_too() -> None:
    some = Reading()
    some.core.subscribe(["t"])
    some.run()
    some.take()
    some.leaders = {"t": [(1, 0), (2, 0), (1, 0)]}
    some.core.metadata.request_update()
    some.run()
    assert some.take() == {TopicPartition("t", 2): list(range(10))}


def test_a_partition_without_a_leader_holds_up_no_other() -> None:
    some = Reading()
    some.leaders = {"t": [(1, 0), None]}
    some.core.subscribe(["t"])
    some.run(5)
    assert some.take() == {T0: list(range(10))}
    some.leaders = {"t": [(1, 0), (2, 1)]}
    some.run(5)
    assert some.take() == {T1: list(range(10))}


def test_a_topic_that_a_broker_does_not_know_for_a_moment_keeps_its_positions() -> None:
    some = Reading(auto_offset_reset="latest")
    some.core.subscribe(["t"])
    some.run(5)
    some.is_known = False
    some.core.metadata.request_update()
    some.run(2)
    assert some.core.metadata.partitions_of("t") is None, "else this tests nothing"
    some.end = 15
    some.is_known = True
    some.run(5)
    assert some.take() == {T0: list(range(10, 15)), T1: list(range(10, 15))}


def test_a_topic_that_was_made_again_is_read_from_where_the_policy_says() -> None:
    some = Reading()
    some.core.subscribe(["t"])
    some.run(5)
    assert some.take() == {T0: list(range(10)), T1: list(range(10))}
    some.is_known = False
    some.core.metadata.request_update()
    some.run(2)
    some.is_known, some.id, some.end = True, topic_id("another t"), 12
    some.run(5)
    assert some.take() == {T0: list(range(12)), T1: list(range(12))}


def test_a_seek_is_the_last_word() -> None:
    some = Reading()
    some.core.assign([T0])
    some.run()
    some.core.seek(T0, 7)
    assert some.take() == {}, "what was fetched before is dropped"
    some.run()
    assert some.take() == {T0: [7, 8, 9]}


def test_a_seek_beyond_the_end_is_corrected_by_the_policy() -> None:
    some = Reading()
    some.core.assign([T0])
    some.run()
    some.core.seek(T0, 77)
    assert some.take() == {}
    some.run(6)
    assert some.take() == {T0: list(range(10))}


def test_seeking_to_the_end_and_to_the_start() -> None:
    some = Reading()
    some.core.assign([T0])
    some.run()
    some.core.seek_to(T0, -1)
    assert not some.core.state(T0).has_position
    some.run()
    assert some.take() == {}
    some.core.seek_to(T0, -2)
    some.run()
    assert some.take() == {T0: list(range(10))}


def test_a_leader_change_loses_nothing_and_shows_nothing_twice() -> None:
    some = Reading()
    some.core.assign([T0])
    some.run()
    some.take()
    some.leaders = {"t": [(3, 1), (2, 0)]}
    some.end = 15
    some.core.metadata.request_update()
    some.run(4)
    assert some.core.state(T0).state is State.FETCHING
    assert some.core.state(T0).checked_epoch == 1, "the new leader was asked first"
    assert some.take() == {T0: [10, 11, 12, 13, 14]}


def test_what_the_new_leader_does_not_have_is_read_anew() -> None:
    some = Reading()
    some.core.assign([T0])
    some.run()
    some.take()
    some.leaders = {"t": [(3, 1), (2, 0)]}
    some.end = 8
    some.core.metadata.request_update()
    some.run(4)
    position = some.core.state(T0).position
    assert position is not None and position.offset == 8
    some.end = 9
    some.run()
    assert some.take() == {T0: [8]}


def test_what_is_not_read_has_no_state() -> None:
    some = Reading()
    with pytest.raises(ValueError, match="t-0 is not assigned to this consumer"):
        some.core.seek(T0, 1)
    some.core.assign([T0])
    with pytest.raises(ValueError, match="an offset is 0 or more and at most 9223372036854775807, not -1"):
        some.core.seek(T0, -1)


def test_a_topic_that_cannot_be_read_says_so() -> None:
    some = Reading()
    some.core.subscribe(["a/b"])
    some.script.poll()
    some.script.answer(MetadataRequest, described({}, errors={"a/b": ErrorCode.INVALID_TOPIC_EXCEPTION}))
    assert "INVALID_TOPIC_EXCEPTION: a/b" in str(some.core.unreachable())


def test_a_topic_that_was_refused_is_asked_about_again_while_it_is_read() -> None:
    """There may be a rule by then. It stayed refused until the metadata was five minutes old."""
    some = Reading()
    some.core.subscribe(["t"])
    some.script.poll()
    some.script.answer(MetadataRequest, described({}, errors={"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}))
    assert "TOPIC_AUTHORIZATION_FAILED: t" in str(some.core.unreachable())
    some.script.poll(200)
    some.script.answer(MetadataRequest, described({"t": [(1, 0), (2, 0)]}))
    assert some.core.unreachable() is None


def test_a_pattern_reads_the_topics_of_the_cluster_that_match() -> None:
    some = Reading()
    some.core.subscribe_pattern(re.compile("t|x.*"))
    some.script.poll()
    assert some.script.asked(MetadataRequest).topics is None, "it asks for all topics"
    some.run(4)
    assert some.core.subscription.topics == {"t"}
    assert some.take() == {T0: list(range(10)), T1: list(range(10))}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(
            ({"group_protocol": "consumer", name: value}, f"{name} cannot be set when group.protocol=CONSUMER")
            for name, value in (
                ("partition.assignment.strategy", "range"),
                ("heartbeat.interval.ms", 3000),
                ("session.timeout.ms", 45_000),
            )
        ),
        ({"group_remote_assignor": "range"}, "group.remote.assignor cannot be set when group.protocol=CLASSIC"),
        ({"enable_auto_commit": True}, "enable.auto.commit is true, but must be false without group.id"),
        (
            {"group_id": "g", "session_timeout_ms": 3000},
            "heartbeat.interval.ms is 3000, but must be less than session.timeout.ms, which is 3000",
        ),
        ({"session_timeout": 1}, "session.timeout is no setting of this client. Did you mean session.timeout.ms?"),
        (
            {"partition_assignment_strategy": "range,best"},
            "a comma-separated list of range, roundrobin, sticky, cooperative-sticky",
        ),
    ],
)
def test_settings_of_groups_that_contradict_each_other_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        consumer_config({"bootstrap_servers": "127.0.0.1:9000", **given})


def test_without_a_group_nothing_is_committed_automatically_and_assignors_have_javas_names_too() -> None:
    config = consumer_config(
        {
            "bootstrap_servers": "127.0.0.1:9000",
            "partition_assignment_strategy": ["org.apache.kafka.clients.consumer.StickyAssignor", "RangeAssignor"],
        }
    )
    assert not config[keys.ENABLE_AUTO_COMMIT]
    assert config[keys.PARTITION_ASSIGNMENT_STRATEGY] == ("sticky", "range")
