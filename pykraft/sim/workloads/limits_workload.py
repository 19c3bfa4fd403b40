"""Administrators that change quotas, or rules of access, while nodes fall; and who looks whether the nodes keep them.

What passes through the connections of the brokers is held against `laws.quota_laws`. The clients take no notice when
they are throttled: else they would keep the quotas, whatever the brokers do. The rules of access are about principals
that no client has, and are held against `laws.rule_laws` after each change. So neither hinders the other clients' work.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from pykraft.client.administration.acls import AclCalls
from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity, QuotaCalls, QuotaChanges
from pykraft.common.acl import (
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.common.quotas.entities import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.quota_laws import QuotaLaws
from pykraft.sim.laws.rule_laws import check_rules, check_same_rules
from pykraft.sim.trouble.limits import QUOTA_SAMPLES, LimitKnobs
from pykraft.sim.workloads.workload import admin_core
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.transport.server_connection import Answer, QueuedRequest, ServerConnection

_SAMPLE_MS = 1_000
_REQUEST_MS = 3_000
_AGAIN_MS = 200
_TAKEN_AWAY = 0.3
"""Of how many changes a quota is taken away."""
_RULES_MADE = 0.6
_USER = "ANONYMOUS"
_RATES = (300.0, 1000.0, 3000.0, 10_000.0)
_KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
_ENTITIES = [
    ClientQuotaEntity(client_id="producer-0"),
    ClientQuotaEntity(client_id=DEFAULT),
    ClientQuotaEntity(user=_USER),
    ClientQuotaEntity(user=_USER, client_id="producer-1"),
    ClientQuotaEntity(user=_USER, client_id=DEFAULT),
    ClientQuotaEntity(user=DEFAULT, client_id="consumer-0"),
    ClientQuotaEntity(user=DEFAULT),
]
_FIRST: QuotaChanges = {
    ClientQuotaEntity(client_id=DEFAULT): {PRODUCER_BYTE_RATE: 300.0, CONSUMER_BYTE_RATE: 300.0},
    ClientQuotaEntity(user=_USER, client_id=DEFAULT): {PRODUCER_BYTE_RATE: 1000.0},
}
"""The second goes before the first. Each client id has an account of its own."""
_RULES = [
    AclBinding(AclResourceType.TOPIC, name, pattern, f"User:{who}", WILDCARD, operation, permission)
    for permission in (AclPermissionType.ALLOW, AclPermissionType.DENY)
    for who in ("alice", "*")
    for operation in (AclOperation.READ, AclOperation.ALL)
    for name, pattern in (("t", PatternType.LITERAL), ("t", PatternType.PREFIXED), ("*", PatternType.LITERAL))
]
_PRINCIPALS, _TOPICS = ("User:alice", "User:bob"), ("t", "tea")


class QuotaSetter:
    """Sets and takes away one quota after another; in the end it takes all away. It is a RequestManager."""

    def __init__(self, servers: str, every_ms: tuple[int, int], random: Random) -> None:
        self._random = random
        self._every_ms = every_ms
        self._metadata, self._driver = admin_core(servers, random)
        self._next = 0
        self.is_active, self.is_done = True, False
        self.made = 0

    def poll(self, now: int) -> Poll:
        if now >= self._next and not self.is_done:
            self._next = FOREVER
            quotas = QuotaCalls(self._driver)
            if self.is_active:
                promise = quotas.alter(self._change() if self.made else _FIRST, False, now + _REQUEST_MS)
                promise.then(lambda result: self._on_answer(result, now))
            else:
                nothing: QuotaChanges = {entity: dict.fromkeys(_KEYS) for entity in _ENTITIES}
                quotas.alter(nothing, False, now + _REQUEST_MS).then(lambda result: self._on_end(result, now))
        return merge([Poll(self._next), self._driver.poll(now), self._metadata.poll(now)])

    def _change(self) -> QuotaChanges:
        rate = None if self._random.random() < _TAKEN_AWAY else self._random.choice(_RATES)
        return {self._random.choice(_ENTITIES): {self._random.choice(_KEYS): rate}}

    def _on_answer(self, result: object, asked: int) -> None:
        self.made += not isinstance(result, KafkaError)
        self._next = asked + self._random.randint(*self._every_ms)

    def _on_end(self, result: object, asked: int) -> None:
        self.is_done = not isinstance(result, KafkaError)
        self._next = asked + _AGAIN_MS


class RuleMaker:
    """Makes and removes rules of access, one after another. It is a RequestManager."""

    def __init__(self, servers: str, every_ms: tuple[int, int], on_change: Callable[[], None], random: Random) -> None:
        self._random = random
        self._every_ms = every_ms
        self._on_change = on_change
        self._metadata, self._driver = admin_core(servers, random)
        self._next = 0
        self.is_active = True
        self.made = self.removed = 0

    def poll(self, now: int) -> Poll:
        if now >= self._next and self.is_active:
            self._next = FOREVER
            calls, chosen = AclCalls(self._driver), self._random.sample(_RULES, 2)
            if self._random.random() < _RULES_MADE:
                calls.create_acls(chosen, now + _REQUEST_MS).then(lambda result: self._on_answer(result, now, True))
            else:
                filters = [AclBindingFilter(*chosen[0]), AclBindingFilter(principal=chosen[1].principal)]
                calls.delete_acls(filters, now + _REQUEST_MS).then(lambda result: self._on_answer(result, now, False))
        return merge([Poll(self._next), self._driver.poll(now), self._metadata.poll(now)])

    def _on_answer(self, result: object, asked: int, is_made: bool) -> None:
        if not isinstance(result, KafkaError):
            self.made += is_made
            self.removed += not is_made
            self._on_change()
        self._next = asked + self._random.randint(*self._every_ms)


class LimitsWorkload:
    """The administrators of quotas and rules that a seed has, and the laws."""

    def __init__(
        self, knobs: LimitKnobs, servers: str, nodes: Mapping[int, SimulatedNode], dice: Callable[[str], Random]
    ) -> None:
        self._nodes = nodes
        self.quota_laws = QuotaLaws(QUOTA_SAMPLES, _SAMPLE_MS)
        self.setter = None if knobs.quotas_ms is None else QuotaSetter(servers, knobs.quotas_ms, dice("quotas"))
        self.rule_maker = (
            None if knobs.rules_ms is None else RuleMaker(servers, knobs.rules_ms, self._check_rules, dice("rules"))
        )
        if self.setter is not None:
            for machine in nodes.values():
                machine.connection_class = overheard(machine, self.quota_laws)

    def clients(self) -> list[tuple[str, Any]]:
        """Each with its name."""
        found = [("quotas", self.setter), ("rules", self.rule_maker)]
        return [(name, client) for name, client in found if client is not None]

    @property
    def missing(self) -> str | None:
        """Why it has not settled; None if it has."""
        return None if self.setter is None or self.setter.is_done else "the quotas are not taken away yet"

    def end(self) -> None:
        """From now on quotas and rules stay."""
        for _, client in self.clients():
            client.is_active = False

    def check(self) -> None:
        nodes = {node_id: machine.node for node_id, machine in self._nodes.items() if machine.node is not None}
        if self.setter is not None:
            for node_id, node in nodes.items():
                follows = node.client_quotas._followed is node.loader.image.client_quotas
                require(follows, f"node {node_id} goes by other quotas than its image has")
        if self.rule_maker is not None:
            check_same_rules(nodes)
            self._check_rules()

    def _check_rules(self) -> None:
        for node_id, machine in self._nodes.items():
            if machine.node is not None:
                check_rules(node_id, machine.node, _PRINCIPALS, _TOPICS)


def overheard(machine: SimulatedNode, laws: QuotaLaws) -> type[ServerConnection]:
    """Connections of this node whose answers the laws see as they are sent."""

    class Overheard(ServerConnection):
        def respond(self, request: QueuedRequest, answer: Answer) -> QueuedRequest | None:
            context, response = request.inbound.context, answer.response
            if context.api_key not in (ProduceRequest.api, FetchRequest.api) or not self.is_open:
                return super().respond(request, answer)
            key, size = PRODUCER_BYTE_RATE, context.size_bytes
            if isinstance(response, FetchResponse):
                key = CONSUMER_BYTE_RATE
                size = sum(len(each.records or b"") for topic in response.responses for each in topic.partitions)
            following = super().respond(request, answer)
            message = request.inbound.message
            if machine.node is not None and not (isinstance(message, FetchRequest) and _is_of_a_node(message)):
                laws.see(
                    (machine.node_id, machine.life),
                    machine.node.loader.image.client_quotas,
                    key,
                    (_USER, context.client_id or ""),
                    context.connection_id,
                    size,
                    request.throttle_ms if key == PRODUCER_BYTE_RATE else 0,
                    machine.scheduler.now,
                )
            return following

    return Overheard


def _is_of_a_node(request: FetchRequest) -> bool:
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)
