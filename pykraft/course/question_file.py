"""The questions of a notebook that the reader answers before the run: their options, and why each wrong one is wrong.

They lie beside the notebooks, ``notebooks/questions/23.toml``, so that a cell needs one line to ask and one to answer::

    [tasks]
    ask = "How many tasks does Spark start?"
    a = "2: one for each core"
    b = "5: one for each partition that has records"

    [tasks.why]
    a = "cores limit how many tasks run at once, not how many there are."

`ask` is shown above the options; a question whose words are in the cell above needs none. The option that turns out
right needs no sentence: the claim after it says why. A notebook may also bring the options
along in its cell; then it needs no file.
"""

import tomllib
from typing import Any

from pykraft.course.places import NOTEBOOKS


def questions(number: str) -> dict[str, dict[str, tuple[str, str]]]:
    """The questions of a notebook by their names, each with its options: letter -> (text, sentence); none if it has no
    file."""
    return {name: _options(table) for name, table in _tables(number).items()}


def asked(number: str, name: str) -> str:
    """The question itself, in words; "" if the file does not have it."""
    return str(_tables(number).get(name, {}).get("ask", ""))


def _tables(number: str) -> dict[str, Any]:
    path = NOTEBOOKS / "questions" / f"{number}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _options(table: dict[str, Any]) -> dict[str, tuple[str, str]]:
    why = table.get("why", {})
    return {letter: (text, why.get(letter, "")) for letter, text in table.items() if letter not in ("ask", "why")}
