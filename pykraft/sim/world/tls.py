"""A stand-in for TLS in simulated histories: the same bytes on the wire, the same failures by name, no cryptography.

::

    TLS 1.3   client                 server        TLS 1.2   client                 server
              hello ---------------->                        hello ---------------->
              <------- hello, certificate                    <------- hello, certificate
              certificate, finished ->                       certificate, finished ->
              (may send at once)                             <------------- finished

It is a `transport.tls_session.TlsEngine`, as the object of Python's `ssl` is in `network.tls`; everything around it is
the same code. A flight of a handshake is one record, as long as with the certificates of pykraft's tests. A record of
data is longer than what is in it by exactly as much as with AES-GCM. It has a seal: of its text, its place in the
stream, its direction, and what both sides drew for this handshake. So a record that was changed, repeated, left out or
taken from another connection is found, as by TLS. Any host could read what is in it: nothing in a history eavesdrops.

A certificate says whose it is, for which hosts, who signed it, and whether its time is over. A side believes the names
of authorities. The principal is read from a subject in DER, by the code that reads the real ones.

`tests/unit/sim/world/test_tls.py` has both engines do the same things, and compares what comes of it.
"""

import json
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Any

from pykraft.transport.tls_session import TlsError

VERSIONS = ("TLSv1.2", "TLSv1.3")
AUTHORITY = "the authority"
_ALERT, _HANDSHAKE, _DATA = 21, 22, 23
_HEADER_BYTES = 5
_SEAL_BYTES = 16
_MOST_PLAIN = 16 * 1024
_MOST_RECORD = _MOST_PLAIN + 256
_BEFORE = {"TLSv1.2": 8, "TLSv1.3": 0}
"""Bytes of a sealed record before its text: the number that AES-GCM wants."""
_AFTER = {"TLSv1.2": _SEAL_BYTES, "TLSv1.3": 1 + _SEAL_BYTES}
"""And after it: the kind of the record, and the seal."""

_HELLO_BYTES = {("TLSv1.2",): 173, ("TLSv1.3",): 236, VERSIONS: 517}
_SERVER_BYTES = {("TLSv1.2", False): 693, ("TLSv1.2", True): 1136, ("TLSv1.3", False): 821, ("TLSv1.3", True): 1276}
"""By whether a certificate is asked for."""
_CLIENT_BYTES = {
    ("TLSv1.2", False, False): 93,
    ("TLSv1.2", True, False): 105,
    ("TLSv1.2", True, True): 1038,
    ("TLSv1.3", False, False): 80,
    ("TLSv1.3", True, False): 110,
    ("TLSv1.3", True, True): 1065,
}
"""By whether a certificate was asked for, and whether it is there."""
_FINISHED_BYTES = 51

_GOODBYE = 0
ALERTS = {
    10: "sslv3 alert unexpected message",
    20: "sslv3 alert bad record mac",
    22: "tlsv1 alert record overflow",
    40: "sslv3 alert handshake failure",
    42: "sslv3 alert bad certificate",
    45: "sslv3 alert certificate expired",
    48: "tlsv1 alert unknown ca",
    70: "tlsv1 alert protocol version",
    116: "tlsv13 alert certificate required",
}
"""By its code: how OpenSSL calls an alert of the peer."""
_REFUSED = " (the certificate is refused)"


@dataclass(frozen=True)
class Certificate:
    """What a side shows. Its principal is ``User:CN=name``."""

    name: str
    hosts: tuple[str, ...] = ()
    issuer: str = AUTHORITY
    is_expired: bool = False

    def in_der(self) -> bytes:
        """A certificate that has a subject, and nothing else that is read."""
        attribute = _der(0x30, b"\x06\x03\x55\x04\x03" + _der(0x0C, self.name.encode()))
        subject = _der(0x30, _der(0x31, attribute))
        before = _der(0x02, b"\x01") + 3 * _der(0x30, b"")
        return _der(0x30, _der(0x30, before + subject))


def _der(tag: int, content: bytes) -> bytes:
    assert len(content) < 0x80, "a name in a simulated certificate is short"
    return bytes((tag, len(content))) + content


@dataclass
class TlsSide:
    """What one side of TLS shows, whom it believes, and which versions it speaks."""

    certificate: Certificate | None
    trusts: frozenset[str] = frozenset((AUTHORITY,))
    versions: tuple[str, ...] = VERSIONS
    client_auth: str = "none"
    """Of a listener: none, requested or required."""


class StandInEngine:
    """One side of one connection."""

    def __init__(self, side: TlsSide, is_server: bool, random: Random, hostname: str = "") -> None:
        """`hostname` is the one that the server's certificate must name."""
        self._side = side
        self._is_server = is_server
        self._random = random
        self._hostname = hostname
        self._incoming, self._outgoing = bytearray(), bytearray()
        self._opened = memoryview(b"")
        """The rest of a record, for which there was no space yet."""
        self._has_begun = self._is_over = self._seals_alerts = False
        self._version = ""
        self._nonce = ""
        self._key = b""
        self._sealed = self._unsealed = 0
        """How many records were sent, and how many have come."""
        self._peer: Certificate | None = None

    # --- the two buffers ----------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        self._incoming += data

    @property
    def pending(self) -> int:
        return len(self._outgoing)

    def take(self) -> bytes:
        data = bytes(self._outgoing)
        self._outgoing.clear()
        return data

    def _next_record(self) -> tuple[int, bytes] | None:
        """(kind, text) of the next whole record. TlsError: it is none."""
        incoming = self._incoming
        if len(incoming) < _HEADER_BYTES:
            return None
        if bytes(incoming[:4]) in (b"GET ", b"POST", b"HEAD", b"PUT "):
            raise TlsError("http request")
        if incoming[1] != 3 or not 20 <= incoming[0] <= 23:
            raise TlsError("wrong version number")
        length = int.from_bytes(incoming[3:5], "big")
        if length > _MOST_RECORD:
            raise self._alert(22, "packet length too long")
        if len(incoming) < _HEADER_BYTES + length:
            return None
        kind, text = incoming[0], bytes(incoming[_HEADER_BYTES : _HEADER_BYTES + length])
        del incoming[: _HEADER_BYTES + length]
        return kind, text

    def _put(self, kind: int, text: bytes) -> None:
        self._outgoing += bytes((kind, 3, 3)) + len(text).to_bytes(2, "big") + text

    # --- the handshake ------------------------------------------------------------------------------------------------

    def shake_hands(self) -> bool:
        if not self._is_server and not self._has_begun:
            self._has_begun = True
            self._nonce = self._draw()
            self._say(_HELLO_BYTES[self._side.versions], versions=self._side.versions, nonce=self._nonce)
        while not self._is_over and (record := self._next_record()) is not None:
            kind, text = record
            if kind == _ALERT:
                raise TlsError(self._alert_in(text))
            message = json.loads(text.rstrip(b"\0")) if kind == _HANDSHAKE else {}
            if not self._expected.issubset(message):
                raise self._alert(10, "unexpected message")
            self._hear(message)
        return self._is_over

    @property
    def _expected(self) -> set[str]:
        """What the next flight of the other side must have."""
        if not self._version:
            return {"versions"} if self._is_server else {"version"}
        return {"certificate"} if self._is_server else set()

    def _draw(self) -> str:
        return self._random.randbytes(16).hex()

    def _say(self, size_bytes: int, **fields: object) -> None:
        text = json.dumps(fields).encode()
        self._put(_HANDSHAKE, text.ljust(size_bytes - _HEADER_BYTES, b"\0"))

    def _hear(self, message: dict[str, Any]) -> None:
        """One flight of the other side."""
        if not self._is_server:
            self._hear_server(message)
        elif not self._version:
            self._hear_hello(message)
        else:
            self._hear_client(message)

    def _hear_hello(self, message: dict[str, Any]) -> None:
        """On the server: a client begins."""
        common = [each for each in self._side.versions if each in message["versions"]]
        if not common:
            raise self._alert(70, "unsupported protocol")
        version, nonce = common[-1], self._draw()
        self._agree(version, message["nonce"] + nonce)
        asks = self._side.client_auth != "none"
        shown = _as_json(self._side.certificate)
        self._say(_SERVER_BYTES[version, asks], version=version, nonce=nonce, asks=asks, certificate=shown)
        self._seals_alerts = version == "TLSv1.3"

    def _hear_server(self, message: dict[str, Any]) -> None:
        """On the client: the server's certificate, or that the handshake is over."""
        if self._version:
            self._is_over = self._seals_alerts = True
            return
        self._peer = _from_json(message["certificate"])
        self._check(self._peer, self._hostname)
        version = message["version"]
        self._agree(version, self._nonce + message["nonce"])
        mine = self._side.certificate if message["asks"] else None
        self._say(_CLIENT_BYTES[version, message["asks"], mine is not None], certificate=_as_json(mine))
        self._is_over = self._seals_alerts = version == "TLSv1.3"

    def _hear_client(self, message: dict[str, Any]) -> None:
        """On the server: the client's certificate, and the end of its handshake."""
        self._peer = _from_json(message["certificate"])
        if self._peer is not None:
            self._check(self._peer)
        elif self._side.client_auth == "required":
            raise self._alert(116 if self._version == "TLSv1.3" else 40, "peer did not return a certificate")
        if self._version == "TLSv1.2":
            self._say(_FINISHED_BYTES)
        self._is_over = self._seals_alerts = True

    def _agree(self, version: str, nonces: str) -> None:
        self._version = version
        self._key = blake2b(nonces.encode(), digest_size=32).digest()

    def _check(self, shown: Certificate | None, hostname: str = "") -> None:
        """TlsError: this certificate is refused."""
        if shown is None or shown.issuer not in self._side.trusts:
            raise self._alert(48, f"unable to get local issuer certificate{_REFUSED}")
        if shown.is_expired:
            raise self._alert(45, f"certificate has expired{_REFUSED}")
        if hostname and hostname not in shown.hosts:
            raise self._alert(42, f"Hostname mismatch, certificate is not valid for '{hostname}'.{_REFUSED}")

    def certificate(self) -> bytes | None:
        return None if self._peer is None else self._peer.in_der()

    @property
    def peer(self) -> Certificate | None:
        """What the other side has shown."""
        return self._peer

    # --- alerts -------------------------------------------------------------------------------------------------------

    def _alert(self, code: int, reason: str) -> TlsError:
        """Tell the peer; returns what is to be raised here."""
        self._put_alert(code)
        return TlsError(reason)

    def _put_alert(self, code: int) -> None:
        text = bytes((1 if code == _GOODBYE else 2, code))
        self._put(_ALERT, self._seal(_ALERT, text) if self._seals_alerts else text)

    def _alert_in(self, text: bytes) -> str:
        if len(text) > 2:
            if not self._version:  # sealed for another connection
                raise self._alert(10, "unexpected message")
            text = self._unseal(_ALERT, text)
        return ALERTS.get(text[1], "unknown alert type")

    def say_goodbye(self) -> None:
        self._put_alert(_GOODBYE)

    # --- records ------------------------------------------------------------------------------------------------------

    def seal(self, plain: memoryview) -> int:
        count = min(len(plain), _MOST_PLAIN)
        self._put(_DATA, self._seal(_DATA, bytes(plain[:count])))
        return count

    def open(self, space: memoryview) -> int | None:
        while not self._opened:
            record = self._next_record()
            if record is None:
                return None
            kind, text = record
            if kind not in (_ALERT, _DATA):
                raise self._alert(40, "no renegotiation")
            plain = self._unseal(kind, text)
            if kind == _ALERT:
                if plain[1] == _GOODBYE:
                    return 0
                raise TlsError(ALERTS.get(plain[1], "unknown alert type"))
            self._opened = memoryview(plain)
        count = min(len(space), len(self._opened))
        space[:count] = self._opened[:count]
        self._opened = self._opened[count:]
        return count

    def _seal(self, kind: int, text: bytes) -> bytes:
        version, number = self._version, self._sealed
        self._sealed += 1
        return self._sealed_as(version, self._is_server, number, kind, text)

    def _unseal(self, kind: int, sealed: bytes) -> bytes:
        version, number = self._version, self._unsealed
        self._unsealed += 1
        text = sealed[_BEFORE[version] : -_AFTER[version]]
        if sealed != self._sealed_as(version, not self._is_server, number, kind, text):
            raise self._alert(20, "decryption failed or bad record mac")
        return text

    def _sealed_as(self, version: str, is_of_server: bool, number: int, kind: int, text: bytes) -> bytes:
        before = number.to_bytes(8, "big")[: _BEFORE[version]]
        return (
            before
            + text
            + bytes((kind,))[: _AFTER[version] - _SEAL_BYTES]
            + self._mark(is_of_server, number, kind, text)
        )

    def _mark(self, is_of_server: bool, number: int, kind: int, text: bytes) -> bytes:
        place = number.to_bytes(8, "big") + bytes((kind, is_of_server))
        return blake2b(text, digest_size=_SEAL_BYTES, key=self._key, person=place).digest()


def _as_json(certificate: Certificate | None) -> object:
    if certificate is None:
        return None
    return [certificate.name, certificate.hosts, certificate.issuer, certificate.is_expired]


def _from_json(fields: Any) -> Certificate | None:
    return None if fields is None else Certificate(fields[0], tuple(fields[1]), fields[2], fields[3])
