"""What the tests of labs share: the labs there are, and how a solution is measured."""

from __future__ import annotations

import ast
from pathlib import Path

from pykraft.course.places import is_report, lab_folders

LABS = lab_folders()
REPORTS = [folder for folder in LABS if is_report(folder)]
PROGRAMS = [folder for folder in LABS if not is_report(folder)]
SHORT = [folder.name[:5] for folder in LABS]


def lines_of(path: Path) -> int:
    """How long a solution is: the lines of code of a program, all but the blank ones of a report."""
    text = path.read_text()
    return code_lines(text) if path.suffix == ".py" else sum(bool(line.strip()) for line in text.splitlines())


def code_lines(text: str) -> int:
    """The lines of a program that are neither blank, nor a comment, nor a docstring."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in told for n, line in lines)


def mutants(folder: Path) -> list[Path]:
    return sorted((folder / "mutants").glob("*.md" if is_report(folder) else "*.py"))


def killer(mutant: Path) -> str:
    """The check that a mutant says it is caught by: in its docstring, a report's in the comment that it begins with."""
    text = mutant.read_text()
    told = (ast.get_docstring(ast.parse(text)) or "") if mutant.suffix == ".py" else text.partition(" -->")[0]
    (line,) = [line for line in told.splitlines() if line.startswith("caught_by: ")]
    return line.removeprefix("caught_by: ")
