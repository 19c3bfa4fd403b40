"""Notebook 13 must turn red when votes are given twice, a bad log wins, or a node that was away disturbs its leader."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.lessons.elections.elections import Quorum, without_chance, without_pre_vote
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "13_elections.ipynb"

EVERYBODY_GETS_A_VOTE = """
from pykraft.raft import service

service.grants_vote = lambda role, candidate, log_is_up_to_date, pre_vote: True
"""

NO_CHANCE = """
from pykraft.course.lessons.elections.elections import without_chance

rule = without_chance()
rule.__enter__()
"""

NO_PRE_VOTE = """
from pykraft.course.lessons.elections.elections import without_pre_vote

rule = without_pre_vote()
rule.__enter__()
"""

ANY_LOG_WILL_DO = """
from pykraft.raft.log.replicated_log import ReplicatedLog

ReplicatedLog.is_up_to_date = lambda log, candidate: True
"""

A_LEADER_THAT_NEVER_RESIGNS = """
from pykraft.raft.leader_state import LeaderState

LeaderState.check_quorum_deadline = property(lambda leader: 1 << 60)
"""


def test_votes_that_are_given_twice_break_a_law_before_twenty_runs_are_over() -> None:
    with pytest.raises(NotebookFailed, match=r"SimulationFailed: seed \d+, .* Violation"):
        run("3. ", path=PATH, before=EVERYBODY_GETS_A_VOTE)


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "since", "heading", "words"),
    [
        (NO_CHANCE, None, "4. ", "this does not hold: .*Without chance, split votes follow each other"),
        (NO_PRE_VOTE, "5. ", "6. ", "this does not hold: .*With pre-vote the leader stays in all three runs"),
        (ANY_LOG_WILL_DO, "6. ", "Where", "SimulationFailed: .*Leader Completeness"),
        (A_LEADER_THAT_NEVER_RESIGNS, "4. ", "5. ", "TimeoutError: seed .* not within 60,000 ms"),
    ],
    ids=["no chance", "no pre-vote", "any log", "never resigns"],
)
def test_another_broken_rule_turns_the_notebook_red(plant: str, since: str | None, heading: str, words: str) -> None:
    with pytest.raises(NotebookFailed, match=words):
        run(heading, since=since, path=PATH, before=plant)


def test_a_quorum_of_one_seed_is_the_same_each_time_and_other_rules_end_with_their_block() -> None:
    def history() -> list[object]:
        quorum = Quorum(3)
        quorum.run_until_led()
        return [*quorum.spans()]

    with without_chance(), without_pre_vote():
        other = history()
    assert history() == history() != other
