"""Small on purpose, and clean: sizes, module theories, and what no file of the project may hold.

The limits are for reading: a module of 600 lines is an evening, a function of 60 a screen. A theory is the docstring
that opens a module; a line is not one. An `__init__.py` may be short, for its folder's modules carry the theory.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.harness.tree import ROOT, project_files
from tests.style.sources import nodes_of, tree_of

MODULE_LINES = 600
FUNCTION_LINES = 60
THEORY_WORDS = 12
ROOM_MODULES = 15
MORE_MODULES = "more than 15"
"""A folder with more says why, in a sentence of its `__init__` that has these words."""

TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".ipynb", ".lock", ".txt", ".json", ".sh", ".cfg", ""}
# Each pattern begins with a character, so that a search goes from one of these to the next: there are 18 MB of text.
UNWANTED = {
    "an absolute path of one machine": re.compile(r"/(?<![\w.]/)(?:work|root|home|Users)/\w"),
    "a mark of unfinished work": re.compile(r"(?:T(?<!\w.)ODO|F(?<!\w.)IXME|X(?<!\w.)XX|H(?<!\w.)ACK)\b"),
}
IN_ANY_CASE = {
    "a package registry or mirror": re.compile(
        r"pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.|maven\.apache\.org|repo1\.maven|docker\.io|ghcr\.io"
        r"|--(?:extra-)?index-url|--find[-]links|--trusted[-]host"
    ),
}
"""These look at the text in small letters."""


def size_problems(path: str, text: str) -> Iterator[str]:
    """What is too long in a module of pykraft, or missing at its top."""
    lines = text.count("\n")
    if lines > MODULE_LINES:
        yield f"{path}: {lines} lines, more than {MODULE_LINES}"
    for node in nodes_of(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {size} lines, more than {FUNCTION_LINES}"
    words = len((ast.get_docstring(tree_of(text)) or "").split())
    wanted = 1 if path.endswith("__init__.py") else THEORY_WORDS
    if words < wanted:
        yield f"{path}: a theory of {words} words opens this module; say what it holds and why"


def unwanted(path: str, text: str) -> Iterator[str]:
    """Lines of any text file that do not belong into a published project."""
    for patterns, searched in ((UNWANTED, text), (IN_ANY_CASE, text.lower())):
        found = {kind: pattern for kind, pattern in patterns.items() if pattern.search(searched)}
        for number, line in enumerate(searched.split("\n") if found else (), start=1):
            yield from (f"{path}:{number}: {kind}" for kind, pattern in found.items() if pattern.search(line))


def test_modules_and_functions_are_small_and_open_with_their_theory() -> None:
    paths = [path for path in project_files() if path.parts[0] == "pykraft" and path.suffix == ".py"]
    found = [v for path in paths for v in size_problems(path.as_posix(), (ROOT / path).read_text())]
    assert paths
    assert not found, "\n".join(found)


def crowded(counts: dict[str, int], texts: dict[str, str]) -> list[str]:
    """The folders with too many modules whose text does not say why."""
    return [name for name, count in counts.items() if count > ROOM_MODULES and MORE_MODULES not in texts[name]]


def test_a_room_has_at_most_15_modules_or_says_why_it_has_more() -> None:
    inits = list((ROOT / "pykraft").rglob("__init__.py"))
    counts = {init.parent.as_posix(): len(list(init.parent.glob("*.py"))) - 1 for init in inits}
    texts = {init.parent.as_posix(): " ".join(init.read_text(encoding="utf-8").split()) for init in inits}
    assert crowded(counts, texts) == []
    assert crowded({"a": 16}, {"a": "Many modules."}) == ["a"]
    assert crowded({"a": 16, "b": 15}, {"a": "It has more than 15 modules, for each is short.", "b": ""}) == []


def test_no_file_holds_what_does_not_belong_here() -> None:
    found: list[str] = []
    for path in project_files():
        if path.suffix in TEXT and path.parts[:2] != ("tests", "golden") and path.name != "LICENSE":
            found += unwanted(path.as_posix(), (ROOT / path).read_text(encoding="utf-8"))
    assert not found, "\n".join(found)


def test_the_sizes_can_fail() -> None:
    theory = '"""' + "word " * THEORY_WORDS + '"""\n'
    long_function = "def f():\n" + "    pass\n" * FUNCTION_LINES
    nested = "class C:\n    async def g(self):\n" + "        pass\n" * FUNCTION_LINES
    assert not list(size_problems("m.py", theory + "def f(): pass\n"))
    assert "f has 61 lines" in next(size_problems("m.py", theory + long_function))
    assert "g has 61 lines" in next(size_problems("m.py", theory + nested))
    assert "601 lines" in next(size_problems("m.py", theory + "\n" * MODULE_LINES))
    assert "theory of 3 words" in next(size_problems("m.py", '"""Holds the log."""\n'))
    assert not list(size_problems("a/__init__.py", '"""The log."""\n'))
    assert list(size_problems("a/__init__.py", "")) != []


@pytest.mark.parametrize(
    "line",
    [
        "path = '/" + "home/ann/kafka'",
        "see /" + "root/x",
        "https://" + "pypi" + ".org/simple",
        "pip install --index" + "-url x",
        "https://" + "PyPI" + ".org/simple",
        "# TO" + "DO later",
        "/" + "home/ann begins the text",
        "x = 1  # FIX" + "ME",
    ],
)
def test_an_unwanted_line_is_seen(line: str) -> None:
    assert len(list(unwanted("a.py", line))) == 1


@pytest.mark.parametrize(
    "line",
    ["log.dirs=/tmp/kafka-logs", "a home/work balance", "the root/leaf", "x./home/y", "hacks, todo", "a_TODO", "TODOS"],
)
def test_a_harmless_line_passes(line: str) -> None:
    assert not list(unwanted("a.py", line))
