"""Connections that this side opens: to whom none can be made."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.common.core import Failure, Outbound
from pykraft.common.types import Node
from pykraft.network.client import NetworkClient
from pykraft.network.selector import Selector
from pykraft.protocol.messages.cluster import MetadataRequest
from tests.harness.waiting import wait_until


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("a\0b", 1), ("a..b", 1), ("\udc80", 1), ("", 1), ("::1::", 1)],
)
def test_an_address_that_a_peer_made_up_leads_nowhere_and_does_no_harm(host: str, port: int, is_frozen: bool) -> None:
    selector = Selector()
    client = NetworkClient(selector, "me", Random(1))
    told: list[object] = []
    somewhere = Node(1, host, port)
    if is_frozen:
        client.freeze(somewhere.endpoint)
    client.send(Outbound("data", somewhere, MetadataRequest(), lambda answer, now: told.append(answer), 1000), 0)
    client.thaw(somewhere.endpoint)

    def is_told() -> bool:
        selector.tell(selector.wait(0.01))
        client.poll(1)
        client.dispatch()
        return bool(told)

    wait_until(is_told, "the request has failed")
    assert told == [Failure.DISCONNECTED]
    client.close()
    selector.close()
