"""Those that are asked: three nodes of pykraft, and three of Apache Kafka, with the same settings.

All are formatted at the feature levels of our base, Kafka 4.2: they keep eligible leader replicas. Their voters are
static.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pykraft import Cluster
from pykraft.broker.settings.config import RACK_AWARE_SELECTOR
from pykraft.common.settings.config import parse_properties
from pykraft.metadata.versions import KRAFT_VERSION
from pykraft.protocol.messages.cluster import MetadataRequest
from tests.harness.apache_kafka import NEWEST, QUICK_START, VERSION, ApacheKafka
from tests.harness.asking import PATIENT, UNDISTURBED
from tests.harness.connection import answer_that

NODES = (1, 2, 3)
_NEWEST_METADATA = 12

COORDINATORS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
STAYING = {"auto.leader.rebalance.enable": "false"}
"""A leader stays where it is until a case moves it."""
PROPERTIES = (
    PATIENT
    | UNDISTURBED
    | COORDINATORS
    | STAYING
    | {"replica.fetch.wait.max.ms": "100", "replica.selector.class": RACK_AWARE_SELECTOR}
)


class Server(Protocol):
    """A cluster of three combined nodes."""

    name: str
    bootstrap_servers: str

    def address(self, node: int) -> str:
        """host:port of a node's broker listener."""
        ...

    def controller_address(self, node: int) -> str:
        """host:port of a node's controller listener."""
        ...

    def kill(self, node: int) -> None: ...

    def restart(self, node: int) -> None: ...

    def close(self) -> None: ...


class PykraftServer:
    """Three nodes of pykraft, in this process."""

    name = "pykraft"

    def __init__(self) -> None:
        self.cluster = Cluster(nodes=len(NODES), properties=PROPERTIES, features={KRAFT_VERSION: 0})
        self.bootstrap_servers = self.cluster.bootstrap_servers

    def address(self, node: int) -> str:
        return _listener(self.cluster.properties(node), "PLAINTEXT")

    def controller_address(self, node: int) -> str:
        return _listener(self.cluster.properties(node), "CONTROLLER")

    def kill(self, node: int) -> None:
        self.cluster.kill(node)

    def restart(self, node: int) -> None:
        self.cluster.restart(node)

    def close(self) -> None:
        self.cluster.close()


class ApacheServer:
    """Three nodes of Apache Kafka. The newest release is the one that the answers come from."""

    def __init__(self, version: str = VERSION) -> None:
        self.name = "apache" if version == NEWEST else f"apache-{version}"
        self.kafka = ApacheKafka(
            nodes=len(NODES),
            properties=PROPERTIES,
            heap="384m",
            java_options=QUICK_START,
            version=version,
            format_options=["--release-version", "4.2"],
        )
        self.bootstrap_servers = self.kafka.bootstrap_servers

    def address(self, node: int) -> str:
        return self.kafka.address(node)

    def controller_address(self, node: int) -> str:
        text = (self.kafka.folder(node) / "server.properties").read_text()
        return _listener(parse_properties(text), "CONTROLLER")

    def kill(self, node: int) -> None:
        self.kafka.kill(node)

    def restart(self, node: int) -> None:
        self.kafka.restart(node)

    def close(self) -> None:
        self.kafka.close()


def wait_until_led(server: Server, topic: str, nodes: Sequence[int] = NODES) -> None:
    """Until each of these nodes knows leaders of all its partitions: the controller has made the topic, brokers learn
    of it a moment later, and each for itself."""
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=False)
    for node in nodes:
        answer_that(_all_led, server.address(node), request, _NEWEST_METADATA)


def _all_led(answer: Any) -> bool:
    topic = answer.topics[0]
    return not topic.error_code and all(not p.error_code and p.leader_id >= 0 for p in topic.partitions)


def _listener(properties: dict[str, str], name: str) -> str:
    listeners = dict(text.split("://") for text in properties["listeners"].split(","))
    return listeners[name]
