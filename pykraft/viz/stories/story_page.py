"""A story as one page: a file of its own that plays in any browser, without a kernel and without a network.

The pictures of a story are nearly equal from step to step, so the page keeps each line of their SVG once, and for each
picture the numbers of its lines. All of it is compressed; the page's script unpacks it with the browser's own
`DecompressionStream`. A story of some thousand steps would still be too much, so the page has a few hundred of them:
every step with a mark, the steps just before, and an even choice of the others.

What the page says in words is in the page: the sentence of each step, the messages on their way, and where something
happened. Colours follow the reader's light or dark theme. The page lists the keys. Its form is `story_page.html`.
"""

import base64
import gzip
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pykraft.story.marks import Mark
from pykraft.story.story import Story
from pykraft.viz.drawing.palette import PAGES
from pykraft.viz.drawing.svg import MONO, SANS
from pykraft.viz.stories.story_frames import LABELS, WIDTH, count_marks, lanes, picture

MOST_BYTES = 1_000_000
MOST_FRAMES = 400
_TEMPLATE = Path(__file__).with_name("story_page.html")
_PLACE = re.compile(r"@([a-z_]+)@")
_STEPS_TO_JUMP = ("election", "commit", "truncation", "rebalance", "isr", "fault", "crash", "restart", "you", "law")


def save(story: Story, path: str | Path, most_frames: int = MOST_FRAMES, **options: Any) -> Path:
    """Write the page; returns where it is. ValueError if it would be larger than a megabyte."""
    text = page(story, most_frames, **options)
    if len(text.encode()) > MOST_BYTES:
        raise ValueError(
            f"the page would have {len(text.encode()):,} bytes, more than {MOST_BYTES:,}: "
            f"ask for fewer than {most_frames} pictures (most_frames)"
        )
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def page(story: Story, most_frames: int = MOST_FRAMES, **options: Any) -> str:
    """The page's text."""
    steps = chosen_steps(story.last_step, story.marks, most_frames, story.forked_at)
    film = _Film()
    frames = [_frame(story, step, film, options) for step in steps]
    data = {
        "lines": film.lines,
        "frames": frames,
        "marks": [[mark.step, mark.kind, mark.text] for mark in story.marks],
        "last": story.last_step,
    }
    packed = base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode()
    deeds = "; ".join(f"step {step:,}: {deed}" for step, deed in story.interventions.items())
    what = f"Where something happened: {count_marks(story.marks)}"
    return _fill(
        title=f"Seed {story.seed}, {story.name}",
        about=f"{story.last_step:,} events of a simulated cluster, of which {len(steps)} are shown here. "
        + (f"What was done: {deeds}. " if deeds else "")
        + (f"A law is broken in the last step: {story.failure}. " if story.failure else "")
        + f"{what}.",
        first=picture(story, steps[0], **options).svg,
        lanes=lanes(story.marks, story.last_step).render(what, what),
        jumps="".join(
            f'<button data-kind="{kind}">{kind} ▶</button>'
            for kind in _STEPS_TO_JUMP
            if any(mark.kind == kind for mark in story.marks)
        ),
        data=packed,
    )


def chosen_steps(last_step: int, marks: Sequence[Mark], most: int, forked_at: int = 0) -> list[int]:
    """Which steps are shown: the marked ones and the steps before them, the start and the end, and of the others an
    even choice. If there are too many marks, commits and changes of clients go first."""
    chosen = {0, last_step}
    if forked_at:
        chosen.add(forked_at)
    rare = {mark.step for mark in marks if mark.kind not in ("commit", "client")}
    for steps in (rare, {step - 1 for step in rare}, {mark.step for mark in marks}):
        chosen |= set(_evenly(sorted(steps - chosen), most - len(chosen)))
    chosen |= set(_evenly(sorted(set(range(last_step + 1)) - chosen), most - len(chosen)))
    return sorted(chosen)


def _evenly(steps: Sequence[int], count: int) -> Sequence[int]:
    if len(steps) <= count or count <= 0:
        return steps if count > 0 else ()
    return [steps[len(steps) * number // count] for number in range(count)]


class _Film:
    """Each line of SVG once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, svg: str) -> list[int]:
        return [self._number(line) for line in svg.split("\n")]

    def _number(self, line: str) -> int:
        if line not in self._numbers:
            self._numbers[line] = len(self.lines)
            self.lines.append(line)
        return self._numbers[line]


def _frame(story: Story, step: int, film: _Film, options: dict[str, Any]) -> dict[str, Any]:
    view = story.view_at(step)
    frame: dict[str, Any] = {
        "step": step,
        "ms": view.time_ms,
        "what": story.what_at(step),
        "svg": film.add(picture(story, step, **options).svg),
        "messages": [str(message) for message in view.messages],
    }
    beside = story.beside_at(step) if step > story.forked_at else None
    if beside is not None:
        frame["beside"] = film.add(picture(beside[0], beside[1], **options).svg)
    return frame


def _fill(data: str, first: str, lanes: str, jumps: str, **words: str) -> str:
    (light_ground, light_ink), (dark_ground, dark_ink) = PAGES
    parts = {name: html.escape(text) for name, text in words.items()}
    parts |= {"first": first, "lanes": lanes, "jumps": jumps, "sans": SANS, "mono": MONO, "width": str(WIDTH)}
    parts |= {"light_ground": light_ground, "light_ink": light_ink, "dark_ground": dark_ground, "dark_ink": dark_ink}
    parts |= {"labels": f"{LABELS / WIDTH:.4f}", "data": data}
    return _PLACE.sub(lambda found: parts[found[1]], _TEMPLATE.read_text(encoding="utf-8"))
