"""The TLS of one connection, without its bytes' way to the peer and without its cryptography.

::

    connection <--frames-- TlsSession --plain--> TlsEngine --sealed--> a socket, or the simulated network

A `TlsEngine` has two buffers in memory: what has come, and what is to be sent. The real one is Python's `ssl`
(`network.tls`). In simulated histories a stand-in takes its place (`sim.world.tls`). What a connection makes of it is
here, once for both: when a handshake is over, whom a certificate names, and how a failure is called.

A handshake is nothing but bytes that come and go. It waits for no peer. Its bytes keep no connection alive, so it ends
within `connections.max.idle.ms` after the connection was accepted, however often the client sends a byte of it.

Follows org.apache.kafka.common.network.SslTransportLayer.
"""

from collections.abc import Callable
from typing import Protocol

from pykraft.transport.frames import FrameReader
from pykraft.transport.server_channel import ServerChannel

NO_TLS = "the connection ended within the handshake; is this a listener with TLS?"


class TlsError(OSError):
    """There is no TLS with this peer: close the connection, once the engine's last bytes are sent. The text is the
    reason, in OpenSSL's words."""


class TlsEngine(Protocol):
    """One side of TLS, between two buffers in memory."""

    def feed(self, data: bytes) -> None:
        """These bytes have come from the peer."""
        ...

    def shake_hands(self) -> bool:
        """Go on with the handshake; whether it is over. TlsError: it has failed."""
        ...

    def open(self, space: memoryview) -> int | None:
        """Decrypt into this space: how many bytes, 0 at the end of the stream, None if no whole record is left.
        TlsError: the peer's bytes are no TLS."""
        ...

    def seal(self, plain: memoryview) -> int:
        """Encrypt from the front of these bytes; returns how many it took."""
        ...

    @property
    def pending(self) -> int:
        """How many bytes are to be sent."""
        ...

    def take(self) -> bytes:
        """The bytes that are to be sent; they are the caller's from now on."""
        ...

    def certificate(self) -> bytes | None:
        """What the peer has shown, in DER."""
        ...

    def say_goodbye(self) -> None:
        """Tell the peer that nothing follows."""
        ...


class TlsSession:
    """One side of a connection with TLS."""

    def __init__(self, engine: TlsEngine, frames: FrameReader) -> None:
        """`frames` is where the peer's plain bytes belong."""
        self.engine = engine
        self._frames = frames
        self.is_established = self.has_ended = False

    def received(self, data: bytes) -> bool:
        """Take what has come from the peer, and open all whole records; False if there was nothing in them and nothing
        follows (`has_ended`). A peer's last words may come together with its goodbye. TlsError, ProtocolError, OSError:
        send what the engine has, and close the connection."""
        count = 0
        self.engine.feed(data)
        try:
            if self.is_established or self.shake_hands():
                count = self._open_records()
        except TlsError as error:
            self.failed(str(error), is_final=True)
            raise
        return count > 0 or not self.has_ended

    def shake_hands(self) -> bool:
        """Go on with the handshake; whether it is over. TlsError: it has failed. OSError: the peer is refused."""
        if self.engine.shake_hands():
            self.is_established = True
            self.established()
        return self.is_established

    def active_since(self, before: int, now: int) -> int:
        """When the peer was active last, if something has come now: bytes of a handshake keep no connection alive."""
        return now if self.is_established else before

    def _open_records(self) -> int:
        """How many bytes were in them."""
        frames, engine, total = self._frames, self.engine, 0
        while count := engine.open(frames.space()):
            frames.received(count)
            total += count
        if count == 0:  # the peer has said that nothing follows
            self.has_ended = True
        return total

    def end(self) -> None:
        """The peer's stream has ended."""
        self.has_ended = True
        if not self.is_established:
            self.failed(NO_TLS)

    def established(self) -> None:
        """The handshake is over. OSError: the peer is refused."""

    def failed(self, reason: str, is_final: bool = False) -> None:
        """There is no TLS with this peer. It is final if the peer's bytes are no TLS, if its certificate is refused, or
        if it has refused ours: the next attempt would end in the same way."""


class ServerSession(TlsSession):
    """The side that has accepted the connection."""

    def __init__(self, engine: TlsEngine, channel: ServerChannel, principal_of: Callable[[bytes], str] | None) -> None:
        """`principal_of` names the client that shows a certificate, in DER; None: certificates name no client."""
        super().__init__(engine, channel.frames)
        self._channel = channel
        self._principal_of = principal_of

    def established(self) -> None:
        """A client that has shown a certificate is the principal whom it names."""
        certificate = self.engine.certificate()
        if certificate is not None and self._principal_of is not None:
            try:
                self._channel.principal = self._principal_of(certificate)
            except (ValueError, IndexError) as error:
                self._channel.count_login(False)
                raise ConnectionRefusedError(f"the certificate names no principal: {error}") from None
        if not self._channel.protocol.has_sasl:
            self._channel.count_login(True)

    def failed(self, reason: str, is_final: bool = False) -> None:
        """As Kafka counts: a peer that leaves within the handshake has not failed."""
        if is_final and not self.is_established:
            self._channel.count_login(False)


class ClientSession(TlsSession):
    """The side that has opened the connection."""

    def __init__(
        self,
        engine: TlsEngine,
        frames: FrameReader,
        on_established: Callable[[], object],
        on_failure: Callable[[str, bool], object],
    ) -> None:
        """`on_failure` hears the reason, and whether it is final."""
        super().__init__(engine, frames)
        self._on_established = on_established
        self._on_failure = on_failure

    def established(self) -> None:
        """The server is the one that it claims to be."""
        self._on_established()

    def failed(self, reason: str, is_final: bool = False) -> None:
        self._on_failure(f"TLS: {reason}", is_final)
