"""The runner: a table of suites, one verdict each, red when one of them is."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator

import pytest

from pykraft.course.syllabus import SYLLABUS
from tests import run as runner
from tests.harness.tree import ROOT

GREEN = runner.Suite("green", "timeit", ("-n1",), ("quick",))
RED = runner.Suite("red", "no_such_module", (), ("quick",))


@pytest.fixture(autouse=True)
def paths_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suites here are plain modules whose argument is no path."""
    monkeypatch.setattr(runner.Suite, "missing", lambda suite: [p for p in suite.paths if p.startswith("tests/")])


@pytest.fixture(autouse=True)
def second_tries(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """The runs of these tests have a file of second tries of their own."""
    monkeypatch.setattr(runner, "SECOND_TRIES", tmp_path / "build" / "second_tries.json")
    return runner.SECOND_TRIES


def test_a_red_suite_makes_the_run_red_and_the_next_one_still_runs(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "SUITES", (RED, GREEN))
    assert runner.main(["quick"]) == 1
    table = capfd.readouterr().out.rpartition("--- quick")[2]
    assert "failed: exit status 1" in table and "FAILED: red" in table
    *suites, last = [line.split()[0] for line in table.splitlines()[1:]]
    assert sorted(suites) == ["green", "red"] and last == "total", "in whichever order they ended"


def test_two_that_need_one_core_run_at_once_and_are_shown_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pair = [
        runner.Suite(name, "timeit", ("-n1", "-r1", f"import time; time.sleep(1); print('{name}')"), ("quick",))
        for name in ("first", "second")
    ]
    alone = dataclasses.replace(GREEN, cores=runner.CORES)
    monkeypatch.setattr(runner, "SUITES", (*pair, alone))
    assert runner.main(["quick"]) == 0
    output = capfd.readouterr().out
    assert output.index("... second begins") < output.index("--- first ")
    assert output.index("--- first ") < output.index("\nfirst\n")
    assert output.index("\nsecond\n") < output.index("--- green "), "who needs both cores waits for them"


def test_a_suite_that_yields_gets_a_core_only_while_nobody_else_wants_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ask = "import os, time; time.sleep(0.5); print('turn', os.getpriority(os.PRIO_PROCESS, 0))"
    pair = [
        runner.Suite(str(yields), "timeit", ("-n1", "-r1", ask), ("quick",), yields=yields) for yields in (False, True)
    ]
    monkeypatch.setattr(runner, "SUITES", pair)
    assert runner.main(["quick"]) == 0
    turns = [int(line.split()[1]) for line in capfd.readouterr().out.splitlines() if line.startswith("turn ")]
    assert min(turns) < max(turns) == runner.LAST_TURN


def test_suites_that_yield_stand_in_a_line_of_their_own() -> None:
    whole, half, small = (runner.Suite(name, "x", (), (), cores=n) for name, n in (("w", 2), ("h", 0.5), ("s", 1)))
    little, other = (runner.Suite(name, "x", (), (), yields=True) for name in ("l", "o"))
    table: list[tuple[list[runner.Suite], list[runner.Suite], runner.Suite | None]] = [
        ([], [whole], None),
        ([whole], [], whole),
        ([whole], [half], None),
        ([whole, half], [small], None),  # no suite overtakes one that waits for both cores
        ([small], [half, half], small),
        ([small], [half, small], None),
        ([small, little], [half], small),
        ([little], [small, small], little),
        ([little], [small, other], None),
        ([little], [other], little),  # no other suite is there
        ([little], [other, other], None),
        ([whole, little], [other], little),
        ([whole], [other], None),
        ([little], [whole], None),  # whose seconds are counted
    ]
    for waiting, running, next_one in table:
        assert runner.next_of(waiting, running) is next_one, (waiting, running)


def test_each_suite_has_a_folder_for_its_tests_which_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ask = "import os; path = os.environ['PYTEST_DEBUG_TEMPROOT']; print('folder', path); os.mkdir(path + '/x')"
    pair = [runner.Suite(name, "timeit", ("-n1", "-r1", ask), ("quick",)) for name in ("first", "second")]
    monkeypatch.setattr(runner, "SUITES", pair)
    assert runner.main(["quick"]) == 0
    folders = {line.split()[1] for line in capfd.readouterr().out.splitlines() if line.startswith("folder ")}
    assert len(folders) == 2 and not any(map(os.path.exists, folders))


FAILS_ONCE = """
import pathlib, pytest
COUNT = pathlib.Path(__file__).with_name("count")

def test_fails_beside_others():
    COUNT.write_text(str(1 + int(COUNT.read_text()) if COUNT.exists() else 1))
    assert int(COUNT.read_text()) == 2

def test_passes(): ...
"""
FAILS = """
import pytest

@pytest.mark.parametrize("number", range(FAILURES))
def test_fails(number):
    assert number is None
"""


@pytest.fixture
def below_the_root() -> Iterator[pathlib.Path]:
    """The ids of its tests are paths from the root."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        yield pathlib.Path(folder)


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        (FAILS_ONCE, 0, "passed, 1 in a second try: "),
        (FAILS.replace("FAILURES", "1"), 1, "1 failed"),
        (FAILS.replace("FAILURES", str(runner.MOST_AGAIN + 1)), 1, f"{runner.MOST_AGAIN + 1} failed"),
    ],
    ids=["once", "always", "too many"],
)
def test_a_few_failed_tests_of_the_full_set_get_a_second_try_alone_and_the_table_names_them(
    code: str,
    status: int,
    said: str,
    below_the_root: pathlib.Path,
    second_tries: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (below_the_root / "test_this.py").write_text(code)
    path = (below_the_root / "test_this.py").relative_to(ROOT).as_posix()
    earlier_run = [f"{path}::test_fails_beside_others"]
    second_tries.parent.mkdir()
    second_tries.write_text(json.dumps({"tried": [earlier_run]}))
    suite = runner.Suite("tried", "pytest", (path,), ("full",))
    monkeypatch.setattr(runner, "SUITES", (suite,))
    assert runner.main(["full"]) == status
    output = capfd.readouterr().out
    assert said in output and output.count("--- tried ") == (1 if said.startswith(str(runner.MOST_AGAIN + 1)) else 2)
    tried = [line for line in output.splitlines() if line.startswith("... second try of ")]
    if said.startswith("passed"):
        assert tried == [f"... second try of {path}::test_fails_beside_others"]
        assert f"1 in a second try: {path}::test_fails_beside_others" in output.rpartition("--- full ")[2]
        assert json.loads(second_tries.read_text()) == {"tried": [[f"{path}::test_fails_beside_others"]] * 2}
        last_line = output.splitlines()[-1]
        assert last_line.startswith(f"{path}::test_fails_beside_others needed a second try in 2 of the last 2 runs: ")


def test_a_deterministic_suite_gets_no_second_try(
    below_the_root: pathlib.Path,
    second_tries: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (below_the_root / "test_this.py").write_text(FAILS_ONCE)
    path = (below_the_root / "test_this.py").relative_to(ROOT).as_posix()
    monkeypatch.setattr(
        runner, "SUITES", (runner.Suite("strict", "pytest", (path,), ("full",), deterministic=True), GREEN)
    )
    assert runner.main(["full"]) == 1
    output = capfd.readouterr().out
    assert output.count("--- strict ") == 1 and "second try" not in output
    assert json.loads(second_tries.read_text()) == {"strict": [[]]}


def test_the_suites_without_a_second_try_are_those_whose_verdict_depends_on_the_code_alone() -> None:
    assert {suite.name for suite in runner.SUITES if suite.deterministic} == {
        "unit of nodes", "unit", "datadriven", "simulation", "story", "property", "crash", "golden", "protocol"
    }  # fmt: skip


def row(name: str, *only_alone: str) -> runner.Row:
    return runner.Row(name, "passed", 1.0, 1.0, only_alone, only_alone)


def test_ten_runs_of_a_suite_are_kept_and_those_of_other_suites_do_not_count(second_tries: pathlib.Path) -> None:
    for each in (row("one", "a"), row("other"), *[row("one")] * (runner.RUNS_KEPT - 2)):
        assert runner.keep_second_tries([each]) == []
    (line,) = runner.keep_second_tries([row("one", "a")])
    assert line.startswith("a needed a second try in 2 of the last 10 runs: ")
    assert runner.keep_second_tries([row("one", "b")]) == [], "the first run of ten is forgotten"
    assert {name: len(runs) for name, runs in json.loads(second_tries.read_text()).items()} == {"one": 10, "other": 1}


def test_a_file_of_second_tries_that_was_cut_off_begins_again(second_tries: pathlib.Path) -> None:
    second_tries.parent.mkdir()
    second_tries.write_text('{"one": [["a"')
    assert runner.keep_second_tries([row("one", "a")]) == []
    assert json.loads(second_tries.read_text()) == {"one": [["a"]]}


def test_a_test_that_passed_only_alone_is_counted_beside_one_that_failed_twice(
    below_the_root: pathlib.Path, second_tries: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (below_the_root / "test_this.py").write_text(FAILS_ONCE + "\ndef test_fails():\n    assert False\n")
    path = (below_the_root / "test_this.py").relative_to(ROOT).as_posix()
    monkeypatch.setattr(runner, "SUITES", (runner.Suite("tried", "pytest", (path,), ("full",)),))
    assert runner.main(["full"]) == 1
    assert json.loads(second_tries.read_text()) == {"tried": [[f"{path}::test_fails_beside_others"]]}


def test_a_notebook_is_tried_again_from_its_beginning() -> None:
    failed = ("notebooks/a.ipynb::Cell 3", "notebooks/a.ipynb::Cell 4", "tests/x/test_y.py::test_z[a::b]")
    assert GREEN.again(failed).paths == ("notebooks/a.ipynb", "tests/x/test_y.py::test_z[a::b]")


def test_a_green_run_is_green(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SUITES", (GREEN,))
    assert runner.main(["quick"]) == 0


def test_what_is_started_in_the_background_can_be_interrupted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = "import signal; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    monkeypatch.setattr(runner, "SUITES", (runner.Suite("asks", "timeit", ("-n1", "-r1", ask), ("quick",)),))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert runner.main(["quick"]) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_suite_is_ended_at_its_limit(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    endless = runner.Suite("endless", "http.server", ("0", "--bind=127.0.0.1"), ("quick",), limit_s=1)
    monkeypatch.setattr(runner, "SUITES", (endless,))
    assert runner.main(["quick"]) == 1
    assert "ended after its limit of 1 s" in capfd.readouterr().out


def test_the_last_line_of_a_suite_whose_output_is_held_back_is_shown_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = "import time; print('one'); print('half of it', flush=True); time.sleep(1); print('done')"
    suites = [runner.Suite(name, "timeit", ("-n1", "-r1", program), ("quick",)) for name in ("a", "b")]
    monkeypatch.setattr(runner, "PROGRESS_S", 0.1)
    assert [row.verdict for row in runner.run(suites, "quick")] == ["passed", "passed"]
    shown = capfd.readouterr().out
    assert re.search(r"\.\.\. a, \d+ s: half of it", shown)
    assert shown.count("one\nhalf of it\ndone\n") == 2


def test_a_folder_that_is_missing_is_red(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(runner, "SUITES", (runner.Suite("lost", "pytest", ("tests/lost",), ("quick",)),))
    assert runner.main(["quick"]) == 1
    assert "tests/lost does not exist" in capfd.readouterr().out


def test_an_empty_set_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SUITES", (GREEN,))
    assert runner.main(["bench"]) == 1


def test_every_row_belongs_to_known_sets_and_has_a_name_of_its_own() -> None:
    assert {name for suite in runner.SUITES for name in suite.sets} <= set(runner.SETS)
    assert len({suite.name for suite in runner.SUITES}) == len(runner.SUITES)
    assert {suite.name for suite in runner.SUITES if "quick" in suite.sets} <= {
        suite.name for suite in runner.SUITES if "full" in suite.sets
    }


def lost(files: Iterable[pathlib.Path], suites: Iterable[runner.Suite]) -> list[str]:
    """The files that none of these suites runs."""
    paths = [ROOT / path for suite in suites for path in suite.paths]
    return [path.relative_to(ROOT).as_posix() for path in files if not any(path.is_relative_to(each) for each in paths)]


def test_every_file_with_tests_is_in_a_row_of_the_full_set_or_of_the_judges() -> None:
    suites = [suite for suite in runner.SUITES if {"full", "judges"} & set(suite.sets)]
    assert not lost(sorted((ROOT / "tests").rglob("test_*.py")), suites)


def test_every_file_with_long_tests_is_in_a_row_that_asks_for_them() -> None:
    suites = [suite for suite in runner.SUITES if "--long" in suite.arguments and "soak" in suite.sets]
    files = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.long" in path.read_text()]
    assert not lost([path for path in files if path != pathlib.Path(__file__)], suites)


def test_every_notebook_is_run_once_in_the_full_set_and_those_that_measure_are_alone() -> None:
    suites = [suite for suite in runner.SUITES if "full" in suite.sets and set(runner.BUDGET) <= set(suite.arguments)]
    paths = [path for suite in suites for path in suite.paths]
    assert sorted(paths) == sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("notebooks/*.ipynb"))
    alone = {pathlib.Path(path).name[:2] for suite in suites if suite.cores == runner.CORES for path in suite.paths}
    assert alone >= {number for number, entry in SYLLABUS.items() if entry.hardware}


def test_the_suites_run_on_the_interpreter_of_the_run() -> None:
    assert all(suite.command("full")[0] == sys.executable for suite in runner.SUITES)


def test_a_suite_gets_its_own_variables_beside_those_of_this_process(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import os; print(os.environ['PYKRAFT_PROFILE'], 'PATH' in os.environ)"
    suite = runner.Suite("one", "timeit", ("-n1", "-r1", program), ("quick",), variables=(("PYKRAFT_PROFILE", "full"),))
    (row,) = runner.run([suite], "quick")
    assert row.verdict == "passed"
    assert "full True" in capfd.readouterr().out


def test_what_one_process_of_a_suite_has_compiled_the_next_one_need_not(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    program = "import sys; print('forbidden:', sys.dont_write_bytecode)"
    (row,) = runner.run([runner.Suite("one", "timeit", ("-n1", "-r1", program), ("quick",))], "quick")
    assert row.verdict == "passed"
    assert "forbidden: False" in capfd.readouterr().out
