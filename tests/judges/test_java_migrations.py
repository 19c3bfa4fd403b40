"""Groups that change their protocol, with Apache Kafka: it answers as is written down, and as pykraft does.

``REWRITE_ANSWERS=1`` writes it down again. The default run compares pykraft with what is written down
(tests/unit/coordinator/group/test_migrations.py). What is written down is what the base says; a later release is
compared with pykraft alone (`tests.harness.release_of_groups` says what such a release does otherwise).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest
from pykraft.protocol.messages.coordinators import GROUP_RECORDS, CoordinatorRecord, decode_coordinator_record
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupResponse,
)
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
from tests.harness.release_of_groups import (
    AT_ONCE,
    BEGINS_WITH_ONE,
    RELEASE,
    epochs_of_the_release,  # noqa: F401 (a fixture)
    with_what_is_to_be_given_up,
    without_what_is_new,
)

SEEDS = 20
MEMBERS = ("~x", "~y") if BEGINS_WITH_ONE else ("~x", "~y", "~z")
"""Since 4.4 a full group refuses only members that join, and fences others first: there it is never full."""
SINCE_4_3 = RELEASE >= (4, 3)
"""Whether the answers are others than those that are written down."""
pytestmark = [pytest.mark.limit(300), pytest.mark.usefixtures("epochs_of_the_release")]


class TalkOfTheRelease(Talk):
    """Leaves out what the release answers otherwise."""

    def beat(self, who: str, generation: int | None = None, instance: str | None = None) -> None:
        if not self._waits_for_target:
            super().beat(who, generation, instance)

    def sync(self, *who: str, **fields: Any) -> None:
        if not self._waits_for_target:
            super().sync(*who, **fields)

    def commit(self, who: str, epoch: int, version: int = 9) -> None:
        if not SINCE_4_3 or epoch >= self.epochs.get(who, epoch):
            super().commit(who, epoch, version)

    @property
    def _waits_for_target(self) -> bool:
        """Since 4.3 a classic member is not sent to join again before there is a target for the group's epoch."""
        self.error = ErrorCode.NONE
        return SINCE_4_3 and self.state == "Assigning"


class EpochsOfTheRelease(TalkOfTheRelease):
    """Dialogues name epochs as the base counts them. Where a new group begins in epoch 1, those of a group that begins
    with the newer protocol are one higher."""

    def __init__(self, side: Any, group_id: str) -> None:
        super().__init__(side, group_id)
        self._later = 0

    def heartbeat(self, who: str, epoch: int, owns: str | None = None, *topics: str, **fields: Any) -> None:
        if not self.lines:
            self._later = int(BEGINS_WITH_ONE)
        super().heartbeat(who, self._meant(epoch), owns, *topics, **fields)

    def beat(self, who: str, generation: int | None = None, instance: str | None = None) -> None:
        super().beat(who, None if generation is None else self._meant(generation), instance)

    def sync(self, *who: str, **fields: Any) -> None:
        if "generation" in fields:
            fields["generation"] = self._meant(fields["generation"])
        super().sync(*who, **fields)

    def _meant(self, epoch: int) -> int:
        return epoch + self._later if epoch > 0 else epoch


class OurSideOfTheRelease(OurSide):
    """pykraft's coordinator, whose answers and records are as the release that is asked has them."""

    def __init__(
        self, ids: Mapping[str, Uuid], properties: Mapping[str, str], log: Sequence[CoordinatorRecord] = ()
    ) -> None:
        super().__init__(ids, properties, log)
        self._admits_classic = not BEGINS_WITH_ONE or not DISABLED.items() <= properties.items()

    def send(self, speaker: str, request: Any, version: int) -> None:
        if isinstance(request, JoinGroupRequest) and not self._admits_classic:
            group = self.shard.consumer.find(request.group_id)
            if group is not None and group.members:
                answer = request.refusal(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
                self._answers[speaker] = answer, version
                return
        super().send(speaker, request, version)

    def receive(self, speaker: str) -> Any:
        answer = super().receive(speaker)
        if isinstance(answer, ConsumerGroupDescribeResponse):
            names = {topic_id: name for name, topic_id in self.ids.items()}
            for group in answer.groups:
                if not group.error_code:
                    with_what_is_to_be_given_up(group, self.shard.consumer.find(group.group_id), names)
        if SINCE_4_3 and isinstance(answer, JoinGroupResponse) and answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            answer.error_code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # for a subscription that cannot be read
        return answer

    def records(self, group_id: str) -> Sequence[CoordinatorRecord]:
        return without_what_is_new(super().records(group_id))


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
        return without_what_is_new(self.all_records(group_id))

    def all_records(self, group_id: str) -> list[CoordinatorRecord]:
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
    theirs = {**properties, **AT_ONCE, "broker.rack": RACK}
    with ApacheKafka(properties=theirs, heap="384m", java_options=QUICK_START) as kafka:
        side = KafkaSide(kafka)
        yield side, properties, dialogues
        side.close()


def held(side: Any, dialogue: Dialogue, kind: type[Talk] = EpochsOfTheRelease) -> list[str]:
    talk = kind(side, dialogue.__name__)
    dialogue(talk)
    return talk.finish()


def check_that_pykraft_loads(kafka: KafkaSide, properties: dict[str, str], group_id: str) -> None:
    """Apache Kafka's records make the group that Apache Kafka has. A classic group may rebalance there, and of an empty
    consumer group that a member with an id wanted to join, Kafka's memory is gone though its records are not."""
    looks = []
    for side in (kafka, OurSideOfTheRelease(kafka.ids, properties, kafka.all_records(group_id))):
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
        assert held(OurSideOfTheRelease(kafka.ids, properties), dialogue) == said[dialogue.__name__], dialogue.__name__
    for name in said:
        check_that_pykraft_loads(kafka, properties, name)
    if SINCE_4_3:
        return
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
        dialogue = at_random(seed, others=MEMBERS)
        ours = held(OurSideOfTheRelease(kafka.ids, properties), dialogue, TalkOfTheRelease)
        assert ours == held(kafka, dialogue, TalkOfTheRelease), f"seed {seed}"
