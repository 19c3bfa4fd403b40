"""The log beside its image: a line from each record to the row that it is about, none from a record about nothing."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, image_map
from tests.viz.reading import complaints, elements, texts

LONG = "a name that is <b>not</b> short & goes on " * 100
RECORDS = [
    (3, "RegisterBroker", ("broker", "1")),
    (4, "NoOp", None),
    (5, "BrokerRegistrationChange", ("broker", "1")),
    (6, "RemoveTopic", ("topic", "gone")),
]
IMAGE = {("broker", "1"): "unfenced, epoch 3", ("broker", "2"): "fenced, epoch 1"}


def a_figure() -> Figure:
    return image_map(RECORDS, IMAGE, title="Two records make one row")


@pytest.mark.parametrize(
    "figure",
    [
        a_figure(),
        image_map([(0, "NoOp", None)], {}, title="Nothing is said", note="One record."),
        image_map([(10**9, LONG, ("setting", LONG))] * 40, {("setting", LONG): LONG}, title=LONG, note=LONG),
        image_map([(0, "NewKind", ("new", "x"))], {("new", "x"): "y"}, title="A kind without a colour of its own"),
    ],
    ids=["one row", "no row", "all of it long", "a new kind"],
)
def test_every_map_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_a_line_leads_from_each_record_to_its_row_and_other_rows_are_left_out() -> None:
    assert len(elements(a_figure(), "path")) == 2
    assert "broker 2" not in texts(a_figure())


def test_the_text_tells_each_record_and_how_many_made_a_row() -> None:
    assert a_figure().text.splitlines() == [
        "Two records make one row",
        "3 RegisterBroker 1",
        "4 NoOp",
        "5 BrokerRegistrationChange 1",
        "6 RemoveTopic gone",
        "broker 1: unfenced, epoch 3; 2 records",
    ]


@pytest.mark.parametrize("count", [0, 41])
def test_no_record_and_too_many_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="image_map draws 1 to 40 records"):
        image_map([RECORDS[0]] * count, IMAGE, title="x")
