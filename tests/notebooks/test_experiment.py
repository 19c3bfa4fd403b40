"""An experiment is decided by the rule that was written down: not by the mean, not by one pair, not by a wish."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from pykraft.course.experiment import UNDECIDED, Experiment, Outcome, Pair
from pykraft.course.lesson import FAILS, HOLDS

PLAN = Experiment(
    claim="A takes at least 2 times as long as B.",
    compared=("A", "B"),
    holds_if="at least 2 times",
    prediction=3,
    because="one word after the other until there are twelve words of reason here",
)


def outcome(*factors: float, plan: Experiment = PLAN) -> Outcome:
    plan = replace(plan, pairs=len(factors))
    return Outcome(plan, tuple(Pair("A", (factor, 1.0)) for factor in factors))


@pytest.mark.parametrize(
    ("factors", "verdict"),
    [
        ([3] * 8, HOLDS),
        ([2.5] * 8, HOLDS),
        ([2.4] * 8, UNDECIDED),
        ([2.0] * 8, UNDECIDED),
        ([1.7] * 8, UNDECIDED),
        ([1.6] * 8, FAILS),
        ([3] * 7 + [0.1], HOLDS),
        ([3] * 6 + [1, 1], UNDECIDED),
        ([1] * 7 + [500], FAILS),
        ([1] * 6 + [500, 500], UNDECIDED),
        ([3] * 5, HOLDS),
        ([3] * 4 + [1], UNDECIDED),
    ],
)
def test_the_verdict_needs_nearly_all_pairs_and_the_margin(factors: list[float], verdict: str) -> None:
    assert outcome(*factors).verdict == verdict


def test_a_claim_of_at_most_is_judged_the_other_way_round() -> None:
    plan = replace(PLAN, holds_if="at most 2 times")
    assert outcome(*[1.6] * 8, plan=plan).verdict == HOLDS
    assert outcome(*[2.0] * 8, plan=plan).verdict == UNDECIDED
    assert outcome(*[2.5] * 8, plan=plan).verdict == FAILS
    assert "DOES NOT HOLD: from 2.5" in outcome(*[2.5] * 8, plan=plan).picture.svg


def test_a_finding_says_from_which_factor_on_the_claim_holds() -> None:
    found = outcome(*[3] * 8).finding
    assert (found.factor, found.holds_from, found.at_most, found.verdict) == (3, 2.5, False, HOLDS)
    found = outcome(*[3] * 8, plan=replace(PLAN, holds_if="at most 2 times")).finding
    assert (found.holds_from, found.at_most, found.verdict) == (1.6, True, FAILS)


@pytest.mark.parametrize(("pairs", "needed"), [(5, 5), (6, 6), (8, 7), (10, 9), (12, 10), (20, 15)])
def test_a_coin_would_agree_so_often_at_most_once_in_twenty_times(pairs: int, needed: int) -> None:
    assert replace(PLAN, pairs=pairs).needed == needed


def test_the_arms_take_turns_in_an_order_that_the_seed_draws() -> None:
    asked: list[str] = []

    def measure(arm: str) -> float:
        asked.append(arm)
        return 1.0

    pairs = PLAN.run(measure, seed=7).pairs
    assert asked[:2] == ["A", "B"], "each is measured once before, to be warm"
    turns = [tuple(asked[place : place + 2]) for place in range(2, len(asked), 2)]
    assert len(turns) == 8 and {frozenset(turn) for turn in turns} == {frozenset("AB")}
    assert [pair.first for pair in pairs] == [first for first, _ in turns]
    assert set(turns) == {("A", "B"), ("B", "A")}
    assert [pair.first for pair in PLAN.run(measure, seed=7).pairs] == [pair.first for pair in pairs]


def test_a_machine_that_gets_slower_meanwhile_changes_no_verdict() -> None:
    moments = iter(range(1, 100))
    slower = PLAN.run(lambda arm: next(moments) * (3.0 if arm == "A" else 1.0), seed=7)
    assert slower.verdict == HOLDS
    assert any(later.values[1] > 2 * earlier.values[1] for earlier, later in pairwise(slower.pairs[::4]))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"claim": "FILL IN: a sentence"}, "claim still says FILL IN"),
        ({"compared": ("FILL IN", "B")}, "compared still says FILL IN"),
        ({"holds_if": "2 times"}, "say it as in 'at least 10 times'"),
        ({"claim": "A is slower than B."}, "the claim has no 2 in it"),
        ({"claim": "A takes 20 times as long."}, "the claim has no 2 in it"),
        ({"claim": "A takes 0.2 or 2.5 times as long."}, "the claim has no 2 in it"),
        ({"because": "it is slow"}, "because has 3 words"),
        ({"pairs": 4}, "at least 5 pairs"),
        ({"margin": 1.0}, "the margin is above 1"),
    ],
)
def test_a_plan_that_decides_nothing_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        replace(PLAN, **changes)


def test_a_measurement_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a measurement of '[AB]' gave 0: a factor needs numbers above zero"):
        PLAN.run(lambda arm: 0.0)


@pytest.mark.parametrize(
    "threats", [["a; b", "c; d"], ["a; b", "a; b", "a; b"], ["a; b", "c; d", "e"], ["FILL IN; b", "c; d", "e; f"]]
)
def test_three_threats_are_needed_each_with_what_was_done(threats: list[str]) -> None:
    with pytest.raises(ValueError, match="threat"):
        outcome(*[3] * 8).report(threats)


def test_the_report_has_all_that_decides_and_the_numbers_in_their_order() -> None:
    found = Outcome(replace(PLAN, pairs=5), tuple(Pair(first, (3.0, 1.0)) for first in "ABAAB"))
    page = found.report(["a; b", "c; d", "e; f"]).text
    assert [line for line in page.splitlines() if line.startswith("#")] == [
        *("## Claim", "## Prediction", "## Design", "## Threats", "## Result")
    ]
    for line in (
        "- Holds if: at least 2 times",
        "- Prediction: 3 times",
        "- Verdict: HOLDS",
        "- Rule: A pair's factor",
    ):
        assert line in page
    assert "pair,arm,ms\n1,A,3\n1,B,1\n2,B,1\n2,A,3\n" in page


def test_the_card_says_the_rule_before_the_run_and_the_picture_the_verdict_after_it() -> None:
    assert "HOLDS if 7 or more of 8 pairs give at least 2.5." in repr(PLAN)
    assert "DOES NOT HOLD if 7 or more of 8 pairs give at most 1.6. Otherwise UNDECIDED." in PLAN._repr_html_()
    assert repr(outcome(*[3] * 8)).startswith("HOLDS: 3 times; claimed at least 2 times, predicted 3 times\n")
