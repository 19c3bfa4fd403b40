"""Messages for tests: the list of all of them, random ones (Hypothesis), and one full example of each.

Everything is derived from the field tables of the declarations, so a new message is tested as soon as it is declared.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from pykraft.common.types import Uuid
from pykraft.protocol import api
from pykraft.protocol.header import RequestHeader, ResponseHeader
from pykraft.protocol.messages.brokers import DefaultPrincipalData
from pykraft.protocol.messages.control import CONTROL_RECORDS
from pykraft.protocol.messages.records import METADATA_RECORDS
from pykraft.protocol.schema import Message, Struct
from pykraft.protocol.wire import Field, Fixed, Variable, Wire

EXAMPLES_PER_VERSION = settings.default.max_examples // 15
"""There are some 600 versions of messages: eight examples of each are thousands in all, and a soak has 300 of each."""

RPCS: list[type[Message]] = [message for r in api.requests.values() for message in (r, r.response)]
DATA: list[type[Message]] = [
    RequestHeader,
    ResponseHeader,
    DefaultPrincipalData,
    *dict.fromkeys(CONTROL_RECORDS.values()),
]
METADATA: list[type[Message]] = [METADATA_RECORDS[key] for key in sorted(METADATA_RECORDS)]


NEW_IN_4_4 = {"ApiVersions": 5, "TxnOffsetCommit": 6, "DeleteGroups": 3, "UnregisterController": 0}
"""From these versions on a message is Kafka 4.4's. What others generated from earlier message files does not know them;
Kafka 4.4 itself answers them in tests/conformance."""


def versions(message: type[Message]) -> range:
    return range(message.versions[0], message.versions[1] + 1)


def older_versions(message: type[Message]) -> range:
    """Those that Kafka 4.3 has."""
    name = message.__name__.removesuffix("Request").removesuffix("Response")
    return range(message.versions[0], NEW_IN_4_4.get(name, message.versions[1] + 1))


def each_version(messages: list[type[Message]], flexible: bool = False, older: bool = False) -> Any:
    """The parameters (message, version) of a test that is run for every version of these messages, or every flexible
    one; `older` leaves out those of Kafka 4.4."""
    known = older_versions if older else versions
    chosen = [(m, v) for m in messages for v in known(m) if v >= m.flexible or not flexible]
    return pytest.mark.parametrize(
        ("message", "version"), [pytest.param(m, v, id=f"{m.__name__}-v{v}") for m, v in chosen]
    )


# --- random messages --------------------------------------------------------------------------------------------------

Bounds = Mapping[str, st.SearchStrategy[Any]]
"""Strategies by field name, in place of all that the field's type can hold."""


def random_messages(message: type[Message], version: int, bounds: Bounds | None = None) -> st.SearchStrategy[Any]:
    return _random_structures(message, version, tuple((bounds or {}).items()))


@functools.cache
def _random_structures(structure: type[Struct], version: int, bounds: Any) -> st.SearchStrategy[Any]:
    present = [f for f in structure.fields if f.present(version)]
    return st.fixed_dictionaries({f.name: _random_values(f, version, bounds) for f in present}).map(
        lambda values: structure(**values)
    )


def _random_values(f: Field, version: int, bounds: Any) -> st.SearchStrategy[Any]:
    values = dict(bounds).get(f.name)
    if values is None:
        values = _random_elements(f.wire, version, bounds)
    if f.wire.array:
        values = st.lists(values, max_size=2) | st.just([])
        if not isinstance(f.wire.element, type):
            values |= st.integers(120, 140).flatmap(lambda n: st.just([_example_element(f.wire, version, 3)] * n))
    if f.tag is not None:
        if isinstance(f.wire.element, type) and not f.wire.array:
            # Kafka leaves a tagged structure out when all in it is default; None is our way to say so.
            values = values.filter(f.wire.element().__ne__)
        return st.just(f.default) | values
    return st.none() | values if f.nullable(version) else values


def _random_elements(wire: Wire, version: int, bounds: Any) -> st.SearchStrategy[Any]:
    match wire.element:
        case None:
            return st.binary(min_size=16, max_size=16).map(Uuid)
        case Fixed("?"):
            return st.booleans()
        case Fixed("d"):
            return st.floats(allow_nan=False)
        case Fixed(letter, size):
            signed = letter.islower()
            low = -(1 << 8 * size - 1) if signed else 0
            return st.integers(low, low + (1 << 8 * size) - 1)
        case Variable("string"):
            return st.text(max_size=6) | st.just("a string of more than 127 bytes, so that its size has two. " * 3)
        case Variable():
            return st.binary(max_size=6) | st.just(bytes(range(200)))
        case structure:
            return _random_structures(structure, version, bounds)


# --- one full example -------------------------------------------------------------------------------------------------


def example(structure: type[Struct], version: int) -> Any:
    """A structure in which no field of this version has its default, and no two neighbours have the same value."""
    return _example(structure, version, itertools.count(1))


def _example(structure: type[Struct], version: int, numbers: Iterator[int]) -> Any:
    values = {}
    for f in structure.fields:
        if f.present(version):
            elements = [_example_value(f.wire, version, numbers) for _ in range(2 if f.wire.array else 1)]
            values[f.name] = elements if f.wire.array else elements[0]
            if values[f.name] == f.default:
                values[f.name] = not f.default
    return structure(**values)


def _example_value(wire: Wire, version: int, numbers: Iterator[int]) -> Any:
    if isinstance(wire.element, type):
        return _example(wire.element, version, numbers)
    return _example_element(wire, version, next(numbers))


def _example_element(wire: Wire, version: int, number: int) -> Any:
    match wire.element:
        case None:
            return Uuid(number.to_bytes(16, "big"))
        case Fixed("?"):
            return True
        case Fixed("d"):
            return float(number)
        case Fixed():
            return number % 128
        case Variable("string"):
            return f"s{number}"
        case Variable():
            return b"b%d" % number
        case _:
            raise AssertionError(wire)


# --- mutants ----------------------------------------------------------------------------------------------------------


def structures(structure: type[Struct], version: int | None = None) -> Iterator[type[Struct]]:
    """The structure and all that are nested in it, in any version or in the given one."""
    yield structure
    for f in structure.fields:
        if isinstance(f.wire.element, type) and (version is None or f.present(version)):
            yield from structures(f.wire.element, version)


def with_fields(message: type[Struct], change: Any) -> type[Any]:
    """A copy of a message, nested structures included, whose fields are what `change(structure, fields)` makes of
    them. Its instances are made and encoded like the message's own."""
    fields = []
    for f in change(message, message.fields):
        if isinstance(f.wire.element, type):
            f = f._replace(wire=f.wire._replace(element=with_fields(f.wire.element, change)))
        fields.append(f)
    bases = (Message,) if issubclass(message, Message) else (Struct,)
    copy: Any = type(message.__name__, bases, {"__module__": message.__module__})
    copy.fields = tuple(fields)
    copy._names = frozenset(f.name for f in fields)
    for f in fields:
        setattr(copy, f.name, f.default)
    if issubclass(message, Message):
        copy.versions, copy.flexible = message.versions, message.flexible
    return copy


def with_field(message: type[Struct], where: type[Struct], which: Field, **changes: Any) -> type[Any]:
    """A copy of a message in which one field, of itself or of a nested structure, is declared in another way."""

    def change(structure: type[Struct], fields: tuple[Field, ...]) -> list[Field]:
        return [f._replace(**changes) if structure is where and f is which else f for f in fields]

    return with_fields(message, change)
