"""Decoders face bytes from anybody: they return a message or raise ProtocolError, at once, and nothing else happens.

What Apache Kafka tolerates is tolerated: unknown tagged fields, and bytes after the message.
"""

import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykraft.common.errors import ProtocolError
from pykraft.protocol.header import RequestHeader, peek
from pykraft.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.records import BeginTransactionRecord
from pykraft.protocol.schema import Message, Struct, encoder
from pykraft.protocol.wire import FOR_EVER, Field, Variable, Wire
from tests.protocol.values import (
    DATA,
    EXAMPLES_PER_VERSION,
    METADATA,
    RPCS,
    each_version,
    example,
    structures,
    with_field,
    with_fields,
)

EVERYTHING = RPCS + DATA + METADATA
OCTETS = Wire(Variable("bytes", "i", b""), False, False)

# --- truncated, random, damaged ---------------------------------------------------------------------------------------


@each_version(EVERYTHING)
def test_a_message_cut_off_anywhere_is_refused(message: type[Message], version: int) -> None:
    encoded = example(message, version).to_bytes(version)
    assert message.decode_from(encoded, version) == (example(message, version), len(encoded))
    for size in range(len(encoded)):
        with pytest.raises(ProtocolError):
            message.decode(encoded[:size], version)


@each_version(EVERYTHING)
@settings(max_examples=EXAMPLES_PER_VERSION)
@given(junk=st.binary(max_size=80))
def test_random_bytes_are_a_message_or_refused(message: type[Message], version: int, junk: bytes) -> None:
    decode_or_refuse(message, version, junk)


@each_version(EVERYTHING)
@settings(max_examples=EXAMPLES_PER_VERSION)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_message_is_a_message_or_refused(message: type[Message], version: int, seed: int) -> None:
    damage = random.Random(seed)
    encoded = bytearray(example(message, version).to_bytes(version))
    for _ in range(damage.randint(1, 4)):
        if encoded:
            encoded[damage.randrange(len(encoded))] = damage.choice([0, 1, 2, 127, 128, 255, damage.randrange(256)])
    decode_or_refuse(message, version, bytes(encoded))


def decode_or_refuse(message: type[Message], version: int, octets: bytes) -> None:
    """What was read can be used: compared, shown and written."""
    try:
        value, end = message.decode_from(octets, version)
    except ProtocolError as error:
        assert str(error)
    else:
        assert 0 <= end <= len(octets)
        assert repr(value)
        value.to_bytes(version)


def test_a_frame_too_short_for_a_header_is_refused() -> None:
    for size in range(8):
        with pytest.raises(ProtocolError):
            peek(memoryview(bytes(size)))


@pytest.mark.parametrize("version", [-32768, -1, 14, 32767])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"MetadataRequest has no version {version}"):
        MetadataRequest.decode(bytes(100), version)


# --- counts and sizes that lie ----------------------------------------------------------------------------------------


class HugeBytes(bytes):
    """Bytes that claim to be very many, though none follow."""

    claim = 0

    def __len__(self) -> int:
        return self.claim


class HugeString(str):
    """A string whose bytes make such a claim."""

    claim = 0

    def encode(self, *_: Any) -> bytes:
        return with_claim(HugeBytes(), self.claim)


class HugeArray(tuple[Any, ...]):
    """An array that makes such a claim."""

    claim = 0

    def __len__(self) -> int:
        return self.claim


class Nothing(Struct):
    """The elements of an array without elements."""


def with_claim(liar: Any, claim: int) -> Any:
    liar.claim = claim
    return liar


@each_version(EVERYTHING)
def test_a_huge_count_or_size_is_refused_before_anything_is_allocated(message: type[Message], version: int) -> None:
    lies = list(lying(message, version))
    tracemalloc.start()
    try:
        for encoded in lies:
            with pytest.raises(ProtocolError, match="claims"):
                message.decode(encoded, version)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def lying(message: type[Message], version: int) -> Iterator[bytes]:
    """The message's example in which one field, each in turn, claims to be huge."""
    for structure, f in fields_with_a_size(message, version):
        liar: Any = HugeArray() if f.wire.array else HugeBytes()
        copy: type[Any] = message
        claims = (0x7FFFFFFF,)
        if f.wire.array:
            copy = with_field(message, structure, f, wire=f.wire._replace(element=Nothing))
        elif f.wire.element == Variable("string", "h", ""):
            liar, claims = HugeString(), (0x7FFF,)
        if version >= message.flexible and f.flexible:
            claims = (0x7FFFFFFE, 0xFFFFFFFE)
        for claim in claims:
            value = example(message, version)
            put(value, structure, f, with_claim(liar, claim))
            yield encoded_as(copy, value, version)


def fields_with_a_size(message: type[Message], version: int) -> Iterator[tuple[type[Struct], Field]]:
    """The arrays, strings and bytes of a message and of what is nested in it."""
    for structure in dict.fromkeys(structures(message, version)):
        for f in structure.fields:
            if f.present(version) and (f.wire.array or isinstance(f.wire.element, Variable)):
                yield structure, f


def put(value: Struct, structure: type[Struct], f: Field, new: Any) -> None:
    """Give the field of all structures of this kind a new value."""
    for nested in value.fields:
        within = getattr(value, nested.name)
        for element in within if nested.wire.array and within else [within]:
            if isinstance(element, Struct):
                put(element, structure, f, new)
    if type(value) is structure:
        setattr(value, f.name, new)


def encoded_as(message: type[Message], value: Message, version: int) -> bytes:
    """The bytes of a value as if it were a message of this class."""
    parts: list[bytes] = []
    encoder(message, version)(value, parts.append)
    return b"".join(parts)


def test_a_string_of_more_than_32767_bytes_is_refused_in_the_compact_form_too() -> None:
    def encoded(size: int) -> bytes:
        return ApiVersionsRequest(client_software_name="x" * size).to_bytes(3)

    assert len(ApiVersionsRequest.decode(encoded(32767), 3).client_software_name) == 32767
    with pytest.raises(ProtocolError, match="client_software_name is longer than 32767 bytes"):
        ApiVersionsRequest.decode(encoded(32768), 3)


def test_a_tagged_field_longer_than_it_says_is_refused() -> None:
    """Else the same bytes could be read as a value of each of many tags: work that grows with the frame's square."""
    assert BeginTransactionRecord.decode(bytes.fromhex("0100 06 06") + b"hello", 0).name == "hello"
    for size in range(6):
        with pytest.raises(ProtocolError, match=f"a tagged field is longer than {size} bytes"):
            BeginTransactionRecord.decode(bytes([1, 0, size, 6]) + b"hello", 0)


# --- null where it may not be -----------------------------------------------------------------------------------------


@each_version(EVERYTHING)
def test_null_in_a_field_that_cannot_be_null_is_refused(message: type[Message], version: int) -> None:
    for structure, f in fields_with_a_size(message, version):
        if not f.nullable(version):
            copy = with_field(message, structure, f, wire=f.wire._replace(nullable=True), nullable_since=0)
            value = example(message, version)
            put(value, structure, f, None)
            with pytest.raises(ProtocolError, match=f"{f.name} is null"):
                message.decode(encoded_as(copy, value, version), version)


# --- what is tolerated ------------------------------------------------------------------------------------------------


@each_version(EVERYTHING, flexible=True)
def test_unknown_tagged_fields_are_skipped(message: type[Message], version: int) -> None:
    unknown = [Field(f"unknown{tag}", OCTETS, b"", 0, FOR_EVER, 0, tag, True) for tag in (77, 1000)]
    copy = with_fields(message, lambda _, fields: [*fields, *unknown])
    value = example(copy, version)
    encoded, expected = value.to_bytes(version), encoded_as(message, value, version)
    assert len(encoded) > len(expected)
    decoded, end = message.decode_from(encoded, version)
    assert end == len(encoded)
    assert decoded.to_bytes(version) == expected


@each_version(EVERYTHING)
def test_bytes_after_a_message_are_ignored(message: type[Message], version: int) -> None:
    encoded = example(message, version).to_bytes(version)
    assert message.decode_from(encoded + b"\x01\xff trailing", version) == (example(message, version), len(encoded))


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_what_librdkafka_sends_to_ask_for_all_topics_is_understood(version: int) -> None:
    """It leaves the four bytes in place in which a classic count would be, so three bytes too many follow."""
    request = MetadataRequest.decode(bytes.fromhex("00000000010000"), version)
    assert request.topics is None


def test_a_client_id_keeps_the_classic_form_in_the_flexible_header() -> None:
    header = RequestHeader(api_key=3, api_version=12, correlation_id=7, client_id="me")
    assert header.to_bytes(2) == bytes.fromhex("0003 000c 00000007 0002 6d65 00")


def test_records_are_a_view_of_the_frame() -> None:
    frame = ProduceRequest(acks=1, timeout_ms=1, topic_data=[produced(b"batch")]).to_bytes(9)
    view = memoryview(frame)
    records = ProduceRequest.decode(view, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert records == b"batch"


def produced(records: bytes) -> ProduceRequest.Topic:
    partition = ProduceRequest.Topic.Partition(index=0, records=records)
    return ProduceRequest.Topic(name="topic", partition_data=[partition])
