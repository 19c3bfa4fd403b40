"""The pytest side of a lab: which implementation the checks look at, with which seed, and what came out.

A lab's checks are plain tests in ``labs/labNN_.../test_lab.py``. Each belongs to a task::

    @pytest.mark.task("8.1", points=2)
    def test_known_keys_have_kafkas_hash(impl): ...

and takes `impl`, the module under test, which may import the standard library alone, and what ALLOWED_IMPORTS in
test_lab.py names; where the lab asks for a report, it is that (`reports`). The check's docstring says what it sends and
asserts; its assertions say in words what went wrong. A check that draws lots takes `chance`, whose numbers depend on
the seed and on the name of the check. So nothing has to be hidden: a grader with another seed asks other questions.

``labs/conftest.py`` imports the names below. The environment says the rest, so that it works from any folder:

    PYKRAFT_LAB_IMPL      the file to be checked; without it work.py beside the checks, or starter.py if there is none
    PYKRAFT_LAB_SEED      a whole number; without it 1
    PYKRAFT_LAB_REPORT    where the results are written, as JSON
    PYKRAFT_LAB_LIMIT_S   how long one check may compute; without it 5 seconds
    PYKRAFT_LAB_TRACE     where the calls of the code under test are written; without it they are not (`calls`)
    PYKRAFT_LAB_KEYED     that a key comes through standard input: the report is signed with it

What is printed on the way is the learner's own business. The report is written at the end of the run: a file that
ends the interpreter leaves none, and has passed nothing. Nor does a file that leaves a report of its own, where the
reports are signed.
"""

import ast
import hashlib
import hmac
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType, ModuleType
from typing import Any

import pytest
from _pytest.outcomes import Failed

from pykraft.course.labs.calls import Calls
from pykraft.course.labs.check_terms import (
    DEFAULT_SEED,
    FAILED,
    IMPL,
    KEYED,
    LIMIT,
    LIMIT_S,
    MEMORY,
    NOT_YET,
    PASSED,
    REPORT,
    SEED,
    TRACE,
    TooLong,
)
from pykraft.course.labs.loading import load
from pykraft.course.labs.reports import Report, read_report
from pykraft.course.places import is_report, lab_file

FILE_BYTES = 256 << 20
"""The largest file that a run with limits may write."""
LEFT = 0.1
"""The share of the limit that the others have once a check did not end. Most of them would not end either, and the run
as a whole is limited, too."""
RINGS_S, MOST_RINGS = 0.1, 10
"""How often `TooLong` is raised in a check that does not end: a bare ``except:`` catches that, too. After the last one
the run is ended."""


WAYS_AROUND = frozenset({"builtins", "ctypes", "gc", "importlib", "inspect", "pkgutil", "runpy"})
"""Modules of Python's own that no lab needs, and by which a file would reach what it may not import."""


def _signing() -> Callable[[bytes], str]:
    """How a report is signed: with the key that came through standard input, before the file under test is loaded."""
    key = sys.stdin.buffer.read() if os.environ.pop(KEYED, "") else b""
    return lambda text: hmac.new(key, text, hashlib.sha256).hexdigest() if key else ""


_signature = _signing()


class TooLongToLoadError(Failed):
    """A file that does not come to its end when it is loaded. pytest keeps it, so that every check says so."""


class _Results:
    """What this run has found."""

    checks: dict[str, dict[str, Any]] = {}  # noqa: RUF012 (there is one run in a process)
    calls: Calls | None = None


@pytest.fixture(scope="module")
def impl(request: pytest.FixtureRequest) -> ModuleType | Report:
    """The module under test, or the report."""
    folder = Path(request.path).parent
    work = lab_file(folder, "work")
    path = Path(os.environ.get(IMPL) or (work if work.exists() else lab_file(folder, "starter")))
    allowed: frozenset[str] = getattr(request.module, "ALLOWED_IMPORTS", frozenset())
    try:
        if is_report(folder):
            return read_report(path)
        foreign = sorted(_imported(path) - (sys.stdlib_module_names - WAYS_AROUND) - allowed)
        if not foreign:
            with _limited(_limit_s()):
                return _traced(load(path))
    except TooLong as error:
        raise TooLongToLoadError(f"{error}, while it was loaded", pytrace=False) from None
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return pytest.fail(f"{path.name} cannot be loaded: {type(error).__name__}: {error}", pytrace=False)
    return pytest.fail(f"{path.name} imports {foreign[0]}: this lab is to be solved without it", pytrace=False)


def _traced(module: ModuleType) -> ModuleType:
    """The module, whose calls are written down if the environment asks for it."""
    if os.environ.get(TRACE):
        _Results.calls = Calls(module)
    return module


def _imported(path: Path) -> set[str]:
    """The packages that a file imports; where it is no Python, SyntaxError."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." if node.level else (node.module or "").partition(".")[0])
    return found


@pytest.fixture
def seed() -> int:
    """What all chance in this run begins with."""
    return int(os.environ.get(SEED, DEFAULT_SEED))


@pytest.fixture
def chance(request: pytest.FixtureRequest, seed: int) -> Random:
    """A generator of chance: another one for each check and each seed."""
    return Random(f"{seed}/{request.node.name}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "task(name, points): the task that a check belongs to, and what it is worth")
    if os.environ.get(MEMORY):
        _limit_memory(int(os.environ[MEMORY]))


def _limit_memory(size: int) -> None:
    """So much memory and no more, and no file that fills the disk: what runs here was written by others."""
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Ends a check that takes too long. In a graded run no person interrupts: a KeyboardInterrupt then comes from the
    file itself."""
    if item.get_closest_marker("task") is None:
        return (yield)
    with _limited(_limit_s()):
        try:
            return (yield)
        except KeyboardInterrupt:
            if REPORT not in os.environ:
                raise
            raise AssertionError("KeyboardInterrupt was raised, which is for the user's keyboard") from None


def _limit_s() -> float:
    """How long the next check may compute."""
    has_stuck = any(check["kind"] == TooLong.__name__ for check in _Results.checks.values())
    return float(os.environ.get(LIMIT, LIMIT_S)) * (LEFT if has_stuck else 1)


@contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    """Raises TooLong in the block when it has computed for this long, or waited for four times as long. The limit is in
    the processor's time, so that no check fails because the machine is busy."""

    rings = 0

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal rings
        rings += 1
        where = _place_of(frame)
        words = f"it did not end within {limit_s:g} s: it was in {where}"
        if rings > MOST_RINGS and REPORT in os.environ:
            write_report(
                0, f"{words}. Something there catches everything, as 'except:' does: say which error you expect"
            )
            os._exit(0)
        raise TooLong(words)

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, limit_s), (signal.SIGALRM, signal.ITIMER_REAL, 4 * limit_s))
    before = {number: signal.signal(number, ring) for number, _, _ in timers}
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds, RINGS_S)
    try:
        yield
    finally:
        for number, timer, _ in timers:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def _place_of(frame: FrameType | None) -> str:
    """Where a program is: the line of the file under test, also where that has called something else."""
    mine, inner = os.environ.get(IMPL), frame
    while inner is not None and inner.f_code.co_filename != mine:
        inner = inner.f_back
    at = inner or frame
    return f"{Path(at.f_code.co_filename).name}, line {at.f_lineno}" if at is not None else "nowhere"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes the outcome of a check; one with several cases has passed when all of them have."""
    report = yield
    marker = item.get_closest_marker("task")
    if marker is not None and (report.when == "call" or report.failed):
        function = getattr(item, "originalname", item.name)
        check = _Results.checks.setdefault(function, _new_check(item, function, marker))
        outcome, kind, message = _outcome(call)
        check["cases"] += 1
        if outcome != PASSED and check["outcome"] == PASSED:
            check |= {"outcome": outcome, "kind": kind, "message": message, "case": item.name}
    return report


def _new_check(item: pytest.Item, function: str, marker: pytest.Mark) -> dict[str, Any]:
    text = getattr(getattr(item, "function", None), "__doc__", None) or ""
    points = marker.kwargs.get("points", 1)
    check = {"name": function, "task": marker.args[0], "points": points, "about": " ".join(text.split())}
    return {**check, "outcome": PASSED, "kind": "", "message": "", "cases": 0, "case": ""}


def _outcome(call: pytest.CallInfo[None]) -> tuple[str, str, str]:
    """Outcome, class of the exception, and the words of the assertion without pytest's own."""
    if call.excinfo is None:
        return PASSED, "", ""
    error = call.excinfo.value
    kind = TooLong.__name__ if isinstance(error, TooLongToLoadError) else type(error).__name__
    words = str(error).split("\nassert ")[0].strip()
    if isinstance(error, NotImplementedError):
        return NOT_YET, kind, words
    if isinstance(error, AssertionError | TooLong | pytest.fail.Exception):
        return FAILED, kind, words or "an assertion without words"
    mine = [entry for entry in call.excinfo.traceback if str(entry.path) == os.environ.get(IMPL)]
    last = (mine or call.excinfo.traceback)[-1]
    file = Path(str(last.path)).name
    # Such as an answer that is None, a function with other arguments, or without its name.
    whose = "the check cannot go on with your code: " if file.startswith("test_") else ""
    return FAILED, kind, f"{whose}{kind}: {words} ({file}, line {last.lineno + 1})"


def pytest_sessionfinish(exitstatus: int) -> None:
    """Writes the report, if one is wanted."""
    write_report(int(exitstatus))


def write_report(exit_status: int, problem: str = "") -> None:
    """What was found, as JSON, into the file that the environment names; and why that is not all, if it is not."""
    path = os.environ.get(REPORT)
    if path:
        found = {"checks": list(_Results.checks.values()), "exit_status": exit_status, "problem": problem}
        text = json.dumps(found).encode()
        Path(path).write_bytes(f"{_signature(text)}\n".encode() + text)
    if _Results.calls is not None:
        _Results.calls.write(Path(os.environ[TRACE]))
