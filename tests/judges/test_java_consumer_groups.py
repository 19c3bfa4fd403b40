"""A dialogue with a consumer group, held twice: with Apache Kafka and with pykraft's coordinator.

Both hear the same heartbeats, of members whose ids are fixed, about the same topics. Every answer is compared with its
error, message, epoch and assignment, and so are the records that both have written: their order, their versions, and
their values with the hash of the topics.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.coordinator.group.consumer_groups.consumer_group_member import assignment_of
from pykraft.coordinator.group.topics import TopicInfo
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest
from pykraft.protocol.messages.coordinators import GROUP_RECORDS, CoordinatorRecord, decode_coordinator_record
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pykraft.records.batch import batches
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.asking import create, new_topic
from tests.harness.connection import Connection
from tests.harness.consumer_groups import GROUP, ConsumerGroupScript
from tests.harness.release_of_groups import (
    AT_ONCE,
    BEGINS_WITH_ONE,
    EMPTY_IS_ASSIGNED,
    epochs_of_the_release,  # noqa: F401 (a fixture)
    with_what_is_to_be_given_up,
    without_what_is_new,
)

pytestmark = [pytest.mark.limit(300), pytest.mark.usefixtures("epochs_of_the_release")]

RACK = "cellar"
TOPICS = {"orders": 4, "organs": 3, "people": 2}
PROPERTIES = {"offsets.topic.num.partitions": "1", "broker.rack": RACK, "group.consumer.max.size": "4", **AT_ONCE}
PATIENCE_S = 60.0
SEEDS = 20
RANDOM_MEMBERS = "abcd" if BEGINS_WITH_ONE else "abcde"
"""Since 4.4 a full group refuses only members that join, and fences others first: there it is never full."""
FEWEST_TOPICS = int(BEGINS_WITH_ONE)
"""Of a subscription. Since 4.4 the assignor of a member without topics raises the epoch."""
STEPS = 60
NOT_THERE_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

RANGE = {"server_assignor": "range"}
S1, S2 = {"instance_id": "s1", **RANGE}, {"instance_id": "s2", **RANGE}
MATCHED = {"rebalance_timeout_ms": 60_000, "subscribed_topic_regex": "or.*", **RANGE}

# (member, epoch, what it owns, other fields). A first heartbeat names its topics; one with `again` is repeated until it
# brings a higher epoch, as patterns are resolved beside the heartbeats.
Step = tuple[str, int, str | None, dict[str, Any]]
DIALOGUE: list[Step] = [
    ("a", 1, None, {}),  # there is no group
    ("", 0, "", {"topics": ["orders"]}),
    ("a", 0, "", {"topics": ["orders"], "rebalance_timeout_ms": -1}),
    ("a", 0, None, {"topics": ["orders"]}),
    ("a", 0, "", {"topics": ["orders"], "server_assignor": "mine"}),
    ("a", 0, "", {"topics": ["orders"], "instance_id": ""}),
    ("a", -3, None, {}),
    ("a", -2, None, {}),
    ("a", 0, "", {"topics": ["orders"], **RANGE}),
    ("a", 1, None, {}),
    ("a", 2, None, {}),  # no such epoch yet
    ("b", 1, None, {}),
    ("b", 0, "", {"topics": ["orders", "nothing"], **RANGE, "rack_id": "r"}),
    ("b", 2, "", {}),
    ("a", 1, None, {}),
    ("a", 1, "orders 0 1 2 3", {}),
    ("b", 2, "", {}),
    ("a", 1, "orders 0 1", {}),
    ("a", 1, "orders 0 1", {}),  # the response was lost
    ("a", 1, "orders 0 1 2", {}),  # and yet it owns more
    ("a", 1, None, {}),
    ("b", 2, "", {}),
    ("b", 2, "orders 2 3", {"topics": ["orders"]}),
    ("b", 3, "orders 2 3", {"rebalance_timeout_ms": 9_000, "subscribed_topic_names": ["orders"]}),
    ("a", 2, "orders 0 1", {"subscribed_topic_names": ["people"]}),
    ("a", 2, "", {}),
    ("b", 3, "orders 2 3", {}),
    ("c", 0, "", {"topics": ["people"], **S1}),
    ("d", 0, "", {"topics": ["people"], **S1}),
    ("d", 1, "", S1),
    ("d", 1, "", S2),
    ("a", 4, "people 0 1", {}),
    ("a", 4, "people 1", {}),
    ("c", 5, "", S1),
    ("c", -2, None, {"instance_id": "s1"}),
    ("d", -2, None, {"instance_id": "s1"}),
    ("d", -2, None, {"instance_id": "s2"}),
    ("d", 0, "", {"topics": ["people"], **S1}),
    ("c", 5, "", S1),
    ("e", 0, "", {"topics": ["people"], **S2}),
    ("f", 0, "", {"topics": ["people"]}),  # the group is full
    ("e", -1, None, {"instance_id": "s2"}),
    ("e", -1, None, {"instance_id": "s2"}),
    ("d", -1, None, {"instance_id": "s1"}),
    ("a", -1, None, {}),
    ("a", -1, None, {}),
    ("b", 4, "orders 2 3", {}),
    ("b", 3, "orders 2 3", {}),
    ("b", -1, None, {}),
    ("b", -1, None, {}),
]
BY_PATTERN: list[Step] = [
    ("a", 0, "", {**MATCHED, "subscribed_topic_regex": "(a"}),
    ("a", 0, "", MATCHED),
    ("a", 10, "", {"again": True}),
    ("b", 0, "", MATCHED),
    ("a", 11, None, {}),
    ("a", 11, "orders 0 1, organs 0 1", {}),
    ("b", 12, "", {}),
    ("a", 12, "orders 0 1, organs 0 1", {"subscribed_topic_regex": "", "subscribed_topic_names": ["organs"]}),
    ("a", 12, "organs 0 1", {}),
    ("b", 12, "", {}),
    ("b", -1, None, {}),
    ("a", -1, None, {}),
]


@pytest.fixture(scope="module")
def judged() -> Iterator[Judged]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with ApacheKafka(properties=PROPERTIES, heap="384m", java_options=QUICK_START) as kafka:
        judged = Judged(kafka)
        yield judged
        judged.close()


class Judged:
    """The dialogue with Apache Kafka."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self._connection = Connection(kafka.address(1))
        created = self._connection.ask(create(*(new_topic(name, count) for name, count in TOPICS.items())), 7)
        assert not any(topic.error_code for topic in created.topics)
        self.ids = self._topic_ids()
        self._connection.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 6)

    def _topic_ids(self) -> dict[str, Uuid]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            described = self._connection.ask(MetadataRequest(topics=None), 12)
            ids = {
                topic.name: topic.topic_id for topic in described.topics if topic.partitions and topic.name in TOPICS
            }
            if len(ids) == len(TOPICS):
                return ids
            assert time.monotonic() < deadline

    def ask(self, request: ConsumerGroupHeartbeatRequest, again: bool) -> ConsumerGroupHeartbeatResponse:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            response: ConsumerGroupHeartbeatResponse = self._connection.ask(request, 1)
            waits = again and response.member_epoch == request.member_epoch
            if ErrorCode.of(response.error_code) not in NOT_THERE_YET and not waits:
                return response
            assert time.monotonic() < deadline, response

    def describe(self, group_id: str = GROUP) -> Any:
        return self._connection.ask(ConsumerGroupDescribeRequest(group_ids=[group_id]), 1).groups[0]

    def records(self, group_id: str) -> list[CoordinatorRecord]:
        path = self._kafka.data(1) / "__consumer_offsets-0" / "00000000000000000000.log"
        decoded = [
            decode_coordinator_record(GROUP_RECORDS, record.key or b"", record.value)
            for batch in batches(memoryview(path.read_bytes()))
            for record in batch.records()
        ]
        return [record for record in decoded if vars(record.key)["group_id"] == group_id]

    def close(self) -> None:
        self._connection.close()


def ours(ids: dict[str, Uuid]) -> ConsumerGroupScript:
    """pykraft's coordinator, with the topics of the other."""
    script = ConsumerGroupScript({}, ConsumerGroupConfig(max_size=4))
    for name, count in TOPICS.items():
        script.topics.take(TopicInfo(ids[name], name, count, ((RACK,),) * count))
    return script


def answer_of(script: ConsumerGroupScript, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    script.settle()
    try:
        return script.send(request)
    except KafkaError as error:
        refusal = request.refusal(error)
        assert isinstance(refusal, ConsumerGroupHeartbeatResponse)
        return refusal


def text(script: ConsumerGroupScript, response: ConsumerGroupHeartbeatResponse) -> str:
    if response.error_code:
        said = (response.error_message or "").partition("regular expression:")[0]  # after that, RE2 says it or RE2/J
        return f"{ErrorCode.of(response.error_code).name}: {said}"
    return f"{response.member_id} {response.heartbeat_interval_ms} {script.answer(response)}"


def comparable(record: CoordinatorRecord) -> str:
    """A record without what two coordinators must have different."""
    value: Any = record.value
    if record.record_type == 16 and value is not None:
        value.version = value.timestamp = 0
    for name in ("topic_partitions", "assigned_partitions", "partitions_pending_revocation"):
        if hasattr(value, name):
            setattr(value, name, sorted((t.topic_id, sorted(t.partitions)) for t in getattr(value, name)))
    return f"{record.record_type} {record.key} {record.version} {value}"


class BothSides:
    """One group on both sides. What is asked is asked twice, and the answers are compared."""

    def __init__(self, judged: Judged, group_id: str) -> None:
        self._judged = judged
        self._group_id = group_id
        self.script = ours(judged.ids)

    def heartbeat(self, member: str, epoch: int, owns: str | None, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        again = fields.pop("again", False)
        request = self.script.request(member, epoch, owns, group_id=self._group_id, **fields)
        expected = self._judged.ask(request, again)
        said = answer_of(self.script, request)
        what = f"to {member} in epoch {epoch} that owns {owns} and says {fields}"
        assert text(self.script, said) == text(self.script, expected), what
        theirs = seen(self._judged.describe(self._group_id))
        if self._seen() != theirs:
            self.script.settle()  # Kafka resolves patterns beside the heartbeats, and may have done so by now
        assert self._seen() == theirs, what
        return said

    def _seen(self) -> list[Any]:
        manager = self.script.manager
        described = manager.describe([self._group_id])[0]
        names = {topic_id: name for name, topic_id in self._judged.ids.items()}
        with_what_is_to_be_given_up(described, manager.find(self._group_id), names)
        return seen(described)

    def compare_records(self) -> None:
        ours, theirs = self.script.log, self._judged.records(self._group_id)
        assert list(map(comparable, without_what_is_new(ours))) == list(map(comparable, without_what_is_new(theirs)))


def test_both_coordinators_answer_alike_and_write_the_same_records(judged: Judged) -> None:
    both = BothSides(judged, GROUP)
    # Since 4.4 another assignor raises the epoch, and so does the member that names one together with a pattern.
    for member, epoch, owns, fields in DIALOGUE if BEGINS_WITH_ONE else DIALOGUE + BY_PATTERN:
        if "topics" in fields:
            names = fields["topics"]
            rest = {name: value for name, value in fields.items() if name != "topics"}
            fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, **rest}
        both.heartbeat(member, epoch + (epoch > 0 and BEGINS_WITH_ONE), owns, **fields)
    both.compare_records()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_coordinators_agree_on_members_that_come_go_and_err_at_random(judged: Judged, seed: int) -> None:
    random = Random(seed)
    both = BothSides(judged, f"random-{seed}")
    epochs: dict[str, int] = {}
    owned: dict[str, str] = {}
    for _ in range(STEPS):
        member = random.choice(RANDOM_MEMBERS)
        known = epochs.get(member, 0)
        epoch = random.choices([known, known - 1, known + 1, 0, -1, -2], [20, 2, 1, 2, 1, 1])[0]
        owns = random.choices([owned.get(member, ""), "", "people 0", None], [20, 1, 1, 5])[0]
        fields: dict[str, Any] = {"instance_id": {"a": "s", "b": "s", "c": "t"}.get(member), **RANGE}
        if epoch == 0:
            owns, fields["rebalance_timeout_ms"] = "", 60_000
        if epoch == 0 or random.random() < 0.1:
            fields["subscribed_topic_names"] = sorted(random.sample(sorted(TOPICS), random.randrange(FEWEST_TOPICS, 4)))
        response = both.heartbeat(member, epoch, owns, **fields)
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID) or epoch < 0:
            epochs.pop(member, None)
            owned.pop(member, None)
        elif not response.error_code and random.random() < 0.9:  # otherwise the response is lost
            epochs[member] = response.member_epoch
            if response.assignment is not None:
                partitions = assignment_of(response.assignment.topic_partitions)
                owned[member] = both.script.text_of_partitions(partitions)
    both.compare_records()


def seen(group: Any) -> list[Any]:
    """What a description says, in an order that is the same for both."""

    def held(assignment: Any) -> list[Any]:
        return sorted((part.topic_name, sorted(part.partitions)) for part in assignment.topic_partitions)

    members = [
        (
            *(member.member_id, member.instance_id, member.rack_id, member.member_epoch, member.client_id),
            *(member.client_host, sorted(member.subscribed_topic_names), member.subscribed_topic_regex),
            *(held(member.assignment), held(member.target_assignment), member.member_type),
        )
        for member in group.members
    ]
    assignment_epoch = group.assignment_epoch if group.members or not EMPTY_IS_ASSIGNED else None
    head = (group.error_code, group.error_message, group.group_state, group.group_epoch, assignment_epoch)
    return [*head, group.assignor_name, sorted(members)]
