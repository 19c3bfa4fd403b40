"""What an eavesdropper of notebook 21 makes of the bytes that it has copied.

Of a connection in the clear it reads frames, and in them the login: PLAIN's password, or SCRAM's messages. With these
it can send the login again (`replayed`), or try passwords (`guess`). Of a connection with TLS it reads the records'
headers, which are never encrypted::

    type 1 byte, version 2 bytes, length 2 bytes, then that many bytes

`explained` names the bytes of a PLAIN login for `pykraft.viz.hexdump`.
"""

import base64
import hashlib
import hmac
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pykraft.common.errors import ErrorCode
from pykraft.course.lessons.access.wiretap import Piece
from pykraft.protocol.field_tree import read_request_tree
from pykraft.protocol.header import SIZE
from pykraft.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest
from pykraft.viz import Field

_TLS_HEADER = struct.Struct(">BHH")
_APPLICATION_DATA = 23
_KINDS = {20: "change cipher spec", 21: "alert", 22: "handshake", _APPLICATION_DATA: "application data"}
_TIMEOUT_S = 10.0
_MEANINGS = {
    "size": "of what follows",
    "apiKey": "SaslAuthenticate",
}


class TlsRecord(NamedTuple):
    """A TLS record, as its header describes it."""

    is_answer: bool
    kind: str
    size_bytes: int
    """Of what is in it."""


class Message(NamedTuple):
    """One frame, or one TLS record with its header."""

    is_answer: bool
    name: str
    """Of the request, also for its answer, such as "Produce"; of a TLS record its kind."""
    data: bytes


class Overheard:
    """The bytes of some clients, and of what the broker answered."""

    def __init__(self, clear: Sequence[Piece], *sealed: Sequence[Piece]) -> None:
        """What passed by in the clear, and by each listener with TLS."""
        self._clear, self._with_tls = clear, sealed

    @property
    def _sealed(self) -> list[Piece]:
        return [piece for pieces in self._with_tls for piece in pieces]

    def __contains__(self, text: bytes) -> bool:
        """Whether the bytes are there to be read, on one connection and in one direction."""
        pieces = [*self._clear, *self._sealed]
        return any(text in octets for _, octets in _streams(pieces))

    def connections(self) -> list[list[Message]]:
        """Of each connection its frames, or its TLS records: first what the client has sent."""
        pieces = [*self._clear, *self._sealed]
        clear = {piece.connection for piece in self._clear}
        found = []
        for connection in sorted({piece.connection for piece in pieces}):
            asked, answers = (
                b"".join(p.data for p in pieces if p.connection == connection and p.is_answer is is_answer)
                for is_answer in (False, True)
            )
            found.append((_clear_messages if connection in clear else _tls_messages)(asked, answers))
        return found

    # --- a login in the clear -----------------------------------------------------------------------------------------

    def requests(self, kind: type) -> list[bytes]:
        """The requests of a kind on the first connection, each with its size."""
        asked = self._first(is_answer=False)
        return [frame for frame in asked if read_request_tree(frame, has_size=True).name == kind.__name__]

    @property
    def tokens(self) -> list[bytes]:
        """What client and broker said to each other to log in, in turn."""
        asked = self.requests(SaslAuthenticateRequest)
        said = [read_request_tree(frame, has_size=True).root.find("authBytes").value for frame in asked]
        start = len(self.requests(SaslHandshakeRequest)) + 1  # ApiVersions is first
        answers = self._first(is_answer=True)[start : start + len(asked)]
        replies = [_reply(frame).auth_bytes for frame in answers]
        return [token for pair in zip(said, replies, strict=True) for token in pair]

    def _first(self, is_answer: bool) -> list[bytes]:
        """The frames of the first connection in one direction."""
        numbers = [piece.connection for piece in self._clear]
        mine = [p for p in self._clear if p.connection == min(numbers) and p.is_answer is is_answer]
        return list(_frames(b"".join(piece.data for piece in mine)))

    def password_of(self, words: Iterable[str]) -> tuple[str | None, float]:
        """Try these words as the password of a SCRAM login: the right one, and milliseconds for each try."""
        first, server, final, _ = self.tokens
        salt, iterations = _part(server, b"s"), int(_part(server, b"i"))
        said = b",".join([first.removeprefix(b"n,,"), server, final.rpartition(b",p=")[0]])
        proof = base64.b64decode(_part(final, b"p"))
        start, tries, right = time.perf_counter(), 0, None
        for word in words:
            tries += 1
            if _proof(word, base64.b64decode(salt), iterations, said) == proof:
                right = word
                break
        return right, (time.perf_counter() - start) * 1000 / max(1, tries)

    def replayed(self, port: int) -> str:
        """Send the login again, byte by byte, on a new connection: the name of the broker's last error."""
        logins = [*self.requests(SaslHandshakeRequest), *self.requests(SaslAuthenticateRequest)]
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection, connection.makefile("rb") as read:
            for frame in logins:
                connection.sendall(frame)
                size = read.read(SIZE.size)
                answer = size + read.read(SIZE.unpack(size)[0])
        return ErrorCode.of(_reply(answer).error_code).name

    # --- a connection with TLS ----------------------------------------------------------------------------------------

    @property
    def records(self) -> list[TlsRecord]:
        """The records of the connections with TLS."""
        return [
            TlsRecord(is_answer, _KINDS.get(kind, "unknown"), size)
            for is_answer, octets in _streams(self._sealed)
            for kind, size in _tls_headers(octets)
        ]

    @property
    def sizes(self) -> list[int]:
        """The sizes of the records in which the client sent its data."""
        return [each.size_bytes for each in self.records if not each.is_answer and each.kind == _KINDS[23]]

    def names(self, *wanted: str) -> list[str]:
        """Those of these names that can be read."""
        return [name for name in wanted if name.encode() in self]


def explained(frame: bytes) -> tuple[bytes, list[Field]]:
    """A PLAIN login, and the names of its bytes."""
    fields: list[Field] = []
    for leaf in read_request_tree(frame, has_size=True).root.leaves():
        if leaf.end - leaf.start > 1 and leaf.type == "bytes":
            fields += _plain_fields(frame[leaf.start : leaf.end], leaf.start)
        else:
            meaning = _MEANINGS.get(leaf.name, "" if leaf.value in (None, ...) else str(leaf.value))
            name = "clientId" if leaf.name == "content" else leaf.name
            fields.append(Field(name, leaf.start, leaf.end, meaning, leaf.kind))
    return frame, fields


def _plain_fields(token: bytes, start: int) -> Iterator[Field]:
    """NUL, the user, NUL, the password."""
    _, user, password = token.split(b"\0")
    yield Field("separator", start, start + 1, "no authorization id before it", "flags")
    at = start + 1
    yield Field("user", at, at + len(user), user.decode(), "text")
    at += len(user)
    yield Field("separator", at, at + 1, "", "flags")
    yield Field("password", at + 1, at + 1 + len(password), password.decode(), "payload")


def _streams(pieces: Iterable[Piece]) -> Iterator[tuple[bool, bytes]]:
    """Of each connection and direction all bytes: whether the server sent them, and the bytes."""
    found: dict[tuple[int, bool], bytearray] = {}
    for piece in pieces:
        found.setdefault((piece.connection, piece.is_answer), bytearray()).extend(piece.data)
    for (_, is_answer), octets in found.items():
        yield is_answer, bytes(octets)


def _frames(octets: bytes) -> Iterator[bytes]:
    """The whole frames at the beginning, each with its size."""
    while len(octets) >= SIZE.size and len(octets) >= (end := SIZE.size + SIZE.unpack_from(octets)[0]):
        yield octets[:end]
        octets = octets[end:]


def _clear_messages(asked: bytes, answers: bytes) -> list[Message]:
    """A broker answers in the order of the requests."""
    names = [read_request_tree(frame, has_size=True).name.removesuffix("Request") for frame in _frames(asked)]
    pairs = ((False, _frames(asked)), (True, _frames(answers)))
    return [
        Message(is_answer, name, frame) for is_answer, some in pairs for name, frame in zip(names, some, strict=False)
    ]


def _tls_messages(asked: bytes, answers: bytes) -> list[Message]:
    pairs = ((False, _tls_records(asked)), (True, _tls_records(answers)))
    return [Message(is_answer, _KINDS.get(data[0], "unknown"), data) for is_answer, some in pairs for data in some]


def _reply(frame: bytes) -> SaslAuthenticateResponse:
    version = 2
    return SaslAuthenticateResponse.decode(frame, version, SIZE.size + 5)  # the correlation id, and no tagged field


def _tls_records(octets: bytes) -> Iterator[bytes]:
    while len(octets) >= _TLS_HEADER.size:
        end = _TLS_HEADER.size + _TLS_HEADER.unpack_from(octets)[2]
        yield octets[:end]
        octets = octets[end:]


def _tls_headers(octets: bytes) -> Iterator[tuple[int, int]]:
    for record in _tls_records(octets):
        kind, _, size = _TLS_HEADER.unpack_from(record)
        yield kind, size


def _part(message: bytes, name: bytes) -> bytes:
    """The value of ``name=value`` in a SCRAM message."""
    return next(part[2:] for part in message.split(b",") if part[:2] == name + b"=")


def _proof(password: str, salt: bytes, iterations: int, said: bytes) -> bytes:
    """What a client that knows this password sends (RFC 5802)."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), said, "sha256")
    return bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
