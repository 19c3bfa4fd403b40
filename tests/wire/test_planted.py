"""These tests must be able to fail: a node that dies of a frame is noticed, and one that only stops answering, too."""

from __future__ import annotations

import contextlib

import pytest

from pykraft.broker.requests.cluster.cluster import HANDLERS
from pykraft.cluster import ClusterError
from pykraft.protocol.messages.cluster import DescribeClusterRequest
from pykraft.transport.server_connection import ServerConnection
from tests.harness.connection import Connection
from tests.wire.ammunition import shoot
from tests.wire.conftest import Target

FRAME = Connection.frame(DescribeClusterRequest(), 2)


def test_a_node_that_dies_of_a_request_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise SystemExit("planted")  # an Exception costs the request, and the node goes on

    monkeypatch.setitem(HANDLERS, DescribeClusterRequest, stumble)  # type: ignore[arg-type]
    target = Target()
    assert shoot(target.broker, FRAME) is None
    with pytest.raises(AssertionError, match=r"the node died: .*planted"):
        target.serves()
    with pytest.raises(ClusterError, match="node 1 died: SystemExit: planted"):
        target.close()


def test_a_node_that_leaves_a_request_unanswered_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        contextlib.closing(Target()) as target,
        monkeypatch.context() as planted,
        Connection(target.broker, patience_s=0.3) as connection,
    ):
        planted.setattr(ServerConnection, "respond", lambda *_, **__: None)
        connection.send_bytes(FRAME)
        with pytest.raises(TimeoutError):
            connection.is_closed()
