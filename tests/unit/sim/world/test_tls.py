"""The stand-in for TLS does what Python's `ssl` does: both go through the same table, and come to the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from pykraft.common.settings.tls_config import read_tls
from pykraft.network.tls import OpenSslEngine, client_context, server_context
from pykraft.sim.world.tls import AUTHORITY, VERSIONS, Certificate, StandInEngine, TlsSide
from pykraft.transport.frames import FrameReader
from pykraft.transport.principals import PrincipalMapping
from pykraft.transport.tls_session import TlsEngine, TlsError, TlsSession
from tests.harness.certificates import authority, keystore, truststore

HOST = "node-1"
ASKED = memoryview(b"\0\0\0\4abcd")
TOLERANCE_BYTES = 60
"""Signatures and names are not of one length, nor are those of the alerts within a handshake."""


class Shown(NamedTuple):
    """A certificate that a side shows, in both worlds."""

    name: str
    host: str = HOST
    issuer: str = "trusted"
    is_expired: bool = False


class Case(NamedTuple):
    """One connection."""

    server: Shown = Shown("broker")
    client: Shown | None = None
    client_auth: str = "none"
    versions: tuple[str, ...] = VERSIONS
    of_client: tuple[str, ...] = VERSIONS


SERVERS = [Shown("broker"), Shown("b", issuer="stranger"), Shown("b", is_expired=True), Shown("b", host="node-2")]
CLIENTS = [None, Shown("alice"), Shown("alice", issuer="stranger"), Shown("alice", is_expired=True)]
CASES = [
    *(Case(server, of_client=versions) for server in SERVERS for versions in (VERSIONS, ("TLSv1.2",))),
    *(
        Case(client=client, client_auth=asked, of_client=versions)
        for client in CLIENTS
        for asked in ("requested", "required")
        for versions in (VERSIONS, ("TLSv1.2",))
    ),
    Case(versions=("TLSv1.2",), of_client=("TLSv1.3",)),
    Case(versions=("TLSv1.3",), of_client=("TLSv1.2",)),
]


# --- the two worlds ---------------------------------------------------------------------------------------------------


@cache
def expired(name: str) -> str:
    """A keystore whose certificate was over before it was made."""
    by = authority()
    folder, key = by.certificate.parent, ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    paths = {suffix: str(folder / f"expired-{name}.{suffix}") for suffix in ("key", "request", "signed")}
    subject = ("-subj", f"/CN={name}", "-config", str(folder / "openssl.conf"))
    request = ("req", "-new", *subject, *key, "-keyout", paths["key"], "-out", paths["request"])
    extensions = folder / "expired.extensions"
    extensions.write_text(f"subjectAltName = DNS:{HOST}\n")
    signed = ("x509", "-req", "-in", paths["request"], "-CA", str(by.certificate), "-days", "-1", "-set_serial", "7")
    for arguments in (
        request,
        (*signed, "-extfile", str(extensions), "-CAkey", str(folder / "authority.key"), "-out", paths["signed"]),
    ):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
    store = folder / f"expired-{name}.pem"
    store.write_text("".join(Path(paths[each]).read_text() for each in ("key", "signed")))
    return str(store)


def settings(shown: Shown | None, versions: tuple[str, ...]) -> Mapping[str, str]:
    own = {} if shown is None else keystore(f"/CN={shown.name}", shown.issuer, (shown.host,))
    if shown is not None and shown.is_expired:
        own["ssl.keystore.location"] = expired(shown.name)
    return {**own, **truststore(), "ssl.enabled.protocols": ",".join(versions)}


def real(case: Case) -> tuple[TlsEngine, TlsEngine]:
    server = server_context(read_tls(settings(case.server, case.versions)), case.client_auth, "the server")
    client = client_context(read_tls(settings(case.client, case.of_client)), "the client")
    return OpenSslEngine(server, True), OpenSslEngine(client, False, HOST)


def certificate(shown: Shown | None) -> Certificate | None:
    if shown is None:
        return None
    issuer = AUTHORITY if shown.issuer == "trusted" else shown.issuer
    return Certificate(shown.name, (shown.host,), issuer, shown.is_expired)


def stand_in(case: Case, seed: int = 1) -> tuple[TlsEngine, TlsEngine]:
    random = Random(seed)
    server = TlsSide(certificate(case.server), versions=case.versions, client_auth=case.client_auth)
    client = TlsSide(certificate(case.client), versions=case.of_client)
    return StandInEngine(server, True, random), StandInEngine(client, False, random, HOST)


WORLDS: list[Callable[[Case], tuple[TlsEngine, TlsEngine]]] = [real, stand_in]


class Connection:
    """Both ends, whose bytes go to each other at once."""

    def __init__(self, engines: tuple[TlsEngine, TlsEngine]) -> None:
        self.sides = {
            "server": TlsSession(engines[0], FrameReader(1 << 20)),
            "client": TlsSession(engines[1], reader()),
        }
        self.failures: list[tuple[str, str]] = []
        self.flights: list[tuple[str, int]] = []

    def run(self, by: int = 1 << 20) -> Connection:
        """Exchange bytes, so many at once, until there are no more."""
        self._try("client", None)
        while any([self._carry("client", "server", by), self._carry("server", "client", by)]):
            continue
        return self

    def _carry(self, source: str, target: str, by: int) -> bool:
        data = self.sides[source].engine.take()
        if data:
            self.flights.append((source, len(data)))
        for start in range(0, len(data), by):
            self._try(target, data[start : start + by])
        return bool(data)

    def _try(self, name: str, data: bytes | None) -> None:
        try:
            if data is None:
                self.sides[name].shake_hands()
            else:
                self.sides[name].received(data)
        except TlsError as error:
            self.failures.append((name, str(error)))

    @property
    def outcome(self) -> object:
        names = {}
        for name, side in self.sides.items():
            shown = side.engine.certificate() if not self.failures else None
            names[name] = side.is_established, shown and PrincipalMapping("DEFAULT").principal_of(shown)
        return names, self.failures


def reader() -> FrameReader:
    return FrameReader(1 << 20)


# --- the same comes of it ---------------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_stand_in_ends_every_handshake_as_ssl_does(case: Case) -> None:
    true, false = (Connection(world(case)).run() for world in WORLDS)
    assert false.outcome == true.outcome
    assert [side for side, _ in false.flights] == [side for side, _ in true.flights]
    assert len(true.failures) != 1, "a failure has a name at both ends"
    if not true.failures:
        for (_, mine), (_, size_bytes) in zip(false.flights, true.flights, strict=True):
            assert abs(mine - size_bytes) <= TOLERANCE_BYTES, (false.flights, true.flights)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_as_long_as_those_of_ssl(version: str) -> None:
    def lengths(world: Callable[[Case], tuple[TlsEngine, TlsEngine]]) -> list[int]:
        client = Connection(world(Case(of_client=(version,)))).run().sides["client"].engine
        found = []
        for size_bytes in (1, 100, 16_383, 16_384, 16_385, 70_000):
            plain = memoryview(bytes(size_bytes))
            while plain:
                plain = plain[client.seal(plain) :]
            found.append(len(client.take()))
        client.say_goodbye()
        return [*found, len(client.take())]

    assert lengths(stand_in) == lengths(real)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_handshake_may_come_a_byte_at_a_time(
    world: Callable[[Case], tuple[TlsEngine, TlsEngine]], version: str
) -> None:
    case = Case(client=Shown("alice"), client_auth="required", of_client=(version,))
    assert Connection(world(case)).run(by=1).outcome == Connection(world(case)).run().outcome


def changed(data: bytes) -> list[bytes]:
    return [data[:8] + bytes([data[8] ^ 1]) + data[9:]]


SPOILED: dict[str, Callable[[bytes], list[bytes]]] = {
    "a byte is another one": changed,
    "a record comes twice": lambda data: [data, data],
    "the second record comes first": lambda data: [data[len(data) // 2 :]],
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", SPOILED)
def test_a_record_that_was_tampered_with_is_found_as_by_ssl(how: str, version: str) -> None:
    found = []
    for world in WORLDS:
        connection = Connection(world(Case(of_client=(version,)))).run()
        client = connection.sides["client"].engine
        client.seal(ASKED)
        client.seal(ASKED)
        for data in SPOILED[how](client.take()):
            connection._try("server", data)
        connection._carry("server", "client", 1 << 20)
        found.append(connection.failures)
    assert found[0] == found[1] and len(found[0]) == 2, found


@pytest.mark.parametrize("garbage", [bytes(ASKED), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(300)])
def test_plain_bytes_fail_under_the_names_of_ssl(garbage: bytes) -> None:
    found = []
    for world in WORLDS:
        server, _ = world(Case())
        server.feed(garbage)
        with pytest.raises(TlsError) as failure:
            server.shake_hands()
        found.append((str(failure.value), len(server.take())))
    assert found[0] == found[1]


def test_a_record_of_another_connection_is_refused() -> None:
    one, other = Connection(stand_in(Case())).run(), Connection(stand_in(Case(), seed=2)).run()
    one.sides["client"].engine.seal(ASKED)
    other._try("server", one.sides["client"].engine.take())
    assert other.failures == [("server", "decryption failed or bad record mac")]
