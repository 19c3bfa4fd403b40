"""A mark says what befell a disk or a log directory; a process that is ended for it is no crash."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.trace import TraceEvent
from pykraft.sim.cluster import SIMULATOR
from pykraft.sim.trouble.directories import MOMENTS, OUTCOMES
from pykraft.story.marks import marks_of


def marks(*events: tuple[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """(kind, text) of what these events of one step, reported by the simulator, are marked with."""
    traced = [TraceEvent(7, SIMULATOR, name, fields) for name, fields in events]
    return [(mark.kind, mark.text) for mark in marks_of(1, traced, ())]


DIRECTORY = {"node": 2, "directory": "/data-2"}


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("old_disk", {"is_empty": True}, "disk replaced: node 2 is to begin again on an empty disk"),
        ("old_disk", {"is_empty": False}, "disk replaced: node 2 is to begin again on an older copy of its disk"),
        ("full_disk", {"left": 1200}, "disk full: node 2 has room for 1,200 more bytes"),
        ("bit_rot", {"file": "/data/t-0/0.log", "at": [70]}, "disk corruption: bytes of /data/t-0/0.log rot on node 2"),
        ("repair", {}, "disk repaired: node 2 is to begin again without the folders in which bytes have rotted"),
        ("lost_folders", {}, "folders lost: node 2 is to begin again without its closed segments"),
        ("clock", {"by_ms": -30_000}, "clock skew: the clock of node 2 is set back by 30 s"),
        (
            "fail_directory",
            {"directory": "/data-2", "at": "sync"},
            "log directory fails: /data-2 of node 2 breaks at its next sync",
        ),
        ("fail_directory", {"directory": "/data-2", "at": "now"}, "log directory fails: /data-2 of node 2 breaks"),
        ("mend_directory", {"directory": "/data-2"}, "log directory works: /data-2 of node 2 can be read again"),
        (
            "replace_directory",
            {"directory": "/data-2", "outcome": "emptied"},
            "log directory replaced: /data-2 of node 2; it has its id, and no logs any more",
        ),
    ],
)
def test_what_befalls_a_disk_has_words_of_its_own(name: str, fields: dict[str, Any], text: str) -> None:
    assert marks((name, {"node": 2, **fields})) == [("fault", text)]


def test_a_process_that_is_ended_for_another_disk_is_no_crash_and_one_that_ends_by_itself_is() -> None:
    replaced = "old_disk", {"node": 2, "is_empty": True}
    ends = [("ended", {"node": 2}), ("ended", {"node": 3})]
    assert [kind for kind, _ in marks(replaced, *ends)] == ["fault", "crash"]
    assert marks(*ends) == [("crash", "crash: node 2 ends"), ("crash", "crash: node 3 ends")]


def test_each_moment_and_each_outcome_has_words() -> None:
    said = [marks(("fail_directory", {**DIRECTORY, "at": moment})) for moment in MOMENTS]
    said += [marks(("replace_directory", {**DIRECTORY, "outcome": outcome})) for outcome in OUTCOMES]
    assert len({text for ((_, text),) in said}) == len(MOMENTS) + len(OUTCOMES)
