"""One record's way as a picture: what it draws, what it says in words, and what it refuses."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from pykraft.viz.clients.record_chart import COMMITTED, CUT_OFF, DOWN, TORN, UNCOMMITTED, Copy, Way, record_way
from pykraft.viz.drawing.palette import BLUE, VERMILLION
from pykraft.viz.drawing.svg import overlaps

LANES = ["producer", "node 2", "node 1", "readers"]
STEPS = [
    Way(0, "node 2", "you cut it off from the other nodes", states={"node 2": CUT_OFF}),
    Way(3, "node 2", "appends it at offset 234,567", "producer", {"node 2": Copy(234_567, UNCOMMITTED)}),
    Way(900, "node 1", "leads the partition, in epoch 1", copies={"node 2": Copy(234_567, TORN)}),
    Way(950, "node 2", "you kill it", copies={"node 2": Copy(234_567, TORN)}, states={"node 2": DOWN}),
    Way(1_500, "node 2", "truncates its log from offset 234,567 on"),
    Way(1_501, "node 1", "appends it at offset 234,570, and says so in a sentence that is far too long for one line "
        "of the room to the right of the columns", "producer", {"node 1": Copy(234_570, COMMITTED)}),
]  # fmt: skip


def test_every_step_is_in_the_picture_and_in_the_text_and_no_text_stands_on_another() -> None:
    figure = record_way(LANES, STEPS, title="One record", note="A note.")
    ElementTree.fromstring(figure.svg)
    assert overlaps(figure.boxes) == []
    for step in STEPS:
        assert f"{step.lane}: {step.said}" in figure.text
        assert any(box.text.startswith(step.lane) for box in figure.boxes)
    assert (
        "900 ms  node 1: leads the partition, in epoch 1. Now node 2 has it at 234,567 (not in the leader's log)"
        in (figure.text)
    )


def test_a_copy_has_its_offset_once_and_a_colour_by_its_state() -> None:
    figure = record_way(LANES, STEPS, title="One record")
    assert [box.text for box in figure.boxes].count("234,567") == 1
    torn, committed = record_way(LANES, STEPS[2:3], title="x").svg, record_way(LANES, STEPS[5:], title="x").svg
    assert torn.count(VERMILLION) > committed.count(VERMILLION) and committed.count(BLUE) > torn.count(BLUE)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], "at least one step"),
        ([Way(0, "node 9", "appends it")], "'node 9'; the columns are producer, node 2, node 1, readers"),
        ([Way(0, "node 1", "copies it", "node 9")], "'node 9'"),
    ],
)
def test_what_has_no_column_is_refused(steps: list[Way], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        record_way(LANES, steps, title="One record")
