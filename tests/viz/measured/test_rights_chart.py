"""A table of rights says each answer in words, and marks what has changed."""

from __future__ import annotations

import pytest

from pykraft.viz import rights_table
from pykraft.viz.drawing.alternative import alternative_of

CELLS = {("read", "alice"): "yes", ("read", "bob"): "denied", ("write", "alice"): "no", ("write", "bob"): "no"}


def test_each_answer_is_a_word_in_the_picture_and_in_its_alternative() -> None:
    figure = rights_table(["read", "write"], ["alice", "bob"], CELLS, title="One may", changed=[("read", "bob")])
    assert figure.text.splitlines()[1:] == [
        "read: alice yes, bob denied",
        "write: alice no, bob no",
        "changed: read by bob",
    ]
    assert [figure.svg.count(f">{word}<") for word in ("yes", "no", "denied")] == [1, 2, 1]
    assert alternative_of(figure.svg) == (
        "One may. read: alice yes, bob denied. write: alice no, bob no. changed: read by bob."
    )


def test_a_cell_that_has_changed_has_a_frame() -> None:
    plain = rights_table(["read", "write"], ["alice", "bob"], CELLS, title="One may")
    framed = rights_table(["read", "write"], ["alice", "bob"], CELLS, title="One may", changed=[("read", "bob")])
    assert framed.svg.count("<rect") == plain.svg.count("<rect") + 1


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [([], ["alice"], "needs a row"), (["read"], [], "needs a row"), (["read"], ["carol"], "says None")],
)
def test_what_cannot_be_drawn_is_an_error(rows: list[str], columns: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rights_table(rows, columns, CELLS, title="None")
