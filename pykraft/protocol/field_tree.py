"""A message as a tree of fields, for people: one line a field, in the order of the wire, with Kafka's names.

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

The fields are those of `as_json`: what this version has on the wire, tagged fields only where they differ from their
default. Of records only their size shows; `say_records` may say more.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pykraft.protocol.as_json import as_json
from pykraft.protocol.schema import Struct

_LONGEST = 120
_INDENT = "  "
_WORDS = {None: "null", True: "true", False: "false"}


def _size(records: memoryview) -> str:
    return f"{len(records):,} bytes"


def field_tree(
    message: Struct, version: int, say_records: Callable[[memoryview], str] = _size, most_lines: int = 400
) -> str:
    """The tree as text, of at most `most_lines` lines."""
    lines = [f"{type(message).__qualname__}, version {version}"]
    for line in _lines(as_json(message, version), 1, say_records):
        if len(lines) == most_lines:
            lines.append(f"{_INDENT}…")
            break
        lines.append(line)
    return "\n".join(lines)


def _lines(content: Any, depth: int, say_records: Callable[[memoryview], str]) -> Iterator[str]:
    pairs = content.items() if isinstance(content, dict) else ((f"[{n}]", each) for n, each in enumerate(content))
    for name, value in pairs:
        start = f"{_INDENT * depth}{name}"
        if isinstance(value, dict):
            yield start
            yield from _lines(value, depth + 1, say_records)
        elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
            yield f"{start}: {len(value)}"
            yield from _lines(value, depth + 1, say_records)
        else:
            yield f"{start}: {_said(value, say_records)}"


def _said(value: Any, say_records: Callable[[memoryview], str]) -> str:
    if isinstance(value, memoryview):
        return say_records(value)
    text = _WORDS[value] if value is None or isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
