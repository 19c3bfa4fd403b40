"""A topic gets more partitions: each refusal by its error code, and what the new ones look like."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST
from tests.harness.asking import grow
from tests.harness.controllers import SESSION_MS, ControllerScript, new_topic

WRONG_COUNT, WRONG_BROKERS = ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT


def cluster(*brokers: int) -> ControllerScript:
    """A topic "t" of two partitions with two replicas each."""
    script = ControllerScript()
    script.bring_up(*(brokers or (1, 2, 3)))
    assert script.create(new_topic("t", 2, 2), new_topic("u", 1, 1)) == {"t": ErrorCode.NONE, "u": ErrorCode.NONE}
    return script


def count(script: ControllerScript, name: str = "t") -> int:
    topic = script.image.topic_named(name)
    assert topic is not None
    assert sorted(topic.partitions) == list(range(len(topic.partitions)))
    return len(topic.partitions)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "total", "brokers", "error"),
    [
        ("t", 3, None, ErrorCode.NONE),
        ("t", 50, None, ErrorCode.NONE),
        ("t", 4, [[1, 2], [3, 1]], ErrorCode.NONE),
        ("t", 2, None, WRONG_COUNT),
        ("t", 1, None, WRONG_COUNT),
        ("t", 0, None, WRONG_COUNT),
        ("t", -1, None, WRONG_COUNT),
        ("t", 1, [[1, 2]], WRONG_COUNT),
        ("t", 3, [], WRONG_BROKERS),
        ("t", 3, [[1, 2], [1, 2]], WRONG_BROKERS),
        ("t", 3, [[]], WRONG_BROKERS),
        ("t", 3, [[1, 1]], WRONG_BROKERS),
        ("t", 3, [[1]], WRONG_BROKERS),
        ("t", 3, [[1, 2, 3]], WRONG_BROKERS),
        ("t", 3, [[1, 9]], WRONG_BROKERS),
        ("t", 2 + MAX_RECORDS_PER_REQUEST, None, ErrorCode.NONE),
        ("t", 3 + MAX_RECORDS_PER_REQUEST, None, ErrorCode.POLICY_VIOLATION),
        ("nowhere", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_becomes_of_a_topic_that_is_to_grow(
    name: str, total: int, brokers: Sequence[Sequence[int]] | None, error: ErrorCode
) -> None:
    script = cluster()
    asked = grow((name, total)) if brokers is None else grow((name, total, brokers))
    assert script.grow(asked) == [(name, error)]
    assert count(script) == (2 if error else total)


def test_the_old_partitions_stay_as_they_are_and_the_new_ones_have_as_many_replicas() -> None:
    script = cluster()
    old = [script.partition("t", number) for number in range(2)]
    script.grow(grow(("t", 5)))
    assert [script.partition("t", number) for number in range(2)] == old
    for number in range(2, 5):
        new = script.partition("t", number)
        assert len(new.replicas) == len(set(new.replicas)) == 2
        assert new.leader in new.isr and (new.leader_epoch, new.partition_epoch) == (0, 0)


def test_a_fenced_broker_gets_a_replica_only_behind_a_leader_that_is_not() -> None:
    script = cluster(1, 2)
    script.live(1, 2 * SESSION_MS)  # broker 2 is silent
    assert script.grow(grow(("t", 3), ("u", 2, [[2]]))) == [("t", ErrorCode.NONE), ("u", WRONG_BROKERS)]
    new = script.partition("t", 2)
    assert (new.replicas, new.leader, new.isr) == ((1, 2), 1, (1,))


def test_each_topic_is_judged_alone_and_one_that_is_named_twice_does_not_grow() -> None:
    script = cluster()
    answers = script.grow(grow(("t", 4), ("u", 3), ("t", 5), ("v", 2)))
    assert sorted(answers) == [
        ("t", ErrorCode.INVALID_REQUEST),
        ("u", ErrorCode.NONE),
        ("v", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert (count(script, "t"), count(script, "u")) == (2, 3)


def test_what_is_only_validated_changes_nothing() -> None:
    script = cluster()
    assert script.grow(grow(("t", 4), validate_only=True)) == [("t", ErrorCode.NONE)]
    assert script.grow(grow(("t", 1), validate_only=True)) == [("t", WRONG_COUNT)]
    assert count(script) == 2
