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
from pykraft.server.partition import Partition

def replicated_up_to(self, offset):
    return ErrorCode.NONE if self.log.log_end_offset >= offset else None

Partition.replicated_up_to = replicated_up_to
"""

A_TAIL_LOST_AT_RESTART = """
import os
from pathlib import Path
from pykraft.storage.log_loader import LogLoader

whole_load = LogLoader.load

def load(self):
    for file in sorted(Path(self.directory).glob("*.log"))[-1:]:
        if file.parent.name.startswith("flights-") and file.stat().st_size:
            os.truncate(file, file.stat().st_size - 1)
    return whole_load(self)

LogLoader.load = load
"""

A_MEMBER_THAT_IS_NEVER_REMOVED = """
from pykraft.coordinator.group.classic import ClassicGroups
from pykraft.coordinator.result import CoordinatorResult

ClassicGroups._expire_member = lambda self, group_id, member_id: CoordinatorResult(None)
"""

CONSUMERS_THAT_START_AT_THE_LOG_END = """
from pykraft.course.rigs import shared_group

class Forgetful(shared_group.Consumer):
    def subscribe(self, topics):
        super().subscribe(topics, listener=self)

    def on_partitions_assigned(self, assigned):
        self.seek_to_end(*assigned)

shared_group.Consumer = Forgetful
"""

A_CLAIM = """
nb.claim("One of the three is the active controller.", victim in cluster.broker_ids)
thread = cluster._nodes[others[0]]
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

THE_STREAM_BEGINS = "killer = Thread(target=kill)"

AN_EARLY_ELECTION = f"""
cluster.kill(victim)
cluster.wait_until(lambda view: view.leader("flights", 0) not in (None, victim))
cluster.restart(victim)
{THE_STREAM_BEGINS}
"""


def test_an_acknowledgement_at_the_leaders_log_end_turns_the_notebook_red() -> None:
    """The idempotent client finds it out by itself: the next leader misses what this one has acknowledged."""
    with pytest.raises(NotebookFailed, match=r"(?i)kafkaexception: .*fatal"):
        run("5. ", before=A_RASH_ACKNOWLEDGEMENT)


@pytest.mark.long
def test_a_client_that_counts_nothing_loses_flights_to_a_rash_acknowledgement_and_the_account_tells() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*Not one acknowledged flight is missing"):
        run(
            "5. ",
            before=A_RASH_ACKNOWLEDGEMENT,
            changed=('"enable.idempotence": True', '"enable.idempotence": False'),
        )


@pytest.mark.long
def test_a_log_that_loses_its_tail_at_a_restart_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="this does not hold: Each log is as long as it was"):
        run("7. ", before=A_TAIL_LOST_AT_RESTART)


@pytest.mark.long
def test_an_election_before_the_cut_does_not_harm_the_notebook() -> None:
    """As on a machine that is so busy that a node seems dead: the one that leads by then is cut off and killed."""
    run("6. ", changed=(THE_STREAM_BEGINS, AN_EARLY_ELECTION))


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(A_MEMBER_THAT_IS_NEVER_REMOVED, id="a dead member is never removed"),
        pytest.param(CONSUMERS_THAT_START_AT_THE_LOG_END, id="consumers start at the log end", marks=pytest.mark.long),
    ],
)
def test_a_group_that_does_not_go_on_after_a_death_turns_the_notebook_red(plant: str) -> None:
    with pytest.raises(NotebookFailed, match="this does not hold: Consumer 2 took over all partitions"):
        run("8. ", since="7. ", before=plant, changed=("_ms=1000", "_ms=1000, patience_s=3"))


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (A_THREAD_THAT_FAILED, r"node \d does not run any more .*; ClusterError: node \d died: RuntimeError: planted"),
        (A_THREAD_THAT_ENDED, r"node \d does not run any more"),
    ],
    ids=["with an error", "silently"],
)
def test_a_node_thread_that_died_turns_the_notebook_red(plant: str, words: str) -> None:
    with pytest.raises(NotebookFailed, match=words):
        run("2. ", after=plant)
