"""Facts that a notebook states in its text: plain tests, asked in the notebook's own run.

A notebook has at most four claims. What else it says is held by the functions of tests/notebooks/facts/notebook_NN.py:

    @fact("A reader that is away longer than delete.retention.ms keeps the deleted key.", after='nb.answer("ghost")')
    def ghosts(away: Any, new: Any) -> None:
        assert away.table.keys() - new.table.keys() == {b"C"}

Its parameters are names of the notebook. It runs in the kernel, right after the only cell that has the text `after`,
and leaves nothing there. So it costs no run of its own: it is a test among the cells that nbval runs, and a cell in
those runs that plant a bug (tests/notebooks/sections.py). A function's imports are its own.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import nbformat

from tests.harness.tree import ROOT

FOLDER = ROOT / "tests" / "notebooks" / "facts"
NUMBERS = sorted(path.stem.removeprefix("notebook_") for path in FOLDER.glob("notebook_*.py"))
FAILED = "this does not hold: "


class Fact(NamedTuple):
    """One sentence, the text of the cell after which it is asked, and what asks it, as the code of a cell."""

    text: str
    after: str
    code: str


def fact(text: str, after: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a function of a notebook's facts."""

    def marked(function: Callable[..., None]) -> Callable[..., None]:
        function.fact = text, after  # type: ignore[attr-defined]
        return function

    return marked


def facts_of(number: str) -> list[Fact]:
    """The facts of a notebook, such as "08", in the order of their file."""
    if number not in NUMBERS:
        return []
    module = importlib.import_module(f"tests.notebooks.facts.notebook_{number}")
    found = [thing for thing in vars(module).values() if hasattr(thing, "fact")]
    return [Fact(*function.fact, _code(function, function.fact[0])) for function in found]


def _code(function: Callable[..., None], text: str) -> str:
    """A cell that calls the function with the notebook's names, and binds none."""
    source = textwrap.dedent(inspect.getsource(function))
    source = "from __future__ import annotations\n" + source[source.index("def ") :]
    names = list(inspect.signature(function).parameters)
    return f"""\
def _ask_fact(source, name, values):
    space = {{}}
    exec(source, space)
    try:
        space[name](*values)
    except AssertionError as error:
        raise AssertionError({FAILED + text!r} + f" ({{error}})" * bool(str(error))) from None
_ask_fact({source!r}, {function.__name__!r}, [{", ".join(names)}])
del _ask_fact"""


def asked_after(cells: list[Any], number: str) -> Iterator[tuple[int, Fact]]:
    """Each fact with the place of its cell among these. ValueError if not exactly one has the text."""
    for one in facts_of(number):
        places = [place for place, cell in enumerate(cells) if cell.cell_type == "code" and one.after in cell.source]
        if len(places) != 1:
            raise ValueError(f"notebook {number}: {len(places)} cells have the text {one.after!r}, not one")
        yield places[0], one


def with_facts(notebook: Any, number: str) -> None:
    """Put a cell for each fact into a notebook. One that is not so is named by the last cell, beside the claims."""
    after: dict[int, list[Any]] = {}
    for place, one in asked_after(notebook.cells, number):
        source = f"try:\n{textwrap.indent(one.code, '    ')}\nexcept AssertionError:\n    nb.claim({one.text!r}, False)"
        cell = nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
        after.setdefault(place, []).append(cell)
    notebook.cells = [cell for place, own in enumerate(notebook.cells) for cell in (own, *after.get(place, ()))]
