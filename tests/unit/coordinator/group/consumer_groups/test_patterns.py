"""Patterns of topic names: resolved beside the heartbeat, written down, refreshed when it is time."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.coordinator.group.consumer_groups.pattern_refresh import MIN_REFRESH_INTERVAL_MS
from pykraft.coordinator.group.consumer_groups.subscription_patterns import compile_pattern, resolve
from tests.harness.consumer_groups import START_MS, ConsumerGroupScript

REFRESH_MS = ConsumerGroupConfig().regex_refresh_interval_ms
SESSION_MS = ConsumerGroupConfig().session_timeout_ms


def join(script: ConsumerGroupScript, member: str, pattern: str, names: list[str] | None = None) -> str:
    return script.join(member, subscribed_topic_names=names, subscribed_topic_regex=pattern)


def one_member() -> ConsumerGroupScript:
    """Member a has the topics of ``or.*``."""
    script = ConsumerGroupScript({"orders": 1, "orphans": 1, "people": 1})
    join(script, "a", "or.*")
    script.settle()
    assert script.heartbeat("a", 1) == "epoch 2: orders 0, orphans 0"
    return script


def keep_alive(script: ConsumerGroupScript, ms: int, epoch: int = 2) -> None:
    """Heartbeats of member a until so much time has passed."""
    while ms > 0:
        script.pass_time(min(ms, SESSION_MS - 1))
        ms -= SESSION_MS - 1
        if ms > 0:
            script.heartbeat("a", epoch)


def test_a_pattern_is_resolved_after_the_heartbeat_that_brought_it() -> None:
    script = ConsumerGroupScript({"orders": 1, "orphans": 1, "people": 1})
    assert join(script, "a", "or.*") == "epoch 1:"
    assert script.said == ["member a", "group epoch 1", "target a", "target epoch 1", "current a 0->1 STABLE"]
    script.settle()
    assert script.said == ["pattern or.*: orders orphans", "group epoch 2"]
    resolved = script.group.resolved_patterns["or.*"]
    assert (resolved.version, resolved.timestamp_ms) == (script.topics.version, START_MS)
    assert script.heartbeat("a", 1) == "epoch 2: orders 0, orphans 0"


def test_a_pattern_has_to_match_the_whole_name() -> None:
    assert resolve(["or", "orders", ".*"], ["orders"]) == {
        "or": frozenset(),
        "orders": frozenset({"orders"}),
        ".*": frozenset({"orders"}),
    }


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "([a-z]+)*[0-9]"])
def test_a_pattern_that_stops_a_backtracking_engine_is_matched_at_once(pattern: str) -> None:
    """Python's re needs longer than the age of the universe for each of them."""
    assert resolve([pattern], ["a" * 248 + "!", "b", "a1"])[pattern] <= {"b", "a1"}


@pytest.mark.parametrize(
    "pattern", ["(a", "[", "*a", r"(a)\1", "(?=a)a", "a{1001}", "(((((a{100}){100}){100}){100}){100})"]
)
def test_a_pattern_that_cannot_be_read_is_refused(pattern: str) -> None:
    script = ConsumerGroupScript({"orders": 1})
    assert join(script, "a", pattern) == "INVALID_REGULAR_EXPRESSION"
    assert not script.log
    with pytest.raises(KafkaError, match="SubscribedTopicRegex `") as refusal:
        compile_pattern(pattern)
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_of_another_coordinator_that_cannot_be_read_matches_nothing() -> None:
    assert resolve(["(a"], ["(a"]) == {"(a": frozenset()}


def test_a_second_member_with_the_same_pattern_raises_the_epoch_at_once() -> None:
    script = one_member()
    assert join(script, "b", "or.*").startswith("epoch 3")
    assert not any(line.startswith("pattern") for line in script.said)


def test_names_and_a_pattern_add_up() -> None:
    script = ConsumerGroupScript({"orders": 1, "people": 1})
    assert join(script, "a", "or.*", ["people"]) == "epoch 1: people 0"
    script.settle()
    assert script.heartbeat("a", 1) == "epoch 2: orders 0, people 0"


def test_the_last_member_that_had_a_pattern_takes_it_along() -> None:
    script = one_member()
    script.pass_time(MIN_REFRESH_INTERVAL_MS + 1)
    assert script.heartbeat("a", 2, subscribed_topic_regex="people") == "epoch 2:"
    assert script.said[:2] == ["member a", "no pattern or.*"]
    script.settle()
    assert script.heartbeat("a", 2, owns="") == "epoch 3: people 0"
    script.leave("a")
    assert script.said[-2:] == ["no pattern people", "group epoch 4"]
    assert script.group.metadata_hash == 0


def test_an_empty_pattern_ends_the_subscription_at_once() -> None:
    script = one_member()
    assert script.heartbeat("a", 2, owns="", subscribed_topic_regex="") == "epoch 3:"
    assert script.said[:3] == ["member a", "no pattern or.*", "group epoch 3"]


def test_a_new_topic_is_found_but_not_before_ten_seconds_have_passed() -> None:
    script = one_member()
    script.create("organs", 1)
    script.pass_time(MIN_REFRESH_INTERVAL_MS)
    script.heartbeat("a", 2)
    script.settle()
    assert script.said == []
    script.pass_time(1)
    script.heartbeat("a", 2)
    script.settle()
    assert script.said == ["pattern or.*: orders organs orphans", "group epoch 3"]


def test_a_changed_topic_does_not_resolve_patterns_again() -> None:
    script = one_member()
    script.grow("orders", 2)
    script.pass_time(MIN_REFRESH_INTERVAL_MS + 1)
    assert script.heartbeat("a", 2) == "epoch 3: orders 0 1, orphans 0"
    script.settle()
    assert not any(line.startswith("pattern") for line in script.said)


def test_a_deleted_topic_is_revoked_without_a_refresh() -> None:
    script = one_member()
    script.delete("orphans")
    assert script.heartbeat("a", 2) == "epoch 2: orders 0"
    assert script.heartbeat("a", 2, owns="orders 0") == "epoch 3"


def test_after_ten_minutes_patterns_are_resolved_again_though_nothing_has_changed() -> None:
    script = one_member()
    keep_alive(script, REFRESH_MS)
    script.heartbeat("a", 2)
    script.settle()
    assert script.said == []
    script.pass_time(1)
    script.heartbeat("a", 2)
    script.settle()
    assert script.said == ["pattern or.*: orders orphans"]


def test_a_refresh_for_a_group_that_is_gone_writes_nothing() -> None:
    script = ConsumerGroupScript({"orders": 1})
    join(script, "a", "or.*")
    script.leave("a")
    script.settle()
    assert script.said == []
    del script.groups["g"]
    join(script, "a", "or.*")
    del script.groups["g"]
    script.settle()
    assert script.said == []


def test_a_coordinator_that_loads_the_group_knows_the_topics_of_patterns() -> None:
    script = one_member()
    script.restart()
    assert script.heartbeat("a", 2) == "epoch 2"
    assert script.said == []
