"""What lab 06 asks of a codec. Frames are compared with those of pykraft's own, which Apache Kafka's clients read."""

import struct

import pytest

from pykraft.protocol.header import encode_request, encode_response
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.primitives import encode_unsigned_varint

TURNS = (0, 1, 126, 127, 128, 129, 255, 256, 16_383, 16_384, 16_511, 2**21 - 1, 2**21, 2**28, 2**32 - 1)
TEXTS = ("", "a", "by-hand", "é", "x" * 126, "x" * 127, "ü" * 100, "x" * 300)


def own(parts):
    return b"".join(bytes(part) for part in parts)


def tagged(fields):
    """Tagged fields as bytes, from (number, value)."""
    parts = [encode_unsigned_varint(len(fields))]
    for number, value in fields:
        parts += [encode_unsigned_varint(number), encode_unsigned_varint(len(value)), value]
    return b"".join(parts)


def first_difference(found, wanted):
    place = next((n for n, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), None)
    place = min(len(found), len(wanted)) if place is None else place
    return f"{len(found)} bytes where Kafka has {len(wanted)}; the first difference is at byte {place}"


# --- task 6.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("6.1", points=2)
def test_a_varint_is_written_as_kafka_writes_it(impl, chance):
    """Numbers around each power of 128, and some between."""
    for value in (*TURNS, *(chance.randrange(2**32) for _ in range(20))):
        found, wanted = impl.write_varint(value), encode_unsigned_varint(value)
        assert found == wanted, f"{value} becomes {found.hex(' ')}, not {wanted.hex(' ')}"


@pytest.mark.task("6.1", points=2)
def test_a_varint_is_read_and_the_position_is_after_it(impl, chance):
    """The same numbers, with other bytes before and after them."""
    for value in (*TURNS, *(chance.randrange(2**32) for _ in range(20))):
        octets = encode_unsigned_varint(value)
        found = impl.read_varint(b"\xff\x01" + octets + b"\xff", 2)
        assert found == (value, 2 + len(octets)), f"{octets.hex(' ')} at 2 is {value}, up to {2 + len(octets)}: {found}"


@pytest.mark.task("6.1", points=2)
def test_a_string_is_written_in_both_forms(impl):
    """Short and long strings, and some whose letters have two bytes: lengths count bytes."""
    for text in TEXTS:
        data = text.encode()
        found, wanted = impl.write_string(text, False), struct.pack(">h", len(data)) + data
        assert found == wanted, f"classic, {text[:10]!r}: {first_difference(found, wanted)}"
        found, wanted = impl.write_string(text, True), encode_unsigned_varint(len(data) + 1) + data
        assert found == wanted, f"compact, {text[:10]!r}: {first_difference(found, wanted)}"


@pytest.mark.task("6.1", points=1)
def test_null_is_no_empty_string(impl):
    """None in both forms."""
    found = impl.write_string(None, False), impl.write_string(None, True)
    assert found == (b"\xff\xff", b"\0"), f"null is ff ff in the classic form and 00 in the compact one, not {found}"


# --- task 6.2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("6.2", points=2)
def test_a_request_has_its_size_its_header_and_its_body(impl, chance):
    """Requests in old versions, with client ids, one of which has letters of two bytes, without one, with bodies."""
    for client_id in ("me", "", None, "librdkafka", "größe"):
        key, version, correlation_id = chance.randrange(90), chance.randrange(20), chance.randrange(2**31)
        body = chance.randbytes(chance.randrange(40))
        found = impl.write_request(key, version, correlation_id, client_id, body, False)
        text = (client_id or "").encode()
        name = struct.pack(">h", -1 if client_id is None else len(text)) + text
        content = struct.pack(">hhi", key, version, correlation_id) + name + body
        wanted = struct.pack(">i", len(content)) + content
        assert found == wanted, f"client id {client_id!r}: {first_difference(found, wanted)}"


@pytest.mark.task("6.2", points=2)
def test_a_flexible_header_keeps_the_old_client_id_and_ends_with_tagged_fields(impl):
    """The same request in a flexible version, and one without a client id."""
    found = impl.write_request(3, 9, 5, "me", b"body", True)
    wanted = struct.pack(">ihhih", 17, 3, 9, 5, 2) + b"me" + b"\0" + b"body"
    assert found == wanted, f"{first_difference(found, wanted)}: {found.hex(' ')}"
    found = impl.write_request(3, 9, 5, None, b"body", True)
    wanted = struct.pack(">ihhih", 15, 3, 9, 5, -1) + b"\0" + b"body"
    assert found == wanted, f"without a client id, {first_difference(found, wanted)}: {found.hex(' ')}"


@pytest.mark.task("6.2", points=2)
def test_unknown_tagged_fields_are_skipped(impl, chance):
    """None, some, some with long values and large numbers, and 200 of them; other bytes before and after them."""
    some = [(chance.randrange(400), chance.randbytes(chance.randrange(300))) for _ in range(5)]
    many = [(number, b"y") for number in range(200)]
    for fields in ([], [(0, b"")], [(7, b"abc")], [(200, b"x" * 200), (201, b"")], some, many):
        octets = b"\x09\x09" + tagged(fields)
        try:
            found = impl.skip_tagged_fields(octets + b"\x05", 2)
        except (IndexError, struct.error):
            found = "a place past the end"
        assert found == len(octets), f"{len(fields)} fields end at {len(octets)}, not at {found}"


# --- task 6.3 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("6.3", points=3)
def test_the_request_is_kafkas_in_every_version(impl):
    """Versions 0 to 4, from a client whose id has letters of one byte or of two."""
    message = ApiVersionsRequest(client_software_name="by-hand", client_software_version="1.0")
    for version, client_id in ((version, client_id) for version in range(5) for client_id in ("me", "größe")):
        found = impl.api_versions_request(version, 41, client_id, "by-hand", "1.0")
        wanted = own(encode_request(message, version, 41, client_id))
        assert found == wanted, f"version {version}, client id {client_id!r}: {first_difference(found, wanted)}"


def read(impl, frame, version):
    """What the learner's code reads, or a sentence about where it went wrong."""
    try:
        return impl.read_api_versions(frame, version)
    except (IndexError, struct.error):
        message = f"version {version}: you read past the end of a response of {len(frame)} bytes"
    raise AssertionError(message)


def some_apis(chance, count):
    keys = chance.sample(range(400), count)
    return {key: (low, low + chance.randrange(9)) for key in keys for low in [chance.randrange(9)]}


@pytest.mark.task("6.3", points=3)
def test_the_response_is_read_in_every_version(impl, chance):
    """Responses of one API to two hundred in versions 0 to 4, some with features in their tagged fields."""
    feature = ApiVersionsResponse.SupportedFeature(name="kraft.version", min_version=0, max_version=1)
    for version in range(5):
        for count in (1, 30, 80, 200):
            apis = some_apis(chance, count)
            rows = [
                ApiVersionsResponse.ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in apis.items()
            ]
            message = ApiVersionsResponse(error_code=0, api_keys=rows, throttle_time_ms=5, supported_features=[feature])
            found = read(impl, own(encode_response(message, version, 77)), version)
            assert found[:2] == (77, 0), f"version {version}: correlation id and error are 77 and 0, not {found[:2]}"
            assert found[2] == apis, f"version {version}, {count} APIs: {len(found[2])} were read, or other ranges"


@pytest.mark.task("6.3", points=2)
def test_an_api_from_tomorrow_may_say_more_than_you_know(impl, chance):
    """A response in version 3 whose APIs have tagged fields."""
    apis = some_apis(chance, 60)
    rows = b"".join(struct.pack(">hhh", k, a, b) + tagged([(9, b"new")] * (k % 3)) for k, (a, b) in apis.items())
    content = struct.pack(">ih", 78, 0) + encode_unsigned_varint(61) + rows + bytes(4) + tagged([(3, b"\1")])
    found = read(impl, struct.pack(">i", len(content)) + content, 3)
    assert found == (78, 0, apis), f"{len(found[2])} APIs were read of 60, or other ranges"


@pytest.mark.task("6.3", points=2)
def test_a_broker_that_does_not_know_the_version_answers_in_version_0(impl):
    """You asked in version 4. A response with error 35, UNSUPPORTED_VERSION, is in version 0; one with another error
    is in version 4."""
    known = [ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)]
    frame = own(encode_response(ApiVersionsResponse(error_code=35, api_keys=known), 0, 79))
    found = read(impl, frame, 4)
    assert found == (79, 35, {18: (0, 2)}), f"the response says version 0 to 2 of API 18, and you read {found}"
    for error in (34, 36, 42, -1):
        frame = own(encode_response(ApiVersionsResponse(error_code=error, api_keys=known), 4, -79))
        found = read(impl, frame, 4)
        assert found == (-79, error, {18: (0, 2)}), (
            f"error {error} comes in the version asked for, and you read {found}"
        )


# --- task 6.4 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("6.4", points=2)
def test_the_highest_common_version_is_chosen(impl):
    """Ranges that overlap, that touch, that lie within each other."""
    ours = {0: (3, 7), 1: (4, 11), 3: (0, 30), 18: (0, 4)}
    found = impl.agreed_versions(ours, {0: (0, 13), 1: (11, 18), 3: (5, 13), 18: (4, 4), 99: (0, 0)})
    assert found == {0: 7, 1: 11, 3: 13, 18: 4}, f"you agree on {found}"


@pytest.mark.task("6.4", points=1)
def test_without_a_common_version_there_is_none(impl):
    """Ranges that lie apart, on either side, and APIs that one side lacks."""
    found = impl.agreed_versions({4: (0, 2), 5: (6, 9), 6: (0, 0)}, {4: (3, 5), 5: (0, 5), 7: (0, 1)})
    assert found == {}, f"there is nothing to agree on, and you say {found}"
