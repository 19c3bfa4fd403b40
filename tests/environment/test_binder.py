"""Binder can read the folder, and what it runs there is what the project means."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request
from contextlib import suppress

import psutil
import pytest

from pykraft import cli
from pykraft.course.authoring import binder
from pykraft.course.syllabus import SYLLABUS
from tests.harness.tree import ROOT, project_files
from tests.harness.waiting import wait_until

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


def test_a_notebook_that_is_closed_gives_its_memory_back() -> None:
    """Where all of the course has two gigabytes, the kernel of a notebook must not outlive its tab."""
    settings = json.loads((BINDER / "overrides.json").read_text())
    assert settings["@jupyterlab/notebook-extension:tracker"]["kernelShutdown"] is True


def test_jupyter_opens_the_same_notebook_as_make() -> None:
    settings = json.loads((BINDER / "jupyter_lab_config.json").read_text())
    notebook = settings["LabApp"]["default_url"].partition("/doc/tree/")[2]
    assert f"NOTEBOOK := {notebook}\n" in (ROOT / "Makefile").read_text()


# --- two gigabytes ----------------------------------------------------------------------------------------------------

LARGEST_MEGABYTES = 2000
"""Above it Binder ends the kernel."""


def megabytes(process: psutil.Process) -> float:
    """Of a process and its children, what is shared counted once."""
    return sum(one.memory_full_info().pss for one in (process, *process.children(recursive=True))) / 1e6


def test_jupyterlab_and_any_notebook_have_room_on_binder(tmp_path: pathlib.Path) -> None:
    """What a notebook may take its own budget says, which is measured with every run of the notebooks."""
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]

    def is_answered() -> bool:
        """It writes down where it is before it listens there."""
        for found in tmp_path.glob("jpserver-*.json"):
            with suppress(OSError, ValueError):
                about = json.loads(found.read_text())
                with urllib.request.urlopen(f"{about['url']}lab?token={about['token']}", timeout=60) as page:
                    return bool(page.status == 200)
        return False

    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path), "PYKRAFT_PROFILE": "small"}
    with (tmp_path / "said").open("w") as said:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said)
    try:
        wait_until(is_answered, "JupyterLab has served its page", 60)
        lab = megabytes(psutil.Process(server.pid))
    finally:
        server.terminate()
        server.wait(30)
    assert lab + max(entry.limit_megabytes for entry in SYLLABUS.values()) < LARGEST_MEGABYTES, f"{lab:.0f} MB"


# --- the badge --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "repository"),
    [
        ("https://github.com/ann/kraft.git\n", "ann/kraft"),
        ("https://github.com/ann/kraft", "ann/kraft"),
        ("https://token@github.com/ann/py.kraft/", "ann/py.kraft"),
        ("git@github.com:ann/kraft.git", "ann/kraft"),
        ("ssh://git@github.com/ann/kraft", "ann/kraft"),
        ("https://example.org/ann/kraft.git", None),
        ("../kraft", None),
        ("", None),
    ],
)
def test_the_repository_is_known_from_its_address(address: str, repository: str | None) -> None:
    assert binder.repository_of(address) == repository


def test_a_copy_without_a_public_origin_says_what_to_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(binder.NoRepository, match="--repository OWNER/NAME"):
        binder.this_repository(tmp_path)
    with pytest.raises(binder.NoRepository, match="must be OWNER/NAME"):
        binder.badge("kraft")


def test_the_badge_opens_the_notebook_that_binder_opens() -> None:
    settings = json.loads((BINDER / "jupyter_lab_config.json").read_text())
    assert binder.link("ann/kraft", "v1").endswith("/gh/ann/kraft/v1?urlpath=" + settings["LabApp"]["default_url"][1:])


def test_the_readme_has_the_badge_of_its_repository_or_of_any() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.partition(binder.BEGIN)[2].partition(binder.END)[0].strip()
    if block != binder.UNKNOWN:
        match = re.search(r"/gh/([^/]+/[^/]+)/([^?]+)\?", block)
        assert match is not None and block == binder.badge(match[1], match[2])
    written = binder.with_badge(readme, binder.badge("ann/kraft"))
    assert written.count(binder.badge("ann/kraft")) == 1
    assert binder.with_badge(written, block) == readme
    with pytest.raises(ValueError, match="no place for the badge"):
        binder.with_badge("# pykraft", "x")


def test_the_command_prints_the_badge(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["course", "binder", "--repository", "ann/kraft"]) == 0
    assert capsys.readouterr().out == binder.badge("ann/kraft") + "\n"
    assert cli.main(["course", "binder", "--repository", "kraft"]) == 1
    assert "must be OWNER/NAME" in capsys.readouterr().err
