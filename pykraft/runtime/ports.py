"""Ports for nodes that must know each other's addresses before any of them listens.

The quorum's voters are named in every node's file, so the ports are needed first. A port that the system has chosen is
kept by a bound socket that does not listen: no other program gets it, not even while its node is dead, and the node
itself may listen on it, since both sockets allow the address to be reused.
"""

import socket
import sys
from collections.abc import Sequence

from pykraft.network.inherited import closed_in_child

HOST = "127.0.0.1"


class PortTakenError(Exception):
    """A port that cannot be had."""

    def __init__(self, port: int, error: OSError) -> None:
        super().__init__(f"port {port} cannot be had: {error.strerror}")
        self.port = port
        self.reason = error.strerror


class PortReservation:
    """Ports that are this process's until `close`."""

    def __init__(self, wanted: Sequence[int]) -> None:
        """These ports; for a 0 one that the system chooses. PortTakenError if one is taken."""
        self._sockets: list[socket.socket] = []
        try:
            for port in wanted:
                sock = closed_in_child(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
                self._sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((HOST, port))
        except OSError as error:
            self.close()
            raise PortTakenError(port, error) from None
        self.ports = [sock.getsockname()[1] for sock in self._sockets]
        if sys.platform != "linux":
            # Elsewhere a second socket may not be bound beside the first: the ports are let go, and hoped for.
            self.close()

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()
        self._sockets = []
