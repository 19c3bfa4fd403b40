"""Runs a lab's checks on a file, in a process of their own, and reads what came out.

The process is pytest on the lab's folder, with the file and the seed in its environment (`checks`) and a limit in time.
`grade` starts one, which takes about a second. `grade_many` is for tests of the graders: it starts one process that
collects the checks once and then forks for every file and seed.
"""

import hashlib
import hmac
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pykraft.course.labs.check_terms import (
    CANARY,
    DEFAULT_SEED,
    FAILED,
    IMPL,
    KEYED,
    LIMIT,
    MEMORY,
    NOT_YET,
    PASSED,
    REPORT,
    SEED,
    TRACE,
)

CHECKS_FILE = "test_lab.py"
RUN_LIMIT_S = 60.0
# Not from the lab's folder: a file there that is called like a module of Python's own would stand in its place.
PYTHON = (sys.executable, "-P")
PYTEST = (
    *("-q", "-p", "no:cacheprovider", "--tb=no", "--assert=plain", "--import-mode=importlib"),
    # The lab alone decides: no settings of the folders above, and the plugin by its name.
    *("-c", os.devnull, "--rootdir", ".", "--noconftest", "-p", "pykraft.course.labs.checks"),
    # What it loads for reports of its own takes a tenth of the run.
    *("-p", "no:junitxml"),
)
CANARY_FILE = Path(__file__).with_name("canary.py")
SIGNS = {PASSED: "✔", FAILED: "✘", NOT_YET: "–"}  # noqa: RUF001


class Check(NamedTuple):
    """One check of a lab, and its outcome: "passed", "failed" or "not yet"."""

    name: str
    task: str
    points: int
    about: str
    outcome: str
    kind: str
    """The class of the exception, where there was one."""
    message: str
    cases: int
    case: str = ""
    """The first case that did not pass."""

    @property
    def sentence(self) -> str:
        """Its name as words."""
        return self.name.removeprefix("test_").replace("_", " ")


@dataclass(frozen=True)
class Report:
    """What the checks of a lab found in one file."""

    lab: str
    seed: int
    checks: tuple[Check, ...]
    problem: str = ""
    """Why the run did not come to its end, if it did not."""

    @property
    def points(self) -> int:
        return 0 if self.problem else sum(check.points for check in self.checks if check.outcome == PASSED)

    @property
    def total(self) -> int:
        return sum(check.points for check in self.checks)

    @property
    def has_passed(self) -> bool:
        return bool(self.checks) and not self.problem and all(check.outcome == PASSED for check in self.checks)

    @property
    def failed(self) -> set[str]:
        """The names of the checks that did not pass."""
        return {check.name for check in self.checks if check.outcome != PASSED}

    @property
    def is_begun(self) -> bool:
        """Whether every task has something in it."""
        return all(check.outcome != NOT_YET for check in self.checks) and not self.problem

    @property
    def tasks(self) -> list[str]:
        return sorted({check.task for check in self.checks})

    def of(self, task: str) -> "Report":
        """Of one task only."""
        return Report(self.lab, self.seed, tuple(c for c in self.checks if c.task == task), self.problem)

    def points_by_task(self) -> dict[str, tuple[int, int]]:
        """For each task the points that were won, and those there are."""
        return {task: (self.of(task).points, self.of(task).total) for task in self.tasks}

    def as_json(self) -> dict[str, Any]:
        """For machines: a learning platform, a classroom."""
        return {
            "lab": self.lab,
            "seed": self.seed,
            "points": self.points,
            "total": self.total,
            "problem": self.problem,
            "tasks": {task: {"points": won, "of": of} for task, (won, of) in self.points_by_task().items()},
            "checks": [check._asdict() for check in self.checks],
        }


def grade(
    folder: Path,
    file: Path,
    seed: int = DEFAULT_SEED,
    limit_s: float = RUN_LIMIT_S,
    *,
    case: str = "",
    trace: str = "",
    memory_bytes: int = 0,
    has_canary: bool = False,
) -> Report:
    """Check one file against a lab. `case` is one case of one check; without it there are all. `trace` is the path of a
    file into which the calls are written (`calls`). `memory_bytes` limits what the process may take; 0 does not.
    `has_canary` adds a check that must fail: a grader's run, whose file may try to change the checks."""
    key = secrets.token_bytes(32)
    with tempfile.TemporaryDirectory(prefix="pykraft-lab-") as scratch:
        report, printed = Path(scratch) / "report.json", Path(scratch) / "printed"
        wanted = f"{CHECKS_FILE}::{case}" if case else CHECKS_FILE
        environment = {**os.environ, **variables(file, seed, report), TRACE: trace, KEYED: "1"}
        if memory_bytes:
            environment[MEMORY] = str(memory_bytes)
        with printed.open("wb") as output:
            # Its output is a file and it has a session: a child that it leaves behind holds no pipe open, and ends too.
            process = subprocess.Popen(
                [*PYTHON, "-m", "pytest", *PYTEST, wanted, *([str(CANARY_FILE)] if has_canary else [])],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                assert process.stdin is not None
                with suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(key)
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return Report(folder.name, seed, (), f"the checks did not end within {limit_s:g} s")
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode < 0 and not report.exists():
            name = signal.Signals(-process.returncode).name
            return Report(folder.name, seed, (), f"the checks did not come to their end: {name} ended the process")
        found = read_report(folder, seed, report, _last_of(printed), key)
        return _without_canary(found) if has_canary else found


def _without_canary(found: Report) -> Report:
    """A report without the check that must fail. If that has not failed, nothing else in the report is true."""
    canaries = [check.outcome for check in found.checks if check.task == CANARY]
    checks = tuple(check for check in found.checks if check.task != CANARY)
    problem = found.problem
    if not problem and canaries != [FAILED]:
        problem = "the checks were changed while they ran: one that always fails did not"
    return Report(found.lab, found.seed, checks, problem)


def _last_of(printed: Path) -> str:
    """The end of what a run has printed, however much that is."""
    with printed.open("rb") as file:
        file.seek(max(0, printed.stat().st_size - 4096))
        return file.read().decode(errors="replace")


def variables(file: Path, seed: int, report: Path) -> dict[str, str]:
    """The environment of a run. Other plugins of pytest stay out: they cost time, and the learner has others. Nor may
    Python leave out assertions."""
    return {
        IMPL: str(file),
        SEED: str(seed),
        REPORT: str(report),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        "PYTHONOPTIMIZE": "",
    }


def read_report(folder: Path, seed: int, path: Path, said: str, key: bytes = b"") -> Report:
    """What a run left behind; `said` is what it printed, for the case that it left nothing. With a key the report must
    be signed with it."""
    try:
        signature, _, text = path.read_bytes().partition(b"\n")
        if key and not hmac.compare_digest(signature, hmac.new(key, text, hashlib.sha256).hexdigest().encode()):
            return Report(folder.name, seed, (), "the checks did not come to their end: their report is not their own")
        found = json.loads(text)
    except (OSError, ValueError):
        last = (said.strip().splitlines() or ["nothing was printed"])[-1]
        return Report(folder.name, seed, (), f"the checks did not come to their end: {last[:200]}")
    checks = tuple(Check(**check) for check in found["checks"])
    problem = found["problem"]
    if not problem and found["exit_status"] not in (0, 1):
        problem = f"pytest ended with exit status {found['exit_status']}"
    return Report(folder.name, seed, checks, problem or ("" if checks else "there was nothing to check"))


# --- many at once -----------------------------------------------------------------------------------------------------


def grade_many(
    folder: Path,
    runs: Sequence[tuple[Path, int]],
    *,
    stop_at_first: bool = False,
    check_limit_s: float = 2.0,
    processes: int = 2,
) -> list[Report]:
    """Check many files, each with its seed; the reports come in the same order. `stop_at_first` ends a run at the first
    check that fails, for callers that only want to know whether there is one."""
    with tempfile.TemporaryDirectory(prefix="pykraft-lab-") as scratch:
        reports = [Path(scratch) / f"{number}.json" for number in range(len(runs))]
        order = {
            "arguments": [*PYTEST, *(["-x"] if stop_at_first else []), CHECKS_FILE],
            "runs": [
                {**variables(file, seed, report), LIMIT: str(check_limit_s)}
                for (file, seed), report in zip(runs, reports, strict=True)
            ],
            "processes": processes,
            "limit_s": RUN_LIMIT_S,
        }
        subprocess.run(
            [*PYTHON, "-c", "from pykraft.course.labs.grading import main; main()"],
            input=json.dumps(order),
            cwd=folder,
            check=True,
            text=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONOPTIMIZE": ""},
        )
        return [read_report(folder, seed, report, "") for (_, seed), report in zip(runs, reports, strict=True)]


class _Forks:
    """A plugin that runs the collected checks once for every variable set, each time in a fork of this process."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._order = order

    def pytest_runtestloop(self, session: Any) -> bool:
        running: set[int] = set()
        for run in self._order["runs"]:
            while len(running) >= self._order["processes"]:
                running.discard(os.wait()[0])
            child = os.fork()
            if not child:
                self._run(session, run)
            running.add(child)
        while running:
            running.discard(os.wait()[0])
        return True

    def _run(self, session: Any, run: dict[str, str]) -> None:
        """What a fork does; it does not return."""
        from _pytest.main import pytest_runtestloop

        from pykraft.course.labs.checks import write_report

        try:
            os.environ.update(run)
            with open(os.devnull, "r+b", buffering=0) as nowhere:
                for descriptor in (0, 1, 2):
                    os.dup2(nowhere.fileno(), descriptor)
            _end_after(self._order["limit_s"])
            with suppress(session.Failed, session.Interrupted):
                pytest_runtestloop(session)
            write_report(1 if session.testsfailed else 0)
        finally:
            os._exit(0)


def _fork_all(order: Mapping[str, Any]) -> int:
    """Collect the checks, and run them for every variable set, this many at a time."""
    import pytest

    return int(pytest.main(order["arguments"], plugins=[_Forks(order)]))


def _end_after(seconds: float) -> None:
    """Let the kernel end this process when it has computed for this long."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))


def main() -> None:
    """What `grade_many` starts."""
    sys.exit(_fork_all(json.load(sys.stdin)))
