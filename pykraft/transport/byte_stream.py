"""The port below an accepted connection: its bytes, in both directions.

A `ServerConnection` takes requests from such a stream, and sends answers on it. The socket server supplies one over a
socket (`network.socket_server`), the simulator one over its network in memory (`sim.world.hosts`). A stream calls its
connection's `go_on` when something has happened to it.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol


class ByteStream(Protocol):
    """The bytes of one connection, in both directions."""

    @property
    def output(self) -> Collection[Any]:
        """What was sent, and has not left yet."""
        ...

    is_readable: bool
    """`receive` may find something: bytes, the end, or an error."""
    has_hung_up: bool
    """The client has closed its half, or all of it. Bytes that it sent before may still be there. A stream that cannot
    know this without reading leaves it False."""
    has_ended: bool
    """`receive` has come to the end."""

    def receive(self) -> bool:
        """Move bytes that have come into the channel's frame reader; False at the end. OSError, ProtocolError: close
        it."""
        ...

    def send(self, parts: Sequence[Any]) -> None:
        """Send these parts, in order, sooner or later. OSError, EOFError: close it."""
        ...

    def watch(self) -> None:
        """Call the connection's `go_on` when the stream is readable, has room for its output, or breaks."""
        ...

    def close(self, reset: bool) -> None:
        """Close it; with `reset` the client sees an error instead of an end, as when a process dies."""
        ...
