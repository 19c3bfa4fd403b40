"""What a visitor of the repository finds: how to contribute, report and cite, and what GitHub and a devcontainer run.

These files repeat facts that stand elsewhere, and each test compares one of them with its source.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

import pykraft
from tests.harness.tree import ROOT, is_ignored
from tests.run import SETS, SUITES

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OLDEST_PYTHON = PROJECT["requires-python"].removeprefix(">=")
GUIDES = (".github/CONTRIBUTING.md", ".github/SECURITY.md", "README.md")


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(text_of(".github/workflows/tests.yml"))
    return found


def devcontainer() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text_of(".devcontainer/devcontainer.json"))
    return found


def citation() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text_of("CITATION.cff"))
    return found


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", text_of("Makefile"), re.MULTILINE))


def test_github_runs_what_any_machine_runs_and_nothing_else() -> None:
    (job,) = workflow()["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    used = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    assert used == ["actions/checkout", "actions/setup-python"]


def test_github_tests_pushes_and_pull_requests_and_may_only_read() -> None:
    assert set(workflow()[True]) == {"push", "pull_request"}  # YAML takes the key `on` for true
    assert workflow()["permissions"] == {"contents": "read"}


def test_github_and_the_devcontainer_have_the_oldest_python_that_the_project_allows() -> None:
    (job,) = workflow()["jobs"].values()
    assert [step["with"]["python-version"] for step in job["steps"] if "with" in step] == [OLDEST_PYTHON]
    assert devcontainer()["image"] == f"python:{OLDEST_PYTHON}"


def test_the_devcontainer_is_set_up_by_make_and_works_with_what_make_has_set_up() -> None:
    command, target = devcontainer()["postCreateCommand"].split()
    assert command == "make" and target in targets()
    assert devcontainer()["customizations"]["vscode"]["settings"] == {
        "python.defaultInterpreterPath": "${workspaceFolder}/.venv/bin/python"
    }


def test_the_citation_is_of_this_version() -> None:
    assert citation()["version"] == pykraft.__version__
    assert citation()["license"] == PROJECT["license"]
    assert citation()["keywords"] == PROJECT["keywords"]
    assert citation()["authors"] == [{"name": "The pykraft authors"}]


def test_the_citation_has_what_its_format_requires() -> None:
    assert citation()["cff-version"] == "1.2.0"
    assert set(citation()) >= {"message", "title", "authors"}


@pytest.mark.parametrize("guide", GUIDES)
def test_each_target_that_a_guide_names_is_one_of_make(guide: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text_of(guide), re.MULTILINE))
    assert named <= targets()
    assert named or guide == ".github/SECURITY.md"


@pytest.mark.parametrize("guide", GUIDES)
def test_each_set_and_suite_that_a_guide_names_is_one_of_the_tests(guide: str) -> None:
    for words in re.findall(r"tests/run\.py ([a-z][a-z ]*)", text_of(guide)):
        chosen, *suites = words.split()
        assert chosen in SETS
        assert set(suites) <= {suite.name for suite in SUITES if chosen in suite.sets}


@pytest.mark.parametrize("guide", GUIDES)
def test_each_link_of_a_guide_leads_to_a_file(guide: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", text_of(guide))
    assert [link for link in links if not ((ROOT / guide).parent / link).exists()] == []


def test_each_path_in_the_guides_exists() -> None:
    paths = {path for guide in GUIDES for path in re.findall(r"`((?:[\w.]+/)+[\w.]*)`", text_of(guide))}
    mine = {path for path in paths if not is_ignored((ROOT / path).relative_to(ROOT), [".venv", "build"])}
    assert [path for path in sorted(mine) if not (ROOT / path).exists()] == []
    assert "tests/style/test_layers.py" in mine


@pytest.mark.parametrize("tool", ["ruff", "mypy", "pytest"])
def test_the_tools_that_contributors_call_are_installed(tool: str) -> None:
    assert re.search(rf"^\.venv/bin/(python -m )?{tool}\b", text_of(".github/CONTRIBUTING.md"), re.MULTILINE)
    assert subprocess.run([sys.executable, "-m", tool, "--version"], capture_output=True, check=True).stdout


def test_the_sizes_that_contributors_are_told_are_those_that_are_tested() -> None:
    sizes = text_of("tests/style/test_sizes.py")
    limits = {name: re.search(rf"^{name} = (\d+)$", sizes, re.MULTILINE) for name in ("FUNCTION_LINES", "MODULE_LINES")}
    function, module = (found[1] for found in limits.values() if found)
    assert f"at most {function} lines, a module at most {module}" in " ".join(text_of(GUIDES[0]).split())
