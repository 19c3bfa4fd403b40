"""The scenarios of notebook 10: what each level of acks waits for, and what a crash, a cut and a power failure lose."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.lessons.acks.virtual_failover import VirtualFailover
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "10_acks.ipynb"
LEVELS: dict[str, dict[str, Any]] = {
    "0": {"acks": "0", "enable_idempotence": False},
    "1": {"acks": "1", "enable_idempotence": False},
    "all": {"acks": "all"},
}

ALL_IS_ONE = """
from pykraft.client.producing import sender

sender._ACKS["all"] = 1
"""


class FiveReplicas(VirtualFailover):
    REPLICAS = 5


def test_four_followers_take_as_long_as_two() -> None:
    for kind in (VirtualFailover, FiveReplicas):
        producer = kind(linger_ms=0, **LEVELS["all"])
        producer.send(5, records_per_s=20)
        assert producer.latency_ms() == 20


def test_the_way_of_a_record_has_a_step_for_each_copy_and_for_the_commit() -> None:
    lanes, steps = VirtualFailover(linger_ms=0, **LEVELS["all"]).one_way()
    assert lanes == ["producer", "leader", "follower 1", "follower 2"]
    assert [(round(step.at_ms), step.lane) for step in steps] == [
        (0, "producer"), (5, "leader"), (10, "follower 1"), (10, "follower 2"), (15, "leader"), (20, "producer"),
    ]  # fmt: skip
    assert [step.copies["leader"].state for step in steps[1:]] == ["not committed"] * 3 + ["committed"] * 2


@pytest.mark.parametrize(("level", "lost"), [("0", 14), ("1", 9), ("all", 0)])
def test_a_crash_loses_what_no_follower_has_and_what_was_on_its_way(level: str, lost: int) -> None:
    producer = VirtualFailover(linger_ms=0, **LEVELS[level])
    producer.crash_leader(at_ms=49)
    producer.send(100, records_per_s=1000)
    assert len(producer.acknowledged) == 100
    assert len(producer.lost) == lost
    assert not set(producer.lost) & set(producer.log)


@pytest.mark.long
def test_a_producer_that_means_one_when_it_says_all_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match=r"does not hold: acks=1 costs one round trip, acks=all two"):
        run("2. ", path=PATH, before=ALL_IS_ONE)
