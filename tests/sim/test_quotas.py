"""Histories of a cluster whose quotas change all the time, while nodes fall: nobody gets more than its quota, and
nobody is held back for another. The clients take no notice when they are throttled. Planted bugs die by these laws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from pykraft.broker.settings.quota_config import QUOTA_WINDOW_NUM
from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity, QuotaCalls, QuotaChanges
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.common.quotas.entities import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from pykraft.metadata.client_quotas import QuotaTable, Sharing
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.quota_laws import QuotaLaws
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.workloads.workload import admin_core
from pykraft.transport.peers import Peers
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import Answer, QueuedRequest, ServerConnection
from tests.sim.histories import in_processes

SHORT, LONG = (5,), (0, 4, 5, 9, 12, 17, 23, 31)
OF_BUGS = 4
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


# --- planted bugs -----------------------------------------------------------------------------------------------------

BUGS: dict[str, Callable[[], None]] = {}


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    BUGS[plant.__name__] = plant
    return plant


@bug
def one_tenant_charged_for_another() -> None:
    """Each user and client id is charged on the account that all of them share."""
    find = QuotaTable.find
    QuotaTable.find = (  # type: ignore[method-assign]
        lambda self, user, client_id: (Sharing("", ""), find(self, user, client_id)[1])
    )


@bug
def a_muted_connection_that_is_read_on() -> None:
    done = ServerChannel.done
    ServerChannel.done = lambda self, context, throttled=False: done(self, context)  # type: ignore[method-assign]
    ServerConnection._unthrottle = lambda self, now: None  # type: ignore[method-assign]


@bug
def precedence_turned_round() -> None:
    """The quota of a client id goes before that of its user."""
    find = QuotaTable.find

    def turned(self: QuotaTable, user: str, client_id: str) -> Any:
        limits = self._limits
        for name in (client_id, None):
            if ("", name) in limits:
                return Sharing("", client_id), limits["", name]
        return find(self, user, client_id)

    QuotaTable.find = turned  # type: ignore[method-assign]


def death(work: tuple[str, int]) -> str | None:
    """How a history ends with this bug; None if it ends well."""
    name, seed = work
    BUGS[name]()
    try:
        outcome(seed)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.limit(300)
def test_planted_bugs_break_a_law() -> None:
    deaths = dict(zip(BUGS, in_processes(death, [(name, OF_BUGS) for name in BUGS]), strict=True))
    assert all(how is not None and "Violation: producer_byte_rate" in how for how in deaths.values()), deaths
