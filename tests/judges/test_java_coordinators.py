"""The driver's coordinators on Apache Kafka: they are found by every version of the lookup, asked, and found again when
they have moved.

The coordinators of transactional ids are asked for producer ids (InitProducerId), which no other broker gives. What
pykraft's own coordinators answer beside Apache Kafka's is in tests/conformance/test_transactions.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from pykraft.client.api_driver import ApiDriver, ApiHandler
from pykraft.client.config import COMMON_CONFIG, bootstrap_endpoints, client_config
from pykraft.client.lookups import CoordinatorStrategy
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import Poll, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Node
from pykraft.protocol.messages.cluster import (
    GROUP_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykraft.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from pykraft.runtime.client_thread import ClientThread
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.asking import versions
from tests.harness.connection import answer_that

pytestmark = pytest.mark.limit(300)

NAMES = [f"name-{number}" for number in range(12)]
PATIENCE_MS = 60_000
PROPERTIES = {
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "broker.session.timeout.ms": "3000",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    """Three nodes; a test that kills one brings it back."""
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with ApacheKafka(nodes=3, properties=PROPERTIES, heap="384m", java_options=QUICK_START) as kafka:
        yield kafka


class Core:
    """A client with nothing but a driver. It is a RequestManager."""

    def __init__(self, servers: str) -> None:
        config = client_config(COMMON_CONFIG, {"bootstrap.servers": servers})
        random = Random(1)
        self.metadata = ClusterMetadata(config, bootstrap_endpoints(config), random)
        self.metadata.request_update()
        self.driver = ApiDriver(config, self.metadata, random)

    def poll(self, now: int) -> Poll:
        return merge([self.driver.poll(now), self.metadata.poll(now)])


class Client:
    """Asks the coordinators of transactional ids for producer ids."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._core = Core(kafka.bootstrap_servers)
        self.coordinators = self._core.driver.transaction_coordinators
        self._thread = ClientThread(self._core, "coordinators", Random(2))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.close()

    def producer_id(self, name: str) -> tuple[int, int]:
        """(producer id, epoch) from the coordinator of this transactional id."""
        handler: ApiHandler[str, tuple[int, int]] = ApiHandler(
            what="no producer id was given for {}",
            lookup=self.coordinators,
            request=lambda names: InitProducerIdRequest(transactional_id=names[0], transaction_timeout_ms=60_000),
            read=_producer_ids,
            channel="coordinator",
        )
        ask = self._core.driver.ask_all
        return self._thread.ask(lambda now: ask(handler, [name], now + PATIENCE_MS))[name]

    def coordinator(self, name: str) -> Node:
        """The broker that has given this name's producer id."""
        with self._thread.lock:
            node = self.coordinators.node_of(name)
        assert node is not None
        return node

    def mislead(self, name: str, node: Node) -> None:
        """Let the client believe that this broker is the coordinator."""
        wrong = FindCoordinatorResponse(node_id=node.id, host=node.host, port=node.port)
        with self._thread.lock:
            assert list(self.coordinators.read([name], wrong)) == [(name, None)]


def _producer_ids(names: Sequence[str], response: InitProducerIdResponse) -> list[tuple[str, tuple[int, int]]]:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    return [(names[0], (response.producer_id, response.producer_epoch))]


def test_every_version_of_the_lookup_finds_the_same_coordinators(kafka: ApacheKafka) -> None:
    found = {}
    for version in versions(FindCoordinatorRequest):
        strategy = CoordinatorStrategy(GROUP_COORDINATOR)
        wanted = list(NAMES)
        while wanted:
            response = answer_that(_is_found, kafka.address(1), strategy.request(wanted), version)
            errors = dict(strategy.read(wanted, response))
            assert set(errors.values()) == {None} and len(errors) == (len(NAMES) if version >= 4 else 1)
            wanted = [name for name in wanted if name not in errors]
        found[version] = {name: strategy.node_of(name) for name in NAMES}
    assert len(found) == 7
    assert all(nodes == found[0] for nodes in found.values())
    assert len(set(found[0].values())) == 3


def _is_found(response: FindCoordinatorResponse) -> bool:
    return not (response.error_code or any(each.error_code for each in response.coordinators))


def test_each_name_has_its_producer_id_from_its_own_coordinator(kafka: ApacheKafka) -> None:
    with Client(kafka) as client:
        first = {name: client.producer_id(name) for name in NAMES}
        assert len({producer_id for producer_id, _ in first.values()}) == len(NAMES)
        assert len({client.coordinator(name).id for name in NAMES}) == 3
        again = {name: client.producer_id(name) for name in NAMES}
    assert again == {name: (producer_id, epoch + 1) for name, (producer_id, epoch) in first.items()}


def test_a_broker_that_is_not_the_coordinator_says_so_and_the_right_one_is_found(kafka: ApacheKafka) -> None:
    with Client(kafka) as client:
        producer_id, epoch = client.producer_id(NAMES[0])
        right = client.coordinator(NAMES[0])
        wrong = next(node for node in kafka.nodes if node != right.id)
        host, _, port = kafka.address(wrong).rpartition(":")
        client.mislead(NAMES[0], Node(wrong, host, int(port)))
        assert client.producer_id(NAMES[0]) == (producer_id, epoch + 1)
        assert client.coordinator(NAMES[0]) == right


def test_when_the_coordinator_dies_its_successor_is_found(kafka: ApacheKafka) -> None:
    with Client(kafka) as client:
        producer_id, epoch = client.producer_id(NAMES[0])
        dead = client.coordinator(NAMES[0])
        kafka.kill(dead.id)
        try:
            assert client.producer_id(NAMES[0]) == (producer_id, epoch + 1)
            assert client.coordinator(NAMES[0]) != dead
        finally:
            kafka.restart(dead.id)
