"""The schema compiler, one sentence at a time, on small made-up messages."""

import struct
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ProtocolError
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol import header
from pykraft.protocol import source as source_module
from pykraft.protocol.header import RequestHeader, request_header_version, response_header_version
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from pykraft.protocol.messages.records import FeatureLevelRecord
from pykraft.protocol.primitives import decode_unsigned_varint, encode_unsigned_varint
from pykraft.protocol.schema import (
    Array,
    Message,
    Request,
    Response,
    Struct,
    boolean,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    octets,
    record_batches,
    source,
    string,
    uint16,
    uint32,
    uuid,
)

UUID = Uuid(bytes(range(16)))


def one_field(annotation: Any, **said: Any) -> type[Any]:
    """A message with the one field `value`: version 0 is classic, version 1 flexible."""
    body = {"__annotations__": {"value": annotation}} | ({"value": field(**said)} if said else {})
    return type("One", (Message,), body, versions=(0, 1), flexible=1)


# --- the bytes of each type -------------------------------------------------------------------------------------------

GOLDEN = [
    (int8, -2, "fe", "fe"),
    (int16, -2, "fffe", "fffe"),
    (uint16, 65534, "fffe", "fffe"),
    (int32, 258, "00000102", "00000102"),
    (uint32, 4294967294, "fffffffe", "fffffffe"),
    (int64, -2, "fffffffffffffffe", "fffffffffffffffe"),
    (float64, 1.5, "3ff8000000000000", "3ff8000000000000"),
    (boolean, True, "01", "01"),
    (boolean, False, "00", "00"),
    (uuid, UUID, "000102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f"),
    (string, "", "0000", "01"),
    (string, "é", "0002 c3a9", "03 c3a9"),
    (string, "x" * 127, "007f" + "78" * 127, "8001" + "78" * 127),
    (string | None, None, "ffff", "00"),
    (octets, b"\0\1", "00000002 0001", "03 0001"),
    (octets | None, None, "ffffffff", "00"),
    (record_batches, b"\0\1", "00000002 0001", "03 0001"),
    (record_batches | None, None, "ffffffff", "00"),
    (Array[int8], [], "00000000", "01"),
    (Array[int8], [1, -1], "00000002 01 ff", "03 01 ff"),
    (Array[int32], [1, -1], "00000002 00000001 ffffffff", "03 00000001 ffffffff"),
    (Array[string], ["a", "b"], "00000002 0001 61 0001 62", "03 02 61 02 62"),
    (Array[uuid], [ZERO_UUID], "00000001" + "00" * 16, "02" + "00" * 16),
    (Array[int32] | None, None, "ffffffff", "00"),
]


@pytest.mark.parametrize(("annotation", "value", "classic", "compact"), GOLDEN)
def test_each_type_has_its_bytes(annotation: Any, value: Any, classic: str, compact: str) -> None:
    message = one_field(annotation)
    for version, expected in ((0, bytes.fromhex(classic)), (1, bytes.fromhex(compact) + b"\0")):
        assert message(value=value).to_bytes(version) == expected
        assert message.decode_from(expected, version) == (message(value=value), len(expected))


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 4095, 4096, 16383, 16384, 2**31 - 1, 2**32 - 1])
def test_an_unsigned_varint_has_seven_bits_a_byte_the_least_significant_first(number: int) -> None:
    digits = []
    rest = number
    while rest > 127:
        rest, digit = divmod(rest, 128)
        digits.append(digit + 128)
    assert encode_unsigned_varint(number) == bytes([*digits, rest])


@pytest.mark.parametrize("length", [126, 127, 4094, 4095, 4096])
def test_a_length_that_encoders_look_up_has_the_bytes_of_one_that_they_work_out(length: int) -> None:
    written = one_field(string)(value="a" * length).to_bytes(1)
    assert written == encode_unsigned_varint(length + 1) + b"a" * length + b"\0"


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_an_unsigned_varint_is_read_as_it_was_written(number: int, rest: bytes) -> None:
    encoded = encode_unsigned_varint(number)
    assert decode_unsigned_varint(memoryview(encoded + rest), 0) == (number, len(encoded))


def test_an_unsigned_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_unsigned_varint(memoryview(b"\x80" * 5 + b"\0"), 0)


def test_a_uuid_that_is_cut_off_is_named() -> None:
    with pytest.raises(ProtocolError, match="value claims 16 bytes or elements, 15 bytes are left"):
        one_field(uuid).decode(bytes(15), 0)


def test_any_byte_but_0_is_true() -> None:
    assert one_field(boolean).decode(b"\x02", 0).value is True


def test_text_that_is_no_utf_8_is_read_with_replacement_characters() -> None:
    assert one_field(string).decode(b"\0\2a\xff", 0).value == "a\ufffd"


@pytest.mark.parametrize(("annotation", "value"), [(int8, 128), (int16, -32769), (uint16, -1), (int32, 1 << 31)])
def test_a_number_that_does_not_fit_is_not_written(annotation: Any, value: int) -> None:
    with pytest.raises(struct.error):
        one_field(annotation)(value=value).to_bytes(0)


# --- versions ---------------------------------------------------------------------------------------------------------


class Grown(Message, versions=(1, 4), flexible=4):
    """A field of each age."""

    always: int8
    old: int8 = field(default=-1, until=2)
    new: int8 = field(default=-2, since=3)
    middle: int8 = field(default=-3, since=2, until=3)


@pytest.mark.parametrize(("version", "expected"), [(1, "01 02"), (2, "01 02 04"), (3, "01 03 04"), (4, "01 03 00")])
def test_a_field_is_on_the_wire_from_since_to_until(version: int, expected: str) -> None:
    encoded = bytes.fromhex(expected)
    assert Grown(always=1, old=2, new=3, middle=4).to_bytes(version) == encoded


def test_a_field_that_the_version_lacks_has_its_default() -> None:
    assert Grown.decode(bytes.fromhex("01 02"), 1) == Grown(always=1, old=2, new=-2, middle=-3)
    assert Grown.decode(bytes.fromhex("01 03 00"), 4) == Grown(always=1, old=-1, new=3, middle=-3)


@pytest.mark.parametrize("version", [-1, 0, 5])
def test_a_version_outside_the_range_is_neither_read_nor_written(version: int) -> None:
    with pytest.raises(ProtocolError):
        Grown.decode(bytes(9), version)
    with pytest.raises(AssertionError):
        Grown(always=1).encode(version)


def test_a_field_without_a_default_has_its_types() -> None:
    class Plain(Message):
        class Part(Struct):
            number: int32

        number: int64
        flag: boolean
        fraction: float64
        text: string
        blob: octets
        id: uuid
        list: Array[Part]
        part: Part

    empty = Plain()
    assert (empty.number, empty.flag, empty.fraction, empty.text, empty.blob) == (0, False, 0.0, "", b"")
    assert (empty.id, empty.list, empty.part) == (ZERO_UUID, (), None)


class Nullable(Message, versions=(0, 3), flexible=2):
    """`early` may be null in every version, `late` from version 1 on."""

    early: string | None = field(default=None)
    late: Array[int8] | None = field(default=(), nullable_since=1)


def test_null_is_allowed_from_nullable_since_on() -> None:
    assert Nullable(late=None).to_bytes(1) == bytes.fromhex("ffff ffffffff")
    assert Nullable.decode(bytes.fromhex("ffff ffffffff"), 1).late is None
    assert Nullable(late=None).to_bytes(2) == bytes.fromhex("00 00 00")
    assert Nullable.decode(bytes.fromhex("00 00 00"), 2).late is None
    with pytest.raises(ProtocolError, match="late is null, which this version does not allow"):
        Nullable.decode(bytes.fromhex("ffff ffffffff"), 0)
    with pytest.raises(TypeError):
        Nullable(late=None).to_bytes(0)


def test_a_field_that_is_not_flexible_keeps_the_classic_form() -> None:
    message = one_field(string, default="", flexible=False)
    assert message(value="ab").to_bytes(1) == bytes.fromhex("0002 6162 00")
    assert message.decode(bytes.fromhex("0002 6162 00"), 1) == message(value="ab")


# --- structures -------------------------------------------------------------------------------------------------------


class Tree(Message, versions=(0, 1), flexible=1):
    """Arrays in arrays, a structure that may be null, and one that may not."""

    class Branch(Struct):
        class Leaf(Struct):
            weight: int16
            names: Array[string]

        leaves: Array[Leaf]
        best: Leaf | None = field(default=None)

    branches: Array[Branch] | None = field(default=None)
    root: Branch


LEAF = Tree.Branch.Leaf(weight=1, names=["a"])


def test_arrays_of_structures_stand_in_each_other() -> None:
    tree = Tree(branches=[Tree.Branch(leaves=[LEAF, LEAF], best=LEAF)], root=Tree.Branch(leaves=[]))
    leaf = "0001 00000001 0001 61"
    classic = bytes.fromhex(f"00000001 00000002 {leaf} {leaf} 01 {leaf} 00000000 ff")
    assert tree.to_bytes(0) == classic
    assert Tree.decode_from(classic, 0) == (tree, len(classic))
    leaf = "0001 02 02 61 00"
    compact = bytes.fromhex(f"02 03 {leaf} {leaf} 01 {leaf} 00 01 ff 00 00")
    assert tree.to_bytes(1) == compact
    assert Tree.decode_from(compact, 1) == (tree, len(compact))


# --- tagged fields ----------------------------------------------------------------------------------------------------


class Tagged(Message, versions=(0, 2), flexible=1):
    """Tags 1 and 0, in this order; from version 2 on 5 and 6, too."""

    class Part(Struct):
        number: int8 = field(default=-1)

    plain: int8
    number: int16 = field(default=-1, since=1, tag=1)
    part: Part | None = field(default=None, since=1, tag=0)
    numbers: Array[int8] = field(default=(), since=2, tag=5)
    text: string | None = field(default=None, since=2, tag=6)


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (Tagged(plain=9), 0, "09"),
        (Tagged(plain=9), 1, "09 00"),
        (Tagged(plain=9, number=258), 0, "09"),
        (Tagged(plain=9, number=258), 1, "09 01 01 02 0102"),
        (Tagged(plain=9, number=-1, part=Tagged.Part(number=3)), 1, "09 01 00 02 03 00"),
        (Tagged(plain=9, number=0, part=Tagged.Part()), 2, "09 02 00 02 ff 00 01 02 0000"),
        (Tagged(plain=9, numbers=[7], text="x"), 1, "09 00"),
        (Tagged(plain=9, numbers=[7], text="x"), 2, "09 02 05 02 02 07 06 02 02 78"),
        (Tagged(plain=9, text=""), 2, "09 01 06 01 01"),
    ],
)
def test_tagged_fields_are_written_in_the_order_of_their_tags_unless_they_are_default(
    message: Tagged, version: int, expected: str
) -> None:
    assert message.to_bytes(version) == bytes.fromhex(expected)
    decoded, end = Tagged.decode_from(bytes.fromhex(expected), version)
    assert end == len(bytes.fromhex(expected))
    assert decoded.to_bytes(version) == bytes.fromhex(expected)


def test_a_tagged_field_that_is_left_out_has_its_default() -> None:
    assert Tagged.decode(bytes.fromhex("09 00"), 2) == Tagged(plain=9)


def test_a_tag_that_the_version_lacks_is_skipped() -> None:
    assert Tagged.decode(bytes.fromhex("09 02 01 02 0102 05 02 02 07"), 1) == Tagged(plain=9, number=258)


def test_a_nullable_tagged_field_with_another_default_can_be_null() -> None:
    message = one_field(string | None, default="default", since=1, tag=0)
    assert message(value=None).to_bytes(1) == bytes.fromhex("01 00 01 00")
    assert message.decode(bytes.fromhex("01 00 01 00"), 1) == message(value=None)
    assert message(value="default").to_bytes(1) == b"\0"


# --- messages as objects ----------------------------------------------------------------------------------------------


def test_messages_are_compared_by_value() -> None:
    assert Grown(always=1) == Grown(always=1, old=-1)
    assert Grown(always=1) != Grown(always=2)
    assert Grown(always=1) != Nullable()
    assert Nullable(late=[1, 2]) == Nullable(late=(1, 2))
    assert Nullable(late=[1, 2]) != Nullable(late=[1, 2, 3])


def test_a_field_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Grown has no \['young'\]"):
        Grown(always=1, young=2)


def test_replace_makes_a_copy() -> None:
    one = Grown(always=1, old=5)
    assert one.replace(always=2) == Grown(always=2, old=5)
    assert one == Grown(always=1, old=5)


def test_a_message_shows_the_fields_that_were_given() -> None:
    assert repr(Grown(always=1, new=5)) == "Grown(always=1, new=5)"


def test_a_response_takes_key_and_versions_from_its_request() -> None:
    class PingRequest(Request, api=999, versions=(2, 7), flexible=5):
        pass

    class PingResponse(Response, to=PingRequest):
        pass

    assert PingRequest.response is PingResponse
    assert (PingResponse.api, PingResponse.versions, PingResponse.flexible) == (999, (2, 7), 5)


def test_a_message_without_fields_has_no_bytes_but_its_tags() -> None:
    class Empty(Message, versions=(0, 1), flexible=1):
        pass

    assert [Empty().to_bytes(version) for version in (0, 1)] == [b"", b"\0"]
    assert Empty.decode(b"", 0) == Empty()


def test_records_are_handed_on_as_they_are() -> None:
    batches = memoryview(b"a batch")
    message = one_field(record_batches)
    assert any(part is batches for part in message(value=batches).encode(1))


def test_the_source_of_a_version_can_be_read() -> None:
    text = source(Grown, 3)
    assert "(m.always, m.new, m.middle)" in text
    assert "def decode(b, p, e):" in text


def test_the_decoder_that_the_documentation_shows_is_the_one_that_is_written() -> None:
    text = source(FeatureLevelRecord, 0)
    shown = textwrap.indent(text[text.index("def decode") :].rstrip(), "    ")
    assert f"\n\n{shown}\n\n" in (source_module.__doc__ or "")


# --- headers ----------------------------------------------------------------------------------------------------------


def test_the_answer_to_api_versions_has_the_oldest_header() -> None:
    assert response_header_version(ApiVersionsResponse, 4) == 0
    assert request_header_version(ApiVersionsRequest, 4) == 2
    assert [response_header_version(MetadataRequest.response, version) for version in (8, 9)] == [0, 1]
    assert [request_header_version(MetadataRequest, version) for version in (8, 9)] == [1, 2]


def test_a_request_is_framed_by_its_size() -> None:
    parts = header.encode_request(MetadataRequest(topics=None), 1, correlation_id=7, client_id=None)
    assert b"".join(parts) == bytes.fromhex("0000000e 0003 0001 00000007 ffff ffffffff")


def test_a_header_without_a_client_id_is_read() -> None:
    assert RequestHeader.decode(bytes.fromhex("0003 0001 00000007 ffff"), 1).client_id is None
