"""The JSON files of ``reassign-partitions``: where partitions are to go, and which topics are to move.

::

    {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [3, 1], "log_dirs": ["any", "any"]}]}
    {"version": 1, "topics": [{"topic": "flights"}]}

``log_dirs`` has the log directory of each replica, or "any"; it may be left out. The command prints files of the first
form itself: where partitions are now, to go back to, and where they might go.

Follows org.apache.kafka.tools.reassign.ReassignPartitionsCommand.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pykraft.client.administration.reassignments import target_replicas
from pykraft.client.arguments import topic_name, topic_partition
from pykraft.commands.common import CommandError
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"
_NOT_IN_FORM = (ValueError, TypeError, AttributeError, KeyError, RecursionError, KafkaError)


class Replica(NamedTuple):
    """One copy of a partition."""

    broker: int
    partition: TopicPartition


class Wanted(NamedTuple):
    """What a file asks for: brokers by partition, and log directories of single replicas."""

    replicas: dict[TopicPartition, list[int]]
    directories: dict[Replica, str]


def read_reassignment(text: str) -> Wanted:
    """The content of --reassignment-json-file; CommandError says what is wrong with it."""
    option = "--reassignment-json-file"
    try:
        entries = [_entry(entry) for entry in _content(option, text)["partitions"]]
    except _NOT_IN_FORM:
        raise CommandError(
            f'{option} must have {{"version": 1, "partitions": [{{"topic": NAME, "partition": N, '
            '"replicas": [ID, ...]}, ...]}'
        ) from None
    if not entries:
        raise CommandError(f"{option} names no partition")
    _check_once(option, (str(key) for key, _, _ in entries))
    for key, replicas, directories in entries:
        if not replicas:
            raise CommandError(f"{option} has no replica for {key}")
        if len(set(replicas)) < len(replicas):
            raise CommandError(f"{option} has a broker twice for {key}: {replicas}")
        if len(directories) != len(replicas):
            raise CommandError(f"{option} has {len(replicas)} replicas and {len(directories)} log_dirs for {key}")
    return Wanted(
        {key: replicas for key, replicas, _ in entries},
        {
            Replica(broker, key): directory
            for key, replicas, directories in entries
            for broker, directory in zip(replicas, directories, strict=True)
            if directory != ANY_DIRECTORY
        },
    )


def read_topics(text: str) -> list[str]:
    """The content of --topics-to-move-json-file; CommandError says what is wrong with it."""
    option = "--topics-to-move-json-file"
    try:
        topics = [topic_name(entry["topic"]) for entry in _content(option, text)["topics"]]
    except _NOT_IN_FORM:
        raise CommandError(f'{option} must have {{"version": 1, "topics": [{{"topic": NAME}}, ...]}}') from None
    _check_once(option, topics)
    return topics


def reassignment_text(replicas: Mapping[TopicPartition, Sequence[int]], directories: Mapping[Replica, str]) -> str:
    """The line of JSON that says where partitions are, or go; replicas whose directory is not known go to any."""
    partitions = [
        {
            "topic": key.topic,
            "partition": key.partition,
            "replicas": list(brokers),
            "log_dirs": [directories.get(Replica(broker, key), ANY_DIRECTORY) for broker in brokers],
        }
        for key, brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def _content(option: str, text: str) -> Any:
    content = json.loads(text)
    version = content.get("version", VERSION)
    if version != VERSION:
        raise CommandError(f"{option} has version {version}, but must have version {VERSION}")
    return content


def _entry(entry: Any) -> tuple[TopicPartition, list[int], list[str]]:
    topic, partition, brokers = entry["topic"], entry["partition"], entry["replicas"]
    directories = entry.get("log_dirs", [ANY_DIRECTORY] * len(brokers))
    if type(partition) is not int or not isinstance(brokers, list) or not isinstance(directories, list):
        raise ValueError
    if any(type(broker) is not int for broker in brokers) or any(type(each) is not str for each in directories):
        raise ValueError
    return topic_partition((topic, partition)), target_replicas(brokers) or [], directories


def _check_once(option: str, names: Iterable[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise CommandError(f"{option} names more than once: {', '.join(twice)}")
