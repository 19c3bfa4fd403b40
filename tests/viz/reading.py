"""What a reader of an SVG sees: its shapes and texts, with their colours, as the XML says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.alternative import MOST_CHARACTERS, alternative
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import overlaps

_NAMESPACE = "{http://www.w3.org/2000/svg}"


def drawing(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(figure.svg)


def elements(figure: Figure, name: str) -> list[ElementTree.Element]:
    return drawing(figure).findall(f".//{_NAMESPACE}{name}")


def texts(figure: Figure) -> list[str]:
    return [element.text or "" for element in elements(figure, "text")]


def colours(figure: Figure) -> set[str]:
    """Every colour that is named anywhere in the drawing, without the page's own."""
    drawn = re.sub(r"<style>.*?</style>", "", figure.svg, flags=re.DOTALL)
    return set(re.findall(r"#[0-9A-Fa-f]{6}", drawn))


def complaints(figure: Figure) -> Iterator[str]:
    """What is wrong with any figure, whatever it shows."""
    root = drawing(figure)
    for name in ("title", "desc"):
        if not (root.findtext(f"{_NAMESPACE}{name}") or "").strip():
            yield f"it has no {name}"
    if root.get("role") != "img":
        yield "it does not say that it is an image"
    said = root.get("aria-label", "")
    title, description = (root.findtext(f"{_NAMESPACE}{name}") or "" for name in ("title", "desc"))
    if said != alternative(title, description) or len(said) > 2 * MOST_CHARACTERS + 100:
        yield "what is read out is not its title and its description, or takes minutes"
    if "beside the picture" in said:
        yield "what is read out refers to a text that is not shown"
    if re.search(r"\b(?:nan|inf)\b", figure.svg):
        yield "a coordinate is no number"
    for pair in overlaps(figure.boxes):
        yield f"{pair[0]!r} stands on {pair[1]!r}"
    width, height = map(float, root.get("viewBox", "0 0 0 0").split()[2:])
    if {"width", "height"} & set(root.keys()) or f"width:100%;max-width:{width:g}px" not in root.get("style", ""):
        yield "a page narrower than the drawing would cut it"
    for box in figure.boxes:
        if box.left < -0.5 or box.right > width + 0.5 or box.top < 0 or box.bottom > height:
            yield f"{box.text!r} stands outside of the drawing"
    for element in elements(figure, "text"):
        if float(element.get("opacity", "1")) < palette.FAINT:
            yield f"{element.text!r} is too faint"
    if not figure.text.strip() or figure.title not in figure.text:
        yield "its text does not say what it shows"
