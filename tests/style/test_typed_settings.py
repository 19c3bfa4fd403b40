"""The settings of clients and clusters as type checkers know them: those of clients are made from the table that
clients check them by, and both are of use."""

from __future__ import annotations

import re

from mypy import api

from pykraft.course.authoring.typed_settings import COMMAND, MODULE, settings_module
from tests.harness.tree import ROOT

USES = ROOT / "tests" / "style" / "typed_uses.py"
_WRONG = re.compile(r"  # wrong: (\S+)$")
_ERROR = re.compile(r"typed_uses\.py:(\d+): error: .*\[(\S+)\]$")


def test_the_settings_that_type_checkers_know_are_those_of_the_table() -> None:
    assert MODULE.read_text(encoding="utf-8") == settings_module(), f"make it again: {COMMAND}"


def test_mypy_complains_of_a_mistyped_setting_and_of_nothing_else() -> None:
    lines = enumerate(USES.read_text(encoding="utf-8").splitlines(), start=1)
    expected = {(number, found[1]) for number, line in lines if (found := _WRONG.search(line))}
    printed, complaints, _ = api.run(["--no-error-summary", str(USES)])
    assert not complaints
    told = {(int(found[1]), found[2]) for line in printed.splitlines() if (found := _ERROR.search(line))}
    assert told == expected, printed
