"""Lab 06: the header of a request, and the API that comes first."""

import struct


# --- task 6.1: numbers and strings ---
def write_varint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first; the highest bit says that another byte
    follows."""
    if value < 128:
        return bytes([value])
    return bytes([128 + value % 128]) + write_varint(value // 128)


def read_varint(frame: bytes, position: int) -> tuple[int, int]:
    """The varint that begins at `position`, and the position after it."""
    octet = frame[position]
    if octet < 128:
        return octet, position + 1
    rest, end = read_varint(frame, position + 1)
    return octet - 128 + 128 * rest, end


def write_string(text: str | None, compact: bool) -> bytes:
    """A string in the classic form or in the compact one; None is null."""
    data = b"" if text is None else text.encode()
    if compact:
        return write_varint(0 if text is None else len(data) + 1) + data
    return struct.pack(">h", -1 if text is None else len(data)) + data


# --- end of task 6.1 ---


# --- task 6.2: a request, and tagged fields ---
def write_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes, flexible: bool
) -> bytes:
    """The frame of a request, with its size. In a flexible version the header ends with tagged fields:
    none."""
    header = struct.pack(">hhi", api_key, version, correlation_id) + write_string(client_id, compact=False)
    content = header + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(content)) + content


def skip_tagged_fields(frame: bytes, position: int) -> int:
    """The position after the tagged fields that begin at `position`, whatever they are."""
    count, position = read_varint(frame, position)
    for _ in range(count):
        _, position = read_varint(frame, position)
        size, position = read_varint(frame, position)
        position += size
    return position


# --- end of task 6.2 ---


# --- task 6.3: ApiVersions ---
def api_versions_request(version: int, correlation_id: int, client_id: str, name: str, software_version: str) -> bytes:
    """The request, with its size, in versions 0 to 4. From version 3 on it says which software asks."""
    if version < 3:
        return write_request(18, version, correlation_id, client_id, b"", flexible=False)
    body = write_string(name, compact=True) + write_string(software_version, compact=True) + b"\0"
    return write_request(18, version, correlation_id, client_id, body, flexible=True)


def read_api_versions(frame: bytes, version: int) -> tuple[int, int, dict[int, tuple[int, int]]]:
    """The response, which begins with its size, to a request in `version`: its correlation id, its
    error code, and the lowest and the highest version of each API by its key."""
    correlation_id, error = struct.unpack_from(">ih", frame, 4)
    is_flexible = version >= 3 and error != 35
    if is_flexible:
        length, position = read_varint(frame, 10)
        count = length - 1
    else:
        (count,), position = struct.unpack_from(">i", frame, 10), 14
    ranges = {}
    for _ in range(count):
        key, lowest, highest = struct.unpack_from(">hhh", frame, position)
        ranges[key] = lowest, highest
        position = skip_tagged_fields(frame, position + 6) if is_flexible else position + 6
    return correlation_id, error, ranges


# --- end of task 6.3 ---


# --- task 6.4: which version to speak ---
def agreed_versions(ours: dict[int, tuple[int, int]], theirs: dict[int, tuple[int, int]]) -> dict[int, int]:
    """The highest version that both sides know, for each API that has one."""
    agreed = {}
    for key in ours.keys() & theirs.keys():
        version = min(ours[key][1], theirs[key][1])
        if version >= max(ours[key][0], theirs[key][0]):
            agreed[key] = version
    return agreed


# --- end of task 6.4 ---
