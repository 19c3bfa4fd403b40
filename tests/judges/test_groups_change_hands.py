"""A group goes on when its coordinator becomes another implementation: Apache Kafka, pykraft, and back; and the other
way round, in both protocols.

A node is stopped in order, and the other one is started on its directories and its ports, while the members run. They
keep their partitions, and no rebalance takes place: the new coordinator knows the members, their epochs and what is
assigned to them from the log. Kafka's own tool prints the same of the group as before. Then the group has to live on:
what is written is read once, a killed member is missed, a new one gets its part, and all is committed.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from pykraft import Cluster, Producer
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.kafka_tools import run_tool
from tests.harness.waiting import wait_until
from tests.interop.clients import Confluent
from tests.interop.members import Member, are_shared, why_not
from tests.interop.test_java_directories import FEATURES, adopt, apache

pytestmark = pytest.mark.limit(600)

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC, GROUP, IDLE = "orders", "readers", "idle"
PARTITIONS = 6
PART = 60
SESSION_MS = 20_000
"""Longer than it takes to put the other node in the place of the first."""
PATIENCE_S = 90.0
PROPERTIES = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
FORMATTED = ("--standalone", *(word for name in FEATURES for word in ("--feature", f"{name}=0")))
"""Apache Kafka with the features that pykraft has."""
LIBRARIES = {
    "classic": ("confluent-kafka", "java", "confluent-kafka"),
    "consumer": ("confluent-kafka-848", "java-848", "confluent-kafka-848"),
}
"""Two begin in each protocol, and the third joins later. These wait while no node listens; kafka-python raises."""
CHAINS = {
    "kafka-pykraft-kafka": ("kafka", "pykraft", "kafka"),
    "pykraft-kafka-pykraft": ("pykraft", "kafka", "pykraft"),
}


@pytest.fixture(scope="module", autouse=True)
def needs_java() -> None:
    if reason := apache_kafka.available() or why_not("java"):
        pytest.skip(reason)


@contextlib.contextmanager
def ours(home: pathlib.Path) -> Iterator[str]:
    with Cluster(1, directory=home, properties=PROPERTIES) as cluster:
        yield cluster.bootstrap_servers


@contextlib.contextmanager
def theirs(home: pathlib.Path) -> Iterator[str]:
    """Apache Kafka on what is there; or on new directories, which are put there when it has stopped."""
    is_new = not home.exists()
    new = {"java_options": QUICK_START, "format_options": FORMATTED}
    with ApacheKafka(1, PROPERTIES, **new) if is_new else apache(home, 1, PROPERTIES) as kafka:
        yield kafka.bootstrap_servers
        kafka.stop()
        if is_new:
            adopt(kafka, home)


class Group:
    """The members, and what is known of the topic that they read."""

    def __init__(self, libraries: tuple[str, ...]) -> None:
        self.libraries = libraries
        self.members: list[Member] = []
        self.killed: list[Member] = []
        self.written = 0
        self.servers = ""
        self.described: list[list[str]] = []
        self.changes: list[int] = []
        """Both as they were when the last coordinator was stopped."""

    def join(self, library: str) -> None:
        self.members.append(Member(library, self.servers, GROUP, TOPIC, SESSION_MS))

    def kill(self) -> None:
        self.killed.append(self.members.pop(0))
        self.killed[-1].kill()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, what, PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; {', '.join(map(str, self.members))}; {described(self.servers)}") from None

    def share(self) -> None:
        places = [f"{TOPIC}-{number}" for number in range(PARTITIONS)]
        self.wait(lambda: are_shared(self.members, places), f"{len(self.members)} members share the partitions")

    def write_and_read(self) -> None:
        """Each record was read by one member, once; and that is committed."""
        with Producer(bootstrap_servers=self.servers) as producer:
            for number in range(PART):
                producer.send(TOPIC, str(number).encode(), partition=number % PARTITIONS)
        self.written += PART
        end = self.written // PARTITIONS
        expected = {number: list(range(end)) for number in range(PARTITIONS)}
        self.wait(lambda: self.seen() == expected, "each record was read, once")
        self.wait(lambda: set(committed(self.servers, GROUP).values()) == {end}, "all is committed")

    def seen(self) -> dict[int, list[int]]:
        seen: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        for member in (*self.members, *self.killed):
            for place, offsets in [*member.seen.items()]:
                seen[int(place.rpartition("-")[2])] += offsets
        return {number: sorted(offsets) for number, offsets in seen.items()}

    def count_changes(self) -> list[int]:
        """How often the members' assignments have changed."""
        return [member.changes for member in self.members]

    def close(self) -> None:
        for member in self.members:
            member.kill()


@pytest.fixture(params=sorted(LIBRARIES))
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    with contextlib.closing(Group(LIBRARIES[request.param])) as group:
        yield group


def committed(servers: str, group: str) -> dict[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [confluent_kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    try:
        return {place.partition: place.offset for place in consumer.committed(places, PATIENCE_S)}
    finally:
        consumer.close()


def described(servers: str) -> list[list[str]]:
    """What Kafka's own tool prints of the groups: their offsets, members and states. The order of members is of no
    meaning."""
    asked = ("--list --state", "--list --type")
    asked += tuple(f"--describe --all-groups {what} --verbose" for what in ("--offsets", "--members", "--state"))
    answers = run_tool(TOOL, [["--bootstrap-server", servers, *words.split()] for words in asked])
    return [sorted(line.rstrip() for line in (answer.out + answer.complaints).splitlines()) for answer in answers]


def start_group(group: Group) -> None:
    """A topic, a group of two members that have read and committed all, and one that has left only offsets."""
    Confluent().create(group.servers, TOPIC, PARTITIONS, 1)
    leave_offsets(group.servers)
    for library in group.libraries[:2]:
        group.join(library)
    group.share()
    group.write_and_read()


def leave_offsets(servers: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": IDLE})
    place = confluent_kafka.TopicPartition(TOPIC, 3, 5, "what it was doing")
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()


def live_on(group: Group) -> None:
    """It can lose a member and gain one."""
    group.kill()
    group.share()
    group.write_and_read()
    group.join(group.libraries[2])
    group.share()
    group.write_and_read()


def goes_on(group: Group) -> None:
    group.wait(lambda: described(group.servers) == group.described, f"it is described as before: {group.described}")
    group.write_and_read()
    assert group.count_changes() == group.changes, "no rebalance has taken place"
    live_on(group)


@pytest.mark.parametrize("chain", CHAINS)
def test_a_group_goes_on_under_another_coordinator(chain: str, group: Group, tmp_path: pathlib.Path) -> None:
    home = tmp_path / "home"
    for side in CHAINS[chain]:
        with (ours if side == "pykraft" else theirs)(home) as group.servers:
            if not group.members:
                start_group(group)
            else:
                goes_on(group)
            group.described, group.changes = described(group.servers), group.count_changes()
