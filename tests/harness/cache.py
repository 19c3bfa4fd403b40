"""What is fetched once for all runs: folders in the user's cache, each there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Callable


def kept(name: str, fill: Callable[[pathlib.Path], object]) -> pathlib.Path:
    """The folder of this name; if it is not there, an empty one is filled, and gets the name when that is done."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "pykraft"
    home = cache / name
    if home.exists():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as scratch:
        coming = pathlib.Path(scratch) / "home"
        coming.mkdir()
        fill(coming)
        with contextlib.suppress(OSError):  # another run was faster
            coming.rename(home)
    return home
