"""A figure with sliders: drawn once on a static page, and after every move on a live one.

A committed notebook shows the first picture, as any other figure. The live form is never committed: it would be empty
without a kernel.
"""

from collections.abc import Callable

from pykraft.course.asking.lead_on import runs_on_shift_enter
from pykraft.surroundings import is_headless, is_notebook
from pykraft.viz.drawing.figure import Figure

Range = tuple[int, int, int]
"""The smallest value of a slider, the largest, and the one it begins with."""


def sliders(draw: Callable[..., Figure], **ranges: Range) -> object:
    """The figure that `draw` makes of one whole number for each range, with a slider for each on a live page.
    ValueError if a range does not hold its first value."""
    for name, (smallest, largest, first) in ranges.items():
        if not smallest <= first <= largest:
            raise ValueError(f"{name}=({smallest}, {largest}, {first}): the third number must lie between the others")
    start = draw(**{name: first for name, (_, _, first) in ranges.items()})
    if is_headless() or not is_notebook():
        return start
    import ipywidgets

    picture = ipywidgets.HTML(start.svg + runs_on_shift_enter())
    handles = {
        name: ipywidgets.IntSlider(value=first, min=smallest, max=largest, description=name, continuous_update=False)
        for name, (smallest, largest, first) in ranges.items()
    }

    def redraw(_: object) -> None:
        picture.value = draw(**{name: handle.value for name, handle in handles.items()}).svg

    for handle in handles.values():
        handle.observe(redraw, "value")
    return ipywidgets.VBox([*handles.values(), picture])
