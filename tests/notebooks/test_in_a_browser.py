"""A reader's clicks and keys in JupyterLab: a guess stays, a click leads on, and nothing is given away.

One notebook runs as a whole here, the one that takes the fewest seconds, and cells of two others; with ``--long`` each
one runs. The browser is the system's Chromium, without a window.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from pykraft.course.places import NOTEBOOKS
from tests.harness.browser import Browser, browser, missing_browser
from tests.harness.contrast import faint_texts
from tests.harness.jupyter_page import CELL, CENTRE, Page, copy_course, jupyterlab

PATHS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
SHORT = next(path for path in PATHS if path.name.startswith("06"))
FIRST_SCREEN_PIXELS = 700
CELLS_TO_THE_FIRST_LOSS = 12
CURE_OF_5 = "kafka-transactions forceTerminateTransaction --transactionalId desk-2"

pytestmark = [
    pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser"),
    pytest.mark.limit(900),
]
Opens = tuple[Browser, dict[str, Any]]


class Change(NamedTuple):
    """A text of a file of the course, and what is to be there instead."""

    path: str
    old: str
    new: str


@contextlib.contextmanager
def a_reader(scratch: Path, change: Change | None = None) -> Iterator[Opens]:
    """A window, and a server on a copy of the course, with one text of it changed; nothing is guessed yet."""
    (scratch / "course").mkdir()
    course = copy_course(scratch / "course")
    if change is not None:
        changed = course / change.path
        assert changed.read_text().count(change.old) == 1
        changed.write_text(changed.read_text().replace(change.old, change.new))
    with jupyterlab(course, scratch) as server, browser() as window:
        yield window, server


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opens]:
    with a_reader(tmp_path_factory.mktemp("jupyter")) as opens:
        yield opens


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


def nothing_is_given_away(page: Page, question: str) -> None:
    """Below an open question there is no output, and no cell has the letter of an answer."""
    assert outputs_below(page, question) == []
    sources = page.window.ask(
        "return [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputArea')].map(c => c.textContent)"
    )
    assert sum("nb.answer(" in source for source in sources) > 2
    assert [source for source in sources if re.search(r"nb\.answer\([^)]*\"[a-h]\"", source)] == []


def a_guess_stays_when_its_cell_runs_again(page: Page, question: str) -> None:
    page.run("nb = notebook(")
    page.run(question)
    page.choose(question, 1)
    page.until_active_is_not(question)  # the click has led on
    after = page.active
    page.go_on()
    assert page.active != after and page.buttons(question)[1] == "→ b", "Shift+Enter ran the cell below"
    page.run(question)
    assert page.buttons(question)[1] == "→ b"


def test_in_notebook_00_a_control_is_on_the_first_screen_and_no_output_is_below_its_question(reader: Opens) -> None:
    page = Page(*reader, "notebooks/00_sixty_seconds.ipynb")
    nothing_is_given_away(page, 'nb.predict("place")')
    page.run("nb = notebook(")
    page.go_on()
    top = "const player = document.querySelector('.jp-Notebook .pk-player'); return player?.getBoundingClientRect().top"
    page.window.ask("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
    assert 0 < page.window.until(top) < FIRST_SCREEN_PIXELS


PLAYER = "const player = document.querySelector('.jp-Notebook .pk-player')?.player;"


@pytest.mark.long
def test_the_player_opens_playing_and_a_node_that_the_reader_kills_costs_acknowledged_records(reader: Opens) -> None:
    """The notebook's kernel runs the history again with the act, and the page shows both branches."""
    page = Page(*reader, "notebooks/00_sixty_seconds.ipynb")
    page.run('play("first-loss")')
    window = page.window
    window.until(f"{PLAYER} return Boolean(player && player.views && player.playing)")
    window.ask("document.querySelector('.pk-player').scrollIntoView({block: 'center'})")
    cells = "[...document.querySelectorAll('.jp-Notebook .jp-CodeCell')]"
    assert window.ask(f"return {cells}.findIndex(c => c.querySelector('.pk-player'))") < CELLS_TO_THE_FIRST_LOSS
    window.ask(
        f"{PLAYER} player.stop(); player.go(4_000); player.root.focus();"
        "player.select({type: 'node', node: player.film.leader(4_000).node})"
    )
    window.press("k")
    window.until(f"{PLAYER} return player.before !== null")
    window.ask(f"{PLAYER} player.stop(); player.go(player.film.to)")
    branch, before = (window.ask(f"{PLAYER} return player.{film}.tally(player.t).gone") for film in ("film", "before"))
    assert 0 < branch < before
    assert "acknowledged record" in window.ask("return document.querySelector('.pk-tally').textContent")
    assert window.ask(f"{PLAYER} return player.data.link").startswith("pykraft/")
    assert window.ask("return document.activeElement.closest('.pk-player') !== null"), "the keys go on to the player"
    link = window.ask(f"{PLAYER} const link = player.data.link; player.act('undo'); return link")
    window.until(f"{PLAYER} return player.before === null")
    window.ask(f"{PLAYER} player.act('replay ' + arguments[0])", link)
    window.until(f"{PLAYER} return player.before !== null && player.data.link === arguments[0]", link)


def test_a_guess_stays_through_shift_enter_run_all_and_a_restart(reader: Opens) -> None:
    page = Page(*reader, f"notebooks/{SHORT.name}")
    first, *_ = questions_of(SHORT)
    nothing_is_given_away(page, first)
    a_guess_stays_when_its_cell_runs_again(page, first)
    for is_new in (False, True):
        if is_new:
            page.restart()
        page.menu("Run", "Run All Cells")
        page.until_idle()
        assert page.buttons(first)[1] == "→ b"
        assert "b)" in page.text_of(first.replace("predict", "answer")), "the guess is answered where it is settled"


@pytest.mark.long
def test_in_an_incidents_notebook_a_slip_is_answered_and_the_cure_ends_it_in_colours_that_can_be_read(
    reader: Opens,
) -> None:
    """The kernel's clock runs. The same without JupyterLab, and cheap, is with the widgets' tests."""
    page = Page(*reader, "notebooks/incidents/i5_ledger_stands_still.ipynb")
    page.run("shift = incident(5)")
    window = page.window
    window.until("return !!document.querySelector('.pk-take')")
    window.ask("document.querySelector('.pk-call').scrollIntoView()")
    window.click(*window.ask(f"const place = document.querySelector('.pk-take'); {CENTRE}"))
    for line in ("kafka-transaction list", CURE_OF_5, "wait 60"):
        window.until("const input = document.querySelector('.pk-prompt input'); input.focus(); return !input.disabled")
        window.type(line)
        window.press("Enter")
    window.until("return document.querySelector('.pk-pager.pk-solved h3')?.textContent.startsWith('✔ Solved.')")
    assert "Did you mean kafka-transactions?" in window.ask("return document.querySelector('.pk-answer').textContent")
    assert faint_texts(window, ".pk-call") == []


PLACE = "const bar = cell.querySelector('.pykraft-guess .guess-bar').getBoundingClientRect();"
NUMBER = "const field = cell.querySelector('.pykraft-guess input');"


def bar_end(page: Page, text: str) -> tuple[float, float]:
    """Where the bar that the reader may drag ends, in the window."""
    right, middle = page.window.ask(f"{CELL} {PLACE} return [bar.right, bar.top + bar.height / 2]", text)
    return right, middle


def a_typed_number_stays_when_its_cell_runs_again(page: Page, text: str, before: float) -> None:
    """The field has the keyboard, and Shift+Enter runs its cell all the same."""
    page.window.ask(f"{CELL} {NUMBER} field.focus()", text)
    page.window.press("Up")
    kept = f"{CELL} {NUMBER} return field && Number(field.value) === arguments[1]"
    page.window.until(kept, text, before + 1)
    page.go_on()
    page.window.until(kept, text, before + 1)


def test_a_drag_moves_the_marker_and_the_real_value_is_drawn_beside_it(reader: Opens) -> None:
    page = Page(*reader, "notebooks/12_failover.ipynb")
    asks = 'nb.mark("part"'  # begins at 4
    page.run("nb = notebook(")
    page.run(asks)
    page.window.until(f"{CELL} {NUMBER} return field && field.value === '4'", asks)
    page.window.ask(f"{CELL} cell.scrollIntoView({{block: 'center'}})", asks)
    right, middle = bar_end(page, asks)
    page.window.drag((right, middle), (right - 130, middle))
    page.window.until(f"{CELL} {NUMBER} return Number(field.value) < 4", asks)
    dragged = page.window.ask(f"{CELL} {NUMBER} return field.value", asks)
    assert bar_end(page, asks)[0] < right - 60, "the bar is where it was let go"
    a_typed_number_stays_when_its_cell_runs_again(page, asks, float(dragged))
    page.run("from pykraft.course.lessons.failover.failover import rounds")
    drawn = "[...cell.querySelectorAll('img')].map(image => decodeURIComponent(image.src)).join('')"
    answer = page.window.until(f"{CELL} return {drawn}", 'nb.answer("part"')
    assert "Your guess was" in answer and "measured" in answer


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS, ids=short_name)
def test_in_every_notebook_each_guess_stays_through_a_restart_and_is_answered(path: Path, reader: Opens) -> None:
    page = Page(*reader, f"notebooks/{path.name}")
    asking = questions_of(path)
    nothing_is_given_away(page, asking[0])
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


# --- the same with a bug ----------------------------------------------------------------------------------------------

A_GUESS_IS_LOST = Change(
    "pykraft/course/lesson.py", 'guess="" if is_headless() else guesses(self.number).get(name, "")', 'guess=""'
)
AN_ANSWER_HAS_ITS_LETTER = Change(
    f"notebooks/{SHORT.name}", 'nb.answer(\\"order\\")', 'nb.answer(\\"order\\", \\"b\\")'
)
OUTPUTS_STAY = Change(
    "pykraft/course/asking/open_questions.py", 'cell["outputs"], cell["execution_count"] = [], None', "pass"
)
A_FIELD_KEEPS_THE_KEY = Change("pykraft/course/asking/picture_guess.py", "picture + runs_on_shift_enter()", "picture")


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "scene", "words"),
    [
        (A_GUESS_IS_LOST, a_guess_stays_when_its_cell_runs_again, "'b' == '→ b'"),
        (AN_ANSWER_HAS_ITS_LETTER, nothing_is_given_away, r'nb\.answer\("order", "b"\)'),
        (OUTPUTS_STAY, nothing_is_given_away, r"assert \[.+\] == \[\]"),
    ],
    ids=["a guess is lost", "an answer has its letter", "outputs stay"],
)
def test_a_planted_bug_is_seen(change: Change, scene: Callable[[Page, str], None], words: str, tmp_path: Path) -> None:
    with a_reader(tmp_path, change) as opens:
        page = Page(*opens, f"notebooks/{SHORT.name}")
        with pytest.raises(AssertionError, match=words):
            scene(page, questions_of(SHORT)[0])


@pytest.mark.long
def test_a_field_that_keeps_the_key_is_seen(tmp_path: Path) -> None:
    with a_reader(tmp_path, A_FIELD_KEEPS_THE_KEY) as opens:
        page = Page(*opens, "notebooks/12_failover.ipynb")
        page.run("nb = notebook(")
        page.run('nb.mark("part"')
        with pytest.raises(AssertionError, match="the page does not say yes"):
            a_typed_number_stays_when_its_cell_runs_again(page, 'nb.mark("part"', 4)
