"""The strips of files: one scale for all, a key for every look, and the same facts as text."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, file_strips
from pykraft.viz.drawing import palette
from pykraft.viz.logs.file_chart import Piece
from tests.viz.reading import complaints, elements, texts

KEY = {"plain": "whole", "bad": "torn", "gone": "truncated"}
LONG = "a name that is <b>not</b> short & goes on " * 100


def a_log() -> Figure:
    rows = {
        "after the crash": [Piece(100, label="0"), Piece(100, label="10"), Piece(50, "bad")],
        "after the start": [Piece(100, label="0"), Piece(100, label="10"), Piece(50, "gone")],
    }
    return file_strips(rows, title="The torn batch goes", key=KEY, ends={"after the start": "20 records"})


@pytest.mark.parametrize(
    "figure",
    [
        a_log(),
        file_strips({"one": [Piece(0)]}, title="Empty", key={"plain": "whole"}),
        file_strips({LONG: [Piece(9**15, label=LONG)]}, title=LONG, note=LONG, key={"plain": LONG}, ends={LONG: LONG}),
        file_strips({"many": [Piece(4096, "plain")] * 800}, title="Many", key={"plain": "whole"}),
    ],
    ids=["a log", "an empty file", "all of it long", "many pieces"],
)
def test_every_drawing_of_files_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_equal_bytes_have_equal_widths_in_all_rows() -> None:
    widths = [float(r.get("width", "0")) for r in elements(a_log(), "rect") if r.get("height") == "28"]
    assert widths[0] == widths[1] == widths[3] == pytest.approx(2 * widths[2], abs=1.5)


def test_damage_differs_by_its_crossing_and_what_is_gone_by_its_dashes() -> None:
    assert len(elements(a_log(), "line")) == 4  # the torn batch, and the key
    fills = [(rect.get("fill"), rect.get("stroke-dasharray")) for rect in elements(a_log(), "rect")]
    assert fills.count((palette.VERMILLION, None)) == 2 and fills.count(("none", "4 3")) == 2
    assert set(KEY.values()) <= set(texts(a_log()))


def test_the_text_tells_the_pieces_in_order() -> None:
    assert "after the crash: 2 x whole (200 bytes), 1 x torn (50 bytes)" in a_log().text
    assert "1 x truncated (50 bytes); 20 records" in a_log().text
    chequered = [Piece(1, ("plain", "bad")[n % 2]) for n in range(20)]
    assert "f: 10 x whole (10 bytes), 10 x torn (10 bytes)" in file_strips({"f": chequered}, title="t", key=KEY).text


def test_a_short_name_is_written_in_full() -> None:
    names = ("with a torn batch", "NaiveFile")
    for name in names:
        assert name in texts(file_strips({name: [Piece(1)]}, title="t", key=KEY))


def test_a_look_that_is_none_or_has_no_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="a piece cannot look 'loud': it is one of plain, strong, bad, gone"):
        file_strips({"f": [Piece(1, "loud")]}, title="t", key=KEY)
    with pytest.raises(ValueError, match="the key does not say what 'strong' means"):
        file_strips({"f": [Piece(1, "strong")]}, title="t", key=KEY)
    with pytest.raises(ValueError, match="file_strips needs at least one value"):
        file_strips({}, title="t", key=KEY)
