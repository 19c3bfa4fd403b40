"""The board with buttons: for a reader who sits in front of a cluster that runs.

`LiveBoard` puts widgets around `LiveClicks`. Under each card are the buttons of its node: they kill it or start it
again, and cut it off from the others or join it to them. Below are the links between two nodes, a switch for a producer
and one for a consumer, a play button that looks again every half second, and a slider over what was seen. All of it can
be reached and pressed with the keyboard, and what a press did is said in a line that screen readers read out. Nothing
moves until a switch is turned or play is pressed, and no thread of the board's own looks at the cluster: it looks when
the page asks for that.

A second board of the same cluster ends the producer and the consumer of the first, as `close` does. The cluster is not
the board's: it runs until it is closed or the kernel ends.

Where there is no page, or no reader in front of it, `film_strip` presses the buttons of a script and draws a picture
after each step: a committed notebook holds pictures that need no kernel.
"""

import html
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

from pykraft.extras import require
from pykraft.viz.boards.board_drawing import COLUMNS, WIDTH
from pykraft.viz.boards.cluster_board import board
from pykraft.viz.boards.live_clicks import Breakable, LiveClicks, Recorder, Seen
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.film_strip import Frame, strip

STEP_MS = 500
_SEEN = "Seen {seen} of {count} · {time}"
_OPEN: "WeakKeyDictionary[Any, LiveClicks]" = WeakKeyDictionary()
"""The clients of each cluster's board: one board of a cluster at a time has them."""


def _clicks(cluster: Breakable, topic: str | None) -> LiveClicks:
    if (earlier := _OPEN.get(cluster)) is not None:
        earlier.close()
    clicks = _OPEN[cluster] = LiveClicks(cluster, topic)
    return clicks


def film_strip(
    cluster: Breakable, script: Sequence[str], topic: str | None = None, columns: int = 1, **options: Any
) -> Figure:
    """One picture for each step of a script; without a script, the cluster as it is. `options` are those of `board`.
    The errors are those of `LiveClicks.click`. The producer and the consumer end with the script."""
    if not script:
        return board(cluster, **options)
    clicks = _clicks(cluster, topic)
    title = str(options.pop("title", "A cluster under your hands"))
    frames = []
    explained: set[str] = set()
    try:
        for what in script:
            clicks.click(what)
            seen = clicks.look()
            signs = board.signs(seen.view, **options)
            drawn = {"title": clicks.said.rstrip("."), "legend": not signs <= explained, **options}
            frames.append(Frame(what, _picture(seen, drawn)))
            explained |= signs
    finally:
        clicks.close()
    return strip(f"{title}, in {len(frames)} pictures", frames, columns)


def _picture(seen: Seen, options: dict[str, Any]) -> Figure:
    return board(seen.view, **{"facts": seen.facts, **options})


class LiveBoard:
    """The widgets. `click` is what the buttons call; a program may call it as well."""

    def __init__(
        self, cluster: Breakable, script: Sequence[str] = (), topic: str | None = None, **options: Any
    ) -> None:
        require("a board with buttons", "course", "ipywidgets")
        import ipywidgets as widgets

        self._widgets = widgets
        self._cluster = cluster
        self._options = options
        self._script = list(script)
        self._clicks = _clicks(cluster, topic)
        self.recorder = Recorder(self._clicks.look)
        self.said = ""
        """What the last click did, or why it did nothing."""
        self._is_drawing = False
        self._picture, self._legend, self._status = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._make_node_buttons()
        self._make_rows()
        self.widget = widgets.VBox(
            [self._picture, self._cards, self._switches, self._links, self._time, self._status, self._legend],
            layout=widgets.Layout(max_width=f"{WIDTH + 20}px"),
        )
        self.show()

    # --- making -------------------------------------------------------------------------------------------------------

    def _make_node_buttons(self) -> None:
        widgets = self._widgets
        ids = self._cluster.node_ids
        self._nodes = {node_id: self._button("", self._press_node, node_id) for node_id in ids}
        self._offs = {node_id: self._button("", self._press_off, node_id) for node_id in ids}
        boxes = [widgets.HBox([self._nodes[n], self._offs[n]], layout=_wrapping(widgets)) for n in self._in_cards()]
        gap = f"{100 * 30 / WIDTH:.2f}%"
        layout = widgets.Layout(
            grid_template_columns=f"repeat({COLUMNS}, 1fr)", grid_gap=f"4px {gap}", max_width=f"{WIDTH}px"
        )
        self._cards = widgets.GridBox(boxes, layout=layout)

    def _in_cards(self) -> list[int]:
        """The nodes in the order of their cards: each has its buttons in its column."""
        view = self.recorder.frames[-1].view
        known = sorted(view.nodes, key=lambda n: ("broker" in view.nodes[n].roles, list(view.nodes).index(n)))
        return [*known, *(n for n in self._cluster.node_ids if n not in view.nodes)]

    def _make_rows(self) -> None:
        widgets = self._widgets
        self._flows = {
            name: widgets.ToggleButton(value=False, layout=widgets.Layout(width="auto"))
            for name in ("producer", "consumer")
        }
        for name, switch in self._flows.items():
            switch.observe(lambda change, name=name: self._on_switch(name, change["new"]), names="value")
        acks = [("acks=all", "all"), ("acks=1", "1"), ("acks=0", "0")]
        self._acks = widgets.Dropdown(options=acks, layout=widgets.Layout(width="auto"))
        self._script_button = self._button("", self._press_script)
        self._switches = widgets.HBox(
            [
                *(self._flows["producer"], self._acks, self._flows["consumer"]),
                *([self._script_button] if self._script else []),
            ],
            layout=_wrapping(widgets),
        )
        pairs = [(f"{a} and {b}", f"{a} {b}") for a, b in combinations(self._cluster.node_ids, 2)]
        narrow = {"description_width": "initial"}
        self._pair = widgets.Dropdown(options=pairs, description="link", disabled=not pairs, style=narrow)
        cuts = {"cut": "✕ cut", "heal": "● heal"}
        self._cuts = {verb: self._button(label, self._press_pair, verb) for verb, label in cuts.items()}
        self._links = widgets.HBox([self._pair, *self._cuts.values()], layout=_wrapping(widgets))
        self._slider = widgets.IntSlider(
            value=0,
            min=0,
            max=0,
            description="seen",
            continuous_update=True,
            style=narrow,
            layout=widgets.Layout(width="60%"),
        )
        self._play = widgets.Play(value=0, min=0, max=1 << 30, interval=STEP_MS, description="look again and again")
        self._play.observe(lambda _: self.look(), names="value")
        self._slider.observe(lambda _: self.show(), names="value")
        self._time = widgets.HBox([self._play, self._slider])

    def _button(self, label: str, press: Callable[..., None], *arguments: object) -> Any:
        button = self._widgets.Button(description=label, layout=self._widgets.Layout(width="auto"))
        button.on_click(lambda _: press(*arguments))
        return button

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> int:
        """The number of the look that is shown, from 0."""
        return int(self._slider.value)

    def look(self) -> None:
        """Look at the cluster; a reader who looks at the newest look goes on to the new one."""
        was_last = self.shown >= self._slider.max
        try:
            self.recorder.look()
        except Exception as error:  # it was closed: what was seen can still be stepped through
            self.said = f"There is nothing new to see: {error}"
        self._slider.max = len(self.recorder.frames) - 1
        if was_last:
            self._slider.value = self._slider.max
        self.show()

    def show(self) -> None:
        """Draw the look that the slider points at."""
        frames = self.recorder.frames
        seen = frames[min(self.shown, len(frames) - 1)]
        self._picture.value = _picture(seen, {"legend": False, **self._options}).svg
        self._legend.value = board.legend(seen.view, **self._options)
        time = f"{seen.view.time_ms / 1000:.1f} s after the start"
        status = _SEEN.format(seen=self.shown + 1, count=len(frames), time=time)
        said = f"<br>{html.escape(self.said)}" if self.said else ""
        self._status.value = f'<div role="status" aria-live="polite">{status}{said}</div>'
        self._label()

    def _label(self) -> None:
        """Each button says what it does now, to the cluster as it is."""
        alive = set(self._cluster.alive)
        for node_id, button in self._nodes.items():
            button.description = f"✕ kill node {node_id}" if node_id in alive else f"● start node {node_id}"
            self._offs[node_id].description = f"{'● join' if self._is_off(node_id) else '✕ cut off'} node {node_id}"
            self._offs[node_id].disabled = node_id not in alive or len(alive) < 2
        self._is_drawing = True
        for name, switch in self._flows.items():
            switch.value = self._clicks.is_on(name)
            switch.description = f"■ stop {name}" if switch.value else f"▶ start {name}"
        self._is_drawing = False
        self._script_button.description = f"next: {self._script[0]} ▶" if self._script else "that was the last one"
        self._script_button.disabled = not self._script
        self._script_button.button_style = "primary" if self._script else ""

    # --- pressing -----------------------------------------------------------------------------------------------------

    def click(self, what: str) -> None:
        """Press a button. A page has nowhere to show a traceback: what does not work is said in the line below."""
        try:
            self._clicks.click(what)
            self.said = self._clicks.said
            self._play.playing = True  # there is something to see from now on
        except Exception as error:
            self.said = f"That did not work: {error}"
        self.look()

    def close(self) -> None:
        """End the producer and the consumer, and the widgets; the cluster stays."""
        self._clicks.close()
        self.widget.close()

    def _press_node(self, node_id: int) -> None:
        self.click(f"{'kill' if node_id in self._cluster.alive else 'restart'} {node_id}")

    def _is_off(self, node_id: int) -> bool:
        """Whether nothing gets through between this node and any other that is alive."""
        view = self.recorder.frames[-1].view
        others = [other for other in self._cluster.alive if other != node_id]
        return bool(others) and all(view.is_cut(node_id, other) for other in others)

    def _press_off(self, node_id: int) -> None:
        self.click(f"{'heal' if self._is_off(node_id) else 'cut'} {node_id}")

    def _press_pair(self, verb: str) -> None:
        if self._pair.value is not None:
            self.click(f"{verb} {self._pair.value}")

    def _press_script(self) -> None:
        if self._script:
            self.click(self._script.pop(0))

    def _on_switch(self, name: str, is_on: bool) -> None:
        if self._is_drawing:
            return
        setting = f" acks={self._acks.value}" if is_on and name == "producer" else ""
        self.click(f"{'start' if is_on else 'stop'} {name}{setting}")

    def __repr__(self) -> str:
        return _picture(self.recorder.frames[-1], self._options).text

    def _repr_mimebundle_(self, **_: Sequence[str] | None) -> Any:
        return self.widget._repr_mimebundle_()


def _wrapping(widgets: Any) -> Any:
    return widgets.Layout(flex_flow="row wrap")
