"""Runs notebooks and keeps their outputs, in the form in which they are committed.

::

    python -m pykraft course build 08          notebooks/08_....ipynb
    python -m pykraft course build lab08       labs/lab08_.../lab.ipynb, and the list of its checks in its README
    python -m pykraft course build some.ipynb  any other

A notebook that fails is left as it was. What its form still lacks is printed; the notebook is written all the same.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from pykraft.course.authoring.execute import NotebookFailed, execute, normalized, read, save
from pykraft.course.authoring.form import file_problems, incident_problems, picture_problems, problems
from pykraft.course.places import INCIDENTS, LABS, NOTEBOOKS, is_report, lab_folder

LAB_NOTEBOOK = "lab.ipynb"


def find(name: str) -> Path:
    """The notebook that a number, the name of a lab, or a path means. NotebookFailed if there is none."""
    if name.endswith(".ipynb"):
        return Path(name)
    if name.startswith("lab"):
        return lab_folder(name[3:5], LABS) / LAB_NOTEBOOK
    found = sorted(NOTEBOOKS.glob(f"{name}_*.ipynb")) if len(name) == 2 and name.isdigit() else []
    if not found:
        raise NotebookFailed(f"there is no notebook {name}: say a number such as 08, a lab such as lab08, or a path")
    return found[0]


def short_name(path: Path) -> str:
    """What a notebook's cells are named after: "nb08", or "lab08"."""
    return path.parent.name[:5] if path.name == LAB_NOTEBOOK else f"nb{path.name[:2]}"


def build(path: Path) -> float:
    """Run one notebook and write it back; its seconds. NotebookFailed leaves the file as it was."""
    started = time.monotonic()
    notebook = read(path)
    execute(notebook, path.parent)
    normalized(notebook, short_name(path))
    save(notebook, path)
    return time.monotonic() - started


def what_is_missing(path: Path) -> Iterator[str]:
    """What the notebook's form lacks, in words."""
    yield from picture_problems(read(path))
    if path.parent.name == INCIDENTS.name:
        yield from incident_problems(read(path))
    else:
        yield from problems(read(path), is_lab=path.name == LAB_NOTEBOOK, is_report=is_report(path.parent))
    yield from file_problems(path)
