"""Hosts whose connections have TLS, and what each host shows and logs in with.

`SecureStream` and `SecureWire` do for the simulated network what `network.tls` does for sockets: they move bytes
between it and a `TlsSession`, which is the same on both. A flight of a handshake may arrive in two pieces, with time
between them, so that a connection breaks within one.

`Credentials` belong to the network: each client that is made on it has a certificate and a login, if any are needed.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Protocol

from pykraft.broker.settings.listener_config import Listener
from pykraft.broker.settings.socket_config import CONNECTIONS_MAX_IDLE_MS
from pykraft.common.types import Endpoint
from pykraft.security.login import SaslLogin
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.hosts import Machine, SimulatedNode, SimulatedStream, SimulatedWire
from pykraft.sim.world.network import End
from pykraft.sim.world.tls import Certificate, StandInEngine, TlsSide
from pykraft.transport.pace import close_idle
from pykraft.transport.peers import Peer
from pykraft.transport.server_connection import RequestChannel
from pykraft.transport.tls_session import ClientSession, ServerSession, TlsError, TlsSession

_HANDSHAKE = b"\x16"
"""The first byte of a record of a handshake."""
Certified = Callable[[str, Endpoint, Certificate | None], object]
"""(host, the address it has dialled, what was shown there): hears of each connection whose server is verified."""


class Watched(Protocol):
    """What looks at the connections of a node (`sim.laws.security_laws`)."""

    def see_certificate(self, host: str, endpoint: Endpoint, shown: Certificate | None) -> None: ...

    def see_refusal(self, endpoint: Endpoint, reason: str) -> None: ...

    def see_streams(self, streams: Iterable[SimulatedStream], now: int) -> None: ...


class _Flights:
    """Sends what a session has for its peer."""

    def __init__(self, session: TlsSession, end: End, random: Random, parted: float) -> None:
        self._session = session
        self._end = end
        self._random = random
        self._parted = parted
        """How often a flight of a handshake comes in two pieces."""

    def send(self) -> None:
        """OSError: the connection is closed."""
        data = self._session.engine.take()
        if data[:1] == _HANDSHAKE and self._random.random() < self._parted:
            cut = self._random.randrange(len(data))
            self._end.send([data[:cut]])
            data = data[cut:]
        self._end.send([data])


def _seal(session: TlsSession, data: bytes) -> None:
    plain = memoryview(data)
    while plain:
        plain = plain[session.engine.seal(plain) :]


class SecureStream(SimulatedStream):
    """The stream under a connection that a listener with TLS has accepted."""

    def __init__(
        self, secure: "NodeSecurity", machine: SimulatedNode, listener: Listener, end: End, requests: RequestChannel
    ) -> None:
        super().__init__(machine, listener, end, requests)
        own = machine.config.tls[listener.name]
        side = TlsSide(secure.side.certificate, versions=own.settings.versions, client_auth=own.client_auth)
        engine = StandInEngine(side, True, secure.random)
        principal_of = None if own.mapping is None else own.mapping.principal_of
        self.session = ServerSession(engine, self.connection.channel, principal_of)
        self._flights = _Flights(self.session, end, secure.random, secure.parted)

    def receive(self) -> bool:
        data = self._unread.popleft()
        self.is_readable = bool(self._unread)
        if not data:
            self.session.end()
            self.has_ended = True
            return False
        try:
            has_bytes = self.session.received(data)
            self.has_ended = self.session.has_ended
        except TlsError:
            with suppress(OSError):  # the peer hears why, if it still listens
                self._flights.send()
            raise
        self._flights.send()
        self.last_active = self.session.active_since(self.last_active, self._machine.scheduler.now)
        return has_bytes

    def _put(self, frame: bytes) -> None:
        _seal(self.session, frame)
        self._flights.send()

    def close(self, reset: bool) -> None:
        if self.session.is_established and not reset:
            self.session.engine.say_goodbye()
            with suppress(OSError):
                self._flights.send()
        super().close(reset)


class SecureWire(SimulatedWire):
    """A connection that was opened to a listener with TLS."""

    def __init__(self, secure: "ClientSecurity", host: Machine, endpoint: Endpoint, peer: Peer) -> None:
        self._endpoint = endpoint
        self._secure = secure
        self._engine = StandInEngine(secure.side, False, secure.random, endpoint.host)
        self._session = ClientSession(self._engine, peer.channel.frames, self._established, self._failed)
        super().__init__(host, endpoint, peer)
        self._flights = _Flights(self._session, self._end, secure.random, secure.parted)

    def send(self, parts: Sequence[Any]) -> None:
        _seal(self._session, b"".join(parts))
        self._flights.send()

    def connected(self) -> None:
        def begin() -> None:
            self._session.shake_hands()
            with suppress(OSError):
                self._flights.send()

        self._host.act(begin)

    def received(self, data: bytes) -> None:
        def receive() -> None:
            now = self._host.scheduler.now
            try:
                has_bytes = self._session.received(data)
                self._flights.send()
            except OSError:
                with suppress(OSError):
                    self._flights.send()
                self._peer.closed(now)
                return
            if has_bytes:
                self._peer.received(now)
            if self._session.has_ended and self._end.is_open:
                self._peer.closed(now)

        self._host.act(receive)

    def closed(self) -> None:
        self._session.end()
        super().closed()

    def close(self) -> None:
        if self._session.is_established and self._end.is_open:
            self._engine.say_goodbye()
            self._flights.send()
        super().close()

    def _established(self) -> None:
        self._secure.certified(self._host.name, self._endpoint, self._engine.peer)
        self._peer.connected(self._host.scheduler.now)

    def _failed(self, reason: str, is_final: bool) -> None:
        if is_final:
            self._host.peers.note_refused_login(self._endpoint, reason)


class ClientSecurity:
    """What a host shows, and whom it believes, where it opens connections."""

    def __init__(self, side: TlsSide, random: Random, parted: float, certified: Certified) -> None:
        self.side = side
        self.random = random
        self.parted = parted
        self.certified = certified

    def dial(self, host: Machine, endpoint: Endpoint, peer: Peer) -> SimulatedWire:
        """Open a connection with TLS."""
        return SecureWire(self, host, endpoint, peer)


class NodeSecurity(ClientSecurity):
    """What a node shows on its listeners besides. Its certificate may be replaced at any time."""

    def __init__(self, machine: SimulatedNode, side: TlsSide, random: Random, parted: float, laws: Watched) -> None:
        super().__init__(side, random, parted, laws.see_certificate)
        assert side.certificate is not None
        self.certificate = side.certificate
        """The good one."""
        self._machine = machine
        self._laws = laws
        self._idle_check = 0

    def mend(self) -> None:
        """Show the good certificate again."""
        self.side.certificate = self.certificate

    def dial(self, host: Machine, endpoint: Endpoint, peer: Peer) -> SimulatedWire:
        config = self._machine.config
        if config.outgoing_listener(peer.is_to_controller) in config.tls:
            return super().dial(host, endpoint, peer)
        return SimulatedWire(host, endpoint, peer)

    def accept(self, listener: Listener, end: End, requests: RequestChannel) -> SimulatedStream:
        """The stream under a connection that was accepted."""
        if listener.name in self._machine.config.tls:
            return SecureStream(self, self._machine, listener, end, requests)
        return SimulatedStream(self._machine, listener, end, requests)

    def close_idle(self, now: int) -> int:
        """Close connections that are idle; returns when to look again."""
        if now >= self._idle_check:
            limit_ms = self._machine.config.values[CONNECTIONS_MAX_IDLE_MS]
            self._idle_check = close_idle(self._machine.streams, limit_ms, now)
        self._laws.see_streams(self._machine.streams, now)
        return self._idle_check

    def begin(self) -> None:
        """The node has started."""
        self._idle_check = 0
        self._machine.peers.on_refused_login = self._laws.see_refusal


class Credentials:
    """What the clients on a network show and log in with."""

    def __init__(
        self,
        login: SaslLogin | None,
        side: Callable[[str], TlsSide] | None,
        dice: Callable[[str], Random],
        parted: float,
        certified: Certified,
        refused: Callable[[Endpoint, str], None],
    ) -> None:
        """`side` makes that of a host, by its name; None: there is no TLS."""
        self._login = login
        self._side = side
        self._dice = dice
        self._parted = parted
        self._certified = certified
        self._refused = refused

    def equip(self, client: SimulatedClient) -> None:
        """Give a new client what it needs."""
        client.login = self._login
        client.peers.on_refused_login = self._refused
        if self._side is not None:
            random = self._dice(f"TLS of {client.name}")
            client.secure = ClientSecurity(self._side(client.name), random, self._parted, self._certified)
