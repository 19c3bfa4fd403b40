"""A scene as a page of its own: it plays in any browser, without a kernel and without a network.

The page has the scene's film and the films of a few acts, its *outcomes*. What else a reader tries there needs Python,
and the page says so. Script and style are the widget's own.
"""

import base64
import gzip
import html
import json
import re
from pathlib import Path
from typing import Any

from pykraft.common.version import VERSION
from pykraft.story.scenes import Outcome, Scene
from pykraft.story.story import Story
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.words import in_words

MOST_BYTES = 1_000_000
_HERE = Path(__file__).parent
_PLACE = re.compile(r"@([a-z]+)@")


def save(rehearsal: Rehearsal, path: str | Path) -> Path:
    """Write the page of a scene, and of what was done in it; returns where it is. ValueError if it would be larger than
    a megabyte."""
    text = page(rehearsal)
    if len(text.encode()) > MOST_BYTES:
        raise ValueError(f"the page has {len(text.encode()):,} bytes, more than {MOST_BYTES:,}: record fewer outcomes")
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def page(rehearsal: Rehearsal) -> str:
    """The page's text."""
    main = rehearsal.data()
    recorded = [_recorded(rehearsal, outcome) for outcome in rehearsal.scene.outcomes]
    if rehearsal.scene.rival:
        recorded.insert(0, _other(rehearsal.scene))
    data = {"version": VERSION, "main": main, "outcomes": recorded}
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
    act = _named(rehearsal.story, outcome)
    said = rehearsal.act(act, outcome.ms)
    if said:
        raise ValueError(f"{outcome.label}: {said}")
    data = rehearsal.data()
    kept = {name: data[name] for name in ("link", "film", "fork", "difference", "branch")}
    rehearsal.act("undo", 0)
    return {**kept, "label": outcome.label, "act": act, "since": outcome.since, "until": outcome.until}


def _named(story: Story, outcome: Outcome) -> str:
    """The act, with the node and the message that it means at that time."""
    step = story.step_at(outcome.ms)
    found = (each for each in story.messages_at(step) if all(word in str(each) for word in outcome.words))
    message = next((each.id for each in found if isinstance(each.sender, int) and each.sender != each.receiver), None)
    return outcome.act.format(leader=story.view_at(step).leader("t", 0), message=message)


def _other(of: Scene) -> dict[str, Any]:
    data = Rehearsal(of.rival).data()
    none = {"fork": None, "difference": None, "branch": of.rival_label, "act": "", "since": 0, "until": 0}
    return {"link": data["link"], "film": data["film"], "label": of.rival_label, **none}
