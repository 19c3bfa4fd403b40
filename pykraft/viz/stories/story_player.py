"""The player of a story: a slider over its events, buttons to go on and to step in, the original beside what you did.

`StoryPlayer` puts widgets around `StoryClicks`. Over each card are the buttons of its node. Everything can be reached
and pressed with the keyboard, nothing moves unless it is asked to, and what a press did is said in a line that screen
readers read out. Where there is no page, or no reader in front of it, `play` runs a script of clicks and returns a film
strip: one picture for each click.
"""

import html
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from pykraft.cluster_view import MessageInFlight
from pykraft.extras import require
from pykraft.sim.interventions import Impossible
from pykraft.story.story import Story
from pykraft.viz.boards.board_drawing import COLUMNS
from pykraft.viz.boards.cluster_board import board
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.film_strip import Frame, strip
from pykraft.viz.stories.story_clicks import StoryClicks
from pykraft.viz.stories.story_frames import LABELS, WIDTH, count_marks, lanes, picture

PLAY_MS = 500
REACH = 3_000
"""How many steps a button looks ahead: about a second."""
_BUTTONS = ("election", "commit", "truncation", "rebalance", "crash", "fault")
_DETAILS = ("nothing more", "frames of this step", "lines that ran")


def play(story: Story, script: Sequence[str] = (), columns: int = 1, **options: Any) -> "Figure | StoryPlayer":
    """The player; or, where there is no page or no reader in front of it, the film strip of a script of clicks.
    `options` are those of `board`."""
    from pykraft.surroundings import is_headless, is_notebook

    if is_headless() or not is_notebook():
        return film_strip(story, script, columns, **options)
    return StoryPlayer(story, script, **options)


def film_strip(story: Story, script: Sequence[str], columns: int = 1, **options: Any) -> Figure:
    """One picture for each click of a script. Without a script it is the current step."""
    clicks = StoryClicks(story)
    if not script:
        return picture(story, **options)
    frames = []
    explained: set[str] = set()
    for what in script:
        clicks.click(what)
        signs = board.signs(clicks.story.view, **options)
        drawn = {"legend": not signs <= explained, **options}
        frames.append(Frame(f"{what} → {clicks.said}", picture(clicks.story, **drawn)))
        explained |= signs
    return strip(f"A story of seed {story.seed} in {len(frames)} pictures", frames, columns)


# --- widgets ----------------------------------------------------------------------------------------------------------


class StoryPlayer:
    """The widgets. `click` is what the buttons call; a program may call it as well."""

    def __init__(self, story: Story, script: Sequence[str] = (), **options: Any) -> None:
        require("a story's player", "course", "ipywidgets")
        import ipywidgets as widgets

        self._widgets = widgets
        self._clicks = StoryClicks(story)
        self._options = options
        self._script = list(script)
        self._is_drawing = False
        self._tallest = 0.0
        self._make_pictures()
        self._make_controls()
        self._make_interventions()
        story.prepare()
        self.widget = widgets.VBox(
            [
                self._movement,
                self._status,
                self._slider,
                self._lanes,
                self._cards,
                self._picture,
                self._pairs_row,
                self._messages_row,
                self._branch_row,
                self._details,
                self._beside,
            ],
            layout=widgets.Layout(max_width=f"{WIDTH + 20}px"),
        )
        self.draw()

    @property
    def story(self) -> Story:
        """The branch that is shown."""
        return self._clicks.story

    @property
    def said(self) -> str:
        """What the last click did, or why it did nothing."""
        return self._clicks.said

    # --- making -------------------------------------------------------------------------------------------------------

    def _make_pictures(self) -> None:
        widgets = self._widgets
        self._picture, self._lanes, self._status = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._details, self._beside = widgets.HTML(), widgets.HTML()

    def _make_controls(self) -> None:
        widgets = self._widgets
        under_the_lanes = widgets.Layout(width="auto", margin=f"0 8px 0 {100 * LABELS / WIDTH:.1f}%")
        self._slider = widgets.IntSlider(min=0, max=1, readout=False, layout=under_the_lanes)
        self._slider.observe(lambda _: self._on_slider(), names="value")
        self._play = widgets.Play(min=0, max=1 << 30, interval=PLAY_MS, description="play")
        self._play.observe(lambda _: self._on_play(), names="value")
        row = [self._play]
        row += [self._button("◀ event", self.click, "previous"), self._button("event ▶", self.click, "next")]
        row += [self._button(f"{kind} ▶", self._press_next, kind) for kind in _BUTTONS]
        self._script_button = self._button("", self._press_script)
        self._movement = self._row([*row, self._script_button] if self._script else row)

    def _make_node_buttons(self, ids: list[int]) -> None:
        """In the columns of the cards: controllers first, as they are drawn."""
        widgets, view = self._widgets, self.story.view
        self._nodes = {node_id: self._button("", self._press_node, node_id) for node_id in ids}
        self._offs = {node_id: self._button("", self._press_off, node_id) for node_id in ids}
        separate = [node_id for node_id in ids if "broker" not in view.nodes[node_id].roles]
        brokers = [node_id for node_id in ids if node_id not in separate]
        places = [*separate, *[None] * (-len(separate) % COLUMNS), *brokers]
        boxes = [widgets.Box() if n is None else self._row([self._nodes[n], self._offs[n]]) for n in places]
        columns = widgets.Layout(grid_template_columns=f"repeat({COLUMNS}, 1fr)", grid_gap="4px 3.1%", width="100%")
        self._cards = widgets.GridBox(boxes, layout=columns)

    def _make_interventions(self) -> None:
        widgets = self._widgets
        ids = list(self.story.view.nodes)
        self._make_node_buttons(ids)
        pairs = [(f"{a} and {b}", f"{a} {b}") for a, b in combinations(ids, 2)]
        self._pair = widgets.Dropdown(options=pairs, description="nodes")
        cuts = [self._button(verb, self._press_pair, verb) for verb in ("cut", "heal")]
        self._pairs_row = self._row([self._pair, *cuts])
        self._messages = widgets.Select(rows=5, description="messages", layout=widgets.Layout(width="98%"))
        self._messages.observe(lambda _: self._on_message(), names="value")
        self._delay_ms = widgets.BoundedIntText(value=200, min=1, max=60_000, description="by ms")
        verbs = {"deliver": "deliver now", "drop": "drop", "delay": "delay"}
        self._message_buttons = [self._button(label, self._press_message, verb) for verb, label in verbs.items()]
        self._messages_row = widgets.VBox([self._messages, self._row([*self._message_buttons, self._delay_ms])])
        self._names = widgets.Dropdown(options=[self.story.name], description="story")
        self._names.observe(lambda _: self._on_name(), names="value")
        self._shown = widgets.Dropdown(options=_DETAILS, description="show")
        self._shown.observe(lambda _: self._draw_details(), names="value")
        self._is_beside = widgets.Checkbox(value=True, description="the original beside it", indent=False)
        self._is_beside.observe(lambda _: self._draw_beside(), names="value")
        fork = self._button("fork here", self.click, "fork")
        self._branch_row = self._row([self._names, fork, self._is_beside, self._shown])

    def _row(self, children: list[Any]) -> Any:
        return self._widgets.HBox(children, layout=self._widgets.Layout(flex_flow="row wrap"))

    def _button(self, label: str, press: Callable[..., None], *arguments: object) -> Any:
        button = self._widgets.Button(description=label, layout=self._widgets.Layout(width="auto"))
        button.on_click(lambda _: press(*arguments))
        return button

    # --- pressing -----------------------------------------------------------------------------------------------------

    def click(self, what: str) -> None:
        """Press a button. A page has nowhere to show a traceback: what does not work is said in the line below. To look
        far ahead takes a second: what is looked for is said before."""
        self._say(f"{what} …")
        try:
            self._clicks.click(what)
        except (ValueError, Impossible) as reason:
            self._clicks.said = f"That does not work: {reason}"
        self.draw()

    def _press_next(self, kind: str) -> None:
        """Look for it, and come back soon when there is none."""
        self._clicks.reach = REACH
        try:
            self.click(f"next {kind}")
        finally:
            self._clicks.reach = float("inf")

    def _press_script(self) -> None:
        if self._script:
            self.click(self._script.pop(0))

    def _press_node(self, node_id: int) -> None:
        is_alive = self.story.view.nodes[node_id].is_alive
        self.click(f"{'kill' if is_alive else 'restart'} {node_id}")

    def _press_off(self, node_id: int) -> None:
        view = self.story.view
        is_off = all(view.is_cut(node_id, other) for other in view.nodes if other != node_id)
        self.click(f"{'heal' if is_off else 'cut'} {node_id}")

    def _press_pair(self, verb: str) -> None:
        self.click(f"{verb} {self._pair.value}")

    def _press_message(self, verb: str) -> None:
        ids = [number for _, number in self._messages.options]
        chosen = ids[0] if len(ids) == 1 else self._messages.value
        if chosen is None:
            self._say(f"{verb}: select a message first")
            return
        self.click(f"{verb} {chosen}" + (f" {self._delay_ms.value}" if verb == "delay" else ""))

    def _on_slider(self) -> None:
        if not self._is_drawing:
            self.click(f"at {self._slider.value}")

    def _on_play(self) -> None:
        if not self._is_drawing:
            self.click("next")

    def _on_name(self) -> None:
        if not self._is_drawing:
            self.click(f"story {self._names.value}")

    # --- drawing ------------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Show the current step."""
        self._is_drawing = True
        try:
            self._draw()
        finally:
            self._is_drawing = False

    def _draw(self) -> None:
        story = self.story
        self._draw_messages()
        self._draw_picture()
        title = f"Where something happened: {count_marks(story.marks)}"
        self._lanes.value = lanes(story.marks, story.last_step, story.step).render(title, title)
        self._slider.max = max(1, story.last_step)
        self._slider.value = story.step
        for node_id, button in self._nodes.items():
            is_alive = story.view.nodes[node_id].is_alive
            button.description = f"✕ kill node {node_id}" if is_alive else f"● restart node {node_id}"
            is_off = all(story.view.is_cut(node_id, other) for other in story.view.nodes if other != node_id)
            self._offs[node_id].description = "● join it again" if is_off else "✕ cut it off"
        self._script_button.description = f"next: {self._script[0]} ▶" if self._script else "that was the last one"
        self._script_button.disabled = not self._script
        self._script_button.button_style = "primary" if self._script else ""
        self._names.options = list(story.branches)
        self._names.value = story.name
        what = self.said or f"step {story.step:,}: {story.what}"
        self._say(what)
        self._draw_details()
        self._draw_beside()

    def _say(self, what: str) -> None:
        """Put a sentence into the line that screen readers read out."""
        end = "" if what.endswith("…") else "."
        said = html.escape(what[:1].upper() + what[1:])
        self._status.value = f'<div role="status" aria-live="polite">{said}{end}</div>'

    def _draw_picture(self) -> None:
        drawn = picture(self.story, **{"selected": self._messages.value, **self._options})
        # What is below does not jump as messages come and go.
        self._tallest = max(self._tallest, drawn.height)
        room = f"max-width:{WIDTH}px;aspect-ratio:{WIDTH}/{self._tallest:.0f}"
        self._picture.value = f'<div style="{room}">{drawn.svg}</div>'

    def _on_message(self) -> None:
        if not self._is_drawing:
            self._draw_picture()

    def _draw_messages(self) -> None:
        before = self._messages.value
        options = [(_labelled(message, self.story.time_ms), message.id) for message in self.story.messages]
        self._messages.options = options
        if any(number == before for _, number in options):
            self._messages.value = before
        for button in self._message_buttons:
            button.disabled = not options

    def _draw_details(self) -> None:
        shown = self._shown.value
        if shown == _DETAILS[1]:
            trees = [f"{frame}\n{frame.tree()}" for frame in self.story.frames()]
            text = "\n\n".join(trees) or "No frame arrived or was sent in this step."
        elif shown == _DETAILS[2] and self.story.step:
            ran = self.story.lines()
            text = (
                f"{ran}\n\n{ran.source()}" if len(ran) else "No line of a node's or a client's logic ran in this step."
            )
        else:
            text = ""
        self._details.value = f'<pre tabindex="0">{html.escape(text)}</pre>' if text else ""

    def _draw_beside(self) -> None:
        beside = self.story.beside() if self._is_beside.value else None
        if beside is None:
            self._beside.value = ""
        else:
            heading = f"<b>To compare: {html.escape(beside[0].name)}, at the same time</b>"
            self._beside.value = heading + picture(beside[0], beside[1], **self._options).svg

    def __repr__(self) -> str:
        return picture(self.story, **self._options).text

    def _repr_mimebundle_(self, **_: Sequence[str] | None) -> Any:
        return self.widget._repr_mimebundle_()


def _labelled(message: MessageInFlight, now_ms: float) -> str:
    due = "held back by a cut link" if message.due_ms == float("inf") else f"due in {message.due_ms - now_ms:,.1f} ms"
    return f"{message} ({due})"
