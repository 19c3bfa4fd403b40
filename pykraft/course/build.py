"""Runs notebooks and keeps their outputs, in the form in which they are committed.

::

    python -m pykraft.course.build notebooks/00_sixty_seconds.ipynb
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pykraft.course.execute import NotebookFailed, execute, normalized, read, save


def build(path: Path) -> float:
    """Run one notebook and write it back; its seconds. NotebookFailed leaves the file as it was."""
    started = time.monotonic()
    notebook = read(path)
    execute(notebook, path.parent)
    normalized(notebook, path.name[:2])
    save(notebook, path)
    return time.monotonic() - started


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pykraft.course.build", description="Run notebooks, keep outputs.")
    parser.add_argument("notebooks", nargs="+", type=Path)
    for path in parser.parse_args(arguments).notebooks:
        try:
            print(f"{path}: built in {build(path):.1f} s")  # noqa: T201
        except NotebookFailed as error:
            print(f"{path}: {error}", file=sys.stderr)  # noqa: T201
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
