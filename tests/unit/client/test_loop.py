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


def client(address: str) -> tuple[ReaderCore, BlockingClient]:
    core = ReaderCore(settings("consumer", bootstrap_servers=address), Random(1))
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
