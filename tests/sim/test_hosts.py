"""One simulated node and a client that sends bytes: the network's rules for a connection hold in the simulator, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from pykraft.broker.node import Node
from pykraft.broker.requests.quotas import Used
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.types import Endpoint, Uuid
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.schema import Request
from pykraft.sim.world.hosts import EPOCH_MS, Machine, SimulatedNode
from pykraft.sim.world.network import End, Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler
from pykraft.transport.server_channel import InboundRequest, RequestContext
from tests.harness.asking import create, fetch, new_topic

SERVER = Endpoint("node-1", 9092)
ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")
CREATE = create(new_topic("t", 1, 1))
FETCH = fetch("t", 0, max_wait_ms=100_000, min_bytes=1)
THROTTLE_MS = 700


class Throttling:
    """Quotas that throttle every client of this name after each request."""

    def record(self, context: RequestContext, used: Used, now: int) -> int:
        return THROTTLE_MS if context.client_id == "greedy" else 0


class Stranger(Machine):
    """A host with one connection, on which the test sends what it likes."""

    def __init__(self, scheduler: Scheduler, network: Network) -> None:
        super().__init__("stranger", scheduler, network)
        self.is_up = True
        self.answers: list[tuple[int, int]] = []
        """The correlation id of each answer, and when it came."""
        self.end: End = network.connect(self, SERVER, self)
        self.is_connected = False
        self._received = b""

    def connected(self) -> None:
        self.is_connected = True

    def received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4 and len(self._received) >= 4 + int.from_bytes(self._received[:4], "big"):
            size = int.from_bytes(self._received[:4], "big")
            self.answers.append((int.from_bytes(self._received[4:8], "big"), self.scheduler.now))
            self._received = self._received[4 + size :]

    def closed(self) -> None:
        """Nothing is sent any more."""

    def send(self, request: Request, number: int, client_id: str = "test") -> None:
        self.end.send(encode_request(request, request.versions[0] or 4, number, client_id))


def _ignore(_: object) -> None:
    """Neither traces nor ends are looked at."""


class World:
    """A node that is broker and only controller, the stranger, and the times at which the node handled a request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pykraft.sim.world.hosts.Node", partial(Node, quotas=Throttling()))
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, Random(1))
        config = read_node_config(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "listeners": "PLAINTEXT://node-1:9092,CONTROLLER://node-1:9093",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": "1@node-1:9093",
                "log.dirs": "/data",
            }
        )
        self.machine = SimulatedNode(config, self.scheduler, self.network, Random(2), _ignore, _ignore, 0, 100)
        format_directories(config, str(Uuid.random(Random(3))), self.machine.filesystem, Random(4), EPOCH_MS)
        self.machine.start()
        assert self.machine.node is not None
        self.node = self.machine.node
        self.run(lambda: self.node.broker is not None and self.node.broker.is_open)
        self.handled: list[tuple[int, int]] = []
        """The correlation id of each request of a client, and when the node handled it."""
        self.promises: list[Any] = []
        handle = self.node.handle

        def noted(inbound: InboundRequest, now: int) -> Any:
            promise = handle(inbound, now)
            if inbound.context.client_id in ("test", "greedy"):
                self.handled.append((inbound.context.correlation_id, now))
                self.promises.append(promise)
            return promise

        monkeypatch.setattr(self.node, "handle", noted)
        self.stranger = self.call()

    def call(self) -> Stranger:
        """A stranger with an open connection."""
        stranger = Stranger(self.scheduler, self.network)
        self.run(lambda: stranger.is_connected)
        return stranger

    def run(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        end_us = self.scheduler.now_us + limit_ms * US_PER_MS
        while not condition():
            assert self.scheduler.run_next() and self.scheduler.now_us < end_us, "it does not come to that"


def test_a_client_that_quotas_throttle_is_answered_at_once_and_not_read_before_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    for number in range(3):
        world.stranger.send(ASK, number, "greedy")
    world.run(lambda: len(world.stranger.answers) == 3)
    assert [number for number, _ in world.handled] == [0, 1, 2]
    times = [now for _, now in world.handled]
    assert all(THROTTLE_MS <= later - earlier <= THROTTLE_MS + 1 for earlier, later in pairwise(times))
    assert all(came - handled <= 2 for (_, came), handled in zip(world.stranger.answers, times, strict=True))


def test_a_client_that_quotas_let_be_does_not_wait_for_one_that_they_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    greedy, modest = world.stranger, world.call()
    for number in range(2):
        greedy.send(ASK, number, "greedy")
        modest.send(ASK, number)
    world.run(lambda: len(modest.answers) == 2 and bool(greedy.answers))
    assert len(greedy.answers) == 1 and world.scheduler.now < world.handled[0][1] + THROTTLE_MS


@pytest.mark.parametrize("sends_more", [False, True])
def test_a_client_that_hangs_up_abandons_its_fetch(sends_more: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.stranger.send(CREATE, 0)
    world.run(lambda: world.node.broker is not None and bool(world.node.broker.replicas.partitions))
    world.stranger.send(FETCH, 1)
    world.run(lambda: len(world.promises) == 2)
    promise = world.promises[-1]
    assert not promise.kept and not promise.abandoned
    if sends_more:
        world.stranger.send(ASK, 2)
    world.stranger.end.close()
    world.run(lambda: promise.abandoned, limit_ms=1000)
    assert len(world.handled) == 2
