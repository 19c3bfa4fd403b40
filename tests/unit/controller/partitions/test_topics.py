"""Topics and partitions as the controller decides about them: each refusal by its error code, elections and ISRs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.controller.partitions.partition_change import Election, elect, plan_partition_change
from pykraft.controller.partitions.topics import MAX_RECORDS_PER_REQUEST, check_topic_name
from pykraft.metadata.image import PartitionRegistration
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import RECOVERED, RECOVERING, AlterPartitionRequest
from pykraft.protocol.messages.configs import ResourceType
from tests.harness.controllers import NOBODY, SESSION_MS, ControllerScript, make, new_topic
from tests.harness.quorum import directory_id

INVALID = ErrorCode.INVALID_REQUEST


SAFE = {"unclean.leader.election.enable": "false"}


def cluster(*brokers: int, **settings: Any) -> ControllerScript:
    script = ControllerScript(**settings)
    script.bring_up(*(brokers or (1, 2, 3)))
    return script


# --- making topics ----------------------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (new_topic("t", 3, 3), ErrorCode.NONE),
        (new_topic("t", -1, -1), ErrorCode.NONE),
        (new_topic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (new_topic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (new_topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new_topic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new_topic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new_topic("", 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic(".", 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("..", 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("a b", 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("ä", 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("x" * 249, 1), ErrorCode.NONE),
        (new_topic("x" * 250, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("__cluster_metadata", 1), ErrorCode.INVALID_REQUEST),
        (new_topic("there", 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (new_topic("with_dots", 1), ErrorCode.INVALID_TOPIC_EXCEPTION),  # with.dots exists
        (new_topic("t", configs={"retention.ms": "1000"}), ErrorCode.NONE),
        (new_topic("t", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (new_topic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (new_topic("t", configs={"no.such.key": "1"}), ErrorCode.INVALID_CONFIG),
        (new_topic("t", assignment={0: [1, 2], 1: [2, 3]}), ErrorCode.NONE),
        (new_topic("t", assignment={0: [1, 2], 2: [2, 3]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignment={0: [1, 2], 1: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignment={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignment={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignment={0: [1, 9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignment={0: [1]}, num_partitions=1), ErrorCode.INVALID_REQUEST),
        (new_topic("t", assignment={0: [1]}, replication_factor=1), ErrorCode.INVALID_REQUEST),
        (new_topic("t", MAX_RECORDS_PER_REQUEST), ErrorCode.POLICY_VIOLATION),
    ],
    ids=lambda value: None if isinstance(value, ErrorCode) else value.name[:20] or "empty",
)
def test_what_becomes_of_a_topic(topic: CreateTopicsRequest.Topic, error: ErrorCode) -> None:
    script = cluster()
    assert set(script.create(new_topic("there"), new_topic("with.dots")).values()) == {ErrorCode.NONE}
    before = script.image
    assert script.create(topic) == {topic.name: error}
    if error is ErrorCode.NONE:
        assert topic.name in script.image.topic_ids
    else:
        assert script.image.topics == before.topics
        assert script.image.configs == before.configs


def test_topics_of_one_request_are_judged_each_alone() -> None:
    script = cluster()
    found = script.create(new_topic("good"), new_topic("bad", 1, 9), new_topic("twice"), new_topic("twice"))
    assert found == {
        "good": ErrorCode.NONE,
        "bad": ErrorCode.INVALID_REPLICATION_FACTOR,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert list(script.image.topic_ids) == ["good"]


def test_two_new_topics_that_collide_are_not_both_made() -> None:
    assert list(cluster().create(new_topic("a.b"), new_topic("a_b")).values()) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


def test_a_trial_answers_as_if_and_changes_nothing() -> None:
    script = cluster()
    before = script.image
    assert script.create(new_topic("t", 2, 3), validate_only=True) == {"t": ErrorCode.NONE}
    assert script.image == before


def test_the_answer_tells_what_was_made() -> None:
    script = cluster(num_partitions=4, default_replication_factor=2)
    topic = new_topic("t", -1, -1, configs={"retention.ms": "7"})
    (made,) = script.answered(script.controller.answer(make(topic), script.now)).topics
    assert (made.num_partitions, made.replication_factor) == (4, 2)
    assert made.topic_id == script.image.topic_ids["t"] != ZERO_UUID
    configs = {config.name: (config.value, config.config_source) for config in made.configs}
    assert configs["retention.ms"] == ("7", 1) and configs["cleanup.policy"] == ("delete", 5)
    assert not [name for name in configs if name.startswith("internal.")]


def test_a_broker_on_its_way_out_gets_no_replicas_and_one_that_is_out_may() -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    script.create(new_topic("led", assignment={0: [2, 1]}))
    script.heartbeat(2, want_shut_down=True)
    assert script.image.brokers[2].in_controlled_shutdown and not script.image.brokers[2].fenced
    assert script.create(new_topic("t", replicas=2)) == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert script.create(new_topic("u")) == {"u": ErrorCode.NONE}
    assert script.partition("u").replicas == (1,)
    script.heartbeat(1)
    script.heartbeat(2, want_shut_down=True)
    assert script.image.brokers[2].fenced
    assert script.create(new_topic("t", replicas=2)) == {"t": ErrorCode.NONE}
    assert (script.partition("t").replicas, script.partition("t").isr) == ((1, 2), (1,))


def test_fenced_replicas_are_not_in_sync_at_first() -> None:
    script = cluster(1, 2)
    script.register(3)
    script.create(new_topic("t", assignment={0: [3, 2, 1]}))
    assert (script.partition("t").leader, script.partition("t").isr) == (2, (2, 1))
    assert script.partition("t").directories == tuple(directory_id(100 + n) for n in (3, 2, 1))
    assert script.create(new_topic("u", assignment={0: [3]})) == {"u": ErrorCode.INVALID_REPLICA_ASSIGNMENT}


@given(st.text(max_size=6) | st.from_regex(r"[a-zA-Z0-9._-]{1,260}", fullmatch=True))
def test_a_legal_name_is_that_of_a_folder(name: str) -> None:
    legal = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    if name and set(name) <= legal and name not in (".", "..") and len(name) <= 249:
        check_topic_name(name)
    else:
        with pytest.raises(KafkaError):
            check_topic_name(name)


# --- deleting topics --------------------------------------------------------------------------------------------------

by = DeleteTopicsRequest.Topic
SOME_ID = Uuid(bytes(15) + b"\x7b")


def test_the_refusals_of_deleting() -> None:
    script = cluster()
    script.create(new_topic("a"), new_topic("b"))
    a, b = script.image.topic_ids["a"], script.image.topic_ids["b"]
    table: list[tuple[Sequence[DeleteTopicsRequest.Topic], list[ErrorCode]]] = [
        ([by(name="none")], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ([by(topic_id=SOME_ID)], [ErrorCode.UNKNOWN_TOPIC_ID]),
        ([by()], [ErrorCode.INVALID_REQUEST]),
        ([by(name="a", topic_id=a)], [ErrorCode.INVALID_REQUEST]),
        ([by(name="a"), by(name="a")], [ErrorCode.INVALID_REQUEST]),
        ([by(name="a"), by(topic_id=a)], [ErrorCode.INVALID_REQUEST]),
    ]
    for topics, errors in table:
        assert script.delete(*topics) == errors, topics
        assert set(script.image.topic_ids) == {"a", "b"}
    assert script.delete(by(name="a"), by(name="none"), by(topic_id=b)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert script.image.topics == {} and script.image.topic_ids == {}


def test_a_topic_takes_its_settings_along_and_its_name_may_be_used_again() -> None:
    script = cluster()
    before = script.image.configs
    script.create(new_topic("t", configs={"retention.ms": "7"}))
    first = script.image.topic_ids["t"]
    script.delete(by(name="t"))
    assert script.image.configs == before
    script.create(new_topic("t"))
    assert script.image.topic_ids["t"] != first


def test_deleting_may_be_forbidden() -> None:
    script = cluster(1, delete_topic_enable=False)
    script.create(new_topic("t"))
    assert script.delete(by(name="t")) == [ErrorCode.TOPIC_DELETION_DISABLED]


# --- who leads --------------------------------------------------------------------------------------------------------


def registration(
    replicas: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] = (1, 2, 3), leader: int = 1
) -> PartitionRegistration:
    return PartitionRegistration(replicas, (ZERO_UUID,) * len(replicas), isr, leader, 4, 9)


ONLINE, PREFERRED, UNCLEANLY = Election.ONLINE, Election.PREFERRED, Election.UNCLEAN


@pytest.mark.parametrize(
    ("partition", "isr", "may_lead", "election", "elected"),
    [
        (registration(), [1, 2, 3], {1, 2, 3}, ONLINE, (1, False)),  # the leader stays
        (registration(leader=3), [1, 2, 3], {1, 2, 3}, ONLINE, (3, False)),  # though it is not the preferred one
        (registration(), [2, 3], {1, 2, 3}, ONLINE, (2, False)),
        (registration(replicas=(1, 3, 2)), [2, 3], {2, 3}, ONLINE, (3, False)),  # in the order of the assignment
        (registration(), [1, 2, 3], {3}, ONLINE, (3, False)),
        (registration(), [1], {2, 3}, ONLINE, (NOBODY, False)),
        (registration(), [1], {2, 3}, UNCLEANLY, (2, True)),
        (registration(), [1, 2, 3], set(), UNCLEANLY, (NOBODY, False)),
        (registration(isr=(1,), leader=NOBODY), [1], {1, 2}, UNCLEANLY, (1, False)),  # a clean one is preferred
        (registration(leader=3), [1, 2, 3], {1, 2, 3}, PREFERRED, (1, False)),
        (registration(leader=3), [2, 3], {1, 2, 3}, PREFERRED, (3, False)),  # out of sync: the leader stays
        (registration(leader=3), [1, 2, 3], {2, 3}, PREFERRED, (3, False)),  # fenced: the leader stays
        (registration(leader=3), [2, 3], {1, 2}, PREFERRED, (2, False)),
        (registration(leader=NOBODY), [1], {2, 3}, PREFERRED, (NOBODY, False)),
    ],
)
def test_who_is_elected(
    partition: PartitionRegistration, isr: list[int], may_lead: set[int], election: Election, elected: tuple[int, bool]
) -> None:
    assert elect(partition, isr, may_lead.__contains__, election) == elected


@given(
    st.permutations([1, 2, 3, 4]),
    st.sets(st.integers(1, 4), min_size=1),
    st.sets(st.integers(1, 4)),
    st.sets(st.integers(1, 4)),
    st.sampled_from(Election),
)
def test_whatever_is_planned_the_isr_is_never_empty_and_a_clean_leader_is_in_it(
    replicas: list[int], isr: set[int], new_isr: set[int], may_lead: set[int], election: Election
) -> None:
    before = registration(tuple(replicas), tuple(sorted(isr)), min(isr))
    plan = plan_partition_change(
        ZERO_UUID, 0, before, new_isr=sorted(new_isr), may_lead=may_lead.__contains__, election=election
    )
    after = before if plan is None else before.merge(plan[0])  # type: ignore[arg-type]
    assert after.isr
    assert after.leader == NOBODY or (after.leader in after.isr and after.leader in may_lead)
    assert after.leader_epoch == before.leader_epoch + (after.leader != before.leader)
    assert after.partition_epoch == before.partition_epoch + (plan is not None)
    if after.leader_recovery_state == RECOVERING:
        assert election is UNCLEANLY and not new_isr & may_lead and after.isr == (after.leader,)


def test_without_anybody_in_sync_a_topic_may_choose_to_go_on_with_less() -> None:
    script = cluster(1, 2)
    unclean = {"unclean.leader.election.enable": "true"}
    script.create(
        new_topic("safe", assignment={0: [1, 2]}), new_topic("eager", assignment={0: [1, 2]}, configs=unclean)
    )
    for name in ("safe", "eager"):
        script.alter(name, [1])
    script.run(SESSION_MS - 100)
    script.heartbeat(2)
    script.run(200)
    script.heartbeat(2)
    assert (script.partition("safe").leader, script.partition("safe").eligible_leader_replicas) == (NOBODY, (1,))
    assert (script.partition("eager").leader, script.partition("eager").isr) == (2, (2,))
    assert script.partition("eager").leader_recovery_state == RECOVERING
    for state, error in ((RECOVERING, ErrorCode.NONE), (RECOVERED, ErrorCode.NONE), (RECOVERING, INVALID)):
        assert script.alter("eager", [2], leader_recovery_state=state).error_code == error
    assert script.partition("eager").leader_recovery_state == RECOVERED


UNCLEAN = "unclean.leader.election.enable"
ALL, ONE, OTHER = "", "1", "2"


@pytest.mark.parametrize(
    ("own", "dynamic", "static", "leader"),
    [
        ({}, {}, {}, NOBODY),
        ({}, {}, {UNCLEAN: "true"}, 2),  # the file of the controller's node
        ({}, {ALL: "true"}, {}, 2),
        ({}, {ALL: "false"}, {UNCLEAN: "true"}, NOBODY),
        ({}, {ONE: "true"}, {}, 2),  # of the controller's node
        ({}, {OTHER: "true"}, {}, NOBODY),
        ({}, {ONE: "false", ALL: "true"}, {}, NOBODY),
        ({UNCLEAN: "true"}, {ONE: "false", ALL: "false"}, {UNCLEAN: "false"}, 2),
        ({UNCLEAN: "false"}, {ONE: "true", ALL: "true"}, {UNCLEAN: "true"}, NOBODY),
    ],
)
def test_an_unclean_election_is_allowed_by_the_strongest_setting(
    own: dict[str, str], dynamic: dict[str, str], static: dict[str, str], leader: int
) -> None:
    script = cluster(1, 2, properties=static)
    for broker, value in dynamic.items():
        script.configure(ResourceType.BROKER, broker, {UNCLEAN: value})
    script.create(new_topic("t", assignment={0: [1, 2]}, configs=own))
    script.alter("t", [1])
    script.run(SESSION_MS - 100)
    script.heartbeat(2)
    script.run(200)
    assert script.partition("t").leader == leader


@pytest.mark.parametrize("kind", [ResourceType.TOPIC, ResourceType.BROKER])
def test_a_partition_without_a_leader_gets_one_when_its_topic_allows_it_later(kind: ResourceType) -> None:
    script = cluster(1, 2, unclean_leader_election_interval_ms=20_000)
    script.create(new_topic("t", assignment={0: [1, 2]}), new_topic("safe", assignment={0: [1, 2]}, configs=SAFE))
    for topic in ("t", "safe"):
        script.alter(topic, [1])
    script.live(2, 10_000)
    assert script.partition("t").leader == NOBODY
    script.configure(kind, {ResourceType.TOPIC: "t", ResourceType.BROKER: ALL}[kind], {UNCLEAN: "true"})
    assert script.partition("t").leader == NOBODY, "the controller looks again when its interval is over"
    script.live(2, 20_000)
    assert (script.partition("t").leader, script.partition("t").isr) == (2, (2,))
    assert script.partition("t").leader_recovery_state == RECOVERING
    assert script.partition("safe").leader == NOBODY


def test_nobody_joins_a_leader_that_still_recovers() -> None:
    script = cluster(1, 2)
    unclean = {"unclean.leader.election.enable": "true"}
    script.create(new_topic("t", assignment={0: [1, 2]}, configs=unclean))
    script.alter("t", [1])
    script.run(SESSION_MS - 100)
    script.heartbeat(2)
    script.run(200)
    script.heartbeat(2)
    script.register(1, life=2)
    script.heartbeat(1)
    assert script.partition("t").leader_recovery_state == RECOVERING
    assert script.alter("t", [2, 1], leader_recovery_state=RECOVERING).error_code == INVALID
    assert script.alter("t", [2], leader_recovery_state=2).error_code == INVALID, "there is no such state"
    assert script.alter("t", [2, 1], leader_recovery_state=RECOVERED).error_code == ErrorCode.NONE
    assert script.partition("t").isr == (2, 1)


# --- AlterPartition ---------------------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    ("isr", "fields", "error"),
    [
        ([1, 2], {}, ErrorCode.NONE),
        ([1, 2, 3], {}, ErrorCode.NONE),
        ([1, 2], {"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),  # it knows more than this controller
        ([1, 2], {"partition_epoch": 99}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], {"leader_epoch": -1, "sender": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], {"sender": 2}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"sender": 2, "partition_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2, 4], {}, ErrorCode.INVALID_REQUEST),  # no replica
        ([1, 2, 2], {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),  # without the leader
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ([1, 5], {}, ErrorCode.INELIGIBLE_REPLICA),  # fenced
        ([1, 2], {"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_isr_is_agreed_to_or_refused(isr: list[int], fields: dict[str, Any], error: ErrorCode) -> None:
    script = cluster(1, 2, 3, 4)
    script.register(5)
    script.create(new_topic("t", assignment={0: [1, 2, 3, 5]}))
    before = script.partition("t")
    answer = script.alter("t", isr, **fields)
    assert ErrorCode.of(answer.error_code) is error
    if error is ErrorCode.NONE:
        after = script.partition("t")
        assert tuple(answer.isr) == after.isr == tuple(isr)
        assert answer.partition_epoch == after.partition_epoch == before.partition_epoch + (tuple(isr) != before.isr)
        assert (answer.leader_id, answer.leader_epoch) == (1, before.leader_epoch)
    else:
        assert script.partition("t") == before


def test_a_replica_that_restarted_since_is_not_let_in() -> None:
    script = cluster()
    script.create(new_topic("t", assignment={0: [1, 2, 3]}))
    script.alter("t", [1])
    old = script.image.brokers[2].epoch
    for _ in range(2):
        script.run(SESSION_MS - 500)
        script.heartbeat(1)
    script.register(2, life=2)
    script.heartbeat(2)
    answer = script.alter("t", [1, 2], new_isr_with_epochs=states({1: script.image.brokers[1].epoch, 2: old}))
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert script.alter("t", [1, 2]).error_code == ErrorCode.NONE
    assert script.alter("t", [1, 2], new_isr_with_epochs=states({1: -1, 2: -1})).error_code == ErrorCode.NONE


def states(epochs: dict[int, int]) -> list[Any]:
    state = AlterPartitionRequest.Topic.Partition.BrokerState
    return [state(broker_id=n, broker_epoch=epoch) for n, epoch in epochs.items()]


def test_version_two_names_the_isr_without_epochs() -> None:
    script = cluster()
    script.create(new_topic("t", assignment={0: [1, 2, 3]}))
    assert script.alter("t", [], new_isr=[1, 3]).error_code == ErrorCode.NONE
    assert script.partition("t").isr == (1, 3)


def test_the_isr_of_a_topic_that_is_gone_is_nobodys() -> None:
    script = cluster()
    script.create(new_topic("t"), new_topic("u"))
    sender = script.partition("t").leader
    wanted = AlterPartitionRequest.Topic.Partition(partition_index=0, leader_epoch=0, partition_epoch=0)
    request = AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=script.image.brokers[sender].epoch,
        topics=[AlterPartitionRequest.Topic(topic_id=SOME_ID, partitions=[wanted])],
    )
    response = script.answered(script.controller.answer(request, script.now))
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    request.broker_epoch += 1
    with pytest.raises(KafkaError) as refused:
        script.answered(script.controller.answer(request, script.now))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_leader_that_was_on_its_way_out_is_not_taken_in_by_its_successor() -> None:
    """It may not lead, so it is no eligible replica."""
    script = cluster(1, 2)
    script.create(new_topic("t", assignment={0: [1, 2]}))
    script.heartbeat(1, want_shut_down=True)
    assert script.partition("t").leader == 2
    assert script.alter("t", [2, 1]).error_code == ErrorCode.INELIGIBLE_REPLICA
