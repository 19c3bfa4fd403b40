"""kio, another implementation of Kafka's protocol, reads what we write and writes what we read: all messages, all
versions, random values.

kio was generated from the JSON files of Apache Kafka 4.3. Equal bytes alone would not show two neighbours of one type
in the wrong order, so names and values are compared, too.
"""

import dataclasses
import enum
import importlib
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from pykraft.common.types import ZERO_UUID
from pykraft.protocol.messages.control import EndTxnMarker
from pykraft.protocol.schema import Message, Request, Response, Struct
from tests.protocol.values import (
    DATA,
    EXAMPLES_PER_VERSION,
    RPCS,
    each_version,
    example,
    older_versions,
    random_messages,
    structures,
    with_field,
)

ERROR_CODES = st.sampled_from([int(code) for code in ErrorCode])
# Milliseconds up to the end of the year 9999; -1 stands for no time.
TIMES = st.integers(-1, 253_402_300_799_999)

WHAT_KIO_CAN_HOLD = {
    "error_code": ERROR_CODES,  # an enum, and codes that it does not know are errors
    "topic_config_error_code": ERROR_CODES,
    "partition_error_code": ERROR_CODES,
    "transaction_start_time_ms": st.integers(0, 253_402_300_799_999),
    "log_append_time_ms": TIMES,  # a datetime or None, while Kafka has any int64
    "retention_time_ms": TIMES,  # a timedelta, which is exact to the millisecond for some centuries
    "session_lifetime_ms": TIMES,
}

OUR_NAMES = {
    "id_": "id",
    "type_": "type",
    "k_raft_version": "kraft_version",
    "k_raft_version_feature": "kraft_version_feature",
    "request_api_key": "api_key",
    "request_api_version": "api_version",
}

KIO_DISAGREES = (AssertionError, SerialError, LookupError, ValueError, OverflowError)

# In kio the version in front of a marker is not part of it.
MESSAGES = [message for message in RPCS + DATA if message is not EndTxnMarker]


def kio_class(message: type[Message], version: int) -> type[Any]:
    name = message.__name__
    kind = "request" if issubclass(message, Request) else "response" if issubclass(message, Response) else "data"
    if name.endswith("Header"):
        kind = "header"
    folder = re.sub(r"(?<!^)(?=[A-Z])", "_", re.sub("(?<!Header)(Request|Response)$", "", name)).lower()
    return getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.{kind}"), name)


def on_the_wire(value: Any) -> Any:
    """A value of kio's as the number, text or bytes that it is on the wire."""
    match value:
        case enum.Enum():
            return value.value
        case timedelta():
            return round(value / timedelta(milliseconds=1))
        case datetime():
            return round((value - datetime.fromtimestamp(0, UTC)) / timedelta(milliseconds=1))
        case UUID():
            return value.bytes
        case _:
            return value


def assert_same(ours: Struct, theirs: Any, version: int) -> None:
    """Same fields in the same order, with the same values."""
    our_fields = [f for f in ours.fields if f.present(version)]
    assert [_common_name(f.name) for f in our_fields] == [
        _common_name(OUR_NAMES.get(f.name, f.name)) for f in dataclasses.fields(theirs)
    ]
    for f, their_field in zip(our_fields, dataclasses.fields(theirs), strict=True):
        our_value, their_value = getattr(ours, f.name), getattr(theirs, their_field.name)
        if our_value is None and f.tag is not None and isinstance(f.wire.element, type):
            assert_same(f.wire.element(), their_value, version)
        elif our_value is not None and f.wire.array:
            assert len(our_value) == len(their_value)
            for one, other in zip(our_value, their_value, strict=True):
                assert_same_value(one, other, version)
        elif their_value is None:
            assert our_value in (None, -1, ZERO_UUID)
        else:
            assert_same_value(our_value, their_value, version)


def _common_name(name: str) -> str:
    """kio has durations without their unit, and Kafka 4.4 another name for the generation in TxnOffsetCommit."""
    return name.removesuffix("_ms").removesuffix("_or_member_epoch")


def assert_same_value(ours: Any, theirs: Any, version: int) -> None:
    if isinstance(ours, Struct):
        assert_same(ours, theirs, version)
    elif theirs is None:
        assert ours == ZERO_UUID
    else:
        assert ours == on_the_wire(theirs)


def assert_kio_agrees(message: Any, theirs: type[Any], version: int) -> None:
    encoded = message.to_bytes(version)
    entity, size = entity_reader(theirs)(encoded, 0)
    assert size == len(encoded)
    assert_same(message, entity, version)
    out = io.BytesIO()
    entity_writer(theirs)(out, entity)
    assert out.getvalue() == encoded
    assert type(message).decode(out.getvalue(), version) == message


@each_version(MESSAGES, older=True)
@settings(max_examples=EXAMPLES_PER_VERSION)
@given(data=st.data())
def test_kio_reads_what_we_write_and_writes_what_we_read(message: type[Message], version: int, data: Any) -> None:
    value = data.draw(random_messages(message, version, WHAT_KIO_CAN_HOLD))
    assert_kio_agrees(value, kio_class(message, version), version)


@each_version(MESSAGES, older=True)
def test_null_and_the_defaults_are_where_kio_has_them(message: type[Message], version: int) -> None:
    for ours, theirs in pairs(message, kio_class(message, version), version):
        for f, their_field in zip(
            [f for f in ours.fields if f.present(version)], dataclasses.fields(theirs), strict=True
        ):
            where = f"{ours.__qualname__}.{f.name}"
            default = their_field.default
            if default is None and f.wire.is_uuid and not f.wire.array:
                default = ZERO_UUID
            if default is None and f.name in WHAT_KIO_CAN_HOLD:
                default = -1
            elif not f.wire.is_uuid:
                assert (type(None) in get_args(their_field.type)) == f.nullable(version), where
            if default is not dataclasses.MISSING and not dataclasses.is_dataclass(default):
                assert on_the_wire(default) == f.default, where


def pairs(ours: type[Struct], theirs: type[Any], version: int) -> Iterator[tuple[type[Struct], type[Any]]]:
    """Our structures and kio's: the message's own and the nested ones."""
    yield ours, theirs
    for f, their_field in zip([f for f in ours.fields if f.present(version)], dataclasses.fields(theirs), strict=True):
        if isinstance(f.wire.element, type):
            (nested,) = dataclasses_in(their_field.type)
            yield from pairs(f.wire.element, nested, version)


def dataclasses_in(annotation: Any) -> list[type[Any]]:
    """The class in an annotation such as ``tuple[Topic, ...] | None``."""
    if dataclasses.is_dataclass(annotation):
        return [annotation]
    return [found for part in get_args(annotation) for found in dataclasses_in(part)]


# --- the test can fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [m for m in MESSAGES if older_versions(m)], ids=lambda message: message.__name__)
def test_kio_notices_each_field_that_begins_one_version_late(message: type[Message]) -> None:
    for structure in set(structures(message)):
        for late in structure.fields:
            version = max(late.since, message.versions[0])
            if version not in older_versions(message):
                continue
            mistaken = with_field(message, structure, late, since=version + 1)
            if structure in structures(message, version):
                with pytest.raises(KIO_DISAGREES):
                    assert_kio_agrees(example(mistaken, version), kio_class(message, version), version)
