"""The chart of logs and the tasks that read them: one scale for all strips, a number for each task on both sides."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, read_by_tasks
from pykraft.viz.drawing import palette
from pykraft.viz.measured.task_chart import lanes
from tests.viz.reading import complaints, elements, texts

PIECES = {"t-0": [(0, 100, 0), (100, 200, 1)], "t-1": [], "t-2": [(0, 50, 2)]}
RAN = [(0, 0.0, 1.0), (1, 0.0, 0.4), (2, 0.41, 0.5)]
LONG = "a name that is <b>not</b> short & goes on " * 100


def a_chart() -> Figure:
    return read_by_tasks(PIECES, RAN, title="Task 0 takes longest", note="Two cores.")


@pytest.mark.parametrize(
    "figure",
    [
        a_chart(),
        read_by_tasks({"t-0": [(0, 9, None)], "t-1": []}, title="No task has begun"),
        read_by_tasks({"t-0": [], "t-1": []}, title="Nothing at all"),
        read_by_tasks({LONG: [(0, 9**15, 10**9)]}, [(10**9, 0.0, 9.0**9)], title=LONG, note=LONG),
        read_by_tasks({"t-0": [(n, n + 1, n) for n in range(200)]}, [(n, n, 1) for n in range(200)], title="Many"),
        read_by_tasks({"t-0": [(n, n + 1, n) for n in range(50)]}, [(n, 0, 1) for n in range(50)], title="At once"),
    ],
    ids=["two cores", "no task", "nothing", "all of it long", "many tasks", "many lanes"],
)
def test_every_chart_of_tasks_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_the_text_tells_which_task_reads_which_offsets_and_when() -> None:
    text = a_chart().text
    assert "t-0: 0 to 99 by task 0, 100 to 199 by task 1" in text
    assert "t-1: empty" in text
    assert "task 2: from 0.41 s, for 0.50 s" in text


def test_a_task_has_its_number_and_the_colour_of_its_partition_on_both_sides() -> None:
    assert sorted(text for text in texts(a_chart()) if text in ("0", "1", "2")) == ["0", "0", "1", "1", "2", "2"]
    fills = [rect.get("fill") for rect in elements(a_chart(), "rect")]
    assert [fills.count(colour) for colour in (palette.BLUE, palette.GREEN)] == [4, 2]


def test_equal_numbers_of_records_have_equal_widths() -> None:
    widths = [float(rect.get("width", "0")) for rect in elements(a_chart(), "rect")][:3]
    assert widths[0] == pytest.approx(widths[1], abs=0.2) == pytest.approx(2 * widths[2], abs=0.3)


def test_a_task_goes_into_the_lane_whose_task_has_ended() -> None:
    assert lanes(RAN) == [[(0, 0.0, 1.0)], [(1, 0.0, 0.4), (2, 0.41, 0.5)]]
    assert len(lanes([(n, 0.0, 1.0) for n in range(4)])) == 4
