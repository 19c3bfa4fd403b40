"""Requests of the group APIs with values that no client sends: each is answered with an error code or with a response,
and none stops the node. Transactions may commit offsets of the groups.

The requests are random, with a bias: names, members, epochs and bytes are often those that the groups really have, so
that a request gets past the first check. A plan that raises anything but KafkaError ends the node, and this test.
"""

from __future__ import annotations

import contextlib
import struct
from random import Random
from typing import Any

import pytest

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise
from pykraft.common.errors import ProtocolError
from pykraft.common.types import Uuid
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.coordinators import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from pykraft.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from pykraft.protocol.schema import Struct
from pykraft.protocol.wire import Field, Fixed, Variable
from tests.harness.lone_node import LoneNode

SEEDS, REQUESTS = 6, 120
LONG_SEEDS, LONG_REQUESTS = 300, 400
MEMBERS = [JoinGroupRequest, JoinGroupRequest, JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest]
OTHERS: list[Any] = [
    *(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequest),
    *(OffsetCommitRequest, OffsetFetchRequest, OffsetDeleteRequest, ConsumerGroupDescribeRequest),
    *(DescribeGroupsRequest, ListGroupsRequest, DeleteGroupsRequest),
    *(InitProducerIdRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, TxnOffsetCommitRequest, EndTxnRequest),
]
INTEGERS = [0, 0, 1, 2, 3, -1, -2, -3, 1000, 6000, 60_000, (1 << 31) - 1, -(1 << 31)]
TEXTS = ["", " ", "a", "g", "t", "\0", "é" * 16_000, "x" * 32_767, "range", "consumer", "(", ".*", "t|u"]
POOLS: dict[str, list[Any]] = {
    "group_id": ["g", "g", "g", "h", "h", "a"],
    "group_ids": ["g", "h", "a"],
    "groups": ["g", "h", "a"],
    "groups_names": ["g", "h"],
    "transactional_id": ["tx", "tx", "tx", "other", ""],
    "transaction_timeout_ms": [1000, 60_000],
    "protocol_type": ["consumer", "consumer", "consumer", "connect", None],
    "protocol_name": ["range", "range", "sticky", None],
    "session_timeout_ms": [6000, 6000, 10_000, 1_800_000],
    "rebalance_timeout_ms": [1, 1000, 60_000, -1, 0],
    "group_instance_id": [None, None, "i1", "i2"],
    "instance_id": [None, None, "i1", "i2"],
    "server_assignor": [None, None, "range", "uniform"],
    "subscribed_topic_names": ["t", "u", "nothing"],
    "subscribed_topic_regex": [None, None, "", "t|u", "(", ".*"],
    "topic": ["t", "u", "nothing"],
    "name": ["t", "t", "u", "range", "nothing"],
    "partition_index": [0, 0, 0, 1, -1],
    "partition_indexes": [0, 0, 1],
    "rack_id": [None, None, "r"],
}


class Attack:
    """One node, its groups, and what has been learnt about them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lone = LoneNode(group_initial_rebalance_delay_ms="0", broker_session_timeout_ms="600000")
        self.lone.create(GROUP_TOPIC, cleanup_policy="compact")
        self.lone.create(TRANSACTION_TOPIC, cleanup_policy="compact")
        self.topics = [self.lone.create("t"), self.lone.create("u")]
        self.lone.run(100)
        self.members = ["", "", "z"]
        self.epochs = [0, 0, 1, -1]
        self.producers = [(-1, -1), (0, 0)]
        self.waiting: list[tuple[Any, int, Promise[Answer]]] = []

    def strike(self) -> None:
        kind = self.random.choice(MEMBERS if self.random.random() < 0.5 else OTHERS)
        version = self.random.randint(*kind.versions)
        request = self.structure(kind, version)
        if self.random.random() < 0.7:
            request = self.sensible(request)
        try:
            request = kind.decode(request.to_bytes(version), version)
        except (struct.error, ProtocolError):  # an id that only newer versions can hold, or none
            return
        promise = self.lone.handle(request, version=version)
        self.lone.run(self.random.choice([1, 1, 1, 1, 700, 7000]))
        self.waiting.append((request, version, promise))
        still = []
        for each in self.waiting:
            if each[2].kept:
                self.learn(*each)
            else:
                still.append(each)
        self.waiting = still

    def learn(self, request: Any, version: int, promise: Promise[Answer]) -> None:
        with contextlib.suppress(struct.error):  # such an id is in the answer: the server hangs up
            promise.value.encode(self.lone.context(request, ListenerKind.BROKER, version, "User:test", "127.0.0.1"))
        response = promise.value.response
        for name, known in (("member_id", self.members), ("generation_id", self.epochs), ("member_epoch", self.epochs)):
            value = getattr(response, name, None)
            if value not in (None, ""):
                known.append(value)
        if getattr(response, "producer_id", -1) >= 0:
            self.producers.append((response.producer_id, response.producer_epoch))

    def sensible(self, request: Any) -> Any:
        """The request with what gets it past the first checks."""
        subscription = ConsumerProtocolSubscription(topics=self.random.choice([["t"], ["t", "u"], []]))
        match request:
            case JoinGroupRequest():
                protocol = JoinGroupRequest.Protocol(name="range", metadata=b"\0\1" + subscription.to_bytes(1))
                fields = {"protocol_type": "consumer", "protocols": [protocol], "session_timeout_ms": 6000}
                return request.replace(group_id=self.random.choice("gh"), rebalance_timeout_ms=9000, **fields)
            case ConsumerGroupHeartbeatRequest(member_epoch=0):
                fields = {"rebalance_timeout_ms": 9000, "topic_partitions": [], "server_assignor": None}
                return request.replace(member_id=self.random.choice("zy"), subscribed_topic_names=["t"], **fields)
            case SyncGroupRequest():
                each = [SyncGroupRequest.Assignment(member_id=m, assignment=b"") for m in self.members[-3:]]
                return request.replace(protocol_type="consumer", protocol_name="range", assignments=each)
            case InitProducerIdRequest() | AddOffsetsToTxnRequest() | TxnOffsetCommitRequest() | EndTxnRequest():
                producer_id, epoch = self.random.choice(self.producers[-2:])
                if isinstance(request, InitProducerIdRequest):
                    request = request.replace(transaction_timeout_ms=60_000)
                return request.replace(transactional_id="tx", producer_id=producer_id, producer_epoch=epoch)
        return request

    # --- requests -----------------------------------------------------------------------------------------------------

    def structure(self, kind: type[Struct], version: int) -> Any:
        return kind(**{f.name: self.value(f, version) for f in kind.fields if f.present(version)})

    def value(self, f: Field, version: int) -> Any:
        if f.nullable(version) and self.random.random() < 0.2:
            return None
        if f.wire.array:
            return [self.element(f, version) for _ in range(self.random.choice([0, 1, 1, 1, 2, 3]))]
        value = self.element(f, version)
        return f.default if value is None and not f.nullable(version) else value

    def element(self, f: Field, version: int) -> Any:
        random = self.random
        is_odd = random.random() < 0.08
        if f.name == "member_id" and not is_odd:
            return random.choice(self.members)
        if f.name in ("generation_id", "member_epoch", "generation_id_or_member_epoch") and not is_odd:
            return random.choice(self.epochs)
        if f.name in ("metadata", "assignment"):
            return self.consumer_bytes()
        if f.name in POOLS and not is_odd and not isinstance(f.wire.element, type):
            found = random.choice(POOLS[f.name])
            return found if found is not None or f.nullable(version) else "consumer"
        match f.wire.element:
            case None:
                return random.choice([*self.topics, Uuid(bytes(16)), Uuid(random.randbytes(16))])
            case Fixed("?"):
                return random.random() < 0.5
            case Fixed(_, size):
                limit = 1 << 8 * size - 1
                return max(-limit, min(limit - 1, random.choice([*INTEGERS, random.randrange(-limit, limit)])))
            case Variable("string"):
                return random.choice(TEXTS)
            case Variable():
                return random.randbytes(random.randrange(9))
            case inner:
                return self.structure(inner, version)

    def consumer_bytes(self) -> bytes:
        """A subscription or an assignment of a classic consumer, more often than not."""
        kind = self.random.choice([ConsumerProtocolSubscription, ConsumerProtocolAssignment, None])
        if kind is None:
            return self.random.randbytes(self.random.randrange(12))
        version = self.random.randint(*kind.versions)
        says = self.random.choice([version, version, version, -1, 9])
        data: bytes = says.to_bytes(2, "big", signed=True) + self.structure(kind, version).to_bytes(version)
        return data if self.random.random() < 0.9 else data[: self.random.randrange(len(data))]


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(SEEDS))
def test_hostile_requests_are_answered(seed: int) -> None:
    attack(seed, REQUESTS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS, LONG_SEEDS))
def test_many_hostile_requests_are_answered(seed: int) -> None:
    attack(seed, LONG_REQUESTS)


def attack(seed: int, requests: int) -> None:
    attack = Attack(seed)
    for _ in range(requests):
        attack.strike()
    attack.lone.run(100)
    groups = attack.lone.broker.groups
    written = dict(groups.runtime.active(0).groups)
    groups.runtime.resign(0)
    attack.lone.run(1)
    groups.runtime.lead(0, 99, attack.lone.now)
    attack.lone.run(100)
    loaded = groups.runtime.active(0).groups
    assert loaded.keys() == written.keys(), "another coordinator cannot load what was written"
    assert all(promise.kept for _, _, promise in attack.waiting), "a request was never answered"
