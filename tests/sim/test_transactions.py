"""Transactions in the simulator: the cores of clients and nodes agree on what was committed, without any fault."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.storage_format import format_directories
from pykraft.client.administration.admin import NewTopic
from pykraft.common.core import RequestManager
from pykraft.common.types import Uuid
from pykraft.protocol.messages.transactions import AddPartitionsToTxnRequest, WriteTxnMarkersRequest
from pykraft.protocol.schema import Request
from pykraft.sim.laws.transaction_laws import BANK, Ledger, Outcome
from pykraft.sim.workloads.transaction_workload import CommittedReader, Teller
from pykraft.sim.workloads.workload import TopicMaker
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.frames import read_frame
from pykraft.sim.world.hosts import EPOCH_MS, SimulatedNode
from pykraft.sim.world.network import Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler

SERVERS = "node-1:9092"
PARTITIONS = 3
TRANSACTIONS = 30
REQUEST_TIMEOUT_MS = 700
"""No client's: theirs are 30 s."""
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": f"PLAINTEXT://{SERVERS},CONTROLLER://node-1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@node-1:9093",
    "log.dirs": "/data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
}


class World:
    """A node, a writer of transactions, and a reader of committed data."""

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler()
        self.random = Random(seed)
        self.ledger = Ledger()
        self.network = Network(self.scheduler, self._dice())
        config = read_node_config(PROPERTIES)
        node = SimulatedNode(config, self.scheduler, self.network, self._dice(), _ignore, _ignore, 0, 100)
        format_directories(config, str(Uuid.random(self._dice())), node.filesystem, self._dice(), EPOCH_MS)
        node.start()
        maker = TopicMaker(NewTopic(BANK, PARTITIONS, 1, {}, {}), SERVERS, self._dice(), 100)
        self.start("maker", maker)
        self.run(lambda: maker.is_done)
        self.node = node

    def _dice(self) -> Random:
        return Random(self.random.random())

    def start(self, name: str, core: RequestManager) -> None:
        SimulatedClient(name, core, self.scheduler, self.network, self._dice()).act(lambda: None)

    def teller(self, name: str, transactional_id: str) -> Teller:
        settings: dict[str, object] = {}
        teller = Teller(
            *(name, transactional_id, settings, SERVERS, PARTITIONS, self.ledger, self.node.time_ms, self._dice())
        )
        self.start(name, teller)
        return teller

    def reader(self) -> CommittedReader:
        reader = CommittedReader({}, SERVERS, BANK, PARTITIONS, self.ledger.read, self._dice())
        self.start("reader", reader)
        return reader

    def lose_request_of_node(self, kind: type[Request]) -> bool:
        """Lose the node's next request of this kind to itself, and whatever its connection would carry after it."""
        for flight in self.network.in_flight():
            frame = read_frame(flight)
            if frame is not None and frame.sender == frame.receiver and frame.kind is kind and not frame.is_response:
                self.network.drop(flight.piece.number)
                return True
        return False

    def run(self, condition: Callable[[], bool], limit_ms: int = 600_000) -> None:
        end_us = self.scheduler.now_us + limit_ms * US_PER_MS
        while not condition():
            assert self.scheduler.run_next() and self.scheduler.now_us < end_us, "it does not come to that"


def _ignore(_: object) -> None:
    """Neither traces nor ends are looked at."""


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_sees_each_committed_transfer_once_and_no_other(seed: int) -> None:
    world = World(seed)
    teller = world.teller("first", "bank")
    world.reader()
    world.run(lambda: teller.written >= TRANSACTIONS)
    teller.is_pausing = True
    world.run(lambda: teller.is_idle)
    assert world.ledger.count(Outcome.COMMITTED) and world.ledger.count(Outcome.ABORTED)
    assert not world.ledger.count(Outcome.UNKNOWN) and teller.error is None
    world.run(lambda: world.ledger.unread() is None)
    world.ledger.check_total()


def test_of_two_producers_with_one_transactional_id_the_first_is_fenced() -> None:
    world = World(7)
    first = world.teller("first", "bank")
    world.run(lambda: first.written > 10)
    successor = world.teller("second", "bank")
    world.run(lambda: first.is_done)
    assert first.error is not None and first.error.code.name == "PRODUCER_FENCED"
    world.run(lambda: successor.written > 10)


@pytest.mark.parametrize("kind", [AddPartitionsToTxnRequest, WriteTxnMarkersRequest])
def test_a_broker_gives_up_a_silent_connection_after_its_own_request_timeout(kind: type[Request]) -> None:
    world = World(5)
    teller = world.teller("first", "bank")
    world.run(lambda: teller.written > 3)
    world.run(lambda: world.lose_request_of_node(kind))
    lost_ms, written = world.scheduler.now, teller.written
    world.run(lambda: teller.written > written + 1)
    assert REQUEST_TIMEOUT_MS <= world.scheduler.now - lost_ms < 2 * REQUEST_TIMEOUT_MS
