"""JupyterLab as a reader of the course has it, and one of its notebooks in a browser."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

from nbformat.sign import NotebookNotary

from pykraft.course.authoring.execute import read
from tests.harness.browser import Browser
from tests.harness.tree import ROOT, project_files
from tests.harness.waiting import wait_until

CLICK_AGAIN_S = 2
"""A click that has selected no cell by then has missed it. Sooner it could be taken for a double click."""
SETTINGS = ("jupyter_server_config.py",)
CELLS = "const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')];"
CELL = f"{CELLS} const cell = cells.find(c => c.textContent.includes(arguments[0]));"
DRAWN = (
    f"{CELLS} const code = cells.filter(c => c.classList.contains('jp-CodeCell'));"
    "return cells.length === arguments[0]"
    " && code.every(c => c.querySelector('.jp-InputArea .cm-content')?.textContent.trim())"
)
"""All cells of the file are there, those below the window as well: JupyterLab adds them when it has time."""
CENTRE = "const r = place.getBoundingClientRect(); return [r.x + r.width / 2, r.y + Math.min(10, r.height / 2)];"


def copy_course(folder: pathlib.Path) -> pathlib.Path:
    """The notebooks and the package as a fresh clone has them, so that a reader may save."""
    for path in project_files():
        if path.parts[0] in ("notebooks", "pykraft", "datasets", "binder", "labs") or len(path.parts) == 1:
            (folder / path.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, folder / path)
    return folder


def sign(notebooks: list[pathlib.Path], data: pathlib.Path) -> None:
    """Let JupyterLab trust the outputs of these notebooks, as `make lab` does."""
    data.mkdir(parents=True, exist_ok=True)
    notary = NotebookNotary(data_dir=str(data))
    for path in notebooks:
        notary.sign(read(path))  # type: ignore[no-untyped-call]
    notary.store.close()


@contextlib.contextmanager
def jupyterlab(course: pathlib.Path, scratch: pathlib.Path) -> Iterator[dict[str, Any]]:
    """A server on a copy of the course, with the settings that `make lab` and Binder use: its url and its token."""
    settings = scratch / "settings"
    settings.mkdir()
    for name in SETTINGS:
        shutil.copy(course / "binder" / name, settings)
    runtime = scratch / "runtime"
    environment = {name: value for name, value in os.environ.items() if name != "PYKRAFT_HEADLESS"} | {
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_CONFIG_PATH": str(settings),
        "JUPYTER_DATA_DIR": str(scratch / "data"),
        "HOME": str(scratch),
        "PYKRAFT_HOME": str(scratch / "home"),
        "PYKRAFT_PROFILE": "small",
        "PYTHONPATH": str(course),
    }
    sign(sorted(course.glob("notebooks/*.ipynb")), scratch / "data")
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
    with (scratch / "jupyterlab.log").open("w") as said:
        server = subprocess.Popen(command, cwd=course, env=environment, stdout=said, stderr=said)

    def about() -> dict[str, Any]:
        for found in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(OSError, ValueError):
                known: dict[str, Any] = json.loads(found.read_text())
                with urllib.request.urlopen(f"{known['url']}api?token={known['token']}", timeout=60) as page:
                    return known if page.status == 200 else {}
        return {}

    try:
        wait_until(lambda: bool(about()), "JupyterLab answers", 90)
        yield about()
    finally:
        server.terminate()
        server.wait(60)


class Page:
    """An open notebook. A cell is named by a piece of its text."""

    def __init__(self, window: Browser, server: dict[str, Any], path: str) -> None:
        self.window = window
        window.open(f"{server['url']}doc/tree/{path}?token={server['token']}&reset")
        asked = f"{server['url']}api/contents/{path}?token={server['token']}"
        with urllib.request.urlopen(asked, timeout=60) as answer:
            count = len(json.load(answer)["content"]["cells"])
        window.until(DRAWN, count, timeout_s=120)

        def has_kernel() -> bool:
            with urllib.request.urlopen(f"{server['url']}api/sessions?token={server['token']}", timeout=60) as answer:
                return any(each["path"] == path and each["kernel"]["connections"] for each in json.load(answer))

        wait_until(has_kernel, f"the page of {path} is connected to a kernel", 120)  # else a dialog asks for one
        self.until_idle()

    def until_idle(self, timeout_s: float = 120) -> None:
        """Until the kernel has nothing to do and no cell waits."""
        self.window.until(
            "const prompts = [...document.querySelectorAll('.jp-InputPrompt')].map(p => p.textContent);"
            "const light = document.querySelector('.jp-Notebook-ExecutionIndicator');"
            "return light && light.dataset.status === 'idle' && !prompts.some(p => p.includes('*'))",
            timeout_s=timeout_s,
        )

    def select(self, text: str) -> None:
        """Scroll to a cell, and click on its prompt: again, if the page has moved under the mouse."""

        def is_selected() -> bool:
            place = self.window.ask(
                f"{CELL} cell?.scrollIntoView({{block: 'center'}});"
                f"const place = cell?.querySelector('.jp-InputPrompt'); if (!place) return null; {CENTRE}",
                text,
            )
            if place is None:
                return False
            self.window.click(*place)
            with contextlib.suppress(AssertionError):
                self.window.until(
                    f"{CELL} return cell.classList.contains('jp-mod-active')", text, timeout_s=CLICK_AGAIN_S
                )
                return True
            return False

        wait_until(is_selected, f"the cell with {text!r} is selected", 60)

    def run(self, text: str) -> None:
        """Select a cell and press Shift+Enter."""
        self.select(text)
        self.go_on()

    def go_on(self) -> None:
        """Shift+Enter, as a reader does who has just clicked somewhere."""
        before = self.window.ask(f"{CELLS} return cells.findIndex(c => c.classList.contains('jp-mod-active'))")
        self.window.press("Shift", "Enter")
        moved = f"{CELLS} return cells.findIndex(c => c.classList.contains('jp-mod-active')) !== arguments[0]"
        self.window.until(moved, before)
        self.until_idle()

    def until_active_is_not(self, text: str) -> None:
        """Until another cell is selected than that with this text."""
        self.window.until(f"{CELL} return !cell.classList.contains('jp-mod-active')", text)

    @property
    def active(self) -> str:
        """The text of the cell that is selected."""
        return str(
            self.window.ask(f"{CELLS} return cells.find(c => c.classList.contains('jp-mod-active')).textContent")
        )

    def menu(self, *names: str) -> None:
        """Click through a menu, such as "Run", "Run All Cells"."""
        bar = "[...document.querySelectorAll('.lm-MenuBar-item')]"
        items = "[...document.querySelectorAll('.lm-Menu-item')].filter(i => i.offsetParent)"
        for name, among in zip(names, (bar, items), strict=True):
            find = f"const place = {among}.find(i => i.textContent.trim().startsWith(arguments[0]));"
            self.window.until(f"{find} return !!place", name)
            self.window.click(*self.window.ask(f"{find} {CENTRE}", name))

    def restart(self) -> None:
        """A new kernel, by the menu."""
        self.menu("Kernel", "Restart Kernel…")
        self.window.until("return !!document.querySelector('.jp-Dialog .jp-mod-accept')")
        self.window.click(
            *self.window.ask(f"const place = document.querySelector('.jp-Dialog .jp-mod-accept'); {CENTRE}")
        )
        self.window.until("return !document.querySelector('.jp-Dialog')")
        self.until_idle()

    def buttons(self, text: str) -> list[str]:
        """The words of a cell's buttons."""
        found = f"{CELL} return [...cell.querySelectorAll('.jupyter-button')].map(b => b.textContent)"
        return list(self.window.ask(found, text))

    def choose(self, text: str, number: int) -> None:
        """Click on one of a cell's buttons."""
        find = f"{CELL} const place = cell.querySelectorAll('.jupyter-button')[arguments[1]];"
        self.window.until(f"{find} return !!place", text, number)
        self.window.ask(f"{find} place.scrollIntoView({{block: 'center'}})", text, number)
        self.window.click(*self.window.ask(f"{find} {CENTRE}", text, number))
        self.window.until(f"{find} return place.textContent.startsWith('→')", text, number)

    def text_of(self, text: str) -> str:
        """All that is read in a cell, with its output."""
        return str(self.window.ask(f"{CELL} return cell.textContent", text))
