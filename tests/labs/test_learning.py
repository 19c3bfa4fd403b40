"""A lab as the learner has it: one file that nothing else touches, checks, hints, the solution, progress, a grade."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pykraft import cli
from pykraft.commands.learning import course
from pykraft.course import Lab, LabError
from pykraft.course import places as course_places
from pykraft.course.labs.task_cells import body_of
from pykraft.course.progress import note, progress_file, read_progress
from pykraft.surroundings import HEADLESS, HOME, Shown
from tests.harness.tree import ROOT
from tests.labs.graders import LABS

LAB08 = next(folder for folder in LABS if folder.name.startswith("lab08"))
SOLUTION = (LAB08 / "solution.py").read_text()
HASH = "%%task 8.1\n" + body_of(SOLUTION, "8.1")


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of lab 08, a home, and a reader in front."""
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    monkeypatch.delenv(HEADLESS, raising=False)
    copy = tmp_path / "labs"
    others = [folder.name for folder in LABS if folder != LAB08]
    shutil.copytree(ROOT / "labs", copy, ignore=shutil.ignore_patterns("work.py", "__pycache__", *others))
    monkeypatch.setattr(course_places, "LABS", copy)
    monkeypatch.setattr(course, "LABS", copy)
    monkeypatch.setattr(course, "lab_folder", lambda number: course_places.lab_folder(number, copy))
    return copy


@pytest.fixture
def lab(labs: Path) -> Lab:
    return Lab("08", labs)


def test_there_are_only_the_labs_there_are(labs: Path) -> None:
    with pytest.raises(LabError, match=r"there is no lab '99': there are 08$"):
        Lab("99", labs)
    with pytest.raises(LabError, match="install pykraft from a checkout"):
        Lab("08", labs / "lab08_partitioner")


def test_a_lab_begins_with_a_copy_of_the_starter_and_never_touches_it_again(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"call lab.start\(\) first"):
        lab.check()
    assert "task 8.1: the hash of a key" in repr(lab.start())
    assert lab.work == lab.folder / "work.py"
    assert lab.work.read_text() == lab.starter.read_text()
    lab.work.write_text("mine\n" + lab.starter.read_text())
    assert "stays as it is" in repr(lab.start())
    assert lab.work.read_text().startswith("mine\n")


def test_a_task_that_the_lab_has_got_since_is_added_at_the_end(lab: Lab) -> None:
    text = lab.starter.read_text()
    begin, end = text.index("# --- task 8.3"), text.index("# --- end of task 8.3 ---\n")
    lab.work.write_text(text[:begin] + text[end:].partition("\n")[2] + "MINE = 1\n")
    assert "New in it: task 8.3" in repr(lab.start())
    assert "MINE = 1" in lab.work.read_text()
    assert body_of(lab.work.read_text(), "8.3") == body_of(text, "8.3")


@pytest.mark.parametrize("text", ["", " \n\n"])
def test_a_file_without_a_word_in_it_begins_anew_with_all_of_the_starter(lab: Lab, text: str) -> None:
    """With its imports: the tasks alone would not load."""
    lab.work.write_text(text)
    lab.start()
    assert lab.work.read_text() == lab.starter.read_text()


def test_who_has_taken_the_marks_away_keeps_what_was_written(lab: Lab) -> None:
    """A starter's function behind the learner's would take its place."""
    mine = "\n".join(line for line in SOLUTION.splitlines() if not line.startswith("# --- ")) + "\n"
    lab.work.write_text(mine)
    lab.start()
    assert lab.work.read_text() == mine
    lab.work.write_text(SOLUTION.replace("# --- end of task 8.2 ---\n", ""))
    lab.start()
    assert "# --- end of task 8.2 ---" not in lab.work.read_text()
    assert {check.outcome for check in lab.check().report.checks} == {"passed"}


def test_a_file_as_windows_writes_it_is_one_like_any_other(lab: Lab) -> None:
    lab.work.write_bytes(b"\xef\xbb\xbf" + lab.starter.read_text().replace("\n", "\r\n").encode())
    lab.start()
    lab.write("8.1", body_of(SOLUTION, "8.1").replace("    ", "\t"))
    assert {check.outcome for check in lab.check(8.1).report.checks} == {"passed"}
    assert lab.load().murmur2(b"abc") == 479470107


def test_a_file_that_cannot_be_read_or_written_is_one_sentence(lab: Lab) -> None:
    lab.work.write_bytes("def f(): pass\n".encode("utf-16"))
    for action in (lab.start, lambda: lab.write("8.1", HASH), lambda: [lab.reveal(), lab.diff()]):
        with pytest.raises(LabError, match=r"work\.py cannot be read: save it as text in UTF-8"):
            action()
    lab.work.unlink()
    lab.work.mkdir()
    with pytest.raises(LabError, match=r"work\.py cannot be read: Is a directory"):
        lab.start()
    lab.work.rmdir()
    lab.work.symlink_to(lab.folder / "no such folder" / "work.py")
    with pytest.raises(LabError, match=r"work\.py cannot be written: No such file"):
        lab.start()


def test_a_file_that_ends_the_kernel_is_one_sentence(lab: Lab) -> None:
    lab.work.write_text(SOLUTION + "\nimport sys\nsys.exit('enough')\n")
    with pytest.raises(LabError, match=r"work\.py cannot be loaded: SystemExit: enough"):
        lab.load()


def test_numbers_are_taken_for_names(lab: Lab, labs: Path) -> None:
    assert Lab(8, labs).number == Lab("8", labs).number == "08"
    lab.start()
    assert lab.check(8.2).report.tasks == ["8.2"]
    assert repr(lab.hint(8.2)).startswith("Hint 1 of 3 for task 8.2")
    with pytest.raises(LabError, match=r"has no task 9: it has 8\.1, 8\.2, 8\.3$"):
        lab.check(9)


def test_a_cell_goes_into_the_file_between_the_marks_of_its_task(lab: Lab) -> None:
    lab.start()
    assert "Task 8.1 is saved in work.py" in repr(lab.write("8.1", body_of(SOLUTION, "8.1")))
    assert body_of(lab.work.read_text(), "8.1") == body_of(SOLUTION, "8.1")
    assert body_of(lab.work.read_text(), "8.2") == body_of(lab.starter.read_text(), "8.2")
    assert {check.outcome for check in lab.check("8.1").report.checks} == {"passed"}


def test_on_binder_the_browser_keeps_the_file_and_a_button_downloads_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page(shown: Shown) -> str:
        return shown._repr_html_() or ""

    assert "localStorage" not in page(lab.start())
    mine = body_of(SOLUTION, "8.1") + "\n\n# ü </script>"
    assert "localStorage" not in page(lab.write("8.1", mine))
    monkeypatch.setenv("BINDER_LAUNCH_HOST", "https://mybinder.org/")
    offered = page(lab.start())
    assert "localStorage.getItem" in offered and '"pykraft-lab08"' in offered
    saved = page(lab.write("8.1", mine))
    found = re.search(r'<script>localStorage.setItem\("pykraft-lab08", (.*)\);</script>$', saved)
    assert found is not None and "</script>" not in found[1]
    assert json.loads(found[1].replace("<\\/", "</")) == lab.work.read_text()
    for shown in (saved, page(lab.download())):
        found = re.search('download="lab08.py" href="data:text/plain;base64,([^"]*)"', shown)
        assert found is not None and base64.b64decode(found[1]).decode() == lab.work.read_text()


def test_the_starters_cell_does_not_wipe_out_what_was_written_meanwhile(lab: Lab) -> None:
    lab.start()
    lab.write("8.1", body_of(SOLUTION, "8.1"))
    shown = lab.write("8.1", body_of(lab.starter.read_text(), "8.1"))
    assert "stays as you wrote it" in repr(shown)
    assert body_of(lab.work.read_text(), "8.1") == body_of(SOLUTION, "8.1")


@pytest.mark.parametrize(
    ("task", "cell", "words"),
    [
        ("8.1", "def murmur2(data:\n", r"line 1 of the cell is no Python: .* \(def murmur2\(data:\)\. Nothing was"),
        (
            "8.1",
            "def murmur2(data):\n    if data:\n\treturn 1\n        x = 1\n",
            "line [34] of the cell is no Python: ",
        ),
        ("8.1", " \n", "the cell does not define murmur2, which task 8.1 is about"),
        ("8.1", "# --- task 8.1: x ---\ndef murmur2(data): pass\n", "holds the mark '# --- task 8.1: x ---': leave"),
        ("8.1", "def murmur2(data): pass\n# --- end of task 8.1 ---", "holds the mark '# --- end of task 8.1 ---': "),
        ("8.1", "x = 1\n", "the cell does not define murmur2, which task 8.1 is about"),
        ("8.9", "x = 1\n", "has no task '8.9': it has 8.1, 8.2, 8.3"),
    ],
)
def test_a_mistake_in_a_cell_is_one_sentence_and_nothing_is_saved(lab: Lab, task: str, cell: str, words: str) -> None:
    lab.start()
    with pytest.raises(LabError, match=words):
        lab.write(task, cell)
    assert lab.work.read_text() == lab.starter.read_text()


def test_a_file_without_its_marks_is_told_how_to_mend_it(lab: Lab) -> None:
    lab.work.write_text("def murmur2(data):\n    return 1\n")
    with pytest.raises(LabError, match=r"the marks of task 8\.1 are not there"):
        lab.write("8.1", body_of(SOLUTION, "8.1"))


def test_a_verdict_is_a_sign_a_word_and_what_is_wrong_first(lab: Lab) -> None:
    lab.work.write_text(SOLUTION.replace("& 0x7FFFFFFF", "& 0xFFFFFFFF"))
    text = repr(lab.check("8.2"))
    assert "✔ passed   1  every partition is one that there is" in text
    assert "✘ failed   2  a hash with its sign bit set loses the bit and not its value" in text
    assert text.endswith(" points; lab.replay() shows the first failure again") and " partitions: " in text
    assert "<table>" in lab.check("8.2")._repr_html_()
    lab.work.write_text("import os\nos._exit(3)\n")
    assert repr(lab.check()).startswith("✘ the checks did not come to their end")


def test_hints_come_one_at_a_time_and_are_noted(lab: Lab, labs: Path) -> None:
    assert repr(lab.hint("8.2")).startswith("Hint 1 of 3 for task 8.2: Which mask")
    assert repr(Lab("08", labs).hint("8.2")).startswith("Hint 2 of 3")
    assert "lab.reveal()" not in repr(lab.hint("8.2"))
    assert repr(lab.hint("8.2")).startswith("Hint 3 of 3")
    assert repr(lab.hint("8.2")).endswith("There is no further one: lab.reveal() shows the solution.")
    assert read_progress()["labs"]["08"]["hints"] == {"8.2": 3}


def test_the_solution_is_shown_beside_ones_own_after_success_or_on_request(lab: Lab) -> None:
    lab.start()
    with pytest.raises(LabError, match="not everything has passed yet"):
        lab.diff()
    lab.work.write_text(SOLUTION.replace("whole", "full"))
    shown = repr(lab.diff())
    assert "-    full = len(data) // 4 * 4\n" in shown and "+    whole = len(data) // 4 * 4\n" in shown
    lab.work.write_text(lab.starter.read_text())
    assert "def murmur2" in repr(lab.reveal())
    assert "+    mask, m = 0xFFFFFFFF" in repr(lab.diff())
    assert read_progress()["labs"]["08"]["revealed"] is True


def test_who_writes_the_solution_sees_no_difference(lab: Lab) -> None:
    lab.start()
    for task in lab.tasks:
        lab.write(task.name, body_of(SOLUTION, task.name))
    assert lab.work.read_text() == SOLUTION
    assert repr(lab.diff()) == "Your file is the solution, line by line."


def test_where_nobody_reads_the_learners_file_is_left_alone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.folder / "work.py").write_text("mine")
    monkeypatch.setenv(HEADLESS, "1")
    lab.start()
    lab.check("8.1")
    assert (lab.folder / "work.py").read_text() == "mine"
    assert lab.work.read_text() == lab.starter.read_text()
    assert not progress_file().exists()


def test_the_learners_file_survives_a_git_pull(labs: Path, tmp_path: Path) -> None:
    def git(folder: Path, *arguments: str) -> str:
        who = (
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "init.defaultBranch=main",
        )
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout

    upstream, mine = tmp_path / "upstream", tmp_path / "mine"
    shutil.copytree(labs, upstream / "labs")
    shutil.copy(ROOT / ".gitignore", upstream)
    git(upstream, "init", "-q")
    git(upstream, "add", ".")
    git(upstream, "commit", "-qm", "one")
    git(tmp_path, "clone", "-q", str(upstream), str(mine))
    lab = Lab("08", mine / "labs")
    lab.start()
    lab.write("8.1", body_of(SOLUTION, "8.1"))
    written = lab.work.read_text()
    starter = upstream / "labs" / "lab08_partitioner" / "starter.py"
    starter.write_text(starter.read_text().replace("mix in every four bytes", "mix four bytes at a time"))
    git(upstream, "commit", "-qam", "two")
    git(mine, "pull", "-q", "--ff-only")
    assert "mix four bytes at a time" in lab.starter.read_text()
    assert lab.work.read_text() == written
    assert git(mine, "status", "--porcelain") == ""


def test_a_task_cell_in_a_kernel_saves_loads_and_defines(labs: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
def run(code):
    result = shell.run_cell(code)
    result.raise_error()
    return result.result
run("from pykraft.course import Lab")
run("from pathlib import Path")
run("lab = Lab('08', Path({str(labs)!r}))")
run("lab.start()")
shell.run_cell("lab.check('8.9')")
shell.run_cell("lab.diff()")
print(run({HASH!r}))
print(run("murmur2(b'abc')"))
"""
    environment = {**os.environ, "IPYTHONDIR": str(labs / "ipython")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment)
    lines = done.stdout.splitlines()
    assert "Traceback" not in done.stdout
    assert [line for line in lines if "LabError" in line] == [
        "LabError: lab 08, partitioner has no task '8.9': it has 8.1, 8.2, 8.3",
        "LabError: not everything has passed yet: go on, or call lab.reveal() to see the solution now",
    ], "a learner's mistake is one line, without the lines of code that led there"
    assert "Task 8.1 is saved in work.py. Next: lab.check('8.1')" in lines and lines[-1] == "479470107"


# --- the command ------------------------------------------------------------------------------------------------------


def grade(*arguments: str) -> int:
    return cli.main(["course", "grade", *arguments])


def test_a_grade_is_a_run_with_the_graders_seed(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.work.write_text(SOLUTION)
    assert grade("--seed", "7341") == 0
    said = "lab08_partitioner: 25 of 25 points\n  look at it: is the solution\nseed 7341\n"
    assert capsys.readouterr().out == said
    lab.work.write_text(SOLUTION.replace("& 0x7FFFFFFF", "& 0xFFFFFFFF"))
    assert grade("08", "--seed", "7341", "--json") == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["seed"] == 7341
    assert found["labs"][0]["points"] == 21
    assert found["labs"][0]["tasks"]["8.2"] == {"points": 2, "of": 6}


def test_a_grader_may_name_another_file(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ann.py").write_text(SOLUTION)
    assert grade("08", "--file", str(tmp_path / "ann.py")) == 0
    assert "25 of 25 points\n  look at it: is the solution\nseed " in capsys.readouterr().out
    (tmp_path / "bea.py").write_text(SOLUTION + "\n\ndef murmur2(data):\n    return bytearray(20 << 30)\n")
    assert grade("08", "--file", str(tmp_path / "bea.py")) == 1
    assert "MemoryError" in capsys.readouterr().out


def test_a_graders_mistakes_are_one_sentence(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in [
        ((), "No lab was begun: there is no work.py to be graded"),
        (("08",), "lab08_partitioner was not begun: there is no work.py to be graded"),
        (("8",), "lab08_partitioner was not begun: there is no work.py to be graded"),
        (("77",), "there is no lab '77': there are 08"),
        (("--file", "x.py"), "--file needs the number of one lab"),
        (("08", "--file", "x.py"), "x.py cannot be read"),
    ]:
        assert grade(*arguments) == 1
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1


def test_a_lab_goes_without_a_notebook(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> tuple[int, str]:
        return cli.main(["course", *arguments]), capsys.readouterr().out

    code, text = said("check", "08", "8.1")
    assert code == 1 and "Your file is work.py" in text and "0 of 8 points" in text
    lab.work.write_text(SOLUTION.replace("& 0x7FFFFFFF", "& 0xFFFFFFFF"))
    code, text = said("check", "8")
    assert code == 1 and "course replay 08 shows the first failure again" in text
    code, text = said("replay", "08")
    assert code == 0 and "your answer" in text and "expected" in text
    code, text = said("hint", "08", "8.2")
    assert code == 0 and text.startswith("Hint 1 of 3 for task 8.2")
    lab.work.write_text(lab.starter.read_text())
    code, text = said("run", "08")
    assert code == 1 and "Not yet: first write something for tasks 8.1, 8.2 and 8.3." in text
    assert cli.main(["course", "hint", "08", "9.9"]) == 1
    assert "has no task '9.9'" in capsys.readouterr().err


def test_the_status_tells_what_was_noted(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["course", "status"]) == 0
    assert "Nothing is noted yet" in capsys.readouterr().out
    note("notebooks", "00", finished="2026-01-02 03:04", predictions={"silence": "right"})
    note("notebooks", "00", predictions={"tail": "wrong"})
    note("labs", "08", tasks={"8.1": {"points": 8, "of": 8}}, hints={"8.1": 2})
    assert cli.main(["course", "status"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "notebook 00   finished 2026-01-02 03:04, 1 of 2 predictions right",
        "lab 08        8 of 8 points in 1 tasks, 2 hints taken",
    ]


def test_a_home_that_cannot_be_written_to_keeps_nobody_from_working(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(HOME, str(tmp_path / "file" / "home"))
    lab.start()
    lab.work.write_text(SOLUTION.replace("& 0x7FFFFFFF", "& 0xFFFFFFFF"))
    assert "✘ failed" in repr(lab.check("8.2")) and "lab.replay()" not in repr(lab.check("8.2"))
    assert "cannot be read: call lab.check() again" in repr(lab.replay())
    lab.work.write_text(SOLUTION)
    assert "25 of 25 points" in repr(lab.check())
    assert repr(lab.hint("8.1")).startswith("Hint 1") and repr(lab.hint("8.1")).startswith("Hint 2")
    assert "def murmur2" in repr(lab.reveal())


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"labs": 3, "notebooks": {}}',
        "null",
        '{"labs": {"08": 3}, "notebooks": {}}',
        '{"labs": {"08": {"hints": 3}}, "notebooks": {}}',
        '{"labs": {"08": {"hints": {"8.1": "two"}}}, "notebooks": {}}',
        '{"labs": {"08": {"tasks": {"8.1": {"points": 3}}}}, "notebooks": {}}',
        '{"labs": {}, "notebooks": {"00": {"predictions": "a"}}}',
    ],
)
def test_progress_that_cannot_be_read_is_put_aside(labs: Path, text: str) -> None:
    progress_file().parent.mkdir()
    progress_file().write_text(text)
    note("labs", "08", revealed=True)
    assert read_progress() == {"labs": {"08": {"revealed": True}}, "notebooks": {}}
    assert progress_file().with_suffix(".unreadable").read_text() == text
