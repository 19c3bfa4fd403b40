"""Elections that are asked for, each answer by its error code, and those that the controller holds by itself."""

from __future__ import annotations

from typing import Any

import pytest

import pykraft.controller.partitions.elections as elections
from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.protocol.messages.brokers import RECOVERING
from pykraft.protocol.messages.elections import ElectionType, ElectLeadersRequest
from tests.harness.asking import elect
from tests.harness.controllers import NOBODY, SESSION_MS, ControllerScript, new_topic

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
NONE, NOT_NEEDED = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED
NO_PREFERRED, NO_ELIGIBLE = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
Answers = dict[tuple[str, int], ErrorCode]


def ask(script: ControllerScript, request: ElectLeadersRequest) -> Answers:
    response = script.answered(script.controller.answer(request, script.now))
    assert response.error_code == NONE
    return {
        (topic.topic, result.partition_id): ErrorCode.of(result.error_code)
        for topic in response.replica_election_results
        for result in topic.partition_result
    }


def ask_for_all(script: ControllerScript, kind: ElectionType) -> Answers:
    return ask(script, ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=1000))


def cluster() -> ControllerScript:
    """Brokers 1 and 2 live, broker 3 was away and is back. It was the first of each assignment, and leads nothing.

    "moved" is led by 1, and 3 is in its ISR; "behind" is led by 1 alone; "lost" has only broker 4 in sync, which is
    fenced; "alone" has no other broker than that.
    """
    script = ControllerScript()
    script.bring_up(1, 2, 3, 4)
    assignments = {"moved": [3, 1], "behind": [3, 1], "lost": [4, 2, 1], "alone": [4]}
    for name, replicas in assignments.items():
        script.create(new_topic(name, assignment={0: replicas}))
    script.alter("lost", [4])
    for _ in range(4):
        script.run(SESSION_MS // 3)
        for broker_id in (1, 2):
            script.heartbeat(broker_id)
    script.register(3, life=2)
    script.heartbeat(3)
    script.alter("moved", [1, 3])
    leaders = {name: script.partition(name).leader for name in assignments}
    assert leaders == {"moved": 1, "behind": 1, "lost": NOBODY, "alone": NOBODY}
    return script


@pytest.mark.parametrize(
    ("kind", "topic", "error", "leader"),
    [
        (PREFERRED, "moved", NONE, 3),
        (PREFERRED, "behind", NO_PREFERRED, 1),
        (PREFERRED, "lost", NO_PREFERRED, NOBODY),
        (PREFERRED, "alone", NO_PREFERRED, NOBODY),
        (UNCLEAN, "moved", NOT_NEEDED, 1),
        (UNCLEAN, "behind", NOT_NEEDED, 1),
        (UNCLEAN, "lost", NONE, 2),
        (UNCLEAN, "alone", NO_ELIGIBLE, NOBODY),
    ],
)
def test_which_replica_is_elected(kind: ElectionType, topic: str, error: ErrorCode, leader: int) -> None:
    script = cluster()
    before = script.partition(topic)
    assert ask(script, elect(kind, (topic, [0]))) == {(topic, 0): error}
    after = script.partition(topic)
    assert after.leader == leader
    assert after.leader_epoch == before.leader_epoch + (error is NONE)
    assert ask(script, elect(kind, (topic, [0]))) == {(topic, 0): NOT_NEEDED if error is NONE else error}


def test_after_an_unclean_election_the_leader_is_alone_in_sync_and_recovers() -> None:
    """The topic does not allow unclean elections: an administrator may order one all the same."""
    script = cluster()
    ask(script, elect(UNCLEAN, ("lost", [0])))
    after = script.partition("lost")
    assert (after.isr, after.leader_recovery_state) == ((2,), RECOVERING)


def test_of_all_partitions_those_are_answered_that_need_another_leader() -> None:
    assert ask_for_all(cluster(), PREFERRED) == {
        ("moved", 0): NONE,
        ("behind", 0): NO_PREFERRED,
        ("lost", 0): NO_PREFERRED,
        ("alone", 0): NO_PREFERRED,
    }
    assert ask_for_all(cluster(), UNCLEAN) == {("lost", 0): NONE, ("alone", 0): NO_ELIGIBLE}


def test_a_partition_that_is_named_twice_is_elected_once() -> None:
    script = cluster()
    before = script.partition("moved").partition_epoch
    assert ask(script, elect(PREFERRED, ("moved", [0, 0]), ("moved", [0]))) == {("moved", 0): NONE}
    assert script.partition("moved").partition_epoch == before + 1


@pytest.mark.parametrize("kind", [-1, 2])
def test_an_unknown_type_of_election_is_refused(kind: int) -> None:
    script = cluster()
    with pytest.raises(KafkaError, match=f"INVALID_REQUEST: {kind} is no type of election"):
        script.answered(script.controller.answer(elect(kind, ("moved", [0])), script.now))


def test_more_elections_than_one_request_may_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ControllerScript()
    script.bring_up(1, 2)
    for name in ("a", "b"):
        script.create(new_topic(name, assignment={0: [1, 2]}))
        script.alter(name, [1])
    script.live(2, SESSION_MS)
    monkeypatch.setattr(elections, "MAX_RECORDS_PER_REQUEST", 1)
    with pytest.raises(KafkaError, match="POLICY_VIOLATION: 2 elections at once; 1 are allowed"):
        ask_for_all(script, UNCLEAN)
    monkeypatch.setattr(elections, "MAX_RECORDS_PER_REQUEST", 2)
    assert ask_for_all(script, UNCLEAN) == {("a", 0): NONE, ("b", 0): NONE}


# --- from time to time ------------------------------------------------------------------------------------------------


def away_and_back(topics: int = 1, **settings: Any) -> ControllerScript:
    """Broker 1 is the first replica of each topic, was away, and is in sync again; broker 2 leads."""
    script = ControllerScript(**settings)
    script.bring_up(1, 2)
    names = [f"t{number}" for number in range(topics)]
    script.create(*(new_topic(name, assignment={0: [1, 2]}) for name in names))
    script.live(2, SESSION_MS)
    script.heartbeat(1)
    for name in names:
        assert script.partition(name).leader == 2
        script.alter(name, [2, 1])
    return script


def live_both(script: ControllerScript, duration_ms: int) -> None:
    end = script.now + duration_ms
    while script.now < end:
        script.live(1, min(1000, end - script.now))
        script.heartbeat(2)


@pytest.mark.parametrize(("enabled", "leader"), [(True, 1), (False, 2)])
def test_the_first_replica_gets_its_leadership_back_when_the_interval_is_over(enabled: bool, leader: int) -> None:
    script = away_and_back(leader_imbalance_check_interval_seconds=20, auto_leader_rebalance_enable=enabled)
    live_both(script, 20_000 - script.now)
    assert script.partition("t0").leader == 2
    live_both(script, 2000)
    assert script.partition("t0").leader == leader
    epoch = script.partition("t0").partition_epoch
    live_both(script, 45_000)
    assert script.partition("t0").partition_epoch == epoch, "a partition that is led as it should be stays as it is"


def test_a_first_replica_that_is_not_in_sync_gets_nothing_back_until_it_is() -> None:
    script = away_and_back(leader_imbalance_check_interval_seconds=20)
    script.alter("t0", [2])
    live_both(script, 25_000)
    assert script.partition("t0").leader == 2
    script.alter("t0", [2, 1])
    live_both(script, 25_000)
    assert script.partition("t0").leader == 1


def test_many_elections_are_held_in_portions_and_do_not_wait_for_another_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elections, "MAX_ELECTIONS", 2)
    script = away_and_back(topics=5, leader_imbalance_check_interval_seconds=20)

    portion = finish(elections.LeaderElections(ReplicationControl(1, {})).plan_preferred(script.image))
    assert len(portion) == 2
    live_both(script, 21_500 - script.now)
    assert [script.partition(f"t{number}").leader for number in range(5)] == [1] * 5
