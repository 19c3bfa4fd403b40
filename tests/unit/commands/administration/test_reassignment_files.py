"""The files of reassign-partitions: what may be in them, the sentence for what may not, and what a throttle names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykraft.client.administration.reassignments import PartitionReassignment
from pykraft.commands.administration.reassign_partitions import Move, moves_of, throttled_replicas
from pykraft.commands.administration.reassignment_files import (
    Replica,
    Wanted,
    read_reassignment,
    read_topics,
    reassignment_text,
)
from pykraft.commands.common import CommandError
from pykraft.common.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def entry(replicas: Any = (1, 2), partition: Any = 0, topic: Any = "t", **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "replicas": replicas, **more}


def file(*partitions: Any, **more: Any) -> str:
    return json.dumps({"version": 1, "partitions": partitions, **more})


def test_what_is_printed_can_be_read_again() -> None:
    replicas = {T1: [3], T0: [1, 2]}
    directories = {Replica(2, T0): "/é", Replica(3, T0): "/elsewhere"}
    text = reassignment_text(replicas, directories)
    assert text.startswith(
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","/é"]'
    )
    assert read_reassignment(text) == Wanted(replicas, {Replica(2, T0): "/é"})


def test_a_file_needs_no_version_and_no_directories() -> None:
    assert read_reassignment('{"partitions": [{"topic": "t", "partition": 1, "replicas": [3]}]}') == ({T1: [3]}, {})
    assert read_topics('{"topics": [{"topic": "t"}, {"topic": "u"}]}') == ["t", "u"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'must have {"version": 1'),
        ("[]", 'must have {"version": 1'),
        ("{}", 'must have {"version": 1'),
        (file(), "names no partition"),
        (file(version=2), "has version 2"),
        (file(3), 'must have {"version": 1'),
        (file(entry("12")), 'must have {"version": 1'),
        (file(entry([1.5])), 'must have {"version": 1'),
        (file(entry([-1])), 'must have {"version": 1'),
        (file(entry(partition="0")), 'must have {"version": 1'),
        (file(entry(topic=7)), 'must have {"version": 1'),
        (file(entry(log_dirs="any")), 'must have {"version": 1'),
        (file(entry(log_dirs=["any"])), "2 replicas and 1 log_dirs for t-0"),
        (file(entry([])), "no replica for t-0"),
        (file(entry([1, 1])), "a broker twice for t-0"),
        (file(entry(), entry([3])), "names more than once: t-0"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words.replace("{", r"\{")):
        read_reassignment(text)


@pytest.mark.parametrize("text", ['{"topics": [7]}', '{"topics": [{"topic": "t"}, {"topic": "t"}]}', '{"topic": "t"}'])
def test_topics_are_named_once(text: str) -> None:
    with pytest.raises(CommandError, match="--topics-to-move-json-file"):
        read_topics(text)


def test_a_throttle_names_the_replicas_that_are_copied_and_those_that_copy() -> None:
    moving = TopicPartition("moving", 0)
    wanted = {TopicPartition("t", 2): [3, 4], TopicPartition("t", 10): [1, 2], moving: [5]}
    now = {TopicPartition("t", 2): [1, 3], TopicPartition("t", 10): [2, 1], moving: [1, 2, 3]}
    moves = moves_of(wanted, now, {moving: PartitionReassignment((1, 2, 3), (3,), (1,))})
    assert moves[moving] == Move(frozenset({1, 2}), frozenset({5})), "it is sent elsewhere"
    assert throttled_replicas(moves) == {
        "t": {
            "leader.replication.throttled.replicas": "10:1,10:2,2:1,2:3",
            "follower.replication.throttled.replicas": "2:4",
        },
        "moving": {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:5",
        },
    }
