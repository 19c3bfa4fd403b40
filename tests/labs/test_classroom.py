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
from pykraft.course.labs.classroom import COLUMNS, LARGEST_BYTES, grade_class, submissions
from pykraft.course.labs.grading import Report
from pykraft.course.places import lab_folder

LAB = lab_folder("08")
SOLUTION = (LAB / "solution.py").read_text()
CHILD = 'import subprocess, sys\nsubprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "of-gus"])\n'
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
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Report, int]]:
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
        return {row.student: (row.report, row.total) for row in grade_class(submissions(folder, [LAB]), seed=7341)}


def test_every_student_has_a_row_with_the_points_that_there_are(graded: dict[str, tuple[Report, int]]) -> None:
    assert list(graded) == sorted(
        [*(name.partition("/")[0].removesuffix(".py") for name in HAND_INS), "leo", "mia", "ned"]
    )
    assert {total for _, total in graded.values()} == {24}
    assert {report.seed for report, _ in graded.values()} == {7341}


@pytest.mark.parametrize(("student", "points"), {"ann": 24, "bob": 20, "gus": 24, "hal": 10, "kim": 24}.items())
def test_points_are_those_of_the_checks(student: str, points: int, graded: dict[str, tuple[Report, int]]) -> None:
    report, _ = graded[student]
    assert (report.points, report.problem) == (points, "")


@pytest.mark.parametrize(
    ("student", "problem"),
    [
        ("cy", "nothing was handed in: no work.py"),
        ("eve", "the checks did not come to their end: nothing was printed"),
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
        ["'=1+1", "lab08", "24", "24", "8.1=8/8 8.2=6/6 8.3=10/10"],
        ["ann", "lab08", "24", "24", "8.1=8/8 8.2=6/6 8.3=10/10"],
    ]
    assert "ann, lab08_partitioner: 24 of 24 points" in capsys.readouterr().err


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
