"""What a grader does with a submitted file: a run that is harder to fool, and a look at the text.

The run is in a copy of the lab without its solution, with a limit of memory, a signed report and a check that must fail
(`canary`). What it reports must be the lab's own checks, with their names and points, as a run of the solution has
them.

The look finds what a solution of a lab has no reason for (`exec`, `sys.modules` and the like), and files that are the
solution, or each other, but for comments, or but for names. That is a reason to talk to a student, and takes no points.

None of this is a wall: the file and the checks share a process, and Python lets a program change anything in it.
"""

import ast
import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pykraft.course.labs.grading import RUN_LIMIT_S, Check, Report, grade
from pykraft.course.places import is_report, lab_file

MEMORY_BYTES = 4 << 30
_LEFT_OUT = ("mutants", "lab.ipynb", "__pycache__", ".ipynb_checkpoints", "work.py", "work.md", "solution.py")
_CALLS = frozenset({"exec", "eval", "compile", "__import__"})
_PARTS = frozenset(
    {"modules", "_exit", "_getframe", "__builtins__", "__closure__", "__globals__", "__subclasses__", "f_back"}
)
_IMPORTS = frozenset({"builtins", "ctypes", "gc", "importlib", "inspect", "pkgutil", "pykraft", "pytest", "runpy"})
_FILES = ("solution", "test_lab", "PYKRAFT_LAB")

Outline = list[tuple[str, str, int, int]]
"""Of each check its name, its task, its points and the number of its cases."""


def outline(lab: Path, seed: int) -> Outline:
    """The checks that a lab has, as they report on the solution."""
    return _outline(grade(lab, lab_file(lab, "solution"), seed).checks)


def _outline(checks: Sequence[Check]) -> Outline:
    return sorted((check.name, check.task, check.points, check.cases) for check in checks)


def graded(lab: Path, file: Path, seed: int, wanted: Outline, limit_s: float = RUN_LIMIT_S) -> Report:
    """What the checks of a lab say of a file, in a copy of both: what runs in one student's name cannot change the
    checks for the next, and has no solution beside it."""
    with tempfile.TemporaryDirectory(prefix="pykraft-class-") as scratch:
        copy = Path(scratch) / lab.name
        shutil.copytree(lab, copy, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        (Path(scratch) / "handed-in").mkdir()
        mine = Path(scratch) / "handed-in" / file.name
        shutil.copyfile(file, mine)
        found = grade(copy, mine, seed, limit_s, memory_bytes=MEMORY_BYTES, has_canary=True)
    if not found.problem and _outline(found.checks) != wanted:
        return Report(lab.name, seed, (), "the checks that reported are not those of the lab")
    return found


# --- the look at the text ---------------------------------------------------------------------------------------------


def flags(lab: Path, file: Path) -> list[str]:
    """What a person should look at in a file; nothing if it cannot be read."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        solution = lab_file(lab, "solution").read_text(encoding="utf-8")
        found = [] if is_report(lab) else _suspicious(ast.parse(text))
        if fingerprint(text) == fingerprint(solution):
            return [*found, "is the solution"]
        if not is_report(lab) and fingerprint(text, False) == fingerprint(solution, False):
            return [*found, "is the solution with other names"]
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError, RecursionError):
        return []
    return found


def _suspicious(tree: ast.AST) -> list[str]:
    """What in a program is a way around its checks."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {f"imports {each.name}" for each in node.names if each.name.partition(".")[0] in _IMPORTS}
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").partition(".")[0]
            found |= {f"imports {module}"} if module in _IMPORTS else set()
            found |= {f"uses {each.name}" for each in node.names if each.name in _PARTS}
        elif isinstance(node, ast.Name) and node.id in _CALLS:
            found.add(f"uses {node.id}")
        elif isinstance(node, ast.Attribute) and node.attr in _PARTS:
            found.add(f"uses {node.attr}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {f"names {each}" for each in (*_FILES, *_PARTS) if each in node.value and len(node.value) < 200}
    return sorted(found)


def fingerprint(text: str, has_names: bool = True) -> str:
    """The same for texts that differ in comments, docstrings and layout only; without names, also for programs in which
    functions and variables are called otherwise."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [each for each in node.body if not _is_docstring(each)] or [ast.Pass()]
            if isinstance(node, ast.FunctionDef):
                node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if not has_names:
            _rename(node, names)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _rename(node: ast.AST, names: dict[str, str]) -> None:
    """Give each name its number, in the order in which they come."""
    for field in ("id", "arg", "attr", "name"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            setattr(node, field, names.setdefault(value, f"n{len(names)}"))
