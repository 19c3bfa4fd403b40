"""What a measurement is: a row of name, unit, our figure, a peer's, and their ratio; and how rows are shown.

Absolute figures vary by a factor of two from one machine to the next, and from one hour to the next where a machine is
shared. So each figure stands beside a peer's that was measured in the same run, in turn with it. Where a row has a
target, it says whether that is met; a row whose peer is not at hand says so, and is there all the same.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

NOT_AT_HAND = "not at hand"


@dataclass(frozen=True)
class Row:
    """One line of the table. `ours`, `theirs`: medians, or what `how` says. None: not measured; `note` says why."""

    name: str
    unit: str
    ours: float | None
    peer: str
    theirs: float | None
    how: str = ""
    target: str = ""
    is_met: bool | None = None
    our_runs: tuple[float, ...] = ()
    their_runs: tuple[float, ...] = ()
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if self.ours is None or not self.theirs else self.ours / self.theirs

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def beside(
    name: str,
    unit: str,
    ours: Sequence[float],
    peer: str,
    theirs: Sequence[float],
    *,
    note: str = "",
    at_most: float | None = None,
    at_least: float | None = None,
    ratio_at_least: float | None = None,
) -> Row:
    """A row of medians; empty runs were not measured. A target is met by our median alone, or by the ratio."""
    row = Row(name, unit, median(ours), peer, median(theirs), f"median of {len(ours)}", note=note)
    target, is_met = "", None
    if at_most is not None and row.ours is not None:
        target, is_met = f"< {at_most:g} {unit}", row.ours < at_most
    elif at_least is not None and row.ours is not None:
        target, is_met = f">= {at_least:g} {unit}", row.ours >= at_least
    elif ratio_at_least is not None:
        target = f"ratio >= {ratio_at_least:g}"
        is_met = None if row.ratio is None else row.ratio >= ratio_at_least
    return Row(
        row.name, unit, row.ours, peer, row.theirs, row.how, target, is_met, tuple(ours), tuple(theirs), row.note
    )


def worst(
    name: str,
    unit: str,
    ours: Sequence[float],
    peer: str,
    theirs: Sequence[float],
    *,
    note: str = "",
    at_most: float | None = None,
) -> Row:
    """A row of the longest run on each side, with the number of runs."""
    figure = max(ours, default=None)
    is_met = None if at_most is None or figure is None else figure < at_most
    target = "" if at_most is None else f"< {at_most:g} {unit}"
    how = f"longest of {len(ours)}" + (f", peer's of {len(theirs)}" if theirs and len(theirs) != len(ours) else "")
    return Row(
        name, unit, figure, peer, max(theirs, default=None), how, target, is_met, tuple(ours), tuple(theirs), note
    )


def median(runs: Sequence[float]) -> float | None:
    return statistics.median(runs) if runs else None


def table(rows: Iterable[Row]) -> str:
    """All rows, one line each, with the verdict over each target."""
    titles = ("what", "ours", "unit", "peer", "theirs", "ratio", "target", "", "")
    lines = [titles] + [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    right = (1, 4, 5)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    verdict = {True: "met", False: "NOT MET", None: "not judged" if row.target else ""}[row.is_met]
    words = "; ".join(filter(None, (row.how, row.note)))
    return (
        row.name,
        _number(row.ours, "-"),
        row.unit,
        row.peer,
        _number(row.theirs, NOT_AT_HAND if row.peer else ""),
        _number(row.ratio, ""),
        row.target,
        verdict,
        words,
    )


def _number(figure: float | None, otherwise: str) -> str:
    if figure is None:
        return otherwise
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.2f}"


def progress(line: str) -> None:
    """Say what has just been measured, while more is to come."""
    sys.stdout.write(f"  {line}\n")
    sys.stdout.flush()


def load_average() -> str:
    """How busy the machine was in the last minute, where the system tells."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
