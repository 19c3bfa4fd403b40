"""Notebook 15 must turn red when costs do not grow in proportion, a death costs other records, or nothing is stuck. Its
lever kills and removes voters, and counts what is committed."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.lessons.scale.metadata_cost import bytes_of, image_of
from pykraft.course.lessons.scale.removal_lever import A_DEAD_ONE, A_RUNNING_ONE, REMOVED, draw_removals, removed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "15_scale.ipynb"

LARGE_IMAGES_ARE_CUT = """
from pykraft.course.lessons.scale import metadata_cost

image_of = metadata_cost.image_of
metadata_cost.image_of = lambda partitions: image_of(min(partitions, 10_000))
"""

A_DEATH_FORGETS_A_PARTITION = """
from pykraft.controller.partitions.replication_control import ReplicationControl

plan = ReplicationControl.plan_broker_gone
ReplicationControl.plan_broker_gone = lambda control, image, broker_id: list(plan(control, image, broker_id))[1:]
"""

THE_OLD_MAJORITY_COUNTS = """
from pykraft.raft.leader_state import LeaderState

update = LeaderState.update_voters

def update_voters(self, voters):
    gone = dict(getattr(self, "voters", {}))
    update(self, voters)
    if len(self.voters) == 2:
        self.voters = {**gone, **self.voters}

LeaderState.update_voters = update_voters
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "heading", "since", "claim"),
    [
        (LARGE_IMAGES_ARE_CUT, "2. ", None, "A hundred times the partitions take a hundred times the memory"),
        pytest.param(
            A_DEATH_FORGETS_A_PARTITION, "3. ", "2. ", "A broker with 1,000 partitions costs", marks=pytest.mark.long
        ),
        pytest.param(
            THE_OLD_MAJORITY_COUNTS, "5. ", "3. ", "With two of three controllers alive", marks=pytest.mark.long
        ),
    ],
    ids=["costs that do not grow", "a partition is forgotten", "the old majority"],
)
def test_a_broken_scale_turns_the_notebook_red(plant: str, heading: str, since: str | None, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(heading, since=since, path=PATH, before=plant)


def test_the_bytes_of_an_image_are_those_that_its_making_takes() -> None:
    gc.collect()
    tracemalloc.start()
    image = image_of(1_000)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.85 < bytes_of(image) / taken < 1.1


def test_a_leader_that_would_have_to_die_as_well_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="dead is 3: the leader stays alive, so at most 2 of 3 voters can die"):
        draw_removals(3, 3, A_DEAD_ONE, 0)


@pytest.mark.long
def test_more_removals_than_there_are_voters_are_not_asked_for() -> None:
    assert "No other voter is dead. So 2 more cannot be removed." in draw_removals(3, 1, A_DEAD_ONE, 3).text
    assert "No controller leads. So 1 more cannot be removed." in draw_removals(3, 1, A_RUNNING_ONE, 2).text


@pytest.mark.long
@pytest.mark.limit(900)
@pytest.mark.parametrize("remove", REMOVED)
@pytest.mark.parametrize("voters", range(3, 8))
def test_a_quorum_commits_while_a_majority_of_its_newest_voter_set_runs(voters: int, remove: str) -> None:
    """The lever at each of its places: what is counted is what the majority says."""
    for dead in range(min(4, voters)):
        for moment in removed(voters, dead, remove, 3):
            assert bool(moment.committed) == (moment.running >= moment.majority), moment
