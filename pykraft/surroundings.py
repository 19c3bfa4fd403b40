"""What surrounds a lesson: whether a reader sits in front of it, how large it may be, and how a result is shown.

Three environment variables:

    PYKRAFT_HEADLESS   set: no person reads along. Predictions are skipped, nothing waits, no widget is made, and the
                       learner's progress and files are left alone. Builds and tests set it.
    PYKRAFT_PROFILE    "small" or "full": how much data a lesson takes. Small on Binder and in tests, else full.
    PYKRAFT_HOME       where the progress is kept, instead of ~/.pykraft

A result that is shown has a plain text, which never changes between runs unless it says so, and a form for pages, which
may tell more: measured numbers, links, colours. Tests compare the plain text.
"""

import os
import sys
from pathlib import Path
from typing import TypeVar

HEADLESS = "PYKRAFT_HEADLESS"
PROFILE = "PYKRAFT_PROFILE"
HOME = "PYKRAFT_HOME"
PROFILES = ("small", "full")
T = TypeVar("T")


def is_headless() -> bool:
    """Whether no person reads along."""
    return bool(os.environ.get(HEADLESS))


def is_notebook() -> bool:
    """Whether this process is a notebook's kernel, so that results can be displayed."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def current_cell() -> tuple[str, int]:
    """The text of the cell that runs now, and a number that no other run has; ("", 0) where there are no cells."""
    if not is_notebook():
        return "", 0
    ran = sys.modules["IPython"].get_ipython().user_ns["In"]
    return ran[-1], len(ran)


def profile() -> str:
    """How large a lesson may be, "small" or "full". ValueError if the environment says something else."""
    chosen = os.environ.get(PROFILE, "small" if is_headless() else "full")
    if chosen not in PROFILES:
        raise ValueError(f"{PROFILE}={chosen}: it must be {' or '.join(PROFILES)}")
    return chosen


def pick(small: T, full: T) -> T:
    """One of the two, by the profile."""
    return small if profile() == "small" else full


def home() -> Path:
    """The folder in which the learner's progress is kept; it need not exist."""
    return Path(os.environ.get(HOME) or Path.home() / ".pykraft")


class Told(Exception):  # noqa: N818 (it tells)
    """Something that does not work, or not this way. The text says all: a notebook shows it without the lines of code
    that led there."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class Shown:
    """Something with a stable text, and forms of it for pages that may tell more."""

    def __init__(self, text: str, markup: str | None = None, markdown: str | None = None) -> None:
        self._text = text
        self._markup = markup
        self._markdown = markdown

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str | None:
        return self._markup

    def _repr_markdown_(self) -> str | None:
        return self._markdown


def show(shown: object) -> None:
    """In a notebook as an output of its own, elsewhere as a line."""
    if is_notebook():
        sys.modules["IPython"].display.display(shown)
    else:
        print(shown)  # noqa: T201
