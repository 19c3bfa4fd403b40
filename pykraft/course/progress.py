"""What a learner has done so far: one small JSON file, in the learner's own home.

``~/.pykraft/progress.json`` holds, for each notebook, when it was last run to its end, each guess, and whether it was
right. For each lab it holds the points of each task, how many hints were taken, and whether the solution was revealed.
It is for the learner; a mark comes from ``python -m pykraft course grade``, which reads nothing of this.

A run without a reader (`surroundings.is_headless`) notes nothing. The file is replaced as a whole, so that a kernel
that is ended in mid-write leaves the old one; a file that cannot be read is put aside, and a new one begun.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pykraft.surroundings import home, is_headless

FILE = "progress.json"


def progress_file() -> Path:
    return home() / FILE


def read_progress() -> dict[str, Any]:
    """Everything noted so far: ``{"notebooks": {number: {...}}, "labs": {number: {...}}}``."""
    found: dict[str, Any] = {}
    path = progress_file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        _read_through(found)
    except FileNotFoundError:
        found = {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        found = {}
        with suppress(OSError):
            path.replace(path.with_suffix(".unreadable"))
    return {"notebooks": {}, "labs": {}, **found}


def _read_through(found: Any) -> None:
    """Read every field that the course uses; raises some error if one is not as `note` writes it."""
    for seen in found["notebooks"].values():
        seen.get("predictions", {}).values()
        seen.get("guesses", {}).values()
    for seen in found["labs"].values():
        sum(seen.get("hints", {}).values())
        sum(task["points"] + task["of"] for task in seen.get("tasks", {}).values())


def guesses(number: str) -> dict[str, str]:
    """What the reader has guessed in a notebook: the name of the question -> the text of the chosen option. The text
    and not the letter, so that a guess ends with the option that it was."""
    found: dict[str, str] = read_progress()["notebooks"].get(number, {}).get("guesses", {})
    return found


def note(kind: str, number: str, **values: object) -> None:
    """Add to what is noted of a notebook or a lab (`kind` is "notebooks" or "labs"). A dict is merged with the one that
    is there. Does nothing without a reader; a home that cannot be written to is no reason to stop."""
    if is_headless():
        return
    progress = read_progress()
    entry = progress[kind].setdefault(number, {})
    for name, value in values.items():
        entry[name] = {**entry.get(name, {}), **value} if isinstance(value, dict) else value
    with suppress(OSError):
        path = progress_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(progress, indent=1, sort_keys=True), encoding="utf-8")
        temporary.replace(path)
