"""A frame of the protocol as a picture: each field beside its bytes, coloured by meaning; and which version has what.

`explore` takes a frame (of `Cluster.record_frames`, or of a story's messages) and draws its field tree. A line is a
field; its bytes are at the right. A string's length and its letters are on one line, in two colours. Of a long array
the first elements show, of a long field its first bytes; the line says how many are left out.

It also takes the name of an API or a class of messages. Then it draws the declaration: fields down, versions across.
With a version it lists the fields that this version has, and how each is written.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pykraft.protocol.api import apis
from pykraft.protocol.as_json import camel_case
from pykraft.protocol.field_tree import BODY, HEADER, FieldNode, FrameTree, said
from pykraft.protocol.schema import Message, Struct
from pykraft.protocol.source import type_name
from pykraft.protocol.wire import Field, Fixed, Variable
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.alternative import sentences
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened
from pykraft.viz.wire.hex_dump import KINDS

WIDTH = 960.0
MOST_ROWS = 80
_ROW, _TOP, _BOX = 23.0, 66.0, 20.0
_NAME_LEFT, _INDENT = 48.0, 16.0
_BYTES_LEFT, _CELL, _BYTES_IN_A_ROW = 516.0, 26.0, 16
_GRID_LEFT, _COLUMN = 420.0, 27.0


@runtime_checkable
class HasFields(Protocol):
    """A frame, wherever it was seen."""

    data: Any

    def fields(self) -> FrameTree: ...


class _Run(NamedTuple):
    """Some bytes of a row that mean one thing."""

    start: int
    end: int
    kind: str


class _Row(NamedTuple):
    depth: int
    name: str
    value: str
    runs: tuple[_Run, ...]


def explore(
    what: HasFields | type[Message] | str,
    version: int | None = None,
    *,
    title: str = "",
    note: str = "",
    most_elements: int = 2,
) -> Figure:
    """Draw a frame, or the declaration of an API or a message: in all its versions, or in one. ValueError says what is
    wrong with it."""
    if isinstance(what, str):
        what = _message(what)
    if isinstance(what, type) and issubclass(what, Message):
        return _versions(what, title, note) if version is None else _declaration(what, version, title, note)
    if not isinstance(what, HasFields):
        raise ValueError(f"explore takes a frame, the name of an API or a class of messages, not {what!r:.60}")
    return _frame(what, title, note, most_elements)


def _message(name: str) -> type[Message]:
    known: dict[str, type[Message]] = {}
    for row in apis.values():
        known |= {row.name: row.request, f"{row.name}Request": row.request, f"{row.name}Response": row.request.response}
    if name not in known:
        nearest = get_close_matches(name, known, 1, cutoff=0.4)
        raise ValueError(f"there is no API {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""))
    return known[name]


# --- a frame ----------------------------------------------------------------------------------------------------------


def _frame(frame: HasFields, title: str, note: str, most_elements: int) -> Figure:
    tree, data = frame.fields(), bytes(frame.data)
    found = list(_rows(tree.root.children, 0, most_elements))
    rows = found[:MOST_ROWS]
    if len(found) > len(rows):
        rows.append(_Row(0, f"… {len(found) - len(rows)} more lines", "", ()))
    if tree.problem:
        rows.append(_Row(0, "cannot be read", tree.problem, ()))
    title = title or f"{tree.name}, version {tree.version}: {len(data):,} bytes"
    top = _TOP + (18 if note else 0)
    svg = _headed(title, note, top + _ROW * len(rows) + 6)
    kinds = dict.fromkeys(run.kind for row in rows for run in row.runs)
    _draw_key(svg, [kind for kind in KINDS if kind in kinds], top)
    for number, row in enumerate(rows):
        _draw_row(svg, top + _ROW * number, row, data)
    lines = [_line(row, data) for row in rows]
    return _figure(svg, title, note, lines, [_said(row) for row in rows])


def _figure(svg: Svg, title: str, note: str, lines: Sequence[str], heard: Sequence[str]) -> Figure:
    """`lines` are for the eye, `heard` for the ear."""
    text = "\n".join(filter(None, [title, note, *lines]))
    return Figure(title, svg.render(title, sentences([note, *heard])), text, tuple(svg.boxes))


def _rows(nodes: Sequence[FieldNode], depth: int, most_elements: int) -> Iterator[_Row]:
    """Lines: a field with its own bytes, and those of its length; below it what is in it."""
    for node in nodes:
        own, inner = _parts(node)
        name = node.name
        if name == "taggedFields" and not node.children:
            name = "tagged fields"
        if name == "taggedField":
            name, value = f"tag {node.value}", f"{node.children[1].value} bytes"
        else:
            value = _value(node, inner)
        yield _Row(depth, name, value, tuple(_Run(leaf.start, leaf.end, leaf.kind) for leaf in own))
        if inner and inner[0].name == "[0]" and len(inner) > most_elements:
            yield from _rows(inner[:most_elements], depth + 1, most_elements)
            left_out = inner[most_elements:]
            place = f"bytes {left_out[0].start} to {left_out[-1].end - 1}"
            yield _Row(depth + 1, f"… {len(left_out)} more", place, ())
        else:
            yield from _rows(inner, depth + 1, most_elements)


def _parts(node: FieldNode) -> tuple[list[FieldNode], list[FieldNode]]:
    """The leaves that are on a field's own line, and the nodes that have lines of their own below it."""
    if not node.children:
        return ([node] if node.end > node.start else []), []
    own = [child for child in node.children if not child.children and child.name in ("length", "content", "present")]
    if node.type == "tagged":
        own = node.children[:2]
    return own, [child for child in node.children if child not in own]


def _value(node: FieldNode, inner: Sequence[FieldNode]) -> str:
    if isinstance(node.value, list):
        return f"{len(node.value)} element{'s' * (len(node.value) != 1)}"
    if isinstance(node.value, bytes | memoryview) and node.kind == "payload":
        return f"{len(node.value):,} bytes"
    if inner or isinstance(node.value, Struct):
        return "" if inner else "no fields"
    if isinstance(node.value, str):
        return f'"{said(node.value)}"'
    return f"{node.end - node.start} bytes" if node.kind == "unreadable" else said(node.value)


def _draw_row(svg: Svg, y: float, row: _Row, data: bytes) -> None:
    if row.runs:
        svg.text(_NAME_LEFT - 12, y + 15, str(row.runs[0].start), 12, anchor="end", mono=True, opacity=palette.FAINT)
    x = _NAME_LEFT + _INDENT * row.depth
    is_part = row.depth == 0 and row.name in (HEADER, BODY)
    room = _BYTES_LEFT - x - 14
    name = shortened(row.name, room * (0.62 if row.value else 1), 13, bold=True)
    right = svg.text(x, y + 15, name, 13, bold=True, opacity=palette.FAINT if is_part else 1).right
    if row.value:
        # A line without bytes has the place where they would be.
        end = WIDTH if not row.runs else _BYTES_LEFT - 12
        svg.text(right + 10, y + 15, shortened(row.value, end - right - 11, 13), 13)
    x, left = _BYTES_LEFT, _BYTES_IN_A_ROW
    count = sum(run.end - run.start for run in row.runs)
    for run in row.runs:
        for at in range(run.start, min(run.end, run.start + left)):
            filling = KINDS[run.kind]
            svg.rect(x, y, _CELL - (at == run.end - 1), _BOX, fill=filling)
            svg.text(
                x + _CELL / 2, y + 15, f"{data[at]:02x}", 12.5, anchor="middle", mono=True, fill=palette.ink_on(filling)
            )
            x += _CELL
        left -= min(left, run.end - run.start)
    if count > _BYTES_IN_A_ROW:
        svg.text(x + 5, y + 15, "…", 12.5, opacity=palette.FAINT)


def _said(row: _Row) -> str:
    """A row for the ear: without its bytes and their places."""
    return re.sub(r"^\[(\d+)\]$", r"element \1", row.name) + (f": {row.value}" if row.value else "")


def _line(row: _Row, data: bytes) -> str:
    text = f"{'  ' * row.depth}{row.name}" + (f": {row.value}" if row.value else "")
    if not row.runs:
        return text
    start, end = row.runs[0].start, row.runs[-1].end
    shown = " | ".join(data[run.start : run.end][:_BYTES_IN_A_ROW].hex(" ") for run in row.runs)
    kinds = ", ".join(dict.fromkeys(run.kind for run in row.runs))
    more = " …" if end - start > _BYTES_IN_A_ROW else ""
    return f"{text}  [{shown}{more}] ({kinds}; from byte {start})"


def _draw_key(svg: Svg, kinds: Sequence[str], top: float) -> None:
    x = _NAME_LEFT
    for kind in kinds:
        svg.rect(x, top - 30, 14, 14, fill=KINDS[kind], stroke="currentColor", stroke_opacity="0.4")
        x = svg.text(x + 20, top - 18, kind, 12.5).right + 18


def _headed(title: str, note: str, height: float) -> Svg:
    svg = Svg(WIDTH, height)
    svg.text(0, 20, shortened(title, WIDTH, 16, bold=True), 16, bold=True)
    if note:
        svg.text(0, 41, shortened(note, WIDTH, 13), 13, opacity=palette.FAINT)
    return svg


# --- a declaration ----------------------------------------------------------------------------------------------------


class _Declared(NamedTuple):
    """A field of a declaration, and the first and last version of all structures around it."""

    depth: int
    field: Field
    since: int
    until: int


def _declared(structure: type[Struct], depth: int, since: int, until: int) -> Iterator[_Declared]:
    for each in structure.fields:
        first, last = max(since, each.since), min(until, each.until)
        if first > last:
            continue
        yield _Declared(depth, each, first, last)
        if isinstance(each.wire.element, type) and issubclass(each.wire.element, Struct):
            yield from _declared(each.wire.element, depth + 1, first, last)


def _versions(message: type[Message], title: str, note: str) -> Figure:
    """Fields down, versions across."""
    low, high = message.versions
    rows = list(_declared(message, 0, low, high))
    flexible = f"flexible from version {message.flexible} on" if message.flexible <= high else "never flexible"
    title = title or f"{message.__name__}: which version has which field"
    note = note or f"versions {low} to {high}, {flexible}; a filled cell: the version has the field; t: tagged"
    top = _TOP + 22
    svg = _headed(title, note, top + _ROW * len(rows) + 8)
    for version in range(low, high + 1):
        x = _GRID_LEFT + _COLUMN * (version - low) + _COLUMN / 2
        svg.text(x, top - 8, str(version), 12, anchor="middle", mono=True, bold=version >= message.flexible)
    if low < message.flexible <= high:
        x = _GRID_LEFT + _COLUMN * (message.flexible - low) - 1
        svg.line(x, top - 20, x, top + _ROW * len(rows), stroke="currentColor", stroke_width="2")
    for number, row in enumerate(rows):
        _draw_field(svg, top + _ROW * number, row, low)
    lines = [
        f"{'  ' * row.depth}{camel_case(row.field.name)}, {type_name(row.field.wire)}: versions "
        f"{row.since} to {row.until}" + ("" if row.field.tag is None else f", tag {row.field.tag}")
        for row in rows
    ]
    return _figure(svg, title, note, lines, lines)


def _draw_field(svg: Svg, y: float, row: _Declared, low: int) -> None:
    x = _INDENT * row.depth
    name = shortened(camel_case(row.field.name), 235 - x, 13, bold=True)
    right = svg.text(x, y + 15, name, 13, bold=True).right
    kind = shortened(type_name(row.field.wire), _GRID_LEFT - right - 18, 12.5)
    svg.text(right + 8, y + 15, kind, 12.5, opacity=palette.FAINT)
    filling = palette.SKY if row.field.tag is None else palette.ORANGE
    for version in range(row.since, row.until + 1):
        left = _GRID_LEFT + _COLUMN * (version - low)
        svg.rect(left + 1, y + 1, _COLUMN - 3, _BOX - 2, fill=filling)
        if row.field.tag is not None:
            svg.text(left + _COLUMN / 2, y + 15, "t", 12, anchor="middle", fill=palette.ink_on(filling))


def _declaration(message: type[Message], version: int, title: str, note: str) -> Figure:
    """The fields of one version, and how each is written."""
    low, high = message.versions
    if not low <= version <= high:
        raise ValueError(f"version={version}: {message.__name__} has versions {low} to {high}")
    flexible = version >= message.flexible
    rows = [row for row in _declared(message, 0, low, high) if row.since <= version <= row.until]
    title = title or f"{message.__name__}, version {version}: {'flexible' if flexible else 'classic'}"
    note = note or (
        "lengths are varints, one more than they say; each structure ends with its tagged fields"
        if flexible
        else "lengths are int16 for strings and int32 for arrays; -1 is null"
    )
    svg = _headed(title, note, _TOP + _ROW * max(1, len(rows)) + 6)
    lines = []
    for number, row in enumerate(rows):
        y = _TOP + _ROW * number
        name, how = camel_case(row.field.name), _written(row.field, version, flexible)
        svg.text(_INDENT * row.depth, y + 10, shortened(name, 290, 13, bold=True), 13, bold=True)
        svg.text(340, y + 10, shortened(type_name(row.field.wire), 210, 13), 13)
        svg.text(560, y + 10, shortened(how, WIDTH - 561, 13), 13, opacity=palette.FAINT)
        lines.append(f"{'  ' * row.depth}{name}, {type_name(row.field.wire)}: {how}")
    return _figure(svg, title, note, lines or ["no fields"], lines or ["no fields"])


def _written(declared: Field, version: int, flexible: bool) -> str:
    wire, compact = declared.wire, flexible and declared.flexible
    if wire.array:
        how = "varint count + 1, elements" if compact else "int32 count, elements"
    elif isinstance(wire.element, Fixed):
        how = f"{wire.element.size} byte{'s' * (wire.element.size != 1)}"
    elif isinstance(wire.element, Variable):
        classic = "int16 length" if wire.element.length_letter == "h" else "int32 length"
        how = f"{'varint length + 1' if compact else classic}, content"
    else:
        how = "16 bytes" if wire.is_uuid else "its fields"
    if declared.nullable(version):
        how += "; may be null"
    return how if declared.tag is None else f"tag {declared.tag}: {how}"
