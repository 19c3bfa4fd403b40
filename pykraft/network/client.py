"""Connections that this side opens: the sockets under `transport.peers`.

For a lesson or a test the network to an address can be *frozen*: its sockets are not looked at any more, nothing is
written to them, new ones do not connect. To both ends that looks like a cable that was pulled out: silence. When it is
thawed, what had been sent or was waiting goes on its way, as TCP would send it again.

Follows org.apache.kafka.common.network.Selector and org.apache.kafka.clients.NetworkClient.
"""

import errno
import socket
from collections.abc import Sequence
from random import Random
from typing import Any

from pykraft.common.types import Endpoint
from pykraft.network.selector import READ, WRITE, Selector, Stream
from pykraft.transport.peers import Peer, Peers


class SocketWire:
    """One socket that was opened."""

    def __init__(self, dialer: "SocketDialer", endpoint: Endpoint, peer: Peer, is_frozen: bool) -> None:
        self._dialer = dialer
        self._selector = dialer.selector
        self._peer = peer
        self.endpoint = endpoint
        self._is_connected = False
        self._is_frozen = is_frozen
        self._has_begun = False
        self._events = 0
        sock = socket.socket(socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = Stream(sock, peer.channel.frames)
        if not is_frozen:
            self._begin()

    def _begin(self) -> None:
        """Connect; how that went is told when the socket is ready, also if it failed at once. An address that is none
        is one that cannot be reached: peers tell addresses, and may tell any."""
        self._has_begun = True
        try:
            self._result = self._stream.sock.connect_ex(tuple(self.endpoint))
        except (OSError, OverflowError, TypeError, ValueError):
            self._result = errno.EADDRNOTAVAIL
        self._watch(WRITE)

    def _refusal(self) -> int:
        """Why the connection was not made, which is told only once, at once or later; 0 if it was."""
        if self._result not in (0, errno.EINPROGRESS):
            return self._result
        return self._stream.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def send(self, parts: Sequence[Any]) -> None:
        self._stream.queue(parts)
        if not self._is_frozen:
            self._stream.flush()
            self._rewatch()

    def on_ready(self, events: int) -> None:
        """The socket can be read or written."""
        now = self._dialer.peers.now
        has_bytes = False
        try:
            if not self._is_connected:
                if error := self._refusal():
                    raise OSError(error, "could not connect")
                self._is_connected = True
                self._peer.connected(now)
            elif events & WRITE:
                self._stream.flush()
            if events & READ:
                has_bytes = self._stream.receive()
                if not has_bytes:
                    raise EOFError
            self._rewatch()
        except (OSError, EOFError):
            self._peer.closed(now)
            return
        if has_bytes:  # not above: an error of those who are told is not one of the socket
            self._peer.received(now)

    def _rewatch(self) -> None:
        if self._is_connected and not self._is_frozen:
            self._watch(READ | (WRITE if self._stream.has_output else 0))

    def _watch(self, events: int) -> None:
        sock = self._stream.sock
        if sock.fileno() < 0 or events == self._events:
            return
        if not events:
            self._selector.unregister(sock)
        elif not self._events:
            self._selector.register(sock, events, self)
        else:
            self._selector.modify(sock, events, self)
        self._events = events

    def freeze(self) -> None:
        self._is_frozen = True
        self._watch(0)

    def thaw(self) -> None:
        self._is_frozen = False
        if not self._has_begun:
            self._begin()
        else:
            self._watch(READ | WRITE if self._is_connected else WRITE)

    def close(self) -> None:
        self._watch(0)
        self._stream.sock.close()
        self._dialer.wires.discard(self)


class SocketDialer:
    """Opens sockets. It knows its peers because they must be told the time."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.peers: Peers
        self.wires: set[SocketWire] = set()
        self._frozen: set[Endpoint] = set()

    def dial(self, endpoint: Endpoint, peer: Peer) -> SocketWire:
        wire = SocketWire(self, endpoint, peer, endpoint in self._frozen)
        self.wires.add(wire)
        return wire

    def freeze(self, endpoint: Endpoint) -> None:
        """Cut the network to this address."""
        self._frozen.add(endpoint)
        for wire in self.wires:
            if wire.endpoint == endpoint:
                wire.freeze()

    def thaw(self, endpoint: Endpoint) -> None:
        """Mend the network to this address."""
        self._frozen.discard(endpoint)
        for wire in self.wires:
            if wire.endpoint == endpoint:
                wire.thaw()


class NetworkClient(Peers):
    """All connections that a node, or a client, has opened, on sockets."""

    def __init__(self, selector: Selector, client_id: str, random: Random) -> None:
        self._dialer = SocketDialer(selector)
        super().__init__(self._dialer, client_id, random)
        self._dialer.peers = self

    def freeze(self, endpoint: Endpoint) -> None:
        """Cut the network to this address."""
        self._dialer.freeze(endpoint)

    def thaw(self, endpoint: Endpoint) -> None:
        """Mend the network to this address."""
        self._dialer.thaw(endpoint)
