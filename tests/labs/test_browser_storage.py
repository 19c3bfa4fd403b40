"""A learner's file outlives the machine on Binder: a real browser keeps it, offers it again, and it is restored."""

from __future__ import annotations

import functools
import http.server
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykraft.course import Lab
from pykraft.course.labs.task_cells import body_of
from pykraft.course.places import lab_folder
from pykraft.surroundings import HEADLESS, HOME, Shown
from tests.harness.browser import Browser, browser, missing_browser

LAB = lab_folder("08")
SOLUTION = (LAB / "solution.py").read_text()
LINKS = "return [...document.querySelectorAll('#pykraft-lab08 a')].map(link => link.textContent)"
FILE_OF_A_LINK = """
const link = document.querySelectorAll('#pykraft-lab08 a')[arguments[0]];
const request = new XMLHttpRequest();
request.open("GET", link.href, false);
request.send();
return [link.download, request.responseText];
"""

pytestmark = [
    pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser"),
    pytest.mark.limit(300),
    pytest.mark.long,
]


@pytest.fixture
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    # A short name: the path of the browser's socket is in there, and has room for 107 bytes.
    with browser(tmp_path_factory.mktemp("kept")) as opened:
        yield opened


@pytest.fixture
def shows(tmp_path: Path, window: Browser) -> Iterator[Callable[[Shown], None]]:
    """Opens what a cell shows as a page of one host, as a notebook on Binder does."""
    pages = tmp_path / "pages"
    pages.mkdir()
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(http.server.SimpleHTTPRequestHandler, directory=pages)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()

    numbers = itertools.count()

    def show(shown: Shown) -> None:
        page = f"page-{next(numbers)}.html"  # a name that the browser has no copy of
        (pages / page).write_text(f"<meta charset=utf-8>{shown._repr_html_()}", encoding="utf-8")
        window.open(f"http://127.0.0.1:{server.server_port}/{page}")

    yield show
    server.shutdown()
    server.server_close()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Lab]:
    """Makes another machine on Binder, with nothing of the one before."""
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setenv("BINDER_LAUNCH_HOST", "https://mybinder.org/")

    def start(name: str) -> Lab:
        monkeypatch.setenv(HOME, str(tmp_path / name / "home"))
        shutil.copytree(
            LAB, tmp_path / name / "labs" / LAB.name, ignore=shutil.ignore_patterns("work.py", "__pycache__")
        )
        return Lab("08", tmp_path / name / "labs")

    return start


def test_what_the_browser_has_kept_is_restored_on_another_machine(
    window: Browser, shows: Callable[[Shown], None], machine: Callable[[str], Lab]
) -> None:
    first = machine("first")
    shows(first.start())
    assert window.ask(LINKS) == [], "nothing is kept yet"
    mine = body_of(SOLUTION, "8.1") + "\n\n# ü </script>"
    shows(first.write("8.1", mine))
    shows(first.write("8.2", body_of(SOLUTION, "8.2")))
    written = first.work.read_text(encoding="utf-8")

    second = machine("second")
    shows(second.start())
    assert window.ask(LINKS) == ["Download it"]
    name, text = window.ask(FILE_OF_A_LINK, 0)
    assert (name, text) == (second.work.name, written)
    second.work.write_text(text, encoding="utf-8")
    assert "stays as it is" in repr(second.start())
    assert [check.outcome for check in second.check("8.2").report.checks] == ["passed"] * 4


def test_the_first_save_on_a_new_machine_leaves_the_file_of_the_earlier_one_in_the_browser(
    window: Browser, shows: Callable[[Shown], None], machine: Callable[[str], Lab]
) -> None:
    first, second = machine("first"), machine("second")
    for lab in (first, second):
        lab.start()
        for task in ("8.1", "8.2") if lab is first else ("8.2", "8.3"):
            shows(lab.write(task, body_of(SOLUTION, task)))
    shows(machine("third").start())
    assert window.ask(LINKS) == ["Download it", "download the one before it"]
    for number, lab in ((0, second), (1, first)):
        assert window.ask(FILE_OF_A_LINK, number)[1] == lab.work.read_text(encoding="utf-8")
