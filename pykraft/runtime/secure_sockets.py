"""Which sockets have TLS: those of a node's listeners, those that a node opens to others, and those of a client.

`network.tls`, and with it Python's `ssl`, is imported here, and only if there is such a socket.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.settings.tls_listeners import ListenerTls
from pykraft.common.settings.tls_config import TlsSettings
from pykraft.common.types import Endpoint
from pykraft.network.client import SocketDialer, SocketWire, WireMaker
from pykraft.network.socket_server import StreamMaker
from pykraft.transport.peers import Peer

if TYPE_CHECKING:
    from pykraft.network.tls import ServerTls


class NodeTls:
    """The TLS of one node. Its files are read when it is made; ConfigError says which one cannot be."""

    def __init__(self, config: NodeConfig) -> None:
        self.streams: dict[str, StreamMaker] = {}
        """By listener."""
        self._wires: dict[bool, WireMaker] = {}
        """By whether they go to the controllers' listener."""
        if not config.tls:
            return
        from pykraft.network import tls

        for listener in config.listeners:
            if listener.name in config.tls:
                self.streams[listener.name] = tls.accepting(_server(listener.name, config.tls))
        for is_to_controller in (False, True):
            name = config.outgoing_listener(is_to_controller)
            if name in config.tls:
                self._wires[is_to_controller] = tls.dialing(
                    tls.client_context(config.tls[name].settings, f"listener {name}")
                )

    @property
    def make_wire(self) -> WireMaker:
        """What opens the node's sockets to others."""
        return self._make_wire if self._wires else SocketWire

    def _make_wire(self, dialer: SocketDialer, endpoint: Endpoint, peer: Peer, is_frozen: bool) -> SocketWire:
        return self._wires.get(peer.is_to_controller, SocketWire)(dialer, endpoint, peer, is_frozen)


def _server(name: str, settings: Mapping[str, ListenerTls]) -> "ServerTls":
    from pykraft.network import tls

    own = settings[name]
    context = tls.server_context(own.settings, own.client_auth, f"listener {name}")
    return tls.ServerTls(context, None if own.mapping is None else own.mapping.principal_of)


def client_wires(settings: TlsSettings | None) -> WireMaker:
    """What opens a client's sockets; without settings they have no TLS. ConfigError: a file cannot be read."""
    if settings is None:
        return SocketWire
    from pykraft.network import tls

    return tls.dialing(tls.client_context(settings, "this client"))
