"""One lane of a board: the last records of a replica as cells, with the marks between them.

::

    epoch 1        epoch 2
    ┌────────┬─┬─┬┬─┬─┬─┬─┬─┐
    │… 1,204 │█│█│█│█│█│▨│▨│
    │  more  │█│█│█│█│█│▨│▨│    lags by 3
    └────────┴─┴─┴─┴─┴─┴─┴─┘
                     ▲     ]
          high watermark   log end

All replicas of a partition share the lens, so equal offsets are at equal places. Shape says what a record is, and
colour repeats it: filled is committed, hatched is not, torn off is not in the leader's log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pykraft.broker.describe import CellKind
from pykraft.viz.boards.board_facts import Lens, Piece, Replica
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.svg import SMALLEST, Svg, text_width, wrapped

STUB = 54
HEIGHT = 26
_LINE = 16
_EPOCHS = 17
"""The row above the cells."""
_MARKS = 10
"""Below the cells."""
_SMALL = SMALLEST
_UNBREAKABLE = "\u2011"
_LETTERS = {CellKind.COMMIT_MARKER: "C", CellKind.ABORT_MARKER: "A", CellKind.CONTROL: "·"}
Look = str
"""What the legend explains: the names of its entries."""


@dataclass(frozen=True)
class Ink:
    """How the cells of a lane are filled; an opacity of the page's own colour for a dead node."""

    colour: str
    opacity: float

    @classmethod
    def of(cls, replica: Replica) -> "Ink":
        if not replica.node.is_alive:
            return cls("currentColor", 0.3)
        if replica.leads:
            return cls(palette.BLUE, 1.0)
        return cls(palette.SKY, 1.0 if replica.is_in_sync else 0.55)


class Lane:
    """A replica's lane, to be measured and then drawn."""

    def __init__(self, replica: Replica, lens: Lens, width: float, leader_end: int) -> None:
        self.replica = replica
        self.lens = lens
        self.width = width
        self._lag = max(0, leader_end - replica.view.log_end_offset) if replica.view.log_end_offset >= 0 else 0
        topic, partition = replica.view.topic_partition
        name = f"{topic}{_UNBREAKABLE}{partition}"  # a number alone on its line says nothing
        self._names = [line.replace(_UNBREAKABLE, "-") for line in wrapped(name, width, 13, bold=True)]
        role_width = text_width(replica.role, 12, bold=True)
        self._role_below = text_width(self._names[-1], 13, bold=True) + 8 + role_width > width
        self._facts = list(_rows(self._fact_texts(), width))
        self.looks: set[Look] = set()

    @property
    def height(self) -> float:
        head = _LINE * (len(self._names) + self._role_below)
        return head + _EPOCHS + HEIGHT + _MARKS + _LINE * len(self._facts) + 14

    def _fact_texts(self) -> list[str]:
        replica, lens = self.replica, self.lens
        texts = [replica.end, replica.high_watermark]
        if replica.loss:
            texts.append(replica.loss)
        if replica.leads and replica.node.is_alive and not replica.is_metadata:
            isr = ", ".join(map(str, sorted(replica.view.isr))) or "none"
            texts += wrapped(f"ISR {isr}", self.width, 11.5, mono=True)
        if replica.last_stable:
            texts.append(replica.last_stable)
        if lens.per_cell > 1 and replica.leads and not replica.is_behind:
            texts.append(f"a cell is {lens.per_cell:,} records")
        return texts

    def _x(self, offset: int) -> float:
        """Where the offset's cell begins, from the lane's left edge."""
        left = STUB if self.lens.has_stub else 0
        share = self.lens.place(offset) / self.lens.cells
        return left + (self.width - left) * min(1.0, max(0.0, share))

    # --- drawing ------------------------------------------------------------------------------------------------------

    def draw(self, svg: Svg, x: float, y: float) -> None:
        """Draw it with its upper left corner there."""
        y = self._head(svg, x, y) + _EPOCHS
        view = self.replica.view
        is_dashed = self.replica.node.is_alive and not self.replica.is_in_sync
        svg.rect(
            x, y, self.width, HEIGHT, rx=3, fill="currentColor", fill_opacity="0.06",
            stroke="currentColor" if is_dashed else None, stroke_opacity="0.6" if is_dashed else None,
            stroke_dasharray="4 3" if is_dashed else None,
        )  # fmt: skip
        if is_dashed:
            self.looks.add("not in sync")
        if view.log_end_offset >= 0:
            self._stub(svg, x, y)
            for low, high in self.lens.ranges:
                for piece in self.replica.pieces(low, high):
                    self._piece(svg, x, y, piece, low)
            self._gap(svg, x, y)
            self._marks(svg, x, y)
            self._epoch_row(svg, x, y)
            self._after_the_end(svg, x, y)
        y += HEIGHT + _MARKS
        for row in self._facts:
            y += _LINE
            for position, fact in enumerate(row):
                is_bold = fact == self.replica.loss
                svg.text(
                    x if position == 0 else x + self.width, y - 3, fact, 11.5, mono=True, bold=is_bold,
                    anchor="start" if position == 0 else "end", opacity=1.0 if is_bold else palette.FAINT,
                )  # fmt: skip

    def _head(self, svg: Svg, x: float, y: float) -> float:
        """The partition's name, as many lines as it takes, and the replica's role; returns where they end."""
        is_alive = self.replica.node.is_alive
        opacity = 1.0 if is_alive else palette.FAINT
        for line in self._names:
            y += _LINE
            svg.text(x, y - 4, line, 13, bold=True, opacity=opacity)
        y += _LINE * self._role_below
        is_bold = self.replica.leads and is_alive
        svg.text(x + self.width, y - 4, self.replica.role, 12, anchor="end", bold=is_bold, opacity=opacity)
        return y

    def _stub(self, svg: Svg, x: float, y: float) -> None:
        """The records before the lens, as one stub."""
        view = self.replica.view
        before = min(view.log_end_offset, self.lens.start) - view.log_start_offset
        if before <= 0 or not self.lens.has_stub:
            return
        ink = Ink.of(self.replica)
        svg.rect(x, y, STUB - 2, HEIGHT, rx=3, fill=ink.colour, fill_opacity=f"{0.3 * ink.opacity:g}")
        svg.text(x + STUB / 2 - 1, y + 11, f"… {_compact(before)}", _SMALL, anchor="middle")
        svg.text(x + STUB / 2 - 1, y + 22, "more", _SMALL, anchor="middle")

    def _gap(self, svg: Svg, x: float, y: float) -> None:
        """What the lens leaves out in the middle."""
        lens, end = self.lens, self.replica.view.log_end_offset
        left_out = min(end, lens.gap_end) - lens.gap_start
        if not lens.has_gap or left_out <= 0:
            return
        ink = Ink.of(self.replica)
        left, right = x + self._x(lens.gap_start), x + self._x(min(end, lens.gap_end))
        svg.rect(left + 1, y, right - left - 2, HEIGHT, fill=ink.colour, fill_opacity=f"{0.3 * ink.opacity:g}")
        if text_width(f"… {_compact(left_out)}", _SMALL) < right - left:
            svg.text((left + right) / 2, y + 11, f"… {_compact(left_out)}", _SMALL, anchor="middle")
            svg.text((left + right) / 2, y + 22, "more", _SMALL, anchor="middle")

    def _cells(self, piece: Piece, first: int) -> Iterator[tuple[float, float]]:
        """Left edge and width of each cell of a piece, counted from `first`; the last one may be a part of a cell."""
        size, low = self.lens.per_cell, piece.start
        while low < piece.end:
            high = min(piece.end, first + ((low - first) // size + 1) * size)
            left, right = self._x(low), self._x(high)
            yield left + 0.5, max(0.8, right - left - 1)
            low = high

    def _piece(self, svg: Svg, x: float, y: float, piece: Piece, first_offset: int) -> None:
        ink = Ink.of(self.replica)
        cells = [(x + left, width) for left, width in self._cells(piece, first_offset)]
        boxes = "".join(f"M{left:.1f} {y:g}h{width:.1f}v{HEIGHT}h{-width:.1f}z" for left, width in cells)
        first, last = cells[0][0], sum(cells[-1])
        if piece.kind in _LETTERS and not piece.is_torn:
            svg.path(boxes, fill=palette.WHITE, stroke="currentColor", stroke_opacity="0.6")
        elif piece.is_torn:
            self.looks.add("torn")
            svg.path(boxes, fill="none", stroke=palette.VERMILLION, stroke_width="1.3", stroke_dasharray="3 2")
            lines = _hatching(first, y, last - first, 6, rising=False)
            svg.path(lines, fill="none", stroke=palette.VERMILLION, stroke_width="1.2")
        elif piece.is_committed:
            self.looks.add("committed")
            svg.path(boxes, fill=ink.colour, fill_opacity=None if ink.opacity == 1 else f"{ink.opacity:g}")
        else:
            self.looks.add("uncommitted")
            faint = f"{0.85 if ink.colour == 'currentColor' else 1:g}"
            svg.path(boxes, fill=ink.colour, fill_opacity="0.12", stroke=ink.colour, stroke_opacity=faint)
            lines = _hatching(first, y, last - first, 5, rising=True)
            svg.path(lines, fill="none", stroke=ink.colour, stroke_width="1.4", stroke_opacity=faint)
        self._signs(svg, y, piece, cells)
        if piece.is_torn and piece.start == self.replica.torn_from:
            svg.path(_tear(first + 2.5, y), fill="none", stroke=palette.VERMILLION, stroke_width="2.2")

    def _signs(self, svg: Svg, y: float, piece: Piece, cells: list[tuple[float, float]]) -> None:
        """What the transactions say of the records."""
        if piece.kind in _LETTERS:
            self.looks.add("marker")
            for left, width in cells:
                if width >= 7:
                    ink = None if piece.is_torn else palette.DARK_INK
                    svg.text(left + width / 2, y + 17, _LETTERS[piece.kind], 11, anchor="middle", bold=True, fill=ink)
        if piece.kind not in (CellKind.ABORTED, CellKind.OPEN):
            return
        self.looks.add(piece.kind)
        marks = []
        for left, width in cells:
            reach = min(width / 2 - 1, 4.0)
            middle, level = left + width / 2, y + HEIGHT / 2
            if reach >= 1 and piece.kind is CellKind.ABORTED:
                marks.append(
                    f"M{middle - reach:.1f} {level - 2 * reach:.1f}l{2 * reach:.1f} {4 * reach:.1f}m0 {-4 * reach:.1f}"
                    f"l{-2 * reach:.1f} {4 * reach:.1f}"
                )
            elif reach >= 1:
                turn = f"a{reach:.1f} {reach:.1f} 0 1 0"
                marks.append(f"M{middle - reach:.1f} {level:.1f}{turn} {2 * reach:.1f} 0{turn} {-2 * reach:.1f} 0")
        is_filled = piece.is_committed and not piece.is_torn and self.replica.node.is_alive
        colour = palette.ink_on(Ink.of(self.replica).colour) if is_filled else "currentColor"
        svg.path("".join(marks), fill="none", stroke=colour, stroke_width="1.6")

    def _marks(self, svg: Svg, x: float, y: float) -> None:
        view, lens = self.replica.view, self.lens
        if view.log_end_offset >= lens.start:
            end = x + self._x(view.log_end_offset)
            svg.path(f"M{end - 3:.1f} {y - 3:g}h3.5v{HEIGHT + 6}h-3.5", fill="none", stroke="currentColor",
                     stroke_width="1.5", stroke_opacity="0.8")  # fmt: skip
            self.looks.add("log end")
        if self.replica.last_stable and view.last_stable_offset >= lens.start:
            stable = x + self._x(view.last_stable_offset)
            svg.line(stable, y - 4, stable, y + HEIGHT + 2, stroke=palette.PURPLE, stroke_width="2.5",
                     stroke_dasharray="4 2")  # fmt: skip
            svg.path(f"M{stable:.1f} {y + HEIGHT + 1:g}l4 4l-4 4l-4 -4z", fill=palette.PURPLE, stroke="currentColor",
                     stroke_opacity="0.5", stroke_width="0.6")  # fmt: skip
            self.looks.add("last stable")
        if view.high_watermark >= lens.start:
            watermark = x + self._x(view.high_watermark)
            svg.rect(
                watermark - 1.5, y - 4, 3, HEIGHT + 8, rx=1, fill=palette.ORANGE, stroke="currentColor",
                stroke_opacity="0.4", stroke_width="0.5",
            )  # fmt: skip
            svg.path(f"M{watermark:.1f} {y + HEIGHT + 1:g}l4.5 7h-9z", fill=palette.ORANGE, stroke="currentColor",
                     stroke_opacity="0.5", stroke_width="0.6")  # fmt: skip
            self.looks.add("high watermark")

    def _epoch_row(self, svg: Svg, x: float, y: float) -> None:
        """The number of each leader epoch, at its first record; of those too close together the newest is named."""
        view, lens = self.replica.view, self.lens
        shown = [entry for entry in self.replica.epochs if entry.start_offset < lens.end]
        before = [entry for entry in shown if entry.start_offset <= lens.start]
        limit = x + self.width
        first = max(lens.start, view.log_start_offset)
        if view.log_end_offset <= first:
            return
        for entry in reversed([*before[-1:], *(entry for entry in shown if entry.start_offset > lens.start)]):
            place = x + self._x(max(entry.start_offset, first))
            if entry.start_offset >= first:
                svg.line(place, y - 14, place, y - 1, stroke="currentColor", stroke_opacity="0.6")
                place += 3
            for label in (f"epoch {entry.epoch}", f"{entry.epoch}"):
                if place + text_width(label, _SMALL) <= limit:
                    svg.text(place, y - 6, label, _SMALL, opacity=0.85)
                    limit = place - 6
                    break
        self.looks.add("epoch")

    def _after_the_end(self, svg: Svg, x: float, y: float) -> None:
        """How many records of the leader it lacks, where there is room to say so."""
        view = self.replica.view
        if not self._lag or self.replica.leads:
            return
        label = f"{self._lag:,} behind"
        left = x + self._x(max(view.log_end_offset, self.lens.start)) + 9
        if left + text_width(label, _SMALL) <= x + self.width:
            svg.text(left, y + 17, label, _SMALL, opacity=0.85)


def _rows(texts: Iterable[str], width: float) -> Iterator[list[str]]:
    """The texts in rows of one or two."""
    row: list[str] = []
    for text in texts:
        if row and (len(row) == 2 or sum(text_width(each, 11.5, mono=True) for each in [*row, text]) + 12 > width):
            yield row
            row = []
        row.append(text)
    if row:
        yield row


def _hatching(x: float, y: float, width: float, gap: float, *, rising: bool) -> str:
    """Slanted lines in a box of the cells' height."""
    lines = []
    start = gap / 2 - HEIGHT
    while start < width:
        left, right = max(0.0, start), min(width, start + HEIGHT)
        low, high = left - start, right - start
        if rising:
            low, high = HEIGHT - low, HEIGHT - high
        lines.append(f"M{x + left:.1f} {y + low:.1f}L{x + right:.1f} {y + high:.1f}")
        start += gap
    return "".join(lines)


def _tear(x: float, y: float) -> str:
    """A torn edge from above the cells to below them, clear of a mark before them."""
    steps = "".join(f"l{3 if turn % 2 == 0 else -3} 5" for turn in range(7))
    return f"M{x - 1:.1f} {y - 5:g}{steps}"


def _compact(count: int) -> str:
    """A number for a narrow place: the text beside the picture has all of it."""
    if count < 10_000:
        return f"{count:,}"
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (1000, "k")):
        if count >= size:
            return f"{count / size:.0f}{unit}" if count >= 10 * size else f"{count / size:.1f}{unit}"
    return str(count)
