"""Nodes with two log directories each, of pykraft and of Apache Kafka, and what is asked of both.

    with kafka_nodes(tmp_path, 1) as nodes:
        place(nodes, 1, "flights", {1: [0, 1], 2: [2, 3]})
        create(nodes, "flights", {number: [1] for number in range(4)})
        assert place_of(nodes) == {"flights-0": 1, ...}

Directories are known by their numbers, 1 and 2, and texts have names in place of their paths (`told`).
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pykraft import Admin, Cluster, NewTopic
from pykraft.cli import main
from pykraft.client.administration.admin import UnknownTopicError
from pykraft.protocol.messages.data import LATEST_TIMESTAMP, ListOffsetsRequest
from pykraft.protocol.messages.logs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from pykraft.protocol.schema import Struct
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.asking import KEPT, PATIENT, keep, list_offsets
from tests.harness.connection import Connection
from tests.harness.kafka_tools import run_tools
from tests.harness.waiting import wait_until

TOOLS = {
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
SETTINGS = {**PATIENT, "replica.high.watermark.checkpoint.interval.ms": "300"}


class TwoDirectories(ApacheKafka):
    """Each node has a second log directory beside data/."""

    def directories(self, node: int) -> list[str]:
        return [str(self.data(node)), str(self.folder(node) / "more")]

    def _write_properties(self, node: int, properties: Mapping[str, str]) -> None:
        super()._write_properties(node, {"log.dirs": ",".join(self.directories(node)), **properties})


class Nodes(NamedTuple):
    """A cluster of either kind."""

    kind: str
    cluster: Cluster | ApacheKafka
    directories: Mapping[int, list[str]]
    addresses: Mapping[int, str]

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers


@contextlib.contextmanager
def pykraft_nodes(home: pathlib.Path, count: int) -> Iterator[Nodes]:
    with Cluster(count, directory=home / "ours", log_dirs=2, properties=SETTINGS) as cluster:
        yield of_ours(cluster)


def of_ours(cluster: Cluster) -> Nodes:
    ids = cluster.broker_ids
    addresses = dict(zip(ids, cluster.bootstrap_servers.split(","), strict=True))
    return Nodes("pykraft", cluster, {n: [*map(str, cluster.log_directories(n))] for n in ids}, addresses)


@contextlib.contextmanager
def kafka_nodes(home: pathlib.Path, count: int) -> Iterator[Nodes]:
    with TwoDirectories(count, SETTINGS, heap="256m", java_options=QUICK_START) as kafka:
        yield of_theirs(kafka)


def of_theirs(kafka: TwoDirectories) -> Nodes:
    directories = {node: kafka.directories(node) for node in kafka.nodes}
    return Nodes("Kafka", kafka, directories, {node: kafka.address(node) for node in kafka.nodes})


BOTH: dict[str, Callable[[pathlib.Path, int], contextlib.AbstractContextManager[Nodes]]] = {
    "pykraft": pykraft_nodes,
    "Kafka": kafka_nodes,
}


def told(nodes: Nodes, text: str) -> str:
    """The text with names in place of the directories' paths."""
    for node, paths in nodes.directories.items():
        for number, path in reversed([*enumerate(paths, 1)]):  # the first path begins the second one's
            text = text.replace(path, f"DIRECTORY-{number}-OF-{node}")
    return text


def create(nodes: Nodes, topic: str, assignments: Mapping[int, Sequence[int]], **configs: str) -> None:
    with Admin(bootstrap_servers=nodes.servers) as admin:
        settings = {**KEPT, **{name.replace("_", "."): value for name, value in configs.items()}}
        admin.create_topics([NewTopic(topic, replica_assignments=assignments, topic_configs=settings)])

        def is_led() -> bool:
            with contextlib.suppress(UnknownTopicError):  # the broker has not heard of it yet
                found = admin.describe_topics([topic])[topic].partitions
                return all(each.leader >= 0 and len(each.isr) == len(each.replicas) for each in found)
            return False

        wait_until(is_led, "the topic has leaders")
    folders = {(node, f"{topic}-{number}") for number, replicas in assignments.items() for node in replicas}
    wait_until(
        lambda: folders <= {(node, name) for node in nodes.directories for name in place_of(nodes, node)},
        "each replica has its folder",
    )
    for number, replicas in assignments.items():
        with Connection(nodes.addresses[replicas[0]]) as connection:
            asked = list_offsets(topic, LATEST_TIMESTAMP, partition=number)
            wait_until(lambda c=connection, r=asked: not _error_of(c, r), "the leader knows that it leads")


def _error_of(connection: Connection, request: ListOffsetsRequest) -> int:
    (found,) = connection.ask(request, 7).topics[0].partitions
    error: int = found.error_code
    return error


def place(nodes: Nodes, node: int, topic: str, wanted: Mapping[int, Sequence[int]]) -> list[Any]:
    """Put partitions into the directories with these numbers; the broker's answers."""
    answers = []
    with Connection(nodes.addresses[node]) as connection:
        for directory, partitions in wanted.items():
            request = keep(nodes.directories[node][directory - 1], (topic, list(partitions)))
            answers.append(connection.ask(request, AlterReplicaLogDirsRequest.versions[1]))
    return [fields_of(each) for each in answers]


def place_of(nodes: Nodes, node: int = 1) -> dict[str, int]:
    """The number of the directory in which each partition's folder is; of the internal topics none."""
    return {
        path.name: number
        for number, directory in enumerate(nodes.directories[node], 1)
        for path in sorted(pathlib.Path(directory).glob("[!_]*"))
        if re.search(r"-\d+$", path.name)
    }


def fields_of(value: object) -> Any:
    """Every field of a message by its name."""
    if isinstance(value, Struct):
        return {field.name: fields_of(getattr(value, field.name)) for field in value.fields}
    return [fields_of(each) for each in value] if isinstance(value, list | tuple) else value


def call_tool(verb: str, *arguments: str) -> str:
    (said,) = run_tools([(TOOLS[verb], arguments)])
    assert not said.complaints, said
    return said.out


def call_command(verb: str, *arguments: str) -> str:
    with contextlib.redirect_stdout(Captured()) as out:
        assert main([verb, *arguments]) == 0
    return out.text


class Captured:
    """What was printed."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...


HANDS = {"Kafka's tool": call_tool, "our command": call_command}


def described(call: Callable[..., str], nodes: Nodes, *options: str) -> list[Any]:
    """What `log-dirs --describe` prints, with its JSON read and in order; of the internal topics nothing."""
    *lines, text = call("log-dirs", "--bootstrap-server", nodes.servers, "--describe", *options).splitlines()
    found = json.loads(text)
    for broker in found["brokers"]:
        for directory in broker["logDirs"]:
            directory["logDir"] = told(nodes, directory["logDir"])
            directory["partitions"] = sorted(
                (each for each in directory["partitions"] if not each["partition"].startswith("__")),
                key=lambda each: (each["partition"], each["isFuture"]),
            )
        broker["logDirs"].sort(key=lambda directory: directory["logDir"])
    found["brokers"].sort(key=lambda broker: broker["broker"])
    return [*lines, found]


def ask_for_directories(nodes: Nodes, node: int, version: int, topics: Sequence[tuple[str, list[int]]] | None) -> Any:
    """A DescribeLogDirs answer, each field of it, with names for paths. Bytes of the volume are 1 if they are known; a
    future log has begun or not, and is behind or not."""
    topic_type = DescribeLogDirsRequest.Topic
    named = None if topics is None else [topic_type(topic=name, partitions=numbers) for name, numbers in topics]
    with Connection(nodes.addresses[node]) as connection:
        asked = connection.ask(DescribeLogDirsRequest(topics=named), version)
    answer = fields_of(asked)
    whole = {}
    for result in answer["results"]:
        result["log_dir"] = told(nodes, result["log_dir"])
        result["total_bytes"] = min(result["total_bytes"], 1)
        result["usable_bytes"] = min(result["usable_bytes"], 1)
        result["topics"] = sorted(
            (topic for topic in result["topics"] if not topic["name"].startswith("__")), key=lambda each: each["name"]
        )
        for topic in result["topics"]:
            topic["partitions"].sort(key=lambda each: (each["partition_index"], each["is_future_key"]))
            for each in topic["partitions"]:
                if not each["is_future_key"]:
                    whole[topic["name"], each["partition_index"]] = each["partition_size"]
    for result in answer["results"]:
        for topic in result["topics"]:
            for each in topic["partitions"]:
                if each["is_future_key"]:
                    size = whole[topic["name"], each["partition_index"]]
                    each["partition_size"] = f"begun: {0 < each['partition_size'] < size}"
                    each["offset_lag"] = f"behind: {each['offset_lag'] > 0}"
    answer["results"].sort(key=lambda result: result["log_dir"])
    answer.pop("throttle_time_ms")
    return answer


def differences(
    ours: Sequence[tuple[str, object]], theirs: Sequence[tuple[str, object]]
) -> list[tuple[str, object, object]]:
    """Where two stories, which have the same steps, were answered otherwise: the step, our answer and theirs."""
    assert [step for step, _ in ours] == [step for step, _ in theirs]
    return [(step, each, other) for (step, each), (_, other) in zip(ours, theirs, strict=True) if each != other]
