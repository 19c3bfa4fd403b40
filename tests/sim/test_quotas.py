"""Minutes with very many connections: how much more than its quota a client gets with them. The clients take no notice
when they are throttled.

(`test_limits` has histories in which quotas change while nodes fall, `test_planted_bugs` the planted bugs.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft.client.administration.admin import AdminCalls, NewTopic
from pykraft.client.administration.quotas import ClientQuotaEntity, QuotaCalls
from pykraft.common.core import FOREVER, Outbound, Poll, RequestManager
from pykraft.common.quotas.entities import PRODUCER_BYTE_RATE
from pykraft.common.types import Node, Uuid
from pykraft.protocol.messages.data import ProduceResponse
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.quota_laws import QuotaLaws, most_bytes, steady_rate
from pykraft.sim.trouble.knobs import calm, draw
from pykraft.sim.workloads.limits_workload import overheard
from pykraft.sim.world.client_hosts import SimulatedClient
from tests.harness.asking import produce
from tests.harness.storage import NOW_MS
from tests.sim.histories import in_processes
from tests.sim.test_throttle import Asking

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


class Crowd(SimulatedCluster):
    """One broker, and many connections of one user that has a quota."""

    def __init__(self, size_bytes: int, every_ms: int) -> None:
        self._writing = [Writer(number, size_bytes, every_ms) for number in range(CROWD)]
        knobs = replace(calm(draw(1)), brokers=1, controllers=0, storm_until_ms=1 << 40, racks=(), features={})
        knobs = replace(knobs, producers=(), consumers=(), groups=(), admin_every_ms=0)
        slow = {"metadata.max.idle.interval.ms": 60_000, "broker.heartbeat.interval.ms": 5_000}
        self._settings = {**slow, "broker.session.timeout.ms": 60_000}
        super().__init__(1, replace(knobs, properties=self._settings, topic={}))
        self.laws = QuotaLaws(11, 1000)
        for machine in self.nodes.values():
            machine.connection_class = overheard(machine, self.laws)

    def _make_clients(self) -> None:
        super()._make_clients()
        self.asking = Asking()
        self._add_client("asking", self.asking)
        for number, writer in enumerate(self._writing):
            self._add_client(f"writer-{number}", writer)

    def _add_client(self, name: str, core: RequestManager) -> None:
        client = SimulatedClient(name, core, self.scheduler, self.network, self._dice(name), heeds_throttling=False)
        self.scheduler.after(1, lambda: client.act(lambda: None))

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
