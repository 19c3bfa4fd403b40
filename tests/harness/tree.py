"""The project's files as a fresh clone has them: all that stands in the folder but what .gitignore names."""

from __future__ import annotations

import fnmatch
import os
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def ignored_patterns(root: pathlib.Path = ROOT) -> list[str]:
    return [line.rstrip("/") for line in (root / ".gitignore").read_text().split() if not line.startswith("#")]


def is_ignored(relative: pathlib.PurePath, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatch(relative.as_posix() if "/" in p else relative.name, p) for p in patterns)


def project_files(root: pathlib.Path = ROOT) -> Iterator[pathlib.Path]:
    """Each file, as a path relative to the root."""
    patterns = ignored_patterns(root)
    for folder, folders, files in os.walk(root):
        here = pathlib.Path(folder).relative_to(root)
        folders[:] = sorted(f for f in folders if f != ".git" and not is_ignored(here / f, patterns))
        yield from (here / name for name in sorted(files) if not is_ignored(here / name, patterns))


def top_level(root: pathlib.Path = ROOT) -> list[str]:
    """Names in the project's own folder."""
    patterns = ignored_patterns(root)
    names = sorted(os.listdir(root))
    return [name for name in names if name != ".git" and not is_ignored(pathlib.PurePath(name), patterns)]
