"""The console of a person on call: the pager, the counters, the board and the terminal, live on a page.

::

    incident(1)                          the pager rings
    incident("pykraft/0.1.0/incident/...")   what a link says was done, again

Time begins when the page is acknowledged: then one real second is two of the incident's, and it pauses while
the page is not open. Without a page, or without a reader in front of it, the console is a picture of the moment at
which the pager rings, and `Console.debrief` plays the committed cure.

JupyterLab sends the page's messages to a thread of the kernel that is not the one of the clock. So a lock lets the
world go on for one of them at a time.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from pykraft.course.incidents.catalogue import make
from pykraft.course.incidents.debrief import clock, debrief
from pykraft.course.incidents.drawing import (
    WIDTH,
    board_svg,
    draw_cards,
    draw_counters,
    draw_pager,
    height_of,
    in_words,
    rows_of,
)
from pykraft.course.incidents.incident import HANDED_ON, LOST, SOLVED, Counter, Shift, read_link, replayed
from pykraft.extras import require
from pykraft.surroundings import Shown, is_headless, is_notebook
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg

SEED = 7
SPEED = 2
"""Seconds of the incident in a second of the reader's."""
_TICK_S = 0.5
_MOST_POINTS = 90
_MINUS = "\N{MINUS SIGN}"
_CHANGE_S = 10
"""A counter says what came to it in this time."""
_PAUSE_AFTER_TICKS = 20
"""After this many ticks without a word from the page, the page is closed."""
_HERE = Path(__file__).parent
_VERDICTS = {
    SOLVED: "✔ Solved. Everything is right, and it stayed right through the second blow.",
    HANDED_ON: "✕ Half an hour is over: a colleague takes the pager.",
}


def incident(which: int | str = 1, seed: int = SEED) -> "Console":
    """The console of an incident by its number, or of what was done by a link. ValueError: there is none."""
    if isinstance(which, str):
        linked = read_link(which)
        return Console(replayed(linked, make(linked.number)), is_begun=True)
    return Console(Shift.begin(make(which), seed))


class Console:
    """One shift on a page."""

    _ticking: ClassVar["asyncio.Task[None] | None"] = None
    """Only one console's time passes: that of the one that was made last."""

    def __init__(self, shift: Shift, is_begun: bool = False) -> None:
        self.shift = shift
        self.is_begun = is_begun
        self._silent_ticks = self._rows = 0
        self.lock = threading.RLock()
        """Held while the world goes on, or is looked at."""
        self.widget: Any = None
        if is_notebook() and not is_headless():
            self._make_widget()

    # --- on a page ----------------------------------------------------------------------------------------------------

    def _make_widget(self) -> None:
        require("an incident's console", "course", "anywidget")
        import anywidget
        import traitlets

        fields = {
            "_esm": _HERE / "console.js",
            "_css": _HERE / "console.css",
            "data": traitlets.Dict().tag(sync=True),
        }
        self.widget = type("IncidentWidget", (anywidget.AnyWidget,), fields)(data=self.data())
        self.widget.on_msg(self._on_message)
        if Console._ticking is not None:
            Console._ticking.get_loop().call_soon_threadsafe(Console._ticking.cancel)
        Console._ticking = None

    def _on_message(self, _: object, content: dict[str, Any], __: object) -> None:
        self._silent_ticks = 0
        with self.lock:
            if content.get("do") == "begin" and not self.is_begun:
                self.is_begun = True
                self._publish()
            elif content.get("do") == "enter" and self.is_begun:
                self.shift.enter(str(content.get("line", ""))[:2_000])
                self._publish()
        if self.is_begun and not self.shift.is_over and (Console._ticking is None or Console._ticking.done()):
            with suppress(RuntimeError):  # there is no loop: nothing ticks, and `wait` lets time pass
                Console._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        while not self.shift.is_over:
            await asyncio.sleep(_TICK_S)
            self._silent_ticks += 1
            if self._silent_ticks <= _PAUSE_AFTER_TICKS:
                self.go_on(round(_TICK_S * SPEED * 1000))

    def go_on(self, ms: int) -> None:
        """Let so much time pass, and show what has become of it."""
        with self.lock:
            self.shift.advance(ms)
            self._publish()

    def _publish(self) -> None:
        self.widget.data = self.data()

    def data(self) -> dict[str, Any]:
        """All that the page shows."""
        shown = self.shift.incident
        seconds = int(shown.seconds)
        cards = shown.cards()
        self._rows = max(self._rows, rows_of(cards))  # the terminal below keeps its place when rows come and go
        return {
            "number": shown.NUMBER,
            "title": shown.TITLE,
            "pager": shown.PAGER,
            "begun": self.is_begun,
            "clock": clock(seconds),
            "state": shown.state,
            "verdict": self._verdict(),
            "counters": [self._counter(place, each) for place, each in enumerate(shown.counters())],
            "board": board_svg(cards, f"The board {clock(seconds)} after the page", self._rows),
            "lines": self.lines(),
            "verbs": [verb.usage for verb in shown.verbs.values()],
            "link": self.shift.link if self.shift.is_over else "",
        }

    def _verdict(self) -> str:
        shown = self.shift.incident
        if shown.state == LOST:
            return f"✕ {shown.LOSS[0].upper()}{shown.LOSS[1:]}, and no command takes that back."
        return _VERDICTS.get(shown.state, "")

    def _counter(self, place: int, counter: Counter) -> dict[str, Any]:
        known = [counters[place].value for _, counters in self.shift.incident.history]
        step = -(-len(known) // _MOST_POINTS)
        change = counter.value - known[max(0, len(known) - 1 - _CHANGE_S)]
        more = f"{change:+,}/{_CHANGE_S} s".replace("-", _MINUS) if change else ""
        return {**counter._asdict(), "warns": counter.warns, "more": more, "points": known[:: max(1, step)]}

    def lines(self) -> list[list[str]]:
        """The terminal's lines, each with its kind: what was typed, what was answered, what befell the cluster."""
        paged_ms = self.shift.incident.paged_ms
        found = [(ms, [["typed", line], ["answer", answer]]) for ms, line, answer in self.shift.said]
        found += [(ms - paged_ms, [["news", text]]) for ms, text in self.shift.incident.news]
        return [[*part, clock(ms // 1000)] for ms, parts in sorted(found, key=lambda each: each[0]) for part in parts]

    # --- everywhere ---------------------------------------------------------------------------------------------------

    @property
    def link(self) -> str:
        """This shift in one line of text."""
        return self.shift.link

    def figure(self) -> Figure:
        """The pager, the counters and the board as a picture."""
        shown = self.shift.incident
        cards = shown.cards()
        values = [(each.label, f"{each.value:,}{each.unit}", each.warns) for each in shown.counters()]
        title = f"Incident {shown.NUMBER}: {shown.TITLE}"
        svg = Svg(WIDTH, 0)
        below = draw_counters(svg, values, draw_pager(svg, title, shown.PAGER, 0) + 12) + 12
        draw_cards(svg, cards, below)
        svg.height = below + height_of(cards) + 2
        words = [shown.PAGER, *(f"{label}: {value}" for label, value, _ in values), *in_words(cards)]
        return Figure(title, svg.render(title, ". ".join(words)), "\n".join([title, *words]), tuple(svg.boxes))

    def debrief(self) -> Shown:
        """What happened, which command showed it, and what each repair costs. Without a reader the committed cure is
        played first."""
        with self.lock:
            if is_headless() and not self.shift.is_over:
                self.shift.play(self.shift.incident.CURE)
                self.shift.run_on()
            return debrief(self.shift)

    def __repr__(self) -> str:
        return str(self.figure())

    def _repr_mimebundle_(self, **options: Sequence[str] | None) -> Any:
        return self.figure()._repr_mimebundle_() if self.widget is None else self.widget._repr_mimebundle_()
