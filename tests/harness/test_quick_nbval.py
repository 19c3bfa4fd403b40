"""Every pytest of ours has nbval, and none waits for what it does not need."""

from __future__ import annotations

import pathlib

from tests.harness.inner import run_pytest

LOOK = """
import sys

def test_it():
    assert sys.modules["nbval"] and sys.modules["jsonschema"] and sys.modules["rfc3987_syntax"] is None
"""


def test_nbval_comes_without_a_grammar_of_addresses(tmp_path: pathlib.Path) -> None:
    verdicts, output = run_pytest(tmp_path, LOOK)
    assert verdicts == {"test_it": "passed"}, output
