"""What the tests of labs share: the labs there are, and how a solution is measured."""

from __future__ import annotations

import ast
import functools
import tempfile
from pathlib import Path

from pykraft.course.labs.mutants import Mutant, mutants, wrong_solution
from pykraft.course.places import is_report, lab_file, lab_folders

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


SCRATCH = tempfile.TemporaryDirectory(prefix="pykraft-mutants-")


@functools.cache
def mutant_file(folder: Path, name: str) -> Path:
    """A wrong solution as a file, which can be graded and loaded as a learner's can."""
    (mutant,) = [mutant for mutant in mutants(folder) if mutant.name == name]
    file = Path(SCRATCH.name) / f"{folder.name}-{name}{lab_file(folder, 'solution').suffix}"
    file.write_text(wrong_solution(folder, mutant), encoding="utf-8")
    return file


def mutant_files(folder: Path) -> dict[Mutant, Path]:
    return {mutant: mutant_file(folder, mutant.name) for mutant in mutants(folder)}
