"""Offsets by time: whom to ask, when to ask again, when to give up."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.offsets import Found, OffsetAndTimestamp, OffsetLookups
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import Failure, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import ListOffsetsRequest, ListOffsetsResponse
from tests.harness.scripted import Leaders, Script, knowing, learn, partition, settings

T0, T1, T2 = partition("t-0"), partition("t-1"), partition("t-2")
LEADERS: Leaders = {"t": [(1, 3), (2, 4), (1, 5)]}
PAUSE_MS = 200


def looking(leaders: Leaders = LEADERS) -> tuple[OffsetLookups, ClusterMetadata, Script]:
    config = settings("consumer")
    metadata = knowing(config, leaders)
    driver = ApiDriver(config, metadata, Random(1))
    return OffsetLookups(config, driver), metadata, Script(driver)


def answered(
    places: Mapping[TopicPartition, int] = {}, errors: Mapping[TopicPartition, ErrorCode] = {}
) -> ListOffsetsResponse:
    topic_type = ListOffsetsResponse.Topic
    partitions = [
        topic_type.Partition(partition_index=key.partition, offset=offset, timestamp=offset * 10, leader_epoch=3)
        for key, offset in places.items()
    ]
    partitions += [topic_type.Partition(partition_index=key.partition, error_code=code) for key, code in errors.items()]
    return ListOffsetsResponse(topics=[topic_type(name="t", partitions=partitions)])


def found(promise: Promise[Found | KafkaError]) -> dict[TopicPartition, int]:
    assert isinstance(promise.value, Mapping)
    return {key: place.offset for key, place in promise.value.items()}


def test_each_leader_is_asked_for_its_partitions() -> None:
    lookups, _, script = looking()
    lookups.find({T0: -1, T1: -2, T2: 77}, 1, 60_000)
    asked = {}
    for outbound in script.poll():
        request: ListOffsetsRequest = outbound.request
        assert request.isolation_level == 1
        for topic in request.topics:
            for p in topic.partitions:
                where = TopicPartition(topic.name, p.partition_index)
                asked[where] = (outbound.destination.id, p.timestamp, p.current_leader_epoch)
    assert asked == {T0: (1, -1, 3), T1: (2, -2, 4), T2: (1, 77, 5)}


def test_the_answers_come_together() -> None:
    lookups, _, script = looking()
    promise = lookups.find({T0: -1, T1: -1}, 0, 60_000)
    first, second = script.poll()
    script.answer(second, answered({T1: 9}))
    assert not promise.kept
    script.answer(first, answered({T0: 4}))
    assert found(promise) == {T0: 4, T1: 9}
    assert promise.value[T0] == OffsetAndTimestamp(4, 40, 3)  # type: ignore[index]


def test_nothing_is_found_at_once() -> None:
    lookups, _, script = looking()
    assert lookups.find({}, 0, 60_000).value == {}
    assert script.poll() == []


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_LEADER_EPOCH],
    ids=lambda error: error.name,
)
def test_what_may_pass_is_asked_again_and_only_that(error: ErrorCode) -> None:
    lookups, metadata, script = looking()
    promise = lookups.find({T0: -1, T2: -1}, 0, 60_000)
    script.poll()
    script.answer(ListOffsetsRequest, answered({T2: 5}, {T0: error}))
    assert script.poll() == []
    learn(metadata, {"t": [(3, 9), (2, 4), (1, 5)]})
    (outbound,) = script.poll(PAUSE_MS)
    assert outbound.destination.id == 3, "the new leader"
    assert [p.partition_index for p in outbound.request.topics[0].partitions] == [0]
    script.answer(outbound, answered({T0: 1}))
    assert found(promise) == {T0: 1, T2: 5}


def test_a_lost_answer_is_asked_for_again() -> None:
    lookups, _, script = looking()
    promise = lookups.find({T0: -1}, 0, 60_000)
    script.poll()
    script.fail(ListOffsetsRequest)
    script.poll(PAUSE_MS)
    script.answer(ListOffsetsRequest, answered({T0: 1}))
    assert found(promise) == {T0: 1}


def test_what_does_not_pass_is_told() -> None:
    lookups, _, script = looking()
    promise = lookups.find({T0: -1, T1: -1}, 0, 60_000)
    script.poll()
    script.answer(ListOffsetsRequest, answered({}, {T0: ErrorCode.TOPIC_AUTHORIZATION_FAILED}))
    assert isinstance(promise.value, KafkaError)
    assert promise.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    script.answer(ListOffsetsRequest, answered({T1: 3}))  # too late to matter


def test_an_unsupported_request_is_no_reason_to_ask_for_ever() -> None:
    lookups, _, script = looking()
    promise = lookups.find({T0: -1}, 0, script.now + 60_000)
    script.poll()
    script.fail(ListOffsetsRequest, Failure.UNSUPPORTED_VERSION)
    assert isinstance(promise.value, KafkaError)
    assert promise.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_partition_that_nobody_leads_is_waited_for() -> None:
    lookups, metadata, script = looking({"t": [None]})
    promise = lookups.find({T0: -1}, 0, 60_000)
    assert script.poll() == []
    learn(metadata, LEADERS)
    script.poll()
    script.answer(ListOffsetsRequest, answered({T0: 1}))
    assert found(promise) == {T0: 1}


def test_but_not_beyond_the_deadline() -> None:
    lookups, _, script = looking({"t": [None]})
    promise = lookups.find({T0: -1}, 0, script.now + 500)
    script.poll(499)
    assert script.deadline == script.now + 1
    script.poll(1)
    assert isinstance(promise.value, ClientTimeoutError)
    assert str(promise.value).endswith("the offsets of t-0 were not found: no leader is known")
