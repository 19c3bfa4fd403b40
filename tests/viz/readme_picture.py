"""The board's picture in README. `python -m tests.viz.readme_picture` draws it again; a test says when it is old."""

from __future__ import annotations

from dataclasses import replace

from pykraft.viz import Figure, board
from tests.harness.tree import ROOT
from tests.viz.views import torn_tail

PICTURE = ROOT / "notebooks" / "pictures" / "board.svg"


def readme_picture() -> Figure:
    """A leader that was cut off, with records that no other node has."""
    return board(
        replace(torn_tail(), time_ms=41_300),
        title="Node 1 is cut off and thinks it still leads",
        note="Seven records of node 1 are in no other log. When the links heal, it truncates them and follows node 2.",
    )


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(readme_picture().svg + "\n")
