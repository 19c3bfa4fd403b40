"""Roles over time: a bar for each role of a node, its epoch as a colour and a number, and marks with their names."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, roles_over_time
from pykraft.viz.measured.role_chart import Bar
from tests.viz.reading import complaints, elements, texts

ROLES = ("unattached", "prospective", "candidate", "leader", "follower", "resigned")
BARS = [
    Bar(1, "follower", 1, 0, 500),
    Bar(1, "candidate", 2, 500, 800),
    Bar(1, "leader", 3, 800, 1000),
    Bar(2, "leader", 1, 0, 300),
]
LONG = "a name that is <b>not</b> short & goes on " * 100


def a_figure() -> Figure:
    return roles_over_time(BARS, marks={"node 2 is killed": 300.0, "too late": 5000.0}, title="Node 1 is elected")


@pytest.mark.parametrize(
    "figure",
    [
        a_figure(),
        roles_over_time([Bar(1, "leader", 10**9, 7, 7)], title="A moment", note="One bar."),
        roles_over_time(
            [Bar(node, role, node, 10 * n, 10 * n + 10) for node in range(5) for n, role in enumerate(ROLES)],
            title=LONG,
            note=LONG,
            marks={LONG: 30.0},
        ),
        roles_over_time([Bar(1, ROLES[n % 6], n, n, n + 1) for n in range(300)], title="Three hundred"),
    ],
    ids=["an election", "a moment", "every role, all of it long", "as many as there may be"],
)
def test_every_chart_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_a_bar_has_its_epoch_as_a_number_and_bars_of_one_epoch_have_one_colour() -> None:
    assert {"● 1", "▲ 2", "◆ 3", "◆ 1"} <= set(texts(a_figure()))
    follower, candidate, leader, other = (rect.get("stroke") for rect in elements(a_figure(), "rect"))
    fills = [rect.get("fill") for rect in elements(a_figure(), "rect")]
    assert fills.count(follower) == 2, "the follower and the leader of epoch 1"
    assert candidate not in fills and leader == other == "currentColor"


def test_a_mark_outside_of_the_time_that_is_drawn_is_left_out() -> None:
    assert "node 2 is killed" in texts(a_figure())
    assert "too late" not in a_figure().text


def test_the_text_tells_marks_and_roles() -> None:
    assert a_figure().text.splitlines()[1:3] == ["300 ms: node 2 is killed", "node 1: follower in epoch 1, 0 to 500 ms"]


@pytest.mark.parametrize("count", [0, 301])
def test_no_bar_and_too_many_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="roles_over_time draws 1 to 300 bars"):
        roles_over_time(BARS[:1] * count, title="x")


def test_the_line_of_a_mark_strikes_through_no_epoch() -> None:
    figure = roles_over_time([Bar(1, "follower", 4, 0, 1000)], title="Struck", marks={"here": 500.0})
    (line,) = [line for line in elements(figure, "line") if line.get("x1") == line.get("x2")]
    (label,) = [box for box in figure.boxes if box.text == "● 4"]
    assert not label.left < float(line.get("x1") or 0) < label.right
