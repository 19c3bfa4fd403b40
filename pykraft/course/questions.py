"""The questions of a notebook that the reader answers before the run: their options, and why each wrong one is wrong.

They lie beside the notebooks, ``notebooks/questions/23.toml``, so that a cell needs one line to ask and one to answer::

    [tasks]
    a = "2: one for each core"
    b = "5: one for each partition that has records"

    [tasks.why]
    a = "cores limit how many tasks run at once, not how many there are."

A notebook may also bring the options along in its cell; then it needs no file.
"""

import tomllib
from typing import NamedTuple

from pykraft.course.places import NOTEBOOKS


class Question(NamedTuple):
    """The options by their letters, and a sentence for each wrong one."""

    options: dict[str, str]
    why: dict[str, str]


def questions(number: str) -> dict[str, Question]:
    """The questions of a notebook by their names; none if it has no file."""
    path = NOTEBOOKS / "questions" / f"{number}.toml"
    if not path.exists():
        return {}
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        name: Question({letter: text for letter, text in table.items() if letter != "why"}, table.get("why", {}))
        for name, table in found.items()
    }
