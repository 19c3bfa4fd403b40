"""To open a notebook in JupyterLab changes no tracked file: saved unchanged, it has the bytes that it had.

JupyterLab writes two things into a page whose kernel has started, which `saved` does here. The contents manager that
the settings name reads and writes the files. It hides the answers to open questions, and puts them back.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config, PyFileConfigLoader
from traitlets.utils.importstring import import_item

from tests.harness.tree import ROOT

SETTINGS = ROOT / "binder" / "jupyter_server_config.py"
PAGES = sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("labs/*/lab.ipynb")])
JUPYTERS_OWN = "jupyter_server.services.contents.largefilemanager.AsyncLargeFileManager"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": "3.99.1",
}


@pytest.fixture(autouse=True)
def nothing_is_guessed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYKRAFT_HOME", str(tmp_path / "home"))


pytestmark = pytest.mark.filterwarnings("ignore:Overriding existing pre_save_hook")  # as the settings do


def saved(page: Path, folder: Path, config: Config, **metadata: Any) -> bytes:
    """A copy of the page after it was opened and saved."""
    copy = folder / page.name
    shutil.copy(page, copy)

    async def open_and_save() -> None:
        name = config.ServerApp.get("contents_manager_class", JUPYTERS_OWN)
        files = import_item(name)(root_dir=str(folder), config=config)
        model = await files.get(page.name)
        model["content"]["metadata"].update({"kernelspec": KERNEL, "language_info": LANGUAGE} | metadata)
        await files.save({"type": "notebook", "format": "json", "content": model["content"]}, page.name)

    asyncio.run(open_and_save())
    return copy.read_bytes()


@pytest.fixture(scope="module")
def settings() -> Config:
    return PyFileConfigLoader(SETTINGS.name, path=str(SETTINGS.parent)).load_config()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_notebook_that_was_only_opened_is_saved_as_it_was(page: Path, tmp_path: Path, settings: Config) -> None:
    assert saved(page, tmp_path, settings) == page.read_bytes()


def test_without_the_settings_it_would_be_another_file(tmp_path: Path) -> None:
    assert b"3.99.1" in saved(PAGES[0], tmp_path, Config())


def test_another_kernel_is_the_readers_choice_and_is_saved(tmp_path: Path, settings: Config) -> None:
    other = {"display_name": "Julia", "language": "julia", "name": "julia"}
    assert b'"julia"' in saved(PAGES[0], tmp_path, settings, kernelspec=other)


def test_a_new_notebook_is_saved(tmp_path: Path, settings: Config) -> None:
    async def save() -> None:
        files = import_item(settings.ServerApp.contents_manager_class)(root_dir=str(tmp_path), config=settings)
        content = {"cells": [], "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}
        await files.save({"type": "notebook", "format": "json", "content": content}, "new.ipynb")
        await files.save({"type": "file", "format": "text", "content": "words"}, "notes.txt")

    asyncio.run(save())
    assert "ipykernel" in (tmp_path / "new.ipynb").read_text() and (tmp_path / "notes.txt").read_text() == "words"
