"""Consumer groups beside Apache Kafka: how long a rebalance takes, commits per second, and a group at full speed.

A **rebalance** is that of 50 members over 500 partitions, in both protocols: all 50 join an empty group at once, and
then one more joins. It ends when all members are in the same generation or epoch and each partition has its owner. The
members are scripted and send a heartbeat every 100 ms, a thirtieth of a consumer's default: with the default, the next
heartbeat would be waited for and not the coordinator. Two waits are left. A member learns from its next heartbeat that
another has joined. A new classic group waits 50 ms for more members, and once more while they come (3 s by default);
without that, chance would say whether the first generation has 20 members or all 50.

A **commit** carries ten partitions; five commits of a group are under way at a time. A group that **consumes** has one
consumer with all settings at their defaults, commits included: ours, and librdkafka through confluent-kafka.

Beside each time is the processor time of the broker. All nodes get the same settings.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer as LibrdkafkaConsumer

from pykraft import Consumer
from pykraft.common.errors import ErrorCode
from pykraft.protocol.header import SIZE, decode_response
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.bench import librdkafka
from tests.bench.rows import Row
from tests.bench.scripted_members import (
    HEARTBEAT_S,
    ClassicMember,
    ConsumerMember,
    Line,
    Lines,
    Member,
    ScriptedGroup,
)
from tests.bench.sides import Side, sides
from tests.bench.turns import Figures, in_turn, lasting_topics
from tests.harness.connection import Connection, answer_that

MEMBERS, PARTITIONS = 50, 500
GROUP_COUNTS = (1, 10)
DEPTH = 5
COMMITTED_PARTITIONS = 10
COMMIT_S = 2.0
READ_PARTITIONS = 4
TIMEOUT_S = 120.0
SETTINGS = {
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "50",
    "group.consumer.min.heartbeat.interval.ms": str(int(1000 * HEARTBEAT_S)),
    "group.consumer.heartbeat.interval.ms": str(int(1000 * HEARTBEAT_S)),
}
KINDS: Mapping[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember}
_COMMIT_VERSION = 9
"""The last version in which topics go by name."""
_CORRELATION_END = SIZE.size + 8
_numbers = itertools.count(1)


def measure() -> list[Row]:
    with sides(nodes=1, properties=SETTINGS) as both:
        return rebalances(both) + commits_per_second(both) + consumption(both)


# --- the coordinator --------------------------------------------------------------------------------------------------


def await_coordinator(address: str, group_id: str) -> None:
    """Return once the group has its coordinator: the first question makes the internal topic, and its partitions have
    to be led and loaded."""

    def is_found(answer: FindCoordinatorResponse) -> bool:
        return answer.coordinators[0].error_code == ErrorCode.NONE

    def is_loaded(answer: OffsetFetchResponse) -> bool:
        return answer.groups[0].error_code == ErrorCode.NONE

    answer_that(is_found, address, FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]), 4, TIMEOUT_S)
    group = OffsetFetchRequest.Group(group_id=group_id, topics=None)
    answer_that(is_loaded, address, OffsetFetchRequest(groups=[group]), 8, TIMEOUT_S)


# --- a rebalance ------------------------------------------------------------------------------------------------------


def rebalances(both: Sequence[Side]) -> list[Row]:
    rows = []
    with lasting_topics(both, PARTITIONS) as topics:
        for kind in KINDS:

            def load(side: Side, kind: str = kind) -> Figures:
                return rebalance(side, topics[side.name], kind)

            rows += in_turn(both, load, "s", lower_is_better=True)
    return rows


def rebalance(side: Side, topic: str, kind: str, members: int = MEMBERS, partitions: int = PARTITIONS) -> Figures:
    """Seconds, and processor seconds of the broker, of members that join at once, and of one more."""
    about = f"{members} members, {partitions} partitions, {kind}"
    group_id = f"rebalance-{next(_numbers)}"
    found: Figures = {}
    await_coordinator(side.bootstrap_servers, group_id)
    with Lines() as lines:
        group = ScriptedGroup(KINDS[kind], lines, side.bootstrap_servers, group_id, topic, partitions)
        for count, name in ((members, "all join"), (1, "one more joins")):
            group.add(count)
            before = side.cpu_seconds()
            found[f"{about}: {name}"] = group.join(TIMEOUT_S)
            found[f"{about}: {name}, processor time"] = side.cpu_seconds() - before
        group.leave(TIMEOUT_S)
    return found


# --- commits ----------------------------------------------------------------------------------------------------------


class Committer:
    """One group that commits on and on, over one connection."""

    def __init__(self, line: Line, group_id: str, topic: str, partitions: int = COMMITTED_PARTITIONS) -> None:
        self._line = line
        request = commit_request(group_id, topic, partitions)
        self._frame = Connection.frame(request, _COMMIT_VERSION)
        self._correlation_ids = itertools.count(1)
        self._expected = b""
        self.under_way = 0
        self.answered = 0
        self.is_over = False

    def send(self) -> None:
        correlation = next(self._correlation_ids).to_bytes(4, "big")
        self.under_way += 1
        frame = self._frame[: _CORRELATION_END - 4] + correlation + self._frame[_CORRELATION_END:]
        self._line.send(frame, self._answered)

    def _answered(self, frame: bytes) -> None:
        if not self._expected:
            check_commit(frame)
            self._expected = frame[4:]
        assert frame[4:] == self._expected, "a commit was answered differently"
        self.under_way -= 1
        self.answered += 1
        if not self.is_over:
            self.send()


def commit_request(group_id: str, topic: str, partitions: int, offset: int = 1_000_000) -> OffsetCommitRequest:
    """The commit of a client that is in no group, for partitions 0, 1, ... of a topic."""
    topic_type = OffsetCommitRequest.Topic
    parts = [
        topic_type.Partition(partition_index=number, committed_offset=offset + number, committed_metadata="")
        for number in range(partitions)
    ]
    return OffsetCommitRequest(group_id=group_id, topics=[topic_type(name=topic, partitions=parts)])


def check_commit(frame: bytes) -> None:
    answer: Any = decode_response(OffsetCommitResponse, _COMMIT_VERSION, memoryview(frame))[1]
    errors = {each.error_code for topic in answer.topics for each in topic.partitions}
    assert errors == {ErrorCode.NONE}, f"a commit was answered with {errors}"


def commits_per_second(both: Sequence[Side]) -> list[Row]:
    rows = []
    with lasting_topics(both, COMMITTED_PARTITIONS) as topics:
        for groups in GROUP_COUNTS:

            def load(side: Side, groups: int = groups) -> Figures:
                return commits(side, topics[side.name], groups)

            rows += in_turn(both, load, "commits/s")
    return rows


def commits(side: Side, topic: str, groups: int, seconds: float = COMMIT_S) -> Figures:
    """Commits per second of all groups together, and the broker's processor time for one."""
    name = f"commits of {COMMITTED_PARTITIONS} offsets, {groups} group{'s' * (groups > 1)} {DEPTH} deep"
    group_ids = [f"commits-{next(_numbers)}" for _ in range(groups)]
    for group_id in group_ids:
        await_coordinator(side.bootstrap_servers, group_id)
    with Lines() as lines:
        committers = [Committer(Line(lines, side.bootstrap_servers), group_id, topic) for group_id in group_ids]
        before, began = side.cpu_seconds(), time.monotonic()
        for committer in committers:
            for _ in range(DEPTH):
                committer.send()
        while time.monotonic() < began + seconds:
            lines.poll(0.1)
        answered, took = sum(each.answered for each in committers), time.monotonic() - began
        cpu_s = side.cpu_seconds() - before
        for committer in committers:
            committer.is_over = True
        while any(committer.under_way for committer in committers):
            lines.poll(0.1)
    return {name: answered / took, f"{name}, processor time": 1000 * cpu_s / answered}


# --- a group that reads -----------------------------------------------------------------------------------------------


def consumption(both: Sequence[Side]) -> list[Row]:
    """Each consumer reads the same topic of each side in each round, in a group of its own."""
    rows = []
    with lasting_topics(both, READ_PARTITIONS) as topics:
        for side in both:
            librdkafka.produce(side.librdkafka(), topics[side.name], librdkafka.BATCH_SIZES[0])
        for consumer, read in READERS.items():

            def load(side: Side, consumer: str = consumer, read: Read = read) -> Figures:
                return _read(side, topics[side.name], consumer, read)

            rows += in_turn(both, load, librdkafka.UNIT)
    return rows


Read = Callable[[str, str, str], tuple[float, float]]
"""Of bootstrap servers, topic and group: read all; the times of the first and the last record."""


def _read(side: Side, topic: str, consumer: str, read: Read) -> Figures:
    name = f"a group consumes 1 KB records, {consumer}"
    before = side.cpu_seconds()
    first, last = read(side.bootstrap_servers, topic, f"reader-{next(_numbers)}")
    total_bytes = librdkafka.RECORDS * librdkafka.RECORD_BYTES
    cpu_s = side.cpu_seconds() - before
    return {name: total_bytes / (last - first) / 1e6, f"{name}, processor time": cpu_s / (total_bytes / 1e9)}


def read_with_librdkafka(servers: str, topic: str, group_id: str) -> tuple[float, float]:
    settings: dict[str, Any] = {"bootstrap.servers": servers, "group.id": group_id, "auto.offset.reset": "earliest"}
    consumer = LibrdkafkaConsumer(settings)
    try:
        consumer.subscribe([topic])
        assert consumer.consume(1, TIMEOUT_S), "nothing came"
        first = time.monotonic()
        seen = 1
        while seen < librdkafka.RECORDS:
            messages = consumer.consume(min(10_000, librdkafka.RECORDS - seen), TIMEOUT_S)
            assert messages, f"{seen} of {librdkafka.RECORDS} records have come"
            seen += len(messages)
        return first, time.monotonic()
    finally:
        consumer.close()


def read_with_ours(servers: str, topic: str, group_id: str) -> tuple[float, float]:
    with Consumer(topic, bootstrap_servers=servers, group_id=group_id, auto_offset_reset="earliest") as consumer:
        first = seen = 0.0
        while seen < librdkafka.RECORDS:
            polled = consumer.poll(1000 * TIMEOUT_S)
            assert polled, f"{seen:.0f} of {librdkafka.RECORDS} records have come"
            first = first or time.monotonic()
            seen += sum(map(len, polled.values()))
        return first, time.monotonic()


READERS: Mapping[str, Read] = {"librdkafka": read_with_librdkafka, "pykraft's Consumer": read_with_ours}
