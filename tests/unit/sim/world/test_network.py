"""Which answers are late by seconds, as the weather says."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.common.types import Endpoint
from pykraft.sim.world.network import End, Network, Receiver, Weather
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler

BROKER, CONTROLLER = 9092, 9093
LATE_US = 1_000 * US_PER_MS


class Ear:
    """Notes when bytes arrive."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.heard_us: list[int] = []

    def connected(self) -> None:
        """It may speak."""

    def received(self, data: bytes) -> None:
        self.heard_us.append(self._scheduler.now_us)

    def closed(self) -> None:
        """It hears no more."""


class Machine:
    """A host that answers nothing by itself."""

    is_up = True
    stalled_until_us = 0

    def __init__(self, name: str, scheduler: Scheduler) -> None:
        self.name = name
        self.ear = Ear(scheduler)
        self.ends: list[End] = []

    def accept(self, endpoint: Endpoint, end: End) -> Receiver:
        self.ends.append(end)
        return self.ear


@pytest.mark.parametrize(
    ("asker", "port", "late", "late_to_clients", "is_late"),
    [
        ("client", BROKER, 0.0, 1.0, True),
        ("client", BROKER, 1.0, 0.0, False),
        ("client", CONTROLLER, 1.0, 1.0, False),
        ("node-2", BROKER, 0.0, 1.0, False),
        ("node-2", BROKER, 1.0, 0.0, True),
        ("node-2", CONTROLLER, 1.0, 1.0, False),
    ],
)
def test_only_answers_of_brokers_are_late_to_nodes_and_to_clients_apart(
    asker: str, port: int, late: float, late_to_clients: float, is_late: bool
) -> None:
    scheduler = Scheduler()
    network = Network(scheduler, Random(1))
    server, client = Machine("node-1", scheduler), Machine(asker, scheduler)
    network.add_address(Endpoint("node-1", port), server)
    network.weather = Weather(
        late=late, late_us=60 * LATE_US, late_hosts=frozenset({"node-1", "node-2"}), late_to_clients=late_to_clients
    )
    mine = network.connect(client, Endpoint("node-1", port), client.ear)
    while not server.ends:
        assert scheduler.run_next()
    mine.send([b"a question of ten bytes, at least"])
    while not server.ear.heard_us:
        assert scheduler.run_next()
    assert server.ear.heard_us[0] < LATE_US, "a question is never late"
    asked_us = scheduler.now_us
    server.ends[0].send([b"an answer"])
    while not client.ear.heard_us:
        assert scheduler.run_next()
    assert (client.ear.heard_us[0] - asked_us > LATE_US) is is_late
