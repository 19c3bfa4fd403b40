"""The settings of the socket server, under Kafka's names: threads, queue, buffers, connections.

``num.network.threads`` and ``num.io.threads`` have their effect on a node with Kafka's threads (``network="staged"``,
see `runtime.staged`). A node of one thread has neither pool, and they change nothing there.

``max.connections`` and ``max.connection.creation.rate`` are also taken for a single listener
(``listener.name.NAME.max.connections``, the name in lower case). Kafka takes some others so; here those hold for all
listeners of a role. The limits of connections may change while a node runs: `common.settings.broker_config`.

Follows org.apache.kafka.network.SocketServerConfigs.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykraft.broker.settings.listener_config import listener_prefix
from pykraft.common.settings.broker_config import MAX_CONNECTION_CREATION_RATE, MAX_CONNECTIONS
from pykraft.common.settings.config import Config, Key, integer

QUEUED_MAX_REQUESTS = integer("queued.max.requests", 500, "requests that wait to be handled", at_least=1)
SOCKET_REQUEST_MAX_BYTES = integer(
    "socket.request.max.bytes", 100 << 20, "a larger request closes its connection", at_least=1
)
SOCKET_SEND_BUFFER_BYTES = integer(
    "socket.send.buffer.bytes", 102_400, "the send buffer of a connection; -1 for the system's choice", at_least=-1
)
SOCKET_RECEIVE_BUFFER_BYTES = integer(
    "socket.receive.buffer.bytes",
    102_400,
    "the receive buffer of a connection; -1 for the system's choice",
    at_least=-1,
)
SOCKET_LISTEN_BACKLOG_SIZE = integer(
    "socket.listen.backlog.size", 50, "connections that wait to be accepted", at_least=1
)
CONNECTIONS_MAX_IDLE_MS = integer(
    "connections.max.idle.ms",
    600_000,
    "a connection that is silent for this long is closed; -1 for never",
    at_least=-1,
    kind="long",
)

SOCKET_KEYS: list[Key[Any]] = [
    QUEUED_MAX_REQUESTS,
    SOCKET_REQUEST_MAX_BYTES,
    SOCKET_SEND_BUFFER_BYTES,
    SOCKET_RECEIVE_BUFFER_BYTES,
    SOCKET_LISTEN_BACKLOG_SIZE,
    CONNECTIONS_MAX_IDLE_MS,
]


OF_LISTENERS = (MAX_CONNECTIONS, MAX_CONNECTION_CREATION_RATE)
"""What a single listener may have."""


def value_of_listener(key: Key[int], listener: str, properties: Mapping[str, str], values: Config) -> int:
    """What holds for one listener: its own setting, else that of all."""
    name = listener_prefix(listener) + key.name
    return key.read(properties[name], name) if name in properties else values[key]


def check_listener_keys(listeners: Iterable[str], properties: Mapping[str, str]) -> set[str]:
    """The names of the settings that these listeners may have for themselves; ConfigError if one has no such value."""
    named = {listener_prefix(listener) + key.name: key for listener in listeners for key in OF_LISTENERS}
    for name, key in named.items():
        if name in properties:
            key.read(properties[name], name)
    return set(named)
