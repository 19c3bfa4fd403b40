"""What an administrator asks about leaders, and the command that asks it: requests, answers, and each mistake."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from pykraft.cli import main
from pykraft.client.administration.elections import ElectionCalls, ElectionType, election_type
from pykraft.client.api_driver import ApiDriver
from pykraft.commands.administration.leader_election import _print, read_partitions
from pykraft.commands.common import CommandError
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.elections import ElectLeadersRequest, ElectLeadersResponse
from tests.harness.scripted import Script, knowing, settings

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
PREFERRED = ElectionType.PREFERRED


def asking() -> tuple[ElectionCalls, Script]:
    config = settings("admin")
    driver = ApiDriver(config, knowing(config, {}), Random(1))
    return ElectionCalls(driver), Script(driver)


def elected(*results: tuple[int, ErrorCode, str | None], error: ErrorCode = ErrorCode.NONE) -> ElectLeadersResponse:
    result_type = ElectLeadersResponse.ReplicaElectionResult
    partitions = [
        result_type.PartitionResult(partition_id=number, error_code=code, error_message=message)
        for number, code, message in results
    ]
    topic = result_type(topic="t", partition_result=partitions)
    return ElectLeadersResponse(error_code=error, replica_election_results=[topic])


@pytest.mark.parametrize(
    ("partitions", "asked"), [(None, None), ([], []), ([ONE, ZERO, ONE, TopicPartition("u", 2)], ["t 1 0", "u 2"])]
)
def test_partitions_are_asked_for_by_topic_and_all_are_null(partitions: Any, asked: Any) -> None:
    ask, script = asking()
    ask.elect_leaders(ElectionType.UNCLEAN, partitions, 500, 60_000)
    script.poll()
    request = script.asked(ElectLeadersRequest)
    topics = request.topic_partitions
    assert (request.election_type, request.timeout_ms) == (1, 500)
    assert asked == (topics and [" ".join(map(str, [each.topic, *each.partitions])) for each in topics])


def test_each_partition_has_its_answer() -> None:
    ask, script = asking()
    promise = ask.elect_leaders(PREFERRED, None, 500, 60_000)
    script.poll()
    refused = (1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "because")
    bare = (2, ErrorCode.ELECTION_NOT_NEEDED, None)
    script.answer(ElectLeadersRequest, elected((0, ErrorCode.NONE, None), refused, bare))
    found = promise.value
    assert not isinstance(found, KafkaError) and found[ZERO] is None
    assert str(found[ONE]) == "PREFERRED_LEADER_NOT_AVAILABLE: t-1: because"
    assert str(found[TopicPartition("t", 2)]).startswith("ELECTION_NOT_NEEDED: t-2: ")


def test_an_error_of_the_answer_is_that_of_the_call_and_one_that_passes_is_asked_again() -> None:
    ask, script = asking()
    promise = ask.elect_leaders(PREFERRED, None, 500, 60_000)
    script.poll()
    script.answer(ElectLeadersRequest, elected(error=ErrorCode.NOT_CONTROLLER))
    assert not promise.kept
    script.poll(1000)
    script.answer(ElectLeadersRequest, elected(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert isinstance(promise.value, KafkaError) and promise.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("kind", [ElectionType.UNCLEAN, 1, "unclean", "UNCLEAN"])
def test_a_type_of_election_may_be_said_in_words(kind: Any) -> None:
    assert election_type(kind) is ElectionType.UNCLEAN


@pytest.mark.parametrize("kind", [2, "favourite", None])
def test_another_type_of_election_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"the type of an election is ElectionType\.PREFERRED or \.UNCLEAN, not "):
        election_type(kind)


# --- the command ------------------------------------------------------------------------------------------------------


def test_results_are_printed_as_kafkas_tool_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    not_needed = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    failed = KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "u-0: because")
    results = {ONE: None, TopicPartition("u", 0): failed, TopicPartition("v", 1): not_needed, ZERO: None}
    assert _print(PREFERRED, results) == 1
    assert capsys.readouterr().out.splitlines() == [
        "Successfully completed leader election (PREFERRED) for partitions t-0, t-1",
        "Valid replica already elected for partitions v-1",
        "Error completing leader election (PREFERRED) for partition: u-0: PREFERRED_LEADER_NOT_AVAILABLE: u-0: because",
    ]


def test_the_file_of_kafkas_tool_is_read() -> None:
    assert read_partitions('{"partitions": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 0}]}') == [
        ONE,
        ZERO,
    ]
    assert read_partitions('{"partitions": []}') == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "must have"),
        ("[]", "must have"),
        ("{}", "must have"),
        ("[" * 100_000, "must have"),
        *(
            (json.dumps({"partitions": [{"topic": "t", "partition": 0} | wrong]}), "must have")
            for wrong in ({"partition": -1}, {"partition": "0"}, {"partition": True}, {"topic": 7}, {"topic": "a\nb"})
        ),
        (json.dumps({"partitions": [{"topic": "t", "partition": 0}] * 2}), "partitions more than once: t-0"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence) as refused:
        read_partitions(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "--election-type"),
        ("--election-type preferred", "one of the arguments --topic --path-to-json-file --all-topic-partitions"),
        ("--election-type best --all-topic-partitions", "invalid choice: 'best'"),
        ("--election-type preferred --topic t --all-topic-partitions", "not allowed with"),
        ("--election-type preferred --topic t", "--topic needs --partition"),
        ("--election-type preferred --partition 1 --all-topic-partitions", "--partition is only allowed with --topic"),
        ("--election-type PREFERRED --topic t --partition -1", "the number of a partition is 0 or more"),
    ],
)
def test_a_mistake_is_one_sentence(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leader-election", "--bootstrap-server", "localhost:1", *words.split()]) == 1
    out, complaint = capsys.readouterr()
    assert not out and sentence in complaint and complaint.count("\n") == 1
