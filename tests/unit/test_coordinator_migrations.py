"""Groups that change their protocol. Each dialogue is as it was with Apache Kafka, answer by answer and record by
record; tests/judges/test_java_migrations.py wrote that down."""

from __future__ import annotations

import pytest

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
