"""Notebooks without a browser: in the terminal, as a page, and in the form in which they are committed."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from pykraft import cli
from pykraft.course.authoring import demo
from pykraft.course.authoring.build import build
from pykraft.course.authoring.execute import NotebookFailed, read

GOOD = (
    "print('hello')",
    "import sys\nprint('a ' + 'warning', file=sys.stderr)",
    "from pykraft.viz import bars\nbars({'a': 1, 'b': 2}, title='Two is more')",
    "from tqdm.auto import tqdm\nfor _ in tqdm(range(3)):\n    pass",
)


PIECES = "import sys\nfor n in range(3):\n    print(n)\n    sys.stdout.flush()\n"
HEADLESS = "import os\nprint(os.environ['PYKRAFT_HEADLESS'])"
PLACES = "import pathlib, sys\nprint(pathlib.Path.home() / 'x', sys.prefix + '/y')"
COLOURS = r"print('\x1b[31mred\x1b[0m \x07 \x9b2J end')"


def write(folder: Path, *sources: str) -> Path:
    cells: list[Any] = [nbformat.v4.new_markdown_cell("# A question?\n\nSome words.")]  # type: ignore[no-untyped-call]
    cells += [nbformat.v4.new_code_cell(source) for source in sources]  # type: ignore[no-untyped-call]
    path = folder / "07_a_lesson.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)  # type: ignore[no-untyped-call]
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook that was run once for all who read it."""
    path = write(tmp_path_factory.mktemp("built"), *GOOD, PIECES, HEADLESS, PLACES)
    build(path)
    return path


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What a demo told, and its page."""
    folder, out = tmp_path_factory.mktemp("shown"), io.StringIO()
    assert demo.run(write(folder, *GOOD, COLOURS), folder / "build", out) == 0
    return out.getvalue(), (folder / "build" / "07_a_lesson.html").read_text(encoding="utf-8")


def test_the_page_loads_nothing_from_the_internet(shown: tuple[str, str]) -> None:
    _, page = shown
    scripts = re.findall(r"<script\b.*?</script>", page, re.DOTALL)
    assert [script for script in scripts if "https:" in script] == []
    assert re.findall(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=[\"']?https?:", page) == []


def test_a_demo_tells_headings_results_and_where_the_page_is(shown: tuple[str, str]) -> None:
    told, page = shown
    for line in ("A question?", "    hello", "    Two is more", "    b: 2", "All 5 cells ran in"):
        assert line in told
    assert "[3/5, " in told
    assert "    a warning" not in told
    assert "<title>Two is more</title>" in page
    assert "No description has been provided" not in page
    assert "a warning" not in page
    assert "0/3" not in page, "a progress bar stands still in a page"


def test_a_cell_that_fails_is_one_sentence_and_the_page_shows_it(tmp_path: Path) -> None:
    out = io.StringIO()
    assert demo.run(write(tmp_path, "1 / 0", "print('never')"), tmp_path / "build", out) == 1
    assert "cell 2 failed: ZeroDivisionError: division by zero. The page up to there is" in out.getvalue()
    assert "never" not in out.getvalue()
    assert "ZeroDivisionError" in (tmp_path / "build" / "07_a_lesson.html").read_text(encoding="utf-8")


def test_the_command_refuses_what_is_no_notebook(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", str(tmp_path / "missing.ipynb")]) == 1
    assert "cannot be read: No such file or directory" in capsys.readouterr().out
    (tmp_path / "text.ipynb").write_text("not JSON")
    assert cli.main(["demo", str(tmp_path / "text.ipynb")]) == 1
    assert "is no notebook" in capsys.readouterr().out


def test_what_moves_the_cursor_or_colours_the_screen_does_not_reach_the_terminal(shown: tuple[str, str]) -> None:
    told, _ = shown
    assert not set("\x1b\x07\x9b") & set(told)
    assert "red" in told


def output_of(path: Path, source: str) -> Any:
    """The only output of a cell."""
    (output,) = next(cell.outputs for cell in read(path).cells if cell.source == source)
    return output


def test_a_built_notebook_keeps_what_can_be_read_without_running_it(built: Path) -> None:
    notebook = read(built)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.id for cell in notebook.cells] == [f"nb07-c{number:02}" for number in range(1, 9)]
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4, 5, 6, 7]
    assert [len(cell.outputs) for cell in cells] == [1, 0, 1, 0, 1, 1, 1]
    assert set(cells[2].outputs[0].data) == {"image/svg+xml", "text/plain"}
    assert "widgets" not in notebook.metadata
    first = built.read_bytes()
    build(built)
    assert built.read_bytes() == first


def test_pieces_of_a_stream_are_put_together(built: Path) -> None:
    assert output_of(built, PIECES).text == "0\n1\n2\n"


def test_a_kernel_knows_that_it_runs_without_a_reader(built: Path) -> None:
    assert output_of(built, HEADLESS).text == "1\n"


def test_what_a_built_notebook_lacks_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "print(1)")
    assert cli.main(["course", "build", str(path)]) == 0
    assert "07_a_lesson.ipynb: the last cell is not nb.finish()" in capsys.readouterr().err
    assert cli.main(["course", "build", "97"]) == 1
    assert "there is no notebook 97" in capsys.readouterr().err


def test_folders_of_this_machine_do_not_get_into_a_built_notebook(built: Path) -> None:
    assert output_of(built, PLACES).text.split() == ["HOME/x", "VENV/y"]


def test_a_notebook_that_fails_is_left_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "1 / 0")
    before = path.read_bytes()
    assert cli.main(["course", "build", str(path)]) == 1
    assert "cell 2 failed: ZeroDivisionError" in capsys.readouterr().err
    assert path.read_bytes() == before
    with pytest.raises(NotebookFailed):
        build(path)
