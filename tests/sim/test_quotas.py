"""Histories of a cluster whose quotas change all the time, while nodes fall: no client gets more than the laws say,
and none is held back for another. The clients take no notice when they are throttled.
(`test_planted_bugs` has the planted bugs.)
And minutes with very many connections: how much more than its quota a client gets with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from pykraft.broker.settings.quota_config import QUOTA_WINDOW_NUM
from pykraft.client.administration.admin import AdminCalls, NewTopic
from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity, QuotaCalls, QuotaChanges
from pykraft.common.core import FOREVER, Outbound, Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.common.quotas.entities import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from pykraft.common.types import Node, Uuid
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.quota_laws import QuotaLaws, most_bytes, steady_rate
from pykraft.sim.trouble.knobs import calm, draw
from pykraft.sim.workloads.workload import admin_core
from pykraft.transport.peers import Peers
from pykraft.transport.server_connection import Answer, QueuedRequest, ServerConnection
from tests.harness.asking import produce
from tests.harness.storage import NOW_MS
from tests.sim.histories import in_processes
from tests.sim.test_throttle import Asking

SHORT, LONG = (5,), (0, 4, 5, 9, 12, 17, 23, 31)
SAMPLES = 3
"""Two seconds' worth come at once, so that a short history meets its quotas."""
ENTITIES = [
    ClientQuotaEntity(client_id="producer-0"),
    ClientQuotaEntity(client_id=DEFAULT),
    ClientQuotaEntity(user="ANONYMOUS"),
    ClientQuotaEntity(user="ANONYMOUS", client_id="producer-1"),
    ClientQuotaEntity(user="ANONYMOUS", client_id=DEFAULT),
    ClientQuotaEntity(user=DEFAULT, client_id="consumer-0"),
    ClientQuotaEntity(user=DEFAULT),
]
FIRST: QuotaChanges = {
    ClientQuotaEntity(client_id=DEFAULT): {PRODUCER_BYTE_RATE: 300.0, CONSUMER_BYTE_RATE: 300.0},
    ClientQuotaEntity(user="ANONYMOUS", client_id=DEFAULT): {PRODUCER_BYTE_RATE: 1000.0},
}
"""The second goes before the first. Each client id has an account of its own."""
RATES = (300.0, 1000.0, 3000.0, 10_000.0)


class QuotaSetter:
    """Sets and takes away one quota after another; in the end it takes all away. It is a RequestManager."""

    def __init__(self, servers: str, random: Random) -> None:
        self._random = random
        self._metadata, self._driver = admin_core(servers, random)
        self._next = 0
        self.is_ending = self.is_done = False
        self.made = 0

    def poll(self, now: int) -> Poll:
        if now >= self._next and not self.is_done:
            self._next = FOREVER
            quotas = QuotaCalls(self._driver)
            keys = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
            if self.is_ending:
                nothing = {entity: dict.fromkeys(keys) for entity in ENTITIES}
                quotas.alter(nothing, False, now + 3000).then(lambda result: self._on_end(result, now))
            else:
                rate = None if self._random.random() < 0.3 else self._random.choice(RATES)
                change: QuotaChanges = (
                    {self._random.choice(ENTITIES): {self._random.choice(keys): rate}} if self.made else FIRST
                )
                quotas.alter(change, False, now + 3000).then(lambda result: self._on_answer(result, now))
        return merge([Poll(self._next), self._driver.poll(now), self._metadata.poll(now)])

    def end(self) -> None:
        self.is_ending = True

    def _on_answer(self, result: object, asked: int) -> None:
        self.made += not isinstance(result, KafkaError)
        self._next = asked + self._random.randint(200, 1500)

    def _on_end(self, result: object, asked: int) -> None:
        self.is_done = not isinstance(result, KafkaError)
        self._next = asked + 200


class Limited(SimulatedCluster):
    """A cluster whose quotas are never left alone."""

    def __init__(self, seed: int) -> None:
        knobs = draw(seed)
        knobs = replace(knobs, groups=(), transactions=None, elections=None, recreations=None)
        super().__init__(seed, replace(knobs, properties={**knobs.properties, QUOTA_WINDOW_NUM.name: SAMPLES}))
        self.laws = QuotaLaws(SAMPLES, 1000)
        self._watch_connections()

    def _make_clients(self) -> None:
        super()._make_clients()
        servers = ",".join(f"node-{node_id}:9092" for node_id in range(1, self.knobs.brokers + 1))
        self.setter = QuotaSetter(servers, self._dice("quotas"))
        self._add_client("quotas", self.setter)

    def _end_storm(self) -> None:
        self.setter.end()
        super()._end_storm()

    def _watch_connections(self) -> None:
        """See each answer of each node, as it is sent. (This process has no other cluster.)"""
        respond, laws = ServerConnection.respond, self.laws
        Peers.heed = lambda self, endpoint, response, now: None  # type: ignore[method-assign]

        def seen(connection: ServerConnection, request: QueuedRequest, answer: Answer) -> QueuedRequest | None:
            context, response = request.inbound.context, answer.response
            if context.api_key not in (ProduceRequest.api, FetchRequest.api) or not connection.is_open:
                return respond(connection, request, answer)
            key, size = PRODUCER_BYTE_RATE, context.size_bytes
            if isinstance(response, FetchResponse):
                key, size = (
                    CONSUMER_BYTE_RATE,
                    sum(len(p.records or b"") for t in response.responses for p in t.partitions),
                )
            machine = self.nodes[int(context.connection_id.split("-")[1])]
            following = respond(connection, request, answer)
            is_replica = isinstance(request.inbound.message, FetchRequest) and _is_of_a_node(request.inbound.message)
            if machine.node is not None and not is_replica:
                laws.see(
                    (machine.node_id, machine.life),
                    machine.node.loader.image.client_quotas,
                    key,
                    ("ANONYMOUS", context.client_id or ""),
                    context.connection_id,
                    size,
                    request.throttle_ms if key == PRODUCER_BYTE_RATE else 0,
                    self.scheduler.now,
                )
            return following

        ServerConnection.respond = seen  # type: ignore[method-assign]


def _is_of_a_node(request: FetchRequest) -> bool:
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)


def outcome(seed: int) -> tuple[int, int, int, int]:
    """(changes made, requests with a quota, those that were throttled, records acknowledged)."""
    cluster = Limited(seed)
    report = cluster.run()
    for machine in cluster.nodes.values():
        if machine.node is not None:
            assert machine.node.client_quotas._followed is machine.node.loader.image.client_quotas
    return cluster.setter.made, cluster.laws.charged, cluster.laws.throttled, report.progress.acknowledged


@pytest.mark.limit(900)
def test_quotas_may_change_at_any_time(request: pytest.FixtureRequest) -> None:
    found = in_processes(outcome, LONG if request.config.getoption("--long") else SHORT)
    for made, charged, throttled, acknowledged in found:
        assert made >= 3 and charged > 50 and throttled > 3 and acknowledged > 100, found


# --- minutes, and many connections ------------------------------------------------------------------------------------

CROWD, RATE, REQUEST_BYTES = 10, 20_000, 20_000
MINUTES = 4
WINDOW_S = 11.5
"""How far eleven samples reach back, on average."""
TOGETHER_MS = 11_000
"""After this time the samples have forgotten everything."""


class Writer:
    """Writes requests of one size to the only broker, each when the one before is answered, or with all others at once.
    It is a RequestManager."""

    def __init__(self, name: int, size_bytes: int, every_ms: int) -> None:
        self._name = name
        self._size_bytes = size_bytes
        self._topic_id: Uuid | None = None
        self._written = 0
        self._every_ms = every_ms
        self._next = FOREVER

    def start(self, topic_id: Uuid, now: int) -> None:
        self._topic_id = topic_id
        self._next = now

    def poll(self, now: int) -> Poll:
        if self._topic_id is None:
            return Poll(now + 500)
        if now < self._next:
            return Poll(self._next)
        self._next = now - now % self._every_ms + self._every_ms if self._every_ms else FOREVER
        node = Node(1, "node-1", 9092)
        builder = RecordBatchBuilder()
        builder.append(NOW_MS, None, b"%d of %d " % (self._written, self._name) + b"x" * (self._size_bytes - 160))
        self._written += 1
        request = produce("crowd", builder.build(), topic_id=self._topic_id)
        return Poll(self._next, [Outbound("crowd", node, request, self._on_answer, 600_000)])

    def _on_answer(self, result: object, now: int) -> None:
        assert isinstance(result, ProduceResponse) and not result.responses[0].partition_responses[0].error_code, result
        if not self._every_ms:
            self._next = now


class Crowd(Limited):
    """One broker, and many connections of one user that has a quota."""

    def __init__(self, size_bytes: int, every_ms: int) -> None:
        self._writing = [Writer(number, size_bytes, every_ms) for number in range(CROWD)]
        knobs = replace(calm(draw(1)), brokers=1, controllers=0, storm_until_ms=1 << 40, racks=(), features={})
        knobs = replace(knobs, producers=(), consumers=(), groups=(), admin_every_ms=0)
        slow = {"metadata.max.idle.interval.ms": 60_000, "broker.heartbeat.interval.ms": 5_000}
        self._settings = {**slow, "broker.session.timeout.ms": 60_000}
        SimulatedCluster.__init__(self, 1, replace(knobs, properties=self._settings, topic={}))
        self.laws = QuotaLaws(11, 1000)
        self._watch_connections()

    def _make_clients(self) -> None:
        SimulatedCluster._make_clients(self)
        self.asking = Asking()
        self._add_client("asking", self.asking)
        for number, writer in enumerate(self._writing):
            self._add_client(f"writer-{number}", writer)

    def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.step()

    def written(self) -> float:
        """How many bytes a second are written, in some minutes."""
        self.begin()
        self.until(lambda: self._maker.is_done)
        made = AdminCalls(self.asking.driver).create_topics([NewTopic("crowd", 1, 1)], False, 1000, FOREVER)
        self.until(lambda: made.kept)
        user = ClientQuotaEntity(user="ANONYMOUS")
        changed = QuotaCalls(self.asking.driver).alter({user: {PRODUCER_BYTE_RATE: float(RATE)}}, False, FOREVER)
        self.until(lambda: changed.kept)
        began = self.scheduler.now
        self.until(lambda: self.scheduler.now >= began + 1000)
        node = self.nodes[1].node
        assert node is not None
        topic = node.loader.image.topic_named("crowd")
        assert topic is not None
        for writer in self._writing:
            writer.start(topic.topic_id, self.scheduler.now)
        self.until(lambda: self.scheduler.now >= began + MINUTES * 60_000)
        (used,) = self.laws._used.values()
        return used.total / (MINUTES * 60)

    def _end_storm(self) -> None:
        """There is none."""


def rate_of(pattern: tuple[int, int]) -> float:
    return Crowd(*pattern).written()


@pytest.mark.limit(300)
def test_many_connections_get_more_than_the_quota_for_minutes_and_no_more_than_the_law_says() -> None:
    evenly, together = in_processes(rate_of, [(REQUEST_BYTES, 0), (RATE * 21 // CROWD, TOGETHER_MS)])
    expected = steady_rate(RATE, CROWD, REQUEST_BYTES, WINDOW_S)
    assert expected > 1.4 * RATE and abs(evenly / expected - 1) < 0.05, (evenly, expected)
    assert 1.8 * RATE < together < 2.0 * RATE, "what is forgotten is not paid for"
    once = RATE * (MINUTES * 60 + 11) + CROWD * REQUEST_BYTES
    assert evenly * MINUTES * 60 > 1.2 * once, "a request for each connection comes with each window, not once"


def test_the_bound_of_what_may_be_written_is_above_every_pattern_and_near_the_worst() -> None:
    even, together = steady_rate(RATE, CROWD, REQUEST_BYTES, WINDOW_S), 21 / 11 * RATE
    for connections, largest, rate in (
        (CROWD, REQUEST_BYTES, even),
        (CROWD, RATE * 21 // CROWD, together),
        (1, RATE * 21, together),
    ):
        most = most_bytes(RATE, connections, largest, 11, 3600) / 3600
        assert rate < most < 2.2 * rate, (connections, largest, most, rate)
    assert most_bytes(RATE, 1, 1, 11, 0) > RATE * 21
