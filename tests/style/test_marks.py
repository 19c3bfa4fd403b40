"""The table of marks says what the code does: the names are those under which rooms are marked, and no others."""

from __future__ import annotations

import re

from pykraft.broker.turns.marks import MARKS
from tests.harness.tree import ROOT

MARK = re.compile(
    r"""room\.mark(?:\(|, )"([^"]+)"|wake_by\([^\n]*, "([^"]+)"\)|_(?:opening|serving_waiting)\.mark\("([^"]+)"\)"""
)


def test_the_table_names_the_marks_that_are_set() -> None:
    texts = [path.read_text() for path in sorted((ROOT / "pykraft").rglob("*.py")) if path.name != "rooms.py"]
    set_in_code = {"".join(found) for text in texts for found in MARK.findall(text)}
    assert set_in_code == {mark for marks in MARKS.values() for mark in marks}
