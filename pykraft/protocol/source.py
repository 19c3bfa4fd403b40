"""The Python text of encoders and decoders.

`schema` declares messages; this module writes the code that reads and writes one version of one structure. Here is
the decoder that it writes for version 0 of ``FeatureLevelRecord``, a name and a number, to show the style::

    def decode(b, p, e):
        m = new(cls)
        size = len(b)
        n = b[p]; p += 1
        if n > 127: n, p = uvarint(b, p - 1)
        n -= 1
        if n < 0: raise unexpected_null('name')
        q = p + n
        if q > size: raise too_short('name', n, size - p)
        if n > 32767: raise too_long('name', 32767)
        m.name = str(b[p:q], 'utf-8', 'replace'); p = q
        m.feature_level, = fixed_10(b, p); p += 2
        count = b[p]; p += 1
        if count > 127: count, p = uvarint(b, p - 1)
        e[0] -= count
        if count > 10000 or e[0] < 0: raise too_many('tagged fields', count)
        for _ in range(count):
            tag = b[p]; p += 1
            if tag > 127: tag, p = uvarint(b, p - 1)
            length = b[p]; p += 1
            if length > 127: length, p = uvarint(b, p - 1)
            end = p + length
            if end > size: raise too_short('a tagged field', length, size - p)
            if p > end: raise too_long('a tagged field', length)
            p = end
        return m, p

Asked for `marks`, it writes the same decoder with a note after each step: where a field begins and ends, its length,
its tag. `field_tree` makes a tree of these notes, so what a picture says of a byte is what the broker's decoder does.

One letter for what each line touches: b the buffer, p the position in it, e what is left of the budget of elements, m
the message, w writes one part, n a count or length, o where that begins, q where the value ends.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from pykraft.common.types import Uuid
from pykraft.protocol.primitives import (
    LONGEST_STRING,
    MOST_TAGGED_FIELDS,
    UNSIGNED_VARINTS,
    decode_unsigned_varint,
    too_long,
    too_many,
    too_short,
    unexpected_null,
)
from pykraft.protocol.wire import Field, Fixed, Variable, Wire

ELEMENTS_PER_STEP = 32
"""An encoder that pauses does so after this many elements of an array; a decoder after this many of the whole message,
so that arrays of a few elements each do not add up."""
CoderOf = Callable[[Any, int, bool], Any]
"""(structure, version, flexible) -> its compiled encoder or decoder: how the code of a nested structure is found."""


class Text:
    """Source under construction, and the names that it refers to."""

    def __init__(
        self,
        head: str,
        coder_of: CoderOf,
        version: int,
        flexible: bool,
        marks: bool = False,
        pauses: bool = False,
    ) -> None:
        self.lines = [head]
        self.names: dict[str, Any] = {
            "uvarint": decode_unsigned_varint,
            "varint": UNSIGNED_VARINTS,
            "too_long": too_long,
            "too_many": too_many,
            "too_short": too_short,
            "unexpected_null": unexpected_null,
            "Uuid": Uuid,
            "octets": bytes.__new__,
        }
        self.coder_of = coder_of
        self.version = version
        self.flexible = flexible
        self.marks = marks
        self.pauses = pauses
        self._indent = 1
        self._depth = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    def mark(self, text: str) -> None:
        """A line of a decoder that notes positions, and of no other."""
        if self.marks:
            self.line(text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def loop(self) -> Iterator[str]:
        """Names inside a loop over an array carry its depth, so that nested loops do not share them."""
        self._depth += 1
        yield str(self._depth)
        self._depth -= 1

    def name(self, prefix: str, value: Any) -> str:
        """A name for a constant."""
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = value
        return name

    def __str__(self) -> str:
        return "\n".join(self.lines)


def encoder_source(
    structure: Any, version: int, flexible: bool, coder_of: CoderOf, pauses: bool = False
) -> tuple[str, dict[str, Any]]:
    """The text of ``encode(m, w)``, and the names that it needs. With `pauses` it is a generator that yields after
    every few elements of an array; `has_loops` says whether there is any place for that."""
    text = Text("def encode(m, w):", coder_of, version, flexible, pauses=pauses)
    plain, tagged = _fields(structure, version)
    for run in _runs(plain):
        if _is_fixed(run[0].wire):
            pack = text.name("fixed", _packing(run).pack)
            text.line(f"w({pack}({', '.join(f'm.{f.name}' for f in run)}))")
        else:
            _write_field(text, run[0], f"m.{run[0].name}")
    if flexible:
        _write_tags(text, tagged)
    if len(text.lines) == 1:
        text.line("pass")
    return str(text), text.names


def decoder_source(
    structure: Any, version: int, flexible: bool, coder_of: CoderOf, marks: bool = False, pauses: bool = False
) -> tuple[str, dict[str, Any]]:
    """The text of ``decode(b, p, e)``, and the names that it needs. With `marks`, `e` is a `field_tree.Marks`. With
    `pauses` it is a generator that yields after every few elements: at the latest when the budget in ``e[0]`` is below
    ``e[1]``."""
    text = Text("def decode(b, p, e):", coder_of, version, flexible, marks, pauses)
    text.names |= {"cls": structure, "new": object.__new__}
    text.line("m = new(cls)")
    text.line("size = len(b)")
    plain, tagged = _fields(structure, version)
    for run in _runs(plain):
        if marks:
            for f in run:
                _read_field(text, f, f"m.{f.name}")
        elif _is_fixed(run[0].wire):
            packing = _packing(run)
            targets = ", ".join(f"m.{f.name}" for f in run) + ("," if len(run) == 1 else "")
            text.line(f"{targets} = {text.name('fixed', packing.unpack_from)}(b, p); p += {packing.size}")
        else:
            _read_field(text, run[0], f"m.{run[0].name}")
    if flexible:
        _read_tags(text, tagged)
    text.line("return m, p")
    return str(text), text.names


# --- which fields, and how they are grouped ---------------------------------------------------------------------------


def _fields(structure: Any, version: int) -> tuple[list[Field], list[Field]]:
    """The fields of this version: those in order, and those by tag."""
    present = [f for f in structure.fields if f.present(version)]
    tagged = sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0)
    return [f for f in present if f.tag is None], tagged


def _has_loops(structure: Any, version: int) -> bool:
    """Whether structures of this version have arrays that are written element by element, themselves or in a part."""
    plain, tagged = _fields(structure, version)
    return any(
        (f.wire.array and not isinstance(f.wire.element, Fixed))
        or (isinstance(f.wire.element, type) and _has_loops(f.wire.element, version))
        for f in (*plain, *tagged)
    )


has_loops: Callable[[Any, int], bool] = cache(_has_loops)


def _is_fixed(wire: Wire) -> bool:
    return isinstance(wire.element, Fixed) and not wire.array


def _runs(fields: Sequence[Field]) -> Iterator[list[Field]]:
    """Neighbours of fixed size together, every other field alone."""
    run: list[Field] = []
    for f in fields:
        if _is_fixed(f.wire):
            run.append(f)
            continue
        if run:
            yield run
            run = []
        yield [f]
    if run:
        yield run


def _packing(run: Sequence[Field]) -> struct.Struct:
    return struct.Struct(">" + "".join(f.wire.element.letter for f in run if isinstance(f.wire.element, Fixed)))


# --- writing ----------------------------------------------------------------------------------------------------------


def _write_field(text: Text, f: Field, value: str) -> None:
    flexible = text.flexible and f.flexible
    if not f.nullable(text.version):
        _write_value(text, f.wire, value, flexible)
        return
    with text.block(f"if {value} is None:"):
        text.line(f"w({_null(f, flexible)!r})")
    with text.block("else:"):
        if isinstance(f.wire.element, type) and not f.wire.array:
            text.line(r"w(b'\x01')")
        _write_value(text, f.wire, value, flexible)


def _null(f: Field, flexible: bool) -> bytes:
    wire = f.wire
    if isinstance(wire.element, type) and not wire.array:
        return bytes([_null_structure(f)])
    if flexible:
        return b"\x00"
    classic = "i" if wire.array else wire.element.length_letter if isinstance(wire.element, Variable) else "i"
    return struct.pack(f">{classic}", -1)


def _null_structure(f: Field) -> int:
    """A structure has no length: one byte says whether it is there, in a tagged field another than elsewhere."""
    return 0 if f.tag is not None else 255


def _write_value(text: Text, wire: Wire, value: str, flexible: bool) -> None:
    if wire.array:
        _write_array(text, wire, value, flexible)
    elif wire.is_uuid:
        text.line(f"w({value})")
    elif isinstance(wire.element, Variable):
        if wire.element.kind == "string":
            text.line(f"s = {value}.encode()")
            value = "s"
        _write_length(text, f"len({value})", wire.element.length_letter, flexible)
        text.line(f"w({value})")
    elif isinstance(wire.element, Fixed):
        text.line(f"w({text.name('fixed', struct.Struct('>' + wire.element.letter).pack)}({value}))")
    else:
        encode = text.coder_of(wire.element, text.version, text.flexible)
        steps = "yield from " if text.pauses and has_loops(wire.element, text.version) else ""
        text.line(f"{steps}{text.name('encode', encode)}({value}, w)")


def _write_length(text: Text, length: str, letter: str, flexible: bool) -> None:
    if flexible:
        text.line(f"w(varint[{length} + 1])")
    else:
        text.line(f"w({text.name('length', struct.Struct('>' + letter).pack)}({length}))")


def _write_array(text: Text, wire: Wire, value: str, flexible: bool) -> None:
    _write_length(text, f"len({value})", "i", flexible)
    if isinstance(wire.element, Fixed):
        text.names["pack"] = struct.pack
        text.line(f"w(pack('>%d{wire.element.letter}' % len({value}), *{value}))")
        return
    with text.loop() as depth:
        elements = f"i{depth}, x{depth} in enumerate({value})" if text.pauses else f"x{depth} in {value}"
        with text.block(f"for {elements}:"):
            if text.pauses:
                text.line(f"if not i{depth} % {ELEMENTS_PER_STEP}: yield")
            _write_value(text, wire._replace(array=False), f"x{depth}", flexible)


def _write_tags(text: Text, tagged: Sequence[Field]) -> None:
    if not tagged:
        text.line(r"w(b'\x00')")
        return
    text.line("tags = []")
    for f in tagged:
        with text.block(f"if {_differs_from_default(text, f)}:"):
            text.line("parts = []; out, w = w, parts.append")
            if f.default is None:
                _write_value(text, f.wire, f"m.{f.name}", flexible=True)
            else:
                _write_field(text, f, f"m.{f.name}")
            text.line(f"w = out; data = b''.join(parts); tags += [varint[{f.tag}], varint[len(data)], data]")
    text.line("w(varint[len(tags) // 3])")
    with text.block("for part in tags:"):
        text.line("w(part)")


def _differs_from_default(text: Text, f: Field) -> str:
    if f.default is None:
        return f"m.{f.name} is not None"
    if f.wire.array:
        return f"m.{f.name} is None or len(m.{f.name})"
    return f"m.{f.name} != {text.name('default', f.default)}"


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_field(text: Text, f: Field, target: str) -> None:
    flexible = text.flexible and f.flexible
    nullable = f.nullable(text.version)
    text.mark(f"e.open({f.name!r}, {type_name(f.wire)!r}, p)")
    if isinstance(f.wire.element, type) and not f.wire.array and nullable:
        text.line("n = b[p]; p += 1")
        text.mark("e.leaf('present', 'length', p - 1, p, n)")
        with text.block(f"if n == {_null_structure(f)}:"):
            text.line(f"{target} = None")
        with text.block("else:"):
            _read_value(text, f.name, f.wire, target, flexible, nullable)
    else:
        _read_value(text, f.name, f.wire, target, flexible, nullable)
    text.mark(f"e.close(p, {target})")


def type_name(wire: Wire) -> str:
    """The type of a field, as Kafka's message files spell it."""
    if isinstance(wire.element, Fixed):
        name = _FIXED_NAMES[wire.element.letter]
    elif isinstance(wire.element, Variable):
        name = wire.element.kind
    else:
        name = "uuid" if wire.element is None else wire.element.__name__
    return f"[]{name}" if wire.array else name


def _read_value(text: Text, name: str, wire: Wire, target: str, flexible: bool, nullable: bool) -> None:
    if wire.array:
        _read_array(text, name, wire, target, flexible, nullable)
    elif wire.is_uuid:
        text.line(f"if p + 16 > size: raise too_short({name!r}, 16, size - p)")
        text.line(f"{target} = octets(Uuid, b[p : p + 16]); p += 16")
    elif isinstance(wire.element, Variable):
        _read_variable(text, name, wire.element, target, flexible, nullable)
    elif isinstance(wire.element, Fixed):
        fixed = struct.Struct(">" + wire.element.letter)
        text.line(f"{target}, = {text.name('fixed', fixed.unpack_from)}(b, p); p += {fixed.size}")
    else:
        decode = text.coder_of(wire.element, text.version, text.flexible)
        steps = "yield from " if text.pauses and has_loops(wire.element, text.version) else ""
        text.line(f"{target}, p = {steps}{text.name('decode', decode)}(b, p, e)")


def _read_length(text: Text, letter: str, flexible: bool) -> None:
    text.mark("o = p")
    if flexible:
        text.line("n = b[p]; p += 1")
        text.line("if n > 127: n, p = uvarint(b, p - 1)")
        text.line("n -= 1")
    else:
        fixed = struct.Struct(">" + letter)
        text.line(f"n, = {text.name('length', fixed.unpack_from)}(b, p); p += {fixed.size}")
    text.mark("e.leaf('length', 'length', o, p, n)")


@contextmanager
def _unless_null(text: Text, name: str, target: str, nullable: bool) -> Iterator[None]:
    """Code for a value whose length n is known: null is a length below 0."""
    if nullable:
        text.line(f"if n < 0: {target} = None")
        with text.block("else:"):
            yield
    else:
        text.line(f"if n < 0: raise unexpected_null({name!r})")
        yield


_FIXED_NAMES = {
    "b": "int8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "q": "int64",
    "d": "float64",
    "?": "bool",
}
_READ = {"string": "str(b[p:q], 'utf-8', 'replace')", "bytes": "bytes(b[p:q])", "records": "b[p:q]"}


def _read_variable(text: Text, name: str, kind: Variable, target: str, flexible: bool, nullable: bool) -> None:
    _read_length(text, kind.length_letter, flexible)
    with _unless_null(text, name, target, nullable):
        text.line("q = p + n")
        text.line(f"if q > size: raise too_short({name!r}, n, size - p)")
        if kind.kind == "string" and flexible:
            # The limit of the classic form holds for the compact one, too: what came in may have to go out in either.
            text.line(f"if n > {LONGEST_STRING}: raise too_long({name!r}, {LONGEST_STRING})")
        text.line(f"{target} = {_READ[kind.kind]}; p = q")
        text.mark(f"e.leaf('content', {kind.kind!r}, q - n, q, {target})")


def _read_array(text: Text, name: str, wire: Wire, target: str, flexible: bool, nullable: bool) -> None:
    _read_length(text, "i", flexible)
    with _unless_null(text, name, target, nullable):
        # Every element has at least one byte, so a count above the bytes left is a lie.
        text.line(f"if n > size - p: raise too_short({name!r}, n, size - p)")
        # Before any memory is allocated for them.
        text.line("e[0] -= n")
        text.line(f"if e[0] < 0: raise too_many({name!r}, n)")
        if isinstance(wire.element, Fixed) and not text.marks:
            text.names["unpack"] = struct.unpack_from
            text.line(f"{target} = list(unpack('>%d{wire.element.letter}' % n, b, p)); p += {wire.element.size} * n")
            return
        with text.loop() as depth:
            text.line(f"a{depth} = []")
            element = wire._replace(array=False)
            with text.block(f"for i{depth} in range(n):" if text.marks or text.pauses else "for _ in range(n):"):
                if text.pauses:
                    with text.block(f"if e[0] < e[1] or i{depth} % {ELEMENTS_PER_STEP} == {ELEMENTS_PER_STEP - 1}:"):
                        text.line(f"e[1] = e[0] - {ELEMENTS_PER_STEP}; yield")
                text.mark(f"e.open(f'[{{i{depth}}}]', {type_name(element)!r}, p)")
                _read_value(text, name, element, f"x{depth}", flexible, False)
                text.mark(f"e.close(p, x{depth})")
                text.line(f"a{depth}.append(x{depth})")
            text.line(f"{target} = a{depth}")


def _read_tags(text: Text, tagged: Sequence[Field]) -> None:
    text.mark("o = p")
    text.line("count = b[p]; p += 1")
    text.line("if count > 127: count, p = uvarint(b, p - 1)")
    text.mark("e.leaf('tagged_fields', 'length', o, p, count)")
    text.line("e[0] -= count")
    text.line(f"if count > {MOST_TAGGED_FIELDS} or e[0] < 0: raise too_many('tagged fields', count)")
    with text.block("for _ in range(count):"):
        text.mark("e.open('tagged_field', 'tagged', p); o = p")
        for name in ("tag", "length"):
            text.line(f"{name} = b[p]; p += 1")
            text.line(f"if {name} > 127: {name}, p = uvarint(b, p - 1)")
        text.line("end = p + length")
        text.mark("e.tag(b, o, p)")
        text.line("if end > size: raise too_short('a tagged field', length, size - p)")
        for f in tagged:
            with text.block(f"if tag == {f.tag}:"):
                _read_field(text, f, f"m.{f.name}")
        # Without this check one stretch of bytes could be read again and again, as the value of ever another tag.
        text.line("if p > end: raise too_long('a tagged field', length)")
        text.mark("if p < end: e.leaf('unknown', 'bytes', p, end, bytes(b[p:end]))")
        text.line("p = end")
        text.mark("e.close(p, tag)")
