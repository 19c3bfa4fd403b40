"""The picture in README is what the board draws today."""

from __future__ import annotations

from tests.harness.tree import ROOT
from tests.viz.reading import complaints
from tests.viz.readme_picture import PICTURE, readme_picture


def test_the_picture_in_readme_is_what_the_board_draws_today() -> None:
    assert PICTURE.read_text() == readme_picture().svg + "\n", "python -m tests.viz.readme_picture draws it again"
    assert list(complaints(readme_picture())) == []


def test_readme_shows_it_and_says_in_words_what_is_to_be_seen() -> None:
    readme = (ROOT / "README.md").read_text()
    path = PICTURE.relative_to(ROOT).as_posix()
    assert f"]({path})" in readme
    before = readme.partition(f"]({path})")[0].rpartition("![")[2]
    assert {"Node 1", "cut off", "epoch 0"} <= {word for word in ("Node 1", "cut off", "epoch 0") if word in before}
