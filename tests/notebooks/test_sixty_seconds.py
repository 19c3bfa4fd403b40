"""Notebook 00 must turn red when the system is broken.

That it is green, within a minute and in a small container, when nothing is broken, nbval shows in the same suite, with
the budget of tests/harness/budget.py.
"""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import run

pytestmark = pytest.mark.limit(300)  # where others use the cores, too

A_RASH_ACKNOWLEDGEMENT = """
from pykraft.common.errors import ErrorCode
from pykraft.broker.replication.partition import Partition

def replicated_up_to(self, offset):
    return ErrorCode.NONE if self.log.log_end_offset >= offset else None

Partition.replicated_up_to = replicated_up_to
"""

A_HIGH_WATERMARK_THAT_WAITS_FOR_NOBODY = """
from pykraft.broker.replication.partition import Partition

Partition._must_wait_for = lambda self, follower, end_offset, now: False
"""

A_LEADER_THAT_STAMPS_RECORDS = """
from pykraft.records.batch import RecordBatch

assign = RecordBatch.assign

def assign_and_stamp(self, base_offset, leader_epoch):
    assign(self, base_offset, leader_epoch)
    self.stamp(1_400_000_000_000 + leader_epoch)

RecordBatch.assign = assign_and_stamp
"""

A_MEMBER_THAT_IS_NEVER_REMOVED = """
from pykraft.coordinator.group.classic_groups.classic import ClassicGroups
from pykraft.coordinator.result import CoordinatorResult
from pykraft.course.lessons.sixty_seconds import one_record

ClassicGroups._expire_member = lambda self, group_id, member_id: CoordinatorResult(None)
one_record._PATIENCE_S = 4
"""

A_CLAIM = """
node_id = cluster.broker_ids[0]
nb.claim("The node is one of the cluster's.", node_id in cluster.broker_ids)
thread = cluster._nodes[node_id]
"""

A_THREAD_THAT_FAILED = (
    A_CLAIM
    + """
def poll(now):
    raise RuntimeError("planted")

thread.node.poll = poll
thread._selector.wakeup()
thread._thread.join()
"""
)

A_THREAD_THAT_ENDED = A_CLAIM + "thread.kill()"

THE_WAY_BEGINS = 'way = RecordWay(cluster, "flights", partition, ours.value)'

AN_EARLY_ELECTION = f"""
early = cluster.describe().leader("flights", partition)
cluster.kill(early)
cluster.wait_until(lambda view: view.leader("flights", partition) not in (None, early))
cluster.restart(early)
{THE_WAY_BEGINS}
"""


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(A_RASH_ACKNOWLEDGEMENT, id="an acknowledgement at the leader's log end"),
        pytest.param(
            A_HIGH_WATERMARK_THAT_WAITS_FOR_NOBODY,
            id="a high watermark at the leader's log end",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_leader_that_acknowledges_alone_turns_the_notebook_red(plant: str) -> None:
    with pytest.raises(NotebookFailed, match="this does not hold: A leader that is cut off appends the record"):
        run("4. ", before=plant)


@pytest.mark.long
def test_leaders_that_change_more_of_a_batch_than_their_fields_turn_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="this does not hold: Each leader wrote its offset and epoch"):
        run("6. ", before=A_LEADER_THAT_STAMPS_RECORDS)


@pytest.mark.long
def test_a_group_that_keeps_its_dead_member_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="consumer 2 did not find the record"):
        run("7. ", before=A_MEMBER_THAT_IS_NEVER_REMOVED)


@pytest.mark.long
def test_an_election_before_the_cut_does_not_harm_the_notebook() -> None:
    """As on a machine that is so busy that a node seems dead: the one that leads by then is cut off and killed."""
    run("6. ", changed=(THE_WAY_BEGINS, AN_EARLY_ELECTION))


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "words"),
    [
        pytest.param(
            A_THREAD_THAT_FAILED,
            r"node \d does not run any more .*; ClusterError: node \d died: RuntimeError: planted",
            id="with an error",
        ),
        pytest.param(A_THREAD_THAT_ENDED, r"node \d does not run any more", id="silently", marks=pytest.mark.long),
    ],
)
def test_a_node_thread_that_died_turns_the_notebook_red(plant: str, words: str) -> None:
    with pytest.raises(NotebookFailed, match=words):
        run("2. ", after=plant)
