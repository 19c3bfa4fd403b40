"""Runs a notebook's cells in a kernel of its own, one after the other, and brings the result into a form to be kept.

A notebook is committed with its outputs, so that it can be read where nothing runs. `normalized` takes out of it what
differs from run to run without meaning: counters, times, ids, live widgets (their state is megabytes, and they are
empty without a kernel). What a child process wrote to the terminal is no part of it either, nor is a picture's second
form for JupyterLab (`pykraft.viz.drawing.alternative`).
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from pykraft.course.authoring.slides import slide_type
from pykraft.surroundings import HEADLESS
from pykraft.viz.drawing.alternative import without_images

WIDGET = "application/vnd.jupyter.widget-view+json"
CELL_LIMIT_S = 120
OnCell = Callable[[int, Any], None]


class NotebookFailed(Exception):  # noqa: N818 (it tells what happened)
    """A cell failed; the text says which, and of what."""


def read(path: Path) -> Any:
    """The notebook in a file; NotebookFailed if there is none."""
    try:
        return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise NotebookFailed(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotebookFailed(f"{path} cannot be read: it is no text in UTF-8") from None
    except (nbformat.ValidationError, nbformat.reader.NotJSONError) as error:
        raise NotebookFailed(f"{path} is no notebook: {str(error).splitlines()[0][:200]}") from None


def execute(notebook: Any, folder: Path, before: OnCell | None = None, after: OnCell | None = None) -> None:
    """Run all cells in place, as if from `folder`. `before` and `after` are called with each cell and its index.
    NotebookFailed at the first cell that fails."""
    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT_S,
        kernel_name="python3",
        # It would warn that it talks to us in the clear, on this machine's loopback address.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        store_widget_state=False,
    )
    with client.setup_kernel(env={**os.environ, HEADLESS: "1"}):
        for index, cell in enumerate(notebook.cells):
            if before is not None:
                before(index, cell)
            try:
                client.execute_cell(cell, index)
            except CellExecutionError as error:
                raise NotebookFailed(f"cell {index + 1} failed: {_reason(error)}") from None
            except CellTimeoutError:
                raise NotebookFailed(f"cell {index + 1} did not end in {CELL_LIMIT_S} s") from None
            except DeadKernelError:
                raise NotebookFailed(
                    f"the kernel died in cell {index + 1}; it may have had too little memory"
                ) from None
            if after is not None:
                after(index, cell)


def _reason(error: CellExecutionError) -> str:
    return f"{error.ename}: {error.evalue}".splitlines()[0][:500]


def normalized(notebook: Any, name: str) -> None:
    """Bring an executed notebook into the form that is committed; `name`, such as "nb08", begins its cells' ids."""
    notebook.metadata = _node(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    notebook.nbformat_minor = max(5, notebook.nbformat_minor)
    without_images(notebook)
    count = 0
    for index, cell in enumerate(notebook.cells):
        cell.id = f"{name}-c{index + 1:02}"
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            kept = [_normalized_output(output, count) for output in cell.outputs if is_kept(output)]
            cell.outputs = _merged(kept)
        tags = cell.metadata.get("tags")
        cell.metadata = _node({"slideshow": {"slide_type": slide_type(cell)}, **({"tags": tags} if tags else {})})


def _merged(outputs: list[Any]) -> list[Any]:
    """Neighbouring pieces of one stream as one: how a stream is cut into pieces is an accident of the moment."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream" and output.name == found[-1].name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _node(values: dict[str, Any]) -> Any:
    return nbformat.from_dict(values)  # type: ignore[no-untyped-call]


def is_kept(output: Any) -> bool:
    """Whether an output says something where nothing runs."""
    return WIDGET not in output.get("data", {}) and output.get("name") != "stderr"


def _normalized_output(output: Any, count: int) -> Any:
    if output.output_type == "execute_result":
        output.execution_count = count
    if "metadata" in output:
        output.metadata = _node({})
    if "text" in output:
        output.text = _without_places(output.text)
    for kind, data in output.get("data", {}).items():
        if isinstance(data, str):
            output.data[kind] = _without_places(data)
    return output


def _without_places(text: str) -> str:
    """Without the folders of this machine."""
    for place, name in ((sys.prefix, "VENV"), (tempfile.gettempdir(), "TMP"), (str(Path.home()), "HOME")):
        text = re.sub(rf"(?<![\w/]){re.escape(place)}/", f"{name}/", text)
    return text


def save(notebook: Any, path: Path) -> None:
    """Write it with sorted keys, as Jupyter does."""
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
