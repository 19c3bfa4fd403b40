"""Binder can read the folder, and what it runs there is what the project means."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.harness.tree import ROOT, project_files

BINDER = ROOT / "binder"


def copy_project(target: pathlib.Path) -> pathlib.Path:
    """The project as a fresh clone has it."""
    for path in project_files():
        (target / path.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target / path)
    return target


def test_repo2docker_plans_the_image(tmp_path: pathlib.Path) -> None:
    command = [str(pathlib.Path(sys.executable).parent / "jupyter-repo2docker"), "--no-build", "--debug"]
    command += ["--user-id", "1000", "--user-name", "x", str(copy_project(tmp_path / "copy"))]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    plan = done.stdout + done.stderr
    assert done.returncode == 0, plan
    assert "python=3.11" in plan
    for line in ('--file "binder/environment.yml"', "RUN ./binder/postBuild", "/binder/start"):
        assert line in plan


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_the_scripts_can_be_run(name: str) -> None:
    assert os.access(BINDER / name, os.X_OK)
    assert subprocess.run(["bash", "-n", str(BINDER / name)], check=False).returncode == 0


def test_the_build_stops_at_the_first_error() -> None:
    assert "set -euo pipefail" in (BINDER / "postBuild").read_text()


def test_the_start_hands_over_to_the_server_it_is_given() -> None:
    shown = 'echo "$PYKRAFT_PROFILE: $0 $1"'
    done = subprocess.run([str(BINDER / "start"), "sh", "-c", shown, "a", "b c"], check=True, capture_output=True)
    assert done.stdout == b"small: a b c\n"


def test_jupyter_asks_nothing_about_news() -> None:
    settings = json.loads((BINDER / "overrides.json").read_text())
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_jupyter_opens_the_same_notebook_as_make() -> None:
    settings = json.loads((BINDER / "jupyter_lab_config.json").read_text())
    notebook = settings["LabApp"]["default_url"].partition("/doc/tree/")[2]
    assert f"NOTEBOOK := {notebook}\n" in (ROOT / "Makefile").read_text()
