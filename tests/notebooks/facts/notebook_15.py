"""What notebook 15 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A removed controller runs on as an observer, and two voters are left.", after="removal = remove(cluster, last)")
def the_removed_one_observes(cluster: Any, last: Any, two: Any) -> None:
    assert len(two) == 2 and last not in two, two
    cluster.wait_until(lambda view: view.nodes[last].quorum.role == "observer")


@fact("A controller that is added votes again.", after="addition = add(cluster, last)")
def the_added_one_votes(three: Any) -> None:
    assert three == [101, 102, 103], three


@fact(
    "The removal names the dead voter, and no running controller leads.", after="broken = remove_one_too_many(cluster)"
)
def nobody_leads(broken: Any, views: Any) -> None:
    assert broken.dead in broken.voters and broken.removed not in broken.voters, broken
    assert not any(view.role == "leader" for view in views), views


@fact("Records flow while nothing can be decided.", after="add_again = add(cluster, broken.removed)")
def records_flow(sent: Any) -> None:
    assert sent > 0, sent


@fact("Back with the dead voter, the removal is committed; then all three vote.", after="first_voters = mend(cluster)")
def the_removal_is_committed(cluster: Any, broken: Any, first_voters: Any) -> None:
    assert first_voters == broken.voters, (first_voters, broken)
    assert all(len(node.quorum.voters) == 3 for node in cluster.describe(0).alive), cluster.describe(0)
