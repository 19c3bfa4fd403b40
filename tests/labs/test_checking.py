"""The machinery of checks: what a hostile, an endless or a half-written file gets, and what mutations are made."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from pykraft.course.labs import grading
from pykraft.course.labs.check_terms import TooLong
from pykraft.course.labs.grading import FAILED, NOT_YET, PASSED, grade, grade_many
from tests.harness.waiting import wait_until
from tests.labs.graders import LABS, mutant_file
from tests.labs.mutations import listed_survivors, mutations

CHECKS = '''
import pytest

@pytest.mark.task("1.1", points=2)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_it_doubles(impl, number):
    """Small numbers."""
    assert impl.double(number) == 2 * number, f"double({number}) is {impl.double(number)}"

@pytest.mark.task("1.2", points=3)
def test_chance_is_the_seeds(impl, chance, seed):
    """What is drawn."""
    assert impl.draw(chance.random(), seed), "nothing was drawn"
'''
GOOD = "def double(n):\n    return 2 * n\n\ndef draw(x, seed):\n    return True\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "labs" / "lab01_doubling"
    made.mkdir(parents=True)
    (made / "test_lab.py").write_text(CHECKS)
    return made


def written(folder: Path, text: str) -> Path:
    path = folder / "work.py"
    path.write_text(text)
    return path


def test_points_belong_to_a_check_and_not_to_each_of_its_cases(folder: Path) -> None:
    report = grade(folder, written(folder, GOOD))
    assert (report.points, report.total) == (5, 5)
    assert {check.name: check.cases for check in report.checks} == {"test_it_doubles": 3, "test_chance_is_the_seeds": 1}
    assert report.as_json()["tasks"] == {"1.1": {"points": 2, "of": 2}, "1.2": {"points": 3, "of": 3}}
    assert [check.about for check in report.checks] == ["Small numbers.", "What is drawn."]


def test_one_case_that_fails_takes_the_points_and_is_told_in_the_checks_own_words(folder: Path) -> None:
    report = grade(folder, written(folder, GOOD.replace("2 * n", "n * n")))
    doubling, drawing = report.checks
    assert (doubling.outcome, drawing.outcome, report.points) == (FAILED, PASSED, 3)
    assert doubling.message == "double(1) is 1"


def test_what_is_not_written_yet_is_no_failure_and_what_raises_is_told_with_its_line(folder: Path) -> None:
    text = "def double(n):\n    raise NotImplementedError('Task 1.1: add')\n\ndef draw(x, seed):\n    return 1 / 0\n"
    doubling, drawing = grade(folder, written(folder, text)).checks
    assert (doubling.outcome, doubling.message) == (NOT_YET, "Task 1.1: add")
    assert (drawing.outcome, drawing.message) == (FAILED, "ZeroDivisionError: division by zero (work.py, line 5)")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def double(n:\n", "work.py cannot be loaded: SyntaxError"),
        ("import sys\nsys.exit(0)\n", "work.py cannot be loaded: SystemExit"),
        (
            "from pykraft.client.producing.partitioner import murmur2\n",
            "work.py imports pykraft: this lab is to be solved without",
        ),
        ("from . import solution\n", "work.py imports .: this lab"),
    ],
)
def test_a_file_that_cannot_be_checked_fails_every_check_in_one_sentence(folder: Path, text: str, words: str) -> None:
    report = grade(folder, written(folder, text))
    assert report.points == 0
    assert all(check.outcome == FAILED and check.message.startswith(words) for check in report.checks), report.checks


def test_an_endless_loop_is_ended_and_the_line_is_told(folder: Path) -> None:
    endless = GOOD.replace("return True", "while True:\n        pass")
    (report,) = grade_many(folder, [(written(folder, endless), 1)], check_limit_s=0.2)
    doubling, drawing = report.checks
    assert (doubling.outcome, drawing.outcome) == (PASSED, FAILED)
    assert drawing.message.startswith("it did not end within 0.2 s: it was in work.py, line ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("return statistics.mean(range(10**8))", "it did not end within 0.2 s: it was in work.py, line 8"),
        ("return statistics.mean([])", "mean requires at least one data point (work.py, line 8)"),
    ],
)
def test_the_line_of_the_file_is_blamed_and_not_that_of_a_library_which_it_calls(
    folder: Path, text: str, words: str
) -> None:
    program = "import statistics\n\n" + GOOD.replace("def draw", "\ndef draw").replace("return True", text)
    (report,) = grade_many(folder, [(written(folder, program), 1)], check_limit_s=0.2)
    assert words in report.checks[1].message


ENDLESS = "\n    while True:\n        pass\n"


def test_a_loop_that_catches_everything_is_ended_all_the_same(folder: Path) -> None:
    loop = "while True:\n        try:\n            sum(range(10000))\n        except:\n            x = 0"
    (report,) = grade_many(folder, [(written(folder, GOOD.replace("return True", loop)), 1)], check_limit_s=0.2)
    assert report.points == 0
    assert report.problem.startswith("it did not end within 0.2 s: it was in work.py, line ")
    assert report.problem.endswith("Something there catches everything, as 'except:' does: say which error you expect")


@pytest.mark.parametrize("text", ["while True:\n    pass\n", GOOD.replace("    return 2 * n", ENDLESS)])
def test_what_never_ends_is_told_with_its_line_before_the_run_as_a_whole_is_over(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve cases, each of which would take as long as the limit, and a run that has time for eight of them."""
    monkeypatch.setattr(grading, "RUN_LIMIT_S", 4.0)
    (folder / "test_lab.py").write_text(CHECKS.replace("[1, 2, 3]", "range(12)"))
    (report,) = grade_many(folder, [(written(folder, text), 1)], check_limit_s=0.5)
    assert report.checks and not report.problem
    assert report.checks[0].message.startswith("it did not end within 0.5 s: it was in work.py, line ")
    assert report.checks[0].kind == TooLong.__name__


def test_checks_that_are_interrupted_go_with_whoever_waits_for_them(folder: Path) -> None:
    """Jupyter's stop button: KeyboardInterrupt in the notebook. No process of the checks may live on."""
    marker = folder / "pid"
    text = f"import os, time\nopen({str(marker)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    program = (
        "import signal\nfrom pathlib import Path\nfrom pykraft.course.labs.grading import grade\n"
        # A shell lets what it starts in the background ignore the signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"grade(Path({str(folder)!r}), Path({str(written(folder, text))!r}))\n"
    )
    waiting = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    wait_until(lambda: marker.exists() and marker.read_text() != "", "the checks have begun")
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(30) != 0
    pid = int(marker.read_text())
    wait_until(lambda: not psutil.pid_exists(pid), "the checks have ended", 10)


def test_a_file_that_raises_keyboard_interrupt_has_failed_and_not_stopped_the_checks(folder: Path) -> None:
    report = grade(folder, written(folder, GOOD.replace("return 2 * n", "raise KeyboardInterrupt")))
    doubling, drawing = report.checks
    assert not report.problem
    assert (doubling.outcome, drawing.outcome) == (FAILED, PASSED)
    assert doubling.message.startswith("KeyboardInterrupt was raised")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("def double(n)", "def double()"), "TypeError: double() takes 0 positional arguments"),
        (GOOD.replace("double", "twice"), "has no attribute 'double'"),
        (
            GOOD.replace("return 2 * n", "return None"),
            "TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'",
        ),
    ],
)
def test_code_of_another_shape_is_told_to_be_the_learners_and_not_the_checks(
    folder: Path, text: str, words: str
) -> None:
    (folder / "test_lab.py").write_text(CHECKS.replace("== 2", "+ 0 == 2"))
    doubling = grade(folder, written(folder, text)).checks[0]
    assert doubling.message.startswith("the check cannot go on with your code: ") and words in doubling.message


def test_python_that_leaves_out_assertions_gives_no_points(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    wrong = written(folder, GOOD.replace("2 * n", "3 * n"))
    for report in (grade(folder, wrong), *grade_many(folder, [(wrong, 1)])):
        assert report.points == 3 and "test_it_doubles" in report.failed


def test_a_file_beside_the_lab_does_not_stand_for_a_module_of_pythons_own(folder: Path) -> None:
    for name in ("random.py", "struct.py", "json.py"):
        (folder / name).write_text("raise SystemExit('mine')\n")
    good = written(folder, GOOD)
    for report in (grade(folder, good), *grade_many(folder, [(good, 1)])):
        assert report.has_passed, report.problem


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a byte order mark.py", b"\xef\xbb\xbf" + GOOD.encode()),
        ("windows.py", GOOD.replace("\n", "\r\n").encode()),
        ("tabs.py", GOOD.replace("    ", "\t").encode()),
        ("a submission.txt", GOOD.encode()),
        ("none", GOOD.encode()),
    ],
)
def test_any_file_with_python_in_it_can_be_checked(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    report = grade(folder, folder / name)
    assert report.has_passed, report.checks


def test_a_file_that_ends_the_process_wins_nothing(folder: Path) -> None:
    text = "import os\ndef double(n):\n    os._exit(0)\n"
    report = grade(folder, written(folder, text))
    assert report.points == 0 and not report.has_passed
    assert "did not come to their end" in report.problem
    (many,) = grade_many(folder, [(folder / "work.py", 1)])
    assert not many.has_passed and many.problem


def test_the_same_seed_draws_the_same_and_another_one_something_else(folder: Path) -> None:
    text = GOOD.replace("return True", "raise ValueError(x)")
    path = written(folder, text)
    one, again, other = (report.checks[1].message for report in grade_many(folder, [(path, 5), (path, 5), (path, 6)]))
    assert one == again != other


def test_many_at_once_find_what_one_alone_finds(folder: Path) -> None:
    paths = [folder / "good.py", folder / "bad.py"]
    paths[0].write_text(GOOD)
    paths[1].write_text(GOOD.replace("2 * n", "3 * n"))
    assert grade_many(folder, [(path, 1) for path in paths]) == [grade(folder, path) for path in paths]


def test_a_hole_in_a_labs_checks_lets_its_mutant_through(tmp_path: Path) -> None:
    """2**31 is a multiple of 4 and of 8: with such counts a sign bit that stays goes unnoticed."""
    whole = next(lab for lab in LABS if lab.name.startswith("lab08"))
    holed = tmp_path / whole.name
    shutil.copytree(whole, holed)
    text = (holed / "test_lab.py").read_text()
    holes = {"[3, 6, 12]": "[4, 8, 16]", "(3, 5, 7, 100, 1000)": "(4, 8, 16, 64, 1024)"}
    for right, wrong in holes.items():
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    (holed / "test_lab.py").write_text(text)
    file = mutant_file(whole, "unsigned_modulo")
    (caught,), (through,) = (grade_many(folder, [(file, 1)]) for folder in (whole, holed))
    assert "test_a_hash_with_its_sign_bit_set_loses_the_bit_and_not_its_value" in caught.failed
    assert through.has_passed


# --- mutations --------------------------------------------------------------------------------------------------------

PROGRAM = '''"""A program."""
import math

def f(x):
    """Its docstring stays."""
    if 0 < x:
        x += 2
    return x
'''


def test_comparisons_constants_and_statements_are_changed_and_nothing_else() -> None:
    made = list(mutations(PROGRAM))
    kinds = Counter(mutation.change for mutation in made)
    assert kinds == {
        "< becomes >=": 1,
        "< becomes <=": 1,
        "0 becomes 1": 1,
        "0 becomes -1": 1,
        "2 becomes 3": 1,
        "2 becomes 1": 1,
        "line dropped": 3,
    }
    assert len({mutation.text for mutation in made}) == len({mutation.key for mutation in made}) == len(made)
    for mutation in made:
        compile(mutation.text, "mutant", "exec")
        assert "import math" in mutation.text and "Its docstring stays." in mutation.text


def test_a_survivor_needs_a_reason() -> None:
    listed = listed_survivors("# a comment\n\nx = a | b | 1 becomes 2 | it is all the same\n")
    assert listed == {"x = a | b | 1 becomes 2": "it is all the same"}
    with pytest.raises(ValueError, match="a survivor without a reason"):
        listed_survivors("x = 1 | line dropped\n")
