"""The settings of the socket server, under Kafka's names: threads, queue, buffers, connections.

``num.network.threads`` and ``num.io.threads`` have their effect on a node with Kafka's threads (``network="staged"``,
see `runtime.staged`). A node of one thread has neither pool, and they change nothing there.

``max.connections`` and ``max.connection.creation.rate`` are also taken for a single listener
(``listener.name.NAME.max.connections``, the name in lower case). Kafka takes some others so, and changes some while it
runs. Here those hold for all listeners of a role, from the start of a node to its end.

Follows org.apache.kafka.network.SocketServerConfigs.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykraft.broker.settings.listener_config import listener_prefix
from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import LARGEST, Config, Key, integer, string

NUM_NETWORK_THREADS = integer(
    "num.network.threads", 3, "network threads of each listener, on a node with Kafka's threads", at_least=1
)
NUM_IO_THREADS = integer(
    "num.io.threads", 8, "request handler threads of each role, on a node with Kafka's threads", at_least=1
)
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
MAX_CONNECTIONS = integer(
    "max.connections", LARGEST["int"], "connections at most; one more waits until another is closed", at_least=0
)
MAX_CONNECTIONS_PER_IP = integer(
    "max.connections.per.ip", LARGEST["int"], "connections of one address at most; one more is closed", at_least=0
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = string(
    "max.connections.per.ip.overrides", "", "other limits for some addresses: host:limit, ..."
)
MAX_CONNECTION_CREATION_RATE = integer(
    "max.connection.creation.rate", LARGEST["int"], "new connections a second; what is beyond waits", at_least=0
)

SOCKET_KEYS: list[Key[Any]] = [
    NUM_NETWORK_THREADS,
    NUM_IO_THREADS,
    QUEUED_MAX_REQUESTS,
    SOCKET_REQUEST_MAX_BYTES,
    SOCKET_SEND_BUFFER_BYTES,
    SOCKET_RECEIVE_BUFFER_BYTES,
    SOCKET_LISTEN_BACKLOG_SIZE,
    CONNECTIONS_MAX_IDLE_MS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
    MAX_CONNECTION_CREATION_RATE,
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


def check_socket_keys(values: Config) -> None:
    """What several of the keys must say together; ConfigError is one sentence."""
    limits = limits_of_hosts(values)
    if values[MAX_CONNECTIONS_PER_IP] == 0 and not limits:
        raise ConfigError(
            f"{MAX_CONNECTIONS_PER_IP.name} is 0, so every connection would be closed: name the hosts that may connect"
            f" in {MAX_CONNECTIONS_PER_IP_OVERRIDES.name}"
        )


def limits_of_hosts(values: Config) -> dict[str, int]:
    """The limit of each host in ``max.connections.per.ip.overrides``; ConfigError if it is not written so."""
    text = values[MAX_CONNECTIONS_PER_IP_OVERRIDES]
    limits = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, limit = entry.rpartition(":")
        if not host or not limit.isascii() or not limit.isdigit():
            raise ConfigError(
                f"{MAX_CONNECTIONS_PER_IP_OVERRIDES.name} has {entry!r}, but must be a list of host:limit, such as"
                " 127.0.0.1:10"
            )
        limits[host.strip().strip("[]")] = int(limit)
    return limits
