"""Grades the files of a whole class: a folder with one folder for each student, or with one file for each.

::

    hand-ins/ann/lab08.py                        a file named after the lab
    hand-ins/bob/labs/lab08_partitioner/work.py  a copy of the learner's checkout, or of its labs
    hand-ins/cy/work.py, hand-ins/dee.py         where a single lab is graded

What students hand in may be anything, and the run is not watched. Each file is checked in a process of its own, in a
copy of the lab without its solution, with limits of time, memory and disk (`handed_in`). All its child processes end
with it. A file that is missing, endless or broken is a row with its reason, and the next one follows. The rows come in
the order of names. The column of flags says what a person should look at: ways around the checks, a file that is the
solution, and files that are the same.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pykraft.course.labs.grading import RUN_LIMIT_S, Report
from pykraft.course.labs.handed_in import Outline, fingerprint, flags, graded, outline
from pykraft.course.places import lab_file

LARGEST_BYTES = 1_000_000
"""More than this is no solution of a lab."""
PROCESSES = 2
COLUMNS = ("student", "lab", "points", "of", "tasks", "problem", "first failure", "flags", "seed")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Submission:
    """What one student handed in for one lab; `problem` says why there is no file to check."""

    student: str
    lab: Path
    file: Path | None
    problem: str = ""


@dataclass(frozen=True)
class Row:
    """One student's result in one lab."""

    student: str
    report: Report
    total: int
    """The points there are, also where no check has run."""
    flags: tuple[str, ...] = ()
    """What a person should look at."""

    def cells(self) -> tuple[str | int, ...]:
        """As in COLUMNS."""
        report = self.report
        tasks = " ".join(f"{task}={won}/{of}" for task, (won, of) in report.points_by_task().items())
        failed = next((check for check in report.checks if check.message), None)
        words = f"{failed.sentence}: {failed.message.splitlines()[0][:200]}" if failed else ""
        return (
            _text(self.student),
            report.lab[:5],
            report.points,
            self.total,
            tasks,
            _text(report.problem),
            _text(words),
            _text("; ".join(self.flags)),
            report.seed,
        )


def _text(words: str) -> str:
    """Words that a spreadsheet takes for words: a student may call a folder `=1+1`."""
    return f"'{words}" if words.startswith(_FORMULA) else words


def submissions(folder: Path, labs: Sequence[Path]) -> list[Submission]:
    """Every student with every lab, whether there is a file or not."""
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            found += [_submission(entry.name, entry, lab, _names(lab, len(labs) == 1)) for lab in labs]
        elif len(labs) == 1 and entry.suffix == lab_file(labs[0], "work").suffix:
            found.append(_submission(entry.stem, folder, labs[0], (entry.name,)))
    return found


def _names(lab: Path, is_only: bool) -> tuple[str, ...]:
    """Where a student's file may lie, the first that is there counts."""
    work = lab_file(lab, "work").name
    short = lab.name[:5]
    names = (f"labs/{lab.name}/{work}", f"{lab.name}/{work}", f"{short}/{work}", f"{short}{Path(work).suffix}")
    return (*names, work) if is_only else names


def _submission(student: str, folder: Path, lab: Path, names: Sequence[str]) -> Submission:
    for name in names:
        file = folder / name
        if not file.exists() and not file.is_symlink():
            continue
        if not file.resolve().is_relative_to(folder.resolve()):
            return Submission(student, lab, None, f"{name} is a link that leads out of the folder")
        if not file.is_file():
            return Submission(student, lab, None, f"{name} is no file")
        if file.stat().st_size > LARGEST_BYTES:
            return Submission(student, lab, None, f"{name} has more than {LARGEST_BYTES:,} bytes")
        return Submission(student, lab, file.resolve())
    return Submission(student, lab, None, f"nothing was handed in: no {names[-1]}")


def grade_class(
    found: Sequence[Submission], seed: int, limit_s: float = RUN_LIMIT_S, processes: int = PROCESSES
) -> Iterator[Row]:
    """The rows, in order, as they are ready; all with the same seed."""
    outlines = {lab: outline(lab, seed) for lab in {one.lab for one in found}}
    same = _same(found)

    def row(one: Submission) -> Row:
        wanted = outlines[one.lab]
        seen = [*flags(one.lab, one.file), *same.get(one, ())] if one.file is not None else []
        total = sum(points for _, _, points, _ in wanted)
        return Row(one.student, _graded(one, seed, wanted, limit_s), total, tuple(seen))

    with ThreadPoolExecutor(processes) as pool:
        try:
            yield from pool.map(row, found)
        finally:
            pool.shutdown(cancel_futures=True)


def _graded(one: Submission, seed: int, wanted: Outline, limit_s: float) -> Report:
    if one.file is None:
        return Report(one.lab.name, seed, (), one.problem)
    return graded(one.lab, one.file, seed, wanted, limit_s)


def _same(found: Sequence[Submission]) -> dict[Submission, list[str]]:
    """For each file the students who handed in the same; but for names where there is no such one."""
    said: dict[Submission, list[str]] = {}
    for has_names, words in ((False, "the same with other names as"), (True, "the same as")):
        alike: dict[tuple[Path, str], list[Submission]] = defaultdict(list)
        for one in found:
            if one.file is not None:
                text = one.file.read_text(encoding="utf-8-sig", errors="replace")
                alike[one.lab, fingerprint(text, has_names)].append(one)
        for group in alike.values():
            for one in group:
                others = ", ".join(other.student for other in group if other is not one)
                if others:
                    said[one] = [f"{words} {others}"]
    return said


def write_csv(rows: Iterator[Row], to: IO[str]) -> Iterator[Row]:
    """Write each row at once, and pass it on: what is written stays if the run is stopped."""
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(row.cells())
        to.flush()
        yield row
