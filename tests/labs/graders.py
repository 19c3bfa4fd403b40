"""What the tests of labs share: the labs there are, and how a solution is measured."""

from __future__ import annotations

import ast
from pathlib import Path

from pykraft.course.places import lab_folders

LABS = lab_folders()
SHORT = [folder.name[:5] for folder in LABS]


def code_lines(text: str) -> int:
    """The lines of a program that are neither blank, nor a comment, nor a docstring."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in told for n, line in lines)


def mutants(folder: Path) -> list[Path]:
    return sorted((folder / "mutants").glob("*.py"))


def killer(mutant: Path) -> str:
    """The check that a mutant says it is caught by."""
    told = ast.get_docstring(ast.parse(mutant.read_text())) or ""
    (line,) = [line for line in told.splitlines() if line.startswith("caught_by: ")]
    return line.removeprefix("caught_by: ")
