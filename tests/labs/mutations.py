"""Small wrong changes to a program, made by rule: what a lab's checks must notice.

Authors of checks think of the mistakes that they know. So the solution is changed in every place where it can be
changed by one of these rules, and each changed program is checked:

* a comparison is flipped: ``<`` becomes ``>=``, and also ``<=``; ``in`` becomes ``not in``; and so on;
* a whole number is off by one, up and down;
* a statement is dropped.

Docstrings, imports, definitions and the marks of tasks stay. A mutant that survives is either a hole in the checks or
no mutant at all: a program that does the same. The few of the second kind are listed in the lab's survivors.txt, each
with its reason, one a line::

    whole = len(data) // 4 * 4 | line dropped | why no check can tell the difference

The first two parts are `Mutation.key`.

A report (`reports`) is changed by two rules: a line is dropped, and a number becomes a tenth of what it was: in the raw
numbers, in tables, and in fields that hold no sentence. What is said in sentences only a reader can judge.
"""

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_SIGNS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_KEPT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass)


@dataclass(frozen=True)
class Mutation:
    """One changed program."""

    line: str
    """The line as it was."""
    change: str
    """What became of it, such as "< becomes <="."""
    number: int
    """Which of the same change on the same line."""
    text: str
    """The whole program, changed."""

    @property
    def key(self) -> str:
        """By which a survivor is listed; it does not change when lines move."""
        return f"{self.line} | {self.change}{f' (number {self.number})' if self.number > 1 else ''}"


def mutations(text: str) -> Iterator[Mutation]:
    """All changed programs, from the top down."""
    lines = text.splitlines()
    seen: dict[tuple[str, str], int] = {}
    for index, change in enumerate(_changes(ast.parse(text))):
        tree = ast.parse(text)
        apply = list(_changes(tree))[index]
        apply.make()
        line = lines[change.line - 1].strip()
        number = seen[line, change.words] = seen.get((line, change.words), 0) + 1
        yield Mutation(line, change.words, number, ast.unparse(ast.fix_missing_locations(tree)) + "\n")


_NUMBER = re.compile(r"(?<![\w.,:-])\d[\d,]*(?:\.\d+)?(?![\w:-])")


def report_mutations(text: str) -> Iterator[Mutation]:
    """All changed reports, from the top down; `text` is a report's Markdown with the marks of its tasks."""
    lines, is_in_task = text.splitlines(), False
    for index, line in enumerate(lines):
        if line.startswith("<!--"):
            is_in_task = not line.startswith("<!-- end")
        elif is_in_task and line and not line.startswith("#"):
            yield Mutation(line.strip(), "line dropped", 1, _joined(lines[:index] + lines[index + 1 :]))
            for number, found in enumerate([] if line.endswith(".") else _NUMBER.finditer(_spaced(line)), 1):
                tenth = str(Decimal(found[0].replace(",", "")) / 10)
                changed = line[: found.start()] + tenth + line[found.end() :]
                yield Mutation(
                    line.strip(),
                    f"{found[0]} becomes {tenth}",
                    number,
                    _joined([*lines[:index], changed, *lines[index + 1 :]]),
                )


def _spaced(line: str) -> str:
    """A line whose commas between columns are no part of a number."""
    is_row = re.match(r"\d{4}-\d\d-\d\d ", line)
    return line.replace(",", " ") if is_row else line


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


@dataclass
class _Change:
    """A change that can be made to a tree."""

    line: int
    words: str
    holder: ast.AST
    name: str
    index: int
    new: ast.AST

    def make(self) -> None:
        if self.index < 0:
            setattr(self.holder, self.name, self.new)
        else:
            getattr(self.holder, self.name)[self.index] = self.new


def _changes(tree: ast.AST) -> Iterator[_Change]:
    for node in ast.walk(tree):
        yield from _of_comparison(node)
        yield from _of_constants(node)
        yield from _of_statements(node)


def _of_comparison(node: ast.AST) -> Iterator[_Change]:
    if not isinstance(node, ast.Compare):
        return
    for index, operator in enumerate(node.ops):
        for table in (_NEGATED, _BOUNDARY):
            new = table.get(type(operator))
            if new is not None:
                words = f"{_SIGNS[type(operator)]} becomes {_SIGNS[new]}"
                yield _Change(node.lineno, words, node, "ops", index, new())


def _of_constants(node: ast.AST) -> Iterator[_Change]:
    for name, value in ast.iter_fields(node):
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(item, ast.Constant) and type(item.value) is int:
                for step in (1, -1):
                    new = copy.copy(item)
                    new.value = item.value + step
                    place = index if isinstance(value, list) else -1
                    yield _Change(item.lineno, f"{item.value} becomes {new.value}", node, name, place, new)


def _of_statements(node: ast.AST) -> Iterator[_Change]:
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        if not isinstance(statements, list) or isinstance(node, ast.Module):
            continue
        for index, statement in enumerate(statements):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_text and not isinstance(statement, _KEPT):
                gone = ast.copy_location(ast.Pass(), statement)
                yield _Change(statement.lineno, "line dropped", node, name, index, gone)


def listed_survivors(text: str) -> dict[str, str]:
    """From survivors.txt, the reason for each key. ValueError for a line that gives none."""
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.rpartition(" | ")
            if " | " not in key or not reason.strip():
                raise ValueError(f"a survivor without a reason: {line!r}")
            found[key.strip()] = reason.strip()
    return found
