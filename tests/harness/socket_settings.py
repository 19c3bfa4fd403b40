"""What a client sees of the settings of a socket server: the same scenes at a node of ours and at Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from pykraft.protocol.messages.cluster import ApiVersionsRequest
from tests.harness.connection import Closed, Connection

Scene = Callable[[str], None]
_HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
_WAITS_S = 0.25
"""An answer that has not come by then is one that waits: others take a millisecond."""


def is_served(connection: Connection) -> bool:
    connection.ask(_HELLO, 3)
    return True


def is_sent_away(connection: Connection) -> bool:
    try:
        connection.send(_HELLO, 3)
        connection.receive_frame()
    except Closed:
        return True
    return False


def the_third_connection_waits_until_one_of_two_is_closed(address: str) -> None:
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(Connection(address)) for _ in range(3))
        assert is_served(first) and is_served(second)
        third.send(_HELLO, 3)
        third.sock.settimeout(_WAITS_S)
        try:
            third.receive_frame()
            raise AssertionError("a third connection was served")
        except TimeoutError:
            pass
        third.sock.settimeout(10)
        first.close()
        third.receive_frame()


def the_third_connection_of_an_address_is_closed(address: str) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(Connection(address)) for _ in range(2))
        assert is_served(first) and is_served(second)
        assert is_sent_away(stack.enter_context(Connection(address)))
        first.close()
        deadline = time.monotonic() + 10
        while is_sent_away(stack.enter_context(Connection(address))):  # until the server has seen the end
            assert time.monotonic() < deadline
            time.sleep(0.01)


def new_connections_are_slowed_down_after_ten_seconds_worth_of_them(address: str) -> None:
    """The limit is 5 a second. Fifty may come at once, the next seven need 1.4 s from the first one's start on."""
    took = []
    with ExitStack() as stack:
        for _ in range(57):
            began = time.monotonic()
            assert is_served(stack.enter_context(Connection(address)))
            took.append(time.monotonic() - began)
    # In all, since on a slow machine the limit gives another connection while the fifty come.
    assert sum(took) > 1.4 - 0.2 and sorted(took[:50])[25] < 0.15, took


def a_silent_connection_is_closed(address: str) -> None:
    """After 300 ms."""
    with Connection(address) as connection:
        began = time.monotonic()
        assert is_served(connection) and connection.is_closed()
        assert 0.25 < time.monotonic() - began < 5


SCENES: list[tuple[Scene, dict[str, str]]] = [
    (the_third_connection_waits_until_one_of_two_is_closed, {"max.connections": "2"}),
    (the_third_connection_of_an_address_is_closed, {"max.connections.per.ip": "2"}),
    (
        the_third_connection_of_an_address_is_closed,
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "localhost:2"},
    ),
    (new_connections_are_slowed_down_after_ten_seconds_worth_of_them, {"max.connection.creation.rate": "5"}),
    (a_silent_connection_is_closed, {"connections.max.idle.ms": "300"}),
]
IDS = [", ".join(properties) for _, properties in SCENES]
