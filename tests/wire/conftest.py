"""One node of pykraft, alive before each test and after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft import Cluster
from pykraft.common.types import Uuid
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from tests.harness.asking import UNDISTURBED, create, new_topic
from tests.harness.connection import Connection
from tests.wire.ammunition import TOPIC

MAX_REQUEST_BYTES = 1 << 20


class Target:
    """A node that is shot at, and another client that uses it all the time."""

    def __init__(self) -> None:
        self.cluster = Cluster(nodes=1, properties={"socket.request.max.bytes": MAX_REQUEST_BYTES, **UNDISTURBED})
        listeners = dict(text.split("://") for text in self.cluster.properties(1)["listeners"].split(","))
        self.broker, self.controller = listeners["PLAINTEXT"], listeners["CONTROLLER"]
        self.bystanders: list[Connection] = []
        self.reconnect()
        made = self.bystanders[0].ask(create(new_topic(TOPIC, 1, 1)), 7)
        self.topic_id: Uuid = made.topics[0].topic_id

    @property
    def listeners(self) -> dict[str, str]:
        return {"broker": self.broker, "controller": self.controller}

    def serves(self) -> None:
        """AssertionError unless who was connected before is served, and who comes now is, too; and the node is well."""
        failures = self.cluster.failures()
        assert not failures, f"the node died: {failures!r}"
        newcomers = [Connection(address) for address in self.listeners.values()]
        try:
            for connection in (*self.bystanders, *newcomers):
                request = ApiVersionsRequest(client_software_name="bystander", client_software_version="1")
                assert connection.ask(request, 4).error_code == 0
        finally:
            for connection in newcomers:
                connection.close()

    def reconnect(self) -> None:
        """The node was killed on purpose: those who were connected must come again."""
        for connection in self.bystanders:
            connection.close()
        self.bystanders = [Connection(address) for address in (self.broker, self.controller)]

    def close(self) -> None:
        for connection in self.bystanders:
            connection.close()
        self.cluster.close()


@pytest.fixture(scope="module")
def node() -> Iterator[Target]:
    """Closing it raises if the node died of what it was sent."""
    target = Target()
    try:
        yield target
    finally:
        target.close()


@pytest.fixture(autouse=True)
def others_are_served(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test does to its own connections, others do not notice."""
    yield
    if "node" in request.fixturenames:
        request.getfixturevalue("node").serves()
