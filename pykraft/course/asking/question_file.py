"""The questions of a notebook: their options, which one is right, and why each other one is wrong.

They are in a file beside the notebooks, ``notebooks/questions/23.toml``. So a cell needs one line to ask,
``nb.predict("tasks")``, and one to answer, ``nb.answer("tasks")``, and no cell's text gives the answer away::

    [tasks]
    ask = "How many tasks does Spark start?"
    a = "2: one for each core"
    b = "5: one for each partition that has records"
    right = "b"

    [tasks.why]
    a = "cores limit how many tasks run at once, not how many there are."

`ask` is shown above the options; a question whose words are in the cell above needs none. The right option needs no
sentence: the claim after it says why. If the machine decides, `right` has the largest measured number of each option,
``right = { a = 3, b = 100, c = inf }``, and the cell gives the number: ``nb.answer("random", factor)``.

A question that is answered on a picture (`picture_guess`) has a scale in place of options::

    [truncated]
    ask = "To which offset does node 2 truncate its log?"
    unit = "offset"
    low = 0
    high = 20
    start = 10

A notebook may also bring the options along in its cell; then it needs no file.
"""

import tomllib
from typing import Any, NamedTuple

from pykraft.course.places import NOTEBOOKS

_NO_OPTION = ("ask", "why", "right")


class Scale(NamedTuple):
    """What a guess on a picture can be: a number from `low` to `high`, in steps; the marker begins at `start`."""

    ask: str
    unit: str
    low: float
    high: float
    start: float
    step: float = 1


def questions(number: str) -> dict[str, dict[str, tuple[str, str]]]:
    """The questions of a notebook that have options, by their names: letter -> (text, sentence); none if it has no
    file."""
    return {name: _options(table) for name, table in _tables(number).items() if "low" not in table}


def scales(number: str) -> dict[str, Scale]:
    """The questions of a notebook that are answered on a picture, by their names."""
    return {name: Scale(**table) for name, table in _tables(number).items() if "low" in table}


def asked(number: str, name: str) -> str:
    """The question itself, in words; "" if the file does not have it."""
    return str(_tables(number).get(name, {}).get("ask", ""))


def is_measured(number: str, name: str) -> bool:
    """Whether the right option depends on what this machine has measured."""
    return isinstance(_tables(number).get(name, {}).get("right"), dict)


def right_letter(number: str, name: str, measured: float | None = None) -> str | None:
    """The letter of the right option; `measured` is needed where the machine decides. None if the file has no such
    question, or does not say."""
    right = _tables(number).get(name, {}).get("right")
    if not isinstance(right, dict):
        return None if right is None else str(right)
    if measured is None:
        return None
    return next((letter for letter, largest in right.items() if measured <= largest), None)


def _tables(number: str) -> dict[str, Any]:
    path = NOTEBOOKS / "questions" / f"{number}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _options(table: dict[str, Any]) -> dict[str, tuple[str, str]]:
    why = table.get("why", {})
    return {letter: (text, why.get(letter, "")) for letter, text in table.items() if letter not in _NO_OPTION}
