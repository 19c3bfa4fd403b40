"""A check that has failed can be seen again: the call where it went wrong, what it was given, both answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pykraft.course import Lab
from pykraft.course.labs.replay import Failure, Replay, first_difference, shown
from pykraft.surroundings import HEADLESS, HOME
from tests.labs.graders import LABS, mutant_file, mutant_files

WORDS = {
    # A mutant of each lab whose work is bytes or calls; what the replay must tell of it.
    "01": ("old_batches_count", r"call \d+: recover\n +read +[\d,]+ bytes\n(?s:.*) your answer .*\n +expected "),
    "02": (
        "from_the_beginning",
        r"call \d+: find_batch\n +read +[\d,]+ bytes\n(?s:.*)\n +position +\d+\n +offset +\d+\n",
    ),
    "03": ("null_is_empty", r"call \d+: (?:en|de)code_\w+\n(?s:.*) your answer (?s:.*)\n +expected "),
    "08": ("unsigned_modulo", r"call \d+: partition_of_key\n +key +\d+ bytes\n(?s:.*) partitions +\d+\n"),
    "20": ("tombstones_at_once", r"call \d+: \w+\n(?s:.*) your answer .*\n +expected "),
}


@pytest.fixture(autouse=True)
def nobody_reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HEADLESS, "1")
    monkeypatch.setenv(HOME, str(tmp_path))


def failed(lab: Lab, file: Path) -> None:
    """Let a lab's checks fail on this file."""
    lab.start()
    lab.work.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    assert "lab.replay() shows the first failure again" in repr(lab.check())


@pytest.mark.parametrize("number", WORDS)
def test_a_failed_check_is_shown_at_the_call_where_it_went_wrong(number: str) -> None:
    lab = Lab(number)
    mutant, words = WORDS[number]
    failed(lab, mutant_file(lab.folder, mutant))
    kept = json.loads(lab.failed.read_text(encoding="utf-8"))
    assert kept["seed"] == 1 and kept["case"].startswith("test_") and kept["message"] and kept["call"]["inputs"]
    replay = lab.replay()
    assert re.search(words, repr(replay)), replay
    assert kept["message"].splitlines()[0][:300] in repr(replay)
    assert "<table>" in (replay._repr_html_() or "")


@pytest.mark.limit(600)
@pytest.mark.long  # a run of all checks for each lab
def test_each_lab_that_takes_a_program_is_looked_at_or_has_a_replay_all_the_same() -> None:
    """For the labs that are not named above: whatever its first mutant is, something is shown."""
    for folder in LABS:
        if folder.name[3:5] not in WORDS and (folder / "solution.py").exists():
            lab = Lab(folder.name[3:5])
            failed(lab, next(iter(mutant_files(folder).values())))
            assert isinstance(lab.replay(), Replay)


def test_a_mistake_in_a_class_that_is_given_an_object_is_shown_where_it_was_made() -> None:
    """A generator of chance is written with its place in memory: another one in the learner's run than in the other."""
    lab = Lab("08")
    failed(lab, mutant_file(lab.folder, "never_the_same_again"))
    words = r"call \d+: StickyPartitioner\.partition\n(?s:.*) your answer +\d\n +expected +\d"
    assert re.search(words, repr(lab.replay())), lab.replay()


def test_what_was_taken_back_has_not_passed() -> None:
    lab = Lab("08")
    failed(lab, mutant_file(lab.folder, "unsigned_modulo"))
    lab.work.write_text(lab.starter.read_text(encoding="utf-8"), encoding="utf-8")
    assert repr(lab.replay()).startswith("✘ ") and "Task 8.2: drop the sign bit" in repr(lab.replay())


def test_after_the_mistake_is_mended_the_replay_says_so_and_a_good_check_forgets_it() -> None:
    lab = Lab("08")
    assert "call lab.check() first" in repr(lab.replay())
    failed(lab, mutant_file(lab.folder, "unsigned_modulo"))
    lab.work.write_text(lab.solution.read_text(encoding="utf-8"), encoding="utf-8")
    assert re.match(r"✔ .*: it passes now$", repr(lab.replay()))
    lab.check()
    assert "call lab.check() first" in repr(lab.replay())


def test_a_damaged_note_of_a_failure_is_said_in_words() -> None:
    lab = Lab("08")
    lab.start()
    lab.failed.write_text("{")
    assert "call lab.check() again" in repr(lab.replay())


def test_of_many_bytes_those_are_shown_where_the_code_was_to_look() -> None:
    call: dict[str, Any] = {
        "name": "find",
        "number": 1,
        "inputs": {"data": {"hex": bytes(range(256)).hex(), "size": 256}},
    }
    call["inputs"]["position"] = {"text": "85"}
    lines = repr(Replay(Failure(1, "test_it", "it", "no"), call=call)).splitlines()
    assert lines[:4] == ["✘ it (seed 1, test_it)", "no", "call 1: find", f"  {'data':>14}  256 bytes"]
    assert [line.split()[:2] for line in lines[4:6]] == [["48", "30"], ["64", "40"]]


def test_where_bytes_differ_is_told_and_the_rows_around_it_are_shown() -> None:
    mine, expected = ({"hex": (bytes(100) + tail).hex(), "size": 101} for tail in (b"A", b"B"))
    assert first_difference(mine, expected) == 100
    assert first_difference(mine, {"text": "None"}) is None
    assert shown(mine, 100).splitlines()[1:] == [
        f"{position:>6}  {' '.join(['00'] * 16)}  {'·' * 16}" for position in (64, 80)
    ] + [f"{96:>6}  {'00 00 00 00 41':<47}  ····A"]
