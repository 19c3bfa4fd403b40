"""How a broker describes its settings, as lines: what Apache Kafka answers, and what a node of ours does.

A line is name, type, value, words, and the places that say something, the strongest first::

    num.io.threads INT 9 | num.io.threads=9 from 4, num.io.threads=8 from 5

The words are `read-only` and `secret`. A place's number is its source in the protocol. What differs from one run to the
next, ports and directories, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pykraft.protocol.messages.configs import ConfigType

OWN = {
    "broker.rack": "r1",
    "log.retention.minutes": "77",
    "log.roll.hours": "3",
    "metric.reporters": "",
    "my.own.setting": "x",
    "num.io.threads": "9",
    "sasl.jaas.config": "secret",
    "ssl.keystore.type": "PEM",
    "listener.name.plaintext.max.connections": "77",
    "log.cleaner.io.max.bytes.per.second": "20000000",
}
"""What the described node has in its file, besides what every node needs."""
_OF_A_RUN = frozenset(
    {"advertised.listeners", "controller.quorum.voters", "listeners", "log.dirs", "min.insync.replicas"}
)
"""The last is set for all brokers by Kafka itself, where eligible leader replicas are kept."""


def described(configs: Iterable[Any]) -> Iterator[str]:
    """Lines for the settings in an answer to DescribeConfigs, by name."""
    for config in sorted(configs, key=lambda each: str(each.name)):
        if config.name not in _OF_A_RUN:
            words = " read-only" * config.read_only + " secret" * config.is_sensitive
            places = ", ".join(f"{place.name}={place.value} from {place.source:d}" for place in config.synonyms)
            line = f"{config.name} {ConfigType(config.config_type).name} {config.value}{words}"
            yield f"{line} | {places}" if places else line


def properties(node: int = 1) -> dict[str, str]:
    """The file of that node, as tests.harness.apache_kafka writes it for a cluster of one."""
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"{node}@127.0.0.1:9093",
        "log.dirs": "/data",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **OWN,
    }
