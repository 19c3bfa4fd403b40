"""The chart of a stream's progress: a panel for each figure, the largest and the last value written beside it."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure
from pykraft.viz.measured.stream_chart import stream_over_time
from tests.viz.reading import complaints, elements, texts

SERIES = {"rows per second": [(1.0, 500.0), (2.0, 1_500.0), (3.0, 900.0)], "lag": [(1.0, 40.0), (2.0, 0.0), (3.0, 0.0)]}
LONG = "a name that is <b>not</b> short & goes on " * 100


@pytest.mark.parametrize(
    "figure",
    [
        stream_over_time(SERIES, title="The lag is gone after two seconds", note="A dot is a batch."),
        stream_over_time({"lag": [(5.0, 0.0)]}, title="One batch without a row"),
        stream_over_time({"lag": [(1.0, 1.0)], "state": []}, title="One of them has nothing"),
        stream_over_time({LONG: [(0.0, 9.0**15), (1.0, 0.5)]}, title=LONG, note=LONG),
        stream_over_time({"lag": [(float(n), float(n % 7)) for n in range(500)]}, title="Many batches"),
    ],
    ids=["two panels", "one batch", "nothing", "all of it long", "many batches"],
)
def test_every_chart_of_a_stream_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_the_largest_and_the_last_value_are_written_beside_each_panel() -> None:
    figure = stream_over_time(SERIES, title="The lag is gone")
    assert {"up to 1,500", "900", "up to 40", "0"} <= set(texts(figure))
    assert "rows per second: up to 1,500, at 2.0 s; 900 at the end, at 3.0 s" in figure.text
    assert len(list(elements(figure, "circle"))) == 6


def test_a_stream_without_a_batch_has_no_chart() -> None:
    with pytest.raises(ValueError, match="stream_over_time needs at least one value"):
        stream_over_time({"lag": []}, title="Nothing yet")
