"""The strip of a log: a cell for each record at its offset, a dot where one is gone, and the parts of the log."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, log_strips
from pykraft.viz.drawing import palette
from pykraft.viz.logs.log_strip import Cell, LogStrip
from tests.viz.reading import complaints, elements, texts

LONG = "a name that is <b>not</b> short & goes on " * 100
BEFORE = LogStrip(
    [Cell(2, "A", "A1"), Cell(3, "B", "B1"), Cell(4, "A", "A2"), Cell(5, "B", "B", is_tombstone=True)], [0, 3, 5], 3, 6
)
AFTER = LogStrip([Cell(4, "A", "A2"), Cell(5, "B", "B", is_tombstone=True)], [0, 5], 5, 6)


def a_figure() -> Figure:
    return log_strips({"before": BEFORE, "after": AFTER}, title="Two are gone", readers={"before": 2, "after": 2})


@pytest.mark.parametrize(
    "figure",
    [
        a_figure(),
        log_strips({"empty": LogStrip([], [7], 7, 8)}, title="Nothing is left", note="One offset."),
        log_strips(
            {LONG: LogStrip([Cell(n, LONG, LONG, True) for n in range(24)], list(range(24)), 12, 24)},
            title=LONG,
            note=LONG,
            readers={LONG: 0},
        ),
        log_strips({"narrow": LogStrip([Cell(0, "A", "A1")], [0, 1, 2], 1, 3)}, title="Parts of one offset"),
        log_strips({"late": LogStrip([Cell(9, "A", "A1")], [0, 9], 0, 10)}, title="x", readers={"late": 9}),
    ],
    ids=["two rows", "nothing", "all of it long", "narrow parts", "a reader at the end"],
)
def test_every_strip_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_a_record_that_stays_is_in_the_same_column_and_one_that_is_gone_leaves_a_dot() -> None:
    labels = [text for text in elements(a_figure(), "text") if text.text == "A2"]
    assert len({text.get("x") for text in labels}) == 1 and len(labels) == 2
    assert len(elements(a_figure(), "circle")) == 2 + 4


def test_only_the_last_record_of_a_key_is_filled_and_a_tombstone_is_framed() -> None:
    rects = [rect for rect in elements(a_figure(), "rect") if rect.get("rx") == "4"]
    filled = [rect.get("fill") for rect in rects if rect.get("fill") != "none"]
    assert filled == [palette.BLUE, palette.BLUE], "A2 in both rows"
    assert sum(rect.get("stroke") == palette.VERMILLION for rect in rects) == 2
    assert texts(a_figure()).count("B✕") == 2


def test_the_parts_of_a_log_are_clean_dirty_and_active() -> None:
    assert BEFORE.parts == {"clean": (0, 3), "dirty": (3, 5), "active": (5, 6)}
    assert AFTER.parts == {"clean": (0, 5), "active": (5, 6)}


def test_a_reader_at_a_gap_gets_the_next_record() -> None:
    assert (BEFORE.next_after(2), AFTER.next_after(2), AFTER.next_after(6)) == (2, 4, 6)
    assert "a reader at 2 gets offset 4 next" in a_figure().text
    assert len(elements(a_figure(), "polygon")) == 3, "a triangle in each row, and one arrow"


def test_the_text_tells_records_parts_and_segments() -> None:
    assert "after: 4 A2, 5 B (tombstone); clean 0 to 4; active 5 to 5; segments from 0, 5" in a_figure().text


@pytest.mark.parametrize("end", [0, 25])
def test_no_offset_and_too_many_are_refused(end: int) -> None:
    with pytest.raises(ValueError, match="log_strips draws 1 to 24 offsets"):
        log_strips({"x": LogStrip([], [0], 0, end)}, title="x")
