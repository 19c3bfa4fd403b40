"""Consumer groups as a dialogue: what members say, what the coordinator answers, which records it writes."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.settings.config import ConfigDef
from pykraft.common.settings.group_config import check_group_settings
from pykraft.common.types import Uuid
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from pykraft.coordinator.group.config import (
    GROUP_KEYS,
    ConsumerGroupConfig,
    check_consumer_group_keys,
    consumer_group_config,
)
from pykraft.coordinator.group.topics import TopicInfo, metadata_hash, topic_hash
from pykraft.protocol.messages.coordinators import CoordinatorRecord, GroupKey
from pykraft.protocol.messages.group_values import ConsumerGroupPartitionMetadataValue
from tests.harness.consumer_groups import CLIENT, GROUP, ConsumerGroupScript, TopicsInTest

SESSION_MS = ConsumerGroupConfig().session_timeout_ms
STATIC = {"instance_id": "i"}


def two_members() -> ConsumerGroupScript:
    """Both have half of four partitions, in epoch 2."""
    script = ConsumerGroupScript({"orders": 4})
    script.join("a", "orders")
    script.join("b", "orders")
    script.heartbeat("a", 1)
    script.heartbeat("a", 1, owns="orders 0 1")
    assert script.heartbeat("b", 2) == "epoch 2: orders 2 3"
    assert script.group.state == "Stable"
    return script


# --- joining, moving, leaving -----------------------------------------------------------------------------------------


def test_the_first_member_gets_everything_and_writes_five_records() -> None:
    script = ConsumerGroupScript({"orders": 2})
    assert script.join("a", "orders") == "epoch 1: orders 0 1"
    assert script.said == [
        "member a",
        "group epoch 1",
        "target a: orders 0 1",
        "target epoch 1",
        "current a 0->1 STABLE: orders 0 1",
    ]
    assert script.heartbeat("a", 1) == "epoch 1"
    assert script.said == []


def test_a_second_member_waits_until_the_first_has_given_up_half() -> None:
    script = ConsumerGroupScript({"orders": 4})
    script.join("a", "orders")
    assert script.join("b", "orders") == "epoch 2:"
    assert script.group.state == "Reconciling"
    assert script.heartbeat("a", 1) == "epoch 1: orders 0 1"
    assert script.said == ["current a 1->1 UNREVOKED_PARTITIONS: orders 0 1 revokes orders 2 3"]
    assert script.heartbeat("b", 2) == "epoch 2", "the partitions are not free yet"
    assert script.heartbeat("a", 1, owns="orders 0 1 2 3") == "epoch 1", "it still owns them"
    assert script.heartbeat("a", 1, owns="orders 0 1") == "epoch 2"
    assert script.heartbeat("b", 2) == "epoch 2: orders 2 3"
    assert script.group.state == "Stable"


def test_a_member_that_leaves_frees_its_partitions_for_the_next_heartbeat() -> None:
    script = two_members()
    assert script.leave("a") == "epoch -1"
    assert script.said == ["no current a", "no target a", "no member a", "group epoch 3"]
    assert script.group.state == "Assigning"
    assert script.heartbeat("b", 2) == "epoch 3: orders 0 1 2 3"
    assert script.leave("b") == "epoch -1"
    assert script.group.state == "Empty"


def test_a_member_without_a_session_is_removed() -> None:
    script = two_members()
    script.pass_time(SESSION_MS - 1)
    script.heartbeat("b", 2)
    script.pass_time(1)
    assert script.said == ["no current a", "no target a", "no member a", "group epoch 3"]
    assert sorted(script.group.members) == ["b"]
    assert script.heartbeat("a", 2) == "UNKNOWN_MEMBER_ID"


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    script = ConsumerGroupScript({"orders": 4})
    script.join("a", "orders", rebalance_timeout_ms=30_000)
    script.join("b", "orders")
    script.heartbeat("a", 1)
    script.pass_time(29_999)
    script.heartbeat("a", 1, owns="orders 0 1 2 3")
    assert "a" in script.group.members
    script.pass_time(1)
    assert sorted(script.group.members) == ["b"]
    assert script.heartbeat("b", 2) == "epoch 3: orders 0 1 2 3"


def test_a_member_that_revokes_in_time_stays() -> None:
    script = ConsumerGroupScript({"orders": 4})
    script.join("a", "orders", rebalance_timeout_ms=30_000)
    script.join("b", "orders")
    script.heartbeat("a", 1)
    script.heartbeat("a", 1, owns="orders 0 1")
    script.pass_time(30_000)
    assert sorted(script.group.members) == ["a", "b"]


def test_a_new_subscription_takes_away_at_once_what_is_no_longer_wanted() -> None:
    script = ConsumerGroupScript({"orders": 1, "people": 1})
    script.join("a", "orders")
    assert script.heartbeat("a", 1, subscribed_topic_names=["people"]) == "epoch 1:"
    assert script.heartbeat("a", 1, owns="") == "epoch 2: people 0"


def test_a_member_may_subscribe_to_nothing() -> None:
    script = ConsumerGroupScript({"orders": 1})
    assert script.join("a") == "epoch 1:"
    assert script.group.metadata_hash == 0


def test_a_full_heartbeat_is_told_the_assignment_again() -> None:
    script = two_members()
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
    assert script.heartbeat("a", 2, owns="orders 0", **full) == "epoch 2: orders 0 1"
    assert script.said == []


# --- epochs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "owns", "answer"),
    [
        (3, "orders 0 1", "FENCED_MEMBER_EPOCH"),
        (2, "orders 0 1", "epoch 2"),
        (1, "orders 0 1", "epoch 2"),  # the response with epoch 2 was lost
        (1, "orders 0", "epoch 2"),
        (1, None, "FENCED_MEMBER_EPOCH"),
        (1, "orders 0 2", "FENCED_MEMBER_EPOCH"),
    ],
)
def test_a_member_is_fenced_unless_it_is_in_its_epoch_or_lost_a_response(
    epoch: int, owns: str | None, answer: str
) -> None:
    assert two_members().heartbeat("a", epoch, owns=owns) == answer


def test_an_epoch_before_the_previous_one_is_fenced() -> None:
    script = two_members()
    script.leave("b")
    assert script.heartbeat("a", 2) == "epoch 3: orders 0 1 2 3"
    assert script.heartbeat("a", 1, owns="orders 0 1") == "FENCED_MEMBER_EPOCH"
    assert script.heartbeat("a", 2, owns="orders 0 1") == "epoch 3"


def test_a_fenced_member_joins_again_under_its_id() -> None:
    script = two_members()
    assert script.join("a", "orders") == "epoch 2: orders 0 1"


def test_a_refused_heartbeat_does_not_renew_the_session() -> None:
    script = two_members()
    script.pass_time(SESSION_MS - 1)
    script.heartbeat("b", 2)
    assert script.heartbeat("a", 3) == "FENCED_MEMBER_EPOCH"
    script.pass_time(1)
    assert sorted(script.group.members) == ["b"]


# --- static members ---------------------------------------------------------------------------------------------------


def test_a_static_member_that_leaves_for_a_while_gets_its_partitions_back_under_a_new_id() -> None:
    script = ConsumerGroupScript({"orders": 2})
    script.join("a", "orders", **STATIC)
    assert script.leave("a", -2, **STATIC) == "epoch -2"
    assert script.said == ["current a 0->-2 STABLE: orders 0 1"]
    assert script.join("a2", "orders", **STATIC) == "epoch 1: orders 0 1"
    assert script.said == [
        "no current a",
        "no target a",
        "no member a",
        "member a2",
        "target a2: orders 0 1",
        "current a2 0->0 STABLE: orders 0 1",
        "current a2 0->1 STABLE: orders 0 1",
    ]
    assert script.heartbeat("a", 1, **STATIC) == "FENCED_INSTANCE_ID"


def test_the_partitions_of_an_absent_static_member_are_not_given_away() -> None:
    script = ConsumerGroupScript({"orders": 2})
    script.join("a", "orders", **STATIC)
    script.leave("a", -2, **STATIC)
    assert script.join("b", "orders") == "epoch 2:"
    script.pass_time(SESSION_MS - 1)
    assert script.heartbeat("b", 2) == "epoch 2"
    script.pass_time(1)
    assert script.heartbeat("b", 2) == "epoch 3: orders 0 1"


def test_a_static_member_that_leaves_while_it_revokes_keeps_its_place() -> None:
    script = ConsumerGroupScript({"orders": 2})
    script.join("a", "orders", rebalance_timeout_ms=30_000, **STATIC)
    script.join("b", "orders")
    script.heartbeat("a", 1, **STATIC)
    script.leave("a", -2, **STATIC)
    script.pass_time(30_000)
    assert sorted(script.group.members) == ["a", "b"]


def test_a_static_member_that_comes_back_to_more_partitions_keeps_those_it_had() -> None:
    script = ConsumerGroupScript({"orders": 4})
    script.join("b", "orders")
    script.join("z", "orders", **STATIC)
    script.heartbeat("b", 1)
    script.heartbeat("b", 1, owns="orders 0 1")
    assert script.heartbeat("z", 2, **STATIC) == "epoch 2: orders 2 3"
    script.leave("z", -2, **STATIC)
    script.grow("orders", 6)
    assert script.join("z2", "orders", **STATIC) == "epoch 3: orders 2 3 5"


def test_an_instance_id_belongs_to_one_member_until_it_leaves() -> None:
    script = ConsumerGroupScript({"orders": 2})
    script.join("a", "orders", **STATIC)
    assert script.join("b", "orders", **STATIC) == "UNRELEASED_INSTANCE_ID"
    assert script.heartbeat("b", 1, **STATIC) == "FENCED_INSTANCE_ID"
    assert script.heartbeat("b", 1, instance_id="other") == "UNKNOWN_MEMBER_ID"
    assert script.leave("b", -2, instance_id="other") == "UNKNOWN_MEMBER_ID"
    assert script.leave("b", -1, **STATIC) == "FENCED_INSTANCE_ID"
    assert script.leave("a", -1, **STATIC) == "epoch -1"
    assert script.join("b", "orders", **STATIC) == "epoch 3: orders 0 1"


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "epoch", "fields"),
    [
        ("", 1, {}),
        (" ", 0, {}),
        ("a", -3, {}),
        ("a", -2, {}),  # without an instance id
        ("a", 0, {"rebalance_timeout_ms": -1}),
        ("a", 0, {"topic_partitions": None}),
        ("a", 0, {"topic_partitions": [1]}),
        ("a", 0, {"subscribed_topic_names": None}),
        ("a", 0, {"instance_id": ""}),
        ("a", 0, {"rack_id": ""}),
        ("a", 0, {"group_id": ""}),
    ],
)
def test_a_heartbeat_that_no_group_could_accept_is_invalid(member: str, epoch: int, fields: dict[str, object]) -> None:
    script = ConsumerGroupScript({"orders": 1})
    request = script.request(member, epoch, "", rebalance_timeout_ms=1, subscribed_topic_names=["orders"])
    for name, value in fields.items():
        setattr(request, name, value)
    with pytest.raises(KafkaError) as refusal:
        script.send(request)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert not script.log


def test_before_version_1_the_coordinator_makes_up_the_member_id() -> None:
    script = ConsumerGroupScript({"orders": 1})
    request = script.request("", 0, "", rebalance_timeout_ms=1, subscribed_topic_names=["orders"])
    response = script.send(request, version=0)
    assert len(Uuid.parse(response.member_id or "")) == 16
    assert list(script.group.members) == [response.member_id]


def test_an_assignor_must_be_one_of_the_brokers() -> None:
    script = ConsumerGroupScript({"orders": 1})
    assert script.join("a", "orders", server_assignor="mine") == "UNSUPPORTED_ASSIGNOR"
    assert script.join("a", "orders", server_assignor="range") == "epoch 1: orders 0"
    assert script.manager.describe([GROUP])[0].assignor_name == "range"


def test_a_full_group_refuses_only_new_members() -> None:
    script = ConsumerGroupScript({"orders": 1}, ConsumerGroupConfig(max_size=1))
    script.join("a", "orders")
    assert script.join("b", "orders") == "GROUP_MAX_SIZE_REACHED"
    assert script.heartbeat("a", 1) == "epoch 1"


def test_only_a_member_that_joins_makes_a_group() -> None:
    script = ConsumerGroupScript({"orders": 1})
    assert script.heartbeat("a", 1) == "GROUP_ID_NOT_FOUND"
    assert script.leave("a") == "GROUP_ID_NOT_FOUND"
    assert script.manager.describe([GROUP])[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_classic_group_makes_way() -> None:
    script = ConsumerGroupScript({"orders": 1})
    script.groups[GROUP] = ClassicGroup(GROUP, 0)
    result = script.manager.heartbeat(
        script.request("a", 0, "", rebalance_timeout_ms=1, subscribed_topic_names=["orders"]), *CLIENT, 1, 0
    )
    assert [(record.record_type, record.value is None) for record in result.records[:2]] == [(2, True), (5, False)]
    assert script.heartbeat("a", 1) == "GROUP_ID_NOT_FOUND"


def test_a_classic_group_with_members_stays_classic() -> None:
    script = ConsumerGroupScript({"orders": 1})
    group = script.groups[GROUP] = ClassicGroup(GROUP, 0)
    group.add(ClassicMember("m", None, "client", "/h", 1, 1, [("range", b"")]), "consumer")
    group.state = ClassicState.STABLE
    assert script.join("a", "orders") == "GROUP_ID_NOT_FOUND"


# --- topics -----------------------------------------------------------------------------------------------------------


def test_more_partitions_raise_the_epoch_at_the_next_heartbeat() -> None:
    script = ConsumerGroupScript({"orders": 1, "people": 1})
    script.join("a", "orders")
    script.grow("people", 2)
    assert script.heartbeat("a", 1) == "epoch 1"
    script.grow("orders", 2)
    assert script.heartbeat("a", 1) == "epoch 2: orders 0 1"


def test_a_topic_that_comes_later_is_assigned_and_one_that_goes_is_revoked() -> None:
    script = ConsumerGroupScript({})
    assert script.join("a", "orders") == "epoch 1:"
    script.create("orders", 1)
    assert script.heartbeat("a", 1) == "epoch 2: orders 0"
    script.delete("orders")
    assert script.heartbeat("a", 2) == "epoch 2:"
    assert script.heartbeat("a", 2, owns="") == "epoch 3"


def test_the_hash_of_topics_is_the_one_that_kafka_computes() -> None:
    """The numbers are from Kafka's Utils.computeTopicHash and computeGroupHash, 4.2.1."""
    topic_id = Uuid.parse("Bns0FkdqQ5uRY1LE1iPb2g")
    assert topic_hash(TopicInfo(topic_id, "golden-txn", 1)) == 3754398361524850862
    topics = TopicsInTest({})
    assert metadata_hash(["nothing"], topics) == 0
    topics.take(TopicInfo(topic_id, "golden-txn", 1))
    assert metadata_hash(["golden-txn", "nothing"], topics) == -8690500007308909437


def test_racks_are_part_of_the_hash() -> None:
    topics = TopicsInTest({})
    topics.put("orders", 1, racks=(("b", "a"),))
    first = metadata_hash(["orders"], topics)
    topics.put("orders", 1, racks=(("a", "b"),))
    assert metadata_hash(["orders"], topics) == first
    topics.put("orders", 1, racks=(("a",),))
    assert metadata_hash(["orders"], topics) != first


def test_the_record_that_a_coordinator_before_41_left_is_deleted() -> None:
    old = CoordinatorRecord(4, GroupKey(group_id=GROUP), 0, ConsumerGroupPartitionMetadataValue(topics=[]))
    script = ConsumerGroupScript({"orders": 1}, log=[old])
    script.join("a", "orders")
    assert "no topics" in script.said
    script.heartbeat("a", 1, subscribed_topic_names=[])
    assert "no topics" not in script.said


# --- offsets, and what is seen from outside ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "epoch", "transactional", "version", "error"),
    [
        ("a", 2, False, 9, None),
        ("a", 1, False, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, False, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("c", 2, False, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, False, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 2, False, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("a", 2, True, 3, None),
        ("", -1, True, 3, None),
    ],
)
def test_only_a_member_in_its_epoch_commits_offsets(
    member: str, epoch: int, transactional: bool, version: int, error: ErrorCode | None
) -> None:
    group = two_members().group
    if error is None:
        group.validate_offset_commit(member, None, epoch, transactional, version)
        return
    with pytest.raises(KafkaError) as refusal:
        group.validate_offset_commit(member, None, epoch, transactional, version)
    assert refusal.value.code is error


def test_offsets_of_an_empty_group_are_free_to_commit_and_to_fetch() -> None:
    script = two_members()
    script.group.validate_offset_fetch(None, -1)
    with pytest.raises(KafkaError, match="STALE_MEMBER_EPOCH"):
        script.group.validate_offset_fetch("a", 1)
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        script.group.validate_delete()
    script.leave("a")
    script.leave("b")
    script.group.validate_offset_commit("", None, -1, False, 2)
    script.group.validate_delete()


def test_a_described_group_shows_what_members_have_and_are_to_have() -> None:
    script = two_members()
    script.join("c", "orders")
    described = script.manager.describe([GROUP])[0]
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    assert described.assignor_name == "uniform"
    seen = [
        (
            member.member_id,
            member.member_epoch,
            [list(topic.partitions) for topic in member.assignment.topic_partitions],
            [list(topic.partitions) for topic in member.target_assignment.topic_partitions],
        )
        for member in described.members
    ]
    wanted = [number for _, _, _, target in seen for partitions in target for number in partitions]
    assert [row[:3] for row in seen] == [("a", 2, [[0, 1]]), ("b", 2, [[2, 3]]), ("c", 3, [])]
    assert sorted(wanted) == [0, 1, 2, 3]
    assert {member.member_type for member in described.members} == {1}


def test_a_deleted_group_leaves_nothing_behind() -> None:
    script = two_members()
    script.leave("a")
    script.leave("b")
    for record in script.manager.tombstones(script.group):
        script._keep(record)
    assert script.groups == {}
    script.restart()
    assert script.groups == {}


# --- another coordinator ----------------------------------------------------------------------------------------------


def test_a_coordinator_that_loads_the_group_goes_on_where_the_other_was() -> None:
    script = ConsumerGroupScript({"orders": 4})
    script.join("a", "orders")
    script.join("b", "orders")
    script.heartbeat("a", 1)
    script.restart()
    assert script.heartbeat("b", 2) == "epoch 2"
    assert script.heartbeat("a", 1, owns="orders 0 1") == "epoch 2"
    assert script.heartbeat("b", 2) == "epoch 2: orders 2 3"


def test_a_coordinator_that_loads_the_group_waits_a_whole_session_for_its_members() -> None:
    script = two_members()
    script.pass_time(SESSION_MS - 1)
    script.restart()
    script.pass_time(SESSION_MS - 1)
    assert sorted(script.group.members) == ["a", "b"]
    script.pass_time(1)
    assert script.group.state == "Empty"


def test_the_session_of_a_member_is_not_that_of_another_group_whose_name_runs_together_with_its_own() -> None:
    script = ConsumerGroupScript({"orders": 4})
    script.join("b-c", "orders", group_id="a")
    script.join("c", "orders", group_id="a-b")
    script.pass_time(SESSION_MS - 1)
    script.heartbeat("c", 1, group_id="a-b")
    script.pass_time(1)
    assert [sorted(script.groups[group_id].members) for group_id in ("a", "a-b")] == [[], ["c"]]


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_group_may_have_settings_of_its_own_within_the_brokers_limits() -> None:
    broker = ConfigDef(GROUP_KEYS).resolve({"group.consumer.max.size": "7"})
    check_consumer_group_keys(broker)
    own = {"consumer.session.timeout.ms": "50000"}
    check_group_settings(own, broker)
    config = consumer_group_config(broker, own)
    assert (config.session_timeout_ms, config.heartbeat_interval_ms, config.max_size) == (50_000, 5_000, 7)


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        ({"consumer.session.timeout.ms": "1000"}, "consumer.session.timeout.ms is 1000, but must be from 45000"),
        ({"consumer.session.timeout.ms": "60001"}, "to 60000"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "consumer.heartbeat.interval.ms is 4999, but must be from 5000"),
        ({"consumer.heartbeat.interval.ms": "x"}, "must be a whole number"),
        ({"share.session.timeout.ms": "45000"}, "share.session.timeout.ms: a group has no such setting"),
    ],
)
def test_a_groups_setting_beyond_the_limits_is_refused(own: dict[str, str], complaint: str) -> None:
    broker = ConfigDef(GROUP_KEYS).resolve({})
    with pytest.raises(ConfigError, match=complaint):
        check_group_settings(own, broker)


@pytest.mark.parametrize(
    ("layer", "complaint"),
    [
        ({"group.consumer.assignors": ""}, "group.consumer.assignors is empty, but must be a comma-separated list"),
        ({"group.consumer.max.session.timeout.ms": "1"}, "must be at least group.consumer.min.session.timeout.ms"),
        ({"group.consumer.session.timeout.ms": "1"}, "group.consumer.session.timeout.ms is 1, but must be from 45000"),
        ({"group.consumer.heartbeat.interval.ms": "15001"}, "to 15000"),
        (
            {"group.consumer.session.timeout.ms": "5000", "group.consumer.min.session.timeout.ms": "1"},
            "must be greater than group.consumer.heartbeat.interval.ms",
        ),
    ],
)
def test_settings_of_the_broker_that_contradict_each_other_are_refused(layer: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_consumer_group_keys(ConfigDef(GROUP_KEYS).resolve(layer))
