"""Histories in which settings, group settings and levels change all the time, while nodes fall and replication factors
are one to five: no law is broken, and each planted bug breaks one."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.sim.bugs import settings
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.trouble.settings import SETTING_SEEDS
from pykraft.sim.workloads.setting_workload import Promises
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(6758,),
    long=SETTING_SEEDS,
    short_floors={"settings_changed": 20, "levels_changed": 2, "appends_refused": 4, "acknowledged": 400},
    long_floors={
        "settings_changed": 1_000,
        "levels_changed": 70,
        "appends_refused": 200,
        "unclean_elections": 2,
        "consumer_rebalances": 60,
        "acknowledged": 30_000,
    },
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_settings_change_all_the_time(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(1800)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(settings, SETTING_SEEDS, request)


def test_the_seeds_have_every_replication_factor_old_brokers_groups_and_elections() -> None:
    drawn = [draw(seed) for seed in SETTING_SEEDS]
    knobs = [each.settings for each in drawn if each.settings is not None]
    assert len(knobs) == len(SETTING_SEEDS)
    assert {each.replicas for each in knobs} == {1, 2, 3, 4, 5}
    assert sum(each.old_broker > 0 for each in knobs) > 20
    assert sum(bool(each.groups) for each in drawn) > 20
    assert sum(each.elections is not None for each in drawn) > 20
    assert all(each.settings.replicas <= each.brokers for each in drawn if each.settings is not None)


def test_a_promise_holds_until_a_later_request_is_acknowledged_or_may_have_arrived() -> None:
    lost, refused = KafkaError(ErrorCode.REQUEST_TIMED_OUT), KafkaError(ErrorCode.INVALID_CONFIG)
    promises = Promises()
    assert promises.hear({"a": 1}, None, took_ms=10)
    assert not promises.hear({"a": 2}, refused, took_ms=10)
    promises.check({"a": 1}.get)
    with pytest.raises(Violation, match="a is 2; 1 was acknowledged last"):
        promises.check({"a": 2}.get)
    assert not promises.hear({"a": 2}, lost, took_ms=10)
    promises.check({"a": 2}.get)
    assert promises.hear({"a": 3}, None, took_ms=1_000), "tried again: the first try may arrive after later requests"
    assert promises.hear({"a": 4}, None, took_ms=10)
    promises.check({"a": 3}.get)
    with pytest.raises(Violation):
        promises.check({"a": 1}.get)
