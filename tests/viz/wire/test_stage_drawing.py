"""Where a broker's requests are, as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from pykraft.viz import StageCounts, broker_stages
from pykraft.viz.drawing.palette import GREEN, ORANGE, PURPLE, SKY, YELLOW
from pykraft.viz.drawing.svg import overlaps

FLOOD = StageCounts(
    sockets=4, network=1, network_threads=2, queue=3, capacity=5, handlers=2, handler_threads=2, purgatory=7
)
EMPTY = StageCounts(0, 0, 3, 0, 500, 0, 8, 0)


def test_every_request_is_a_square_in_its_stage_and_a_number_in_the_text() -> None:
    figure = broker_stages(FLOOD, title="A flood", note="A note.")
    ElementTree.fromstring(figure.svg)
    squares = {"sockets": YELLOW, "network": SKY, "queue": ORANGE, "handlers": GREEN, "purgatory": PURPLE}
    assert {name: figure.svg.count(colour) for name, colour in squares.items()} == {
        name: getattr(FLOOD, name) for name in squares
    }
    assert FLOOD.inside == 6
    lines = ["in sockets: 4", "network threads: 1 of 2", "request queue: 3 of 5", "handlers: 2 of 2", "purgatory: 7"]
    assert figure.text.splitlines() == ["A flood", "A note.", *lines]


@pytest.mark.parametrize("counts", [FLOOD, EMPTY, FLOOD._replace(queue=9)])
def test_no_text_stands_on_another_and_the_picture_has_an_end(counts: StageCounts) -> None:
    figure = broker_stages(counts, title="Stages")
    assert overlaps(figure.boxes) == []
    assert figure.height < 500
