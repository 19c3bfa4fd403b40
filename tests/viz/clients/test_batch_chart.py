"""Batches over time, and the order of a log: what a reader sees is what was handed in."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, batches_over_time, log_orders
from pykraft.viz.clients.batch_chart import SentBatch, trouble_in
from tests.viz.reading import complaints, texts

LONG = "a name that is far too long for the column on the left of any drawing that has one"
SOON = [SentBatch(0, (2.0 * n,), 2.0 * n, 2.0 * n + 10, n, 130) for n in range(30)]
LATER = [SentBatch(0, tuple(range(0, 20, 2)), 20, 30, 1, 900), SentBatch(0, (22, 24), 42, 52, 2, 300)]
ORDERS = {"late": [1, 2, 0, 3], "again": [0, 1, 2, 0, 1, 2, 3], "right": [0, 1, 2, 3]}


@pytest.mark.parametrize(
    "figure",
    [
        batches_over_time({"linger.ms=0": SOON, "linger.ms=20": LATER}, until_ms=60, title="Two", note="A note."),
        batches_over_time({LONG[:60]: SOON}, until_ms=25, title=LONG, note=LONG),
        log_orders(ORDERS, title="Three", note="A note."),
        log_orders({LONG[:60]: list(range(24))}, title=LONG, note=LONG),
    ],
    ids=["batches", "a long name", "orders", "a long log"],
)
def test_a_picture_can_be_read(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_a_row_counts_all_its_batches_also_those_after_the_picture() -> None:
    figure = batches_over_time({"soon": SOON}, until_ms=20, title="t")
    assert {"30 requests", "median 10 ms"} <= set(texts(figure))
    assert "soon: 30 records in 30 requests, a record is acknowledged after 10.0 ms in the median" in figure.text


def test_batches_of_one_request_count_once() -> None:
    together = [SentBatch(partition, (0.0, 1.0), 5, 9, 1, 200) for partition in range(3)]
    assert "6 records in 1 requests" in batches_over_time({"a": together}, until_ms=10, title="t").text


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ([0, 1, 2], "each once, in order"),
        ([1, 2, 0], "0 late"),
        ([0, 0, 1], "0 twice"),
        ([0, 1, 2, 0, 1, 2, 3], "0 to 2 twice"),
        ([2, 0, 1, 2], "0 and 1 late, 2 twice"),
    ],
)
def test_an_order_says_what_is_wrong_with_it(order: list[int], said: str) -> None:
    assert str(trouble_in(order)) == said
    assert f"({said})" in log_orders({"log": order}, title="t").text


@pytest.mark.parametrize("rows", [{}, {"a": []}, {"a": SOON[5:]}])
def test_nothing_to_draw_is_said(rows: dict[str, list[SentBatch]]) -> None:
    with pytest.raises(ValueError, match="needs at least one value"):
        batches_over_time(rows, until_ms=5, title="t")


@pytest.mark.parametrize("order", [[], list(range(25))])
def test_a_log_that_is_empty_or_too_long_is_refused(order: list[int]) -> None:
    with pytest.raises(ValueError, match="log_orders draws 1 to 24 records"):
        log_orders({"log": order}, title="t")
