"""A class is graded: whatever students hand in, each gets a row, and the next one is looked at."""

from __future__ import annotations

import csv
import io
import os
import time
from pathlib import Path

import psutil
import pytest

from pykraft import cli
from pykraft.course.labs.check_terms import LIMIT
from pykraft.course.labs.classroom import COLUMNS, LARGEST_BYTES, Row, grade_class, submissions
from pykraft.course.labs.grading import Report
from pykraft.course.places import lab_folder

LAB = lab_folder("08")
SOLUTION = (LAB / "solution.py").read_text()
CHILD = 'import subprocess, sys\nsubprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "of-gus"])\n'
PATCHED = """
import sys
grader = sys.modules["pykraft.course.labs.checks"]
grader._outcome = lambda call: ("passed", "", "")
"""
"""Lets the checks say that all has passed."""
FORGED = """
import json, os
names = {"8.1": 8, "8.2": 6, "8.3": 11}
checks = [
    {"name": f"test_{task}", "task": task, "points": points, "about": "", "outcome": "passed", "kind": "",
     "message": "", "cases": 1, "case": ""}
    for task, points in names.items()
]
with open(os.environ["PYKRAFT_LAB_REPORT"], "w") as file:
    json.dump({"checks": checks, "exit_status": 0, "problem": ""}, file)
os._exit(0)
"""
"""Leaves a report of its own, and ends."""
BORROWED = """
import importlib
kafka = importlib.import_module("pykraft.client.producing.partitioner")
murmur2, partition_of_key, StickyPartitioner = kafka.murmur2, kafka.partition_of_key, kafka.StickyPartitioner
"""
OTHER_NAMES = SOLUTION.replace("value", "folded").replace("whole", "fours")
HAND_INS = {
    "ann/lab08.py": SOLUTION,
    "bob/labs/lab08_partitioner/work.py": SOLUTION.replace("& 0x7FFFFFFF", "& 0xFFFFFFFF"),
    "cy/notes.txt": "I was ill.",
    "dee/lab08/work.py": SOLUTION.replace("mask, m = ", "while True:\n        pass\n    mask, m = "),
    "eve/work.py": SOLUTION + "\nimport os\n\n\ndef murmur2(data):\n    os._exit(0)\n",
    "fay/work.py": "this is no program",
    "gus.py": SOLUTION + "\n" + CHILD,
    "hal/work.py": SOLUTION + "\n\ndef murmur2(data):\n    return bytearray(1 << 40)\n",
    "ida/work.py": SOLUTION + "\nimport os\n\n\ndef murmur2(data):\n    os.kill(os.getpid(), 11)\n",
    "joe/work.py": SOLUTION + "\nimport os\nfrom pathlib import Path\nPath('test_lab.py').write_text('')\n",
    "kim/work.py": SOLUTION,
    "pat/work.py": 'exec(open("solution.py").read())\n',
    "quin/work.py": PATCHED + SOLUTION.replace("& 0x7FFFFFFF", "& 0xFFFFFFFF"),
    "rae/work.py": FORGED,
    "sam/work.py": BORROWED,
    "tom/work.py": OTHER_NAMES,
    "una/work.py": OTHER_NAMES.replace("folded", "twisted"),
    "vic/work.py": SOLUTION + "\n\ndef murmur2(data):\n    return bytearray(20 << 30)\n",
    "wes/work.py": "while True:\n    sum(range(1000))\n",
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    folder = tmp_path_factory.mktemp("class")
    for name, text in HAND_INS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "leo").mkdir()
    os.mkfifo(folder / "leo" / "work.py")
    (folder / "mia").mkdir()
    (folder / "mia" / "work.py").symlink_to(LAB / "solution.py")
    (folder / "ned").mkdir()
    (folder / "ned" / "work.py").write_bytes(b"#" * (LARGEST_BYTES + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LIMIT, "0.5")
        return {row.student: row for row in grade_class(submissions(folder, [LAB]), seed=7341)}


@pytest.fixture
def graded(rows: dict[str, Row]) -> dict[str, tuple[Report, int]]:
    return {name: (row.report, row.total) for name, row in rows.items()}


@pytest.fixture
def flagged(rows: dict[str, Row]) -> dict[str, tuple[str, ...]]:
    return {name: row.flags for name, row in rows.items()}


def test_every_student_has_a_row_with_the_points_that_there_are(graded: dict[str, tuple[Report, int]]) -> None:
    assert list(graded) == sorted(
        [*(name.partition("/")[0].removesuffix(".py") for name in HAND_INS), "leo", "mia", "ned"]
    )
    assert {total for _, total in graded.values()} == {25}
    assert {report.seed for report, _ in graded.values()} == {7341}


@pytest.mark.parametrize(("student", "points"), {"ann": 25, "bob": 21, "gus": 25, "hal": 11, "kim": 25}.items())
def test_points_are_those_of_the_checks(student: str, points: int, graded: dict[str, tuple[Report, int]]) -> None:
    report, _ = graded[student]
    assert (report.points, report.problem) == (points, "")


@pytest.mark.parametrize(
    ("student", "problem"),
    [
        ("cy", "nothing was handed in: no work.py"),
        ("eve", "the checks did not come to their end: nothing was printed"),
        ("quin", "the checks were changed while they ran: one that always fails did not"),
        ("rae", "the checks did not come to their end: their report is not their own"),
        ("ida", "the checks did not come to their end: SIGSEGV ended the process"),
        ("leo", "work.py is no file"),
        ("mia", "work.py is a link that leads out of the folder"),
        ("ned", "work.py has more than 1,000,000 bytes"),
    ],
)
def test_what_cannot_be_checked_says_why(student: str, problem: str, graded: dict[str, tuple[Report, int]]) -> None:
    report, _ = graded[student]
    assert (report.points, report.problem) == (0, problem)


def test_an_endless_loop_ends_and_a_broken_file_is_told(graded: dict[str, tuple[Report, int]]) -> None:
    messages = {name: {check.message for check in graded[name][0].checks} for name in ("dee", "fay")}
    assert any("it did not end within 0.5 s: it was in work.py" in message for message in messages["dee"])
    assert all("work.py cannot be loaded: SyntaxError" in message for message in messages["fay"])


@pytest.mark.parametrize(
    ("student", "words"),
    [
        ("pat", "work.py cannot be loaded: FileNotFoundError"),
        ("sam", "work.py imports importlib: this lab is to be solved without it"),
        ("wes", "it did not end within 0.5 s: it was in work.py, line 2, while it was loaded"),
    ],
)
def test_a_file_without_a_solution_of_its_own_wins_nothing_and_each_check_says_why(
    student: str, words: str, graded: dict[str, tuple[Report, int]]
) -> None:
    report, _ = graded[student]
    assert report.points == 0 and report.checks
    assert all(words in check.message for check in report.checks), report.checks


def test_more_memory_than_there_is_fails_a_check_and_not_the_machine(graded: dict[str, tuple[Report, int]]) -> None:
    report, _ = graded["vic"]
    assert report.points == 11 and not report.problem
    assert any(check.kind == "MemoryError" for check in report.checks)


@pytest.mark.parametrize(
    ("student", "flags"),
    [
        ("ann", ("is the solution", "the same as kim")),
        ("bob", ()),
        ("kim", ("is the solution", "the same as ann")),
        ("pat", ("names solution", "uses exec")),
        ("quin", ("uses modules",)),
        ("rae", ("names PYKRAFT_LAB", "uses _exit")),
        ("sam", ("imports importlib",)),
        ("tom", ("is the solution with other names", "the same with other names as ann, kim, una")),
        ("una", ("is the solution with other names", "the same with other names as ann, kim, tom")),
    ],
)
def test_what_a_person_should_look_at_is_flagged(
    student: str, flags: tuple[str, ...], flagged: dict[str, tuple[str, ...]]
) -> None:
    assert flagged[student] == flags


def test_no_child_of_a_submission_goes_on(graded: dict[str, tuple[Report, int]]) -> None:
    assert not [p.pid for p in psutil.process_iter(["cmdline"]) if "of-gus" in (p.info["cmdline"] or ())]


def test_a_submission_cannot_change_the_checks_of_the_next(graded: dict[str, tuple[Report, int]]) -> None:
    assert (LAB / "test_lab.py").stat().st_size and graded["kim"][0].has_passed


def test_a_run_that_does_not_end_within_its_limit_is_ended_with_its_children(tmp_path: Path) -> None:
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "work.py").write_text("import os\nos.fork()\nwhile True:\n    pass\n")
    started = time.monotonic()
    (row,) = grade_class(submissions(tmp_path, [LAB]), seed=1, limit_s=4)
    assert row.report.problem == "the checks did not end within 4 s" and time.monotonic() - started < 30


def test_the_command_writes_csv_that_a_spreadsheet_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for student in ("ann", "=1+1"):
        (tmp_path / "in" / student).mkdir(parents=True)
        (tmp_path / "in" / student / "lab08.py").write_text(SOLUTION)
    file = tmp_path / "points.csv"
    assert cli.main(["course", "grade", "08", "--class", str(tmp_path / "in"), "--csv", str(file), "--seed", "3"]) == 0
    rows = list(csv.reader(io.StringIO(file.read_text())))
    assert tuple(rows[0]) == COLUMNS
    assert [row[:5] for row in rows[1:]] == [
        ["'=1+1", "lab08", "25", "25", "8.1=8/8 8.2=6/6 8.3=11/11"],
        ["ann", "lab08", "25", "25", "8.1=8/8 8.2=6/6 8.3=11/11"],
    ]
    assert "ann, lab08_partitioner: 25 of 25 points" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--csv"], "--csv needs the folder of a class"),
        (["--class", "nowhere"], "nowhere cannot be read: No such file or directory"),
        (["--class", ".", "--json"], "--class takes --csv"),
    ],
)
def test_a_mistake_of_the_grader_is_told(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["course", "grade", "08", *arguments]) != 0
    assert words in capsys.readouterr().err


def test_all_labs_are_looked_at_when_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "lab04.md").write_text("# A report")
    labs = [lab_folder("04"), lab_folder("08")]
    assert [(one.lab.name[:5], one.file is not None) for one in submissions(tmp_path, labs)] == [
        ("lab04", True),
        ("lab08", False),
    ]
