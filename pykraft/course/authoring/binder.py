"""The way into the course through Binder: a link, and the badge that carries it.

Binder builds an image from a public repository and starts JupyterLab in it (`binder/` says how). Its address holds the
repository's name, and that is the one thing this project cannot know of itself: every copy has its own. So it comes
from git or from the command line, and the README has the badge of the copy that asked for it. Until then its badge
leads to Binder's own page, where any public copy can be named.
"""

import re
import subprocess
from contextlib import suppress
from pathlib import Path

from pykraft.course.places import ROOT

FIRST_NOTEBOOK = "notebooks/00_sixty_seconds.ipynb"
BEGIN, END = "<!-- binder: made by python -m pykraft course binder --write -->", "<!-- end of binder -->"
_PICTURE = "[![launch the course on Binder](https://mybinder.org/badge_logo.svg)]"
UNKNOWN = f"""{_PICTURE}(https://mybinder.org)

Binder runs the course in a browser, with nothing installed, from any public copy of this repository on GitHub: name it
on the page that the badge opens. `python -m pykraft course binder` prints the link that leads straight to the notebook
of your copy, and with `--write` the badge has that link."""
"""The badge of a copy whose repository is not known."""
_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_GITHUB = re.compile(r"(?:https?://(?:[^/@]+@)?|ssh://git@|git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?")


class NoRepository(ValueError):  # noqa: N818 (it tells what is missing)
    """It is not known which repository Binder is to open; the text says what to do."""


def repository_of(address: str) -> str | None:
    """OWNER/NAME of an address of GitHub, as git has it; None for any other."""
    match = _GITHUB.fullmatch(address.strip())
    return match[1] if match else None


def this_repository(root: Path = ROOT) -> str:
    """OWNER/NAME of the copy of the project that this is. NoRepository if it was cloned from nowhere public."""
    address = ""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "remote", "get-url", "origin"]
        address = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
    found = repository_of(address)
    if found is None:
        raise NoRepository(
            "this copy has no repository on GitHub as its origin: say which with --repository OWNER/NAME"
        )
    return found


def link(repository: str, ref: str = "HEAD") -> str:
    """What opens the first notebook on Binder. `ref` is a branch or a tag; a tag's image is built once and kept.
    NoRepository for what is no OWNER/NAME."""
    if not _NAME.fullmatch(repository):
        raise NoRepository(f"{repository!r} is no repository: it must be OWNER/NAME, as on GitHub")
    return f"https://mybinder.org/v2/gh/{repository}/{ref}?urlpath=doc/tree/{FIRST_NOTEBOOK}"


def badge(repository: str, ref: str = "HEAD") -> str:
    """The link as a badge, in Markdown."""
    return f"{_PICTURE}({link(repository, ref)})"


def with_badge(readme: str, text: str) -> str:
    """The README with this text in the place of the badge. ValueError if it has no such place."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no place for the badge: it needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
