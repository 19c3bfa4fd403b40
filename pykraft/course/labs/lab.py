"""A lab, as the learner works in it: begin, write, check, take a hint, compare, let a live cluster run on the result.

::

    lab = Lab("08")
    lab.start()              # work.py, the learner's own file, is made once and never overwritten
    lab.check("8.1")         # the checks of one task, in a process of their own
    lab.replay()             # the first check that failed, once more: the call, your answer, the expected one
    lab.hint("8.1")          # the next of three hints
    lab.run_in_cluster()     # the learner's code in the place of pykraft's own
    lab.diff()               # against the solution, once everything has passed
    lab.reveal()             # or at any time, on request
    lab.download()           # a button: the file goes to where the browser runs

Whatever does not work is a `LabError`, one sentence that says what is wrong and what to do.

A lab is a folder, ``labs/labNN_name``: README.md with the problem, the hints and the list of the checks; starter.py and
solution.py; test_lab.py (`checks`); mutants/, wrong solutions that the checks must catch; live.py, which starts a small
cluster and says what the code is plugged into (`plug`); lab.ipynb, the guided route.

A lab whose result is a report (`reports`) has starter.md, work.md and solution.md instead, and nothing to plug in.

In a headless run (`surroundings.is_headless`) the file is a temporary one: a test of the lab's notebook neither finds
nor changes a learner's work.
"""

import atexit
import difflib
import html
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pykraft.course.labs import browser
from pykraft.course.labs.check_terms import TooLong
from pykraft.course.labs.grading import SIGNS, Check, Report, grade
from pykraft.course.labs.loading import load
from pykraft.course.labs.plug import counted_calls
from pykraft.course.labs.replay import Failure, Replay, first_failure
from pykraft.course.labs.task_cells import (
    Task,
    TaskError,
    definitions,
    missing_tasks,
    saved,
    tasks,
    with_tasks,
)
from pykraft.course.places import LABS, NoSuchLab, is_report, lab_file, lab_folder
from pykraft.course.progress import note, read_progress
from pykraft.surroundings import Shown, Told, home, is_headless, is_notebook

HINTS = 3


class LabError(Told):
    """Something that does not work yet, or not this way; the text says what to do."""


class Lab:
    """One lab and one learner."""

    def __init__(self, number: str | int, labs: Path = LABS) -> None:
        """LabError if there is no such lab."""
        try:
            self.folder = lab_folder(number, labs)
        except NoSuchLab as error:
            raise LabError(str(error)) from None
        self.number = self.folder.name[3:5]
        self._hints_taken: dict[str, int] = {}
        self._is_revealed = False

    # --- the files ----------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Such as "lab 08, partitioner"."""
        return f"lab {self.number}, {self.folder.name[6:].replace('_', ' ')}"

    @cached_property
    def work(self) -> Path:
        """The learner's own file."""
        file = lab_file(self.folder, "work")
        if not is_headless():
            return file
        folder = tempfile.mkdtemp(prefix="pykraft-lab-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder) / file.name

    @property
    def starter(self) -> Path:
        return lab_file(self.folder, "starter")

    @property
    def solution(self) -> Path:
        return lab_file(self.folder, "solution")

    @property
    def tasks(self) -> list[Task]:
        return tasks(self.starter.read_text(encoding="utf-8"))

    def _task(self, name: str | float) -> Task:
        found = {task.name: task for task in self.tasks}
        if str(name) not in found:
            raise LabError(f"{self.name} has no task {name!r}: it has {', '.join(found)}")
        return found[str(name)]

    def _begun(self) -> Path:
        if not self.work.exists():
            raise LabError(f"{self.name} is not begun: call lab.start() first")
        return self.work

    def _written(self) -> str:
        """The text of the learner's file."""
        try:
            return self.work.read_text(encoding="utf-8")
        except OSError as error:
            raise LabError(f"{self.work} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise LabError(f"{self.work} cannot be read: save it as text in UTF-8") from None

    def _save(self, text: str) -> None:
        try:
            self.work.write_text(text, encoding="utf-8")
        except OSError as error:
            raise LabError(f"{self.work} cannot be written: {error.strerror}") from None

    # --- beginning ----------------------------------------------------------------------------------------------------

    def start(self) -> Shown:
        """Make the learner's file unless it is there, and let ``%%task`` cells write into it. Tasks that the lab has
        got since are added at the file's end; nothing that the learner wrote is touched. A file without a word in it is
        none."""
        starter = self.starter.read_text(encoding="utf-8")
        work = self._written() if self.work.exists() else ""
        if not work.strip():
            self._save(starter)
            said = f"Your file is {self.work.name}, beside this lab's README."
        else:
            added = missing_tasks(work, starter)
            if added:
                self._save(with_tasks(work, starter, added))
            new = f" New in it: {', '.join(f'task {task.name}' for task in added)}." if added else ""
            said = f"Your file {self.work.name} is there already, and stays as it is.{new}"
        if is_notebook() and not is_report(self.folder):
            sys.modules["IPython"].get_ipython().register_magic_function(self._cell, "cell", "task")
        lines = [f"{self.name.capitalize()}. {said}", *(f"  task {task.name}: {task.title}" for task in self.tasks)]
        items = "".join(f"<li>task {task.name}: {html.escape(task.title)}</li>" for task in self.tasks)
        offer = browser.found_again(self.number, self.work.name) if browser.is_on_binder() else ""
        return Shown("\n".join(lines), f"{html.escape(lines[0])}<ul>{items}</ul>{offer}")

    def download(self) -> Shown:
        """A button that downloads the learner's file."""
        name = f"lab{self.number}{self._begun().suffix}"
        return Shown(f"Your file is {self.work}.", browser.download_button(name, self._written()))

    def write(self, name: str, cell: str) -> Shown:
        """What a ``%%task`` cell does: put its text into the learner's file. LabError says why it cannot. Raw numbers
        come into a report this way."""
        task = self._task(name.strip())
        work = self._begun()
        starter, before = self.starter.read_text(encoding="utf-8"), self._written()
        try:
            text, went_in = saved(
                before,
                starter,
                task.name,
                cell,
                is_program=not is_report(self.folder),
            )
        except TaskError as error:
            raise LabError(str(error)) from None
        if not went_in:
            return Shown(
                f"This cell is still the starter's; task {task.name} in your {work.name} stays as you wrote it."
            )
        self._save(text)
        said = f"Task {task.name} is saved in {work.name}. Next: lab.check({task.name!r})"
        if not browser.is_on_binder():
            return Shown(said)
        button = browser.download_button(f"lab{self.number}{work.suffix}", text)
        kept = browser.kept(self.number, text, is_first=before == starter)
        page = f"{html.escape(said)}. Your browser keeps a copy. {button}{kept}"
        return Shown(said, page)

    def _cell(self, line: str, cell: str) -> Shown:
        """``%%task NAME``: save the cell, and define in the notebook what it defines."""
        shown = self.write(line, cell)
        module = self.load()
        names = {name: getattr(module, name) for name in definitions(cell) if hasattr(module, name)}
        sys.modules["IPython"].get_ipython().push(names)
        return shown

    def load(self, file: Path | None = None) -> Any:
        """The learner's module, loaded again. LabError if it cannot be loaded."""
        path = file or self._begun()
        try:
            return load(path)
        except (Exception, SystemExit) as error:
            raise LabError(f"{path.name} cannot be loaded: {type(error).__name__}: {error}") from None

    # --- checking -----------------------------------------------------------------------------------------------------

    def check(self, task: str | float | None = None) -> "Verdict":
        """Run the checks of one task, or all."""
        name = None if task is None else self._task(task).name
        report = grade(self.folder, self._begun())
        shown = report if name is None else report.of(name)
        points = {name: {"points": won, "of": of} for name, (won, of) in shown.points_by_task().items()}
        note("labs", self.number, tasks=points)
        return Verdict(shown, self._keep(first_failure(shown)))

    @property
    def failed(self) -> Path:
        """What is kept of the check that failed last."""
        return self.work.parent / "failed.json" if is_headless() else home() / f"failed-lab{self.number}.json"

    def _keep(self, failure: Failure | None) -> bool:
        """Write down a failure, so that it can be shown again; whether there is one. A home that cannot be written to
        is no reason to stop."""
        with suppress(OSError):
            if failure is None or is_report(self.folder):
                self.failed.unlink(missing_ok=True)
                return False
            found = Replay.of(self.folder, self._begun(), None, failure)
            self.failed.parent.mkdir(parents=True, exist_ok=True)
            self.failed.write_text(json.dumps(found.as_json(), indent=1), encoding="utf-8")
            return True
        return False

    def replay(self) -> Shown | Replay:
        """The check that failed in the last `check`, run again from its seed: the call where it went wrong, with your
        answer and the expected one."""
        if is_report(self.folder):
            return Shown(f"{self.name} is a report, which calls nothing: lab.check() says all that there is.")
        try:
            kept = json.loads(self.failed.read_text(encoding="utf-8"))
            failure = Failure(kept["seed"], kept["case"], kept["sentence"], kept["message"])
        except FileNotFoundError:
            return Shown("No check has failed: call lab.check() first.")
        except (OSError, KeyError, TypeError, ValueError):
            return Shown(f"{self.failed} cannot be read: call lab.check() again.")
        return Replay.of(self.folder, self._begun(), self.solution, failure)

    # --- being helped -------------------------------------------------------------------------------------------------

    def hint(self, task: str | float) -> Shown:
        """The next hint for a task; there are three, each says more than the one before."""
        name = self._task(task).name
        hints = readme_hints((self.folder / "README.md").read_text(encoding="utf-8"), name)
        taken = max(self._hints_taken.get(name, 0), self._noted("hints").get(name, 0))
        level = min(taken + 1, len(hints))
        self._hints_taken[name] = level
        note("labs", self.number, hints={name: level})
        text = f"Hint {level} of {len(hints)} for task {name}: {hints[level - 1]}"
        if taken >= len(hints):
            text += " There is no further one: lab.reveal() shows the solution."
        return Shown(text, markdown=text)

    def diff(self) -> Shown:
        """The learner's file beside the solution. LabError before everything has passed, unless it was revealed."""
        work = self._begun()
        if not self._is_revealed and not self._noted("revealed") and not grade(self.folder, work).has_passed:
            raise LabError("not everything has passed yet: go on, or call lab.reveal() to see the solution now")
        lines = difflib.unified_diff(
            self._written().splitlines(),
            self.solution.read_text(encoding="utf-8").splitlines(),
            work.name,
            self.solution.name,
            lineterm="",
        )
        text = "\n".join(lines) or "Your file is the solution, line by line."
        return Shown(text, markdown=f"```diff\n{text}\n```")

    def reveal(self) -> Shown:
        """The solution, and a note that it was asked for."""
        self._is_revealed = True
        note("labs", self.number, revealed=True)
        text = self.solution.read_text(encoding="utf-8").rstrip()
        return Shown(text, markdown=text if is_report(self.folder) else f"```python\n{text}\n```")

    def _noted(self, name: str) -> Any:
        """What the learner's progress says of this lab; nothing in a headless run."""
        return {} if is_headless() else read_progress()["labs"].get(self.number, {}).get(name, {})

    # --- live ---------------------------------------------------------------------------------------------------------

    def run_in_cluster(self, file: Path | None = None) -> Any:
        """Start a small cluster that runs on the learner's code, and show what becomes of it. Before every task has
        something in it there is nothing to show, and it says so; nor with code that does not come back, on which a node
        would wait as well. LabError if the code is so wrong that nothing can be shown."""
        if is_report(self.folder):
            raise LabError(f"{self.name} is a report: there is nothing in it that a cluster could run on")
        path = file or self._begun()
        report = grade(self.folder, path)
        if not report.is_begun:
            missing = [task for task in report.tasks if not report.of(task).is_begun]
            return Shown(report.problem or f"Not yet: first write something for {_tasks(missing)}.")
        for check in report.checks:
            if check.kind == TooLong.__name__:
                return Shown(f"Not yet: a node would wait for your code, too. Task {check.task}: {check.message}.")
        work, live = self.load(path), self.load(self.folder / "live.py")
        wanted = {task.name: definitions(task.body) for task in self.tasks}
        gone = [name for names in wanted.values() for name in names if not hasattr(work, name)]
        if gone:
            raise LabError(f"{path.name} does not define {' and '.join(gone)}: see {self.starter.name}, and write it")
        with counted_calls(work, wanted) as calls:
            try:
                outcome = live.run(work)
            except Exception as error:
                if report.has_passed:
                    raise
                why = f"{type(error).__name__}: {error}"
                raise LabError(f"on your code the cluster did not get to the end, see lab.check(): {why}") from None
        return replace(outcome, calls=calls)

    def __repr__(self) -> str:
        return f"{self.name}: {', '.join(f'task {task.name}' for task in self.tasks)}"


class Verdict:
    """The outcome of checks, as a table: a sign and a word for each, and the first thing that is wrong."""

    def __init__(self, report: Report, is_kept: bool = False) -> None:
        self.report = report
        self._is_kept = is_kept

    def __repr__(self) -> str:
        if self.report.problem:
            return f"✘ {self.report.problem}"
        lines = []
        for check in self.report.checks:
            lines.append(f"{SIGNS[check.outcome]} {check.outcome:<8}{check.points:>2}  {check.sentence}")
            if check.message:
                lines.append(f"{'':>14}{_first_line(check)}")
        return "\n".join([*lines, self._last])

    @property
    def _last(self) -> str:
        more = "; lab.replay() shows the first failure again" if self._is_kept else ""
        return f"{self.report.points} of {self.report.total} points{more}"

    def _repr_html_(self) -> str:
        if self.report.problem:
            return f"<b>✘</b> {html.escape(self.report.problem)}"
        rows = "".join(
            f"<tr><td>{SIGNS[check.outcome]} {check.outcome}</td><td>{check.points}</td><td style='text-align:left'>"
            f"{html.escape(check.sentence)}{_beside(check)}</td></tr>"
            for check in self.report.checks
        )
        return (
            "<table><tr><th>outcome</th><th>points</th><th style='text-align:left'>check</th></tr>"
            f"{rows}</table><b>{self._last}</b>"
        )


def _tasks(names: Sequence[str]) -> str:
    """The names of tasks, as a sentence has them."""
    *others, last = names
    return f"tasks {', '.join(others)} and {last}" if others else f"task {last}"


def _first_line(check: Check) -> str:
    return check.message.splitlines()[0][:300]


def _beside(check: Check) -> str:
    return f"<br><small>{html.escape(_first_line(check))}</small>" if check.message else ""


# --- README.md --------------------------------------------------------------------------------------------------------

CHECKS_BEGIN, CHECKS_END = "<!-- checks: made from test_lab.py -->", "<!-- end of checks -->"


def readme_hints(readme: str, task: str) -> list[str]:
    """The hints for a task, from the folded blocks under its heading."""
    section = readme.partition("## Hints")[2].partition("\n## ")[0]
    mine = re.split(r"^### Task ", section, flags=re.MULTILINE)
    for part in mine[1:]:
        if part.split()[0].rstrip(":") == task:
            found = re.findall(r"<details><summary>.*?</summary>(.*?)</details>", part, re.DOTALL)
            return [" ".join(hint.split()) for hint in found]
    return []


def readme_checks(report: Report) -> str:
    """The section on what the checks send and assert, as test_lab.py says it."""
    lines = [CHECKS_BEGIN]
    for task in report.tasks:
        part = report.of(task)
        lines += ["", f"**Task {task}**, {part.total} points", ""]
        lines += [f"- *{check.sentence}* ({check.points}): {check.about}" for check in part.checks]
    return "\n".join([*lines, "", CHECKS_END])


def with_checks(readme: str, report: Report) -> str:
    """The README with the section rewritten. LabError if it has no place for it."""
    before, begin, rest = readme.partition(CHECKS_BEGIN)
    _, end, after = rest.partition(CHECKS_END)
    if not begin or not end:
        raise LabError(f"README.md has no place for the checks: it needs {CHECKS_BEGIN} and {CHECKS_END}")
    return before + readme_checks(report) + after
