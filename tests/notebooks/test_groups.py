"""Notebook 17 must turn red when sticky assignors forget, cooperative members give up all, or static ones say goodbye.

And its scenarios tell what happened: on a simulated clock to the second, on a live cluster in order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft import Cluster, NewTopic
from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.lessons.groups.live_group import LiveGroup
from pykraft.course.lessons.groups.ownership import Ownership, in_words, moved, stopped_s
from pykraft.course.lessons.groups.virtual_group import WAYS, VirtualGroup
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "17_groups.ipynb"

A_STICKY_ASSIGNOR_THAT_FORGETS = """
from pykraft.common.assignors.sticky import StickyAssignor

StickyAssignor.user_data = lambda self, owned, generation: None
"""

MEMBERS_THAT_GIVE_UP_ALL = """
from pykraft.common.assignors.sticky import CooperativeStickyAssignor

CooperativeStickyAssignor.is_cooperative = False
"""

STATIC_MEMBERS_SAY_GOODBYE = """
from pykraft.course.lessons.groups.virtual_group import VirtualGroup  # section 3 does not import it
from pykraft.client.consuming.membership import ClassicMembership

def leave(self, reason, deadline):
    left = self._ask_to_leave(reason, deadline)
    self._reset(reason, True)
    return left

ClassicMembership.leave = leave
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "sections", "claim"),
    [
        pytest.param(
            A_STICKY_ASSIGNOR_THAT_FORGETS,
            ("3. ", "2. "),
            "sticky moves fewer partitions than range",
            marks=pytest.mark.long,
        ),
        pytest.param(
            MEMBERS_THAT_GIVE_UP_ALL,
            ("3. ", "2. "),
            "With a member that pauses, cooperative-sticky and consumer move as many partitions",
            marks=pytest.mark.long,
        ),
        (STATIC_MEMBERS_SAY_GOODBYE, ("4. ", "3. "), "A static restart moves nothing"),
    ],
    ids=["a sticky assignor forgets", "cooperative members give up all", "static members say goodbye"],
)
def test_a_broken_group_turns_the_notebook_red(plant: str, sections: tuple[str, str], claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(sections[0], since=sections[1], path=PATH, before=plant)


# --- the history of owners --------------------------------------------------------------------------------------------


def test_a_partition_moves_when_its_next_owner_is_another_one_and_stops_while_it_has_none() -> None:
    history = Ownership([0, 1])
    history.note(0.0, {})
    history.note(1.0, {0: "ann", 1: "ann"})
    history.note(2.0, {1: "ann"})
    history.note(2.5, {1: "ann"})
    history.note(4.0, {0: "ann"})
    history.note(5.0, {0: "ann", 1: "ben"})
    spans = history.spans(6.0)
    assert spans == {
        "0": [("", 0.0, 1.0), ("ann", 1.0, 2.0), ("", 2.0, 4.0), ("ann", 4.0, 6.0)],
        "1": [("", 0.0, 1.0), ("ann", 1.0, 4.0), ("", 4.0, 5.0), ("ben", 5.0, 6.0)],
    }
    assert (moved(spans, 0.0, 6.0), moved(spans, 0.0, 5.0), moved(spans, 5.5, 6.0)) == (1, 0, 0)
    assert (stopped_s(spans, 0.0, 6.0), stopped_s(spans, 3.0, 4.5)) == (5.0, 1.5)
    assert [in_words("join", names) for names in (["ann"], ["ann", "ben"])] == ["ann joins", "ann and ben join"]


# --- on a simulated clock ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_simulated_group_shares_its_partitions_and_comes_out_the_same_again(way: str) -> None:
    seen = []
    for _ in range(2):
        group = VirtualGroup(way, partitions=4)
        group.join("ann", "ben")
        group.wait(12)
        group.leave("ann")
        group.wait(8)
        seen.append(group.owners)
    assert seen[0] == seen[1]
    assert {spans[-1][0] for spans in seen[0].values()} == {"ben"}
    assert group.moved("ann leaves") == 2
    assert 0 < group.stopped_s("ann leaves") < 4 * 8


def test_a_crash_is_noticed_when_the_session_ends_and_a_pause_is_not_noticed_at_all() -> None:
    group = VirtualGroup("sticky", partitions=2, session_timeout_ms=10_000)
    group.join("ann", "ben")
    group.wait(8)
    group.pause("ann", 10)
    group.wait(12)
    assert group.moved("ann pauses") == 0 and group.pauses == [("ann", group.events["ann pauses"], group.now_s - 2)]
    group.crash("ann")
    group.wait(15)
    assert 7.0 < group.stopped_s("ann crashes") < 14.0


def test_lag_grows_by_what_the_members_do_not_manage_and_an_added_broker_leads_nothing() -> None:
    group = VirtualGroup("consumer", partitions=2, records_per_s=40, member_records_per_s=10)
    group.join("ann", "ben")
    group.add_broker()
    group.wait(10)
    before = group.lag
    group.wait(10)
    assert group.lag - before == pytest.approx((40 - 2 * 10) * 10, rel=0.25)
    assert group.led == {1: 2, 2: 0}


# --- on a live cluster ------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        with cluster.admin() as admin:
            admin.create_topics([NewTopic("t", 2, 1)])
        cluster.wait_until_known("t", 2)
        yield cluster


def test_a_live_group_shares_its_partitions_works_and_goes_on_after_a_death(cluster: Cluster) -> None:
    group = LiveGroup(cluster, "t", way="cooperative-sticky", session_timeout_ms=6_000)
    try:
        group.join("ann")
        group.wait_until_shared()
        with group.producer(records_per_s=100):
            group.join("ben")
            group.watch_until(group.is_shared)
            assert {member.client_id for member in group.describe().members} == {"ann", "ben"}
            group.join("ben")  # again: the first one leaves
            group.watch_until(group.is_shared)
            group.kill("ann")
            group.watch_until(group.is_shared)
        group.watch_until(lambda: group.lag == 0)
        assert [spans[-1][0] for spans in group.owners.values()] == ["ben", "ben"]
        assert group.moved("ben joins") >= 1 and group.stopped_s("ann is killed") > 1.0
        assert set(group.leaders.values()) == {1}
        assert sum(seen[-1][2] for seen in group.seen.values()) > 0 == group.lag
    finally:
        group.close()
