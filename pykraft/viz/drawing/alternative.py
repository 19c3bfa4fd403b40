"""What a picture says to a reader who does not see it: its alternative, in words.

A drawing's `aria-label` holds it: the finding, which is the title, and then the values, a sentence for each row of the
picture. A page that has the drawing among its elements reads the label out: GitHub's, and a page of slides.

JupyterLab turns an SVG into an image without an alternative, whatever the SVG says of itself, and has no setting for
one. Of HTML it keeps the `alt` of an image, on a notebook that it does not trust as well. So a page of JupyterLab gets
each picture as HTML too (`as_image`), and prefers that. GitHub prefers HTML in the same way, and may remove an image
whose data are in its address. So the file that is committed has the SVG and the text alone: `without_images` takes the
HTML out when a notebook is written, and `with_images` puts it back when a page is read (`QuestionsFirst`).
"""

import html
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

SVG = "image/svg+xml"
HTML = "text/html"
MOST_CHARACTERS = 1_600
"""Of the values; reading out more than that takes two minutes."""
_LABEL = re.compile(r'<svg\b[^>]* aria-label="([^"]*)"')
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_END = (".", "?", "!", "…", ":", ";")
_UNSAFE = {character: urllib.parse.quote(character) for character in "%#<>\"'\n"}
_MARK = '<img class="pykraft-picture"'


def sentences(lines: Iterable[str]) -> str:
    """Each line as a sentence. When they get too many, the last ones are counted instead."""
    said = [_sentence(line) for line in lines if line.strip()]
    length, kept = 0, 0
    for sentence in said:
        length += len(sentence) + 1
        if kept and length > MOST_CHARACTERS:
            break
        kept += 1
    more = len(said) - kept
    return " ".join([*said[:kept], *([f"{more} more row{'s' * (more > 1)}."] if more else [])])


def _sentence(line: str) -> str:
    text = " ".join(line.split())
    text = text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
    return text if text.endswith(_END) else f"{text}."


def alternative(title: str, description: str) -> str:
    """The whole of what is read out."""
    return f"{_sentence(title)} {description}".strip()


def alternative_of(svg: str) -> str:
    """What a drawing says of itself; "" if it says nothing."""
    found = _LABEL.match(svg)
    return html.unescape(found[1]) if found else ""


def as_image(svg: str) -> str:
    """The drawing as an image in HTML, with its alternative. It has its place on the page before it is drawn."""
    size = _SIZE.search(svg)
    assert size is not None, "a drawing has a view box"
    data = "".join(_UNSAFE.get(character, character) for character in svg)
    return (
        f'{_MARK} alt="{html.escape(alternative_of(svg))}" width="{float(size[1]):.0f}" height="{float(size[2]):.0f}" '
        f'style="max-width:100%;height:auto" src="data:image/svg+xml,{html.escape(data)}">'
    )


def with_images(notebook: Any) -> None:
    """Give, in place, each picture its form for JupyterLab."""
    for data in _pictures(notebook):
        if HTML not in data and alternative_of(_joined(data[SVG])):
            data[HTML] = as_image(_joined(data[SVG]))


def without_images(notebook: Any) -> None:
    """Take, in place, the form for JupyterLab from each picture."""
    for data in _pictures(notebook):
        if _joined(data.get(HTML, "")).startswith(_MARK):
            del data[HTML]


def _pictures(notebook: Any) -> Iterator[Any]:
    """The data of each output that has a drawing."""
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            if SVG in output.get("data", {}):
                yield output["data"]


def _joined(text: str | list[str]) -> str:
    """In a file a text may be a list of its lines."""
    return text if isinstance(text, str) else "".join(text)
