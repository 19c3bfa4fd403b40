"""A node of notebook 21 whose clients are overheard: one listener with SASL in the clear, one with TLS, one with both.

::

    CLEAR     SASL_PLAINTEXT: a client logs in with PLAIN or SCRAM-SHA-256
    SEALED    SSL: the broker and the client show each other certificates
    BOTH      SASL_SSL: the broker shows a certificate, and a client logs in

Each of the three advertises the port of a `Wiretap`, so every byte of a client passes it. The node is a broker and a
controller at once, and its files are in a temporary folder.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random, SystemRandom
from typing import Any

from pykraft.admin import Admin
from pykraft.broker.node import Node
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.first_credentials import parse_add_scram
from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.trace import RingBuffer
from pykraft.common.types import Uuid
from pykraft.course.lessons.access.overheard import Overheard
from pykraft.course.lessons.access.wiretap import Wiretap
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.secure_files import SecureFiles
from pykraft.runtime.temporary import TemporaryPlace
from pykraft.runtime.threaded import NodeThread
from pykraft.security.jaas import PLAIN_MODULE, SCRAM_MODULE, as_jaas
from pykraft.security.mechanism import PLAIN
from pykraft.storage.disk.filesystem import OsFileSystem

SCRAM = "SCRAM-SHA-256"
_CLEAR, _SEALED, _BOTH = "CLEAR", "SEALED", "BOTH"
_PROTOCOLS = {
    _CLEAR: "SASL_PLAINTEXT",
    _SEALED: "SSL",
    _BOTH: "SASL_SSL",
    "PEERS": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
}
_START_S = 30.0
_MOST_CONNECTIONS = 1000
"""Of a tap: then the numbers of the next tap begin."""


class GuardedNode:
    """A running node with one user, whom it knows in PLAIN and in SCRAM."""

    def __init__(self, user: str, password: str, topic: str = "flights") -> None:
        self._user, self._password = user, password
        self._place = TemporaryPlace()
        self._folder = self._place.path
        self._files = SecureFiles(self._folder / "security", [1])
        listeners = (_CLEAR, _SEALED, _BOTH)
        self._taps = {name: Wiretap(1 + _MOST_CONNECTIONS * place) for place, name in enumerate(listeners)}
        self.ports = dict(zip(_PROTOCOLS, _free_ports(len(_PROTOCOLS)), strict=True))
        config = read_node_config(self._properties())
        first = parse_add_scram([f"{SCRAM}=[name={user},password={password}]"], SystemRandom())
        now_ms = time.time_ns() // 1_000_000
        cluster_id = str(Uuid.random(Random()))
        format_directories(config, cluster_id, OsFileSystem(), Random(), now_ms, first_records=first)
        self._node = NodeThread(config, MonotonicClock(), Random(), RingBuffer())
        self._node.start()
        deadline = time.monotonic() + _START_S
        while not self._node.call(_serves).result():
            if time.monotonic() > deadline:
                raise TimeoutError("the node does not serve")
            time.sleep(0.01)
        for name, tap in self._taps.items():
            tap.connect_to(self.ports[name])
        self._create(topic)

    def _properties(self) -> dict[str, str]:
        address = "127.0.0.1"
        ports = {**self.ports, **{name: tap.port for name, tap in self._taps.items()}}
        advertised = [f"{name}://localhost:{ports[name]}" for name in _PROTOCOLS if name != "CONTROLLER"]
        logins: dict[str, str] = {}
        for listener in (f"listener.name.{name.lower()}" for name in (_CLEAR, _BOTH)):
            logins |= {
                f"{listener}.sasl.enabled.mechanisms": f"{PLAIN},{SCRAM}",
                f"{listener}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{self._user}="{self._password}";',
                f"{listener}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            }
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(f"{name}://{address}:{port}" for name, port in self.ports.items()),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(f"{name}:{what}" for name, what in _PROTOCOLS.items()),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PEERS",
            "controller.quorum.voters": f"1@{address}:{self.ports['CONTROLLER']}",
            "log.dirs": str(self._folder / "node-1"),
            "offsets.topic.replication.factor": "1",
            **logins,
            "connection.failed.authentication.delay.ms": "1",
            **self._files.node_properties(1),
            f"listener.name.{_BOTH.lower()}.ssl.client.auth": "none",
        }

    def _create(self, topic: str) -> None:
        with Admin(bootstrap_servers=f"127.0.0.1:{self.ports['PEERS']}") as admin:
            admin.create_topic(topic, 1, 1)

    def login(self, mechanism: str, is_sealed: bool = False) -> dict[str, Any]:
        """The settings of a client that logs in, in the clear or over TLS 1.3."""
        module, listener = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE, _BOTH if is_sealed else _CLEAR
        trusted = {name: value for name, value in self.sealed().items() if name.startswith(("ssl.trust", "ssl.enab"))}
        return {
            **(trusted if is_sealed else {}),
            "bootstrap.servers": f"localhost:{self._taps[listener].port}",
            "security.protocol": _PROTOCOLS[listener],
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": as_jaas(module, self._user, self._password),
        }

    def sealed(self, version: str = "TLSv1.3") -> dict[str, Any]:
        """The settings of a client that shows a certificate, over this version of TLS."""
        return {
            "bootstrap.servers": f"localhost:{self._taps[_SEALED].port}",
            **self._files.client_settings(self._user),
            "ssl.enabled.protocols": version,
        }

    @contextmanager
    def overheard(self) -> Iterator[Overheard]:
        """What an eavesdropper gets of the clients that speak meanwhile."""
        with ExitStack() as taps:
            clear, *sealed = [taps.enter_context(tap.listening()) for tap in self._taps.values()]
            yield Overheard(clear, *sealed)

    def close(self) -> None:
        """Stop the node, and remove its files."""
        for tap in self._taps.values():
            tap.close()
        self._node.stop()
        self._place.remove()


def _serves(node: Node) -> bool:
    return node.broker is not None and node.broker.lifecycle.is_running


def _free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
