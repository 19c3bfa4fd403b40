"""A notebook as slides: which cell begins one.

``python -m pykraft course slides 02`` makes a page of them (`slide_page`). ``jupyter nbconvert --to slides`` reads the
same from each cell's metadata, and a notebook gets it when it is built. The rule is the same for all notebooks, so no
author writes the metadata by hand:

    slide       a cell with a heading
    subslide    what comes below it: a question, a further word, a picture
    fragment    a verdict, which appears when the room has guessed
    "-"         code and its result, which stand with what is before them
    notes       long code that shows nothing: for the speaker's eyes
    skip        what only a run needs: the helper, the machine, the last cell
"""

import re
from typing import Any

from pykraft.viz.drawing.alternative import SVG

SLIDE, SUBSLIDE, FRAGMENT, GOES_ON, NOTES, SKIP = "slide", "subslide", "fragment", "-", "notes", "skip"
LONG_LINES = 12
"""More code than this does not fit beside anything else."""
_HEADING = re.compile(r"^##? ", re.MULTILINE)
_FOR_A_RUN = re.compile(
    r"nb\.(?:machine|measure\(\)|finish\(\))\Z"
    r"|(?!.*(?:nb\.predict|\n(?:lever|play))\()(?:.*\b(?:nb = notebook|lab = Lab)\()",
    re.DOTALL,
)


def slide_type(cell: Any) -> str:
    """What a cell is among the slides."""
    if cell.cell_type != "code":
        return SLIDE if _HEADING.search(cell.source) else SUBSLIDE
    if _FOR_A_RUN.match(cell.source):
        return SKIP
    if any(SVG in output.get("data", {}) for output in cell.outputs):
        return SUBSLIDE
    if "nb.claim(" in cell.source:
        return FRAGMENT
    is_long = sum(bool(line.strip()) for line in cell.source.splitlines()) > LONG_LINES
    return NOTES if is_long and not cell.outputs else GOES_ON
