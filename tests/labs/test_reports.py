"""A lab whose result is a report: the same steps for the learner, and the report in pieces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pykraft import cli
from pykraft.commands.learning import course
from pykraft.course import Lab, LabError
from pykraft.course import places as course_places
from pykraft.course.labs.reports import RawNumbers, Report
from pykraft.course.labs.task_cells import body_of
from pykraft.surroundings import HEADLESS, HOME
from tests.harness.tree import ROOT
from tests.labs.graders import REPORTS
from tests.labs.mutations import report_mutations

LAB04 = REPORTS[0]
SOLUTION = (LAB04 / "solution.md").read_text()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A copy of lab 04, a home, and a reader in front."""
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    monkeypatch.delenv(HEADLESS, raising=False)
    labs = tmp_path / "labs"
    shutil.copytree(LAB04, labs / LAB04.name, ignore=shutil.ignore_patterns("work.md", "__pycache__"))
    monkeypatch.setattr(course, "LABS", labs)
    monkeypatch.setattr(course, "lab_folder", lambda number: course_places.lab_folder(number, labs))
    return Lab("04", labs)


def test_a_report_begins_as_a_copy_of_its_form_and_git_does_not_see_it(lab: Lab) -> None:
    assert "Your file is work.md" in repr(lab.start())
    assert lab.work.name == "work.md" and lab.work.read_text() == lab.starter.read_text()
    assert "labs/*/work.md" in (ROOT / ".gitignore").read_text().splitlines()
    lab.work.write_text("mine\n" + SOLUTION)
    assert "stays as it is" in repr(lab.start())
    assert lab.check().report.has_passed


def test_raw_numbers_go_into_their_place_and_are_words_for_the_checks(lab: Lab) -> None:
    lab.start()
    assert "Task 4.3 is saved in work.md" in repr(lab.write("4.3", body_of(SOLUTION, "4.3")))
    assert body_of(lab.work.read_text(), "4.3") == body_of(SOLUTION, "4.3")
    lab.work.write_text(SOLUTION.replace("- Verdict: DOES NOT HOLD", "- Verdict: HOLDS"))
    assert "times makes it DOES NOT HOLD" in repr(lab.check("4.4"))
    assert "which calls nothing" in repr(lab.replay())
    with pytest.raises(LabError, match="there is nothing in it that a cluster could run on"):
        lab.run_in_cluster()
    assert "## The raw numbers" in repr(lab.reveal()) and "+++ solution.md" in repr(lab.diff())


def test_a_report_is_graded_like_a_program(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["course", "grade", "04"]) == 1
    assert "there is no work.md to be graded" in capsys.readouterr().err
    lab.work.write_text(SOLUTION)
    assert cli.main(["course", "grade", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labs"][0]["points"] == found["labs"][0]["total"] > 0


def test_a_task_that_a_report_has_got_since_comes_with_the_marks_of_a_report(lab: Lab) -> None:
    text = lab.starter.read_text()
    begin, end = text.index("<!-- task 4.2"), text.index("<!-- task 4.3")
    lab.work.write_text(text[:begin] + text[end:])
    assert "New in it: task 4.2" in repr(lab.start())
    assert text[begin:end].strip() in lab.work.read_text() and "# ---" not in lab.work.read_text()


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("at,cache,", "when,cache,", "the raw numbers have no column at"),
        (
            SOLUTION[SOLUTION.index("```csv") + 6 : SOLUTION.index("```\n\n<!-- end of task 4.3")],
            "\nat,cache\n",
            "is no run",
        ),
        ("- Verdict: DOES NOT HOLD", "", "task 4.4 has no line '- Verdict: ...'"),
    ],
)
def test_what_is_missing_in_the_raw_numbers_is_told_in_words_by_every_check(
    lab: Lab, right: str, wrong: str, words: str
) -> None:
    assert SOLUTION.count(right) == 1
    lab.work.write_text(SOLUTION.replace(right, wrong))
    messages = [check.message for check in lab.check().report.checks if check.message]
    assert any(words in message for message in messages), messages
    assert not any("Error:" in message for message in messages), messages


def test_a_file_that_is_no_text_is_told_in_words(lab: Lab) -> None:
    lab.work.write_bytes(b"\xff\xfe\x00")
    assert "work.md cannot be loaded: UnicodeDecodeError" in repr(lab.check())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", r"the marks of task 4\.1 are not there"),
        ("<!-- task 4.1: x -->\n<!-- end of task 4.1 -->", "has no line '- Claim: ...'"),
        ("<!-- task 4.1: x -->\n- Claim: a\n- Claim: b\n<!-- end of task 4.1 -->", "has 2 lines"),
    ],
)
def test_what_is_missing_in_a_report_is_told_in_words(text: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        Report(text).field("4.1", "Claim")


def test_a_report_is_read_in_pieces() -> None:
    text = "<!-- task 4.1: x -->\n- Claim: one\n  two.\n- Because: FILL IN\n"
    text += "```csv\na,b\n1,2\n```\n| x | y |\n|---|---|\n| 3 | 4 |\n<!-- end of task 4.1 -->\n"
    report = Report(text)
    assert report.field("4.1", "Claim") == "one two."
    assert report.rows("4.1") == [{"a": "1", "b": "2"}]
    assert report.table("4.1") == [{"x": "3", "y": "4"}]
    with pytest.raises(NotImplementedError, match=r"^Task 4\.1: Because still says FILL IN"):
        report.field("4.1", "Because")
    for bad, words in (("1,2,3", "more or fewer columns"), ("1", "more or fewer columns")):
        with pytest.raises(AssertionError, match=words):
            Report(text.replace("1,2", bad)).rows("4.1")


def test_raw_numbers_are_written_with_the_kernels_counters_beside_them(tmp_path: Path) -> None:
    raw = RawNumbers()
    with pytest.raises(ValueError, match="nothing was measured yet"):
        raw.csv()
    with pytest.raises(ValueError, match="a run is cold, warm, written"), raw.run("tepid"):
        pass
    path = tmp_path / "file"
    path.write_bytes(bytes(5000))
    for _ in range(2):
        with raw.run("warm", order="in order") as run:
            run.bytes = len(path.read_bytes())
    with (
        pytest.raises(ValueError, match=r"columns \['block'\], those before have \['order'\]"),
        raw.run("warm", block=1),
    ):
        pass
    text = f"<!-- task 4.3: x -->\n{raw.section()}\n<!-- end of task 4.3 -->"
    one, other = Report(text).rows("4.3")
    assert list(one) == ["at", "cache", "order", "bytes", "seconds", "read_bytes"]
    assert one["bytes"] == "5000" and float(one["seconds"]) > 0 and one["at"] <= other["at"]


def test_a_report_is_changed_line_by_line_and_number_by_number() -> None:
    text = "# Title 1\n<!-- task 4.1: x -->\n## Head 2\n- Holds if: 100 times\n"
    text += "2026-01-02 03:04:05.678,cold,4096\n- A: In 3.\n"
    changes = [mutation.key for mutation in report_mutations(text + "<!-- end of task 4.1 -->\nafter 5\n")]
    assert changes == [
        "- Holds if: 100 times | line dropped",
        "- Holds if: 100 times | 100 becomes 10",
        "2026-01-02 03:04:05.678,cold,4096 | line dropped",
        "2026-01-02 03:04:05.678,cold,4096 | 4096 becomes 409.6",
        "- A: In 3. | line dropped",
    ]
