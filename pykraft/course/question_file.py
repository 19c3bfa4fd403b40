"""The questions of a notebook that the reader answers before the run: their options, and why each wrong one is wrong.

They lie beside the notebooks, ``notebooks/questions/23.toml``, so that a cell needs one line to ask and one to answer::

    [tasks]
    a = "2: one for each core"
    b = "5: one for each partition that has records"

    [tasks.why]
    a = "cores limit how many tasks run at once, not how many there are."

The option that turns out right needs no sentence: the claim after it says why. A notebook may also bring the options
along in its cell; then it needs no file.
"""

import tomllib
from typing import Any

from pykraft.course.places import NOTEBOOKS


def questions(number: str) -> dict[str, dict[str, tuple[str, str]]]:
    """The questions of a notebook by their names, each with its options: letter -> (text, sentence); none if it has no
    file."""
    path = NOTEBOOKS / "questions" / f"{number}.toml"
    if not path.exists():
        return {}
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: _options(table) for name, table in found.items()}


def _options(table: dict[str, Any]) -> dict[str, tuple[str, str]]:
    why = table.get("why", {})
    return {letter: (text, why.get(letter, "")) for letter, text in table.items() if letter != "why"}
