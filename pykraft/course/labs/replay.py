"""A failed check once more, at the call where it went wrong.

Nothing in a check is left to chance: its seed and its name say all. So what is kept of a failure is small, the seed,
the check, its words and its last call, and the case is made again by running it again: on the learner's file as it is
now, and on the solution. The calls of both are written down (`calls`) and laid side by side. The first whose answers
differ is shown, bytes as bytes, the learner's answer beside the other one.

Where no answer differs (a check may look at what was read, or at how often) it is the last call that is shown.
"""

import html
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pykraft.course.labs.calls import Value
from pykraft.course.labs.check_terms import FAILED, PASSED
from pykraft.course.labs.grading import Check, Report, grade
from pykraft.viz.wire.hex_dump import letters

_ROW, _ROWS = 16, 12
"""Bytes in a row of a dump, and how many rows are shown."""
_LETTERS = 300
"""Of a check's words."""


@dataclass(frozen=True)
class Failure:
    """What is kept of a check that failed."""

    seed: int
    case: str
    """The check's name, with its case where it has several."""
    sentence: str
    message: str


def first_failure(report: Report) -> Failure | None:
    """The first check that failed; what is not written yet has not failed."""
    for check in report.checks:
        if check.outcome == FAILED and check.case:
            return Failure(report.seed, check.case, check.sentence, check.message)
    return None


def trace(folder: Path, file: Path, seed: int, case: str) -> tuple[Check | None, list[dict[str, Any]]]:
    """Run one case of a check on a file: what came out of it, and the calls that it made."""
    with tempfile.TemporaryDirectory(prefix="pykraft-lab-") as scratch:
        calls = Path(scratch) / "calls.json"
        checks = grade(folder, file, seed, case=case, trace=str(calls)).checks
        found = json.loads(calls.read_text(encoding="utf-8"))["calls"] if calls.exists() else []
        return (checks[0] if checks else None), found


@dataclass(frozen=True)
class Replay:
    """A failed case at the call where it went wrong; without a call where none was made."""

    failure: Failure
    has_passed: bool = False
    call: dict[str, Any] | None = None
    expected: Value | None = None

    @staticmethod
    def of(folder: Path, work: Path, solution: Path | None, failure: Failure) -> "Replay":
        """Run the case again, on both files; without a solution it is the last call that is found."""
        check, mine = trace(folder, work, failure.seed, failure.case)
        if check is not None and check.outcome == PASSED:
            return Replay(failure, has_passed=True)
        if check is not None:
            failure = Failure(failure.seed, failure.case, failure.sentence, check.message or check.outcome)
        _, others = (None, []) if solution is None else trace(folder, solution, failure.seed, failure.case)
        for call, other in zip(mine, others, strict=False):
            if (call["name"], call["inputs"]) != (other["name"], other["inputs"]):
                break
            if call.get("answer") != other.get("answer"):
                return Replay(failure, call=call, expected=other.get("answer"))
        return Replay(failure, call=mine[-1] if mine else None)

    def as_json(self) -> dict[str, Any]:
        """What is kept in a file."""
        return {**vars(self.failure), "call": self.call}

    @property
    def _head(self) -> str:
        return f"{self.failure.sentence} (seed {self.failure.seed}, {self.failure.case})"

    @property
    def _words(self) -> str:
        return self.failure.message.splitlines()[0][:_LETTERS]

    @property
    def _rows(self) -> list[tuple[str, str]]:
        """What is shown, line by line: its name, and the value."""
        if self.call is None:
            return []
        inputs = self.call["inputs"]
        position = inputs.get("position", {}).get(
            "text", ""
        )  # where the code was to look: its bytes are shown from there
        start = int(position) if position.isdecimal() else None
        rows = [(name, shown(value, start)) for name, value in inputs.items()]
        mine = self.call.get("answer", {"text": "it did not come back"})
        at = first_difference(mine, self.expected)
        rows.append(("your answer", shown(mine, at)))
        if self.expected is not None:
            rows.append(("expected", shown(self.expected, at)))
        if at is not None:
            rows.append(("they differ", f"from byte {at} on"))
        return rows

    def __repr__(self) -> str:
        if self.has_passed:
            return f"✔ {self._head}: it passes now"
        lines = [f"✘ {self._head}", self._words]
        if self.call is not None:
            lines.append(f"call {self.call['number']}: {self.call['name']}")
        for name, value in self._rows:
            first, *more = value.splitlines() or [""]
            lines += [f"  {name:>14}  {first}", *(f"{'':>18}{line}" for line in more)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if self.has_passed or self.call is None:
            return f"<pre>{html.escape(repr(self))}</pre>"
        cell = "<td style='text-align:left;vertical-align:top'>"
        rows = "".join(
            f"<tr>{cell}{html.escape(name)}</td>{cell}<pre>{html.escape(value)}</pre></td></tr>"
            for name, value in self._rows
        )
        head = f"<b>✘ {html.escape(self._head)}</b><br>{html.escape(self._words)}"
        return (
            f"{head}<br>Call {self.call['number']}: <code>{html.escape(self.call['name'])}</code><table>{rows}</table>"
        )


def first_difference(one: Value, other: Value | None) -> int | None:
    """The first byte in which two answers differ, where both are bytes."""
    if other is None or "hex" not in one or "hex" not in other:
        return None
    left, right = bytes.fromhex(one["hex"]), bytes.fromhex(other["hex"])
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def shown(value: Value, at: int | None = None) -> str:
    """A value as text; bytes as rows of sixteen, from a little before the byte `at` on."""
    if "hex" not in value:
        return str(value["text"])
    data = bytes.fromhex(value["hex"])
    start = 0 if at is None else max(0, at // _ROW - 2) * _ROW
    lines = [f"{value['size']:,} bytes"]
    for position in range(start, min(len(data), start + _ROWS * _ROW), _ROW):
        row = data[position : position + _ROW]
        lines.append(f"{position:>6}  {row.hex(' '):<{3 * _ROW - 1}}  {letters(row)}")
    if start + _ROWS * _ROW < value["size"]:
        lines.append("     …")
    return "\n".join(lines)
