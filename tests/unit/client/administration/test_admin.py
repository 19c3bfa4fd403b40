"""What an administrator asks: the requests, the answers in Python's words, and what is asked again."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.client.administration.admin import (
    AdminCalls,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    UnknownTopicError,
    new_partitions,
)
from pykraft.client.api_driver import ApiDriver
from pykraft.client.errors import ClientTimeoutError
from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Node
from pykraft.protocol.messages.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from pykraft.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    TopicPartitionCursor,
)
from pykraft.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tests.harness.scripted import HOST, Script, described, knowing, settings, topic_id

PAUSE_MS = 200


def asking() -> tuple[AdminCalls, Script]:
    config = settings("admin")
    driver = ApiDriver(config, knowing(config, {}), Random(1))
    return AdminCalls(driver), Script(driver)


def created(name: str = "t", error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> CreateTopicsResponse:
    topic_type = CreateTopicsResponse.Topic
    topic = topic_type(name=name, topic_id=topic_id(name), error_code=error, error_message=message)
    return CreateTopicsResponse(topics=[topic])


def deleted(name: str, error: ErrorCode = ErrorCode.NONE) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[DeleteTopicsResponse.Topic(name=name, error_code=error)])


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_is_asked_for_by_numbers_or_by_replicas() -> None:
    ask, script = asking()
    topics = [
        NewTopic("defaults"),
        NewTopic("numbers", 3, 2, topic_configs={"retention.ms": "1"}),
        NewTopic("replicas", 9, 9, replica_assignments={1: [2, 3], 0: [1, 2]}),
    ]
    ask.create_topics(topics, True, 500, 60_000)
    script.poll()
    request = script.asked(CreateTopicsRequest)
    assert (request.validate_only, request.timeout_ms) == (True, 500)
    said = [
        (
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            {each.partition_index: list(each.broker_ids) for each in topic.assignments},
            {each.name: each.value for each in topic.configs},
        )
        for topic in request.topics
    ]
    assert said == [
        ("defaults", -1, -1, {}, {}),
        ("numbers", 3, 2, {}, {"retention.ms": "1"}),
        ("replicas", -1, -1, {0: [1, 2], 1: [2, 3]}, {}),
    ]


def test_the_ids_of_what_was_made_are_told() -> None:
    ask, script = asking()
    promise = ask.create_topics([NewTopic("t")], False, 500, 60_000)
    script.poll()
    script.answer(CreateTopicsRequest, created())
    assert promise.value == {"t": topic_id("t")}


@pytest.mark.parametrize(
    "error",
    [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_PARTITIONS, ErrorCode.POLICY_VIOLATION],
    ids=lambda error: error.name,
)
def test_a_refusal_is_told_in_the_brokers_words(error: ErrorCode) -> None:
    ask, script = asking()
    promise = ask.create_topics([NewTopic("t")], False, 500, 60_000)
    script.poll()
    script.answer(CreateTopicsRequest, created(error=error, message="because"))
    assert isinstance(promise.value, KafkaError)
    assert (promise.value.code, str(promise.value)) == (error, f"{error.name}: t: because")


def test_what_is_not_there_cannot_be_deleted_and_is_not_tried_again() -> None:
    ask, script = asking()
    promise = ask.delete_topics(["t"], 500, 60_000)
    script.poll()
    assert [topic.name for topic in script.asked(DeleteTopicsRequest).topics] == ["t"]
    assert script.asked(DeleteTopicsRequest).topic_names == ["t"], "for brokers that know no ids"
    script.answer(DeleteTopicsRequest, deleted("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert isinstance(promise.value, UnknownTopicError)


def test_more_partitions_are_asked_for_by_the_number_in_all() -> None:
    ask, script = asking()
    grown = {"t": new_partitions(4), "u": NewPartitions(3, [[1, 2]])}
    promise = ask.create_partitions(grown, True, 500, 60_000)
    script.poll()
    request = script.asked(CreatePartitionsRequest)
    said = [
        (topic.name, topic.count, topic.assignments and [list(each.broker_ids) for each in topic.assignments])
        for topic in request.topics
    ]
    assert said == [("t", 4, None), ("u", 3, [[1, 2]])] and request.validate_only
    topic_type = CreatePartitionsResponse.Topic
    refused = topic_type(name="u", error_code=ErrorCode.INVALID_PARTITIONS, error_message="because")
    script.answer(CreatePartitionsRequest, CreatePartitionsResponse(results=[topic_type(name="t"), refused]))
    assert str(promise.value) == "INVALID_PARTITIONS: u: because"


@pytest.mark.parametrize("wrong", ["4", 4.5, None, NewPartitions("4"), 1 << 31])  # type: ignore[arg-type]
def test_a_number_of_partitions_is_a_whole_number(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError, KafkaError), match="the number of partitions"):
        new_partitions(wrong)


def test_what_was_deleted_is_gone() -> None:
    ask, script = asking()
    promise = ask.delete_topics(["t"], 500, 60_000)
    script.poll()
    script.answer(DeleteTopicsRequest, deleted("t"))
    assert promise.kept and promise.value is None


TOPIC = DescribeTopicPartitionsResponse.Topic


def page(
    *topics: tuple[str, range], following: tuple[str, int] | None = None, errors: dict[str, ErrorCode] | None = None
) -> DescribeTopicPartitionsResponse:
    """Topics with partitions of these numbers, and where the next page begins."""
    kind = TOPIC.Partition
    broker = {"leader_id": 2, "leader_epoch": 5, "replica_nodes": [1, 2, 3], "isr_nodes": [2], "offline_replicas": [1]}
    eligible = {"eligible_leader_replicas": [3], "last_known_elr": []}
    found = [
        TOPIC(
            name=name,
            topic_id=topic_id(name),
            partitions=[kind(partition_index=number, **broker, **eligible) for number in numbers],  # type: ignore[arg-type]
        )
        for name, numbers in topics
    ]
    found += [TOPIC(name=name, error_code=error, partitions=[]) for name, error in (errors or {}).items()]
    cursor = None if following is None else TopicPartitionCursor(topic_name=following[0], partition_index=following[1])
    return DescribeTopicPartitionsResponse(topics=found, next_cursor=cursor)


def test_a_topic_reads_like_this() -> None:
    ask, script = asking()
    promise = ask.describe_topics(["t"], 60_000)
    script.poll()
    script.answer(DescribeTopicPartitionsRequest, page(("t", range(2))))
    assert isinstance(promise.value, dict)
    first, second = promise.value["t"].partitions
    assert first == PartitionDescription(0, 2, 5, (1, 2, 3), (2,), (1,), (3,), ())
    assert second.partition == 1


def test_what_does_not_fit_into_one_response_is_asked_for_from_the_cursor_on() -> None:
    ask, script = asking()
    promise = ask.describe_topics(["c", "a", "b", "c"], 60_000, 3)
    pages = [
        (["a", "b", "c"], None, page(("a", range(2)), ("b", range(1)), following=("b", 1))),
        (["b", "c"], ("b", 1), page(("b", range(1, 4)), following=("c", 0))),
        (["c"], ("c", 0), page(("c", range(1)))),
    ]
    for names, cursor, response in pages:
        script.poll()
        request = script.asked(DescribeTopicPartitionsRequest)
        asked_from = request.cursor and (request.cursor.topic_name, request.cursor.partition_index)
        assert ([topic.name for topic in request.topics], asked_from) == (names, cursor)
        assert request.response_partition_limit == 3
        script.answer(DescribeTopicPartitionsRequest, response)
    assert isinstance(promise.value, dict)
    found = {name: [each.partition for each in topic.partitions] for name, topic in promise.value.items()}
    assert found == {"a": [0, 1], "b": [0, 1, 2, 3], "c": [0]}


def test_a_topic_that_is_created_again_between_two_responses_has_only_its_new_partitions() -> None:
    ask, script = asking()
    promise = ask.describe_topics(["t"], 60_000)
    script.poll()
    script.answer(DescribeTopicPartitionsRequest, page(("t", range(2)), following=("t", 2)))
    script.poll()
    again = page(("t", range(2, 3)))
    again.topics[0].topic_id = topic_id("another")
    script.answer(DescribeTopicPartitionsRequest, again)
    assert isinstance(promise.value, dict)
    assert promise.value["t"].topic_id == topic_id("another")
    assert [each.partition for each in promise.value["t"].partitions] == [2]


def test_all_topics_are_asked_for_by_naming_none_and_no_topics_are_not_asked_for() -> None:
    ask, script = asking()
    ask.describe_topics(None, 60_000)
    script.poll()
    assert list(script.asked(DescribeTopicPartitionsRequest).topics) == []
    assert ask.describe_topics([], 60_000).value == {}
    listed = ask.list_topics(60_000)
    script.poll()
    script.answer(MetadataRequest, described({"b": [(1, 0)], "a": [(1, 0)]}))
    assert listed.value == ["a", "b"]


def test_an_older_broker_is_asked_for_metadata_and_does_not_know_eligible_leader_replicas() -> None:
    ask, script = asking()
    promise = ask.describe_topics(["t"], 60_000)
    script.poll()
    script.fail(DescribeTopicPartitionsRequest, Failure.UNSUPPORTED_VERSION)
    script.poll()
    assert not script.asked(MetadataRequest).allow_auto_topic_creation, "to look is not to make"
    script.answer(MetadataRequest, described({"t": [(2, 5), None]}))
    assert isinstance(promise.value, dict)
    first, second = promise.value["t"].partitions
    assert first == PartitionDescription(0, 2, 5, (1, 2, 3), (1, 2, 3), (), None, None)
    assert (second.partition, second.leader) == (1, -1)


def test_a_topic_that_is_not_there_cannot_be_described() -> None:
    for is_old in (False, True):
        ask, script = asking()
        promise = ask.describe_topics(["t"], 60_000)
        script.poll()
        errors = {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        if is_old:
            script.fail(DescribeTopicPartitionsRequest, Failure.UNSUPPORTED_VERSION)
            script.poll()
            script.answer(MetadataRequest, described({}, errors=errors))
        else:
            script.answer(DescribeTopicPartitionsRequest, page(errors=errors))
        assert str(promise.value) == "UNKNOWN_TOPIC_OR_PARTITION: there is no topic t"


# --- the cluster ------------------------------------------------------------------------------------------------------


def test_the_cluster_reads_like_this() -> None:
    ask, script = asking()
    promise = ask.describe_cluster(60_000)
    script.poll()
    broker = DescribeClusterResponse.Broker(broker_id=1, host=HOST, port=9001, rack="r")
    script.answer(DescribeClusterRequest, DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=[broker]))
    assert promise.value == ("c", 1, (Node(1, HOST, 9001, "r"),), frozenset())


def test_the_quorum_reads_like_this() -> None:
    ask, script = asking()
    promise = ask.describe_quorum(60_000)
    script.poll()
    topic_type = DescribeQuorumResponse.Topic
    state = topic_type.Partition.ReplicaState
    partition = topic_type.Partition(
        partition_index=0,
        leader_id=1,
        leader_epoch=4,
        high_watermark=9,
        current_voters=[state(replica_id=1, log_end_offset=10)],
        observers=[state(replica_id=7, log_end_offset=8)],
    )
    topic = topic_type(topic_name="__cluster_metadata", partitions=[partition])
    script.answer(DescribeQuorumRequest, DescribeQuorumResponse(topics=[topic]))
    quorum: Any = promise.value
    assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (1, 4, 9)
    assert [replica.log_end_offset for replica in (*quorum.voters, *quorum.observers)] == [10, 8]


def test_an_answer_that_makes_no_sense_is_an_error_and_nothing_worse() -> None:
    ask, script = asking()
    promise = ask.describe_quorum(60_000)
    script.poll()
    script.answer(DescribeQuorumRequest, DescribeQuorumResponse(topics=[]))
    assert str(promise.value).startswith("UNKNOWN_SERVER_ERROR: to describe the quorum: the answer makes no sense")


# --- again ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_what_may_pass_is_asked_again_after_a_pause(error: ErrorCode) -> None:
    ask, script = asking()
    promise = ask.create_topics([NewTopic("t")], False, 500, 60_000)
    script.poll()
    script.answer(CreateTopicsRequest, created(error=error))
    assert script.poll() == []
    assert len(script.poll(PAUSE_MS)) == 1
    script.answer(CreateTopicsRequest, created())
    assert promise.value == {"t": topic_id("t")}


@pytest.mark.parametrize("failure", [Failure.DISCONNECTED, Failure.TIMED_OUT])
def test_a_broker_that_does_not_answer_is_not_the_last_word(failure: Failure) -> None:
    ask, script = asking()
    promise = ask.describe_cluster(60_000)
    destinations = set()
    for _ in range(20):
        (outbound,) = script.poll(2000)
        destinations.add(outbound.destination.id)
        script.fail(outbound, failure)
    assert destinations >= {1, 2, 3}, "others are asked"
    script.poll(60_000)
    assert isinstance(promise.value, ClientTimeoutError)


def test_a_broker_that_does_not_speak_it_is() -> None:
    ask, script = asking()
    promise = ask.describe_cluster(60_000)
    script.poll()
    script.fail(DescribeClusterRequest, Failure.UNSUPPORTED_VERSION)
    assert str(promise.value) == "UNSUPPORTED_VERSION: to describe the cluster: the broker does not speak this API"


def test_the_last_obstacle_is_told_when_it_is_too_late() -> None:
    ask, script = asking()
    promise = ask.create_topics([NewTopic("t")], False, 500, script.now + 1000)
    script.poll()
    script.answer(CreateTopicsRequest, created(error=ErrorCode.NOT_CONTROLLER, message="ask another"))
    script.poll(1000)
    assert isinstance(promise.value, ClientTimeoutError)
    assert "to create topics: NOT_CONTROLLER: t: ask another" in str(promise.value)


def test_an_answer_that_comes_too_late_is_not_heard() -> None:
    ask, script = asking()
    promise = ask.describe_cluster(script.now + 1000)
    (outbound,) = script.poll()
    assert outbound.timeout_ms == 1000
    script.poll(1000)
    assert isinstance(promise.value, ClientTimeoutError)
    script.answer(outbound, DescribeClusterResponse(cluster_id="c", brokers=[]))
