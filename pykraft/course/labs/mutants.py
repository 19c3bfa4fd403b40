"""A mutant is a wrong solution that a learner might hand in: a few lines of a lab's solution, changed.

``labs/labNN_.../mutants/NAME.patch`` says what the mistake is, which check must fail, and the change::

    Keeps one partition for all topics together.
    breaks: Each topic has its own
    killed by: test_each_topic_has_a_partition_of_its_own
    @@
    -        self.current[topic] = (partition, sent + size)
    +        self.current[""] = (partition, sent + size)

The second line may be missing. It quotes the words of the lab's README that the mistake breaks: a test wants a mutant
for each rule there with *until, again, each, still* or *only* in it.

A change has lines to remove (``-``), lines to add (``+``) and lines that stay (a space), as in a diff. There are no
line numbers: the old lines must occur exactly once in the solution. A patch that no longer fits is a `PatchError`, so
a solution cannot move away from its mutants unnoticed. Tests grade the checks with them, and the instructor's list of
common mistakes is made from them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from pykraft.course.places import lab_file

BREAKS = "breaks: "
KILLED_BY = "killed by: "
CHANGE = "@@"


class PatchError(ValueError):
    """A mutant's file has a fault, or its change does not fit the solution; the text names both."""


@dataclass(frozen=True)
class Mutant:
    """One wrong solution."""

    name: str
    mistake: str
    """One sentence: what the learner got wrong."""
    breaks: str
    """The words of the README that it breaks, or nothing."""
    killer: str
    """The name of the check that must fail."""
    changes: tuple[tuple[str, str], ...]
    """Old lines and new lines."""

    def applied(self, solution: str) -> str:
        """The wrong solution. PatchError unless each change fits the text in exactly one place."""
        text = solution
        for old, new in self.changes:
            places = [found.start() for found in re.finditer(f"^{re.escape(old)}", text, re.MULTILINE)]
            if len(places) != 1:
                where = f"in {len(places)} places" if places else "nowhere"
                raise PatchError(f"{self.name}.patch: its lines occur {where} in the solution, not once:\n{old}")
            text = text[: places[0]] + new + text[places[0] + len(old) :]
        if text == solution:
            raise PatchError(f"{self.name}.patch changes nothing")
        return text


def mutants(folder: Path) -> list[Mutant]:
    """All mutants of a lab, in the order of their names."""
    return [read_mutant(path) for path in sorted((folder / "mutants").glob("*.patch"))]


def read_mutant(path: Path) -> Mutant:
    """One mutant, from its file. PatchError if it does not have the form above."""
    mistake, _, rest = path.read_text(encoding="utf-8").partition("\n")
    breaks = ""
    if rest.startswith(BREAKS):
        breaks, _, rest = rest.removeprefix(BREAKS).partition("\n")
    killer, _, changes = rest.partition(f"\n{CHANGE}\n")
    if not mistake.endswith(".") or not killer.startswith(KILLED_BY) or not changes:
        raise PatchError(
            f"{path.name} needs one sentence, a line '{KILLED_BY}test_...', a line '{CHANGE}' and a change"
        )
    found = tuple(_change(path, change) for change in changes.split(f"\n{CHANGE}\n"))
    return Mutant(path.stem, mistake, breaks, killer.removeprefix(KILLED_BY), found)


def _change(path: Path, text: str) -> tuple[str, str]:
    old, new = "", ""
    for line in text.splitlines():
        sign, rest = line[:1] or " ", line[1:]
        if sign not in "-+ ":
            raise PatchError(f"{path.name}: a line of a change begins with '-', '+' or a space, not as {line!r} does")
        old += f"{rest}\n" if sign != "+" else ""
        new += f"{rest}\n" if sign != "-" else ""
    if not old:
        raise PatchError(f"{path.name}: a change that only adds lines needs one that stays, to say where")
    return old, new


def wrong_solution(folder: Path, mutant: Mutant) -> str:
    """A lab's solution with one mutant's mistake in it."""
    return mutant.applied(lab_file(folder, "solution").read_text(encoding="utf-8"))
