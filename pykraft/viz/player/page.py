"""A scene as a page of its own: it plays in any browser, without a kernel and without a network.

The page has the scene's film and the films of a few acts, its *outcomes*. What else a reader tries there needs Python,
and the page says so. Script and style are the widget's own.
"""

import base64
import gzip
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pykraft import __version__
from pykraft.story.story import Story
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.words import in_words

MOST_BYTES = 1_000_000
_HERE = Path(__file__).parent
_PLACE = re.compile(r"@([a-z]+)@")


class Outcome(NamedTuple):
    """An act, the virtual time at which it is done, and what its button says. A click in the time around it, from
    `since` to before `until`, shows the same film."""

    label: str
    act: str
    ms: float
    since: float
    until: float


def save(name: str, path: str | Path, outcomes: Sequence[Outcome] = ()) -> Path:
    """Write the page of a scene; returns where it is. ValueError if it would be larger than a megabyte."""
    text = page(name, outcomes)
    if len(text.encode()) > MOST_BYTES:
        raise ValueError(f"the page has {len(text.encode()):,} bytes, more than {MOST_BYTES:,}: record fewer outcomes")
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def page(name: str, outcomes: Sequence[Outcome] = ()) -> str:
    """The page's text."""
    rehearsal = Rehearsal(name, Story)
    main = rehearsal.data()
    recorded = [_recorded(rehearsal, outcome) for outcome in outcomes]
    data = {"version": __version__, "main": main, "outcomes": recorded}
    packed = base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode()
    parts = {
        "title": html.escape(main["title"]),
        "text": html.escape(in_words(main)),
        "css": (_HERE / "player.css").read_text(encoding="utf-8"),
        "script": (_HERE / "player.js").read_text(encoding="utf-8"),
        "data": packed,
    }
    return _PLACE.sub(lambda found: parts.get(found[1], found[0]), (_HERE / "page.html").read_text(encoding="utf-8"))


def _recorded(rehearsal: Rehearsal, outcome: Outcome) -> dict[str, Any]:
    said = rehearsal.act(outcome.act, outcome.ms)
    if said:
        raise ValueError(f"{outcome.label}: {said}")
    data = rehearsal.data()
    kept = {name: data[name] for name in ("link", "film", "fork", "difference", "branch")}
    rehearsal.act("undo", 0)
    return {**kept, "label": outcome.label, "act": outcome.act, "since": outcome.since, "until": outcome.until}
