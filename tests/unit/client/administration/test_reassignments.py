"""What an administrator asks about reassignments: the requests, and the answers in Python's words."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.client.administration.reassignments import PartitionReassignment, ReassignmentCalls, target_replicas
from pykraft.client.api_driver import ApiDriver
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.harness.scripted import Script, knowing, settings

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def asking() -> tuple[ReassignmentCalls, Script]:
    config = settings("admin")
    driver = ApiDriver(config, knowing(config, {}), Random(1))
    return ReassignmentCalls(driver), Script(driver)


def test_each_partition_has_its_target_and_its_own_answer() -> None:
    ask, script = asking()
    promise = ask.alter_partition_reassignments({T0: (3, 1), U0: None, T1: [2]}, False, 500, 60_000)
    script.poll()
    request = script.asked(AlterPartitionReassignmentsRequest)
    said = {
        (topic.name, each.partition_index): each.replicas and list(each.replicas)
        for topic in request.topics
        for each in topic.partitions
    }
    assert said == {("t", 0): [3, 1], ("t", 1): [2], ("u", 0): None}
    assert len(request.topics) == 2 and not request.allow_replication_factor_change
    topic_type = AlterPartitionReassignmentsResponse.Topic
    refused = topic_type.Partition(partition_index=0, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    t = topic_type(name="t", partitions=[topic_type.Partition(partition_index=number) for number in range(2)])
    response = AlterPartitionReassignmentsResponse(responses=[t, topic_type(name="u", partitions=[refused])])
    script.answer(AlterPartitionReassignmentsRequest, response)
    assert (promise.value[T0], promise.value[T1]) == (None, None)
    assert str(promise.value[U0]) == "NO_REASSIGNMENT_IN_PROGRESS: the partition is not being reassigned"


@pytest.mark.parametrize(("wanted", "named"), [(None, None), ([T1, U0, T0], [("t", [1, 0]), ("u", [0])]), ([], [])])
def test_what_is_listed_is_what_is_moving(
    wanted: list[TopicPartition] | None, named: list[tuple[str, list[int]]] | None
) -> None:
    ask, script = asking()
    promise = ask.list_partition_reassignments(wanted, 500, 60_000)
    script.poll()
    request = script.asked(ListPartitionReassignmentsRequest)
    assert (request.topics and [(each.name, list(each.partition_indexes)) for each in request.topics]) == named
    topic_type = ListPartitionReassignmentsResponse.Topic
    moving = topic_type.Partition(partition_index=1, replicas=[3, 1], adding_replicas=[3], removing_replicas=[1])
    response = ListPartitionReassignmentsResponse(topics=[topic_type(name="t", partitions=[moving])])
    script.answer(ListPartitionReassignmentsRequest, response)
    assert promise.value == {T1: PartitionReassignment((3, 1), (3,), (1,))}


def test_a_request_that_is_refused_as_a_whole_says_why() -> None:
    ask, script = asking()
    promise = ask.list_partition_reassignments(None, 500, 60_000)
    script.poll()
    error = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
    script.answer(ListPartitionReassignmentsRequest, ListPartitionReassignmentsRequest().refusal(error))
    assert str(promise.value) == "CLUSTER_AUTHORIZATION_FAILED: not you"


@pytest.mark.parametrize("wrong", ["12", 3, [1.5], [-1], [1 << 31], {1: 2}])
def test_a_target_is_a_list_of_broker_ids(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match="broker"):
        target_replicas(wrong)
