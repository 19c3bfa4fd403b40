"""The learner's file and its tasks: two ways in, one file.

``work.py`` begins as a copy of ``starter.py``. Each task is between two marks::

    # --- task 8.1: the hash ---
    def murmur2(data): ...
    # --- end of task 8.1 ---

The learner edits the file, or writes a ``%%task 8.1`` cell in the lab's notebook, which puts the cell's text between
the marks and leaves the rest alone. A cell that still holds the starter's text never replaces what the learner has
written meanwhile: to run the notebook from the top is no reason to lose work.

In a report, ``work.md``, the marks are comments: ``<!-- task 4.1: the claim -->``, ``<!-- end of task 4.1 -->``.
"""

import re
import textwrap
from typing import NamedTuple

_BEGIN = re.compile(r"^(?:# ---|<!--) task (?P<name>[\d.]+): (?P<title>.*?) (?:---|-->)$", re.MULTILINE)
_MARK = re.compile(r"^(?:# ---|<!--) (?:end of )?task [\d.]+.*$", re.MULTILINE)
_AFTER = "\n\n\n"
"""The text between a body and the mark after it: two blank lines, as formatters want them."""


class Task(NamedTuple):
    """A task of a lab: its name, such as "8.1", what it is about, and the text between its marks."""

    name: str
    title: str
    body: str


class TaskError(Exception):
    """A cell or a file that is not as it must be; the text says what to do."""


def tasks(text: str) -> list[Task]:
    """The tasks in a file, in order."""
    return [Task(match["name"], match["title"], body_of(text, match["name"])) for match in _BEGIN.finditer(text)]


def body_of(text: str, name: str) -> str:
    """The text between the marks of a task. TaskError if they are not there."""
    begin, end = _place(text, name)
    return text[begin:end].strip("\n")


def with_body(text: str, name: str, body: str) -> str:
    """The text with another body in this task."""
    begin, end = _place(text, name)
    return f"{text[:begin]}\n{body.strip(chr(10))}{_AFTER}{text[end:]}"


def _place(text: str, name: str) -> tuple[int, int]:
    begin = re.search(rf"^(?:# ---|<!--) task {re.escape(name)}: .*? (?:---|-->)$", text, re.MULTILINE)
    end = re.search(rf"^(?:# ---|<!--) end of task {re.escape(name)} (?:---|-->)$", text, re.MULTILINE)
    if begin is None or end is None or end.start() < begin.end():
        raise TaskError(
            f"the marks of task {name} are not there: its text must stand between the two lines 'task {name}: ...' and "
            f"'end of task {name}', written as in the starter"
        )
    return begin.end(), end.start()


def same(one: str, other: str) -> bool:
    """Whether two pieces of code are the same but for blank lines at their ends."""
    return textwrap.dedent(one).strip() == textwrap.dedent(other).strip()


def saved(work: str, starter: str, name: str, cell: str, is_program: bool = True) -> tuple[str, bool]:
    """The learner's file after a ``%%task`` cell, and whether the cell went in. TaskError if the cell is no Python,
    lacks what the task is to define, or brings marks of its own."""
    try:
        if is_program:
            compile(cell, f"task {name}", "exec")
    except SyntaxError as error:
        line = f" ({error.text.strip()})" if error.text else ""
        raise TaskError(f"line {error.lineno} of the cell is no Python: {error.msg}{line}. Nothing was saved") from None
    mark = _MARK.search(cell)
    if mark:
        raise TaskError(f"the cell holds the mark {mark[0]!r}: leave such lines out, they are in the file already")
    begun = body_of(starter, name)
    missing = [defined for defined in definitions(begun) if defined not in definitions(cell)]
    if missing:
        raise TaskError(f"the cell does not define {' and '.join(missing)}, which task {name} is about")
    if same(cell, begun) and not same(body_of(work, name), begun):
        return work, False
    return with_body(work, name, cell), True


def definitions(text: str) -> list[str]:
    """The names of functions and classes at the top level of some code."""
    return re.findall(r"^(?:def|class) (\w+)", text, re.MULTILINE)


def missing_tasks(work: str, starter: str) -> list[Task]:
    """What the starter has and the learner's file has not: tasks that came later. Where only the marks are gone, the
    learner's functions are there, and a starter's behind them would take their place."""
    known, defined = {match["name"] for match in _BEGIN.finditer(work)}, set(definitions(work))
    return [task for task in tasks(starter) if task.name not in known and not defined & set(definitions(task.body))]


def with_tasks(work: str, starter: str, added: list[Task]) -> str:
    """The learner's file with these tasks of the starter at its end."""
    return "\n\n\n".join([work.rstrip(), *(_section(starter, task.name) for task in added)]) + "\n"


def _section(text: str, name: str) -> str:
    """A task with its two marks."""
    begin, end = _place(text, name)
    return text[text.rfind("\n", 0, begin) + 1 : end] + text[end:].partition("\n")[0]
