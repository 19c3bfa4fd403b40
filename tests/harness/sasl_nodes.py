"""Real nodes whose listeners ask for a login: clients by PLAIN or SCRAM, brokers by SCRAM, controllers by PLAIN.

The first credentials are those that a directory was formatted with, as brokers need them before there is a broker that
could set any.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random, SystemRandom

from pykraft.broker.node import Node
from pykraft.broker.settings.config import NodeConfig, read_node_config
from pykraft.broker.startup.first_credentials import parse_add_scram
from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.trace import RingBuffer
from pykraft.common.types import Uuid
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.threaded import NetworkMode, NodeThread
from pykraft.security.jaas import PLAIN_MODULE, SCRAM_MODULE, as_jaas
from pykraft.storage.disk.filesystem import OsFileSystem
from tests.harness.apache_kafka import free_ports
from tests.harness.waiting import wait_until

ALICE, SECRET = "alice", "alice-secret"
NODE, NODE_SECRET = "node", "node-secret"
FIRST = (
    f"SCRAM-SHA-512=[name={NODE},password={NODE_SECRET}]",
    f"SCRAM-SHA-256=[name={ALICE},password={SECRET}]",
    f"SCRAM-SHA-512=[name={ALICE},password={SECRET}]",
)
SECRETS = (SECRET, NODE_SECRET)
"""What must be shown nowhere."""
EVERY_MECHANISM = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def sasl_properties(of_clients: str = "clients", of_peers: str = "peers") -> dict[str, str]:
    """What a node's file says of SASL, apart from its listeners."""
    plain = f'{PLAIN_MODULE} required username="{NODE}" password="{NODE_SECRET}" user_{NODE}="{NODE_SECRET}"'
    scram = as_jaas(SCRAM_MODULE, NODE, NODE_SECRET)
    return {
        f"listener.name.{of_clients}.sasl.enabled.mechanisms": ",".join(EVERY_MECHANISM),
        f"listener.name.{of_clients}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{ALICE}="{SECRET}";',
        f"listener.name.{of_clients}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"listener.name.{of_clients}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"listener.name.{of_peers}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"listener.name.{of_peers}.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f"{plain};",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
    }


def client_login(mechanism: str, user: str = ALICE, password: str = SECRET) -> dict[str, str]:
    """A client's settings for it."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": as_jaas(module, user, password),
    }


class SaslNodes:
    """Nodes 1, 2, ..., each a broker and a controller."""

    def __init__(
        self, configs: Sequence[NodeConfig], nodes: Sequence[NodeThread], journals: Sequence[RingBuffer]
    ) -> None:
        self.configs, self.nodes, self.journals = configs, nodes, journals

    def address(self, listener: str = "CLIENTS") -> str:
        """The first node's."""
        return next(str(each.advertised) for each in self.configs[0].listeners if each.name == listener)


@contextmanager
def sasl_nodes(
    directory: pathlib.Path, count: int = 1, network: NetworkMode = "fused", waits: bool = True, **settings: str
) -> Iterator[SaslNodes]:
    """Start them, wait until they serve (if that is wanted), and stop them at the end."""
    ports = free_ports(3 * count)
    voters = ",".join(f"{number + 1}@127.0.0.1:{ports[3 * number + 2]}" for number in range(count))
    configs, journals = [], []
    for number in range(count):
        addresses = (f"{name}://127.0.0.1:{port}" for name, port in zip(_NAMES, ports[3 * number :], strict=False))
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(number + 1),
            "listeners": ",".join(addresses),
            "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in _NAMES),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PEERS",
            "controller.quorum.voters": voters,
            "log.dirs": str(directory / f"node-{number + 1}"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "num.partitions": "1",
            **sasl_properties(),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        configs.append(read_node_config(properties))
        journals.append(RingBuffer())
    cluster_id, now = str(Uuid.random(Random())), time.time_ns() // 1_000_000
    first = parse_add_scram(FIRST, SystemRandom())
    for config in configs:
        format_directories(config, cluster_id, OsFileSystem(), Random(), now, first_records=first)
    with ExitStack() as stack:
        nodes = []
        for config, journal in zip(configs, journals, strict=True):
            node = NodeThread(config, MonotonicClock(), Random(), journal, network=network)
            stack.callback(node.stop)
            nodes.append(node)
        for node in nodes:
            node.start()
        for node in nodes if waits else ():
            wait_until(partial(_serves, node), "the broker serves")
        yield SaslNodes(configs, nodes, journals)


def _serves(node: NodeThread) -> bool:
    def is_running(it: Node) -> bool:
        return it.broker is not None and it.broker.lifecycle.is_running

    return node.call(is_running).result()


_NAMES = ("CLIENTS", "PEERS", "CONTROLLER")
