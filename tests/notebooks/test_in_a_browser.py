"""A reader's clicks and keys in JupyterLab: a guess stays, a click leads on, and nothing is given away.

One notebook here; with ``--long`` each one runs as a whole. The browser is the system's Chromium, without a window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from pykraft.course.places import NOTEBOOKS
from tests.harness.browser import Browser, browser, missing_browser
from tests.harness.jupyter_page import CELL, Page, copy_course, jupyterlab

PATHS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
FIRST_SCREEN_PIXELS = 700

pytestmark = [
    pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser"),
    pytest.mark.limit(900),
    pytest.mark.long,
]
Opens = tuple[Browser, dict[str, Any]]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opens]:
    """A window, and a server on a copy of the course; nothing is guessed yet."""
    scratch = tmp_path_factory.mktemp("jupyter")
    for name in ("course", "browser"):
        (scratch / name).mkdir()
    course = copy_course(scratch / "course")
    with jupyterlab(course, scratch) as server, browser(scratch / "browser") as window:
        yield window, server


def questions_of(path: Path) -> list[str]:
    """The cells with questions that have options, each by its first question."""
    sources = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    return [f'nb.predict("{found[1]}"' for source in sources if (found := re.search(r'nb\.predict\("(\w+)"', source))]


def outputs_below(page: Page, text: str) -> list[str]:
    """The first words of all cells below this one that show an output."""
    found = page.window.ask(
        "const cells = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')];"
        "const below = cells.slice(1 + cells.findIndex(c => c.textContent.includes(arguments[0])));"
        "return below.filter(c => c.querySelector('.jp-OutputArea-child') && !c.textContent.includes('nb.predict('))"
        ".map(c => c.textContent.slice(0, 60))",
        text,
    )
    return list(found)


def test_in_notebook_00_a_control_is_on_the_first_screen_and_no_output_is_below_its_question(reader: Opens) -> None:
    page = Page(*reader, "notebooks/00_sixty_seconds.ipynb")
    assert outputs_below(page, 'nb.predict("place")') == []
    page.run("nb = notebook(")
    page.go_on()
    top = (
        "const b = document.querySelector('.jp-Notebook .jupyter-button'); return b && b.getBoundingClientRect().bottom"
    )
    page.window.ask("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
    assert 0 < page.window.until(top) < FIRST_SCREEN_PIXELS


def test_a_guess_stays_through_shift_enter_run_all_and_a_restart(reader: Opens) -> None:
    page = Page(*reader, "notebooks/02_segments_and_indexes.ipynb")
    first, *_ = questions_of(next(path for path in PATHS if path.name.startswith("02")))
    page.run("nb = notebook(")
    page.run(first)
    page.choose(first, 1)
    page.until_active_is_not(first)  # the click has led on
    after = page.active
    page.go_on()
    assert page.active != after and page.buttons(first)[1] == "→ b", "Shift+Enter ran the cell below"
    page.run(first)
    assert page.buttons(first)[1] == "→ b"
    for _ in range(2):
        page.restart()
        page.menu("Run", "Run All Cells")
        page.until_idle()
        assert page.buttons(first)[1] == "→ b"
        assert "b)" in page.text_of(first.replace("predict", "answer")), "the guess is answered where it is settled"


PLACE = "const bar = cell.querySelector('.pykraft-guess .guess-bar').getBoundingClientRect();"
NUMBER = "const field = cell.querySelector('.pykraft-guess input');"


def bar_end(page: Page, text: str) -> tuple[float, float]:
    """Where the bar that the reader may drag ends, in the window."""
    right, middle = page.window.ask(f"{CELL} {PLACE} return [bar.right, bar.top + bar.height / 2]", text)
    return right, middle


def test_a_drag_moves_the_marker_and_the_real_value_is_drawn_beside_it(reader: Opens) -> None:
    page = Page(*reader, "notebooks/12_failover.ipynb")
    asks = 'nb.mark("part"'
    page.run("nb = notebook(")
    page.run(asks)
    page.window.until(f"{CELL} {NUMBER} return field && field.value === '4'", asks)
    page.window.ask(f"{CELL} cell.scrollIntoView({{block: 'center'}})", asks)
    right, middle = bar_end(page, asks)
    page.window.drag((right, middle), (right - 130, middle))
    page.window.until(f"{CELL} {NUMBER} return Number(field.value) < 4", asks)
    dragged = page.window.ask(f"{CELL} {NUMBER} return field.value", asks)
    assert bar_end(page, asks)[0] < right - 60, "the bar is where it was let go"
    page.window.ask(f"{CELL} {NUMBER} field.focus()", asks)
    page.window.press("Up")
    page.window.until(f"{CELL} {NUMBER} return field.value === String(Number(arguments[1]) + 1)", asks, dragged)
    page.select("nb = notebook(")  # as long as a field has the focus, Shift+Enter is the field's
    page.run(asks)
    kept = f"{CELL} {NUMBER} return field && field.value === String(Number(arguments[1]) + 1)"
    page.window.until(kept, asks, dragged)
    page.run("from pykraft.course.rigs.failover import rounds")
    drawn = "[...cell.querySelectorAll('img')].map(image => decodeURIComponent(image.src)).join('')"
    answer = page.window.until(f"{CELL} return {drawn}", 'nb.answer("part"')
    assert "Your guess was" in answer and "measured" in answer


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS, ids=short_name)
def test_in_every_notebook_each_guess_stays_through_a_restart_and_is_answered(path: Path, reader: Opens) -> None:
    page = Page(*reader, f"notebooks/{path.name}")
    asking = questions_of(path)
    assert outputs_below(page, asking[0]) == []
    page.run("nb = notebook(")
    for text in asking:
        page.run(text)
        page.choose(text, 0)
    for _ in range(2):
        page.restart()
        page.menu("Run", "Run All Cells")
        page.until_idle(timeout_s=600)
        for text in asking:
            assert page.buttons(text)[0] == "→ a", text
            assert re.search("✔ a|✘ You said a", page.text_of(text.replace("predict", "answer"))), text
    assert "checked" in page.text_of("nb.finish(")
