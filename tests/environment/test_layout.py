"""What stands in the project's own folder, and what `make` knows."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

from tests.harness.tree import ROOT, is_ignored, top_level

FOR_PEOPLE = {"notebooks", "pykraft", "labs", "datasets", "tests", "binder", "environment.yml", "README.md"} | {
    "LICENSE",
    "CHANGELOG.md",
}
FOR_TOOLS = {".ci", ".gitignore", "Makefile", "pyproject.toml", "pyspark_pykraft.py", "requirements.lock"} | {
    ".devcontainer",  # editors look for it here, GitHub for the other two
    ".github",
    "CITATION.cff",
    "setup.py",  # setuptools: what is compiled
}
TARGETS = ("help", "lab", "demo", "quick", "test", "judges", "soak", "bench", "clean")


def make(*arguments: str) -> str:
    """What make says; with -n that is what it would do."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], check=True, cwd=ROOT, env=environment, capture_output=True, text=True
    ).stdout


def test_the_folder_holds_what_people_look_for_and_what_tools_need() -> None:
    assert set(top_level()) <= FOR_PEOPLE | FOR_TOOLS
    assert set(top_level()) >= FOR_TOOLS | {"pykraft", "tests", "binder", "environment.yml", "README.md", "LICENSE"}


@pytest.mark.parametrize("path", [".venv", "build", "labs/lab01_batch/work.py", "pykraft/raft/__pycache__"])
def test_what_a_run_leaves_is_ignored(path: str) -> None:
    patterns = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    assert is_ignored(pathlib.PurePosixPath(path), patterns)


@pytest.mark.parametrize("target", TARGETS)
def test_make_knows(target: str) -> None:
    assert make("-n", target)


def test_make_alone_lists_the_targets() -> None:
    assert re.findall(r"^  make (\w+)", make(), re.MULTILINE) == list(TARGETS)


@pytest.mark.parametrize(
    ("target", "set_name"),
    [("quick", "quick"), ("test", "full"), ("judges", "judges"), ("soak", "soak")],
)
def test_make_runs_the_sets(target: str, set_name: str) -> None:
    assert f"tests/run.py {set_name}" in make("-n", target)


def test_the_lab_trusts_the_pictures_that_are_committed_in_the_notebooks() -> None:
    assert "-m nbformat.sign notebooks/00_sixty_seconds.ipynb" in make("-n", "lab").replace("*", "00_sixty_seconds")


def test_continuous_integration_is_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "CI=1 exec make test" in script.read_text()
