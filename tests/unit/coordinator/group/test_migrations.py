"""Groups that change their protocol. Each dialogue is as it was with Apache Kafka, answer by answer and record by
record; tests/judges/test_java_migrations.py wrote that down."""

from __future__ import annotations

import pytest

from pykraft.protocol.messages.group_values import ClassicMemberMetadata
from tests.harness.group_dialogue import OurSide, Talk
from tests.harness.migrations import ALLOWED, DISABLED, FORBIDDEN, PROPERTIES, Dialogue, read_answers, without_hashes


@pytest.mark.parametrize("dialogue", [*ALLOWED, *FORBIDDEN], ids=lambda dialogue: dialogue.__name__)
def test_a_dialogue_is_as_with_apache_kafka(dialogue: Dialogue) -> None:
    ids, answers = read_answers()
    properties = {**PROPERTIES, **(DISABLED if dialogue in FORBIDDEN else {})}
    talk = Talk(OurSide(ids, properties), dialogue.__name__)
    dialogue(talk)
    said, expected = talk.finish(), answers[dialogue.__name__]
    if dialogue in FORBIDDEN:  # with another cluster
        said, expected = without_hashes(said), without_hashes(expected)
    assert said == expected


@pytest.mark.parametrize("dialogue", ALLOWED, ids=lambda dialogue: dialogue.__name__)
def test_another_coordinator_loads_the_group_as_it_was(dialogue: Dialogue) -> None:
    side = OurSide(read_answers()[0], PROPERTIES)
    dialogue(Talk(side, "g"))
    before, kind = side.shard.consumer.describe(["g"]), type(side.shard.groups["g"])
    side.restart()
    assert side.shard.consumer.describe(["g"]) == before
    assert type(side.shard.groups["g"]) is kind


def test_a_second_warning_does_not_give_a_classic_member_more_time_to_join_again() -> None:
    side = OurSide(read_answers()[0], PROPERTIES)
    talk = Talk(side, "g")
    talk.heartbeat("z", 0, "", "orders")
    talk.join("a", "orders", named=True, rebalance_ms=2000)
    talk.sync("a")
    talk.heartbeat("y", 0, "", "orders")
    for passed_ms in (0, 1500):
        side.pass_time(passed_ms)
        talk.beat("a")
        assert talk.lines[-1] == "  a hears REBALANCE_IN_PROGRESS"
    side.pass_time(500)
    assert sorted(side.shard.groups["g"].members) == ["y", "z"]


def test_bytes_that_cannot_be_read_do_not_keep_a_member_in_the_group() -> None:
    side = OurSide(read_answers()[0], PROPERTIES)
    talk = Talk(side, "g")
    talk.heartbeat("z", 0, "", "orders")
    talk.join("a", "orders", named=True)
    group = side.shard.groups["g"]
    broken = ClassicMemberMetadata.Protocol(name="range", metadata=b"")
    group.members["a"] = group.members["a"]._replace(
        classic_metadata=ClassicMemberMetadata(session_timeout_ms=45_000, supported_protocols=[broken])
    )
    talk.heartbeat("z", -1)
    assert talk.lines[-1] == "  epoch -1"
    assert (side.shard.groups["g"].group_type, sorted(group.members)) == ("consumer", ["a"])


def test_an_empty_consumer_group_stays_one_if_its_classic_group_cannot_be_written() -> None:
    side = OurSide(read_answers()[0], PROPERTIES)
    talk = Talk(side, "g")
    talk.heartbeat("z", 0, "", "orders")
    talk.heartbeat("z", -1)
    before = side.shard.groups["g"]
    side.takes_records = False
    talk.join("a", "orders", version=3)
    assert talk.lines[-1].startswith("  a hears COORDINATOR_NOT_AVAILABLE")
    assert side.shard.groups == {"g": before}
    side.takes_records = True
    talk.join("a", "orders", version=3)
    assert talk.lines[-2].startswith("  a hears NONE, generation 1")


def test_a_conversion_that_cannot_be_written_changes_nothing() -> None:
    side = OurSide(read_answers()[0], PROPERTIES)
    talk = Talk(side, "g")
    talk.join("a", "orders", version=3)
    talk.sync("a", given={"a": "orders 0 1 2 3"})
    before = side.shard.groups["g"]
    side.takes_records = False
    talk.heartbeat("z", 0, "", "orders")
    assert talk.lines[-1] == "  COORDINATOR_NOT_AVAILABLE"
    assert side.shard.groups["g"] is before
    talk.beat("a")
    assert talk.lines[-1] == "  a hears NONE"
    side.takes_records = True
    talk.heartbeat("z", 0, "", "orders")
    side.takes_records = False
    talk.leave("z")
    talk.beat("a")
    assert talk.lines[-1] == "  a hears REBALANCE_IN_PROGRESS"
    assert sorted(side.shard.groups["g"].members)[-1] == "z"


def test_a_group_over_a_limit_that_was_lowered_rebalances_when_it_is_loaded() -> None:
    ids = read_answers()[0]
    large = OurSide(ids, PROPERTIES)
    talk = Talk(large, "g")
    for number, name in enumerate(("b", "c"), 1):
        talk.begin_join(name, "orders", instance=f"i{number}")
        if number > 1:
            talk.begin_join("b", "orders", instance="i1")
            talk.joined("b", "c")
        else:
            talk.joined(name)
    talk.sync("b", given={"b": "orders 0 1", "c": "orders 2 3"})
    states = {}
    for limit in ("2", "1"):
        side = OurSide(ids, {**PROPERTIES, "group.max.size": limit}, large.log)
        states[limit] = side.shard.groups["g"].state_name
    assert states == {"2": "Stable", "1": "PreparingRebalance"}


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("Upgrade", True, False), ("DOWNGRADE", False, True), ("bidirectional", True, True), ("disabled", False, False)],
)
def test_the_policy_allows_each_direction_by_itself(policy: str, upgrades: bool, downgrades: bool) -> None:
    side = OurSide(read_answers()[0], {**PROPERTIES, "group.consumer.migration.policy": policy})
    talk = Talk(side, "g")
    talk.join("a", "orders")
    talk.join("a", "orders")
    talk.heartbeat("z", 0, "", "orders")
    assert side.shard.groups["g"].group_type == ("consumer" if upgrades else "classic")
    talk = Talk(side, "other")
    talk.heartbeat("z", 0, "", "orders")
    talk.join("b", "orders", named=True)
    talk.leave("z")
    assert side.shard.groups["other"].group_type == ("classic" if downgrades else "consumer")
