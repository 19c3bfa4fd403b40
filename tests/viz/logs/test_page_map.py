"""The map of a file's pages: what is in memory is filled, as wide as its share of the file."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, page_map
from pykraft.viz.drawing import palette
from tests.viz.reading import complaints, elements

LONG = "a name that is <b>not</b> short & goes on " * 50
HALF = bytes([1] * 512 + [0] * 512)
SCATTERED = bytes(number % 3 == 0 for number in range(9_000))
WHOLE_PX = 958


@pytest.mark.parametrize(
    "figure",
    [
        page_map({"half": HALF, "none": bytes(1024)}, title="Half", note="A note.", notes={"half": "0 of 4 MB"}),
        page_map({"in order": HALF, "at random": HALF}, title="Asked", asked={"at random": [0, 500, 1023]}),
        page_map({"nothing is known": b""}, title="Elsewhere"),
        page_map({"scattered": SCATTERED}, title="More pieces than pixels"),
        page_map({LONG: HALF}, title=LONG, note=LONG, notes={LONG: LONG}),
    ],
    ids=["half", "asked", "unknown", "scattered", "all of it long"],
)
def test_every_map_of_pages_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def filled(pages: bytes) -> list[float]:
    """How wide each filled piece of a strip is."""
    rectangles = elements(page_map({"x": pages}, title="t"), "rect")
    return [float(one.get("width", "0")) for one in rectangles if one.get("fill") == palette.BLUE]


def test_a_piece_is_as_wide_as_its_pages_and_a_single_page_can_be_seen() -> None:
    assert filled(HALF) == pytest.approx([WHOLE_PX / 2], abs=0.1)
    assert filled(bytes(1024)) == []
    alone = filled(bytes(9_999) + b"\1")
    assert len(alone) == 1 and 1 <= alone[0] <= 3


def test_each_page_that_was_asked_for_has_its_mark() -> None:
    marks = elements(page_map({"x": HALF}, title="t", asked={"x": [0, 7, 9]}), "line")
    assert len(marks) == 3


def test_the_text_counts_the_pages_and_their_pieces() -> None:
    text = page_map({"half": HALF, "two": b"\1\0\1"}, title="t", notes={"half": "0 of 4 MB came from the disk"}).text
    assert "half: 512 of 1,024 pages in memory; 0 of 4 MB came from the disk" in text
    assert "two: 2 of 3 pages in memory, in 2 pieces" in text


def test_nothing_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="page_map needs at least one moment"):
        page_map({}, title="t")
