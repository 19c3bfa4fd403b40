"""Connections that this side opens: the sockets under `transport.peers`.

For a lesson or a test the network to an address can be *frozen*: its sockets are not looked at any more, nothing is
written to them, new ones do not connect. To both ends that looks like a cable that was pulled out: silence. When it is
thawed, what had been sent or was waiting goes on its way, as TCP would send it again.

Follows org.apache.kafka.common.network.Selector and org.apache.kafka.clients.NetworkClient.
"""

import errno
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from random import Random, SystemRandom
from typing import Any

from pykraft.common.types import Endpoint
from pykraft.network.inherited import closed_in_child
from pykraft.network.selector import READ, WRITE, Selector, WatchedStream
from pykraft.transport.peers import Peer, Peers

_MOST_REFUSALS = 1000
"""Peers tell addresses, and may tell any number."""


_UNRESOLVED = "the name of this host cannot be resolved"


class SocketWire(WatchedStream):
    """One socket that was opened."""

    def __init__(self, dialer: "SocketDialer", endpoint: Endpoint, peer: Peer, is_frozen: bool) -> None:
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        sock = closed_in_child(socket.socket(family, socket.SOCK_STREAM))
        super().__init__(dialer.selector, sock, peer.channel.frames)
        self.dialer = dialer
        self.peer = peer
        self.endpoint = endpoint
        self._is_connected = False
        self._is_frozen = is_frozen
        self._has_begun = False
        self._reason = ""
        """Why it could not even begin to connect."""
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not is_frozen:
                self._begin()
        except OSError:
            sock.close()
            raise

    def _begin(self) -> None:
        """Connect; the result comes when the socket is ready, also if it failed at once. A name that is no address
        counts as one that cannot be reached: peers send addresses, and may send any."""
        self._has_begun = True
        try:
            self._result = self.sock.connect_ex(tuple(self.endpoint))
        except (OSError, OverflowError, TypeError, ValueError) as error:
            self._result = errno.EADDRNOTAVAIL
            is_unknown = isinstance(error, socket.gaierror)
            self._reason = _UNRESOLVED if is_unknown else getattr(error, "strerror", None) or "no host has this address"
        self.watch_for(WRITE)

    def _refusal(self) -> int:
        """Why the connection was not made, which the system says only once, at once or later; 0 if it was."""
        if self._result not in (0, errno.EINPROGRESS):
            return self._result
        return self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def send(self, parts: Sequence[Any]) -> None:
        self.queue(parts)
        if not self._is_frozen:
            self.flush()
            self._watch()

    def on_ready(self, events: int) -> None:
        if not self.events:
            return
        now = self.dialer.peers.now
        has_bytes = False
        try:
            if not self._is_connected:
                if error := self._refusal():
                    self.dialer.refused(self.endpoint, self._reason or os.strerror(error))
                    raise OSError(error, "could not connect")
                self.dialer.refusals.pop(self.endpoint, None)
                self._is_connected = True
                self.opened()
            elif events & WRITE:
                self.flush()
            if events & ~WRITE:
                has_bytes = self.receive()
                if not has_bytes:
                    raise EOFError
            self._watch()
        except (OSError, EOFError):
            self.peer.closed(now)
            return
        if has_bytes:  # not above: an error of a callback is not one of the socket
            self.peer.received(now)
            if self.has_ended and self.events:
                self.peer.closed(now)

    def opened(self) -> None:
        """The socket is connected. OSError: the connection is over."""
        self.peer.connected(self.dialer.peers.now)

    def give_up(self) -> None:
        if self.events:
            self.peer.closed(self.dialer.peers.now)

    def _watch(self) -> None:
        if self._is_connected and self.events:
            self.watch_for(READ | (WRITE if self.output else 0))

    def freeze(self) -> None:
        self._is_frozen = True
        self.watch_for(0)

    def thaw(self) -> None:
        self._is_frozen = False
        if not self._has_begun:
            self._begin()
        else:
            self.watch_for(READ | WRITE if self._is_connected else WRITE)

    def close(self) -> None:
        self.close_socket()
        self.dialer.wires.discard(self)


WireMaker = Callable[["SocketDialer", Endpoint, Peer, bool], SocketWire]
"""(dialer, endpoint, peer, whether its network is cut) -> the socket to it."""


class SocketDialer:
    """Opens sockets. It knows its peers because it must pass them the time."""

    def __init__(self, selector: Selector, make_wire: WireMaker) -> None:
        self.selector = selector
        self._make_wire = make_wire
        self.peers: Peers
        self.wires: set[SocketWire] = set()
        self.refusals: dict[Endpoint, str] = {}
        """Why an address could not be connected to, for those to which none of the attempts since succeeded."""
        self._frozen: set[Endpoint] = set()

    def refused(self, endpoint: Endpoint, reason: str) -> None:
        """No connection to this address was made."""
        if len(self.refusals) >= _MOST_REFUSALS:
            self.refusals.clear()
        self.refusals[endpoint] = reason

    def dial(self, endpoint: Endpoint, peer: Peer) -> SocketWire:
        wire = self._make_wire(self, endpoint, peer, endpoint in self._frozen)
        self.wires.add(wire)
        return wire

    def is_frozen(self, endpoint: Endpoint) -> bool:
        return endpoint in self._frozen

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

    def __init__(
        self,
        selector: Selector,
        client_id: str,
        random: Random,
        is_of_node: bool = False,
        make_wire: WireMaker = SocketWire,
    ) -> None:
        self._dialer = SocketDialer(selector, make_wire)
        super().__init__(self._dialer, client_id, random, is_of_node)
        self._dialer.peers = self
        self.nonces = SystemRandom()

    def is_frozen(self, endpoint: Endpoint) -> bool:
        """Whether the network to this address is cut. Any thread may ask."""
        return self._dialer.is_frozen(endpoint)

    @property
    def refusals(self) -> Mapping[Endpoint, str]:
        """Why there is no connection to an address, for those to which none could be made."""
        return self._dialer.refusals

    def freeze(self, endpoint: Endpoint) -> None:
        """Cut the network to this address."""
        self._dialer.freeze(endpoint)

    def thaw(self, endpoint: Endpoint) -> None:
        """Mend the network to this address."""
        self._dialer.thaw(endpoint)
