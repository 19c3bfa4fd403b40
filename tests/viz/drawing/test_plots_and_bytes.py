"""Curves stand where their numbers are; bytes stand under the name of their field."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.viz import Field, Figure, hexdump, lines, points
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.svg import shortened
from pykraft.viz.wire.hex_dump import KINDS
from tests.viz.reading import complaints, elements, texts

TWO = {"tree": [(1.0, 10.0), (10.0, 20.0), (100.0, 40.0)], "log": [(1.0, 5.0), (100.0, 5.0)]}
DATA = bytes(range(40))
FIELDS = [("base offset", 0, 8, "7"), Field("length", 8, 12, "no more than 28"), Field("magic", 16, 17)]
KINDRED = [("a", 0, 4, "1", "length"), ("b", 4, 8, "2", "time"), ("c", 8, 12, "3", "length")]


def a_plot(**more: Any) -> Figure:
    return lines(TWO, title="The tree grows", x_unit="records", y_unit="us", **more)


def a_dump(**more: Any) -> Figure:
    return hexdump(DATA, FIELDS, title="A batch", **more)


LONG = "a name that is <b>not</b> short & goes on " * 100
FIGURES = {
    "lines": a_plot,
    "lines, logarithmic": lambda: a_plot(log_x=True, log_y=True),
    "lines whose ends are near each other": lambda: lines(
        {f"curve {n}": [(0, 1), (1, 2 + n / 100)] for n in range(6)}, title="Six"
    ),
    "a dot for each name": lambda: points({f"codec {n}": [(1 + n, 2)] for n in range(5)}, title="Five", log_x=True),
    "many dots in one place": lambda: points({f"codec {n}": [(1, 2)] for n in range(8)}, title="Eight"),
    "points": lambda: points(TWO, title="Dots"),
    "lines, all of it long": lambda: lines({LONG: [(0, 1)]}, title=LONG, note=LONG, x_unit=LONG, y_unit=LONG),
    "bytes, all of it long": lambda: hexdump(b"x", [(LONG, 0, 1, LONG)], title=LONG, note=LONG),
    "lines below zero": lambda: lines({"a": [(-3, -1e9), (-2, -5)]}, title="Below"),
    "one point": lambda: points({"one": [(3, 3)]}, title="One"),
    "bytes": a_dump,
    "bytes with a mark": lambda: a_dump(marked=[9], first=4096, note="One bit is wrong."),
    "bytes by kind": lambda: hexdump(DATA, KINDRED, title="Kinds", bracket=(13, 40, "what the checksum covers")),
    "bytes with a long bracket": lambda: hexdump(DATA, KINDRED, title="Kinds", bracket=(0, 1, LONG)),
    "bytes without fields": lambda: hexdump(b"x", [], title="One byte"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_sound(name: str) -> None:
    assert list(complaints(FIGURES[name]())) == []


def test_a_larger_number_stands_higher_and_farther_right() -> None:
    curve = next(line for line in elements(a_plot(), "polyline"))
    places = [tuple(map(float, place.split(","))) for place in (curve.get("points") or "").split()]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)


def test_equal_factors_are_equal_distances_on_a_logarithmic_axis() -> None:
    curve = next(line for line in elements(a_plot(log_x=True, log_y=True), "polyline"))
    (x0, y0), (x1, y1), (x2, y2) = [tuple(map(float, p.split(","))) for p in (curve.get("points") or "").split()]
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.2)


def test_a_short_logarithmic_axis_has_real_marks() -> None:
    found = texts(lines({"a": [(0.3, 40), (6, 90)]}, title="Short", log_x=True, log_y=True))
    assert {"0.5", "1", "2", "5", "50"} <= set(found)


def test_the_name_of_a_single_dot_stands_beside_it() -> None:
    figure = points({"gzip": [(5.0, 6.7)], "zstd": [(0.7, 6.5)], "lz4": [(0.3, 3.5)]}, title="Codecs")
    dots = {"gzip": elements(figure, "circle")[0], "zstd": elements(figure, "rect")[-1]}
    for name, dot in dots.items():
        (box,) = [box for box in figure.boxes if box.text == name]
        x, y = float(dot.get("cx") or dot.get("x") or 0), float(dot.get("cy") or dot.get("y") or 0)
        assert min(abs(box.left - x), abs(box.right - x)) < 25 and abs((box.top + box.bottom) / 2 - y) < 25


CLOSE_ENDS = {
    "the second is higher, at the top": (8.8, 9.0),
    "the first is higher, at the top": (9.0, 8.8),
    "both at the bottom": (0.1, 0.0),
    "four in a heap": (3.0, 3.1, 2.9, 3.05),
    "all the same": (5.0, 5.0, 5.0),
}


@pytest.mark.parametrize("name", CLOSE_ENDS)
def test_the_names_of_curves_stand_in_the_order_of_their_ends(name: str) -> None:
    """Else the reader takes one curve for another."""
    ends = CLOSE_ENDS[name]
    figure = lines({f"curve {n}": [(0, 9), (1, end)] for n, end in enumerate(ends)}, title="Ends")
    tops = {box.text: box.top for box in figure.boxes}
    by_place = sorted(range(len(ends)), key=lambda n: tops[f"curve {n}"])
    assert [ends[n] for n in by_place] == sorted(ends, reverse=True)


def test_the_text_has_every_point_of_a_curve() -> None:
    assert "tree (records: us): 1: 10, 10: 20, 100: 40" in str(a_plot())


def test_the_text_of_very_many_points_says_how_many_they_are_and_where() -> None:
    cloud = {"gone": [(float(n), float(n * n)) for n in range(700)], "there": [(7.0, 8.0)]}
    told = str(points(cloud, title="Dots", x_unit="offset", y_unit="key"))
    assert "gone (offset: key): 700 points, 0 to 699: 0 to 488,601" in told
    assert "there (offset: key): 7: 8" in told
    assert len(told) < 200


@pytest.mark.parametrize("series", [{}, {"none": []}])
def test_nothing_cannot_be_drawn(series: Any) -> None:
    with pytest.raises(ValueError, match="needs at least one value"):
        lines(series, title="Nothing")


NAN, MANY = float("nan"), range(200_000)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: lines({"a": [(0, 1), (1, NAN)]}, title="x"), "a plot has no place for nan: leave it out"),
        (lambda: points({"a": [(float("-inf"), 1)]}, title="x"), "a plot has no place for -inf: leave it out"),
        (lambda: points({"a": zip(MANY, MANY, strict=True)}, title="x"), "more than 300,000 bytes: draw fewer values"),
        (lambda: lines({"a": [(n, n) for n in MANY]}, title="x"), "more than 300,000 bytes: draw fewer values"),
        (lambda: hexdump(bytes(1_000_000), [], title="x"), "more than 300,000 bytes: draw fewer values"),
    ],
)
def test_what_has_no_place_in_a_picture_is_refused_in_one_sentence(draw: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        draw()


def test_a_name_of_a_megabyte_is_shortened_at_once() -> None:
    """A record's value, taken for a label. To try each length would take hours."""
    assert len(shortened("x" * 1_000_000, 200, 13)) < 100
    assert shortened("i" * 60, 150, 13).count("i") > 25


def test_a_number_without_a_logarithm_is_refused() -> None:
    with pytest.raises(ValueError, match="0 has no logarithm"):
        lines({"a": [(0, 1)]}, title="Zero", log_x=True)


def test_every_byte_is_there_and_every_field_has_its_line() -> None:
    found = texts(a_dump())
    assert set(DATA.hex(" ").split()) <= set(found)
    assert {"base offset", "length", "magic"} <= set(found)
    assert "byte 0 to 7, base offset, 00 01 02 03 04 05 06 07: 7" in str(a_dump())
    assert "byte 16, magic, 10" in str(a_dump())


def test_a_marked_byte_is_framed() -> None:
    framed = [rect for rect in elements(a_dump(marked=[9]), "rect") if rect.get("stroke") == palette.VERMILLION]
    assert len(framed) == 1


def test_fields_of_one_kind_have_one_colour_and_the_key_names_it() -> None:
    figure = FIGURES["bytes by kind"]()
    fills = [rect.get("fill") for rect in elements(figure, "rect")]
    assert (fills.count(KINDS["length"]), fills.count(KINDS["time"])) == (1 + 8 + 2, 1 + 4 + 1)  # key, bytes, lines
    assert {"length", "time"} <= set(texts(figure)) and "byte 0 to 3, a (length), 00 01 02 03: 1" in str(figure)


def test_a_bracket_is_under_its_bytes_and_nowhere_else() -> None:
    lines = elements(FIGURES["bytes by kind"](), "line")
    assert [float(line.get("x2", "0")) - float(line.get("x1", "0")) for line in lines] == [
        27 * n - 2 for n in (3, 16, 8)
    ]
    assert "bytes 13 to 39: what the checksum covers" in str(FIGURES["bytes by kind"]())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"fields": [("a", 0, 4, "", "colour")]},
            "field 'a' cannot be a 'colour': it is one of offset, position, length",
        ),
        ({"fields": [], "bracket": (30, 41, "x")}, "the bracket from 30 to 41 is empty, or outside of the data"),
    ],
)
def test_a_kind_that_there_is_not_and_a_bracket_outside_are_refused(more: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        hexdump(DATA, title="Wrong", **more)


def test_neighbouring_kinds_and_their_ink_can_be_told_apart() -> None:
    for filling in KINDS.values():
        assert palette.contrast(palette.ink_on(filling), filling) >= palette.ENOUGH


@pytest.mark.parametrize("field", [("a", 4, 10, ""), ("a", 39, 41, ""), ("a", 30, 30, "")])
def test_fields_that_overlap_or_lie_outside_are_refused(field: tuple[str, int, int, str]) -> None:
    with pytest.raises(ValueError, match="overlaps another one"):
        hexdump(DATA, [*FIELDS, field], title="Wrong")


def test_no_line_of_the_grid_strikes_through_the_name_of_a_dot() -> None:
    dots = {"16 KB": [(12.0, 10.0)], "64 KB": [(35.0, 2.0)], "1 KB": [(106.0, 125.0)]}
    figure = points(dots, title="Sizes", log_x=True, log_y=True)
    lines_at = [float(line.get("y1") or 0) for line in elements(figure, "line")]
    for box in figure.boxes:
        if box.text in dots:
            assert not [y for y in lines_at if box.top < y < box.bottom], box


def test_an_axis_of_late_values_begins_with_them_and_has_round_marks() -> None:
    found = texts(lines({"a": [(32, 10), (52, 19)]}, title="Late"))
    assert {"35", "40", "50"} <= set(found) and "20" not in found
    assert {"0", "5", "10"} <= set(found), "the vertical axis begins at 0"


def test_a_curve_of_many_points_has_no_dots() -> None:
    assert elements(lines({"few": [(x, x) for x in range(50)]}, title="Few"), "circle")
    assert not elements(lines({"many": [(x, x) for x in range(500)]}, title="Many"), "circle")


def test_the_name_of_several_dots_is_beside_its_own() -> None:
    figure = points({"few": [(3, 0.4), (3, 0.5)], "many": [(603, 0.8), (603, 0.6)]}, title="Two clouds")
    (few,) = [box for box in figure.boxes if box.text == "few"]
    assert few.right < min(float(dot.get("x") or 0) for dot in elements(figure, "rect") if float(dot.get("x") or 0))
