"""Which sockets of a node have TLS: those of its listeners, and those that it opens to others.

`network.tls`, and with it Python's `ssl`, is imported here, and only if there is such a socket.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.settings.tls_listeners import ListenerTls, tls_of_listeners
from pykraft.common.types import Endpoint
from pykraft.network.client import SocketDialer, SocketWire, WireMaker
from pykraft.network.socket_server import StreamMaker
from pykraft.transport.peers import Peer

if TYPE_CHECKING:
    from pykraft.network.tls import ServerTls


class NodeTls:
    """The TLS of one node. Its files are read when it is made; ConfigError says which one cannot be."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self.streams: dict[str, StreamMaker] = {}
        """By listener."""
        self._servers: dict[str, ServerTls] = {}
        self._wires: dict[bool, WireMaker] = {}
        """By whether they go to the controllers' listener."""
        if config.tls:
            from pykraft.network import tls

            self._servers, self._wires = _read(config, config.tls)
            self.streams = {name: tls.accepting(server) for name, server in self._servers.items()}

    def reload(self, changed: Mapping[str, str]) -> None:
        """Read all stores again, with these settings of listeners over those of the file. Connections from now on have
        them. ConfigError: one cannot be read, and all stay as they were."""
        config = self._config
        settings = tls_of_listeners(sorted(config.tls), config.protocols, {**config.properties, **changed})
        servers, self._wires = _read(config, settings)
        for name, server in servers.items():
            self._servers[name].context = server.context

    @property
    def make_wire(self) -> WireMaker:
        """What opens the node's sockets to others."""
        return self._make_wire if self._wires else SocketWire

    def _make_wire(self, dialer: SocketDialer, endpoint: Endpoint, peer: Peer, is_frozen: bool) -> SocketWire:
        return self._wires.get(peer.is_to_controller, SocketWire)(dialer, endpoint, peer, is_frozen)


def _read(
    config: NodeConfig, settings: Mapping[str, ListenerTls]
) -> tuple[dict[str, "ServerTls"], dict[bool, WireMaker]]:
    """What the listeners show, and what is shown to others: every store is read now."""
    from pykraft.network import tls

    servers, wires = {}, {}
    for name in (listener.name for listener in config.listeners if listener.name in settings):
        own = settings[name]
        context = tls.server_context(own.settings, own.client_auth, f"listener {name}")
        servers[name] = tls.ServerTls(context, None if own.mapping is None else own.mapping.principal_of)
    for is_to_controller in (False, True):
        name = config.outgoing_listener(is_to_controller)
        if name in settings:
            wires[is_to_controller] = tls.dialing(tls.client_context(settings[name].settings, f"listener {name}"))
    return servers, wires
