"""TLS on sockets: between the bytes of a connection and those that travel stands an object of Python's `ssl`.

::

    connection --parts--> write --+            +--> outgoing --> the socket
                                  | SSLObject  |
    connection <-frames-- read <--+            +<-- incoming <-- the socket

The object never sees the socket. It takes what has come from one buffer in memory, and leaves what is to be sent in
another. So a handshake is nothing but bytes that come and go on the socket's usual events: it waits for no peer, and
the connection above (`transport.server_connection`) is the same as without TLS.

**Time.** A handshake must be over within ``connections.max.idle.ms`` after the connection was accepted, however often
the client sends a byte of it. A connection that is established is idle when it is silent, as without TLS.

**Memory.** One call reads at most `_RECEIVED_BYTES` from the socket, and opens all whole records in them. What is to be
sent is encrypted `_SEALED_BYTES` ahead of the socket, and no further: a client that does not read holds up only its own
connection, whose requests are not read meanwhile.

**Files.** The kernel cannot send a piece of a log as it is, since it must be encrypted first: the piece is read into
Python, a part at a time. Kafka has the same loss (no sendfile over TLS).

Renegotiation is refused, and so is compression. No session is resumed: every connection shows its certificate, and has
it checked by the authorities that are trusted at that moment.

What a connection makes of its TLS is in `transport.tls_session`, where simulated histories have it, too.

Nothing else of pykraft's network imports `ssl`. A node imports this module if one of its listeners has TLS, or if it
connects to such a one.

Follows org.apache.kafka.common.network.SslTransportLayer and
org.apache.kafka.common.security.ssl.DefaultSslEngineFactory.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from pykraft.common.errors import ConfigError
from pykraft.common.settings.tls_config import TlsSettings
from pykraft.common.types import Endpoint
from pykraft.network.client import SocketDialer, SocketWire, WireMaker
from pykraft.network.selector import Stream
from pykraft.network.socket_server import AcceptedSocket, Processor, StreamMaker
from pykraft.transport.peers import Peer
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.tls_session import ClientSession, ServerSession, TlsError, TlsSession

_RECEIVED_BYTES = 64 * 1024
_SEALED_BYTES = 64 * 1024
_RECORD_BYTES = 16 * 1024
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_SUITES_OF_1_3 = {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}


# --- contexts ---------------------------------------------------------------------------------------------------------


def server_context(settings: TlsSettings, client_auth: str, name: str) -> ssl.SSLContext:
    """What a listener shows and asks for. `name` is in the sentence of a ConfigError."""
    if not settings.has_keystore:
        raise ConfigError(
            f"{name} has TLS, but no certificate to show: set ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, settings, name)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if client_auth != "none":
        _trust(context, settings, name, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings, name: str) -> ssl.SSLContext:
    """What a client trusts and shows. The server's certificate is always checked: there is no setting that leaves this
    out. Whether it must name the host is `checks_hostname`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_hostname
    context.verify_mode = ssl.CERT_REQUIRED
    _configure(context, settings, name)
    _trust(context, settings, name, ssl.Purpose.SERVER_AUTH)
    return context


def _configure(context: ssl.SSLContext, settings: TlsSettings, name: str) -> None:
    """Versions, cipher suites, and the key if there is one."""
    versions, suites = [_VERSIONS[each] for each in settings.versions], settings.cipher_suites
    if suites:
        versions = _only_with_suites(context, versions, suites, name)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # what a truststore has is trusted, as in Java
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    if not settings.has_keystore:
        return
    try:
        if settings.keystore:
            _load_inline(context, settings)
        else:
            context.load_cert_chain(settings.keystore_location, password=partial(_password, settings))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    except (OSError, ValueError) as error:
        place = settings.keystore_location or "ssl.keystore.key and ssl.keystore.certificate.chain"
        raise ConfigError(
            f"{name}: the keystore in {place} cannot be read: {_reason(error)}. It must have a private key and its "
            "certificates as PEM text"
        ) from None


def _password(settings: TlsSettings) -> str:
    """Called for a key that is encrypted. (Without this OpenSSL would ask for it at the terminal.)"""
    if not settings.key_password:
        raise ConfigError("the private key is encrypted: set ssl.key.password")
    return settings.key_password


def _load_inline(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """OpenSSL reads keys from files alone: the text is in one that only this user can read, for this moment."""
    number, path = tempfile.mkstemp(prefix="pykraft-", suffix=".pem")  # its mode is 0600
    try:
        with os.fdopen(number, "w", encoding="ascii", errors="replace") as file:
            file.write(settings.keystore)
        context.load_cert_chain(path, password=partial(_password, settings))
    finally:
        os.unlink(path)


def _trust(context: ssl.SSLContext, settings: TlsSettings, name: str, purpose: ssl.Purpose) -> None:
    try:
        if settings.truststore:
            context.load_verify_locations(cadata=settings.truststore)
        elif settings.truststore_location:
            context.load_verify_locations(cafile=settings.truststore_location)
        else:
            context.load_default_certs(purpose)
    except (OSError, ValueError) as error:
        place = settings.truststore_location or "ssl.truststore.certificates"
        raise ConfigError(
            f"{name}: the truststore in {place} cannot be read: {_reason(error)}. It must have certificates as PEM text"
        ) from None


def _only_with_suites(
    context: ssl.SSLContext, versions: list[ssl.TLSVersion], suites: Sequence[str], name: str
) -> list[ssl.TLSVersion]:
    """Allow these cipher suites alone; returns the versions that have one of them."""
    of_1_3 = _SUITES_OF_1_3.intersection(suites)
    if of_1_3 and of_1_3 != _SUITES_OF_1_3:
        raise ConfigError(
            f"{name}: ssl.cipher.suites has {sorted(of_1_3)[0]}, but must have all suites of TLS 1.3 or none: Python "
            f"cannot choose among {', '.join(sorted(_SUITES_OF_1_3))}"
        )
    found = []
    for suite in suites:
        if suite not in of_1_3:
            try:
                context.set_ciphers(openssl_name(suite))
            except ssl.SSLError:
                raise ConfigError(
                    f"{name}: ssl.cipher.suites has {suite}, but must have suites that OpenSSL has, under Java's names"
                ) from None
            found.append(openssl_name(suite))
    if found:
        context.set_ciphers(":".join(found))
    wanted = {ssl.TLSVersion.TLSv1_3: bool(of_1_3), ssl.TLSVersion.TLSv1_2: bool(found)}
    left = [each for each in versions if wanted[each]]
    if not left:
        raise ConfigError(f"{name}: ssl.cipher.suites has no suite of the versions in ssl.enabled.protocols")
    return left


def openssl_name(suite: str) -> str:
    """OpenSSL's name for a cipher suite of TLS 1.2, whose name in Java is that of IANA."""
    if "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    if cipher.startswith("CHACHA20_POLY1305"):
        cipher = "CHACHA20_POLY1305"
    return "-".join([*([] if exchange == "RSA" else exchange.split("_")), *cipher.split("_")])


def _reason(error: Exception) -> str:
    """What OpenSSL, or the system, says is wrong."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{error.verify_message} (the certificate is refused)"
    if isinstance(error, ssl.SSLError):
        if error.reason is None:
            return "its PEM text is damaged, or its key is encrypted with another password than ssl.key.password"
        return error.reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)


# --- streams ----------------------------------------------------------------------------------------------------------


class OpenSslEngine:
    """One side of TLS: an object of `ssl` between two buffers. See `transport.tls_session.TlsEngine`."""

    def __init__(self, context: ssl.SSLContext, server_side: bool, hostname: str | None = None) -> None:
        """ValueError: TLS knows no such name of a host."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side, hostname)

    def feed(self, data: bytes) -> None:
        self._incoming.write(data)

    def shake_hands(self) -> bool:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return True

    def open(self, space: memoryview) -> int | None:
        try:
            count: Any = self.tls.read(len(space), space)  # an int, since it is read into a buffer
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return int(count)

    def seal(self, plain: memoryview) -> int:
        return self.tls.write(plain)

    @property
    def pending(self) -> int:
        return self._outgoing.pending

    def take(self) -> bytes:
        return self._outgoing.read()

    def certificate(self) -> bytes | None:
        return self.tls.getpeercert(binary_form=True)

    def say_goodbye(self) -> None:
        with suppress(OSError, ValueError):
            self.tls.unwrap()


class TlsStream(Stream):
    """The TLS of one connection, in the place of a stream's plain reading and writing."""

    session: TlsSession
    """Set before the first byte."""
    _sealed = memoryview(b"")
    """What is encrypted, and has not left yet."""

    @property
    def output(self) -> Collection[Any]:
        return self._out or self._sealed

    def receive(self) -> bool:
        """Read what is there, and open the records; False at the end of the stream, if nothing came with it. OSError,
        ProtocolError: close it."""
        self.is_readable = False
        try:
            data = self.sock.recv(_RECEIVED_BYTES)
        except BlockingIOError:
            return True
        if not data:
            self.session.end()
            self.has_ended = True
            return False
        try:
            has_bytes = self.session.received(data)
        except TlsError:
            with suppress(OSError):  # the peer hears why, if it still listens
                self.flush()
            raise
        self.has_ended = self.session.has_ended
        self.flush()
        return has_bytes

    def flush(self) -> None:
        """Encrypt and write what the socket takes."""
        try:
            while self._sealed or self._seal():
                self._sealed = self._sealed[self.sock.send(self._sealed) :]
        except BlockingIOError:
            return

    def _seal(self) -> bool:
        """Encrypt what is next; whether there is anything to write."""
        engine = self.session.engine
        while self._out and self.session.is_established and engine.pending < _SEALED_BYTES:
            plain = memoryview(self._next_plain())
            while plain:
                count = engine.seal(plain)
                self._advance(count)
                plain = plain[count:]
        self._sealed = memoryview(engine.take())
        return bool(self._sealed)

    def _next_plain(self) -> Any:
        """Bytes from the front: small parts together, of a large one or of a file only a part."""
        first, start = self._out[0], self._sent_of_first
        if not isinstance(first, bytes | bytearray | memoryview):
            return first.read(start, min(len(first) - start, _SEALED_BYTES))
        if len(first) - start >= _RECORD_BYTES:
            return memoryview(first)[start : start + _SEALED_BYTES]
        gathered, size = [memoryview(first)[start:]], len(first) - start
        for part in islice(self._out, 1, None):
            if not isinstance(part, bytes | bytearray | memoryview) or size + len(part) > _RECORD_BYTES:
                break
            gathered.append(memoryview(part))
            size += len(part)
        return b"".join(gathered)

    def say_goodbye(self) -> None:
        """Let the peer know that nothing follows, if the socket takes it at once."""
        if self.session.is_established and not self.output:
            self.session.engine.say_goodbye()
            with suppress(OSError, EOFError):
                self.flush()


class ServerTls:
    """What a listener shows, and whom its clients are. `context` is replaced when the certificates change."""

    def __init__(self, context: ssl.SSLContext, principal_of: Callable[[bytes], str] | None) -> None:
        """`principal_of` names the client that shows a certificate, in DER; None: certificates name no client."""
        self.context = context
        self.principal_of = principal_of


class AcceptedTls(TlsStream, AcceptedSocket):
    """One accepted socket of a listener with TLS."""

    def __init__(
        self,
        server: ServerTls,
        processor: Processor,
        sock: Any,
        channel: ServerChannel,
        when_closed: Callable[[], object],
    ) -> None:
        AcceptedSocket.__init__(self, processor, sock, channel, when_closed)
        self.session = ServerSession(OpenSslEngine(server.context, server_side=True), channel, server.principal_of)

    def on_ready(self, events: int) -> None:
        """The same as without TLS; but bytes of a handshake keep no connection alive."""
        before = self.last_active
        super().on_ready(events)
        self.last_active = self.session.active_since(before, self.last_active)

    def close(self, reset: bool) -> None:
        if not reset:
            self.say_goodbye()
        super().close(reset)


class TlsWire(TlsStream, SocketWire):
    """One socket that was opened to a listener with TLS."""

    def __init__(
        self, context: ssl.SSLContext, dialer: SocketDialer, endpoint: Endpoint, peer: Peer, is_frozen: bool
    ) -> None:
        try:
            engine = OpenSslEngine(context, server_side=False, hostname=endpoint.host)
        except ValueError as error:
            dialer.refused(endpoint, f"TLS: {error}")
            raise OSError(f"no certificate can name {endpoint.host!r}") from None
        self.session = ClientSession(engine, peer.channel.frames, self._established, self._failed)
        SocketWire.__init__(self, dialer, endpoint, peer, is_frozen)

    def opened(self) -> None:
        """The socket is connected: the handshake begins."""
        self.session.shake_hands()
        self.flush()

    def _established(self) -> None:
        self.peer.connected(self.dialer.peers.now)

    def _failed(self, reason: str, is_final: bool) -> None:
        self.dialer.refused(self.endpoint, reason)
        if is_final:
            self.dialer.peers.note_refused_login(self.endpoint, reason)

    def close(self) -> None:
        self.say_goodbye()
        super().close()


def accepting(server: ServerTls) -> StreamMaker:
    """What makes the streams of a listener's connections."""
    return partial(AcceptedTls, server)


def dialing(context: ssl.SSLContext) -> WireMaker:
    """What makes the wires to listeners with TLS."""
    return partial(TlsWire, context)
