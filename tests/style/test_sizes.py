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

MODULE_LINES = 600
FUNCTION_LINES = 60
THEORY_WORDS = 12

TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".ipynb", ".lock", ".txt", ".json", ".sh", ".cfg", ""}
UNWANTED = {
    "an absolute path of one machine": re.compile(r"(?<![\w.])/(?:work|root|home|Users)/\w"),
    "a package registry or mirror": re.compile(
        r"pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.|maven\.apache\.org|repo1\.maven|docker\.io|ghcr\.io"
        r"|--(?:extra-)?index-url|--find[-]links|--trusted[-]host",
        re.IGNORECASE,
    ),
    "a mark of unfinished work": re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX|[H]ACK)\b"),
}


def size_problems(path: str, text: str) -> Iterator[str]:
    """What is too long in a module of pykraft, or missing at its top."""
    lines = text.count("\n")
    if lines > MODULE_LINES:
        yield f"{path}: {lines} lines, more than {MODULE_LINES}"
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {size} lines, more than {FUNCTION_LINES}"
    words = len((ast.get_docstring(tree) or "").split())
    wanted = 1 if path.endswith("__init__.py") else THEORY_WORDS
    if words < wanted:
        yield f"{path}: a theory of {words} words opens this module; say what it holds and why"


def unwanted(path: str, text: str) -> Iterator[str]:
    """Lines of any text file that do not belong into a published project."""
    for number, line in enumerate(text.split("\n"), start=1):
        yield from (f"{path}:{number}: {kind}" for kind, pattern in UNWANTED.items() if pattern.search(line))


def test_modules_and_functions_are_small_and_open_with_their_theory() -> None:
    paths = [path for path in project_files() if path.parts[0] == "pykraft" and path.suffix == ".py"]
    found = [v for path in paths for v in size_problems(path.as_posix(), (ROOT / path).read_text())]
    assert paths
    assert not found, "\n".join(found)


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
        "# TO" + "DO later",
        "x = 1  # FIX" + "ME",
    ],
)
def test_an_unwanted_line_is_seen(line: str) -> None:
    assert len(list(unwanted("a.py", line))) == 1


@pytest.mark.parametrize("line", ["log.dirs=/tmp/kafka-logs", "a home/work balance", "the root/leaf", "hacks, todo"])
def test_a_harmless_line_passes(line: str) -> None:
    assert not list(unwanted("a.py", line))
