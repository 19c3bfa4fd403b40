"""Histories in which groups lose their rights, their members and their topics, and topics get more partitions: no law
is broken, and each planted bug breaks one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.group_values import ConsumerGroupRegularExpressionValue
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pykraft.sim.bugs import group_storms
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.laws.names import law_of
from pykraft.sim.laws.storm_group_laws import OWNED_WITHIN_MS, StormConsumerGroupLaws
from pykraft.sim.trouble.clients import CLASSIC, CONSUMER, GROUPS
from pykraft.sim.trouble.group_storms import COORDINATOR_PATTERN, GROUP_STORM_SEEDS, NAMES, PATTERN
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.workloads.storm_groups import STAYING, TOPICS, VISITORS
from tests.sim.floors import Floors, check_deaths, check_progress, hold_floors

STORMS = Floors(
    short=(),
    long=GROUP_STORM_SEEDS,
    short_floors={},
    long_floors={"partitions_added": 300, "rights_denied": 600, "members_expelled": 500, "topics_deleted": 200},
)


def test_no_law_is_broken_in_a_history_whose_storm_is_short() -> None:
    seed = GROUP_STORM_SEEDS[1]
    report = SimulatedCluster(seed, replace(draw(seed), storm_until_ms=3_000)).run()
    check_progress([report], {"partitions_added": 1, "rights_denied": 2, "members_expelled": 1, "seeks": 50})


@pytest.mark.long
@pytest.mark.limit(3600)
def test_no_law_is_broken(request: pytest.FixtureRequest) -> None:
    hold_floors(STORMS, request)


@pytest.mark.long
@pytest.mark.limit(1800)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(group_storms, GROUP_STORM_SEEDS, request)


def test_the_seeds_have_groups_of_both_kinds_and_every_kind_of_subscription() -> None:
    drawn = [draw(seed) for seed in GROUP_STORM_SEEDS]
    storms = [each.storms for each in drawn if each.storms is not None]
    assert len(storms) == len(drawn)
    ways = Counter(
        (group.protocol, its.ways[group.group_id])
        for each, its in zip(drawn, storms, strict=True)
        for group in each.groups
    )
    assert ways.keys() == {
        *((protocol, way) for protocol in (CLASSIC, CONSUMER) for way in (NAMES, PATTERN)),
        (CONSUMER, COORDINATOR_PATTERN),
    }
    assert min(ways.values()) > 15, ways
    assert all(GROUPS[CONSUMER][0] in its.ways for its in storms)


def test_the_pattern_is_for_the_topics_of_these_groups_alone() -> None:
    found = [name for name in (STAYING, f"{VISITORS}12", "t", "ss", "s-", "bank") if re.fullmatch(TOPICS, name)]
    assert found == [STAYING, f"{VISITORS}12"]


# --- what the laws say ------------------------------------------------------------------------------------------------


class _Topics:
    """Knows one topic that is there and one that was deleted."""

    def was_deleted(self, name: str) -> bool:
        return name == "gone"


def laws() -> StormConsumerGroupLaws:
    found = StormConsumerGroupLaws("consumers", False, str)
    topics: Any = _Topics()
    found.topics = topics
    return found


S0, S1 = TopicPartition("s", 0), TopicPartition("s", 1)


@pytest.mark.parametrize(
    ("owned", "what"),
    [
        ([S0], "['s-1'] have no owner"),
        ([S0, S0, S1], "['s-0'] have several"),
        ([S0, S1, TopicPartition("s", 2)], "['s-2'] are not subscribed to"),
    ],
)
def test_each_partition_has_one_owner_soon_after_all_is_quiet(owned: list[TopicPartition], what: str) -> None:
    held = laws()
    held.check_owners([S0, S1], [S0, S1], OWNED_WITHIN_MS + 1)
    held.check_owners(owned, [S0, S1], OWNED_WITHIN_MS)
    with pytest.raises(Violation, match=re.escape(what)) as found:
        held.check_owners(owned, [S0, S1], OWNED_WITHIN_MS + 1)
    assert law_of(found.value) == "Every Partition Has an Owner"


def test_a_pattern_is_resolved_to_topics_that_match_it() -> None:
    held = laws()
    held.check_pattern(r"s-\d+", ConsumerGroupRegularExpressionValue(topics=["s-1", "s-22"], version=0, timestamp=0))
    with pytest.raises(Violation, match=re.escape("is resolved to ['ss-1']")):
        held.check_pattern(r"s-\d+", ConsumerGroupRegularExpressionValue(topics=["ss-1"], version=0, timestamp=0))


def test_a_member_that_joins_owns_nothing() -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="consumers", member_id="m", member_epoch=0)
    laws().check_join(request, [])
    with pytest.raises(Violation, match="joins consumers, and still reads") as found:
        laws().check_join(request, [S0])
    assert law_of(found.value) == "Members Own What Is Committed"


def test_offsets_are_deleted_only_after_their_topic() -> None:
    held = laws()
    held._forget(TopicPartition("gone", 0))
    with pytest.raises(Violation, match="was deleted, the topic not"):
        held._forget(S0)
