"""No test runs for ever, and the failure says where the threads stood."""

from __future__ import annotations

import pathlib

from tests.harness.inner import run_pytest

WAITS = """
import threading
import pytest

never = threading.Event()

@pytest.mark.limit(0.3)
def test_waits_for_ever():
    helper = threading.Thread(target=never.wait, args=(30,), name="the one it waits for", daemon=True)
    helper.start()
    try:
        helper.join()
    except Exception:
        pass

@pytest.fixture
def slow(): never.wait(30)

@pytest.mark.limit(0.3)
def test_set_up_waits_for_ever(slow): pass

@pytest.mark.limit(30)
def test_has_more_time(): never.wait(0.6)

def test_has_the_time_of_the_run(): never.wait(30)

def test_runs_after_all_these(): pass
"""


def test_a_test_over_its_limit_fails_and_the_others_run(tmp_path: pathlib.Path) -> None:
    verdicts, output = run_pytest(tmp_path, WAITS, "-o", "time_limit=0.5")
    assert verdicts == {
        "test_waits_for_ever": "failed",
        "test_set_up_waits_for_ever": "error",
        "test_has_more_time": "passed",
        "test_has_the_time_of_the_run": "failed",
        "test_runs_after_all_these": "passed",
    }, output
    assert "over the limit of 0.3 s" in output
    assert "Thread the one it waits for:" in output


def test_a_limit_ends_a_search_of_hypothesis(tmp_path: pathlib.Path) -> None:
    text = """
import threading
import pytest
from hypothesis import given, settings, strategies

@pytest.mark.limit(0.5)
@settings(deadline=None)
@given(strategies.integers())
def test_hangs_on_each_example(number): threading.Event().wait(30)
"""
    verdicts, output = run_pytest(tmp_path, text)
    assert verdicts == {"test_hangs_on_each_example": "failed"}, output
    assert "over the limit of 0.5 s" in output
