"""The drawing of a lookup: the entry and the batch that are found, and an arrow from one to the other."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure
from pykraft.viz.drawing import palette
from pykraft.viz.logs.lookup_chart import Batch, Segment, lookup_chart
from tests.viz.reading import complaints, elements, texts

SEGMENTS = [Segment(0, 900), Segment(100, 600)]
BATCHES = [Batch(100 + 10 * n, 109 + 10 * n, 60 * n, 60) for n in range(10)]
ENTRIES = [(batch.last_offset, batch.position) for batch in BATCHES[1:]]


def a_lookup(offset: int = 145, entries: list[tuple[int, int]] = ENTRIES, title: str = "Offset 145") -> Figure:
    return lookup_chart(SEGMENTS, BATCHES, entries, offset, title=title)


@pytest.mark.parametrize(
    "figure",
    [
        a_lookup(),
        lookup_chart(SEGMENTS[1:], BATCHES, ENTRIES, 145, deleted=SEGMENTS[:1], title="One is deleted"),
        lookup_chart(SEGMENTS[1:], [], [], 45, deleted=SEGMENTS[:1], title="It is deleted"),
        a_lookup(offset=199, entries=[]),
        a_lookup(offset=100),
        a_lookup(offset=199),
        a_lookup(entries=[]),
        a_lookup(entries=ENTRIES[:1]),
        lookup_chart([Segment(0, 1)], [Batch(0, 0, 0, 1)], [], 0, title="One record"),
        lookup_chart(
            [Segment(10**15, 10**9)],
            [Batch(10**15, 10**16, 10**9, 10**9)],
            [],
            10**15 + 7,
            title="Large",
            note="x" * 900,
        ),
    ],
    ids=[
        "in the middle",
        "deleted segments",
        "a deleted offset",
        "a long walk",
        "the first",
        "the last",
        "no index",
        "one entry",
        "one record",
        "large numbers",
    ],
)
def test_every_drawing_of_a_lookup_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_the_text_tells_the_three_steps() -> None:
    text = a_lookup().text
    assert "145 is in segment 100, whose index has 9 entries" in text
    assert "the last entry at or below it: offset 139 at byte 180" in text
    assert "the batch that holds it: 140 to 149, at byte 240" in text


def test_an_arrow_leads_from_the_batch_of_the_entry_to_the_next_one() -> None:
    assert texts(a_lookup()).count("next header") == 1
    assert texts(a_lookup(offset=139)).count("next header") == 0  # the entry's own batch
    assert texts(a_lookup(offset=125, entries=[])).count("next header") == 2  # a walk from the first batch


def test_of_a_long_walk_the_middle_is_left_out() -> None:
    found = texts(a_lookup(offset=199, entries=[]))
    assert [text for text in found if "header" in text] == ["next header", "8 headers on"]


def test_a_deleted_segment_is_dashed_and_an_offset_in_it_is_not_looked_up() -> None:
    figure = lookup_chart(SEGMENTS[1:], [], [], 45, deleted=SEGMENTS[:1], title="It is deleted")
    assert [rect.get("stroke-dasharray") for rect in elements(figure, "rect")].count("4 3") == 1
    assert "45 was in a segment that is deleted" in figure.text and "deleted: 0" in figure.text
    assert "index entries" not in texts(figure)


def test_the_entry_and_the_batch_that_are_found_are_marked() -> None:
    fills = [rect.get("fill") for rect in elements(a_lookup(), "rect")]
    assert fills.count(palette.ORANGE) == 1
    assert fills.count(palette.BLUE) == 1 + 4 + 1  # a segment, the batches that are magnified, the batch


def test_an_offset_that_is_nowhere_is_refused() -> None:
    for offset in (99, 200):
        with pytest.raises(ValueError, match=f"offset {offset} is in none of these batches"):
            a_lookup(offset=offset)
