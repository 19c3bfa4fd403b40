"""Groups of unmodified libraries, each in each protocol that it speaks: members are killed and join, subscribe by
pattern, and what one library commits all others read.

With `--long` Apache Kafka is asked for the same.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from pykraft import Admin, Cluster, Producer
from pykraft.client.administration.groups import GroupType
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.waiting import wait_until
from tests.interop.clients import Confluent
from tests.interop.members import CLASSIC, NEWER, Member, Peer, are_shared, why_not

pytestmark = pytest.mark.limit(300)

PARTITIONS = 6
PART = 60
PATIENCE_S = 60.0
NODES = 3
PROPERTIES = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
SERVERS: dict[str, Callable[[], Cluster | ApacheKafka]] = {
    "pykraft": lambda: Cluster(NODES, properties=PROPERTIES),
    "apache": lambda: ApacheKafka(NODES, PROPERTIES, java_options=QUICK_START),
}
WITHOUT_METADATA = ("kafkajs",)
"""Its way to commit an offset has no place for the metadata."""
WITHOUT_LATER_TOPICS = ("kafkajs",)
"""It matches a pattern once, when it subscribes."""
_numbers = itertools.count(1)

EACH = pytest.mark.parametrize("library", [*CLASSIC, *NEWER], indirect=True)
EACH_THAT_COMMITS = pytest.mark.parametrize("library", CLASSIC, indirect=True)


@pytest.fixture(scope="module", params=["pykraft", pytest.param("apache", marks=pytest.mark.long)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "apache" and (reason := apache_kafka.available()):
        pytest.skip(reason)
    with SERVERS[request.param]() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def library(request: pytest.FixtureRequest) -> str:
    """One that can be had here."""
    if reason := why_not(request.param):
        pytest.skip(reason)
    return str(request.param)


class Group:
    """The members of a group of one library."""

    def __init__(self, library: str, servers: str) -> None:
        self.library = library
        self.servers = servers
        self.group_id = f"{library}-{next(_numbers)}"
        self.members: list[Member] = []
        self.killed: list[Member] = []
        self.written = 0

    def join(self, topic: str) -> None:
        self.members.append(Member(self.library, self.servers, self.group_id, topic))

    def kill(self) -> None:
        self.killed.append(self.members.pop(0))
        self.killed[-1].kill()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, what, PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {', '.join(map(str, self.members))}") from None

    def share(self, places: list[str]) -> None:
        self.wait(lambda: are_shared(self.members, places), f"{len(self.members)} members share the partitions")

    def write(self, topic: str) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            for number in range(PART):
                producer.send(topic, str(number).encode(), partition=number % PARTITIONS)
        self.written += PART

    def read_all(self, topic: str) -> None:
        """Every record was read by a member, and that is committed. A killed one may have left some uncommitted."""
        end = self.written // PARTITIONS
        expected = {f"{topic}-{number}": set(range(end)) for number in range(PARTITIONS)}
        self.wait(lambda: self.seen(expected) == expected, "everything is read")
        offsets = dict.fromkeys(range(PARTITIONS), end)
        self.wait(lambda: committed(self.servers, self.group_id, topic) == offsets, "everything is committed")

    def seen(self, places: dict[str, set[int]]) -> dict[str, set[int]]:
        members = (*self.members, *self.killed)
        return {place: {offset for member in members for offset in member.seen[place]} for place in places}

    def close(self) -> None:
        for member in self.members:
            member.kill()


@pytest.fixture
def group(library: str, servers: str) -> Iterator[Group]:
    with contextlib.closing(Group(library, servers)) as group:
        yield group


def committed(servers: str, group: str, topic: str) -> dict[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [confluent_kafka.TopicPartition(topic, number) for number in range(PARTITIONS)]
    try:
        return {place.partition: place.offset for place in consumer.committed(places, PATIENCE_S)}
    finally:
        consumer.close()


def type_of(servers: str, group_id: str) -> GroupType:
    with Admin(bootstrap_servers=servers) as admin:
        (found,) = (each for each in admin.list_groups() if each.group_id == group_id)
        return found.group_type


@EACH
def test_three_members_share_a_topic_one_is_killed_and_one_joins(group: Group) -> None:
    topic = f"shared-{group.library}"
    places = [f"{topic}-{number}" for number in range(PARTITIONS)]
    Confluent().create(group.servers, topic, PARTITIONS, NODES)
    for _ in range(3):
        group.join(topic)
    group.share(places)
    assert type_of(group.servers, group.group_id) is (
        GroupType.CONSUMER if group.library in NEWER else GroupType.CLASSIC
    )
    group.write(topic)
    group.read_all(topic)
    group.kill()
    group.write(topic)
    group.share(places)
    group.read_all(topic)
    group.join(topic)
    group.share(places)
    group.write(topic)
    group.read_all(topic)


@EACH
def test_a_pattern_finds_a_topic_that_comes_later_and_no_other(group: Group) -> None:
    name = group.library
    Confluent().create(group.servers, f"of.{name}.one", 1, NODES)
    Confluent().create(group.servers, f"not.of.{name}", 1, NODES)
    group.join(f"^of[.]{name}[.].*")
    group.share([f"of.{name}.one-0"])
    Confluent().create(group.servers, f"of.{name}.two", 1, NODES)
    if name in WITHOUT_LATER_TOPICS:
        group.kill()
        group.join(f"^of[.]{name}[.].*")
    group.share([f"of.{name}.one-0", f"of.{name}.two-0"])


@pytest.fixture(scope="module")
def peers(servers: str) -> Iterator[dict[str, Peer]]:
    """A process of each library that can be had here."""
    with contextlib.ExitStack() as stack:
        yield {
            library: stack.enter_context(contextlib.closing(Peer(library, servers)))
            for library in CLASSIC
            if not why_not(library)
        }


@EACH_THAT_COMMITS
def test_what_one_commits_all_others_read(library: str, servers: str, peers: dict[str, Peer]) -> None:
    topic, group = f"committed-{library}", f"offsets-{library}"
    Confluent().create(servers, topic, 2, NODES)
    for offset in (7, 9):
        peers[library].commit(group, topic, 1, offset, f"by-{library}")
        expected = f"{offset} " if library in WITHOUT_METADATA else f"{offset} by-{library}"
        found = {reader: peer.committed(group, topic, 1) for reader, peer in peers.items()}
        assert found == dict.fromkeys(peers, expected)
    assert {peer.committed(group, topic, 0) for peer in peers.values()} == {"none"}
