"""Lab 06: the header of a request, and the API that comes first."""


# --- task 6.1: numbers and strings ---
def write_varint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first; the highest bit says that another byte
    follows."""
    raise NotImplementedError("Task 6.1: seven bits a byte, the lowest first")


def read_varint(frame: bytes, position: int) -> tuple[int, int]:
    """The varint that begins at `position`, and the position after it."""
    raise NotImplementedError("Task 6.1: where does a varint end?")


def write_string(text: str | None, compact: bool) -> bytes:
    """A string in the classic form or in the compact one; None is null."""
    raise NotImplementedError("Task 6.1: two forms, and null in each")


# --- end of task 6.1 ---


# --- task 6.2: a request, and tagged fields ---
def write_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes, flexible: bool
) -> bytes:
    """The frame of a request, with its size. In a flexible version the header ends with tagged fields:
    none."""
    raise NotImplementedError("Task 6.2: the header, the body, and the size of both in front")


def skip_tagged_fields(frame: bytes, position: int) -> int:
    """The position after the tagged fields that begin at `position`, whatever they are."""
    raise NotImplementedError("Task 6.2: how many, and of each its number, its size and its value")


# --- end of task 6.2 ---


# --- task 6.3: ApiVersions ---
def api_versions_request(
    version: int,
    correlation_id: int,
    client_id: str,
    name: str,
    software_version: str,
) -> bytes:
    """The request, with its size, in versions 0 to 4. From version 3 on it says which software asks."""
    raise NotImplementedError("Task 6.3: versions 0 to 2 have no body")


def read_api_versions(frame: bytes, version: int) -> tuple[int, int, dict[int, tuple[int, int]]]:
    """The response, which begins with its size, to a request in `version`: its correlation id, its
    error code, and the lowest and the highest version of each API by its key."""
    raise NotImplementedError("Task 6.3: the header of this response is the old one in every version")


# --- end of task 6.3 ---


# --- task 6.4: which version to speak ---
def agreed_versions(
    ours: dict[int, tuple[int, int]],
    theirs: dict[int, tuple[int, int]],
) -> dict[int, int]:
    """The highest version that both sides know, for each API that has one."""
    raise NotImplementedError("Task 6.4: two ranges, and where they overlap")


# --- end of task 6.4 ---
