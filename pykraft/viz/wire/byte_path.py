"""Which way the bytes of a file take to a socket: who copies them, by which system call, and how often.

`byte_paths` draws a panel for each program, two in a row. A panel has three floors::

    program     its memory: filled if the bytes came here, dashed if they did not, or hardly any
    kernel      the page cache on the left, the socket on the right
    hardware    the disk below the page cache, the network card below the socket

A solid red arrow is a copy that the processor makes, a dashed green arrow hands over references to pages. Beside each
stand the call, how often it was made and the bytes that it moved: all of it counted while the program ran. An arrow is
as thick as its share of the bytes. A program that writes what it never read has mapped the file: a dashed line joins
its memory and the page cache. The arrows of the hardware are thin: there the devices do the copying. What has no
bytes is not drawn.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import amount, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened

_PANEL, _GAP = 460.0, 39.0
_TOP, _HEIGHT = 62.0, 284.0
_LEFT, _RIGHT, _BOX = 63.0, 397.0, 124.0
"""The middle of the page cache and of the socket, in a panel, and how wide a box is."""
_PROGRAM, _KERNEL, _HARDWARE = 30.0, 132.0, 216.0
"""Where the three floors begin, below the panel's name."""
_TALL, _LOW = 38.0, 28.0
_LABEL = 12.0
_MANY = 0.01
"""A program's memory is filled if this share of the bytes came there, or more."""


class Move(NamedTuple):
    """One stretch of the way: which call moved the bytes, in how many calls, and how many bytes."""

    call: str
    calls: int
    moved_bytes: int


class BytePath(NamedTuple):
    """How one program sent bytes of a file."""

    name: str
    copied_in: Move | None
    """From the page cache into the program's memory."""
    copied_out: Move | None
    """From the program's memory into the socket."""
    lent: Move | None
    """From the page cache to the socket, as references to pages."""
    from_disk_bytes: int = 0
    """What the kernel had to fetch from the disk meanwhile."""
    does: str = ""
    """What the program does to the bytes that it holds."""
    cost: str = ""
    reader: str = ""
    """What the program at the other end did, or what it cost."""


def byte_paths(paths: Sequence[BytePath], *, title: str, note: str = "") -> Figure:
    """Draw the way of the bytes in each program. ValueError if there is no program, or one that moved nothing."""
    if not paths or not all(path.copied_out or path.lent for path in paths):
        raise ValueError("byte_paths needs at least one program, and each must have sent something")
    rows = -(-len(paths) // 2)
    svg = headed(title, note, _TOP + _HEIGHT * rows + 14)
    for number, path in enumerate(paths):
        _Panel(svg, (_PANEL + _GAP) * (number % 2), _TOP + _HEIGHT * (number // 2), path).draw()
    return finished(svg, title, note, [_in_words(path) for path in paths], {"data": [], "layout": {}})


class _Panel:
    """One program's floors and arrows."""

    def __init__(self, svg: Svg, x: float, y: float, path: BytePath) -> None:
        self._svg, self._x, self._y, self._path = svg, x, y, path
        moves = (path.copied_in, path.copied_out, path.lent)
        self._most = max(move.moved_bytes for move in moves if move is not None)

    def draw(self) -> None:
        path, svg = self._path, self._svg
        cost = svg.text(self._x + _PANEL, self._y + 16, path.cost, 13, anchor="end") if path.cost else None
        room = (cost.left if cost else self._x + _PANEL) - self._x - 12
        svg.text(self._x, self._y + 16, shortened(path.name, room, 14, bold=True), 14, bold=True)
        self._draw_floors()
        self._draw_program()
        for middle, name, device in ((_LEFT, "page cache", "disk"), (_RIGHT, "socket", "network")):
            self._box(middle, _KERNEL, name, palette.SKY)
            self._box(middle, _HARDWARE, device, None, height=_LOW)
        self._draw_moves()

    def _draw_floors(self) -> None:
        for y, name in ((_PROGRAM + 71, "kernel"), (_HARDWARE - 16, "hardware")):
            line = self._y + y
            self._svg.line(
                self._x, line, self._x + _PANEL, line, stroke="currentColor", stroke_opacity="0.45",
                stroke_dasharray="2 4",
            )  # fmt: skip
            self._svg.text(self._x + _PANEL / 2, line + 15, name, _LABEL, anchor="middle", opacity=palette.FAINT)

    def _draw_program(self) -> None:
        path = self._path
        came = max((move.moved_bytes for move in (path.copied_in, path.copied_out) if move), default=0)
        holds = came >= _MANY * self._most
        text = "program's memory" + (f": {path.does}" if path.does else "")
        if not holds:
            text = f"program: {_megabytes(came)} come here" if came else "program: no byte comes here"
        x, y = self._x, self._y + _PROGRAM
        self._svg.rect(
            x, y, _PANEL, _TALL - 8, rx=4, fill=palette.ORANGE if holds else "none", stroke="currentColor",
            stroke_width="1", stroke_dasharray=None if holds else "5 4",
        )  # fmt: skip
        ink = palette.ink_on(palette.ORANGE) if holds else None
        self._svg.text(x + _PANEL / 2, y + 20, shortened(text, _PANEL - 16, 13), 13, anchor="middle", fill=ink)

    def _box(self, middle: float, top: float, name: str, filling: str | None, height: float = _TALL) -> None:
        x, y = self._x + middle - _BOX / 2, self._y + top
        self._svg.rect(
            x, y, _BOX, height, rx=4, fill=filling or "none", stroke="currentColor", stroke_width="1",
        )  # fmt: skip
        ink = None if filling is None else palette.ink_on(filling)
        self._svg.text(self._x + middle, y + height / 2 + 5, name, 13, anchor="middle", fill=ink)

    def _draw_moves(self) -> None:
        path, floor = self._path, self._y + _KERNEL
        ceiling = self._y + _PROGRAM + _TALL - 8
        if path.copied_in:
            x = self._x + _LEFT
            self._arrow((x, floor), (x, ceiling), path.copied_in, palette.VERMILLION)
            self._label(x + 14, ceiling + 17, f"copy: {path.copied_in.call}", path.copied_in, "start")
        elif path.copied_out:
            x = self._x + _LEFT
            self._svg.line(x, floor, x, ceiling, stroke=palette.GREEN, stroke_width="3", stroke_dasharray="9 5")
            self._svg.text(x + 14, ceiling + 17, "mapped: the same pages", _LABEL)
        if path.copied_out:
            x = self._x + _RIGHT
            self._arrow((x, ceiling), (x, floor), path.copied_out, palette.VERMILLION)
            self._label(x - 14, ceiling + 17, f"copy: {path.copied_out.call}", path.copied_out, "end")
        if path.lent:
            y, start, end = floor + _TALL - 12, self._x + _LEFT + _BOX / 2, self._x + _RIGHT - _BOX / 2
            self._arrow((start, y), (end, y), path.lent, palette.GREEN, dash="9 5")
            middle = (start + end) / 2
            self._svg.text(middle, y - 9, f"references: {path.lent.call}", _LABEL, anchor="middle")
            self._svg.text(middle, y + 20, _counted(path.lent), _LABEL, anchor="middle", bold=True)
        self._draw_hardware()

    def _draw_hardware(self) -> None:
        floor, ground = self._y + _KERNEL + _TALL, self._y + _HARDWARE
        fetched = self._path.from_disk_bytes
        if fetched:
            self._thin((self._x + _LEFT, ground), (self._x + _LEFT, floor))
        said = f"{_megabytes(fetched)} fetched" if fetched else "not asked"
        self._svg.text(self._x + _LEFT + _BOX / 2 + 8, ground + 19, said, _LABEL, opacity=palette.FAINT)
        self._thin((self._x + _RIGHT, floor), (self._x + _RIGHT, ground))
        end = self._x + _PANEL
        self._svg.text(end, ground + _LOW + 18, shortened(self._path.reader, _PANEL, 13), 13, anchor="end")

    def _label(self, x: float, y: float, text: str, move: Move, anchor: str) -> None:
        self._svg.text(x, y, shortened(text, 150, _LABEL), _LABEL, anchor=anchor)
        self._svg.text(x, y + 15, shortened(_counted(move), 150, _LABEL, bold=True), _LABEL, anchor=anchor, bold=True)

    def _arrow(
        self, start: tuple[float, float], end: tuple[float, float], move: Move, colour: str, dash: str | None = None
    ) -> None:
        width = max(1.6, 7 * move.moved_bytes / self._most)
        _draw_arrow(self._svg, start, end, colour, width, dash)

    def _thin(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        _draw_arrow(self._svg, start, end, "currentColor", 1.2, None)


def _draw_arrow(
    svg: Svg, start: tuple[float, float], end: tuple[float, float], colour: str, width: float, dash: str | None
) -> None:
    """A straight arrow, up, down or to the right, whose head ends where it is to end."""
    head = 6 + width
    across = (end[0] > start[0]) - (end[0] < start[0])
    down = (end[1] > start[1]) - (end[1] < start[1])
    neck = (end[0] - across * head, end[1] - down * head)
    svg.line(*start, *neck, stroke=colour, stroke_width=f"{width:.1f}", stroke_dasharray=dash)
    half = head * 0.62
    corners = [end, (neck[0] + down * half, neck[1] + across * half), (neck[0] - down * half, neck[1] - across * half)]
    svg.element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners), fill=colour)


def _counted(move: Move) -> str:
    return f"{_megabytes(move.moved_bytes)}, {move.calls:,} calls"


def _megabytes(count: int) -> str:
    return f"{amount(count / 1e6)} MB" if count >= 100_000 else f"{amount(count / 1e3)} KB"


def _in_words(path: BytePath) -> str:
    parts = [f"{_megabytes(path.from_disk_bytes)} fetched from the disk"] if path.from_disk_bytes else []
    if path.copied_out and not path.copied_in:
        parts.append("the page cache is mapped into the program's memory")
    if path.copied_in:
        parts.append(f"{path.copied_in.call} copies {_counted(path.copied_in)}, into the program's memory")
    if path.does:
        parts.append(f"the program {path.does}")
    if path.copied_out:
        parts.append(f"{path.copied_out.call} copies {_counted(path.copied_out)}, into the socket")
    if path.lent:
        parts.append(f"{path.lent.call} hands the socket references to {_counted(path.lent)}")
    parts += [part for part in (path.cost, path.reader) if part]
    return f"{path.name}: {'; '.join(parts)}"
