"""A lever: a picture, and what a reader moves to change it.

The picture is drawn by a function of plain values, which computes what it shows with pykraft's own code each time. A
lever has a control for each value::

    lever(draw_key, key="JFK-LAX", partitions=(1, 12, 6), codec=["gzip", "lz4"])

A text is a field, three whole numbers are a slider (from, to, at first), texts in a list are a choice, at first of the
first one. On a static page there is only the first picture, as of any other figure. The live form is never committed:
it would be empty without a kernel.

A value that cannot be drawn, for instance a field that is empty for a moment, leaves the picture as it was, and what is
wrong stands below it: the ValueError of the function that draws.
"""

import html
import time
from collections.abc import Callable, Sequence
from typing import Any

from pykraft.course.asking.lead_on import runs_on_shift_enter
from pykraft.surroundings import is_headless, is_notebook
from pykraft.viz.drawing.figure import Figure

Control = str | tuple[int, int, int] | Sequence[str]
"""A field with its first text; the smallest value of a slider, the largest, and the one it begins with; a choice."""
AT_ONCE_S = 0.1
"""A picture that takes less is drawn while the slider moves, any other one when it is let go."""
SLOW_S = 2.0
"""A picture that takes so long is slow, whatever it has read and imported the first time."""
_UNITS = {"mb": "MB", "kb": "KB", "mbit": "Mbit/s"}
_NAME_STYLE = {"description_width": "initial"}
_LAYOUT = {"width": "21em"}


def lever(draw: Callable[..., Figure], at_once: bool | None = None, **controls: Control) -> object:
    """The figure that `draw` makes of the first values, with its controls on a live page. It is drawn while a slider
    moves if `at_once`; None tries how long a second drawing takes. ValueError if a control cannot have its first
    value."""
    first = {name: _first(name, control) for name, control in controls.items()}
    started = time.perf_counter()
    figure = draw(**first)
    if is_headless() or not is_notebook():
        return figure
    if at_once is None:
        at_once = time.perf_counter() - started < SLOW_S and _seconds(draw, first) < AT_ONCE_S
    import ipywidgets

    handles = {name: _handle(name, control, at_once) for name, control in controls.items()}
    picture = ipywidgets.HTML(figure.svg + runs_on_shift_enter())
    wrong = ipywidgets.HTML()

    def redraw(_: object) -> None:
        wrong.value = "" if at_once else "working ..."
        try:
            picture.value = draw(**{name: handle.value for name, handle in handles.items()}).svg
        except ValueError as error:
            wrong.value = html.escape(str(error))
        else:
            wrong.value = ""

    for handle in handles.values():
        handle.observe(redraw, "value")
    row = ipywidgets.HBox([*handles.values()], layout={"flex_flow": "row wrap"})
    return ipywidgets.VBox([row, picture, wrong])


def _seconds(draw: Callable[..., Figure], values: dict[str, object]) -> float:
    """What the picture takes when it is drawn once more: the first time it may have read and imported much."""
    started = time.perf_counter()
    draw(**values)
    return time.perf_counter() - started


def _first(name: str, control: Control) -> object:
    match control:
        case str():
            return control
        case (int(), int(), int()) as numbers:
            smallest, largest, first = numbers
            if not smallest <= first <= largest:
                raise ValueError(f"{name}={numbers}: the third number must lie between the others")
            return first
        case [str(), *_]:
            return control[0]
    raise ValueError(f"{name}={control!r}: a lever has a text, three whole numbers, or a list of texts")


def _handle(name: str, control: Any, is_quick: bool) -> Any:
    import ipywidgets

    words = [_UNITS.get(word, word) for word in name.split("_")]
    shared = {"description": " ".join(words), "style": _NAME_STYLE, "layout": _LAYOUT}
    match control:
        case str():
            return ipywidgets.Text(value=control, continuous_update=is_quick, **shared)
        case (int(), int(), int()):
            smallest, largest, first = control
            return ipywidgets.IntSlider(value=first, min=smallest, max=largest, continuous_update=is_quick, **shared)
    return ipywidgets.Dropdown(options=list(control), **shared)
