"""Each script's rule, broken: the dialogue must become another one, and show the harm."""

from __future__ import annotations

import pathlib
from collections import Counter

import pytest

from tests.datadriven.dialogue import Dialogue
from tests.datadriven.planted import BUGS, Bug
from tests.harness.datadriven import play

SCRIPTS = {path.stem: path for path in sorted(pathlib.Path(__file__).parent.glob("*.txt"))}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_script_of_a_broken_rule_shows_the_harm(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    script = SCRIPTS[bug.script].read_text()
    bug.plant(monkeypatch)
    broken = play(script, Dialogue().run)
    assert broken != script, f"{bug.script} passes with its rule broken"
    assert bug.harm in Counter(broken.splitlines()) - Counter(script.splitlines())


def test_each_script_has_a_rule_that_was_broken() -> None:
    assert {bug.script for bug in BUGS} == set(SCRIPTS)
    assert len(SCRIPTS) >= 8
