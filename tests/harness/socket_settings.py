"""What a client sees of the settings of a socket server: the same scenes at a node of ours and at Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from pykraft.protocol.messages.cluster import ApiVersionsRequest
from tests.harness.connection import Closed, Connection
from tests.harness.waiting import wait_until

Scene = Callable[[str], str]
"""Plays a client against the server at an address; returns in words what the client saw."""

SERVED = "the third connection is served"
WAITS = "the third connection waits until one of two is closed"
CLOSED = "the third connection is closed, until one of two has ended"
SLOWED_DOWN = "fifty connections are served at once, the next seven are slowed down"
FAST = "fifty-seven connections are served within a second"
IDLE_CLOSED = "a silent connection is closed after about 300 ms"

_HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
_WAITS_S = 0.25
"""A connection without an answer by then waits: others are answered in a millisecond."""


def is_served(connection: Connection) -> bool:
    """False if the server closes the connection; TimeoutError if it does neither."""
    try:
        connection.ask(_HELLO, 3)
    except Closed:
        return False
    return True


def a_third_connection(address: str) -> str:
    """Open three connections, then end the first."""
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(Connection(address)) for _ in range(3))
        assert is_served(first) and is_served(second)
        third.sock.settimeout(_WAITS_S)
        try:
            if is_served(third):
                return SERVED
        except TimeoutError:
            third.sock.settimeout(10)
            first.close()
            third.receive_frame()
            return WAITS
        first.close()
        another = "another connection is served"
        wait_until(lambda: is_served(stack.enter_context(Connection(address))), another, timeout_s=10)
        return CLOSED


def many_connections(address: str) -> str:
    """Fifty-seven, one after the other. At a limit of 5 a second, fifty may come at once: ten seconds' worth. The next
    seven need 1.4 s from the first connection on."""
    took = []
    with ExitStack() as stack:
        for _ in range(57):
            began = time.monotonic()
            assert is_served(stack.enter_context(Connection(address)))
            took.append(time.monotonic() - began)
    # The sum is of all, since on a slow machine the limit allows another connection while the fifty come.
    is_as_expected = sum(took) > 1.4 - 0.2 and sorted(took[:50])[25] < 0.15
    if sum(took) < 1:
        return FAST
    return SLOWED_DOWN if is_as_expected else f"the connections took these seconds: {took}"


def a_silent_connection(address: str) -> str:
    with Connection(address) as connection:
        began = time.monotonic()
        assert is_served(connection) and connection.is_closed()
        took = time.monotonic() - began
    return IDLE_CLOSED if 0.25 < took < 5 else f"a silent connection is closed after {took * 1000:.0f} ms"


SCENES: list[tuple[dict[str, str], Scene, str]] = [
    ({"max.connections": "2"}, a_third_connection, WAITS),
    ({"listener.name.plaintext.max.connections": "2"}, a_third_connection, WAITS),
    ({"max.connections.per.ip": "2"}, a_third_connection, CLOSED),
    (
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "localhost:2"},
        a_third_connection,
        CLOSED,
    ),
    ({"max.connection.creation.rate": "5"}, many_connections, SLOWED_DOWN),
    ({"connections.max.idle.ms": "300"}, a_silent_connection, IDLE_CLOSED),
]
"""Settings, a scene, and what the client sees of them in it."""
IDS = [", ".join(properties) for properties, *_ in SCENES]

OF_TWO_LISTENERS: list[tuple[dict[str, str], Scene, tuple[str, str]]] = [
    ({"max.connections": "2"}, a_third_connection, (WAITS, WAITS)),
    (
        {"max.connections": "2", "listener.name.plaintext.max.connections": "5"},
        a_third_connection,
        (SERVED, WAITS),
    ),
    ({"listener.name.other.max.connections": "2"}, a_third_connection, (SERVED, WAITS)),
    ({"max.connection.creation.rate": "5"}, many_connections, (SLOWED_DOWN, SLOWED_DOWN)),
    (
        {"max.connection.creation.rate": "5", "listener.name.plaintext.max.connection.creation.rate": "500"},
        many_connections,
        (FAST, SLOWED_DOWN),
    ),
]
"""Settings of a node with two listeners, a scene, and what a client sees in it at the brokers' own listener, PLAINTEXT,
and at the other one."""


def two_listeners(own: str, other: str, quorum: str) -> dict[str, str]:
    """The properties of node 1 that has these addresses."""
    return {
        "listeners": f"PLAINTEXT://{own},OTHER://{other},CONTROLLER://{quorum}",
        "advertised.listeners": f"PLAINTEXT://{own},OTHER://{other}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@{quorum}",
    }
