"""Several log directories in a node, of pykraft and of Apache Kafka: each one's tools on the other's nodes, the same
questions to both, and directories that change hands.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import confluent_kafka
import pytest

from pykraft import Cluster
from pykraft.cli import main
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.messages.logs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.asking import batch, keep, produce, versions
from tests.harness.connection import Connection
from tests.harness.two_directories import (
    BOTH,
    HANDS,
    SETTINGS,
    Captured,
    Nodes,
    TwoDirectories,
    ask_for_directories,
    create,
    described,
    differences,
    fields_of,
    kafka_nodes,
    of_ours,
    of_theirs,
    place,
    place_of,
    pykraft_nodes,
    told,
)
from tests.harness.waiting import wait_until
from tests.interop.test_java_directories import ports_of

pytestmark = pytest.mark.limit(300)

TOPIC = "flights"
PARTITIONS = 4


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


# --- writing and reading ----------------------------------------------------------------------------------------------


class Writer:
    """Writes numbers to all partitions in turn while it is open."""

    def __init__(self, servers: str) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        self.failures: list[object] = []
        self._is_over = threading.Event()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5}
        )
        self._thread = threading.Thread(target=self._write, name="judge-writer")

    def __enter__(self) -> Writer:
        self._thread.start()
        self.goes_on()
        return self

    def goes_on(self) -> None:
        """Wait until more is written."""
        before = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) > before + 100, "more is written")

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert not self.failures

    def _write(self) -> None:
        number = 0
        while not self._is_over.wait(0.002):
            value = b"%d" % number + b"." * 500
            self._producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        self._producer.flush(60)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failures.append(error)
        partition, value = message.partition(), message.value()
        assert partition is not None and value is not None
        self.acknowledged.append((partition, int(value.rstrip(b"."))))


def read(servers: str, topic: str, count: int, partitions: int = PARTITIONS) -> dict[int, list[bytes]]:
    """The values of each partition, from its beginning, once this many have come."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
    found: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    while sum(map(len, found.values())) < count:
        message = consumer.poll(30)
        assert message is not None and message.error() is None, message
        partition, value = message.partition(), message.value()
        assert partition is not None and value is not None
        found[partition].append(value)
    consumer.close()
    return found


# --- the tools --------------------------------------------------------------------------------------------------------


def plan(nodes: Nodes, file: pathlib.Path, wanted: Mapping[int, int]) -> list[str]:
    """Options that name a file by which partitions of node 1 go to the directories with these numbers."""
    partitions = [
        {"topic": TOPIC, "partition": number, "replicas": [1], "log_dirs": [nodes.directories[1][directory - 1]]}
        for number, directory in wanted.items()
    ]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return ["--bootstrap-server", nodes.servers, "--reassignment-json-file", str(file)]


def lines(nodes: Nodes, text: str) -> list[str]:
    """Without what is printed only while a move is under way."""
    under_way = re.compile("is still in progress|clearing .*throttle", re.IGNORECASE)
    return sorted(line for line in told(nodes, text).splitlines() if line and not under_way.search(line))


def moved_by(call: Callable[..., str], nodes: Nodes, options: Sequence[str]) -> list[list[str]]:
    """Move all partitions as the file of these options says; what is printed at the beginning and at the end, with one
    name for both directories."""
    begun, verified = call("reassign-partitions", *options, "--execute"), [""]

    def is_over() -> bool:
        verified[0] = call("reassign-partitions", *options, "--verify")
        return verified[0].count("completed successfully") == PARTITIONS

    wait_until(is_over, "the replicas have moved", 60)
    name = re.compile("DIRECTORY-.-OF-1")
    return [
        sorted(name.sub("DIRECTORY", line) for line in lines(nodes, text) if "partitions" not in line)
        for text in (begun, verified[0])
    ]


@pytest.mark.parametrize("kind", BOTH)
def test_both_tools_move_replicas_between_directories_while_they_are_written(kind: str, tmp_path: pathlib.Path) -> None:
    """There by Kafka's tool and back by our command: the same lines, and no record is lost, doubled or out of order."""
    printed, moved = {}, {}
    with BOTH[kind](tmp_path, 1) as nodes:
        place(nodes, 1, TOPIC, {1: [0, 1], 2: [2, 3]})
        create(nodes, TOPIC, {number: [1] for number in range(PARTITIONS)}, segment_bytes=str(1 << 20))
        assert place_of(nodes) == {"flights-0": 1, "flights-1": 1, "flights-2": 2, "flights-3": 2}
        with Writer(nodes.servers) as writer:
            for hand, call in HANDS.items():
                was = place_of(nodes)
                wanted = {number: 3 - was[f"{TOPIC}-{number}"] for number in range(PARTITIONS)}
                printed[hand] = moved_by(call, nodes, plan(nodes, tmp_path / "plan.json", wanted))
                moved[hand] = place_of(nodes)
                assert moved[hand] == {f"{TOPIC}-{number}": directory for number, directory in wanted.items()}
                writer.goes_on()
        found = read(nodes.servers, TOPIC, len(writer.acknowledged))
        at_rest = [
            described(call, nodes, *options) for options in ((), ("--topic-list", TOPIC)) for call in HANDS.values()
        ]
    theirs, ours = printed.values()
    assert ours == theirs
    for partition, values in found.items():
        numbers = [int(value.rstrip(b".")) for value in values]
        assert numbers == [number for at, number in writer.acknowledged if at == partition]
    assert at_rest[0] == at_rest[1] and at_rest[2] == at_rest[3]
    (broker,) = at_rest[2][-1]["brokers"]
    for number, directory in enumerate(broker["logDirs"], 1):
        assert {each["partition"]: number for each in directory["partitions"]}.items() <= moved["our command"].items()
        assert all((each["offsetLag"], each["isFuture"]) == (0, False) for each in directory["partitions"])


# --- the same questions -----------------------------------------------------------------------------------------------


def ask_the_same(nodes: Nodes, describe: range) -> Iterator[tuple[str, object]]:
    """A history of three partitions of node 1, and what clients are answered in it. `describe` are the versions of
    DescribeLogDirs that both kinds serve."""
    yield "placed before it is there", place(nodes, 1, TOPIC, {1: [0, 1], 2: [2]})
    create(nodes, TOPIC, {number: [1] for number in range(3)}, segment_bytes=str(1 << 20))
    create(nodes, "others", {0: [1]})
    with Connection(nodes.addresses[1]) as connection:
        for number in range(3):
            for _ in range(40):
                connection.ask(produce(TOPIC, (number, batch(40, size=2000)), acks=-1), 9)
    for version in describe:
        yield f"described {version}", ask_for_directories(nodes, 1, version, [(TOPIC, [0, 1, 2, 9]), ("nowhere", [0])])
    yield "of all topics", ask_for_directories(nodes, 1, describe[-1], None)
    yield "of no topic", ask_for_directories(nodes, 1, describe[-1], [])
    yield "placed where it is", place(nodes, 1, TOPIC, {1: [0, 1], 2: [2]})
    yield "a partition that is not there", place(nodes, 1, TOPIC, {1: [7]})
    with Connection(nodes.addresses[1]) as connection:
        for path in ("/elsewhere", "relative", nodes.directories[1][0] + "/"):
            for version in versions(AlterReplicaLogDirsRequest):
                answer = connection.ask(keep(path, (TOPIC, [0])), version)
                yield f"into {told(nodes, path)}, version {version}", fields_of(answer)
    limit(nodes, 1)
    yield "begun", place(nodes, 1, TOPIC, {2: [0]})
    wait_until(lambda: "begun: True" in str(ask_for_directories(nodes, 1, 4, None)), "the move has begun")
    for version in describe:
        yield f"on its way {version}", ask_for_directories(nodes, 1, version, [(TOPIC, [0, 1, 2])])
    yield "begun again", place(nodes, 1, TOPIC, {2: [0]})
    yield "called back", place(nodes, 1, TOPIC, {1: [0]})
    wait_until(lambda: "begun" not in str(ask_for_directories(nodes, 1, 4, None)), "the move is over")
    yield "after it", ask_for_directories(nodes, 1, describe[-1], [(TOPIC, [0, 1, 2])])
    limit(nodes, 1 << 40)
    yield "moved", place(nodes, 1, TOPIC, {2: [0, 1]})
    both = {"flights-0": 2, "flights-1": 2, "flights-2": 2}
    wait_until(lambda: place_of(nodes).items() >= both.items(), "they have moved")
    wait_until(lambda: "begun" not in str(ask_for_directories(nodes, 1, 4, None)), "the moves are over")
    yield "at last", ask_for_directories(nodes, 1, describe[-1], [(TOPIC, [0, 1, 2])])


def limit(nodes: Nodes, rate: int) -> None:
    """How many bytes a second may move between directories."""
    setting = f"replica.alter.log.dirs.io.max.bytes.per.second={rate}"
    reached = ["configs", "--bootstrap-server", nodes.servers, "--alter", "--broker", "1"]
    with contextlib.redirect_stdout(Captured()):
        assert main([*reached, "--add-config", setting]) == 0


def test_both_kinds_of_nodes_answer_the_same_about_directories(tmp_path: pathlib.Path) -> None:
    with pykraft_nodes(tmp_path, 1) as ours, kafka_nodes(tmp_path, 1) as theirs:
        describe = described_by_both(theirs)
        answers, expected = (list(ask_the_same(nodes, describe)) for nodes in (ours, theirs))
    assert differences(answers, expected) == []


def described_by_both(theirs: Nodes) -> range:
    """The versions of DescribeLogDirs that Apache Kafka serves, too."""
    with Connection(theirs.addresses[1]) as connection:
        served = connection.ask(ApiVersionsRequest(client_software_name="judge", client_software_version="1"), 3)
    (last,) = (each.max_version for each in served.api_keys if each.api_key == DescribeLogDirsRequest.api)
    first, ours = DescribeLogDirsRequest.versions
    return range(first, min(ours, last) + 1)


# --- directories that change hands ------------------------------------------------------------------------------------


def ids_of(directories: Sequence[str]) -> list[object]:
    return [read_meta_properties(OsFileSystem(), directory) for directory in directories]


def java_on(home: pathlib.Path, directories: Sequence[str], static_voters: bool) -> ApacheKafka:
    """Apache Kafka on both directories of node 1 of ours."""
    return ApacheKafka(
        1,
        {**SETTINGS, "log.dirs": ",".join(directories)},
        heap="256m",
        java_options=QUICK_START,
        ports=ports_of(home, 1),
        log_directories=[pathlib.Path(directories[0])],
        static_voters=static_voters,
    )


def values_of(number: int) -> list[bytes]:
    return [b"%d of part %d" % (each, number) for each in range(40)]


def write_part(servers: str, number: int) -> None:
    """The same forty values to each partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in values_of(number):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, value, partition=partition)
    assert producer.flush(60) == 0


def check_parts(servers: str, count: int) -> None:
    expected = [value for number in range(count) for value in values_of(number)]
    assert read(servers, TOPIC, PARTITIONS * len(expected)) == dict.fromkeys(range(PARTITIONS), expected)


def move_on(nodes: Nodes, partition: int) -> dict[str, int]:
    """Move a partition into the other directory; where all are then."""
    target = 3 - place_of(nodes)[f"{TOPIC}-{partition}"]
    place(nodes, 1, TOPIC, {target: [partition]})
    wait_until(lambda: place_of(nodes).get(f"{TOPIC}-{partition}") == target, "it has moved")
    wait_until(lambda: "begun" not in str(ask_for_directories(nodes, 1, 4, None)), "the move is over")
    return place_of(nodes)


def goes_on(nodes: Nodes, was: Mapping[str, int], ids: Sequence[object], part: int) -> dict[str, int]:
    """What the other kind left is served as it is, written on, and a replica moves."""
    assert place_of(nodes) == was
    assert ids_of(nodes.directories[1]) == ids
    check_parts(nodes.servers, part)
    write_part(nodes.servers, part)
    return move_on(nodes, part % PARTITIONS)


def test_two_directories_of_ours_are_served_by_apache_kafka_and_by_us_again(tmp_path: pathlib.Path) -> None:
    with Cluster(1, directory=tmp_path, log_dirs=2, properties=SETTINGS) as cluster:
        nodes = of_ours(cluster)
        place(nodes, 1, TOPIC, {1: [0, 1], 2: [2, 3]})
        create(nodes, TOPIC, {number: [1] for number in range(PARTITIONS)})
        write_part(nodes.servers, 0)
        was, ids = place_of(nodes), ids_of(nodes.directories[1])
    with java_on(tmp_path, nodes.directories[1], static_voters=False) as kafka:
        was = goes_on(nodes, was, ids, 1)
        stopped_in_order(kafka)
    with Cluster(1, directory=tmp_path, log_dirs=2, properties=SETTINGS):
        goes_on(nodes, was, ids, 2)


def test_two_directories_of_apache_kafka_are_served_by_us_and_by_it_again(tmp_path: pathlib.Path) -> None:
    home = tmp_path / "second"
    home.mkdir()
    with TwoDirectories(1, SETTINGS, heap="256m", java_options=QUICK_START) as kafka:
        before = of_theirs(kafka)
        place(before, 1, TOPIC, {1: [0, 1], 2: [2, 3]})
        create(before, TOPIC, {number: [1] for number in range(PARTITIONS)})
        write_part(before.servers, 0)
        was, ids = place_of(before), ids_of(before.directories[1])
        stopped_in_order(kafka)
        for old, new in zip(before.directories[1], (home / "node-1", home / "node-1-disk-2"), strict=True):
            pathlib.Path(old).rename(new)
        adopt_properties_of_two(kafka, home)
    with Cluster(1, directory=home, log_dirs=2, properties=SETTINGS) as cluster:
        nodes = of_ours(cluster)
        was = goes_on(nodes, was, ids, 1)
    with java_on(home, nodes.directories[1], static_voters=True) as kafka:
        goes_on(nodes, was, ids, 2)
        stopped_in_order(kafka)


def adopt_properties_of_two(kafka: TwoDirectories, home: pathlib.Path) -> None:
    """Its file, with the directories where a node of ours has them."""
    text = (kafka.folder(1) / "server.properties").read_text()
    for old, new in zip(reversed(kafka.directories(1)), (home / "node-1-disk-2", home / "node-1"), strict=True):
        text = text.replace(old, str(new))
    (home / "node-1.properties").write_text(text)


def stopped_in_order(kafka: ApacheKafka) -> None:
    """The node has read no log as after a crash, and takes no directory for a failed one."""
    kafka.kill(1, signal.SIGTERM)
    said = kafka.log(1).splitlines()
    assert not [line for line in said if "Recovering unflushed segment" in line and "__cluster_metadata" not in line]
    assert not [line for line in said if "offline" in line.lower() and " ERROR " in line]
