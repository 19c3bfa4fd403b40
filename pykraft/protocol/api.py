"""The table of APIs: which requests pykraft knows, which of its two listeners serves them, and what it advertises.

Nothing is entered here. Each row is what a request's declaration says of itself, and a request is in the table because
it is declared in one of the modules below. `table` shows the rows.

A request on the wrong listener is not answered: the connection is closed, as for a key or a version that pykraft does
not know.

The ranges are those of Apache Kafka 4.4. What is advertised is served in full, and nothing is advertised that is not,
with one exception that Kafka makes, too. Produce is advertised from version 0 on, although versions below 3 are refused
since KIP-896: librdkafka before 2.11 takes a lowest version above 0 to mean that the broker cannot decompress, and
sends without compression (KAFKA-18659).

Follows org.apache.kafka.common.protocol.ApiKeys and org.apache.kafka.server.ApiVersionManager.
"""

import struct
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import NamedTuple

from pykraft.protocol.header import request_header_version
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages import (
    acls,
    admin,
    brokers,
    cluster,
    configs,
    data,
    elections,
    features,
    groups,
    logs,
    offsets,
    quorum,
    quotas,
    reassignments,
    sasl,
    transactions,
)
from pykraft.protocol.schema import Request

__all__ = ["Api", "ListenerKind", "advertised", "apis", "formats", "requests", "served", "table"]

_MODULES = (
    acls,
    admin,
    brokers,
    cluster,
    configs,
    data,
    features,
    elections,
    groups,
    logs,
    offsets,
    quorum,
    quotas,
    reassignments,
    sasl,
    transactions,
)


class Api(NamedTuple):
    """One API: its key and name, its request, the versions advertised, and the listeners that serve it."""

    key: int
    name: str
    request: type[Request]
    advertised: tuple[int, int]
    listeners: tuple[ListenerKind, ...]


def _declared_in(module: ModuleType) -> Iterator[Api]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Request) and value is not Request:
            name = value.__name__.removesuffix("Request")
            yield Api(value.api, name, value, value.advertised, value.served_by)


_ROWS = sorted((api for module in _MODULES for api in _declared_in(module)), key=lambda api: api.key)

apis: dict[int, Api] = {api.key: api for api in _ROWS}
"""The rows of the table by key."""
assert len(apis) == len(_ROWS), "two requests have the same key"

requests: dict[int, type[Request]] = {api.key: api.request for api in _ROWS}
"""The requests that pykraft can read and write, served or not, by key; `request.response` is the answer's class."""


def advertised(listener: ListenerKind) -> list[tuple[int, int, int]]:
    """(key, lowest version, highest version) of the APIs that a listener serves, as ApiVersions tells them, by key."""
    return [(api.key, *api.advertised) for api in _ROWS if listener in api.listeners]


class Format(NamedTuple):
    """How a request is read after its first four bytes."""

    request: type[Request]
    header_version: int


def formats(listener: ListenerKind) -> Mapping[bytes, Format]:
    """How to read each request that a listener serves, by its first four bytes: API key and version."""
    return _FORMATS[listener]


_KEY_VERSION = struct.Struct(">hh")
_FORMATS = {
    listener: {
        _KEY_VERSION.pack(api.key, version): Format(api.request, request_header_version(api.request, version))
        for api in _ROWS
        if listener in api.listeners
        for version in range(api.request.versions[0], api.request.versions[1] + 1)
    }
    for listener in ListenerKind
}


def served(listener: ListenerKind, key: int, version: int) -> bool:
    """Whether a listener answers this API in this version."""
    return _KEY_VERSION.pack(key, version) in _FORMATS[listener]


def table() -> str:
    """The table as text, one line an API: key, name, versions advertised, listeners."""
    return "\n".join(
        f"{api.key:>2}  {api.name:<29}{'{} to {}'.format(*api.advertised):<9}"
        f"{' and '.join(listener.value for listener in api.listeners) or 'not served yet'}"
        for api in _ROWS
    )
