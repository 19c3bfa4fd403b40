"""The drawings of deliveries: requests that are lost on their way, and how often each record was processed."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, Step, exchange, tally
from tests.viz.reading import complaints

LONG = "a name that is <b>not</b> short & goes on " * 50
LOST = [Step("pay 10", "appends it at offset 0", None), Step("pay 10, again", "appends it at offset 1", "offset 1")]


@pytest.mark.parametrize(
    "figure",
    [
        exchange(LOST, title="A lost answer", note="A note."),
        exchange([Step(LONG, LONG, LONG)] * 3, title=LONG, note=LONG, client=LONG, node=LONG),
        tally({"first": [1, 0, 2], "second": [1, 1, 1]}, title="Thrice", note="A note."),
        tally({LONG: [0] * 14, "b": [99] * 14}, title=LONG, note=LONG, what="n"),
    ],
    ids=["exchange", "long exchange", "tally", "long tally"],
)
def test_every_drawing_of_deliveries_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_the_text_tells_which_answer_was_lost() -> None:
    text = exchange(LOST, title="t").text
    assert "pay 10: appends it at offset 0; the answer is lost" in text
    assert "pay 10, again: appends it at offset 1; offset 1" in text


def test_the_text_tells_which_records_were_missed_and_which_repeated() -> None:
    text = tally({"commit first": [1, 0, 2]}, title="t").text
    assert "commit first: 1 once; never: 1; more than once: 2 (2 times)" in text


def test_nothing_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="exchange needs at least one step"):
        exchange([], title="t")
    with pytest.raises(ValueError, match="at most 14 cells in a row, not 15"):
        tally({"a": [1] * 15}, title="t")
