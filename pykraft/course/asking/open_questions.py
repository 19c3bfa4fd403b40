"""A notebook as its reader opens it: below a question without a guess no output is shown, and pictures speak.

The committed file has all outputs, since it is read where nothing runs: on GitHub, in a pull request, as slides. In
JupyterLab the same outputs would answer each question before it is asked. So the server of this course hands a page
out without them, and puts them back when it saves the page. There is one file, and a page that was only opened is saved
as it was:

* `without_answers` is applied when a page is read. It empties the cells below the first question that has no guess in
  the reader's progress file. With each guess more of the file is shown at the next opening; what has run on an open
  page is on it at once, as always;
* `with_outputs_of` is applied when a page is saved. A cell that has not run, and has the text that it has in the file,
  gets the file's outputs back.

In the same two places each picture gets, and loses again, the form in which JupyterLab keeps its alternative in words
(`pykraft.viz.drawing.alternative`).

`QuestionsFirst` is the part of Jupyter's server that reads and saves; `binder/jupyter_server_config.py` names it. Only
whole pages pass through it: downloads, git, tests and the commands of this package read the file itself.
"""

import re
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import nbformat
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from pykraft.course.progress import guesses
from pykraft.viz.drawing.alternative import with_images, without_images

_ASKS = re.compile(r"""\bnb\.(?:predict|mark)\(\s*["'](\w+)["']""")
_NUMBER = re.compile(r"""\bnotebook\(\s*["'](\d\d)["']""")
Notebook = dict[str, Any]


def number_of(notebook: Notebook) -> str | None:
    """The number of a notebook of the course, such as "00"; None for any other."""
    found = (_NUMBER.search(_source(cell)) for cell in notebook.get("cells", ()) if _is_code(cell))
    return next((match[1] for match in found if match), None)


def without_answers(notebook: Notebook, guessed: Collection[str]) -> None:
    """Empty, in place, each cell below the first question whose name is not in `guessed`."""
    is_open = False
    for cell in notebook["cells"]:
        if not _is_code(cell):
            continue
        if is_open and not _ASKS.search(_source(cell)):
            cell["outputs"], cell["execution_count"] = [], None
        is_open = is_open or any(name not in guessed for name in _ASKS.findall(_source(cell)))


def with_outputs_of(notebook: Notebook, saved: Notebook) -> None:
    """Give, in place, each cell that has not run the outputs of the cell with its id and its text in `saved`."""
    before = {cell.get("id"): cell for cell in saved.get("cells", ()) if _is_code(cell)}
    for cell in notebook["cells"]:
        same = before.get(cell.get("id")) if _is_code(cell) else None
        has_run = cell.get("outputs") or cell.get("execution_count") is not None
        if same is not None and not has_run and _source(same) == _source(cell):
            cell["outputs"], cell["execution_count"] = same["outputs"], same["execution_count"]


def _is_code(cell: Any) -> bool:
    return bool(cell["cell_type"] == "code")


def _source(cell: Any) -> str:
    return str(cell["source"])


class QuestionsFirst(AsyncLargeFileManager):
    """Reads and saves files for Jupyter's server: notebooks without the answers, and pictures with their words."""

    async def get(
        self,
        path: str,
        content: bool = True,
        type: str | None = None,  # noqa: A002 (its name in Jupyter)
        format: str | None = None,  # noqa: A002
        require_hash: bool = False,
    ) -> Any:
        """A file as the server hands it out."""
        model = await super().get(path, content, type, format, require_hash)  # type: ignore[no-untyped-call]
        if content and model["type"] == "notebook":
            if number := number_of(model["content"]):
                without_answers(model["content"], guesses(number))
            with_images(model["content"])
        return model

    async def save(self, model: dict[str, Any], path: str = "") -> Any:
        """Write a file. What was hidden when it was read is put back first."""
        page = model.get("content")
        if model.get("type") == "notebook" and isinstance(page, dict):
            if number_of(page):
                with suppress(OSError, ValueError, nbformat.ValidationError):
                    saved = nbformat.read(self._get_os_path(path), as_version=4)  # type: ignore[no-untyped-call]
                    with_outputs_of(page, saved)
            without_images(page)
        return await super().save(model, path)  # type: ignore[no-untyped-call]
