"""TLS between a socket and a connection: cut anywhere, slow, hostile, with and without certificates."""

from __future__ import annotations

import os
import ssl
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.common.core import Outbound
from pykraft.common.errors import ConfigError
from pykraft.common.settings.tls_config import read_tls
from pykraft.common.types import Endpoint, Node
from pykraft.network import tls
from pykraft.network.client import NetworkClient
from pykraft.network.selector import Selector
from pykraft.network.tls import client_context, dialing, openssl_name, server_context
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from tests.harness.certificates import authority, keystore, side, truststore
from tests.harness.tls_server import ASK, MAX_IDLE_MS, Caller, TlsServer, trusting
from tests.harness.waiting import wait_until

CLOSED = (EOFError, ssl.SSLError, ConnectionError)


@pytest.fixture
def start() -> Iterator[Callable[..., TlsServer]]:
    servers: list[TlsServer] = []

    def make(**settings: str) -> TlsServer:
        servers.append(TlsServer(**settings))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


# --- cut anywhere -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_handshake_and_a_request_may_come_a_byte_at_a_time(start: Callable[..., TlsServer], version: str) -> None:
    server = start(ssl_client_auth="required")
    caller = Caller(server, trusting(subject="/CN=alice", ssl_enabled_protocols=version))
    for _ in range(6):
        for byte in caller.step():
            caller.sock.send(bytes([byte]))
            server.turn()
    assert caller.tls.version() == version.replace("SSL", "")
    for number, byte in enumerate(caller.ask(), 1):
        assert not server.taken, f"nothing is taken before the whole record has come ({number} bytes)"
        caller.sock.send(bytes([byte]))
        server.turn()
    caller.step()
    assert len(server.taken) == 1 and caller.answers


def test_a_client_that_leaves_after_any_byte_of_its_handshake_leaves_nothing(start: Callable[..., TlsServer]) -> None:
    server = start()
    caller = Caller(server)
    hello = caller.step()
    caller.sock.send(hello)
    server.turn()
    flight = caller.step()
    for end in range(0, len(hello) + len(flight), 13):
        quitter = Caller(server)
        quitter.sock.send(quitter.step()[:end])
        server.turn()
        if end > len(hello):
            quitter.sock.send(quitter.step()[: end - len(hello)])
            server.turn()
        quitter.sock.close()
        server.turn()
        server.turn()
    assert len(server.processor) == 1, "only the first caller is left"
    assert caller.run().answers == b"" and caller.tls.version() == "TLSv1.3"


@pytest.mark.parametrize("place", range(0, 3000, 277))
def test_a_byte_that_was_changed_on_the_way_ends_the_connection(start: Callable[..., TlsServer], place: int) -> None:
    server = start(ssl_client_auth="required")
    caller, sent = Caller(server, trusting(subject="/CN=alice")), 0
    with pytest.raises(CLOSED):
        for number in range(40):
            data = bytearray(caller.ask() if number > 5 else caller.step())
            if sent <= place < sent + len(data):
                data[place - sent] ^= 0x10
            sent += len(data)
            caller.sock.sendall(data)
            server.turn()
            caller.step()
    caller.sock.close()  # the caller may be the one that has found it
    server.turn()
    assert len(server.processor) == 0 and not server.taken


# --- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("garbage", [ASK, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(300), bytes(100)])
def test_plain_bytes_close_the_connection_and_no_other(start: Callable[..., TlsServer], garbage: bytes) -> None:
    server = start()
    good, plain = Caller(server), server.accept()
    good.run()
    plain.send(garbage)
    server.turn()
    assert len(server.processor) == 1
    good.sock.sendall(good.ask())
    assert good.run().answers and len(server.taken) == 1


def test_a_handshake_that_trickles_is_over_when_a_silent_connection_would_be(start: Callable[..., TlsServer]) -> None:
    server = start()
    slow, good = Caller(server), Caller(server)
    good.run()
    for byte in slow.step()[:12]:
        server.now += 100
        slow.sock.send(bytes([byte]))
        good.sock.sendall(good.ask())
        server.turn()
        server.processor.close_idle(server.now)
        assert len(server.processor) == (2 if server.now <= MAX_IDLE_MS else 1), server.now
    assert good.run().answers, "the other client was served meanwhile"


def test_handshakes_that_are_given_up_by_the_hundred_hold_up_nobody(start: Callable[..., TlsServer]) -> None:
    server = start()
    good = Caller(server).run()
    halves = [Caller(server) for _ in range(100)]
    for half in halves:
        half.sock.send(half.step()[:100])
    good.sock.sendall(good.ask())
    wait_until(lambda: server.turn() or len(server.taken) == 1, "the other client is served")
    server.now = MAX_IDLE_MS + 1
    good.sock.sendall(good.ask())
    server.turn()
    server.processor.close_idle(server.now)
    assert len(server.processor) == 1 and good.run().answers


def test_a_client_that_never_reads_is_encrypted_no_further_than_a_little_ahead(
    start: Callable[..., TlsServer],
) -> None:
    server = start()
    caller = Caller(server).run()
    (stream,) = server.streams
    stream.send([bytes(1 << 25)])
    asked = caller.ask(ASK * 1000)
    caller.sock.send(asked[:16_384])
    server.turn()
    assert stream.output, "the client does not read"
    assert len(stream._sealed) + stream.session.engine.pending <= 2 * tls._SEALED_BYTES
    assert not server.taken, "and its requests are not taken"


def test_a_piece_of_a_file_is_read_and_never_handed_to_the_kernel(start: Callable[..., TlsServer]) -> None:
    class Piece:
        """A piece of a log, of which the network may take parts."""

        data = Random(1).randbytes(300_000)

        def __len__(self) -> int:
            return len(self.data)

        def read(self, start: int, length: int) -> bytes:
            return self.data[start : start + length]

        def send_to(self, socket_fileno: int, start: int) -> int:
            raise AssertionError("plain bytes would leave")

    server = start()
    caller = Caller(server).run()
    (stream,) = server.streams
    stream.send([b"before", Piece(), b"after", b"wards", memoryview(Piece.data)])
    caller.run(60)
    assert caller.answers == b"before" + Piece.data + b"afterwards" + Piece.data


def test_the_end_is_announced(start: Callable[..., TlsServer]) -> None:
    server = start()
    caller = Caller(server).run()
    (stream,) = server.streams
    stream.connection.close()
    caller._incoming.write(caller.sock.recv(100))
    assert caller.tls.read(1) == b"", "the client knows that nothing was cut off"


# --- who is it --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "client", "principal"),
    [
        ({}, {}, "User:ANONYMOUS"),
        ({}, {"subject": "/CN=alice"}, "User:ANONYMOUS"),
        ({"ssl_client_auth": "requested"}, {}, "User:ANONYMOUS"),
        ({"ssl_client_auth": "requested"}, {"subject": "/O=Kraft/CN=alice"}, "User:CN=alice,O=Kraft"),
        ({"ssl_client_auth": "required"}, {"subject": "/O=Kraft/CN=alice"}, "User:CN=alice,O=Kraft"),
        (
            {"ssl_client_auth": "required", "ssl_principal_mapping_rules": "RULE:^CN=(.*?),O=Kraft$/$1/U"},
            {"subject": "/O=Kraft/CN=alice"},
            "User:ALICE",
        ),
    ],
)
def test_a_client_is_whom_its_certificate_names(
    start: Callable[..., TlsServer], settings: dict[str, str], client: dict[str, str], principal: str
) -> None:
    server = start(**settings)
    caller = Caller(server, trusting(**client)).run()
    caller.sock.sendall(caller.ask())
    caller.run(3)
    assert [request.inbound.context.principal for request in server.taken] == [principal]


@pytest.mark.parametrize(
    ("settings", "client"),
    [
        ({"ssl_client_auth": "required"}, {}),
        ({"ssl_client_auth": "required"}, {"subject": "/CN=alice", "by": "stranger"}),
        ({"ssl_client_auth": "requested"}, {"subject": "/CN=alice", "by": "stranger"}),
        ({"ssl_client_auth": "required", "ssl_principal_mapping_rules": "RULE:^CN=b$/b/"}, {"subject": "/CN=alice"}),
        ({"ssl_enabled_protocols": "TLSv1.3"}, {"ssl_enabled_protocols": "TLSv1.2"}),
        ({"ssl_enabled_protocols": "TLSv1.2"}, {"ssl_enabled_protocols": "TLSv1.3"}),
        ({"ssl_protocol": "TLSv1.2"}, {"ssl_enabled_protocols": "TLSv1.3"}),
        (
            {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
            {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
        ),
    ],
)
def test_whom_a_listener_does_not_take_is_told_so_and_closed(
    start: Callable[..., TlsServer], settings: dict[str, str], client: dict[str, str]
) -> None:
    server = start(**settings)
    caller = Caller(server, trusting(**client))
    with pytest.raises(CLOSED):
        caller.run()
    assert len(server.processor) == 0 and not server.taken


def test_a_cipher_suite_is_chosen_by_its_name_in_java(start: Callable[..., TlsServer]) -> None:
    server = start(ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256")
    caller = Caller(server).run()
    assert caller.tls.cipher() == ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLSv1.2", 256)
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    assert openssl_name("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256") == "DHE-RSA-AES256-SHA256"


# --- a client's own side ----------------------------------------------------------------------------------------------


class Client:
    """A client of ours that asks one thing of a server on another thread's turn."""

    def __init__(self, server: TlsServer, **settings: str) -> None:
        self.selector = Selector()
        own = {name: value for name, value in side(**settings).items() if settings or "keystore" not in name}
        wires = dialing(client_context(read_tls(own), "this client"))
        self.network = NetworkClient(self.selector, "me", Random(1), make_wire=wires)
        self.told: list[object] = []
        self._server = server

    def ask(self, endpoint: Endpoint, after_a_turn: Callable[[], None] = lambda: None) -> object:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        told = self.told.append
        self.network.send(Outbound("c", Node(1, *endpoint), request, lambda answer, _: told(answer), 10_000), 0)

        def go_on() -> bool:
            self.turn()
            self._server.turn()
            after_a_turn()
            return bool(self.told)

        wait_until(go_on, "there is an answer")
        return self.told[0]

    def turn(self) -> Any:
        """Look at all sockets once; returns who holds them."""
        self.selector.tell(self.selector.wait(0.01))
        self.network.poll(0)
        self.network.dispatch()
        return self.network.dialer

    def close(self) -> None:
        self.network.close()
        self.selector.close()


@pytest.fixture
def listening(start: Callable[..., TlsServer]) -> Iterator[Callable[..., tuple[TlsServer, int]]]:
    from pykraft.network.connection_quotas import ConnectionLimits, ConnectionQuotas
    from pykraft.network.socket_server import Acceptor
    from pykraft.protocol.api import ListenerKind

    acceptors: list[Acceptor] = []

    def listen(**settings: str) -> tuple[TlsServer, int]:
        server = start(**settings)
        quotas = ConnectionQuotas(ConnectionLimits(), ["SSL"])
        acceptors.append(
            Acceptor(server.selector, server.processor, "SSL", ListenerKind.BROKER, quotas, lambda: server.now)
        )
        server.answer = ApiVersionsResponse(
            api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)]
        )
        return server, acceptors[-1].bind("127.0.0.1", 0, server.processor._options)

    yield listen
    for acceptor in acceptors:
        acceptor.close()


def test_a_client_of_ours_is_answered_over_tls_and_shows_its_certificate(listening: Any) -> None:
    server, port = listening(ssl_client_auth="required")
    client = Client(server, subject="/CN=alice")
    assert isinstance(client.ask(Endpoint("127.0.0.1", port)), ApiVersionsResponse)
    assert {request.inbound.context.principal for request in server.taken} == {"User:CN=alice"}
    client.close()


def test_an_answer_counts_though_the_end_of_the_stream_has_come_with_it(listening: Any) -> None:
    """A server that refuses a login says why, and closes the connection: both may come in one read."""
    server, port = listening()
    client = Client(server)

    def close_after_the_answer() -> None:
        if len(server.taken) == 2:  # the greeting, and the question
            for stream in server.streams:
                stream.connection.close()

    assert isinstance(client.ask(Endpoint("127.0.0.1", port), close_after_the_answer), ApiVersionsResponse)
    wait_until(lambda: not client.turn().wires, "the connection is closed")
    client.close()


@pytest.mark.costly
@pytest.mark.parametrize(
    ("settings", "client", "reason"),
    [
        ({}, {"trusts": "stranger"}, "unable to get local issuer certificate"),
        ({"by": "stranger"}, {}, "unable to get local issuer certificate"),
        ({"by": "stranger"}, {"ssl_endpoint_identification_algorithm": ""}, "unable to get local issuer"),
        ({"host": "example.org"}, {}, "IP address mismatch"),
        ({"ssl_client_auth": "required"}, {}, "certificate required"),
        ({"ssl_enabled_protocols": "TLSv1.3"}, {"ssl_enabled_protocols": "TLSv1.2"}, "protocol version"),
    ],
)
def test_a_client_of_ours_sends_nothing_to_a_server_that_it_cannot_verify(
    listening: Any, settings: dict[str, str], client: dict[str, str], reason: str
) -> None:
    server, port = listening(**settings)
    mine = Client(server, **client)
    mine.ask(Endpoint("127.0.0.1", port))
    assert reason in mine.network.refusals[Endpoint("127.0.0.1", port)] and not server.taken
    mine.close()


def test_without_endpoint_identification_a_certificate_need_not_name_the_host_and_is_checked_all_the_same() -> None:
    context = client_context(read_tls({**truststore(), "ssl.endpoint.identification.algorithm": ""}), "c")
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
    context = client_context(read_tls({}), "c")
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


# --- keystores --------------------------------------------------------------------------------------------------------


def inline(subject: str = "/CN=broker", joint: str = "\n") -> dict[str, str]:
    """A keystore within the settings, whose lines are joined by this."""
    text = Path(keystore(subject)["ssl.keystore.location"]).read_text()
    key, chain = text.split("-----BEGIN CERTIFICATE-----")
    chain = "-----BEGIN CERTIFICATE-----" + chain
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key.strip().replace("\n", joint),
        "ssl.keystore.certificate.chain": chain.strip().replace("\n", joint),
    }


@pytest.mark.parametrize("joint", ["\n", " ", "\r\n"])
def test_a_key_within_the_settings_is_in_a_file_of_mode_0600_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joint: str
) -> None:
    class Seen:
        """In the place of Python's context: what the file is when it is read."""

        mode = -1

        def load_cert_chain(self, path: str, password: object) -> None:
            assert Path(path).parent == tmp_path
            self.mode = stat.S_IMODE(os.stat(path).st_mode)
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: Any = Seen()
    tls._load_inline(seen, read_tls(inline(joint=joint)))
    assert seen.mode == 0o600 and not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match="cannot be read"):
        broken = read_tls(inline()).keystore.replace("M", "N")
        server_context(read_tls({**inline(), "ssl.keystore.key": broken}), "none", "listener SSL")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "listener SSL has TLS, but no certificate to show: set ssl.keystore.location, or ssl.keystore.key and"),
        (
            {"ssl.keystore.location": "k.jks"},
            "ssl.keystore.type is JKS, but must be PEM: `keytool -importkeystore -srckeystore k.jks -destkeystore",
        ),
        (
            {"ssl.truststore.location": "t.p12", "ssl.truststore.type": "PKCS12"},
            "ssl.truststore.type is PKCS12, but must be PEM: `keytool",
        ),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/none"}, "keystore in /none cannot be read: No such"),
        ({**keystore(), "ssl.keystore.location": __file__}, "test_tls.py cannot be read: its PEM text is damaged"),
        ({**keystore(), "ssl.keystore.password": "x"}, "ssl.keystore.password is set, but must not be for a store in"),
        ({"ssl.keystore.key": "x", "ssl.keystore.type": "PEM"}, "ssl.keystore.certificate.chain is not: a key and its"),
        ({**inline(), "ssl.keystore.type": "JKS"}, "ssl.keystore.type is JKS, but must be PEM when ssl.keystore.key"),
        ({**inline(), **keystore()}, "ssl.keystore.key and ssl.keystore.location are both set, but must not be"),
        ({**inline(), "ssl.keystore.key": "secret"}, "ssl.keystore.key is set, but must hold PEM text: -----BEGIN PRI"),
        ({**keystore(), "ssl.truststore.certificates": "x"}, "ssl.truststore.type is JKS, but must be PEM when"),
        ({**keystore(), "ssl.enabled.protocols": "TLSv1"}, "ssl.enabled.protocols is 'TLSv1', but must be"),
        ({**keystore(), "ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"}, "no version is left"),
        ({**keystore(), "ssl.cipher.suites": "TLS_X"}, "ssl.cipher.suites has TLS_X, but must have suites that"),
        ({**keystore(), "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "must have all suites of TLS 1.3 or none"),
    ],
)
def test_a_store_that_cannot_be_read_is_refused_in_one_sentence(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        server_context(read_tls(settings), "none", "listener SSL")
    assert sentence in str(refused.value) and "secret" not in str(refused.value)


def test_an_encrypted_key_needs_its_password() -> None:
    path = authority().issue("encrypted", "/CN=e", password="secret of a key")
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    server_context(read_tls({**settings, "ssl.key.password": "secret of a key"}), "none", "x")
    for password, sentence in (("", "is encrypted: set ssl.key.password"), ("other", "another password than")):
        with pytest.raises(ConfigError, match=sentence):
            server_context(read_tls({**settings, "ssl.key.password": password}), "none", "x")
