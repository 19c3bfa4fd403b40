"""A client that is looked at while its user waits, on real sockets."""

from __future__ import annotations

import socket
from random import Random

import pytest

from pykraft.client.consuming.reader import ReaderCore
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Endpoint
from pykraft.runtime.client_loop import BlockingClient
from tests.harness.scripted import settings


def client(address: str, **more: int) -> tuple[ReaderCore, BlockingClient]:
    core = ReaderCore(settings("consumer", bootstrap_servers=address, **more), Random(1))
    return core, BlockingClient(core, "test", Random(1))


def closed_port() -> Endpoint:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Endpoint(*listener.getsockname())


def test_why_an_address_cannot_be_connected_to_is_known() -> None:
    endpoint = closed_port()
    _, waiting = client(str(endpoint))
    assert waiting.wait_until(lambda: waiting.refusal(endpoint) is not None, waiting.now + 5000)
    assert waiting.refusal(endpoint) == "Connection refused"
    waiting.close()


def test_a_connection_that_failed_is_tried_again_after_the_pause_that_was_set() -> None:
    """After minutes the address is not tried again, whatever listens there by then; after a millisecond it is."""
    for pause_ms, is_found in ((1, True), (600_000, False)):
        endpoint = closed_port()
        _, waiting = client(str(endpoint), reconnect_backoff_ms=pause_ms, reconnect_backoff_max_ms=pause_ms)
        waiting.wait_until(lambda: waiting.refusal(endpoint) is not None, waiting.now + 5000)  # noqa: B023
        with socket.create_server(tuple(endpoint)) as listener:
            listener.setblocking(False)

            def is_called() -> bool:
                try:
                    listener.accept()[0].close()
                except BlockingIOError:
                    return False
                return True

            assert waiting.wait_until(is_called, waiting.now + (5000 if is_found else 300)) is is_found
        waiting.close()


def test_a_wait_ends_in_time_and_a_check_may_end_it_before() -> None:
    _, waiting = client(str(closed_port()))
    assert not waiting.wait_until(lambda: False, waiting.now + 20)
    calls = iter([None, KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)])

    def check() -> None:
        if (error := next(calls)) is not None:
            raise error

    with pytest.raises(KafkaError, match="BROKER_NOT_AVAILABLE"):
        waiting.wait_until(lambda: False, waiting.now + 60_000, check)
    waiting.close()


def test_what_is_not_waited_for_any_more_is_abandoned() -> None:
    _, waiting = client(str(closed_port()))
    promise: Promise[int | KafkaError] = Promise()

    def check() -> None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)

    with pytest.raises(KafkaError):
        waiting.ask(lambda now: promise, check)
    assert promise.abandoned
    waiting.close()
