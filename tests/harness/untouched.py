"""What is in a folder, to the byte and to the nanosecond: whether anything in it was touched."""

from __future__ import annotations

import hashlib
import pathlib

Everything = dict[str, tuple[int, int, str]]
"""By path: mode, time of the last change, and for files a hash of what is in them."""


def everything(folder: pathlib.Path) -> Everything:
    """The folder itself, and all below it. A folder's own time tells of files that came and went."""
    return {
        path.relative_to(folder).as_posix(): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in (folder, *sorted(folder.rglob("*")))
    }
