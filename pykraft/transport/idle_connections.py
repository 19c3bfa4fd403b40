"""Connections that have been silent for longer than `connections.max.idle.ms` are closed.

A stream says when its client was active last. Bytes of a handshake do not count (`transport.tls_session`), so a client
that sends its handshake a byte at a time is closed when a silent one would be.

Follows org.apache.kafka.common.network.Selector.IdleExpiryManager.
"""

from collections.abc import Iterable
from typing import Protocol

from pykraft.common.core import FOREVER
from pykraft.transport.server_connection import ServerConnection

_CHECK_MS = 60_000
_LEAST_PAUSE_MS = 10


class _Stream(Protocol):
    connection: ServerConnection
    last_active: int


def close_idle(streams: Iterable[_Stream], limit_ms: int, now: int) -> int:
    """Close those that have been silent for too long; returns when to look again. A negative limit is none."""
    if limit_ms < 0:
        return FOREVER
    streams = list(streams)
    for stream in streams:
        if stream.last_active < now - limit_ms:
            stream.connection.close()
    # What is accepted later is silent later. Twice in that time is enough, and once a minute is not too often.
    oldest = min((stream.last_active for stream in streams if stream.last_active >= now - limit_ms), default=now)
    return min(max(oldest + limit_ms + 1, now + max(limit_ms // 2, _LEAST_PAUSE_MS)), now + _CHECK_MS)
