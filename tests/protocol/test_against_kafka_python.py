"""kafka-python, a second opinion on every message that it knows: all versions, random values.

kafka-python 3 builds its classes when it is imported, from the JSON files of Apache Kafka, by code that has nothing in
common with kio's. It knows what clients send and get, not what nodes say to each other.
"""

import importlib
import pkgutil
import warnings
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykraft.common.types import ZERO_UUID
from pykraft.protocol.messages.cluster import OPERATIONS_NOT_ASKED_FOR, ApiVersionsResponse
from pykraft.protocol.schema import Message, Request, Struct
from tests.protocol.values import (
    EXAMPLES_PER_VERSION,
    RPCS,
    each_version,
    example,
    random_messages,
    structures,
    with_field,
)

WHAT_KAFKA_PYTHON_CAN_HOLD: dict[type[Message], dict[str, st.SearchStrategy[Any]]] = {
    # With an error it takes the rest for version 0, as the answer to an unsupported version is.
    ApiVersionsResponse: {"error_code": st.just(0)},
}

THEIR_NAMES = {
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
    "generation_id_or_member_epoch": "generation_id",
}


def kafka_python_classes() -> dict[tuple[int, bool], Any]:
    """Its classes by (API key, whether it is the request)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its JSON files in a way that Python gave up
        package = importlib.import_module("kafka.protocol")
        for module in pkgutil.walk_packages(package.__path__, "kafka.protocol."):
            if ".old" not in module.name:
                importlib.import_module(module.name)
    base = importlib.import_module("kafka.protocol.api_message").ApiMessage
    return {(c.API_KEY, c.is_request()): c for c in base.__subclasses__()}


THEIRS = kafka_python_classes()
MESSAGES = [message for message in RPCS if (message.api, issubclass(message, Request)) in THEIRS]


def their_class(message: Any) -> Any:
    return THEIRS[message.api, issubclass(message, Request)]


def on_the_wire(value: Any) -> Any:
    """A value of kafka-python's as the number, text or bytes that it is on the wire."""
    match value:
        case UUID():
            return value.bytes
        case set():
            bits = sum(1 << bit for bit in value)
            return bits - (1 << 32) if 31 in value else bits
        case _:
            return value


def assert_same(ours: Struct, theirs: Any, version: int) -> None:
    """Same fields in the same order, with the same values."""
    present = [f for f in ours.fields if f.present(version)]
    names = [f.name if f.name in theirs.fields else THEIR_NAMES.get(f.name, f.name) for f in present]
    assert names == [f.name for f in theirs.fields.values() if f.for_version_q(version)]
    for f, name in zip(present, names, strict=True):
        one, other = getattr(ours, f.name), getattr(theirs, name)
        for a, b in zip(one, other, strict=True) if f.wire.array and one is not None else [(one, other)]:
            if isinstance(a, Struct):
                assert_same(a, b, version)
            else:
                assert a == on_the_wire(b) or (b is None and a in (ZERO_UUID, OPERATIONS_NOT_ASKED_FOR))


def assert_kafka_python_agrees(message: Any, theirs: Any, version: int) -> None:
    encoded = message.to_bytes(version)
    decoded = theirs.decode(encoded, version=version)
    assert_same(message, decoded, version)
    decoded._header = None  # it asks for it when it encodes what it has decoded without one
    assert decoded.encode(version=version) == encoded
    assert type(message).decode(encoded, version) == message


def test_kafka_python_knows_what_clients_send() -> None:
    known = {message.__name__ for message in MESSAGES if issubclass(message, Request)}
    assert known >= {"ProduceRequest", "FetchRequest", "MetadataRequest", "DescribeQuorumRequest"}
    assert len(known) >= 40


@each_version(MESSAGES, older=True)
@settings(max_examples=EXAMPLES_PER_VERSION)
@given(data=st.data())
def test_kafka_python_reads_what_we_write_and_writes_what_we_read(
    message: type[Message], version: int, data: Any
) -> None:
    value = data.draw(random_messages(message, version, WHAT_KAFKA_PYTHON_CAN_HOLD.get(message)))
    assert_kafka_python_agrees(value, their_class(message), version)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_kafka_python_notices_each_field_that_begins_one_version_late(message: type[Message]) -> None:
    for structure in set(structures(message)):
        for late in structure.fields:
            version = max(late.since, message.versions[0])
            if structure in structures(message, version):
                mistaken = example(with_field(message, structure, late, since=version + 1), version)
                assert not agrees(mistaken, their_class(message), version), f"{structure.__qualname__}.{late.name}"


def agrees(message: Any, theirs: Any, version: int) -> bool:
    """Whether bytes and values are the same. What kafka-python raises on bytes that it cannot read is not specified."""
    try:
        assert_kafka_python_agrees(message, theirs, version)
    except Exception:
        return False
    return True
