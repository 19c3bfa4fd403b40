"""A skip that the committed list does not name is a failure under CI, and only there."""

from __future__ import annotations

import pathlib

import pytest

from tests.harness.inner import run_pytest
from tests.harness.skips import LIST, allowed_patterns, is_allowed
from tests.harness.tree import ROOT

CASES = """
import pytest

def test_passes(): pass

@pytest.mark.skip(reason="no Java here")
def test_skipped_by_mark(): pass

def test_skipped_inside(): pytest.skip("no network here")

@pytest.mark.skip(reason="named on the list")
def test_listed_by_id(): pass

@pytest.mark.skip(reason="no printer: out of paper")
def test_listed_by_reason(): pass

@pytest.mark.xfail(reason="known")
def test_expected_to_fail(): assert False

@pytest.mark.xfail(reason="known", strict=False)
def test_expected_to_fail_and_passes(): pass
"""
UNLISTED = {
    "test_skipped_by_mark",
    "test_skipped_inside",
    "test_expected_to_fail",
    "test_expected_to_fail_and_passes",
}


@pytest.fixture
def allowed(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "allowed.txt"
    path.write_text("# why\ntest_inner.py::test_listed_by_id\nreason: no printer: *\n")
    return str(path)


def test_under_ci_each_unlisted_skip_fails(tmp_path: pathlib.Path, allowed: str) -> None:
    verdicts, output = run_pytest(tmp_path, CASES, CI="1", ALLOWED_SKIPS=allowed)
    assert {name for name, verdict in verdicts.items() if verdict in ("failed", "error")} == UNLISTED, output
    assert verdicts["test_passes"] == "passed"
    assert "(no network here), and tests/allowed_skips.txt does not name it" in output


def test_elsewhere_skips_stay_skips(tmp_path: pathlib.Path, allowed: str) -> None:
    verdicts, output = run_pytest(tmp_path, CASES, ALLOWED_SKIPS=allowed)
    assert not {"failed", "error"} & set(verdicts.values()), output
    assert verdicts["test_expected_to_fail"] == "xfail"
    assert verdicts["test_expected_to_fail_and_passes"] == "xpass"


def test_a_module_skipped_as_a_whole_fails_too(tmp_path: pathlib.Path, allowed: str) -> None:
    text = 'import pytest\npytest.importorskip("no_such_module")\n'
    verdicts, output = run_pytest(tmp_path, text, CI="1", ALLOWED_SKIPS=allowed)
    assert verdicts == {"module": "error"}, output


@pytest.mark.parametrize(
    ("test_id", "reason", "pattern", "allowed"),
    [
        ("tests/a.py::test_x[1-2]", "", "tests/a.py::test_x[1-2]", True),
        ("tests/a.py::test_x[1-2]", "", "tests/a.py::test_x[*]", True),
        ("tests/a.py::test_x[1-2]", "", "tests/a.py::test_x", False),
        ("tests/a.py::test_xy", "", "tests/a.py::test_x?", False),
        ("tests/a.py::test_x", "no Java", "reason: no Java", True),
        ("tests/a.py::test_x", "no Java", "no Java", False),
        ("tests/a.py::test_x", "no Javascript", "reason: no Java", False),
    ],
)
def test_a_pattern_names_an_id_or_a_reason(test_id: str, reason: str, pattern: str, allowed: bool) -> None:
    assert is_allowed(test_id, reason, [pattern]) is allowed


# --- the committed list -----------------------------------------------------------------------------------------------


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("ALLOWED_SKIPS", raising=False)
    return allowed_patterns()


def test_whatever_needs_java_is_on_the_list(committed: list[str]) -> None:
    """On a machine without Java each of these files is skipped as a whole, and would be a failure."""
    files = sorted((ROOT / "tests" / "interop").glob("test_java*.py"))
    assert len(files) > 5
    forgotten = [file.name for file in files if not is_allowed(f"tests/interop/{file.name}::test_x", "", committed)]
    assert not forgotten, f"{LIST.name} does not name {forgotten}"


def test_the_list_names_no_file_that_is_gone(committed: list[str]) -> None:
    names = [pattern.partition("::")[0] for pattern in committed if not pattern.startswith("reason:")]
    gone = [name for name in names if not any(ROOT.glob(name))]
    assert names and not gone, f"{LIST.name} names {gone}"
