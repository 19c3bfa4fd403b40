"""Logs on the left, the tasks that read them on the right: which offsets a task reads, when, and for how long.

`read_by_tasks` draws each partition's log as a strip, cut where one task's offsets end and the next one's begin, and
each core as a lane in which the tasks stand as they ran. A task has the same number on both sides, and the colour of
its partition. All strips have one scale, and so have all lanes: equal widths are equal numbers of records, or equal
times. Without tasks the strips take the whole width. Where some of a strip has a reader, what has none is hollow.

`wanted` are the records that a query is about, drawn as a line below the strip: dark where a task reads them, and with
a red ✕ where none does.
"""

from collections.abc import Iterator, Mapping, Sequence

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, layout, need
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened, text_width

Piece = tuple[int, int, int | None]
Pieces = Mapping[str, Sequence[Piece]]
"""By partition, in order of offsets: the first offset, the end, and the number of the task that reads it, if any."""
Ran = Sequence[tuple[int, float, float]]
"""The number of a task, the second in which it began, and the seconds that it took."""

_COLOURS = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.PURPLE, palette.SKY, palette.VERMILLION)
_TOP, _ROW, _STRIP = 84.0, 34.0, 24.0
_HALF, _RIGHT = 470.0, 540.0
"""Where the strips end, and where the lanes begin, if there are tasks."""


def read_by_tasks(
    pieces: Pieces,
    tasks: Ran = (),
    *,
    title: str,
    note: str = "",
    reader: str = "task",
    wanted: Mapping[str, Sequence[int]] | None = None,
) -> Figure:
    """The strips, and the lanes of the tasks. `reader` is what a number means; `wanted` are offsets by partition.
    ValueError without a partition."""
    need([end for some in pieces.values() for _, end, _ in some] or [0.0] * len(pieces), "read_by_tasks")
    left = min(200.0, max(text_width(name, 13) for name in pieces)) + 12
    right = _HALF if tasks else WIDTH - 90.0
    longest = max((end for some in pieces.values() for _, end, _ in some), default=0) or 1
    svg = headed(title, note, _TOP + _ROW * max(2, len(pieces)) + 34)
    is_numbered = any(number is not None for some in pieces.values() for *_, number in some)
    heading = "offsets" + (f", and the {reader} that reads them" if is_numbered else "")
    svg.text(left, _TOP - 12, heading, 12.5, opacity=palette.FAINT)
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(pieces)}
    for row, (name, some) in enumerate(pieces.items()):
        y = _TOP + _ROW * row
        svg.text(left - 10, y + 17, shortened(name, left - 11, 13), 13, anchor="end")
        scale = (right - left - 60) / longest
        for first, end, task in some:
            colour = "none" if is_numbered and task is None else colours[name]
            _draw_piece(svg, left, y, (first, end), scale, colour, task)
        if wanted is not None:
            _draw_wanted(svg, left, y + _STRIP, scale, some, wanted.get(name, ()))
        last = some[-1][1] if some else 0
        text = amount(last) if last else "empty"
        svg.text(left + last * (right - left - 60) / longest + 7, y + 17, text, 12.5, opacity=palette.FAINT)
    partition_of = {task: name for name, some in pieces.items() for *_, task in some if task is not None}
    if tasks:
        _draw_lanes(svg, tasks, {task: colours[name] for task, name in partition_of.items()}, len(pieces))
    if wanted is not None:
        key = "hollow: not read · line below: the rows that you want · ✕: one of them that no task reads"
        svg.text(left, _TOP + _ROW * max(2, len(pieces)) + 18, key, 12.5, opacity=palette.FAINT)
    return finished(svg, title, note, list(_in_words(pieces, tasks, reader)), _spec(tasks, partition_of, title))


def _draw_piece(
    svg: Svg, left: float, y: float, offsets: tuple[int, int], scale: float, colour: str, task: int | None
) -> None:
    x, width = left + offsets[0] * scale, (offsets[1] - offsets[0]) * scale
    svg.rect(x, y, max(1.0, width), _STRIP, fill=colour, stroke="currentColor", stroke_opacity="0.6")
    _number(svg, x, y, width, task, colour)


def _draw_wanted(svg: Svg, left: float, y: float, scale: float, some: Sequence[Piece], wanted: Sequence[int]) -> None:
    """One stroke for each run of offsets that are read, and a cross for each one that is not."""
    read = [(first, end) for first, end, task in some if task is not None]
    runs: list[list[int]] = []
    for offset in wanted:
        if not any(first <= offset < end for first, end in read):
            x = left + (offset + 0.5) * scale
            svg.path(f"M{x - 3:.1f} {y + 1:.1f}l6 6m0 -6l-6 6", stroke=palette.VERMILLION, stroke_width="2")
        elif runs and runs[-1][1] == offset:
            runs[-1][1] = offset + 1
        else:
            runs.append([offset, offset + 1])
    for first, end in runs:
        svg.rect(left + first * scale, y + 2, max(0.8, (end - first) * scale), 4, fill="currentColor")


def _number(svg: Svg, x: float, y: float, width: float, task: int | None, colour: str) -> None:
    """The number of a task in its rectangle, where there is room."""
    label = "" if task is None else f"{task}"
    if label and text_width(label, 12.5, bold=True) <= width - 4:
        svg.text(x + width / 2, y + 17, label, 12.5, anchor="middle", bold=True, fill=palette.ink_on(colour))


def lanes(tasks: Ran) -> list[list[tuple[int, float, float]]]:
    """The tasks by lane: each begins in the first lane that is free by then. A task may be noted as begun a moment
    before the one whose core it takes is noted as ended."""
    found: list[list[tuple[int, float, float]]] = []
    for task in sorted(tasks, key=lambda each: (each[1], each[0])):
        number, start, seconds = task
        slack = 0.02 + 0.05 * seconds
        free = [lane for lane in found if lane[-1][1] + lane[-1][2] <= start + slack]
        if free:
            min(free, key=lambda lane: lane[-1][1] + lane[-1][2]).append(task)
        else:
            found.append([(number, start, seconds)])
    return found


def _draw_lanes(svg: Svg, tasks: Ran, colours: Mapping[int, str], rows: int) -> None:
    end_s = max(start + seconds for _, start, seconds in tasks)
    scale = (WIDTH - _RIGHT - 12) / (end_s or 1.0)
    found = lanes(tasks)
    height = min(64.0, _ROW * max(2, rows) / len(found))
    svg.text(_RIGHT, _TOP - 12, "tasks, a lane for each core", 12.5, opacity=palette.FAINT)
    for lane, some in enumerate(found):
        y = _TOP + height * lane
        for number, start, seconds in some:
            x, width = _RIGHT + start * scale, seconds * scale
            colour = colours.get(number, palette.YELLOW)
            box = min(_STRIP, height - 4)
            svg.rect(x, y, max(1.0, width - 1), box, fill=colour, stroke="currentColor", stroke_opacity="0.6")
            if box >= _STRIP:
                _number(svg, x, y, width, number, colour)
    bottom = _TOP + height * len(found) + 2
    svg.line(_RIGHT, bottom, WIDTH - 12, bottom, stroke="currentColor", stroke_opacity="0.6")
    svg.text(_RIGHT, bottom + 18, "0 s", 12, opacity=palette.FAINT)
    svg.text(WIDTH - 12, bottom + 18, amount(end_s, "s"), 12, anchor="end", opacity=palette.FAINT)


def _in_words(pieces: Pieces, tasks: Ran, reader: str) -> Iterator[str]:
    for name, some in pieces.items():
        parts = [f"{first:,} to {end - 1:,}" + ("" if n is None else f" by {reader} {n}") for first, end, n in some]
        yield f"{name}: {', '.join(parts) if parts else 'empty'}"
    for number, start, seconds in sorted(tasks):
        yield f"task {number}: from {start:.2f} s, for {seconds:.2f} s"


def _spec(tasks: Ran, partition_of: Mapping[int, str], title: str) -> Spec:
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [f"task {number}, {partition_of.get(number, '')}" for number, _, _ in tasks],
            "x": [seconds for _, _, seconds in tasks],
            "base": [start for _, start, _ in tasks],
        }
    ]
    return {"data": data, "layout": layout(title, xaxis={"title": {"text": "seconds"}})}
