"""delete-records and log-dirs: what they read, and each mistake that one can make with them, in one sentence."""

from __future__ import annotations

import json

import pytest

from pykraft.client.administration.logs import LogDirDescription, ReplicaInfo
from pykraft.commands.administration.log_dirs import _brokers, _directory
from pykraft.commands.common import CommandError
from pykraft.commands.records.delete_records import read_offsets
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition


def entry(**fields: object) -> dict[str, object]:
    return {"topic": "t", "partition": 0, "offset": 3, **fields}


def test_the_file_of_kafkas_tool_is_read() -> None:
    text = json.dumps({"partitions": [entry(), entry(partition=1, offset=-1)], "version": 1})
    assert read_offsets(text) == {TopicPartition("t", 0): 3, TopicPartition("t", 1): -1}
    assert read_offsets('{"partitions": []}') == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "must have"),
        ("[]", "must have"),
        ("{}", "must have"),
        (json.dumps({"partitions": [{"topic": "t"}]}), "must have"),
        (json.dumps({"partitions": [entry(offset="3")]}), "must have"),
        (json.dumps({"partitions": [entry(partition=True)]}), "must have"),
        ("[" * 100_000, "must have"),
        (json.dumps({"partitions": [entry(partition=-1)]}), "must have"),
        (json.dumps({"partitions": [entry(partition=1 << 31)]}), "must have"),
        (json.dumps({"partitions": [entry(offset=-2)]}), "must have"),
        (json.dumps({"partitions": [entry(offset=1 << 63)]}), "must have"),
        (json.dumps({"partitions": [entry(topic="a\nb")]}), "must have"),
        (json.dumps({"partitions": [entry(topic=7)]}), "must have"),
        (json.dumps({"partitions": [], "version": 2}), "has version 2, but must have version 1"),
        (json.dumps({"partitions": [entry(), entry()]}), "partitions more than once: t-0"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence) as refused:
        read_offsets(text)
    assert "\n" not in str(refused.value)


def test_brokers_are_numbers() -> None:
    assert _brokers("") == set() and _brokers("1,2") == {1, 2}
    with pytest.raises(CommandError, match="--broker-list is x, but must be numbers"):
        _brokers("x")


def test_a_directory_is_printed_as_kafkas_tool_prints_it() -> None:
    replicas = {TopicPartition("t", 1): ReplicaInfo(83, 0, False), TopicPartition("u", 0): ReplicaInfo(1, -1, False)}
    described = LogDirDescription(ErrorCode.NONE, replicas, 1, 1)
    assert json.dumps(_directory("/d", described, {"t"})) == (
        '{"partitions": [{"partition": "t-1", "size": 83, "offsetLag": 0, "isFuture": false}], '
        '"error": null, "logDir": "/d"}'
    )
    failed = LogDirDescription(ErrorCode.KAFKA_STORAGE_ERROR, {}, -1, -1)
    assert _directory("/d", failed, ()) == {"partitions": [], "error": "KAFKA_STORAGE_ERROR", "logDir": "/d"}
