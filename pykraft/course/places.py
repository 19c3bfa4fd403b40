"""Where the course is: ``notebooks/`` and ``labs/`` of the checkout that this package belongs to.

An installed package without its checkout has no course; a command that needs a part of it says so in one sentence.
"""

from pathlib import Path

import pykraft

ROOT = Path(pykraft.__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
INCIDENTS = NOTEBOOKS / "incidents"
LABS = ROOT / "labs"


class NoSuchLab(LookupError):  # noqa: N818 (it tells what happened)
    """There is no lab of this number; the text says which there are."""


def lab_folders(labs: Path = LABS) -> list[Path]:
    """The folders of all labs, in order."""
    return sorted(path for path in labs.glob("lab[0-9][0-9]_*") if path.is_dir())


def is_report(folder: Path) -> bool:
    """Whether a lab's result is a report in words and numbers, and no program."""
    return (folder / "starter.md").exists()


def lab_file(folder: Path, name: str) -> Path:
    """A lab's "starter", "solution" or "work": a program, or a report."""
    return folder / f"{name}{'.md' if is_report(folder) else '.py'}"


def lab_folder(number: str | int, labs: Path = LABS) -> Path:
    """The folder of one lab, such as "08", or 8. NoSuchLab if there is none."""
    folders = lab_folders(labs)
    for folder in folders:
        if folder.name[3:5] == str(number).zfill(2):
            return folder
    known = ", ".join(folder.name[3:5] for folder in folders)
    if not known:
        raise NoSuchLab("there are no labs here: install pykraft from a checkout with `pip install -e .`")
    raise NoSuchLab(f"there is no lab {number!r}: there are {known}")
