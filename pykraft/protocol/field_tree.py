"""A frame as a tree of fields with their bytes, for people: in the order of the wire, with Kafka's names.

::

    FetchRequest, version 18
      replicaState
        replicaId: 2
        replicaEpoch: 41
      maxWaitMs: 500
      topics: 1
        [0]
          topicId: kH8UHHWcRB2dvFcFAbfnBQ
          partitions: 1
            [0]
              partition: 0
              fetchOffset: 17

The tree comes from the decoder that the broker runs, in the form that notes where each field begins and ends
(`schema.marking_decoder`). Its leaves cover every byte of the frame exactly once: lengths, tags and counts are leaves,
too. What cannot be read is one last leaf, and `problem` says why; so any bytes have a tree.

`field_tree` is the tree as text: the message's fields with their values, without positions. Of records only their size
shows; `say_records` may say more.
"""

import base64
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pykraft.common.errors import ProtocolError
from pykraft.common.types import Uuid
from pykraft.protocol.api import requests
from pykraft.protocol.as_json import camel_case
from pykraft.protocol.header import (
    SIZE,
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from pykraft.protocol.primitives import UNLIMITED, decode_unsigned_varint
from pykraft.protocol.schema import Message, Request, Struct, marking_decoder

SIZE_FIELD, HEADER, BODY = "size", "header", "body"
NOT_READ = "not read"
"""The leaf of the bytes that no field covers."""
KINDS = ("number", "id", "offset", "time", "length", "flags", "text", "payload", "unreadable")
"""What a leaf can mean."""
_LONGEST = 120
_INDENT = "  "
_WORDS = {None: "null", True: "true", False: "false"}
_UNREADABLE = (ProtocolError, struct.error, IndexError, ValueError)
_BY_TYPE = {
    "length": "length",
    "uuid": "id",
    "string": "text",
    "bytes": "payload",
    "records": "payload",
    "bool": "flags",
    "unreadable": "unreadable",
}
_BY_NAME = {
    "offset": ("_offset", "offset"),
    "time": ("_ms", "timestamp"),
    "flags": ("error_code", "acks", "isolation_level"),
    "id": ("_id", "_epoch", "_key", "version", "partition", "index", "_level"),
}


@dataclass(slots=True)
class FieldNode:
    """A field, a structure or an element of an array: its bytes lie from `start` to before `end`."""

    name: str
    type: str
    """As in Kafka's message files, such as ``int32`` or ``[]string``; ``length`` for lengths, counts and tags."""
    start: int
    end: int = 0
    value: Any = None
    children: "list[FieldNode]" = field(default_factory=list)
    kind: str = "number"
    """What the bytes mean: one of `KINDS`."""

    def leaves(self) -> "Iterator[FieldNode]":
        """The nodes without children that have bytes, in order."""
        if self.children:
            for child in self.children:
                yield from child.leaves()
        elif self.end > self.start:
            yield self

    def find(self, name: str) -> "FieldNode":
        """The first node below this one with a name. KeyError if there is none."""
        for child in self.children:
            if child.name == name:
                return child
            try:
                return child.find(name)
            except KeyError:
                continue
        raise KeyError(name)


@dataclass(slots=True)
class FrameTree:
    """The tree of one frame. `problem` says why the rest of it cannot be read; nothing if it can."""

    root: FieldNode
    version: int
    problem: str = ""

    @property
    def name(self) -> str:
        return self.root.name

    def __str__(self) -> str:
        return field_tree(self)


class Marks(list[int]):
    """What a decoder notes. It is also the list with the number of elements that the message may have."""

    def __init__(self, root: FieldNode) -> None:
        super().__init__([UNLIMITED])
        self._open = [root]
        self.position = root.start
        """Everything before it is in the tree."""

    def open(self, name: str, type_name: str, position: int) -> None:
        node = FieldNode(camel_case(name), type_name, position, kind=_kind(name, type_name))
        if name.startswith("["):
            node.kind = _kind(self._open[-1].name, type_name)
        self._open[-1].children.append(node)
        self._open.append(node)

    def close(self, position: int, value: Any) -> None:
        node = self._open.pop()
        node.end, node.value = position, value
        self.position = position

    def leaf(self, name: str, type_name: str, start: int, end: int, value: Any) -> None:
        self.open(name, type_name, start)
        if name == "content" and type_name == "bytes":
            self._open[-1].kind = "payload"
        self.close(end, value)

    def tag(self, frame: memoryview, start: int, end: int) -> None:
        """The number of a tagged field and its size, which lie from `start` to before `end`."""
        tag, middle = decode_unsigned_varint(frame, start)
        self.leaf("tag", "length", start, middle, tag)
        self.leaf("length", "length", middle, end, decode_unsigned_varint(frame, middle)[0])

    def give_up(self) -> None:
        """The decoder has stopped in the middle: end what is open where the last field ends."""
        while len(self._open) > 1:
            node = self._open.pop()
            node.end, node.value = self.position, ...
            if not node.children:
                self._open[-1].children.remove(node)
        self._open[0].end = self.position


def _kind(name: str, type_name: str) -> str:
    element = type_name.removeprefix("[]")
    if element in _BY_TYPE:
        return _BY_TYPE[element]
    for kind, endings in _BY_NAME.items():
        if name.endswith(endings):
            return kind
    return "number"


def read_tree(
    frame: bytes | memoryview, request: type[Request], version: int, is_response: bool, has_size: bool = False
) -> FrameTree:
    """The tree of a frame, given what was asked. With `has_size` the frame begins with its four bytes of size."""
    message = request.response if is_response else request
    root = FieldNode(message.__name__, "frame", 0, len(frame), kind="")
    tree = FrameTree(root, version)
    position = _read_size(root, frame) if has_size else 0
    try:
        if is_response:
            header_version = response_header_version(request.response, version)
            position = _read(root, HEADER, ResponseHeader, frame, header_version, position)
        else:
            position = _read(root, HEADER, RequestHeader, frame, request_header_version(request, version), position)
        _read(root, BODY, message, frame, version, position)
    except _UNREADABLE as error:
        tree.problem = _said_of(error)
    _cover_the_rest(root, len(frame))
    return tree


def read_request_tree(frame: bytes | memoryview, has_size: bool = False) -> FrameTree:
    """The tree of a request that says itself what it is. One that pykraft does not know has no body in its tree."""
    start = SIZE.size if has_size else 0
    key, version = struct.unpack_from(">hh", frame, start) if len(frame) >= start + 4 else (-1, -1)
    request = requests.get(key)
    if request is not None and request.versions[0] <= version <= request.versions[1]:
        return read_tree(frame, request, version, is_response=False, has_size=has_size)
    root = FieldNode("unknown request", "frame", 0, len(frame), kind="")
    position = _read_size(root, frame) if has_size else 0
    header_version = 1 if request is None else request_header_version(request, version)
    problem = f"pykraft knows no API {key}" if request is None else f"{request.__name__} has no version {version}"
    try:
        _read(root, HEADER, RequestHeader, frame, header_version, position)
    except _UNREADABLE as error:
        problem = f"{problem}; {_said_of(error)}"
    _cover_the_rest(root, len(frame))
    return FrameTree(root, version, problem)


def _said_of(error: Exception) -> str:
    return str(error) if isinstance(error, ProtocolError) else "the frame ends too soon"


def _read_size(root: FieldNode, frame: bytes | memoryview) -> int:
    size = FieldNode(SIZE_FIELD, "length", 0, min(SIZE.size, len(frame)), kind="length")
    if len(frame) >= SIZE.size:
        (size.value,) = SIZE.unpack_from(frame)
    root.children.append(size)
    return size.end


def _read(
    root: FieldNode, name: str, message: type[Message], frame: bytes | memoryview, version: int, position: int
) -> int:
    part = FieldNode(name, message.__name__, position, kind="")
    root.children.append(part)
    marks = Marks(part)
    try:
        decode = marking_decoder(message, version, version >= message.flexible)
        part.value, part.end = decode(memoryview(frame), position, marks)
    except _UNREADABLE:
        marks.give_up()
        raise
    if part.end > len(frame):
        marks.give_up()
        raise ProtocolError(f"{message.__name__} version {version} ends too soon")
    return part.end


def _cover_the_rest(root: FieldNode, size: int) -> None:
    """What no field covers is one leaf."""
    end = max([leaf.end for leaf in root.leaves()], default=0)
    if end < size:
        root.children.append(FieldNode(NOT_READ, "unreadable", end, size, kind="unreadable"))


# --- as text ----------------------------------------------------------------------------------------------------------


def _size(records: memoryview) -> str:
    return f"{len(records):,} bytes"


def field_tree(tree: FrameTree, say_records: Callable[[memoryview], str] = _size, most_lines: int = 400) -> str:
    """The message's fields as text, of at most `most_lines` lines."""
    lines = [f"{tree.name}, version {tree.version}"]
    body = next((part for part in tree.root.children if part.name == BODY), None)
    for line in _lines(body.children if body else [], 1, say_records):
        if len(lines) == most_lines:
            lines.append(f"{_INDENT}…")
            break
        lines.append(line)
    if tree.problem:
        lines.append(f"{_INDENT}the rest cannot be read: {tree.problem}")
    return "\n".join(lines)


def _lines(nodes: list[FieldNode], depth: int, say_records: Callable[[memoryview], str]) -> Iterator[str]:
    for node in nodes:
        if node.type == "length":
            continue
        if node.type == "tagged":
            yield from _lines(node.children, depth, say_records)
            continue
        start = f"{_INDENT * depth}{node.name}"
        is_nested = any(child.type not in ("length", node.type) for child in node.children)
        if is_nested and (not isinstance(node.value, list) or isinstance(node.value[0], Struct)):
            yield f"{start}: {len(node.value)}" if isinstance(node.value, list) else start
            yield from _lines(node.children, depth + 1, say_records)
        else:
            yield f"{start}: {said(node.value, say_records)}"


def said(value: Any, say_records: Callable[[memoryview], str] = _size) -> str:
    """A field's value in a few words."""
    if value is ...:  # the frame could not be read to its end
        return "…"
    if isinstance(value, memoryview):
        return say_records(value)
    if isinstance(value, bytes) and not isinstance(value, Uuid):
        value = base64.b64encode(value).decode()
    if isinstance(value, Struct):
        value = type(value).__qualname__
    text = _WORDS[value] if value is None or isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
