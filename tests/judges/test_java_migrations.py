"""Groups that change their protocol, with Apache Kafka: it answers as is written down, and as pykraft does.

``REWRITE_ANSWERS=1`` writes it down again. The default run compares pykraft with what is written down
(tests/unit/coordinator/group/test_migrations.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import Uuid
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest
from pykraft.protocol.messages.coordinators import GROUP_RECORDS, CoordinatorRecord, decode_coordinator_record
from pykraft.protocol.messages.groups import DescribeGroupsRequest
from pykraft.records.batch import batches
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.asking import create, new_topic
from tests.harness.connection import Connection, answer_that
from tests.harness.group_dialogue import RACK, TOPICS, OurSide, Talk
from tests.harness.migrations import (
    ALLOWED,
    DISABLED,
    FORBIDDEN,
    PROPERTIES,
    Dialogue,
    at_random,
    read_answers,
    without_hashes,
    write_answers,
)

SEEDS = 20
pytestmark = pytest.mark.limit(300)


class KafkaSide:
    """Apache Kafka, with one connection for each speaker."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        address = kafka.address(1)
        self._connections: dict[str, Connection] = {}
        self._open: dict[str, tuple[Any, int, int]] = {}
        admin = self._connection("admin")
        created = admin.ask(create(*(new_topic(name, count) for name, count in TOPICS.items())), 7)
        assert not any(topic.error_code for topic in created.topics)
        described = answer_that(
            lambda answer: TOPICS.keys() <= {topic.name for topic in answer.topics if topic.partitions},
            address,
            MetadataRequest(topics=None),
            12,
        )
        self.ids: dict[str, Uuid] = {topic.name: topic.topic_id for topic in described.topics if topic.name in TOPICS}
        admin.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["first"]), 6)
        answer_that(
            lambda answer: answer.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND,
            address,
            DescribeGroupsRequest(groups=["first"]),
            6,
        )

    def _connection(self, speaker: str) -> Connection:
        if speaker not in self._connections:
            self._connections[speaker] = Connection(self._kafka.address(1))
        return self._connections[speaker]

    def send(self, speaker: str, request: Any, version: int) -> None:
        self._open[speaker] = request, version, self._connection(speaker).send(request, version)

    def receive(self, speaker: str) -> Any:
        return self._connection(speaker).receive(*self._open.pop(speaker))

    def pass_time(self, ms: int) -> None:
        """It passes by itself."""

    def records(self, group_id: str) -> Sequence[CoordinatorRecord]:
        path = self._kafka.data(1) / "__consumer_offsets-0" / "00000000000000000000.log"
        decoded = [
            decode_coordinator_record(GROUP_RECORDS, record.key or b"", record.value)
            for batch in batches(memoryview(path.read_bytes()))
            for record in batch.records()
        ]
        keys = [vars(record.key) for record in decoded]
        return [r for r, key in zip(decoded, keys, strict=True) if group_id in (key.get("group_id"), key.get("group"))]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


@pytest.fixture(scope="module", params=["allowed", "forbidden"])
def side(request: pytest.FixtureRequest) -> Iterator[tuple[KafkaSide, dict[str, str], list[Dialogue]]]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    policy, dialogues = ({}, ALLOWED) if request.param == "allowed" else (DISABLED, FORBIDDEN)
    properties = {**PROPERTIES, **policy}
    with ApacheKafka(properties={**properties, "broker.rack": RACK}, heap="384m", java_options=QUICK_START) as kafka:
        side = KafkaSide(kafka)
        yield side, properties, dialogues
        side.close()


def held(side: Any, dialogue: Dialogue) -> list[str]:
    talk = Talk(side, dialogue.__name__)
    dialogue(talk)
    return talk.finish()


def check_that_pykraft_loads(kafka: KafkaSide, properties: dict[str, str], group_id: str) -> None:
    """Apache Kafka's records make the group that Apache Kafka has. A classic group may rebalance there, and of an empty
    consumer group that a member with an id wanted to join, Kafka's memory is gone though its records are not."""
    looks = []
    for side in (kafka, OurSide(kafka.ids, properties, kafka.records(group_id))):
        talk = Talk(side, group_id)
        talk.look()
        looks.append(talk.lines)
    theirs, ours = looks
    if theirs[0].startswith("= as a consumer group: NONE"):
        assert ours == theirs, group_id
    elif not theirs[1].endswith("Dead"):
        assert ours[0] == theirs[0], group_id


def test_apache_kafka_answers_as_is_written_down_and_as_pykraft(
    side: tuple[KafkaSide, dict[str, str], list[Dialogue]],
) -> None:
    kafka, properties, dialogues = side
    said = {dialogue.__name__: held(kafka, dialogue) for dialogue in dialogues}
    for dialogue in dialogues:
        assert held(OurSide(kafka.ids, properties), dialogue) == said[dialogue.__name__], dialogue.__name__
    for name in said:
        check_that_pykraft_loads(kafka, properties, name)
    if os.environ.get("REWRITE_ANSWERS"):
        known = read_answers()[1] if dialogues is FORBIDDEN else {}
        write_answers(kafka.ids if dialogues is ALLOWED else read_answers()[0], known | said)
    _, expected = read_answers()
    for name, lines in said.items():
        assert without_hashes(lines) == without_hashes(expected[name]), name


def test_both_coordinators_agree_on_members_of_both_protocols_that_come_go_and_err_at_random(
    side: tuple[KafkaSide, dict[str, str], list[Dialogue]],
) -> None:
    kafka, properties, _ = side
    for seed in range(SEEDS):
        dialogue = at_random(seed)
        assert held(OurSide(kafka.ids, properties), dialogue) == held(kafka, dialogue), f"seed {seed}"
