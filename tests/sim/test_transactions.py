"""Transactions in the simulator: the cores of clients and nodes agree on what was committed, without any fault."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from pykraft.client.admin import NewTopic
from pykraft.common.types import TopicPartition, Uuid
from pykraft.server.config import read_node_config
from pykraft.server.storage_format import format_directories
from pykraft.sim.hosts import EPOCH_MS, SimulatedClient, SimulatedNode
from pykraft.sim.network import Network
from pykraft.sim.scheduler import US_PER_MS, Scheduler
from pykraft.sim.transaction_workload import CommittedReader, TransactionalWriter
from pykraft.sim.workload import TopicMaker

SERVERS = "node-1:9092"
PARTITIONS = 3
TRANSACTIONS = 30
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
}


class World:
    """A node, a writer of transactions, and a reader of committed data."""

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler()
        self.random = Random(seed)
        self.network = Network(self.scheduler, self._dice())
        config = read_node_config(PROPERTIES)
        node = SimulatedNode(config, self.scheduler, self.network, self._dice(), _ignore, _ignore, 0, 100)
        format_directories(config, str(Uuid.random(self._dice())), node.filesystem, self._dice(), EPOCH_MS)
        node.start()
        maker = TopicMaker(NewTopic("t", PARTITIONS, 1, {}, {}), SERVERS, self._dice(), 100)
        self.start("maker", maker)
        self.run(lambda: maker.is_done)
        self.node = node

    def _dice(self) -> Random:
        return Random(self.random.random())

    def start(self, name: str, core: TopicMaker | TransactionalWriter | CommittedReader) -> None:
        SimulatedClient(name, core, self.scheduler, self.network, self._dice()).act(lambda: None)

    def writer(self, transactional_id: str, **settings: object) -> TransactionalWriter:
        writer = TransactionalWriter(
            transactional_id, settings, SERVERS, "t", PARTITIONS, TRANSACTIONS, self.node.time_ms, self._dice()
        )
        self.start(transactional_id, writer)
        return writer

    def reader(self) -> CommittedReader:
        reader = CommittedReader({"auto.offset.reset": "earliest"}, SERVERS, "t", PARTITIONS, self._dice())
        self.start("reader", reader)
        return reader

    def run(self, condition: Callable[[], bool], limit_ms: int = 600_000) -> None:
        end_us = self.scheduler.now_us + limit_ms * US_PER_MS
        while not condition():
            assert self.scheduler.run_next() and self.scheduler.now_us < end_us, "it does not come to that"


def _ignore(_: object) -> None:
    """Neither traces nor ends are looked at."""


def by_partition(records: list[tuple[TopicPartition, bytes]]) -> dict[TopicPartition, list[bytes]]:
    keys = [TopicPartition("t", partition) for partition in range(PARTITIONS)]
    return {key: [value for place, value in records if place == key] for key in keys}


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_sees_each_committed_record_once_and_no_other(seed: int) -> None:
    world = World(seed)
    writer, reader = world.writer("bank"), world.reader()
    world.run(lambda: writer.is_done)
    assert writer.committed and writer.aborted
    assert not writer.unknown and not writer.fatal_errors
    world.run(lambda: reader.count >= len(writer.committed))
    assert reader.values == by_partition(writer.committed)


def test_two_producers_with_one_transactional_id_fence_each_other() -> None:
    world = World(7)
    first = world.writer("bank")
    world.run(lambda: len(first.committed) > 10)
    successor = world.writer("bank")
    world.run(lambda: bool(first.fatal_errors))
    assert first.fatal_errors[0].code.name == "PRODUCER_FENCED"
    world.run(lambda: successor.is_done and first.is_done)
