"""A question that the reader answers on the picture: drags the end of a bar to where it will be.

::

    nb.mark("moved", {"all keys": 224})       the bars that are known, and one to be dragged
    ...
    nb.answer("moved", moved)                 the real bar beside it, with the distance

Its words and its scale are in the notebook's file of questions (`question_file`). On a live page the picture follows
the mouse; the number below it can be typed, and changed with the arrow keys. A headless run takes the guess with which
the marker begins. Like any other guess this one is kept until the reader changes it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykraft.course.asking.lead_on import runs_on_shift_enter
from pykraft.course.asking.question_file import Scale
from pykraft.surroundings import is_headless, is_notebook, show
from pykraft.viz.drawing.charts import WIDTH
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.measured.guess_chart import PLOT, distance, guess_chart

BOX = "pykraft-guess"
NEAR = 0.1
"""A guess counts as right if it is this share of the scale away, or less."""

_DRAG = """
const svg = this.querySelector("svg"), box = svg.getBoundingClientRect(), d = this.dataset;
if (event.type === "pointerdown") { d.down = 1; this.setPointerCapture(event.pointerId); }
if (d.down) {
  const x = (event.clientX - box.left) * %(width)s / box.width;
  const share = Math.min(1, Math.max(0, (x - %(left)s) / %(length)s));
  const steps = Math.round(share * (d.high - d.low) / d.step);
  const value = Number((Number(d.low) + steps * d.step).toFixed(6));
  const place = %(left)s + %(length)s * (value - d.low) / (d.high - d.low);
  svg.querySelector(".guess-handle").setAttribute("x", place - 4);
  svg.querySelector(".guess-bar").setAttribute("width", Math.max(1, place - %(left)s));
  if (event.type === "pointerup") {
    delete d.down;
    const input = this.closest(".%(box)s").querySelector("input");
    input.value = value;
    for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind, {bubbles: true}));
  }
}
"""
"""What the mouse does: the bar follows it, and where it lets go the number is written into the field below."""


class PictureGuess:
    """One such question of one reader."""

    def __init__(
        self,
        scale: Scale,
        known: Mapping[str, float],
        *,
        guess: float | None = None,
        on_guess: Callable[[float], None] = lambda value: None,
        on_judged: Callable[[bool], None] = lambda is_right: None,
    ) -> None:
        """`guess` is one that was made earlier; `on_guess` is called with each new one, `on_judged` when both are
        known, with whether the guess was near."""
        self.scale = scale
        self.known = dict(known)
        self.has_guessed = guess is not None
        self.value = self._on_scale(scale.start if guess is None else guess)
        self.real: float | None = None
        self._on_guess = on_guess
        self._on_judged = on_judged
        self._page: _Page | None = None

    def _on_scale(self, value: float) -> float:
        return min(self.scale.high, max(self.scale.low, value))

    @property
    def figure(self) -> Figure:
        """The picture as it is now."""
        axis, unit = (self.scale.low, self.scale.high), self.scale.unit
        title = self.scale.ask
        if self.real is not None:
            who = "Your guess was" if self.has_guessed else "The marker began"
            title = f"{who} {distance(self.value, self.real, unit)}"
        return guess_chart(self.known, self.value, self.real, axis=axis, unit=unit, title=title)

    def show(self) -> None:
        """Put the question on the page."""
        if is_notebook() and not is_headless():
            self._page = _Page(self)
            show(self._page.widget)
        else:
            show(self.figure)

    def choose(self, value: float) -> None:
        """The reader guesses; after the answer it is too late."""
        if self.real is None:
            self.value, self.has_guessed = self._on_scale(value), True
            self._on_guess(self.value)
        if self._page is not None:
            self._page.refresh()

    def settle(self, real: float) -> None:
        """Draw the real one beside the guess, or beside the place where the marker began."""
        self.real = real
        if self.has_guessed:
            self._on_judged(abs(self.value - real) <= NEAR * (self.scale.high - self.scale.low))
        show(self.figure)
        if self._page is not None:
            self._page.refresh()


class _Page:
    """The picture as a widget, and a field for the number."""

    def __init__(self, question: PictureGuess) -> None:
        from ipywidgets import HTML, BoundedFloatText, VBox

        self._question = question
        scale = question.scale
        self._picture: Any = HTML()
        self.number: Any = BoundedFloatText(
            value=question.value, min=scale.low, max=scale.high, step=scale.step, description="Your guess"
        )
        self.number.observe(lambda change: question.choose(change["new"]), "value")
        self.widget = VBox([self._picture, self.number])
        self.widget.add_class(BOX)
        self.refresh()

    def refresh(self) -> None:
        scale, is_over = self._question.scale, self._question.real is not None
        self.number.disabled = is_over
        left, right = PLOT
        script = _DRAG % {"width": WIDTH, "left": left, "length": right - left, "box": BOX}
        events = ("pointerdown", "pointermove", "pointerup")
        handlers = "" if is_over else " ".join(f"on{name}='{' '.join(script.split())}'" for name in events)
        data = f"data-low='{scale.low:g}' data-high='{scale.high:g}' data-step='{scale.step:g}'"
        style = "touch-action: none" if is_over else "touch-action: none; cursor: ew-resize"
        picture = f"<div {data} style='{style}' {handlers}>{self._question.figure.svg}</div>"
        self._picture.value = picture + runs_on_shift_enter()
