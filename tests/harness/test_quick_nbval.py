"""A pytest with nbval does not wait for what that does not need, and one that runs no notebook not for nbval."""

from __future__ import annotations

import pathlib

from tests.harness.inner import run_pytest
from tests.run import NBVAL, SUITES, WITHOUT_NBVAL

LOOK = """
import sys

def test_it():
    assert sys.modules["nbval"] and sys.modules["jsonschema"] and sys.modules["rfc3987_syntax"] is None
"""
LOOK_AGAIN = """
import sys

def test_it():
    assert not {"nbval", "jsonschema", "coverage", "zmq"} & sys.modules.keys()
"""


def test_nbval_comes_without_a_grammar_of_addresses(tmp_path: pathlib.Path) -> None:
    verdicts, output = run_pytest(tmp_path, LOOK, has_nbval=True)
    assert verdicts == {"test_it": "passed"}, output


def test_the_suites_without_notebooks_do_without_nbval(tmp_path: pathlib.Path) -> None:
    verdicts, output = run_pytest(tmp_path, LOOK_AGAIN)
    assert verdicts == {"test_it": "passed"}, output
    commands = {suite.name: suite.command("full") for suite in SUITES if suite.module == "pytest"}
    with_nbval = {name for name, command in commands.items() if WITHOUT_NBVAL[1] not in command}
    assert with_nbval == {suite.name for suite in SUITES if {*NBVAL} & {*suite.arguments}}
