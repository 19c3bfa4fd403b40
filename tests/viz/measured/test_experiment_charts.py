"""The drawings of experiments: pairs of measurements, and consumers whose fetches wait."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.viz import Figure, fetches_over_time, verdicts
from pykraft.viz.clients.fetch_chart import Fetches
from pykraft.viz.measured.pairs_chart import factors_of_pairs
from pykraft.viz.measured.verdict_chart import Finding
from tests.viz.reading import complaints, elements

LONG = "a name that is <b>not</b> short & goes on " * 50
SAID = {"compared": ("A", "B"), "bounds": (8, 12.5), "ranges": ("DOES NOT HOLD", "HOLDS"), "title": "One", "unit": "ms"}
LONG_SAID = {**SAID, "compared": (LONG, LONG), "ranges": (LONG, LONG), "title": LONG, "note": LONG}
HELD = Finding(("A", "B"), (20, 2), "ms", 10.0, 2.5, at_most=False, verdict="HOLDS")
NOT_HELD = Finding(("C", "D"), (3, 3), "bytes", 1.0, 0.8, at_most=True, verdict="DOES NOT HOLD")
LONG_ONE = Finding((LONG, LONG), (1e-9, 1e9), LONG, 1e-18, 2, at_most=False, verdict="UNDECIDED")
SEEN = Fetches([100, 900, 950], [300], 1000)


def factors(*pairs: tuple[float, float], **more: Any) -> Figure:
    return factors_of_pairs(pairs, **{**SAID, **more})


@pytest.mark.parametrize(
    "figure",
    [
        factors((1, 1), (2, 1.5), (20, 1), note="A note."),
        factors((1e-9, 1e9)),
        factors(*[(1, 1)] * 12, **LONG_SAID),
        fetches_over_time({"short": SEEN, "long": Fetches([], [], 1000)}, title="Two", note="A note."),
        fetches_over_time({LONG[:60]: Fetches(range(0, 1000, 5), range(0, 1000, 5), 1000)}, title=LONG, note=LONG),
        verdicts({"one": HELD, "another": NOT_HELD}, title="Two", note="A note."),
        verdicts({LONG: LONG_ONE}, title=LONG, note=LONG),
    ],
    ids=["pairs", "far apart", "long pairs", "fetches", "many fetches", "verdicts", "a long verdict"],
)
def test_every_drawing_of_an_experiment_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_a_dot_is_in_the_range_of_its_factor() -> None:
    figure = factors((1, 1), (10, 1), (20, 1))
    low, middle, high = (float(dot.get("cx", "0")) for dot in elements(figure, "circle"))
    left, right = (rect for rect in elements(figure, "rect"))
    assert low < float(left.get("x", "0")) + float(left.get("width", "0")) < middle < float(right.get("x", "0")) < high


def test_the_text_has_each_pair_and_what_the_ranges_mean() -> None:
    text = factors((3, 2)).text
    assert "pair 1: 3 / 2 ms = 1.5" in text
    assert "up to 8: DOES NOT HOLD; from 12.5 on: HOLDS; median 1.5" in text


def test_a_fetch_waits_until_the_next_one_arrives() -> None:
    assert SEEN.waits_ms == [800, 50]
    assert (
        "short: fetches 3, records 1, in 1000 ms, the longest waited 800 ms"
        in fetches_over_time({"short": SEEN}, title="t").text
    )


def test_a_finding_is_in_the_shaded_range_exactly_if_its_claim_holds() -> None:
    figure = verdicts({"one": HELD, "another": NOT_HELD}, title="t")
    for dot, shade, is_inside in zip(elements(figure, "circle"), elements(figure, "rect"), (True, False), strict=True):
        start = float(shade.get("x", "0"))
        assert (start <= float(dot.get("cx", "0")) <= start + float(shade.get("width", "0"))) == is_inside
    assert (
        "HOLDS: one; A / B: 20 / 2 ms; factor 10\nDOES NOT HOLD: another; C / D: 3 / 3 bytes; factor 1" in figure.text
    )


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="verdicts needs factors above zero"):
        verdicts({"one": HELD._replace(factor=0)}, title="t")
    with pytest.raises(ValueError, match="numbers above zero"):
        factors((1, 0))
    with pytest.raises(ValueError, match="factors_of_pairs needs at least one value"):
        factors()
