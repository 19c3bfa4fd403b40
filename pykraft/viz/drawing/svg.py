"""A small builder of SVG text.

It escapes what is written, rounds coordinates, and keeps the place of each text, so that a test can see whether two of
them overlap. A drawing too large for a page is refused while it grows. How wide a text gets, only the reader's browser
knows; `text_width` is an estimate on the wide side (DejaVu Sans and Mono, the widest faces that a system is likely to
choose), so what fits here fits there.

In a notebook page the drawing is often an image, which has no text colour to inherit. So where the SVG is a document of
its own it takes dark or light text by the colour scheme of the page around it, and the ground that goes with it: a
browser whose user likes it dark may choose dark on a page that is light. Inside a page it inherits, and has no ground.

GitHub and nbviewer put the drawing into their page and remove style sheets, classes and ids. So each colour is an
attribute, which they keep; the style sheet adds only what a drawing can do without.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import escape, quoteattr

from pykraft.viz.drawing.alternative import alternative
from pykraft.viz.drawing.palette import PAGES

SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

_LIGHT, _DARK = PAGES
_STYLE = (
    f"svg:root{{background:{_LIGHT[0]};color:{_LIGHT[1]}}}"
    f"@media (prefers-color-scheme:dark){{svg:root{{background:{_DARK[0]};color:{_DARK[1]}}}}}"
    f".pk{{font-family:{SANS};font-variant-numeric:tabular-nums}}"
    f".pk-m{{font-family:{MONO}}}"
)

_NARROW = {**dict.fromkeys("ijl.,:;'|!`", 0.36), **dict.fromkeys('frtI()[]{}/\\ -·"', 0.42)}
_WIDE = {**dict.fromkeys("mMWw@%—", 0.95), **dict.fromkeys("◆●▲○✕■…→", 0.85)}
_EM = {**_NARROW, **_WIDE}
_MONO_EM = 0.61
_NARROWEST = min(_EM.values())
SMALLEST = 10.8
"""Of a text, in the drawing's pixels. On a screen of 1,280 pixels, with its list of files open, JupyterLab shows a
drawing of 960 pixels on 813. Such a text has 9 there."""
MOST_BYTES = 300_000
"""Of one drawing: a notebook with a larger one is slow to open, and hard to read."""
_BREAKS = re.compile(r"[^\s\-._]*[\s\-._]+|[^\s\-._]+")
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML may hold, not even escaped: one of them, and the whole picture is not shown."""


def text_width(text: str, size: float, mono: bool = False, bold: bool = False) -> float:
    """How wide a text may get, in pixels."""
    if mono:
        return len(text) * size * _MONO_EM
    em = sum(_EM.get(char, 0.69 if char.isupper() else 0.64) for char in text)
    return em * size * (1.08 if bold else 1.0)


def shortened(text: str, width: float, size: float, bold: bool = False, mono: bool = False) -> str:
    """The text, or as much of its beginning and its end as fits, so that a partition keeps its number."""
    if text_width(text, size, mono, bold) <= width:
        return text
    # What cannot fit is not tried: a text may be a record's value of a megabyte.
    for keep in range(min(len(text) - 1, int(width / (size * _NARROWEST))), 1, -1):
        head, tail = keep - keep // 3, keep // 3
        candidate = f"{text[:head]}…{text[len(text) - tail :]}"
        if text_width(candidate, size, mono, bold) <= width:
            return candidate
    return "…"


def wrapped(text: str, width: float, size: float, bold: bool = False, mono: bool = False) -> list[str]:
    """The text in lines that fit: broken at a space, or after a hyphen, dot or underscore of a long name, or in the
    middle of a word that has none of them. Nothing is left out."""
    lines: list[str] = []
    line = ""
    for piece in _BREAKS.findall(text):
        if line and text_width((line + piece).rstrip(), size, mono, bold) > width:
            lines.append(line.rstrip())
            line = ""
        while text_width(piece.rstrip(), size, mono, bold) > width and len(piece) > 1:
            fits = max(1, int(width / text_width(piece, size, mono, bold) * len(piece)))
            while fits > 1 and text_width(piece[:fits], size, mono, bold) > width:
                fits -= 1
            lines.append(piece[:fits])
            piece = piece[fits:]
        line += piece
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


@dataclass(frozen=True)
class TextBox:
    """The place of a text."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "TextBox") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def _escaped(text: str) -> str:
    return escape(_NO_XML.sub("·", text))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _attributes(values: dict[str, object]) -> str:
    parts = []
    for name, value in values.items():
        if value is not None:
            text = _number(value) if isinstance(value, float) else str(value)
            parts.append(f" {name.replace('_', '-')}={quoteattr(text)}")
    return "".join(parts)


@dataclass
class Svg:
    """A drawing that grows from the top left corner. ValueError when it grows beyond `MOST_BYTES`."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)
    boxes: list[TextBox] = field(default_factory=list)
    size: int = 0
    """Bytes of its parts."""

    def _add(self, part: str) -> None:
        self.size += len(part)
        if self.size > MOST_BYTES:
            raise ValueError(f"the picture would have more than {MOST_BYTES:,} bytes: draw fewer values")
        self.parts.append(part)

    def insert(self, drawing: str) -> None:
        """Markup that is SVG already."""
        self._add(drawing)

    def rect(self, x: float, y: float, width: float, height: float, **attributes: object) -> None:
        """A rectangle; attributes as in SVG, with _ for -."""
        self.element("rect", x=x, y=y, width=max(0.0, width), height=height, **attributes)

    def line(self, x1: float, y1: float, x2: float, y2: float, **attributes: object) -> None:
        self.element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)

    def element(self, name: str, **attributes: object) -> None:
        floats = {key: float(value) if isinstance(value, int) else value for key, value in attributes.items()}
        self._add(f"<{name}{_attributes(floats)}/>")

    def path(self, d: str, **attributes: object) -> None:
        """A path; `d` has its numbers rounded by the caller."""
        self.element("path", d=d, **attributes)

    @contextmanager
    def group(self, **attributes: object) -> Iterator[None]:
        """What is drawn within goes into one element, such as one message with its label."""
        self._add(f"<g{_attributes(attributes)}>")
        yield
        self._add("</g>")

    def place(self, other: "Svg", y: float) -> None:
        """Put a finished drawing below what is here."""
        with self.group(transform=f"translate(0 {_number(y)})"):
            for part in other.parts:
                self._add(part)
        self.boxes += [replace(box, top=box.top + y, bottom=box.bottom + y) for box in other.boxes]

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 13,
        *,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
        opacity: float = 1.0,
        fill: str | None = None,
    ) -> TextBox:
        """A line of text on the base line `y`; returns its place. ValueError if it would be too small to be read."""
        if size < SMALLEST:
            raise ValueError(f"{text!r} would have {size:g} pixels: a text has at least {SMALLEST:g}")
        attributes: dict[str, object] = {
            "class": "pk pk-m" if mono else "pk",
            "x": float(x),
            "y": float(y),
            "font_size": float(size),
            "font_weight": "600" if bold else None,
            "text_anchor": None if anchor == "start" else anchor,
            "opacity": None if opacity == 1.0 else f"{opacity:g}",
            "fill": fill,
        }
        self._add(f"<text{_attributes(attributes)}>{_escaped(text)}</text>")
        width = text_width(text, size, mono, bold)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        box = TextBox(text, left, y - 0.76 * size, left + width, y + 0.24 * size)
        self.boxes.append(box)
        return box

    def render(self, title: str, description: str) -> str:
        """The whole drawing as one SVG document. What is read out is the title and the description."""
        label = quoteattr(alternative(_NO_XML.sub("·", title), _NO_XML.sub("·", description)), {'"': "&quot;"})
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_number(self.width)} {_number(self.height)}" '
            # It has no width of its own: a page that is narrower would cut it, where it shows it as an image.
            f'role="img" aria-label={label} fill="currentColor" style="width:100%;max-width:{_number(self.width)}px">'
        )
        about = f"<title>{_escaped(title)}</title><desc>{_escaped(description)}</desc><style>{escape(_STYLE)}</style>"
        return "\n".join([head + about, *self.parts, "</svg>"])


def overlaps(boxes: Iterable[TextBox]) -> list[tuple[str, str]]:
    """The pairs of texts that stand on each other."""
    known = list(boxes)
    return [(a.text, b.text) for i, a in enumerate(known) for b in known[i + 1 :] if a.overlaps(b)]
