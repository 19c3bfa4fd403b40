"""What a drawing function returns: one finding as a picture, as text, and as something to hover over.

GitHub's view of a notebook and an exported page take the SVG. JupyterLab takes the same as an image in HTML, whose
`alt` a screen reader reads out (`alternative`). A terminal takes the text, which holds the same facts. `interactive`
adds plotly's form: JupyterLab prefers it and lets the reader point at values; everything else still finds the SVG
beside it.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pykraft.extras import require
from pykraft.viz.drawing.alternative import HTML, SVG, as_image
from pykraft.viz.drawing.svg import TextBox

TEXT = "text/plain"
PLOTLY = "application/vnd.plotly.v1+json"
Spec = Mapping[str, Any]
_VIEW_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


@dataclass(frozen=True)
class Figure:
    """A finished figure. `plotly` holds plotly's data and layout, where there is such a twin."""

    title: str
    svg: str
    text: str
    boxes: tuple[TextBox, ...] = ()
    plotly: Spec | None = None
    shows_plotly: bool = False

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    @property
    def height(self) -> float:
        """Of the drawing, in its own pixels."""
        found = _VIEW_BOX.search(self.svg)
        assert found is not None, "a drawing has a view box"
        return float(found[2])

    @property
    def width(self) -> float:
        found = _VIEW_BOX.search(self.svg)
        assert found is not None, "a drawing has a view box"
        return float(found[1])

    def interactive(self) -> "Figure":
        """The same figure, to be hovered over and zoomed where the page can do that. ValueError if it has no such
        form."""
        if self.plotly is None:
            raise ValueError("this figure has no interactive form; show it as it is")
        return replace(self, shows_plotly=True)

    def to_plotly(self) -> Any:
        """A plotly figure, to change and go on with."""
        if self.plotly is None:
            raise ValueError("this figure has no interactive form; show it as it is")
        require("an interactive figure", "course", "plotly")
        from plotly.graph_objects import Figure as PlotlyFigure

        return PlotlyFigure(dict(self.plotly))

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, object]:
        bundle: dict[str, object] = {HTML: as_image(self.svg), SVG: self.svg, TEXT: self.text}
        if self.shows_plotly:
            # Through plotly's own classes: they refuse what plotly would not understand.
            bundle[PLOTLY] = self.to_plotly().to_plotly_json()
        return {
            kind: data
            for kind, data in bundle.items()
            if (include is None or kind in include) and (exclude is None or kind not in exclude)
        }
