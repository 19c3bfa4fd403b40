"""What a reader opens does not answer a question before it is asked, and what is saved is the committed file."""

from __future__ import annotations

import asyncio
import copy
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from traitlets.config import Config, PyFileConfigLoader

from pykraft.course.asking.open_questions import QuestionsFirst, number_of, with_outputs_of, without_answers
from pykraft.course.asking.question_file import questions, scales
from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from pykraft.course.places import NOTEBOOKS
from pykraft.course.progress import note
from pykraft.surroundings import HEADLESS, HOME
from tests.harness.tree import ROOT

PATHS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
SETTINGS = ROOT / "binder" / "jupyter_server_config.py"


@pytest.fixture(autouse=True)
def a_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setenv(HOME, str(tmp_path / "home"))


def shown(notebook: Any) -> list[int]:
    """Which code cells have an output, counted from 0."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [number for number, cell in enumerate(cells) if cell["outputs"]]


def page(*sources: str) -> Any:
    """A notebook whose cells have all run."""
    made: list[Any] = []
    for count, source in enumerate(sources, 1):
        output = nbformat.v4.new_output("stream", text=f"output {count}\n")  # type: ignore[no-untyped-call]
        cell = nbformat.v4.new_code_cell(source, execution_count=count, outputs=[output], id=f"c{count}")  # type: ignore[no-untyped-call]
        made.append(cell)
    return nbformat.v4.new_notebook(cells=made)  # type: ignore[no-untyped-call]


SOURCES = ('nb = notebook("00")', 'nb.predict("one")', "draw()", 'nb.answer("one")', 'nb.predict("two")', "draw(2)")


@pytest.mark.parametrize(
    ("guessed", "left"),
    [((), [0, 1, 4]), (("two",), [0, 1, 4]), (("one",), [0, 1, 2, 3, 4]), (("one", "two"), [0, 1, 2, 3, 4, 5])],
)
def test_outputs_are_hidden_below_the_first_question_without_a_guess(guessed: tuple[str, ...], left: list[int]) -> None:
    notebook = page(*SOURCES)
    without_answers(notebook, guessed)
    assert shown(notebook) == left


def test_what_was_hidden_is_put_back_and_what_has_run_or_was_changed_is_not() -> None:
    saved = page(*SOURCES)
    opened = copy.deepcopy(saved)
    without_answers(opened, ())
    put_back = copy.deepcopy(opened)
    with_outputs_of(put_back, saved)
    assert put_back == saved
    opened.cells[2].execution_count, opened.cells[3].source, opened.cells[5].id = 9, "another(text)", "another-id"
    with_outputs_of(opened, saved)
    assert shown(opened) == [0, 1, 4]


def test_the_number_of_a_notebook_is_in_its_first_cell() -> None:
    assert [number_of(read(path)) for path in PATHS] == [path.name[:2] for path in PATHS]
    assert number_of(page("x = 1")) is None and number_of({}) is None


# --- through the server -----------------------------------------------------------------------------------------------


def opened(path: Path, config: Config | None = None) -> Any:
    """What JupyterLab gets of a notebook."""

    async def get() -> Any:
        files = QuestionsFirst(root_dir=str(path.parent), config=config or Config())
        return (await files.get(path.name))["content"]

    return asyncio.run(get())


@pytest.mark.parametrize("path", PATHS, ids=short_name)
def test_no_output_stands_below_an_open_question_and_no_cell_has_its_letter(path: Path) -> None:
    notebook = opened(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    first = next(number for number, cell in enumerate(cells) if "nb.predict(" in cell["source"])
    below = [cell for cell in cells[first + 1 :] if not re.search(r"nb\.(?:predict|mark)\(", cell["source"])]
    assert len(below) > 5 and [cell["source"] for cell in below if cell["outputs"]] == []
    for cell in notebook["cells"]:
        assert re.findall(r"nb\.answer\([^\n]*\"[a-h]\"", cell["source"]) == []
    assert len(shown(read(path))) > len(shown(notebook)), "the file itself has the outputs"


@pytest.mark.parametrize("path", PATHS, ids=short_name)
def test_when_all_is_guessed_all_of_the_file_is_shown(path: Path) -> None:
    number = path.name[:2]
    note("notebooks", number, guesses=dict.fromkeys([*questions(number), *scales(number)], "an option"))
    assert shown(opened(path)) == shown(read(path))


def test_the_pictures_of_a_committed_notebook_are_in_its_file_and_its_answers_are_folded() -> None:
    for path in PATHS:
        outputs = [output for cell in read(path).cells for output in cell.get("outputs", ())]
        assert sum("image/svg+xml" in output.get("data", {}) for output in outputs) >= 3
        pages = [output.get("data", {}).get("text/html", "") for output in outputs]
        folded = [text for text in pages if text.startswith("<details><summary>Answer</summary>")]
        assert len(folded) == len(questions(path.name[:2])), path.name


def test_a_page_that_has_run_is_saved_as_it_ran(tmp_path: Path) -> None:
    path = tmp_path / "00_a_page.ipynb"
    nbformat.write(page(*SOURCES), path)  # type: ignore[no-untyped-call]
    model = {"type": "notebook", "format": "json", "content": opened(path)}
    model["content"]["cells"][2] |= {"execution_count": 7, "outputs": []}
    asyncio.run(QuestionsFirst(root_dir=str(tmp_path)).save(model, path.name))
    assert shown(read(path)) == [0, 1, 3, 4, 5]


def test_other_files_pass_as_they_are(tmp_path: Path) -> None:
    nbformat.write(page("x = 1", 'nb.predict("p")', "x"), tmp_path / "own.ipynb")  # type: ignore[no-untyped-call]
    (tmp_path / "words.txt").write_text("words")
    shutil.copy(PATHS[0], tmp_path)

    async def get(name: str, **how: Any) -> Any:
        return (await QuestionsFirst(root_dir=str(tmp_path)).get(name, **how))["content"]

    assert shown(asyncio.run(get("own.ipynb"))) == [0, 1, 2]
    assert asyncio.run(get("words.txt")) == "words"
    assert asyncio.run(get(PATHS[0].name, type="file")) == PATHS[0].read_text(), "a download is the file"
    assert asyncio.run(get(PATHS[0].name, content=False)) is None


def test_the_course_settings_name_this_part_of_the_server() -> None:
    config = PyFileConfigLoader(SETTINGS.name, path=str(SETTINGS.parent)).load_config()
    name = config.ServerApp.contents_manager_class
    assert name == f"{QuestionsFirst.__module__}.{QuestionsFirst.__name__}"
    assert issubclass(QuestionsFirst, AsyncLargeFileManager), "as Jupyter's own, with our parts"
