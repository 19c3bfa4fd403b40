"""Kafka's own assignor classes and ours, on the same random groups: the same assignments, in the same order."""

from __future__ import annotations

import base64
import json
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest

from pykraft.common.assignors import ASSIGNORS, MemberSubscription, assignor
from pykraft.common.assignors.sticky import encode_claim
from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.group.assignors import ASSIGNORS as SERVER_ASSIGNORS
from pykraft.coordinator.group.assignors import Member
from tests.harness import apache_kafka
from tests.harness.apache_kafka import VERSION, java_command

PROGRAM = pathlib.Path(__file__).with_name("Assignors.java")
LIMIT_S = 300
TOPICS = ("orders", "payments", "t", "u", "views-by-hour")


class Kafka:
    """A JVM with Kafka's classes that answers questions, one line each."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        # Kafka's warnings about contradicting members are between the answers.
        return json.loads(next(line for line in self._process.stdout if line.startswith("{")))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    command = java_command(VERSION, str(PROGRAM))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Kafka(process)
        finally:
            process.kill()


class Case:
    """A random group, and what it owns: mostly what a group can own, sometimes what only a broken one claims."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.seed = seed
        self.name = [*ASSIGNORS][seed % 4]
        self.partitions = {topic: random.randint(1, 8) for topic in random.sample(TOPICS, random.randint(1, 5))}
        known = [*self.partitions]
        ids = [
            f"{random.choice(['consumer', 'c', 'reader'])}-{random.randrange(10**9):x}"
            for _ in range(random.randint(1, 9))
        ]
        self.alike = random.random() < 0.5
        topics = random.sample(known, random.randint(1, len(known)))
        self.members: dict[str, MemberSubscription] = {}
        owners = self._owners(random, ids)
        newest = random.randint(1, 5)
        for member_id in ids:
            if not self.alike:
                topics = random.sample(known, random.randint(1, len(known)))
            late = random.random() < 0.2
            generation = random.randint(-1, newest - 1) if late else newest
            owned = [partition for partition, owner in owners if owner == member_id]
            random.shuffle(owned)
            self.members[member_id] = self._member(random, topics, owned, generation)
        every = {topic for member in self.members.values() for topic in member.topics}
        self.partitions = {topic: count for topic, count in self.partitions.items() if topic in every}

    def _owners(self, random: Random, ids: Sequence[str]) -> list[tuple[TopicPartition, str]]:
        owning = random.sample(ids, random.randint(0, len(ids)))
        chance = random.choice([0.0, 0.5, 0.9, 1.0])
        owners = []
        for topic, count in [*self.partitions.items(), ("deleted", 3)]:
            for number in range(count):
                if owning and random.random() < chance:
                    claiming = random.choices(owning, k=2 if random.random() < 0.05 else 1)
                    owners += [(TopicPartition(topic, number), member_id) for member_id in {*claiming}]
        return sorted(owners)

    def _member(
        self, random: Random, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int
    ) -> MemberSubscription:
        data = None
        if self.name == "sticky" and (owned or generation >= 0):
            data = encode_claim(owned, generation)
            data = random.choice([data] * 8 + [data[:-4], b"\0\0"])
        if self.name == "cooperative-sticky":
            data = assignor(self.name).user_data(owned, generation)
        instance_id = f"i-{random.randrange(100)}-{random.randrange(10**6)}" if random.random() < 0.3 else None
        shown = -1 if random.random() < 0.1 else generation
        return MemberSubscription(topics, owned, shown, None, instance_id, data)

    def question(self) -> dict[str, Any]:
        members = [
            {
                "id": member_id,
                **member._asdict(),
                "user_data": None if member.user_data is None else base64.b64encode(member.user_data).decode(),
            }
            for member_id, member in self.members.items()
        ]
        return {"assignor": self.name, "partitions": self.partitions, "members": members}

    def is_valid(self, assignment: Mapping[str, Sequence[Sequence[Any]]]) -> bool:
        """Whether each member gets partitions only of what it subscribes to."""
        return all(pair[0] in self.members[each].topics for each, had in assignment.items() for pair in had)

    def ours(self, order: Sequence[str]) -> dict[str, list[list[Any]]]:
        members = {member_id: self.members[member_id] for member_id in order}
        assignment = assignor(self.name).assign(self.partitions, members)
        return {member_id: [[*partition] for partition in assigned] for member_id, assigned in assignment.items()}


class Compared(NamedTuple):
    """Seeds of the cases in which the two differ, and of those in which Kafka's own result cannot be used."""

    different: list[int]
    kafka_fails: list[int]


def compare(kafka: Kafka, seeds: range) -> Compared:
    """Both on these cases. Of range only the partitions are compared: Kafka has the topics in a hash map's order."""
    compared = Compared([], [])
    for case in map(Case, seeds):
        answer = kafka.ask(case.question())
        theirs = answer.get("assignment")
        if theirs is None or not case.is_valid(theirs):
            compared.kafka_fails.append(case.seed)
            continue
        ours = case.ours(answer["order"])
        if case.name == "range":
            ours, theirs = ({each: sorted(had) for each, had in result.items()} for result in (ours, theirs))
        if ours != theirs:
            compared.different.append(case.seed)
    return compared


def test_a_thousand_groups_are_assigned_as_kafka_assigns_them(kafka: Kafka) -> None:
    compared = compare(kafka, range(1000))
    assert compared.different == []
    assert len(compared.kafka_fails) < 10


@pytest.mark.long
@pytest.mark.limit(LIMIT_S)
def test_of_many_groups_few_differ_by_the_order_of_kafkas_hash_sets(kafka: Kafka) -> None:
    """Several partitions can move back: ours takes the first of them, and Kafka the one that its hash set has first."""
    compared = compare(kafka, range(1000, 61_000))
    assert len(compared.different) < 60
    assert len(compared.kafka_fails) < 600
    assert all(
        "sticky" in Case(seed).name and not Case(seed).alike for seed in [*compared.different, *compared.kafka_fails]
    )


def test_kafka_moves_a_partition_to_a_member_that_has_left_its_topic_and_ours_does_not(kafka: Kafka) -> None:
    """`behind` missed a generation; it had u-0 before. A fault in Kafka 4.2.1, with valid claims only."""
    case = Case(2)
    assert case.name == "sticky"
    case.partitions = {"t": 1, "u": 3}
    claims = {"behind": ("t", [("u", 0)], 1), "b": ("u", [("u", 0), ("u", 1), ("u", 2)], 2), "c": ("tu", [("t", 0)], 2)}
    case.members = {
        member_id: MemberSubscription(
            [*topics], (), generation, None, None, encode_claim(_partitions(owned), generation)
        )
        for member_id, (topics, owned, generation) in claims.items()
    }
    answer = kafka.ask(case.question())
    assert answer["assignment"]["behind"] == [["u", 0]]
    assert case.ours(answer["order"]) == {"behind": [["t", 0]], "b": [["u", 1], ["u", 2]], "c": [["u", 0]]}


def _partitions(pairs: Sequence[tuple[str, int]]) -> list[TopicPartition]:
    return [TopicPartition(*pair) for pair in pairs]


def test_user_data_have_kafkas_bytes(kafka: Kafka) -> None:
    owned = [TopicPartition("a", 3), TopicPartition("a", 0), TopicPartition("b", 2)]
    asked = [(name, had, generation) for name in ASSIGNORS for had, generation in (([], -1), ([], 4), (owned, 70_000))]
    for name, had, generation in asked:
        answer = kafka.ask({"assignor": name, "owned": had, "generation": generation})
        data = assignor(name).user_data(had, generation)
        assert (None if data is None else base64.b64encode(data).decode()) == answer["user_data"], (name, generation)


# The assignors of the coordinator (KIP-848)


class ServerCase:
    """A random consumer group with its last target assignment: some members have joined since, some topics have grown,
    some subscriptions have changed. Topics are numbered from 1."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.seed = seed
        self.name = "range" if seed % 10 == 0 else "uniform"
        most = random.choice([6, 25])
        self.counts = [random.randint(0, most) for _ in range(random.randint(1, 6))]
        numbers = range(1, len(self.counts) + 1)
        ids = sorted({f"{random.choice('abc')}{random.randrange(10**6):x}" for _ in range(random.randint(1, 15))})
        alike = random.random() < 0.4
        topics = self._subscription(random, numbers)
        owning, chance = random.sample(ids, random.randint(0, len(ids))), random.choice([0.3, 0.8, 1.0])
        assigned: dict[str, dict[int, set[int]]] = {member_id: {} for member_id in ids}
        for number, count in zip(numbers, self.counts, strict=True):
            for partition in range(count):
                if owning and random.random() < chance:
                    assigned[random.choice(owning)].setdefault(number, set()).add(partition)
        self.members: dict[str, Member] = {}
        for member_id in ids:
            if not alike:
                topics = self._subscription(random, numbers)
            self.members[member_id] = Member(
                instance_id=f"i{random.randrange(10**6)}" if random.random() < 0.3 else None,
                topics=frozenset(map(topic_id, topics)),
                assigned={topic_id(number): frozenset(held) for number, held in assigned[member_id].items()},
            )

    def _subscription(self, random: Random, numbers: range) -> list[int]:
        return random.sample(numbers, random.randint(random.random() < 0.9, len(numbers)))

    def question(self) -> dict[str, Any]:
        members = [
            {
                "id": member_id,
                "instance_id": member.instance_id,
                "topics": sorted(topic[15] for topic in member.topics),
                "assigned": numbered(member.assigned),
            }
            for member_id, member in self.members.items()
        ]
        return {"assignor": self.name, "topics": self.counts, "members": members}

    def ours(self) -> dict[str, dict[str, list[int]]]:
        partitions = {topic_id(number): count for number, count in enumerate(self.counts, start=1)}
        target = SERVER_ASSIGNORS[self.name](self.members, partitions)
        return {member_id: numbered(assigned) for member_id, assigned in target.items()}


def topic_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def numbered(assigned: Mapping[Uuid, frozenset[int]]) -> dict[str, list[int]]:
    return {str(topic[15]): sorted(partitions) for topic, partitions in sorted(assigned.items())}


def server_cases_that_differ(kafka: Kafka, seeds: range) -> list[int]:
    return [case.seed for case in map(ServerCase, seeds) if kafka.ask(case.question())["assignment"] != case.ours()]


def test_the_coordinator_assigns_a_thousand_groups_as_kafkas_does(kafka: Kafka) -> None:
    assert server_cases_that_differ(kafka, range(1000)) == []


@pytest.mark.long
@pytest.mark.limit(LIMIT_S)
def test_the_coordinator_assigns_many_groups_as_kafkas_does(kafka: Kafka) -> None:
    assert server_cases_that_differ(kafka, range(1000, 61_000)) == []
