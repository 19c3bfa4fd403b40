"""The board with buttons: for a reader who sits in front of a cluster that runs.

`Recorder` is the part without a screen: it looks at the cluster and keeps each look that differs from the one before,
so that one can step back. `LiveBoard` puts widgets around it: a play button that looks again every half second, a
slider over what was seen, a button for each node that kills it or starts it again, and one that cuts a pair of nodes
apart or joins it. All of them can be reached and pressed with the keyboard, nothing moves unless it is asked to, and no
thread of its own runs: a look is taken when the page asks for one.

Where nobody sits in front, or where there is no page, `board.live` returns the static board: a committed notebook holds
a picture that needs no kernel.
"""

import html
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Protocol

from pykraft.cluster_view import ClusterView
from pykraft.extras import require
from pykraft.viz.cluster_board import board

STEP_MS = 500
MOST_FRAMES = 400
_SEEN = "Seen {seen} of {count} · {time}"


class Breakable(Protocol):
    """A cluster, as far as the buttons are concerned."""

    node_ids: list[int]

    @property
    def alive(self) -> list[int]: ...

    def describe(self) -> ClusterView: ...

    def kill(self, node_id: int) -> None: ...

    def restart(self, node_id: int, wait: bool = True) -> None: ...

    def disconnect(self, one: int, other: int) -> None: ...

    def reconnect(self, one: int, other: int) -> None: ...


class Recorder:
    """What was seen of a cluster, one view for each change; the oldest are forgotten when there are very many."""

    def __init__(self, cluster: Breakable) -> None:
        self._cluster = cluster
        self.frames: list[ClusterView] = [cluster.describe()]

    def look(self) -> bool:
        """Look once more; whether anything has changed since."""
        view = self._cluster.describe()
        if (view.cluster_id, view.nodes) == (self.frames[-1].cluster_id, self.frames[-1].nodes):
            return False
        self.frames = [*self.frames[1 - MOST_FRAMES :], view]
        return True


class LiveBoard:
    """The widgets. `look`, `show` and `press` are what they call; a program may call them as well."""

    def __init__(self, cluster: Breakable, **options: Any) -> None:
        require("a board with buttons", "course", "ipywidgets")
        import ipywidgets as widgets

        self._cluster = cluster
        self._options = options
        self.recorder = Recorder(cluster)
        self.cut: set[tuple[int, int]] = set()
        """The pairs of nodes that were cut apart here."""
        self.said = ""
        self._picture = widgets.HTML()
        self._status = widgets.HTML()
        self._slider = widgets.IntSlider(
            value=0, min=0, max=0, description="seen", continuous_update=True, layout=widgets.Layout(width="60%")
        )
        self._play = widgets.Play(value=0, min=0, max=1 << 30, interval=STEP_MS, description="look again and again")
        self._nodes = {node_id: widgets.Button() for node_id in cluster.node_ids}
        self._pairs = {pair: widgets.Button() for pair in combinations(cluster.node_ids, 2)}
        for node_id, button in self._nodes.items():
            button.on_click(self._on_click(self.press_node, node_id))
        for pair, button in self._pairs.items():
            button.on_click(self._on_click(self.press_pair, pair))
        self._play.observe(lambda _: self.look(), names="value")
        self._slider.observe(lambda _: self.show(), names="value")
        self.widget = widgets.VBox(
            [
                self._picture,
                widgets.HBox([self._play, self._slider]),
                widgets.HBox(list(self._nodes.values())),
                widgets.HBox(list(self._pairs.values()), layout=widgets.Layout(flex_flow="row wrap")),
                self._status,
            ]
        )
        self.show()

    def _on_click(self, press: Callable[[Any], None], what: Any) -> Callable[[object], None]:
        def clicked(_: object) -> None:
            press(what)

        return clicked

    @property
    def shown(self) -> int:
        """The number of the view that is shown, from 0."""
        return int(self._slider.value)

    def look(self) -> None:
        """Look at the cluster; who looks at the newest view goes on to the new one."""
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
        """Draw the view that the slider points at."""
        frames = self.recorder.frames
        view = frames[min(self.shown, len(frames) - 1)]
        self._picture.value = board(view, **self._options).svg
        time = f"{view.time_ms / 1000:.1f} s after the start"
        told = _SEEN.format(seen=self.shown + 1, count=len(frames), time=time)
        self._status.value = f"{told}<br>{html.escape(self.said)}" if self.said else told
        alive = set(self._cluster.alive)
        for node_id, button in self._nodes.items():
            button.description = f"✕ kill node {node_id}" if node_id in alive else f"● start node {node_id}"
        for pair, button in self._pairs.items():
            button.description = f"{'join' if pair in self.cut else 'cut'} {pair[0]} – {pair[1]}"  # noqa: RUF001
            button.disabled = not set(pair) <= alive

    def press_node(self, node_id: int) -> None:
        """Kill a node, or start it again."""
        if node_id in self._cluster.alive:
            self._do(f"node {node_id} was killed", lambda: self._cluster.kill(node_id))
        else:
            self._do(f"node {node_id} was started", lambda: self._cluster.restart(node_id, wait=False))
        # What was cut is mended by the death of one of the two: a new node knows nothing of it.
        self.cut = {pair for pair in self.cut if node_id not in pair}
        self.look()

    def press_pair(self, pair: tuple[int, int]) -> None:
        """Cut two nodes apart, or join them."""
        if pair in self.cut:
            self._do(f"nodes {pair[0]} and {pair[1]} hear each other again", lambda: self._cluster.reconnect(*pair))
            self.cut.discard(pair)
        elif self._do(f"nodes {pair[0]} and {pair[1]} were cut apart", lambda: self._cluster.disconnect(*pair)):
            self.cut.add(pair)
        self.look()

    def _do(self, done: str, action: Callable[[], object]) -> bool:
        """Whether it worked; a page has nowhere to show a traceback."""
        try:
            action()
        except Exception as error:
            self.said = f"That did not work: {error}"
            return False
        self.said = done[0].upper() + done[1:] + "."
        return True

    def __repr__(self) -> str:
        return board(self.recorder.frames[-1], **self._options).text

    def _repr_mimebundle_(self, **_: Sequence[str] | None) -> Any:
        return self.widget._repr_mimebundle_()
