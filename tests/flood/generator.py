"""Requests made from their declarations: every array of every API that a node serves, filled to its limit.

A request is declared once for all its versions, so what it is a list of can be read from the declaration. A `Target` is
one array of one API: ``Fetch 18, topics.partitions``. `fill` makes a request in which that array has many entries, and
each array around it one. What the entries say depends on the kind:

=========  =============================================================================================
repeated   one name that exists, again and again
distinct   names that exist, each once; no more entries than there are such names
strangers  names that do not exist, each another one
long       the same, as long as a string or bytes may be, until the frame is full
=========  =============================================================================================

What a field says comes from the `vocabulary`, by the field's name. A field that the vocabulary does not know has its
default, or a word; so an API that is declared tomorrow is tried tomorrow.

A message may have 20,000 elements, all arrays together, and a frame 100 MiB: a request here has as many as fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pykraft.protocol.api import Api, ListenerKind, apis
from pykraft.protocol.schema import Request, Struct
from pykraft.protocol.wire import Field, Fixed, Variable
from pykraft.transport.server_channel import MAX_REQUEST_ELEMENTS
from tests.flood.vocabulary import Draw, Kind, State, draw, how_many, is_left_out, variants_of

FRAME_BYTES = 104_857_600 - 4096
"""What ``socket.request.max.bytes`` allows out of the box, less what is around the array."""


MOST = MAX_REQUEST_ELEMENTS
"""More entries than any array can have beside what is around it: as many as fit."""


class Target(NamedTuple):
    """One array of one API on one listener, in the newest version that has it."""

    api: Api
    listener: ListenerKind
    version: int
    path: tuple[str, ...]

    def __str__(self) -> str:
        on = "" if self.listener is ListenerKind.BROKER else " (controller)"
        return f"{self.api.name} {self.version}{on}, {'.'.join(self.path)}"


class Flood(NamedTuple):
    """What to fill an array with."""

    target: Target
    kind: Kind
    entries: int
    variant: tuple[tuple[str, Any], ...] = ()
    """Values of fields that change what is asked, by name: which kind of resource, which timestamp."""

    def __str__(self) -> str:
        said = "".join(f", {name}={value}" for name, value in self.variant)
        return f"{self.target}: {self.entries:,} {self.kind}{said}"


# --- which arrays there are -------------------------------------------------------------------------------------------


def targets(listener: ListenerKind, known: Iterable[Api] = tuple(apis.values())) -> Iterator[Target]:
    """Every array in every request that a listener of this kind serves, the newest version of each."""
    for api in known:
        if listener not in api.listeners:
            continue
        seen: dict[tuple[str, ...], int] = {}
        low, high = max(api.advertised[0], api.request.versions[0]), api.advertised[1]
        for version in range(low, high + 1):
            seen |= dict.fromkeys(_arrays(api.request, version), version)
        for path, version in seen.items():
            yield Target(api, listener, version, path)


def _arrays(structure: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    for field in structure.fields:
        if not field.present(version):
            continue
        if field.wire.array:
            yield (field.name,)
        if is_struct(field):
            for path in _arrays(field.wire.element, version):  # type: ignore[arg-type]
                yield (field.name, *path)


def is_struct(field: Field) -> bool:
    return isinstance(field.wire.element, type) and issubclass(field.wire.element, Struct)


def declared(target: Target) -> Field:
    """The array's declaration."""
    structure: Any = target.api.request
    for name in target.path:
        field: Field = next(each for each in structure.fields if each.name == name)
        structure = field.wire.element
    return field


def variants(target: Target) -> list[tuple[tuple[str, Any], ...]]:
    """Each way of asking that changes what the node has to do."""
    return variants_of(target.api.name, list(_names_in(target.api.request, target.version)), target.path)


def has_long_entries(target: Target) -> bool:
    """Whether an entry has a string or bytes, which may be long."""
    field = declared(target)
    inside = field.wire.element.fields if is_struct(field) else [field]  # type: ignore[union-attr]
    here = [each for each in inside if each.present(target.version) and not each.wire.nullable]
    return any(isinstance(each.wire.element, Variable) for each in here if each is field or not each.wire.array)


def _names_in(structure: type[Struct], version: int) -> Iterator[str]:
    for field in structure.fields:
        if field.present(version):
            yield field.name
            if is_struct(field):
                yield from _names_in(field.wire.element, version)  # type: ignore[arg-type]


# --- filling ----------------------------------------------------------------------------------------------------------


def fill(flood: Flood, state: State) -> Request:
    """The request. Where there are fewer names that exist than entries asked for, it has fewer entries."""
    request: Request = _filled(flood, state, flood.target.api.request, flood.target.path, ())
    return request


def entries_of(request: Request, target: Target) -> Sequence[Any]:
    """The array that was filled."""
    value: Any = request
    for name in target.path:
        value = getattr(value[0] if isinstance(value, list) else value, name)
    return value  # type: ignore[no-any-return]


def _filled(flood: Flood, state: State, structure: type[Struct], path: tuple[str, ...], done: tuple[str, ...]) -> Any:
    """A structure, of which the first field in `path` leads to the array to fill; `done` leads to the structure."""
    values: dict[str, Any] = {}
    for field in structure.fields:
        if not field.present(flood.target.version):
            continue
        if path and field.name == path[0]:
            values[field.name] = _on_the_path(flood, state, structure, field, path, (*done, field.name))
        else:
            said = _value(flood, state, structure, field, done, None)
            if said is not ...:
                values[field.name] = said
    return structure(**values)


def _on_the_path(
    flood: Flood, state: State, structure: type[Struct], field: Field, path: tuple[str, ...], done: tuple[str, ...]
) -> Any:
    if len(path) > 1:
        inner = _filled(flood, state, field.wire.element, path[1:], done)  # type: ignore[arg-type]
        return [inner] if field.wire.array else inner
    entries = min(flood.entries, _most(flood, state, structure, field, done))
    if flood.kind == "repeated":
        is_simple = not is_struct(field)
        first = _simple(flood, state, structure, field, done, 0) if is_simple else _entry_of(flood, state, field, done)
        return [first] * entries
    if not is_struct(field):
        return [_simple(flood, state, structure, field, done, number) for number in range(entries)]
    return [_entry(flood, state, field.wire.element, done, number) for number in range(entries)]  # type: ignore[arg-type]


def _entry_of(flood: Flood, state: State, field: Field, done: tuple[str, ...]) -> Struct:
    return _entry(flood, state, field.wire.element, done, 0)  # type: ignore[arg-type]


def _entry(flood: Flood, state: State, structure: type[Struct], done: tuple[str, ...], number: int) -> Struct:
    """One entry of the array, which says what its number says."""
    values = {}
    for field in structure.fields:
        if field.present(flood.target.version):
            said = _value(flood, state, structure, field, done, number)
            if said is not ...:
                values[field.name] = said
    return structure(**values)


def _value(
    flood: Flood, state: State, structure: type[Struct], field: Field, done: tuple[str, ...], number: int | None
) -> Any:
    """What a field says that is not on the path; `...` is its default. An array beside the filled one is empty, an
    array in an entry has one entry; where null means all, it is null."""
    drawn = _draw(flood, state, structure, field, done, number)
    if not field.wire.array:
        said = draw(drawn)
        if said is ... and is_struct(field) and not field.wire.nullable:
            return _entry(flood, state, field.wire.element, drawn.path, 0)  # type: ignore[arg-type]
        return said
    if field.nullable(flood.target.version):
        return None
    if number is None or is_left_out(drawn):
        return ()
    if is_struct(field):
        return [_entry(flood, state, field.wire.element, drawn.path, 0)]  # type: ignore[arg-type]
    return [_simple(flood, state, structure, field, drawn.path, 0)]


def _simple(
    flood: Flood, state: State, structure: type[Struct], field: Field, done: tuple[str, ...], number: int
) -> Any:
    """An entry that is a number, a string or bytes."""
    said = draw(_draw(flood, state, structure, field, done[:-1], number))
    if said is not ...:
        return said
    element = field.wire.element
    return element.default if isinstance(element, Fixed | Variable) else field.wire.default


def _draw(
    flood: Flood, state: State, structure: type[Struct], field: Field, done: tuple[str, ...], number: int | None
) -> Draw:
    return Draw(
        state=state,
        api=flood.target.api.name,
        listener=flood.target.listener,
        path=(*done, field.name),
        owner=structure.__name__,
        field=field,
        kind=flood.kind,
        number=number,
        variant=dict(flood.variant),
        filled=flood.target.path,
    )


# --- limits -----------------------------------------------------------------------------------------------------------


def elements(value: Any) -> int:
    """How many elements the arrays in this value have, all together: what the decoder counts."""
    if isinstance(value, list | tuple):
        return len(value) + sum(elements(each) for each in value if isinstance(each, Struct))
    if isinstance(value, Struct):
        return sum(elements(getattr(value, field.name)) for field in value.fields)
    return 0


def _most(flood: Flood, state: State, structure: type[Struct], field: Field, done: tuple[str, ...]) -> int:
    """How many entries the array may have: by the decoder's budget, by the frame, by the names that there are."""
    around = 2 * len(flood.target.path) + 20
    if is_struct(field):
        entry: Any = _entry(flood, state, field.wire.element, done, 0)  # type: ignore[arg-type]
    else:
        entry = _simple(flood, state, structure, field, done, 0)
    most = (MAX_REQUEST_ELEMENTS - around) // (1 + elements(entry))
    size = size_of(entry)
    if size:
        most = min(most, FRAME_BYTES // size)
    if flood.kind == "distinct":
        inside = type(entry) if is_struct(field) else structure
        named = [each for each in inside.fields if not each.wire.array] if is_struct(field) else [field]
        start = done if is_struct(field) else done[:-1]
        counts = (how_many(_draw(flood, state, inside, each, start, 0)) for each in named)
        most = min(most, min(counts, default=most))
    return max(1, most)


def size_of(value: Any) -> int:
    """About how many bytes a value is on the wire; never less than it is."""
    if isinstance(value, str):
        return len(value.encode()) + 5
    if isinstance(value, bytes | bytearray | memoryview):
        return len(value) + 5
    if isinstance(value, list | tuple):
        return 5 + sum(map(size_of, value))
    if isinstance(value, Struct):
        return 1 + sum(size_of(getattr(value, field.name)) for field in value.fields)
    return 16
