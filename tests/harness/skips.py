"""Under CI a skipped test is a failed test, unless tests/allowed_skips.txt names it.

A skip says that something was not looked at. On a developer's machine that may be right: there is no Java, no Kafka to
compare with. Where the verdict counts it must be a decision that is written down. The same holds for a test that is
expected to fail, whether it does or not, and for a module or folder that is skipped as a whole.

The plugin changes the report itself: the failure stands where the skip stood. It acts when the environment variable CI
is set. ALLOWED_SKIPS names another list.
"""

from __future__ import annotations

import fnmatch
import os
import pathlib
from collections.abc import Generator

import pytest

LIST = pathlib.Path(__file__).resolve().parent.parent / "allowed_skips.txt"


def allowed_patterns() -> list[str]:
    path = pathlib.Path(os.environ.get("ALLOWED_SKIPS", LIST))
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def matches(text: str, pattern: str) -> bool:
    """Whether the text is the pattern, in which only * is special: ids are full of brackets."""
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))


def is_allowed(test_id: str, reason: str, patterns: list[str]) -> bool:
    return any(
        matches(reason, pattern.removeprefix("reason:").strip())
        if pattern.startswith("reason:")
        else matches(test_id, pattern)
        for pattern in patterns
    )


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason that a skip or an expected failure gives."""
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        return str(expected)
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns the report of a skip that is not allowed into a failure."""
    looked_away = report.outcome == "skipped" or hasattr(report, "wasxfail")
    if not looked_away or not os.environ.get("CI"):
        return
    reason = reason_of(report)
    if is_allowed(report.nodeid, reason, allowed_patterns()):
        return
    kind = "expected to fail" if hasattr(report, "wasxfail") else "skipped"
    if hasattr(report, "wasxfail"):
        del report.wasxfail
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} is {kind} ({reason}), and tests/allowed_skips.txt does not name it"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    judge(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    judge(report)
    return report
